"""The curve of a private search: the best of a random number of runs, from the curve of one run.

With h(X) = max(0, sup_s f'(1 - s) - X f'(1 - G(s))) the theorem SELECT-PROFILE bounds delta of the
search by E h(e^(eps - L)) over the loss L of one run. h is convex, falling and at last 0, so it is
a sum of hinges w_j (1 - X / t_j)_+, and the bound is the sum of w_j delta(eps - log t_j): it needs
the curve of one run at some points, and no law of its loss.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs import (
    LossTable,
    Mirrored,
    TablePair,
    bends,
    lower_hull,
)
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Plan, Selected

_FIRST, _FACTOR, _LAST = 1e-4, 1.02, 660  # the points at which one run is read, up to 47
_COARSE, _STEEP, _FAINT = 64, 1.5, 1e-4  # how many of them are enough for G
_BEYOND, _FLAT = 1e-3, 0.995  # once the curve has fallen so far, or hardly falls, it is cut off
_LARGEST = 50.0
_SAFETY = 1.0 + 1e-9  # roundings of some thousand positive terms, and of the law that is drawn


class RunCurve:
    """Upper bounds on delta of one run: a public lottery between plans, in both orders.

    The true curve is convex in e^eps, so chords between upper bounds are upper bounds.
    """

    def __init__(self, candidates: tuple[Plan, ...], adjacency: Adjacency) -> None:
        self._weights = Counter(candidates)
        self._count, self._adjacency = len(candidates), adjacency
        self._known: dict[int, float] = {}

    def at(self, epsilon: Floats) -> Floats:
        """Return the bound at every epsilon, of either sign."""
        exact = np.abs(epsilon)
        size = np.minimum(exact, _LARGEST)  # the curve falls: its value here is above that there
        k = self._number(size)
        low, high = self.knot(k), self.knot(k + 1)
        share = np.clip(np.expm1(size - low) / np.expm1(high - low), 0.0, 1.0)
        values = self._read(k) * (1.0 - share) + self._read(k + 1) * share
        # delta of the other order at the negative: H_g(P, Q) = 1 - g + g H_{1/g}(Q, P).
        # It rises with |eps|, so |eps| itself stands in g; a bound on the curve stays a bound.
        other = -np.expm1(-exact) + np.exp(-exact) * values
        return np.asarray(np.where(epsilon >= 0.0, values, other))

    @staticmethod
    def _number(size: Floats) -> np.ndarray:
        """Return the number of the last point that is not beyond `size`."""
        k = np.floor(np.log(np.maximum(size, _FIRST) / _FIRST) / math.log(_FACTOR))
        return np.asarray(np.where(size < _FIRST, -1, np.clip(k, 0, _LAST - 1))).astype(int)

    @staticmethod
    def knot(k: Any) -> Floats:
        """Return the k-th point; number -1 is 0."""
        return np.asarray(np.where(np.asarray(k) < 0, 0.0, _FIRST * _FACTOR ** np.asarray(k)))

    def _read(self, numbers: np.ndarray) -> Floats:
        # Imported late: these bounds count plans with searches in them.
        from noisette.core.accounting.front import run_delta

        for k in np.unique(numbers).tolist():
            if k not in self._known:
                # proof: LABEL (which candidate runs is drawn without looking, and may be seen)
                at = float(self.knot(k))
                self._known[k] = math.fsum(
                    count / self._count * run_delta(plan, at, self._adjacency)
                    for plan, count in self._weights.items()
                )
        return np.array([self._known[k] for k in numbers.ravel().tolist()]).reshape(numbers.shape)

    def lines(self) -> tuple[Floats, Floats]:
        """Return slopes g and heights delta(log g) of lines above the largest mass of a set."""
        chosen = {-1: self._one(-1)}
        for k in range(_COARSE, _LAST + 1, _COARSE):
            chosen[k] = self._one(k)
            if chosen[k] < _FAINT:
                break
        waiting = list(itertools.pairwise(chosen))
        while waiting:  # more of them where the curve falls
            left, right = waiting.pop()
            if right - left > 2 and chosen[left] > max(_STEEP * chosen[right], _FAINT):
                middle = (left + right) // 2
                chosen[middle] = self._one(middle)
                waiting += [(left, middle), (middle, right)]
        gamma = np.exp(self.knot(np.array(sorted(chosen))))
        heights = np.array([chosen[k] for k in sorted(chosen)])
        mirrored = 1.0 - 1.0 / gamma + heights / gamma
        return np.concatenate((1.0 / gamma, gamma)), np.concatenate((mirrored, heights))

    def first_below(self, delta: float) -> float:
        """Return a point of which the bound is at most `delta`, the least one; inf for none."""
        low, high = -1, _LAST
        if self._one(high) > delta:
            return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._one(middle) <= delta else (middle, high)
        return float(self.knot(high))

    def falls_to(self, part: float, epsilon: float) -> float:
        """Return a point beyond which the bound is at most `part` of what it is at `epsilon`."""
        k = int(self._number(np.array([epsilon]))[0])
        most, before = part * self._one(k), math.inf
        # It ends early where the curve is nearly flat already: no point lowers it much.
        while k < _LAST and most < self._one(k) < _FLAT * before:
            before, k = self._one(k), k + 1
        return float(self.knot(k))

    def _one(self, k: int) -> float:
        return float(self._read(np.array([k]))[0])


@dataclass(frozen=True)
class SearchCurve:
    """The profile bound of one search without `Parallel` parts."""

    leaf: Selected
    adjacency: Adjacency

    @cached_property
    def _run(self) -> RunCurve:
        return RunCurve(self.leaf.candidates, self.adjacency)

    @cached_property
    def _hinges(self) -> tuple[Floats, Floats]:
        """Weights w_j and log t_j of the hinges of h."""
        # proof: SELECT-PROFILE
        law, s = self.leaf.law, self.leaf.law.grid()
        slopes, heights = self._run.lines()
        reached = np.full(len(s), 1.0)
        for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
            reached = np.minimum(reached, slope * s + height)
        # In each cell the weight is largest at its left end, and the mass G at its right end.
        above, below = law.weight(s[:-1]), law.weight(reached[1:])
        widths, slopes = concave_majorant(below, above)
        return widths * slopes * _SAFETY, np.log(slopes)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at epsilon >= 0."""
        weights, logs = self._hinges
        flat = self._run.falls_to(_BEYOND, max(epsilon - float(logs[0]), 0.0))
        arguments = np.minimum(epsilon - logs, flat)
        return min(1.0, math.fsum((weights * self._run.at(arguments)).tolist()))

    def epsilon(self, delta: float) -> float:
        """Return an epsilon with `self.delta(epsilon) <= delta`, inf if there is none."""
        if self.delta(0.0) <= delta:
            return 0.0
        weights, logs = self._hinges
        # All hinges at the largest t: the simple corollary of the theorem.
        high = self._run.first_below(delta / math.fsum(weights.tolist())) + float(logs[0])
        if not math.isfinite(high):
            return math.inf
        low, step = 0.0, 0.03
        while high - low > 1e-5 * high and high > _FIRST:
            middle = max(high * (1.0 - step), low + 1e-6 * high)
            if self.delta(middle) <= delta:
                high = middle
            else:
                low, step = middle, step / 4.0
        return high


