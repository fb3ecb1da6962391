"""Calibration: the least noise, the most steps or the largest rate within (epsilon, delta)."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from noisette import _validate
from noisette.core.accounting import front
from noisette.core.accounting.base import counted
from noisette.core.accounting.numerical.bracket import OrderProblem
from noisette.core.accounting.numerical.lattice import CertificateError
from noisette.core.accounting.numerical.pairs import Pair, Swapped
from noisette.core.accounting.numerical.random_allocation import RandomAllocationPair
from noisette.core.accounting.pld import Composition, NumericalAccountant, has_allocation
from noisette.core.adjacency import Adjacency
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.errors import AdjacencyMismatch, InvalidParameter, Unproven

Find = Literal["noise", "steps", "rate"]
Point = tuple[float, float]  # (log(cost / target), log x)

_PRECISION = 1e-5  # relative, in the parameter
_CLOSE = 0.2  # of the precision: relative, in epsilon, below the target
_SLOW_PRECISION = 1e-4  # where one reading takes tenths of a second and is good to 1e-3 itself
_ROUGH = 1e-2  # the precision of a search that only finds where to begin
_ASIDE = 0.1  # of log x, for the slope at that beginning
_LEAST_JUMP, _LONGEST_JUMP = 1e-3, 2.0  # of log x, while only one side is known; the least grows
_FLATTEST, _STEEPEST = 0.5, 3.0  # slopes of log cost that are believed
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-4, 1e9
_SMALLEST_RATE = 1e-12
_MOST_STEPS = 10**9
_RESOLUTION = 0.25  # of the tables of a rough answer; their time grows with its square
_WIDTH = 1e-2


def calibrate(
    make_plan: Callable[..., PlanLike], *, epsilon: float, delta: float,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE, find: Find = "noise",
    start: float | None = None,
) -> float:  # fmt: skip
    """Return the best parameter x for which ``make_plan(x)`` stays within (epsilon, delta).

    ``find="noise"`` returns the smallest noise multiplier, ``"steps"`` the largest whole number of
    steps, ``"rate"`` the largest sampling rate. The result is re-checked: the plan's epsilon never
    exceeds the target. It lies within 1e-5 (relative) of the best that the accountant can certify;
    with random allocation, whose tables are slow, within 1e-4.

    Parameters
    ----------
    make_plan : callable
        Returns the plan for a value of the parameter.
    epsilon, delta : float
        The target.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.
    find : {"noise", "steps", "rate"}, default "noise"
        Which parameter is looked for.
    start : float, optional
        A guess of the noise or the rate, where the search begins. It changes the time that is
        taken, not what is certified.

    Returns
    -------
    float
        The parameter; a whole number for ``"steps"``.

    Raises
    ------
    InvalidParameter
        If no value reaches the target.
    Unproven
        If a sampler or mechanism has no theorem under this relation.

    Examples
    --------
    >>> from noisette import accounting, mechanisms
    >>> z = accounting.calibrate(lambda z: mechanisms.Laplace(z), epsilon=0.5, delta=0.0)
    >>> round(z, 3)
    4.0

    """
    target, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    relation = Adjacency.of(adjacency)
    _validate.choice("find", find, ("noise", "steps", "rate"))
    begin = None if start is None else _validate.positive("start", start)

    def cost(x: float) -> float:
        return front.epsilon(make_plan(x), delta=delta, adjacency=relation)

    def about(x: float) -> float:
        found = rough_epsilon(make_plan(x), delta, relation)
        return math.nan if found is None else found

    if find == "steps":
        return _most_steps(cost, target)
    if find == "rate":
        begin = min(1.0, max(_SMALLEST_RATE, begin or 0.01))
        if cost(1.0) <= target:
            return 1.0
        return _crossing(cost, target, begin, _SMALLEST_RATE, 1.0, falling=False)
    search = partial(
        _crossing, target=target, smallest=_SMALLEST_NOISE, largest=_LARGEST_NOISE, falling=True
    )
    begin = min(_LARGEST_NOISE, max(_SMALLEST_NOISE, begin or 1.0))
    # Where the rough answer, if there is one at all, crosses the target, and how steeply: nothing
    # that is certified rests on it.
    if math.isnan(about(begin)):
        return search(cost, start=begin)
    try:
        near = search(about, start=begin, precision=_ROUGH)
        slope = abs(math.log(about(near * math.exp(_ASIDE)) / about(near))) / _ASIDE
    except (InvalidParameter, CertificateError, ZeroDivisionError, ValueError):
        return search(cost, start=begin)
    slope = min(_STEEPEST, max(_FLATTEST, slope))
    return search(cost, start=near, slope=slope, precision=_SLOW_PRECISION)


def _excess(cost: float, target: float) -> float:
    """Return log(cost / target), kept finite so that a secant can be drawn through it."""
    if cost <= 0.0:
        return -30.0
    return min(30.0, max(-30.0, math.log(cost / target))) if math.isfinite(cost) else 30.0


def _crossing(
    cost: Callable[[float], float], target: float, start: float, smallest: float, largest: float,
    *, falling: bool, precision: float = _PRECISION, slope: float | None = None,
) -> float:  # fmt: skip
    """Return the extreme x on the private side of cost(x) = target, searched in log x.

    `good` always satisfies cost <= target and `bad` never does; the answer is the very x that was
    tried, because exp(log(x)) may be another number than x. A known `slope` of log cost says where
    to go from the start, and how far below the target is close enough.
    """
    close = precision * (_CLOSE if slope is None else slope)
    beyond, least = (1.05, _LEAST_JUMP) if slope is None else (1.0, precision)
    direction = 1.0 if falling else -1.0  # in which x is more private
    x, value = start, _excess(cost(start), target)
    seen = [(value, math.log(x))]
    good: Point | None = None
    bad: Point | None = None
    best, steep = start, 1.0 if slope is None else slope
    while True:
        if value <= 0.0:
            good, best = seen[-1], x
        else:
            bad = seen[-1]
        if -close < value <= 0.0:
            return best
        if good is not None and bad is not None:
            break
        # Go a little further than the slope so far points to; between 1 and 2 is usual.
        gap = value if slope is None else value + close / 2.0
        jump = min(max(beyond * abs(gap) / steep, least), _LONGEST_JUMP)
        least *= 4.0
        wanted = x * math.exp(direction * math.copysign(jump, value))
        last, x = x, min(largest, max(smallest, wanted))
        if x == last:
            if good is not None:
                return best
            raise InvalidParameter(
                f"no value between {smallest:g} and {largest:g} reaches epsilon={target:g}; "
                "ask for a larger epsilon or delta, or fewer steps."
            )
        before, value = value, _excess(cost(x), target)
        seen.append((value, math.log(x)))
        steep = min(_STEEPEST, max(_FLATTEST, abs((value - before) / math.log(x / last))))
    for turn in range(100):
        if abs(bad[1] - good[1]) <= precision:
            break
        aim = -close / 2.0
        middle = _between(seen, good, bad, aim, halve=turn % 4 == 3)
        x = math.exp(middle)
        value = _excess(cost(x), target)
        seen.append((value, middle))
        if value > 0.0:
            bad = seen[-1]
            continue
        good, best = seen[-1], x
        if value > 2.0 * aim:
            break
    return best


def _between(seen: list[Point], good: Point, bad: Point, aim: float, *, halve: bool) -> float:
    """Return log x strictly between both ends, where the excess should be `aim`, just below 0.

    A parabola through the three points nearest to the goal, a chord where it leads outside, and
    the middle if asked for: what converges whatever the cost is like.
    """
    width = good[1] - bad[1]
    at = bad[1] + 0.5 * width
    if not halve and bad[0] > good[0]:
        at = bad[1] + width * (bad[0] - aim) / (bad[0] - good[0])
        near = sorted(seen, key=lambda point: abs(point[0] - aim))[:3]
        (u, a), (v, b), (w, c) = near if len(near) == 3 else (good, bad, good)
        if len({u, v, w}) == 3:
            first, second = (b - a) / (v - u), (c - b) / (w - v)
            curved = a + (aim - u) * (first + (aim - v) * (second - first) / (w - u))
            if 0.0 < (curved - bad[1]) / width < 1.0:
                at = curved
    share = (at - bad[1]) / width
    return bad[1] + min(0.99, max(0.01, share)) * width


def _most_steps(cost: Callable[[float], float], target: float) -> int:
    """Return the largest whole number with cost <= target."""
    if cost(1) > target:
        raise InvalidParameter(
            f"even one step costs more than epsilon={target:g}; use more noise or a larger epsilon."
        )
    good, bad = 1, 2
    while cost(bad) <= target:
        good, bad = bad, 4 * bad
        if bad > _MOST_STEPS:
            return good
    while bad - good > 1:
        middle = (good + bad) // 2
        if cost(middle) <= target:
            good = middle
        else:
            bad = middle
    return good


def rough_epsilon(plan: PlanLike, delta: float, adjacency: Adjacency) -> float | None:
    """Return about epsilon at `delta`, to a few percent.

    None where the certified number takes little time itself: only tables of random allocation are
    slow. Under replace-one it solves ALLOCATION-R's equation for the two changes.
    """
    whole = as_plan(plan)
    if delta == 0.0 or whole._groups > 1 or not has_allocation(counted(whole, adjacency)):
        return None
    if adjacency is not Adjacency.REPLACE_ONE:
        return _rough(NumericalAccountant().total(whole, adjacency), delta)
    try:
        total = NumericalAccountant().total(whole, Adjacency.ZERO_OUT)
    except (AdjacencyMismatch, Unproven):  # another part is proven under replace-one only
        return None
    found = 0.0
    for _ in range(3):
        found = 2.0 * _rough(total, delta / (1.0 + math.exp(min(found / 2.0, 50.0))))
    return found


def _rough(total: Composition, delta: float) -> float:
    """Return the greater of the upper bounds of both orders, read once on a coarse lattice."""
    found = 0.0
    for steps in total:
        problem = OrderProblem(tuple((_coarse(up), None, n) for up, _, n in steps), delta=delta)
        problem.prepare(_WIDTH, 0)
        problem.improve_upper()
        found = max(found, problem.high)
    return found


def _coarse(pair: Pair) -> Pair:
    if isinstance(pair, Swapped):
        return _coarse(pair.base).swapped()
    return replace(pair, resolution=_RESOLUTION) if isinstance(pair, RandomAllocationPair) else pair
