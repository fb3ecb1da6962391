"""The exact bounds of an audit: binomial ones, and bets that may stop; no normal approximation.

Notation: an event E happened k times in n runs on D and k' times in n' runs on D'. A claim
(ε, δ) says P(E) <= e^ε P'(E) + δ for every E and both orders of the worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, betaincinv, expit, logsumexp, ndtri

from noisette import _validate
from noisette._typing import Bools, Floats
from noisette.errors import InvalidParameter

LARGEST_EPSILON = 50.0
"""Bisections stop here; no number of runs that anybody can afford shows more."""


def largest(
    rejected: Callable[[float], bool], low: float, high: float, within: float = 1e-9
) -> float:
    """Return the largest x in [low, high] that is rejected, with all below it; `low` if none is."""
    if not rejected(low):
        return low
    while high - low > within:
        middle = (low + high) / 2.0
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def at_least(k: ArrayLike, n: ArrayLike, level: float) -> Floats:
    """Lower Clopper-Pearson bound: Pr[bound > p] <= level, for every p."""
    # proof: AUDIT-CLOPPER-PEARSON
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, level), 0.0)


def at_most(k: ArrayLike, n: ArrayLike, level: float) -> Floats:
    """Upper Clopper-Pearson bound: Pr[bound < p] <= level, for every p."""
    # proof: AUDIT-CLOPPER-PEARSON
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    return np.where(k < n, betaincinv(k + 1.0, np.maximum(n - k, 1.0), 1.0 - level), 1.0)


def epsilon_lower(
    k: ArrayLike, n: ArrayLike, k_prime: ArrayLike, n_prime: ArrayLike, delta: float, level: float
) -> Floats:
    """log((p_lo - δ) / q_hi), each probability bounded at level / 2; one order of the worlds.

    Works on arrays, so that a pilot can score many candidate events at once. Negative values and
    minus infinity say nothing about ε >= 0; they only rank events.
    """
    p, q = at_least(k, n, level / 2.0), at_most(k_prime, n_prime, level / 2.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(p - delta, 0.0)) - np.log(q))


def mu_lower(
    k: ArrayLike, n: ArrayLike, k_prime: ArrayLike, n_prime: ArrayLike, level: float
) -> Floats:
    """Φ⁻¹(1 - FPR_hi) - Φ⁻¹(FNR_hi) for the test "say D when E happens".

    FPR = P'(E) and FNR = 1 - P(E), each bounded at level / 2. Never the absolute value: a negative
    number says nothing about μ >= 0, and |·| would turn a useless test into a false alarm.
    """
    # proof: AUDIT-GDP
    false_positive = at_most(k_prime, n_prime, level / 2.0)
    false_negative = 1.0 - at_least(k, n, level / 2.0)
    # both bounds are above 0, so each quantile is finite or minus infinity: never inf - inf
    return np.asarray(ndtri(1.0 - false_positive) - ndtri(false_negative))


def one_run_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float = 0.0
) -> float:
    """The p-value of `correct` right guesses out of `guesses` under the claim (ε, δ).

    q = e^ε/(1 + e^ε), β = Pr[Bin(r, q) >= v], α* = max_{1<=i<=v} Pr[v > Bin(r, q) >= v-i] / i and
    p = min(1, β + 2 m δ α*), with m canaries, r guesses and v right ones.
    """
    # proof: AUDIT-ONE-RUN
    m, r, v, q = canaries, guesses, correct, float(expit(epsilon))
    if not v <= r <= m:
        raise InvalidParameter(
            f"needs correct <= guesses <= canaries; got {v} <= {r} <= {m}, which is not true."
        )
    # below[j] = Pr[Bin(r, q) <= j - 1], j = 0..r+1
    below = np.concatenate([[0.0], bdtr(np.arange(r), r, q), [1.0]])
    beta = float(bdtr(r - v, r, 1.0 - q))  # Pr[Bin >= v] by symmetry: no cancellation
    if delta == 0.0 or v == 0:
        return min(1.0, beta)
    i = np.arange(1, v + 1)
    return min(1.0, beta + 2.0 * m * delta * float(np.max((below[v] - below[v - i]) / i)))


def one_run_epsilon(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The largest ε whose p-value is at most 1 - confidence (0 if none is)."""
    level = 1.0 - _validate.fraction("confidence", confidence)

    def rejected(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) <= level

    return largest(rejected, 0.0, LARGEST_EPSILON)  # the p-value does not decrease in ε


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

        return largest(rejected, start, end, 1e-6)

    def _log_wealth(self, counts: Floats, epsilon: float, delta: float) -> Floats:
        allowed = self._stakes * (odds(epsilon) + delta) <= 1.0
        if not allowed.any():
            return np.full(len(counts), -np.inf)
        factors = _log_factors(self._stakes[allowed], epsilon, delta)
        # 0 x log 0 is 0: an outcome that never came does not ruin the gambler.
        with np.errstate(invalid="ignore"):
            parts = np.where(counts[:, None, :] > 0, counts[:, None, :] * factors, 0.0).sum(axis=2)
        return np.asarray(logsumexp(parts, axis=1, b=_WEIGHTS[allowed]))
