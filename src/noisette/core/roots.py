"""A root, rounded to the private side: found, then moved until its own inequality holds."""

from collections.abc import Callable
from functools import cache

from scipy.optimize import brentq


def private_root(
    excess: Callable[[float], float], low: float, high: float,
    move: Callable[[float, int], float], *, xtol: float, rtol: float = 2.0**-50,
) -> float:  # fmt: skip
    """Return a number beside the root of `excess` in [low, high] at which excess <= 0 was seen.

    `excess` is positive where privacy is not reached and has opposite signs at both ends. The root
    that is found may lie on the wrong side by a rounding; `move` takes it to the other. No number
    is read twice: brentq reads both ends, and its answer is one of the numbers it has read.
    """
    excess = cache(excess)
    x, turn = float(brentq(excess, low, high, xtol=xtol, rtol=rtol)), 0
    while not excess(x) <= 0.0:
        x, turn = move(x, turn), turn + 1
    return x
