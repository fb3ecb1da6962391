"""A test that may stop at any time: betting against the claim.

One order of the worlds, one event E fixed beforehand. Pair i of runs gives a = 1[E on D] and
b = 1[E on D']. Under the claim E[a - e^ε b - δ] <= 0, so for every stake λ in [0, 1/(e^ε + δ)]

    W_t = Π_{i<=t} (1 + λ (a_i - e^ε b_i - δ)),      W_0 = 1,

is non-negative and a supermartingale: a gambler who bets against a true claim does not get rich.
By Ville's inequality Pr[W_t >= 1/α for some t] <= α, so the audit may look after every pair and
stop when W_t >= 1/α; its error is at most α, however often it looked.

Here W is a mixture over stakes λ_j with weights fixed beforehand. A stake above 1/(e^ε + δ) counts
as W = 0. Every part is then non-increasing in ε and in δ, so along a path of claims on which both
grow the rejected ones form an interval. Its end is a lower confidence bound that holds at all times
at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from noisette._typing import Bools, Floats

STAKES: Floats = np.geomspace(1.0, 1e-4, 24)
"""Half of the stake is spread over these, the other half is on the pilot's favourite."""

_WEIGHTS = np.append(np.full(len(STAKES), 0.5 / len(STAKES)), 0.5)
_LOOKS = 64  # times that a lower bound looks back at; fewer looks can only weaken it


def odds(epsilon: float) -> float:
    """Return e^ε without overflow; a stake of e^-300 wins nothing, so no larger one is needed."""
    return math.exp(min(epsilon, 300.0))


def _log_factors(stakes: Floats, epsilon: float, delta: float) -> Floats:
    """log(1 + λ(a - e^ε b - δ)), one row for each stake, columns (a, b) = 10, 11, 01, 00."""
    gain = np.array([1.0, 1.0 - odds(epsilon), -odds(epsilon), 0.0]) - delta
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(1.0 + stakes[:, None] * gain, 0.0)))


def best_stake(p: float, q: float, epsilon: float, delta: float) -> float:
    """The stake of a fixed fine grid with the fastest growth if P(E) = p and P'(E) = q."""
    stakes = np.linspace(0.02, 0.98, 49) / (odds(epsilon) + delta)
    chances = np.array([p * (1 - q), p * q, (1 - p) * q, (1 - p) * (1 - q)])
    return float(stakes[np.argmax(_log_factors(stakes, epsilon, delta) @ chances)])


class Betting:
    """The wealth of a gambler who bets against the claim (ε, δ) on one event and one order."""

    def __init__(self, epsilon: float, delta: float, level: float, favourite: float) -> None:
        self._claim, self._goal = (epsilon, delta), math.log(1.0 / level)
        self._stakes = np.append(STAKES, favourite)
        self._counts = np.zeros((1, 4))
        self.rejected = False

    def add(self, a: Bools, b: Bools) -> int | None:
        """Take more pairs in; return how many of them were needed to reject, or None."""
        # proof: AUDIT-BETTING
        outcomes = np.stack([a & ~b, a & b, ~a & b, ~a & ~b], axis=1).cumsum(axis=0)
        counts = self._counts[-1] + outcomes
        over = self._log_wealth(counts, *self._claim) >= self._goal
        self._counts = np.concatenate([self._counts, counts])
        if not over.any():
            return None
        needed = int(np.argmax(over)) + 1
        self._counts = self._counts[: len(self._counts) - len(counts) + needed]
        self.rejected = True
        return needed

    def lower(
        self, path: Callable[[float], tuple[float, float]], start: float, end: float
    ) -> float:
        """The largest x in [start, end] whose claim path(x) is rejected; `start` if none is.

        Both entries of `path` must not decrease in x. Valid whenever it is asked for.
        """
        # proof: AUDIT-BETTING
        times = np.unique(np.linspace(0, len(self._counts) - 1, _LOOKS).round().astype(int))
        counts = self._counts[times]

        def rejected(x: float) -> bool:
            return bool((self._log_wealth(counts, *path(x)) >= self._goal).any())

        low, high = start, end
        if not rejected(low):
            return low
        while high - low > 1e-6:
            middle = (low + high) / 2.0
            low, high = (middle, high) if rejected(middle) else (low, middle)
        return low

    def _log_wealth(self, counts: Floats, epsilon: float, delta: float) -> Floats:
        allowed = self._stakes * (odds(epsilon) + delta) <= 1.0
        if not allowed.any():
            return np.full(len(counts), -np.inf)
        factors = _log_factors(self._stakes[allowed], epsilon, delta)
        # 0 x log 0 is 0: an outcome that never came does not ruin the gambler.
        with np.errstate(invalid="ignore"):
            parts = np.where(counts[:, None, :] > 0, counts[:, None, :] * factors, 0.0).sum(axis=2)
        return np.asarray(logsumexp(parts, axis=1, b=_WEIGHTS[allowed]))
