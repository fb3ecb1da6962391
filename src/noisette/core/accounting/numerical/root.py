"""Where a non-increasing bound on δ crosses a level, with both ends certified."""

from __future__ import annotations

import math
from collections.abc import Callable

from noisette.core.accounting.numerical.lattice import CertificateError


def crossing(bound: Callable[[float], float], delta: float, guess: float) -> tuple[float, float]:
    """Points a <= b with bound(a) > delta >= bound(b), close together; bound is non-increasing.

    Returns (0, 0) if bound(0) <= delta and (0, inf) if no b below 1e7 was found. Both ends were
    evaluated, so b is certified for an upper bound and a for a lower bound, whatever rounding does
    to the monotonicity in between. Illinois steps on log δ, safeguarded by bisection.
    """
    goal = math.log(delta)

    def gap(epsilon: float) -> float:
        value = bound(epsilon)
        if math.isnan(value):
            raise CertificateError("A bound on delta is not a number.")
        return (math.log(value) if value > 0 else -1e4) - goal

    b = min(max(guess, 1e-9), 1e6)
    fb = gap(b)
    if fb > 0:
        a, fa = b, fb
        step = 0.02
        while fb > 0:
            a, fa = b, fb
            b *= 1 + step
            step *= 3
            if b > 1e7:
                return a, math.inf
            fb = gap(b)
    else:
        step = 0.02
        a, fa = b, fb
        while fa <= 0:
            b, fb = a, fa
            a = a * (1 - step) if step < 0.9 else 0.0
            step *= 3
            fa = gap(a)
            if a == 0.0 and fa <= 0:
                return 0.0, 0.0
    side = 0
    wa, wb = fa, fb
    for count in range(80):
        if b - a <= 2e-6 * b + 1e-13:
            break
        c = (a * wb - b * wa) / (wb - wa)
        if count % 12 == 11 or not a < c < b:
            c = 0.5 * (a + b)
        margin = 4e-7 * b
        c = min(max(c, a + margin), b - margin) if b - a > 2 * margin else 0.5 * (a + b)
        fc = gap(c)
        if fc > 0:
            a, wa = c, fc
            wb = wb / 2 if side == 1 else wb
            side = 1
        else:
            b, wb = c, fc
            wa = wa / 2 if side == -1 else wa
            side = -1
    return a, b