@lru_cache(maxsize=256)
def search_curve(leaf: Selected, adjacency: Adjacency) -> SearchCurve:
    """Return the curve of a search, whose readings are kept."""
    return SearchCurve(leaf, adjacency)


def pure_search(leaf: Selected, epsilon: float) -> float:
    """Return the pure epsilon of a search whose runs are all epsilon-private."""
    # proof: SELECT-PROFILE: the largest mass is G(s) = min(e^eps s, 1 - e^-eps (1 - s)), and
    # f'(1 - s) / f'(1 - G(s)) is largest where the two meet.
    if not math.isfinite(epsilon):
        return math.inf
    s = 1.0 / (1.0 + math.exp(epsilon)) if epsilon < 700.0 else 0.0
    gain = float(leaf.law.weight(s) / leaf.law.weight(1.0 - s))
    return (epsilon + math.log(gain)) * _SAFETY


def concave_majorant(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return widths and slopes, falling and positive, of the least concave line above the points.

    It starts at (0, 0) and ends at the highest point; x and y are positive.
    """
    order = np.lexsort((y, x))
    hull = [(0.0, 0.0)]
    for a, b in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if b <= hull[-1][1]:
            continue
        while len(hull) > 1 or a == hull[-1][0]:
            (x1, y1) = hull[-1]
            if a == x1:
                hull.pop()
                continue
            (x0, y0) = hull[-2]
            if (y1 - y0) * (a - x1) > (b - y1) * (x1 - x0):
                break
            hull.pop()
        hull.append((a, b))
    points = np.array(hull)
    widths, rises = np.diff(points[:, 0]), np.diff(points[:, 1])
    return widths, rises / widths


@dataclass(frozen=True)
class SearchPair(Mirrored, TablePair):
    """A pair above the curve of a search, in both orders, for composition with other charges.

    The bounds at some points, at most 1 and mirrored below 0, lie above the true curve, which is
    convex in g = e^eps; so does their lower convex envelope, which is the curve of a pair: its
    Q-mass at g is the change of the slope there, and its P-mass g times that.
    """

    leaf: Selected
    adjacency: Adjacency

    @cached_property
    def table(self) -> LossTable:
        """The atoms at the corners of the envelope."""
        # proof: SELECT-PROFILE
        curve, number = search_curve(self.leaf, self.adjacency), np.arange(200, _LAST, 2)
        epsilon = np.concatenate(([0.0], RunCurve.knot(number)))
        values = []
        for at in epsilon.tolist():
            values.append(curve.delta(at))
            settled = len(values) > 8 and values[-8] < 0.5 and values[-1] > 0.999 * values[-8]
            if values[-1] < 1e-18 or settled:
                break
        heights = np.minimum.accumulate(values)
        gamma = np.exp(epsilon[: len(heights)])
        below = 1.0 / gamma[:0:-1]
        mirrored = 1.0 - below + below * heights[:0:-1]
        x, y = np.concatenate(([0.0], below, gamma)), np.concatenate(([1.0], mirrored, heights))
        corners = lower_hull(x, y)
        x, q = x[corners][1:], bends(x[corners], y[corners])
        right = x > 1.0
        losses, q = np.log(x[right]), q[right]
        p, rest = q * x[right], float(heights[-1])
        middle = max(0.0, 1.0 - rest - math.fsum([*p.tolist(), *q.tolist()]))
        return LossTable(
            np.concatenate((-losses[::-1], [0.0], losses)),
            np.concatenate((q[::-1], [middle], p)), np.concatenate((p[::-1], [middle], q)),
            rest, rest,
        )  # fmt: skip
