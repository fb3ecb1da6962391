"""Certified brackets of ε and δ for adaptive compositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from noisette.accounting.numerical.compose import Composition, LatticePart
from noisette.accounting.numerical.lattice import dominated, dominating
from noisette.accounting.numerical.pairs.base import Pair
from noisette.accounting.numerical.pairs.gaussian import Gaussian
from noisette.accounting.numerical.plan import (
    MAX_WINDOW,
    Cumulant,
    Part,
    Plan,
    indices,
    make_plan,
    saddle_for_delta,
    saddle_for_epsilon,
)
from noisette.accounting.numerical.profile import offsets
from noisette.accounting.numerical.root import crossing
from noisette.errors import InvalidParameter

Step = tuple[Pair, Pair | None, int]

ATTEMPTS = 6
TAIL_SHARE = 0.02  # part of the allowed width spent on truncating heavy tails
SMALLEST_DELTA = 1e-280


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


def two_orders(*steps: tuple[Pair, int]) -> list[list[Step]]:
    """Both neighbour orders of tight steps ``(pair, count)``: the usual argument of a bracket."""
    return [
        [(pair, pair, count) for pair, count in steps],
        [(pair.swapped(), pair.swapped(), count) for pair, count in steps],
    ]


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
    delta = float(delta)
    if not 0 < delta < 1:
        raise InvalidParameter(f"delta must lie in (0, 1). Got {delta!r}.")
    problems = [_EpsilonProblem(steps, delta) for steps in _distinct(orders)]
    return _tighten(problems, _checked_rtol(rtol), atol)


def delta_bracket(
    orders: Sequence[Sequence[Step]], epsilon: float, rtol: float = 1e-3, atol: float = 1e-18
) -> Bracket:
    """Bracket δ(ε) = max over orders of the composed hockey-stick divergence.  # proof: COMPOSE

    Arguments as in ``epsilon_bracket``, with ``epsilon`` >= 0 fixed.
    """
    epsilon = float(epsilon)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidParameter(f"epsilon must be finite and at least 0. Got {epsilon!r}.")
    problems = [_DeltaProblem(steps, epsilon) for steps in _distinct(orders)]
    return _tighten(problems, _checked_rtol(rtol), atol)


def _checked_rtol(rtol: float) -> float:
    if not 0 < rtol < 1:
        raise InvalidParameter(f"rtol must lie in (0, 1). Got {rtol!r}.")
    return max(float(rtol), 1e-7)


def _distinct(orders: Sequence[Sequence[Step]]) -> list[tuple[Step, ...]]:
    """Validate, merge equal steps, merge Gaussians, and drop repeated orders."""
    if not orders:
        raise InvalidParameter("orders must hold at least one composition.")
    return list(dict.fromkeys(_merged(steps) for steps in orders))


def _merged(steps: Sequence[Step]) -> tuple[Step, ...]:
    counts: dict[tuple[Pair, Pair | None], int] = {}
    square = 0.0
    for upper, lower, count in steps:
        if int(count) != count or count < 0:
            raise InvalidParameter(f"count must be a whole number >= 0. Got {count!r}.")
        if isinstance(upper, Gaussian) and upper == lower:
            # T-fold Gaussians are one Gaussian with the root of the summed squares
            square += count * upper.mu**2  # proof: GAUSS-EXACT
        elif count:
            counts[upper, lower] = counts.get((upper, lower), 0) + int(count)
    if square > 0:
        total = Gaussian(math.sqrt(square))
        counts[total, total] = counts.get((total, total), 0) + 1
    return tuple((upper, lower, count) for (upper, lower), count in counts.items())


class _Problem:
    """One neighbour order: the best bounds so far and how to improve them."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = list(steps)
        self.low, self.high = 0.0, math.inf
        self.done_upper = self.done_lower = False
        self.plan: Plan | None = None
        self.error = 0.0

    def prepare(self, width: float, attempt: int) -> None:
        """Make the plan for an aimed width."""
        raise NotImplementedError

    def improve_upper(self) -> None:
        raise NotImplementedError

    def improve_lower(self) -> None:
        raise NotImplementedError

    def upper_parts(self) -> list[Part]:
        return [(upper, count) for upper, _, count in self.steps]

    def refine_pairs(self) -> bool:
        """Exchange approximate pairs for finer ones; True if any changed."""
        finer: list[Step] = []
        for upper, lower, count in self.steps:
            lower_finer = None if lower is None else (lower.refined() or lower)
            finer.append((upper.refined() or upper, lower_finer, count))
        changed = finer != self.steps
        self.steps = finer
        return changed

    @property
    def single(self) -> bool:
        return sum(count for _, _, count in self.steps) == 1

    def upper_composition(self, plan: Plan) -> Composition:
        parts = []
        for pair, _, count in self.steps:
            index = indices(pair, count, plan)
            masses, infinite = dominating(pair, np.asarray(plan.step * index, dtype=np.float64))
            parts.append(LatticePart(index, masses, count, infinite))
        return Composition(parts, plan.step, plan.tilt, plan.window)

    def lower_composition(self, plan: Plan) -> Composition | None:
        parts = []
        for _, pair, count in self.steps:
            if pair is None:
                continue
            part = _lower_part(pair, count, plan)
            if part is not None:
                parts.append(part)
            elif pair.infinite_p:
                # the trivial finite part: no information besides the infinite losses
                rest = np.array([1 - pair.infinite_p])
                parts.append(LatticePart(np.zeros(1, dtype=np.int64), rest, count, pair.infinite_p))
            # else: leaving a step out only lowers the bound
        return Composition(parts, plan.step, plan.tilt, plan.window) if parts else None


