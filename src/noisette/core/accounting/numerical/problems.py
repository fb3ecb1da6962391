"""One neighbour order of a composition: the best bounds on ε or δ so far, and better ones."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from noisette.core.accounting.numerical.compose import Composition, LatticePart
from noisette.core.accounting.numerical.lattice import CertificateError, dominated, dominating
from noisette.core.accounting.numerical.pairs import LARGEST_LOSS, Pair
from noisette.core.accounting.numerical.plan import (
    Cumulant,
    LatticePlan,
    Part,
    indices,
    make_plan,
    offsets,
    saddle_for_delta,
    saddle_for_epsilon,
)

Step = tuple[Pair, Pair | None, int]
Curve = Callable[[float], float]

TAIL_SHARE = 0.02  # part of the allowed width spent on truncating heavy tails
SMALLEST_DELTA = 1e-280
SMALLEST_MASS = 1e-300  # special functions keep their digits above this


class OrderProblem(ABC):
    """One neighbour order: the best bounds so far and how to improve them."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = list(steps)
        self.low, self.high = 0.0, math.inf
        self.done_upper = self.done_lower = False
        self.plan: LatticePlan | None = None

    @abstractmethod
    def prepare(self, width: float, attempt: int) -> None:
        """Make the plan for an aimed width."""

    @abstractmethod
    def improve_upper(self) -> None:
        """Lower `high` to what the plan proves, unless nothing can lower it."""

    @abstractmethod
    def improve_lower(self) -> None:
        """Raise `low` to what the plan proves, unless nothing can raise it."""

    def upper_parts(self) -> list[Part]:
        """Return the dominating pairs with their counts."""
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
    def refinable(self) -> bool:
        """Whether some pair is a table that has a finer one."""
        return any(upper.refined() is not None for upper, _, _ in self.steps)

    @property
    def single(self) -> bool:
        """Whether there is one step, whose own curve needs no lattice."""
        return sum(count for _, _, count in self.steps) == 1

    @property
    def one_sided(self) -> bool:
        """Whether some step has a dominating pair only, so that no lower bound is near."""
        return any(lower is None for _, lower, _ in self.steps)

    def upper_curve(self) -> Curve:
        """Return an upper bound on δ(ε)."""
        if self.single:
            pair = self.steps[0][0]
            return lambda epsilon: pair.delta(epsilon) + pair.delta_error(epsilon)
        assert self.plan is not None
        return self._upper_composition(self.plan).upper

    def lower_curve(self) -> Curve | None:
        """Return a lower bound on δ(ε), or None where no step offers one."""
        if self.single:
            pair = self.steps[0][1]
            if pair is None:
                return None
            return lambda epsilon: _lower_delta(pair, epsilon)
        assert self.plan is not None
        composition = self._lower_composition(self.plan)
        return None if composition is None else composition.lower

    def _upper_composition(self, plan: LatticePlan) -> Composition:
        parts = []
        for pair, _, count in self.steps:
            index = indices(pair, count, plan)
            masses, infinite = dominating(pair, np.asarray(plan.step * index, dtype=np.float64))
            parts.append(LatticePart(index, masses, count, infinite))
        return Composition(parts, plan.step, plan.tilt, plan.window)

    def _lower_composition(self, plan: LatticePlan) -> Composition | None:
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


def _lower_part(pair: Pair, count: int, plan: LatticePlan) -> LatticePart | None:
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


def _lower_delta(pair: Pair, epsilon: float) -> float:
    """Lower bound on δ(ε) of one step: no Q-mass may be lost to underflow or beyond the cap on ε.

    ``Pair.delta`` leaves both on the safe side of an *upper* bound.
    """
    if epsilon > LARGEST_LOSS:
        return 0.0
    unseen = math.exp(epsilon) * SMALLEST_MASS
    return pair.delta(epsilon) - pair.delta_error(epsilon) - unseen


def _infinite(parts: Sequence[Part]) -> float:
    """P-mass of the event that any step has infinite loss."""
    return -math.expm1(math.fsum(n * math.log1p(-min(p.infinite_p, 1 - 1e-16)) for p, n in parts))


class EpsilonProblem(OrderProblem):
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
        """Aim at the ε that the saddle point, or the bounds so far, point to."""
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
        """Take the ε at which the upper curve crosses δ."""
        if self.done_upper:
            return
        guess = self.plan.epsilon if self.plan else 1.0
        self.high = min(self.high, crossing(self.upper_curve(), self.delta, guess)[1])

    def improve_lower(self) -> None:
        """Take the ε at which the lower curve crosses δ."""
        curve = None if self.done_lower else self.lower_curve()
        if curve is not None:
            guess = self.high if math.isfinite(self.high) else 1.0
            found = crossing(curve, self.delta, guess)[0]
            # Far below the end aliasing can hide a steep curve; every point that is above counts.
            near = (guess * (1.0 - share) for share in (1e-6, 1e-5, 1e-4, 1e-3))
            found = found or next((e for e in near if curve(e) > self.delta), 0.0)
            self.low = max(self.low, found)


class DeltaProblem(OrderProblem):
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
        """Aim at the δ that the saddle point estimates."""
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
        """Read the upper curve at ε."""
        if not self.done_upper:
            self.high = min(self.high, max(self.upper_curve()(self.epsilon), 0.0))

    def improve_lower(self) -> None:
        """Read the lower curve at ε."""
        curve = None if self.done_lower else self.lower_curve()
        if curve is not None:
            self.low = max(self.low, curve(self.epsilon))


def _scale(cumulant: Cumulant) -> float:
    """Rough standard deviation of the composed loss."""
    total = 0.0
    for losses, p, count in cumulant.parts:
        mean = float(p @ losses)
        total += count * float(p @ (losses - mean) ** 2)
    return math.sqrt(max(total, 0.0))


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
