"""Certified brackets of ε and δ for adaptive compositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from noisette import _validate
from noisette.core.accounting.numerical.compose import Composition, LatticePart
from noisette.core.accounting.numerical.lattice import CertificateError, dominated, dominating
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import LARGEST_LOSS, Pair
from noisette.core.accounting.numerical.plan import (
    MAX_WINDOW,
    Cumulant,
    LatticePlan,
    Step,
    indices,
    make_plan,
    offsets,
    saddle,
)
from noisette.errors import InvalidParameter

Curve = Callable[[float], float]

ATTEMPTS = 6
FINE = 8.0
TAIL_SHARE = 0.02  # part of the allowed width spent on truncating heavy tails
SMALLEST_DELTA = 1e-280
SMALLEST_MASS = 1e-300  # special functions keep their digits above this


class Bracket(NamedTuple):
    """lower <= true value <= upper."""

    lower: float
    upper: float


def epsilon_bracket(
    orders: Sequence[Sequence[Step]], delta: float, rtol: float = 1e-3, atol: float = 1e-9
) -> Bracket:
    """Bracket the smallest ε at which the composition is (ε, δ)-private.  # proof: COMPOSE

    Each order is a list of ``(upper_pair, lower_pair or None, count)``; ``upper_pair`` dominates
    the step, ``lower_pair`` is dominated by it (usually the same object). A None is left out of the
    lower bound, which only lowers it. The wanted width is ``max(rtol * upper, atol)``; if it cannot
    be met the bounds are still valid. The maximum over the orders: ε = 0 when δ(0) <= delta;
    upper = inf when more than ``delta`` of the mass has infinite loss.
    """
    return _tighten(orders, rtol, atol, delta=_validate.fraction("delta", delta))


def delta_bracket(
    orders: Sequence[Sequence[Step]], epsilon: float, rtol: float = 1e-3, atol: float = 1e-18
) -> Bracket:
    """Bracket δ(ε) = max over orders of the composed hockey-stick divergence.  # proof: COMPOSE

    Arguments as in ``epsilon_bracket``, with ``epsilon`` >= 0 fixed.
    """
    return _tighten(orders, rtol, atol, epsilon=_validate.non_negative("epsilon", epsilon))


def _merged(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with equal ones together, and all Gaussians as one."""
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


def _tighten(
    orders: Sequence[Sequence[Step]], rtol: float, atol: float, *,
    delta: float | None = None, epsilon: float | None = None,
) -> Bracket:  # fmt: skip
    """Improve the orders that decide the maximum until the width is met or attempts run out."""
    if not orders:
        raise InvalidParameter("orders must hold at least one composition.")
    rtol = max(_validate.fraction("rtol", rtol), 1e-7)
    make = partial(OrderProblem, delta=delta, epsilon=epsilon)
    problems = list(map(make, dict.fromkeys(map(_merged, orders))))
    low, last, previous = 0.0, math.inf, math.inf
    # Tables that can be refined are slow and a lattice is not: there it begins fine.
    width = rtol / FINE if any(map(attrgetter("refinable"), problems)) else rtol
    for attempt in range(ATTEMPTS):
        # an order whose upper bound is already below the known lower bound cannot matter
        active = [p for p in problems if attempt == 0 or p.high > low + atol]
        for problem in active:
            problem.prepare(width, attempt)
            problem.improve_upper()
        high = max(map(attrgetter("high"), problems))
        for problem in sorted(active, key=attrgetter("high"), reverse=True):
            if math.isfinite(high) and problem.high <= low + max(rtol * high, atol):
                continue
            problem.improve_lower()
            low = max(low, problem.low)
        low = min(low, high)
        stuck, one_sided = True, False
        for problem in active:
            if problem.high == high:
                stuck &= problem.done_upper
                one_sided |= problem.one_sided
        if math.isinf(high) and (math.isinf(low) or stuck):
            break  # infinite losses outweigh delta: nothing to refine
        allowed = max(rtol * high, atol) if math.isfinite(high) else 0.0
        if high - low <= allowed:
            break
        if one_sided and last - high <= allowed / 4:
            break  # no lower end can come close; the upper one has settled
        last, refined, settled, largest = high, False, True, True
        for problem in active:
            refined |= problem.refine_pairs()
            settled &= problem.single or problem.done_upper
            largest &= problem.plan is None or problem.plan.window > MAX_WINDOW // 2
        stalled = largest or (attempt >= 3 and high - low > 0.9 * previous)
        if not refined and (stalled or settled):
            break
        previous = high - low
        excess = (high - low) / allowed if allowed > 0 else 16.0
        width *= min(max(0.7 / excess, 1 / 16), 0.5) if excess < 50 else 0.25
    return Bracket(low, high)