def _lower_part(pair: Pair, count: int, plan: Plan) -> LatticePart | None:
    """The dominated lattice with the offset that keeps most of the tilted moment."""
    index = indices(pair, count, plan)
    best: LatticePart | None = None
    score = -1.0
    for offset in offsets(pair, plan.step):
        x = np.asarray(plan.step * index + offset, dtype=np.float64)
        masses = dominated(pair, x)
        if masses is None:
            continue
        moment = float(masses @ np.exp(plan.tilt * (x - x[-1])))
        if moment > score:
            best, score = LatticePart(index, masses, count, pair.infinite_p, offset), moment
    return best


def _infinite(parts: Sequence[Part]) -> float:
    """P-mass of the event that any step has infinite loss."""
    return -math.expm1(math.fsum(n * math.log1p(-min(p.infinite_p, 1 - 1e-16)) for p, n in parts))


class _EpsilonProblem(_Problem):
    """ε at fixed δ."""

    def __init__(self, steps: tuple[Step, ...], delta: float) -> None:
        super().__init__(steps)
        self.delta = delta
        infinite = _infinite([(p, n) for p, _, n in self.steps])
        self.finite_delta = delta - infinite
        if _infinite([(p, n) for _, p, n in self.steps if p is not None]) > delta * (1 + 1e-9):
            self.low, self.done_lower = math.inf, True
        pure = math.fsum(count * pair.max_loss for pair, _, count in self.steps)
        if not self.steps:
            self.high, self.done_upper, self.done_lower = 0.0, True, True
        elif self.finite_delta <= delta * 1e-12:
            self.done_upper = True
        elif math.isfinite(pure):
            self.high = max(pure, 0.0) * (1 + 1e-15)  # proof: PURE-SUM

    def prepare(self, width: float, attempt: int) -> None:
        if self.single or not self.steps:
            return
        target = max(self.finite_delta, self.delta * 1e-9)
        cut = TAIL_SHARE * width * target
        cumulant = Cumulant(self.upper_parts(), cut)
        tilt, epsilon = saddle_for_delta(cumulant, target)
        known = min(self.high, max(epsilon, 0.0))
        if attempt and math.isfinite(self.high):
            known = self.high if self.low < 0.7 * self.high else (self.high + self.low) / 2
            tilt = saddle_for_epsilon(cumulant, known)[0] if known > 0 else tilt
        error = max(width * known, 1e-3 * width * _scale(cumulant), 1e-12)
        self.plan = make_plan(self.upper_parts(), cumulant, tilt, known, target, error, cut)

    def improve_upper(self) -> None:
        if self.done_upper:
            return
        bound: Callable[[float], float]
        if self.single:
            pair = self.steps[0][0]

            def bound(epsilon: float) -> float:
                return pair.delta(epsilon) + pair.delta_error(epsilon)
        else:
            assert self.plan is not None
            bound = self.upper_composition(self.plan).upper
        guess = self.plan.epsilon if self.plan else 1.0
        self.high = min(self.high, crossing(bound, self.delta, guess)[1])

    def improve_lower(self) -> None:
        if self.done_lower:
            return
        bound: Callable[[float], float]
        if self.single:
            pair = self.steps[0][1]
            if pair is None:
                return
            known = pair

            def bound(epsilon: float) -> float:
                return known.delta(epsilon) - known.delta_error(epsilon)
        else:
            assert self.plan is not None
            composition = self.lower_composition(self.plan)
            if composition is None:
                return
            bound = composition.lower
        guess = self.high if math.isfinite(self.high) else 1.0
        self.low = max(self.low, crossing(bound, self.delta, guess)[0])


