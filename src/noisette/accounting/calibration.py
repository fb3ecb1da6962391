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
_CLOSE = 2e-6  # relative, in epsilon, below the target
_LEAST_JUMP, _LONGEST_JUMP = 1e-3, 2.0  # of log x, while only one side is known; the least grows
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
    direction = 1.0 if falling else -1.0  # in which x is more private
    x, value = start, _excess(cost(start), target)
    good, bad, best = None, None, start
    slope, least = 1.0, _LEAST_JUMP
    while good is None or bad is None:
        if value <= 0.0:
            good, best = (math.log(x), value), x
        else:
            bad = (math.log(x), value)
        if good is not None and bad is not None:
            break
        # Go a little further than the slope so far points to; between 1 and 2 is usual.
        jump = min(max(1.05 * abs(value) / slope, least), _LONGEST_JUMP)
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
        slope = min(3.0, max(0.5, abs((value - before) / math.log(x / last))))
    # Regula falsi with a nudge to the private side. An end that stays twice pulls half as much
    # (Illinois), and every fourth step halves the bracket.
    pull_good, pull_bad, side = good[1], bad[1], 0
    for turn in range(100):
        width = abs(bad[0] - good[0])
        if width <= _PRECISION:
            break
        share = pull_bad / (pull_bad - pull_good)
        share = 0.5 if turn % 4 == 3 else min(0.99, max(0.01, share + 0.2 * _PRECISION / width))
        middle = bad[0] + share * (good[0] - bad[0])
        x = math.exp(middle)
        value = _excess(cost(x), target)
        if value <= 0.0:
            good, best, pull_good = (middle, value), x, value
            pull_bad, side = (pull_bad / 2.0 if side > 0 else pull_bad), 1
            if value > -_CLOSE:
                break
        else:
            bad, pull_bad = (middle, value), value
            pull_good, side = (pull_good / 2.0 if side < 0 else pull_good), -1
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
