"""The moments accountant exactly as the lecture defines it, and the sharp conversion beside it.

Step 1: step-wise moment functions alpha_t(s) = sup log E exp(s Z), over both orders of neighbours.
Step 2: alpha(s) = sum_t alpha_t(s), also for adaptive composition.
Step 3: delta = min_s exp(alpha(s) - s epsilon).

The sharp conversion uses the same moments: delta <= exp(alpha(s) - s eps) (s/(s+1))^s / (s+1)
(Canonne, Kamath and Steinke 2020, Proposition 12), i.e. it is Renyi privacy of order s + 1.
Every s gives a valid bound, so the search over s can only be loose, never wrong.
"""

import math
from typing import ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core.accounting import sampled_moments
from noisette.core.accounting.base import Accountant, declared_pure, participation
from noisette.core.accounting.last_iterate import last_iterate_run
from noisette.core.accounting.pure import pure_epsilon
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import LastIterate, Leaf, PlanLike, Run, Sampled, Selected

ORDERS: Floats = np.geomspace(1e-2, 1e4, 121)
"""The grid of s; `_refined` searches between its points."""


def log_moment(leaf: Leaf, s: Floats, adjacency: Adjacency) -> Floats:
    """Return the step-wise moment function of one use of `leaf` at every s (inf if unbounded)."""
    s = np.asarray(s, dtype=float)
    known = declared_pure(leaf)
    if known is not None:
        finite = math.isfinite(known)
        return sampled_moments.pure(s, known) if finite else np.full_like(s, np.inf)
    if isinstance(leaf, LastIterate):
        mu = last_iterate_run(leaf, adjacency).mu()  # proof: LAST-ITERATE-GCM
        return np.asarray(mu * mu * s * (s + 1.0) / 2.0)
    if isinstance(leaf, Selected):  # no Renyi bound of a search is proven here but the pure one
        pure = pure_epsilon(leaf, adjacency)
        finite = math.isfinite(pure)
        return sampled_moments.pure(s, pure) if finite else np.full_like(s, np.inf)
    assert isinstance(leaf, Run | Sampled)
    part = participation(leaf, adjacency)
    # proof: ALLOCATION-ONCE (joint convexity: a secret batch is no worse than a known one)
    if part.kind in ("once", "allocation"):
        return leaf.mechanism.log_moment(s, adjacency)
    if isinstance(leaf.mechanism, Gaussian):
        z = leaf.mechanism.noise_multiplier
        if part.kind == "without-replacement":
            return sampled_moments.without_replacement(s, part.rate, z)
        if adjacency is Adjacency.REPLACE_ONE:
            return sampled_moments.poisson_replace(s, part.rate, z)
        return sampled_moments.poisson_add_remove(s, part.rate, z)
    amplified = pure_epsilon(leaf, adjacency)
    finite = math.isfinite(amplified)
    return sampled_moments.pure(s, amplified) if finite else np.full_like(s, np.inf)


class MomentsAccountant(Accountant[Floats]):
    """The lecture's moments accountant: add moment functions, then minimise over s.

    Parameters
    ----------
    orders : ndarray of float, optional
        The grid of s.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> many = plans.Repeat(plans.Run(mechanisms.Gaussian(noise_multiplier=50.0)), 100)
    >>> round(accounting.MomentsAccountant().epsilon(many, delta=1e-5), 2)
    2.0

    """

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

    def _refined(self, best: int) -> "MomentsAccountant":
        low, high = self.s[max(best - 1, 0)], self.s[min(best + 1, len(self.s) - 1)]
        return type(self)(np.geomspace(low, high, 33))

    def epsilon(
        self, plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the best epsilon over the grid, refined once around its best s."""
        coarse = super().epsilon(plan, delta=delta, adjacency=adjacency)
        if len(self.s) != len(ORDERS) or not math.isfinite(coarse) or delta <= 0.0:
            return coarse
        objective = (self.total(plan, adjacency) + self._credit() - math.log(delta)) / self.s
        fine = self._refined(int(np.argmin(objective)))
        return min(coarse, fine.epsilon(plan, delta=delta, adjacency=adjacency))

    def delta(
        self, plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the best delta over the grid, refined once around its best s."""
        coarse = super().delta(plan, epsilon=epsilon, adjacency=adjacency)
        if len(self.s) != len(ORDERS) or coarse == 0.0:
            return coarse
        objective = self.total(plan, adjacency) + self._credit() - self.s * epsilon
        fine = self._refined(int(np.argmin(objective)))
        return min(coarse, fine.delta(plan, epsilon=epsilon, adjacency=adjacency))


class RenyiAccountant(MomentsAccountant):
    """The same moments with the sharp conversion.

    Parameters
    ----------
    orders : ndarray of float, optional
        The grid of s.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> many = plans.Repeat(plans.Run(mechanisms.Gaussian(noise_multiplier=50.0)), 100)
    >>> round(accounting.RenyiAccountant().epsilon(many, delta=1e-5), 2)
    1.69

    """

    name: ClassVar[str] = "renyi"
    summary: ClassVar[str] = "moments accountant with the sharp (Renyi) conversion"

    def _credit(self) -> Floats:
        """Return log of the factor (s/(s+1))^s / (s+1)."""
        # proof: RENYI-TO-DP
        return np.asarray(self.s * np.log(self.s / (self.s + 1.0)) - np.log1p(self.s))

    def to_epsilon(self, total: Floats, delta: float) -> float:
        """Return the least epsilon >= 0; the sharp conversion may go below 0, which means 0."""
        return max(0.0, super().to_epsilon(total, delta))