class _DeltaProblem(_Problem):
    """δ at fixed ε."""

    def __init__(self, steps: tuple[Step, ...], epsilon: float) -> None:
        super().__init__(steps)
        self.epsilon = epsilon
        self.high = 1.0
        pure = math.fsum(count * pair.max_loss for pair, _, count in self.steps)
        if not self.steps or (epsilon >= max(pure, 0.0) and self._infinite() == 0):
            self.high, self.done_upper, self.done_lower = 0.0, True, True  # proof: PURE-SUM

    def _infinite(self) -> float:
        return math.fsum(pair.infinite_p for pair, _, _ in self.steps)

    def prepare(self, width: float, attempt: int) -> None:
        if self.single or self.done_upper:
            return
        cut = TAIL_SHARE * width * self.low
        cumulant = Cumulant(self.upper_parts(), cut)
        tilt, delta = saddle_for_epsilon(cumulant, self.epsilon)
        if attempt:
            delta = max(min(delta, self.high), SMALLEST_DELTA)
        cut = max(cut, TAIL_SHARE * width * min(delta, 1e-6) * 1e-3)
        error = width / (1 + tilt)
        self.plan = make_plan(self.upper_parts(), cumulant, tilt, self.epsilon, delta, error, cut)

    def improve_upper(self) -> None:
        if self.done_upper:
            return
        if self.single:
            pair = self.steps[0][0]
            value = pair.delta(self.epsilon) + pair.delta_error(self.epsilon)
        else:
            assert self.plan is not None
            value = self.upper_composition(self.plan).upper(self.epsilon)
        self.high = min(self.high, max(value, 0.0))

    def improve_lower(self) -> None:
        if self.done_lower:
            return
        if self.single:
            pair = self.steps[0][1]
            if pair is not None:
                value = pair.delta(self.epsilon) - pair.delta_error(self.epsilon)
                self.low = max(self.low, value)
            return
        assert self.plan is not None
        composition = self.lower_composition(self.plan)
        if composition is not None:
            self.low = max(self.low, composition.lower(self.epsilon))


def _scale(cumulant: Cumulant) -> float:
    """Rough standard deviation of the composed loss."""
    total = 0.0
    for losses, p, count in cumulant.parts:
        mean = float(p @ losses)
        total += count * float(p @ (losses - mean) ** 2)
    return math.sqrt(max(total, 0.0))


def _tighten(problems: Sequence[_Problem], rtol: float, atol: float) -> Bracket:
    """Improve the orders that decide the maximum until the width is met or attempts run out."""
    low, high, previous = 0.0, math.inf, math.inf
    width = rtol
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
        refined = [problem.refine_pairs() for problem in active]
        stalled = attempt >= 3 and high - low > 0.9 * previous
        stalled |= all(p.plan is None or p.plan.window > MAX_WINDOW // 2 for p in active)
        if not any(refined) and (stalled or all(p.single or p.done_upper for p in active)):
            break
        previous = high - low
        excess = (high - low) / allowed if allowed > 0 else 16.0
        width *= min(max(0.7 / excess, 1 / 16), 0.5) if excess < 50 else 0.25
    return Bracket(low, high, low == high)
