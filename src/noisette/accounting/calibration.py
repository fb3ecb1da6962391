"""Calibration: the least noise, the most steps or the largest rate within (epsilon, delta)."""

import math
from collections.abc import Callable
from typing import Literal

from noisette import _validate
from noisette.accounting import front
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.plans import PlanLike

__all__ = ["calibrate"]

Find = Literal["noise", "steps", "rate"]

_PRECISION = 1e-5  # relative, in the parameter
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-4, 1e9
_SMALLEST_RATE = 1e-12
_MOST_STEPS = 10**9


def calibrate(
    make_plan: Callable[..., PlanLike],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    find: Find = "noise",
) -> float:
    """Return the best parameter x for which ``make_plan(x)`` stays within (epsilon, delta).

    ``find="noise"`` returns the smallest noise multiplier, ``"steps"`` the largest whole number of
    steps, ``"rate"`` the largest sampling rate. The result is re-checked: the plan's epsilon never
    exceeds the target. It lies within 1e-5 (relative) of the best that the accountant can certify.
    """
    target, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    relation = Adjacency.of(adjacency)
    _validate.choice("find", find, ("noise", "steps", "rate"))

    def cost(x: float) -> float:
        return front.epsilon(make_plan(x), delta=delta, adjacency=relation)

    if find == "steps":
        return _most_steps(cost, target)
    if find == "noise":
        return _crossing(cost, target, 1.0, _SMALLEST_NOISE, _LARGEST_NOISE, falling=True)
    if cost(1.0) <= target:
        return 1.0
    return _crossing(cost, target, 0.01, _SMALLEST_RATE, 1.0, falling=False)


def _excess(cost: float, target: float) -> float:
    """Return log(cost / target), kept finite so that a secant can be drawn through it."""
    if cost <= 0.0:
        return -30.0
    return min(30.0, max(-30.0, math.log(cost / target))) if math.isfinite(cost) else 30.0


def _crossing(
    cost: Callable[[float], float],
    target: float,
    start: float,
    smallest: float,
    largest: float,
    *,
    falling: bool,
) -> float:
    """Return the extreme x on the private side of cost(x) = target, searched in log x.

    `good` always satisfies cost <= target and `bad` never does; the answer is the very `best` that
    was tried at `good`, because exp(log(x)) may be another number than x.
    """
    toward_good = 4.0 if falling else 0.25
    x, value = start, _excess(cost(start), target)
    good, bad, best = None, None, start
    while good is None or bad is None:
        if value <= 0.0:
            good, best = (math.log(x), value), x
            x /= toward_good
        else:
            bad = (math.log(x), value)
            x *= toward_good
        if good is not None and bad is not None:
            break
        if not smallest <= x <= largest:
            if good is not None:
                return best
            raise InvalidParameter(
                f"no value between {smallest:g} and {largest:g} reaches epsilon={target:g}; "
                "ask for a larger epsilon or delta, or fewer steps."
            )
        value = _excess(cost(x), target)
    for turn in range(100):
        width = abs(bad[0] - good[0])
        if width <= _PRECISION:
            break
        # Regula falsi with a nudge to the private side; every third step halves the bracket.
        share = bad[1] / (bad[1] - good[1])
        share = 0.5 if turn % 3 == 2 else min(0.98, max(0.02, share + 0.2 * _PRECISION / width))
        middle = bad[0] + share * (good[0] - bad[0])
        x = math.exp(middle)
        value = _excess(cost(x), target)
        if value <= 0.0:
            good, best = (middle, value), x
            if value > -1e-7:
                break
        else:
            bad = (middle, value)
    return best


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
