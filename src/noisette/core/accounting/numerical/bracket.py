"""Certified brackets of ε and δ for adaptive compositions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noisette import _validate
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import Pair
from noisette.core.accounting.numerical.plan import MAX_WINDOW
from noisette.core.accounting.numerical.problems import (
    DeltaProblem,
    EpsilonProblem,
    OrderProblem,
    Step,
)
from noisette.errors import InvalidParameter

ATTEMPTS = 6
FINE = 8.0


@dataclass(frozen=True)
class Bracket:
    """lower <= true value <= upper; ``reached`` says whether the asked width was met.

    Unpacks as ``lower, upper = bracket``.
    """

    lower: float
    upper: float
    reached: bool = True

    def __iter__(self) -> Iterator[float]:
        yield self.lower
        yield self.upper


def epsilon_bracket(
    orders: Sequence[Sequence[Step]], delta: float, rtol: float = 1e-3, atol: float = 1e-9
) -> Bracket:
    """Bracket the smallest ε at which the composition is (ε, δ)-private.  # proof: COMPOSE

    Parameters
    ----------
    orders : one composition per neighbour order
        Each is a list of ``(upper_pair, lower_pair or None, count)``; ``upper_pair`` dominates the
        step, ``lower_pair`` is dominated by it (usually the same object). A None is left out of
        the lower bound, which only lowers it.
    delta : float in (0, 1)
    rtol, atol : wanted width, ``max(rtol * upper, atol)``.

    Returns
    -------
    Bracket
        Maximum over the orders. ε = 0 when δ(0) <= delta; upper = inf when more than ``delta``
        of the mass has infinite loss. If the width cannot be met ``reached`` is False and the
        bounds are still valid.

    """
    delta = _validate.fraction("delta", delta)
    problems = [EpsilonProblem(steps, delta) for steps in _distinct(orders)]
    return _tighten(problems, _checked_rtol(rtol), atol)


def delta_bracket(
    orders: Sequence[Sequence[Step]], epsilon: float, rtol: float = 1e-3, atol: float = 1e-18
) -> Bracket:
    """Bracket δ(ε) = max over orders of the composed hockey-stick divergence.  # proof: COMPOSE

    Arguments as in ``epsilon_bracket``, with ``epsilon`` >= 0 fixed.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    problems = [DeltaProblem(steps, epsilon) for steps in _distinct(orders)]
    return _tighten(problems, _checked_rtol(rtol), atol)


def _checked_rtol(rtol: float) -> float:
    return max(_validate.fraction("rtol", rtol), 1e-7)


def _distinct(orders: Sequence[Sequence[Step]]) -> list[tuple[Step, ...]]:
    """Validate, merge equal steps, merge Gaussians, and drop repeated orders."""
    if not orders:
        raise InvalidParameter("orders must hold at least one composition.")
    return list(dict.fromkeys(_merged(steps) for steps in orders))


def _merged(steps: Sequence[Step]) -> tuple[Step, ...]:
    counts: dict[tuple[Pair, Pair | None], int] = {}
    square = 0.0
    for upper, lower, count in steps:
        _validate.integer("count", count, least=0)
        if isinstance(upper, GaussianPair) and upper == lower:
            # T-fold Gaussians are one Gaussian with the root of the summed squares
            square += count * upper.mu**2  # proof: GAUSS-EXACT
        elif count:
            counts[upper, lower] = counts.get((upper, lower), 0) + int(count)
    if square > 0:
        total = GaussianPair(math.sqrt(square))
        counts[total, total] = counts.get((total, total), 0) + 1
    return tuple((upper, lower, count) for (upper, lower), count in counts.items())


def _tighten(problems: Sequence[OrderProblem], rtol: float, atol: float) -> Bracket:
    """Improve the orders that decide the maximum until the width is met or attempts run out."""
    low, high, last, previous = 0.0, math.inf, math.inf, math.inf
    # Tables that can be refined are slow and a lattice is not: there it begins fine.
    width = rtol / FINE if any(p.refinable for p in problems) else rtol
    for attempt in range(ATTEMPTS):
        # an order whose upper bound is already below the known lower bound cannot matter
        active = [p for p in problems if attempt == 0 or p.high > low + atol]
        for problem in active:
            problem.prepare(width, attempt)
            problem.improve_upper()
        high = max(p.high for p in problems)
        for problem in sorted(active, key=lambda p: -p.high):
            if math.isfinite(high) and problem.high <= low + max(rtol * high, atol):
                continue
            problem.improve_lower()
            low = max(low, problem.low)
        low = min(low, high)
        stuck = all(p.done_upper for p in active if p.high == high)
        if math.isinf(high) and (math.isinf(low) or stuck):
            break  # infinite losses outweigh delta: nothing to refine
        allowed = max(rtol * high, atol) if math.isfinite(high) else 0.0
        if high - low <= allowed:
            return Bracket(low, high, True)
        one_sided = any(p.one_sided for p in active if p.high == high)
        if one_sided and last - high <= allowed / 4:
            break  # no lower end can come close; the upper one has settled
        last = high
        refined = [problem.refine_pairs() for problem in active]
        stalled = attempt >= 3 and high - low > 0.9 * previous
        stalled |= all(p.plan is None or p.plan.window > MAX_WINDOW // 2 for p in active)
        if not any(refined) and (stalled or all(p.single or p.done_upper for p in active)):
            break
        previous = high - low
        excess = (high - low) / allowed if allowed > 0 else 16.0
        width *= min(max(0.7 / excess, 1 / 16), 0.5) if excess < 50 else 0.25
    return Bracket(low, high, low == high)
