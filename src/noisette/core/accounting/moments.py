"""The moments accountant exactly as the lecture defines it, and the sharp conversion beside it.

Step 1: step-wise moment functions alpha_t(s) = sup log E exp(s Z), over both orders of neighbours.
Step 2: alpha(s) = sum_t alpha_t(s), also for adaptive composition.
Step 3: delta = min_s exp(alpha(s) - s epsilon).

The sharp conversion uses the same moments: delta <= exp(alpha(s) - s eps) (s/(s+1))^s / (s+1)
(Canonne, Kamath and Steinke 2020, Proposition 12), i.e. it is Renyi privacy of order s + 1.
Every s gives a valid bound, so the search over s can only be loose, never wrong.

Moments of subsampled mechanisms are integrals: with order a = s + 1, ratio r = dP/dQ and E_Q r = 1,

    E_P e^{sL} - 1 = E_Q [r^a - 1 - a (r - 1)],

of a non-negative function, which keeps its digits when the sampling rate is tiny. Gaussian mixtures
are integrated by the trapezoidal rule, whose error falls like exp(-2 pi^2 z^2 / h): the mixture is
analytic in a strip of half-width pi z^2.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core.accounting.base import Accountant, participation
from noisette.core.accounting.last_iterate import LastIterateRun
from noisette.core.accounting.sums import pure_epsilon
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.mechanisms.spherical_laplace_curve import response_log_moment
from noisette.core.plans import LastIterate, Run, Sampled
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import PlanLike

ORDERS: Floats = np.geomspace(1e-2, 1e4, 121)
"""The grid of s; `_refined` searches between its points."""

_MOST_NODES = 60_000
_REACH = 10.0  # standard deviations beyond the outermost mode
_ROUND_UP = 1e-9


def log_moment(leaf: Leaf, s: Floats, adjacency: Adjacency) -> Floats:
    """Return the step-wise moment function of one use of `leaf` at every s (inf if unbounded)."""
    s = np.asarray(s, dtype=float)
    if isinstance(leaf, LastIterate):
        mu = LastIterateRun(leaf, adjacency).mu()  # proof: LAST-ITERATE-GCM
        return np.asarray(mu * mu * s * (s + 1.0) / 2.0)
    if isinstance(leaf, Run | Sampled):
        part = participation(leaf, adjacency)
        # proof: ALLOCATION-ONCE (joint convexity: a secret batch is no worse than a known one)
        if part.kind in ("once", "allocation"):
            return leaf.mechanism.log_moment(s, adjacency)
        if isinstance(leaf.mechanism, Gaussian):
            z = leaf.mechanism.noise_multiplier
            if part.kind == "without-replacement":
                return without_replacement(s, part.rate, z)
            return poisson(s, part.rate, z, replaced=adjacency is Adjacency.REPLACE_ONE)
    # No other Renyi bound of a search is proven here. Randomised response dominates any pure
    # epsilon. proof: PURE-RR
    pure = pure_epsilon(leaf, adjacency)
    return response_log_moment(s, pure) if math.isfinite(pure) else np.full_like(s, np.inf)


def _log_ratio(x: Floats, rate: float, z: float) -> Floats:
    """Return log(1 - q + q exp((x - 1/2)/z^2)), the log ratio of the mixture to N(0, z^2)."""
    tilt = (x - 0.5) / z**2
    small = np.log1p(rate * np.expm1(np.minimum(tilt, 1.0)))
    large = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(tilt, 1.0))
    return np.where(tilt < 1.0, small, large)


def _convex_gap(log_r: Floats, a: float) -> Floats:
    """Return r^a - 1 - a (r - 1), a > 1 or a < 0 (may be inf; the caller scales large exponents).

    With t = log r it is sum over j >= 2 of (a^j - a) t^j / j!, which is summed where the direct
    form would cancel (tiny rates). Both t and a t must be small there: for a near 0 a small a t
    does not make the cut terms a t^j / j! small.
    """
    series = np.zeros_like(log_r)
    for j in range(9, 1, -1):
        series = (series + (a**j - a) / math.factorial(j)) * log_r
    series *= log_r
    with np.errstate(over="ignore", invalid="ignore"):
        direct = np.expm1(a * log_r) - a * np.expm1(log_r)
    return np.where(max(1.0, abs(a)) * np.abs(log_r) < 1e-2, series, direct)


def _log_sum(exponent: Floats) -> float:
    top = float(exponent.max())
    return top + math.log(float(np.sum(np.exp(exponent - top))))


def _least(s: Floats, plain: Floats, moment: Callable[[float], float]) -> Floats:
    """Return the lesser of `plain` and moment(s + 1), for every s."""
    out = np.array(plain, dtype=float)
    for index, order in np.ndenumerate(np.asarray(s) + 1.0):
        out[index] = min(float(out[index]), moment(float(order)))
    return out


def _log_normal(x: Floats, z: float) -> Floats:
    return np.asarray(-0.5 * (x / z) ** 2 - math.log(z * math.sqrt(2.0 * math.pi)))


def poisson(s: Floats, rate: float, z: float, *, replaced: bool = False) -> Floats:
    """Return the moment function of (1-q) N(0) + q N(1) against N(0), std z.

    If `replaced`, against (1-q) N(0) + q N(-1). Without, this order is the worse one for every s
    (Mironov, Talwar and Zhang 2019). Where the integral would need too many nodes the unamplified
    s (s + 1)/(2 z^2), or four times that, is returned, which is larger.
    """
    left, span = 0.0, 1.0  # proof: POISSON-A
    if replaced:
        left, span = 1.0, 2.0  # proof: POISSON-R
    h = min(z / 3.0, z * z / 2.0)

    def moment(a: float) -> float:
        low, high = -_REACH * z - left, span * max(1.0, a) + _REACH * z
        count = math.ceil((high - low) / h)
        if count > _MOST_NODES:
            return math.inf
        x = np.asarray(low + h * np.arange(count + 1), dtype=np.float64)
        log_weight, log_r = _log_normal(x, z), _log_ratio(x, rate, z)
        if replaced:
            log_left = _log_ratio(-x, rate, z)
            log_weight, log_r = log_weight + log_left, log_r - log_left
        log_weight = log_weight + math.log(h)
        if a * float(log_r.max()) < 300.0:
            excess = float(np.sum(np.exp(log_weight) * _convex_gap(log_r, a)))
            return math.log1p(max(0.0, excess)) * (1.0 + _ROUND_UP)
        # E_Q r^a itself, scaled so that no exponential overflows.
        return _log_sum(log_weight + a * log_r) * (1.0 + _ROUND_UP)

    return _least(s, span * span * s * (s + 1.0) / (2.0 * z * z), moment)


def without_replacement(s: Floats, rate: float, z: float) -> Floats:
    """Return the moment function of the symmetrised pair for fixed-size batches, replace-one.

    In units where the shift is 1 and the std is z/2, with r the ratio of the mixture to N(0) and
    A = {x > 1/2}:  E e^{sL} - 1 = integral over A of N(0) [r^{s+1} - r + r^{-s} - 1].
    """
    # proof: WOR-R
    std = z / 2.0
    nodes, weights = np.polynomial.legendre.leggauss(24)

    def moment(a: float) -> float:
        high = max(1.0, a) + _REACH * std
        panels = math.ceil((high - 0.5) / min(std, std * std, 1.0))
        if panels * 24 > _MOST_NODES:
            return math.inf
        edges = np.linspace(0.5, high, panels + 1)
        half = (edges[1:] - edges[:-1])[:, None] / 2.0
        x = (edges[:-1, None] + half + half * nodes).ravel()
        log_weight = _log_normal(x, std) + np.log((half * weights).ravel())
        log_r = _log_ratio(x, rate, std)
        small = a * log_r < 300.0
        # r^a - r + r^{1-a} - 1 = [r^a - 1 - a (r - 1)] + [r^{1-a} - 1 - (1 - a)(r - 1)]
        gap = _convex_gap(log_r[small], a) + _convex_gap(log_r[small], 1.0 - a)
        value = math.log1p(float(np.sum(np.exp(log_weight[small]) * gap)))
        if not small.all():
            # there r^a rules; -r + r^{1-a} - 1 <= 0 is dropped
            value = float(np.logaddexp(value, _log_sum((log_weight + a * log_r)[~small])))
        return value * (1.0 + _ROUND_UP)

    return _least(s, 4.0 * s * (s + 1.0) / (2.0 * z * z), moment)


class MomentsAccountant(Accountant[Floats]):
    """The lecture's moments accountant: add moment functions, then minimise over s."""

    name: ClassVar[str] = "moments"
    summary: ClassVar[str] = "moments accountant as in the lecture"

    def __init__(self, orders: Floats = ORDERS) -> None:
        self.s = np.asarray(orders, dtype=float)

    def step(self, leaf: Leaf, adjacency: Adjacency) -> Floats:
        """Return the step-wise moment function on the grid."""
        return log_moment(leaf, self.s, adjacency)

    def add(self, costs: list[tuple[Floats, int]]) -> Floats:
        """Return alpha(s) = sum of count times alpha_t(s)."""
        return np.asarray(np.sum([cost * count for cost, count in costs], axis=0))

    def to_epsilon(self, total: Floats, delta: float) -> float:
        """Return min_s (alpha(s) + log(1/delta)) / s."""
        if delta <= 0.0:
            return math.inf
        return float(np.min((total + self._credit() - math.log(delta)) / self.s))

    def to_delta(self, total: Floats, epsilon: float) -> float:
        """Return min_s exp(alpha(s) - s epsilon), at most 1."""
        return float(np.exp(min(0.0, float(np.min(total + self._credit() - self.s * epsilon)))))

    def _credit(self) -> Floats | float:
        """Return what the conversion gains over Markov's inequality: nothing in the lecture."""
        return 0.0

    def _refined(self, objective: Floats) -> "MomentsAccountant":
        best = int(np.argmin(objective))
        low, high = self.s[max(best - 1, 0)], self.s[min(best + 1, len(self.s) - 1)]
        return type(self)(np.geomspace(low, high, 33))

    def epsilon(
        self, plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the best epsilon over the grid, refined once around its best s."""
        coarse = super().epsilon(plan, delta=delta, adjacency=adjacency)
        if len(self.s) != len(ORDERS) or not math.isfinite(coarse) or delta <= 0.0:
            return coarse
        total = self.total(plan, adjacency) + self._credit()
        fine = self._refined((total - math.log(delta)) / self.s)
        return min(coarse, fine.epsilon(plan, delta=delta, adjacency=adjacency))

    def delta(
        self, plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the best delta over the grid, refined once around its best s."""
        coarse = super().delta(plan, epsilon=epsilon, adjacency=adjacency)
        if len(self.s) != len(ORDERS) or coarse == 0.0:
            return coarse
        fine = self._refined(self.total(plan, adjacency) + self._credit() - self.s * epsilon)
        return min(coarse, fine.delta(plan, epsilon=epsilon, adjacency=adjacency))


class RenyiAccountant(MomentsAccountant):
    """The same moments with the sharp conversion."""

    name: ClassVar[str] = "renyi"
    summary: ClassVar[str] = "moments accountant with the sharp (Renyi) conversion"

    def _credit(self) -> Floats:
        """Return log of the factor (s/(s+1))^s / (s+1)."""
        # proof: RENYI-TO-DP
        return np.asarray(self.s * np.log(self.s / (self.s + 1.0)) - np.log1p(self.s))
