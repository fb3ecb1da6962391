"""A coarse discrete picture of a pair, for planning only: no guarantee depends on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import LARGEST_LOSS, Pair

_COARSE = np.concatenate(
    (-np.logspace(math.log10(LARGEST_LOSS), -11, 70), [0.0], np.logspace(-11, 2.8388, 70))
)
_NEAREST = np.argsort(np.abs(_COARSE[1:-1]), kind="stable")


@dataclass(frozen=True)
class Profile:
    """A coarse discrete picture of one pair: atoms (losses, p) and the cells they stand for."""

    losses: Floats
    p: Floats
    edges: Floats
    cells_p: Floats
    cells_q: Floats


@lru_cache(maxsize=512)
def profile(pair: Pair) -> Profile:
    """Representative finite losses (increasing) and their P-masses, a few hundred of them.

    First a coarse scan over all magnitudes finds the support; then cells on a sinh grid (6 %
    relative spacing, fine near 0) are replaced by atoms at log(p/q).
    """
    P, Q = pair.cells(_COARSE)
    inside = np.nonzero(P[1:-1] > 1e-60)[0]
    if len(inside) == 0:
        inside = np.array([len(_COARSE) // 2])
    low, high = float(_COARSE[inside[0]]), float(_COARSE[inside[-1] + 1])
    both = np.cumsum((P + Q)[1:-1][_NEAREST])
    reached = min(int(np.searchsorted(both, 0.02)), len(_NEAREST) - 1)
    scale = max(0.25 * abs(float(_COARSE[_NEAREST[reached]])), 1e-12)
    ends = np.arcsinh(np.array([low, high]) / scale)
    count = int(np.clip((ends[1] - ends[0]) / 0.06, 60, 700))
    edges = scale * np.sinh(np.linspace(ends[0], ends[1], count))
    P, Q = pair.cells(edges)
    P[-1] = max(P[-1] - pair.infinite_p, 0.0)
    keep = P > 1e-70
    with np.errstate(divide="ignore"):
        losses = np.log(P[keep]) - np.log(Q[keep])
    floor = np.concatenate(([-LARGEST_LOSS], edges))[keep]
    ceiling = np.concatenate((edges, [LARGEST_LOSS]))[keep]
    return Profile(np.clip(losses, floor, ceiling), P[keep], edges, P, Q)


def offsets(pair: Pair, step: float) -> list[float]:
    """Shifts of the lower lattice worth trying: they put the mean of a critical cell on it.

    Critical is a hard end of the support (a one-sided cell cannot be balanced by moving its
    edges) or the fullest cell. Without this a bulk much narrower than the step makes the lower
    bound collapse: a lattice pair whose atoms are all >= 0 is trivial.
    """
    if pair.pinned:
        return [0.0]
    shape = profile(pair)
    edges, P, Q = shape.edges, shape.cells_p, shape.cells_q
    found: dict[float, float] = {}
    for sign in (1, -1):
        if sign > 0:
            mass_p, mass_q = np.cumsum(P)[:-1], np.cumsum(Q)[:-1]
        else:
            mass_p, mass_q = np.cumsum(P[::-1])[-2::-1], np.cumsum(Q[::-1])[-2::-1]
        usable = (mass_p > 1e-6) & (mass_q > 1e-300)
        b = edges[usable]
        if len(b) < 2:
            continue
        # overshoot of the tail mean beyond its end; it must equal half a step
        excess = sign * (b - np.log(mass_p[usable] / mass_q[usable])) - step / 2
        flips = np.nonzero((excess[:-1] < 0) != (excess[1:] < 0))[0]
        if len(flips) == 0:
            continue
        at = int(flips[0] if sign > 0 else flips[-1])
        b0, b1, e0, e1 = b[at], b[at + 1], excess[at], excess[at + 1]
        for _ in range(2):
            guess = np.linspace(b0, b1, 9)
            p, q = pair.cells(guess)
            p, q = (
                (np.cumsum(p)[:-1], np.cumsum(q)[:-1])
                if sign > 0
                else (np.cumsum(p[::-1])[-2::-1], np.cumsum(q[::-1])[-2::-1])
            )
            e = sign * (guess - np.log(p / q)) - step / 2
            k = (
                int(np.clip(np.nonzero((e[:-1] < 0) != (e[1:] < 0))[0], 0, 7)[0])
                if ((e[:-1] < 0) != (e[1:] < 0)).any()
                else 0
            )
            b0, b1, e0, e1 = guess[k], guess[k + 1], e[k], e[k + 1]
        root = float(b0 - e0 * (b1 - b0) / (e1 - e0)) if e1 != e0 else float(b0)
        found[root - sign * 0.499 * step] = float(mass_p[usable][at])
    fullest = float(shape.losses[int(np.argmax(shape.p))])
    for _ in range(3):
        p, q = pair.cells(np.array([fullest - step / 2, fullest + step / 2]))
        if p[1] > 0 and q[1] > 0:
            fullest = float(np.log(p[1] / q[1]))
    ranked = sorted(found, key=lambda y: -found[y])[:1]
    return [y - step * round(y / step) for y in (*ranked, fullest)]