class OrderProblem:
    """One neighbour order: the best bounds so far on ε at fixed δ, or on δ at fixed ε."""

    def __init__(
        self, steps: tuple[Step, ...], *, delta: float | None = None, epsilon: float | None = None
    ) -> None:
        self.steps, self.delta, self.epsilon = list(steps), delta, epsilon
        self.low, self.high = 0.0, math.inf if epsilon is None else 1.0
        self.done_upper = self.done_lower = False
        self.plan: LatticePlan | None = None
        self.one_sided = self.refinable = False  # no lower end can come close; tables can be finer
        uses, pure = 0, []
        infinite: tuple[list[float], list[float]] = ([], [])
        for upper, lower, count in steps:
            uses += count
            pure.append(count * upper.support.max_loss)
            self.refinable |= upper.refined() is not None
            self.one_sided |= lower is None
            for pair, logs in zip((upper, lower), infinite, strict=True):
                if pair is not None:
                    logs.append(count * math.log1p(-min(pair.support.infinite_p, 1 - 1e-16)))
        self.single = uses == 1  # its own curve needs no lattice
        # P-mass of the event that any step has infinite loss, from both sides
        above, below = -math.expm1(math.fsum(infinite[0])), -math.expm1(math.fsum(infinite[1]))
        most = math.fsum(pure)
        self.target = 0.0 if delta is None else max(delta - above, delta * 1e-9)
        if not steps or (epsilon is not None and epsilon >= max(most, 0.0) and above == 0):
            self.high, self.done_upper, self.done_lower = 0.0, True, True  # proof: PURE-SUM
        elif delta is not None and delta - above <= delta * 1e-12:
            self.done_upper = True
        elif delta is not None and math.isfinite(most):
            self.high = max(most, 0.0) * (1 + 1e-15)  # proof: PURE-SUM
        if delta is not None and below > delta * (1 + 1e-9):
            self.low, self.done_lower = math.inf, True

    def prepare(self, width: float, attempt: int) -> None:
        """Make the plan for an aimed width, at the point that the saddle point estimates."""
        if self.single or not self.steps or (self.delta is None and self.done_upper):
            return
        cut = TAIL_SHARE * width * (self.low if self.delta is None else self.target)
        cumulant = Cumulant(self.steps, cut)
        if self.epsilon is not None:
            epsilon = self.epsilon
            tilt, delta = saddle(cumulant, epsilon=epsilon)
            if attempt:
                delta = max(min(delta, self.high), SMALLEST_DELTA)
            cut = max(cut, TAIL_SHARE * width * min(delta, 1e-6) * 1e-3)
            error = width / (1 + tilt)
        else:
            delta = self.target
            tilt, found = saddle(cumulant, delta=delta)
            epsilon = min(self.high, max(found, 0.0))
            if attempt and math.isfinite(self.high):
                near = self.low >= 0.7 * self.high
                epsilon = (self.high + self.low) / 2 if near else self.high
                tilt = saddle(cumulant, epsilon=epsilon)[0] if epsilon > 0 else tilt
            variance = 0.0  # of the composed loss, roughly
            for losses, p, count in cumulant.parts:
                mean = float(p @ losses)
                variance += count * float(p @ (losses - mean) ** 2)
            error = max(width * epsilon, 1e-3 * width * math.sqrt(max(variance, 0.0)), 1e-12)
        self.plan = make_plan(self.steps, cumulant, tilt, epsilon, delta, error, cut)

    def improve_upper(self) -> None:
        """Lower `high` to what the plan proves, unless nothing can lower it."""
        if self.done_upper:
            return
        plan = self.plan
        if self.single:
            curve: Curve = partial(_upper_delta, self.steps[0][0])
        else:
            assert plan is not None
            parts = []
            for pair, _, count in self.steps:
                index = indices(pair, count, plan)
                masses, infinite = dominating(pair, np.asarray(plan.step * index, dtype=np.float64))
                parts.append(LatticePart(index, masses, count, infinite))
            curve = Composition(parts, plan.step, plan.tilt, plan.window).upper
        if self.delta is None:
            assert self.epsilon is not None
            found = max(curve(self.epsilon), 0.0)
        else:
            found = crossing(curve, self.delta, plan.epsilon if plan else 1.0)[1]
        self.high = min(self.high, found)

    def improve_lower(self) -> None:
        """Raise `low` to what the plan proves, unless nothing can raise it."""
        curve = None if self.done_lower else self._lower_curve()
        if curve is None:
            return
        if self.delta is None:
            assert self.epsilon is not None
            found = curve(self.epsilon)
        else:
            guess = self.high if math.isfinite(self.high) else 1.0
            found = crossing(curve, self.delta, guess)[0]
            # Far below the end aliasing can hide a steep curve; every point that is above counts.
            for share in (1e-6, 1e-5, 1e-4, 1e-3):
                if not found and curve(guess * (1.0 - share)) > self.delta:
                    found = guess * (1.0 - share)
        self.low = max(self.low, found)

    def _lower_curve(self) -> Curve | None:
        """Return a lower bound on δ(ε), or None where no step offers one."""
        plan, pair = self.plan, self.steps[0][1]
        if self.single:
            return None if pair is None else partial(_lower_delta, pair)
        assert plan is not None
        parts = []
        for _, pair, count in self.steps:
            if pair is None:
                continue  # leaving a step out only lowers the bound
            index, best, score = indices(pair, count, plan), None, -1.0
            infinite = pair.support.infinite_p
            # the offset that keeps most of the tilted moment
            for offset in offsets(pair, plan.step):
                x = np.asarray(plan.step * index + offset, dtype=np.float64)
                masses = dominated(pair, x)
                if masses is not None:
                    moment = float(masses @ np.exp(plan.tilt * (x - x[-1])))
                    if moment > score:
                        best = LatticePart(index, masses, count, infinite, offset)
                        score = moment
            if best is None and infinite:
                # the trivial finite part: no information besides the infinite losses
                rest = np.array([1 - infinite])
                best = LatticePart(np.zeros(1, dtype=np.int64), rest, count, infinite)
            if best is not None:
                parts.append(best)
        return Composition(parts, plan.step, plan.tilt, plan.window).lower if parts else None

    def refine_pairs(self) -> bool:
        """Exchange approximate pairs for finer ones; True if any changed."""
        finer: list[Step] = []
        for upper, lower, count in self.steps:
            lower_finer = None if lower is None else (lower.refined() or lower)
            finer.append((upper.refined() or upper, lower_finer, count))
        before, self.steps = self.steps, finer
        return finer != before


def _upper_delta(pair: Pair, epsilon: float) -> float:
    """Upper bound on δ(ε) of one step."""
    return sum(pair.reading(epsilon))


def _lower_delta(pair: Pair, epsilon: float) -> float:
    """Lower bound on δ(ε) of one step: no Q-mass may be lost to underflow or beyond the cap on ε.

    ``Pair.reading`` leaves both on the safe side of an *upper* bound.
    """
    if epsilon > LARGEST_LOSS:
        return 0.0
    value, error = pair.reading(epsilon)
    return value - error - math.exp(epsilon) * SMALLEST_MASS


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
    fb, step = gap(b), 0.02
    if fb > 0:
        while fb > 0:
            a, fa = b, fb
            b *= 1 + step
            step *= 3
            if b > 1e7:
                return a, math.inf
            fb = gap(b)
    else:
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
