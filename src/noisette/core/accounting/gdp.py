"""Gaussian differential privacy: exact for compositions of unsampled Gaussians."""

import math
from typing import ClassVar

from noisette.core.accounting.base import Accountant, participation
from noisette.core.accounting.last_iterate import last_iterate_run
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon, stated_delta
from noisette.core.plans import LastIterate, Leaf, Run, Sampled


class GaussianAccountant(Accountant[float]):
    """Adds up mu squared; the total is exact when every leaf is Gaussian and takes part once.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> many = plans.Repeat(plans.Run(mechanisms.Gaussian(noise_multiplier=50.0)), 100)
    >>> round(accounting.GaussianAccountant().total(many), 6)
    0.16

    """

    name: ClassVar[str] = "gdp"
    summary: ClassVar[str] = "composition of Gaussians, exact without sampling"

    def step(self, leaf: Leaf, adjacency: Adjacency) -> float:
        """Return mu^2 of one use, inf if it is not Gaussian."""
        if isinstance(leaf, LastIterate):
            return last_iterate_run(leaf, adjacency).mu() ** 2  # proof: LAST-ITERATE-GCM
        if not isinstance(leaf, Run | Sampled):
            return math.inf
        mu = leaf.mechanism.mu(adjacency)
        # Sampling at rate q < 1 is not mu-GDP for any mu that is proven here. The unsampled mu
        # still bounds it (joint convexity). proof: ALLOCATION-ONCE
        participation(leaf, adjacency)  # raises where the sampler has no proof at all
        return math.inf if mu is None else mu * mu

    def add(self, costs: list[tuple[float, int]]) -> float:
        """Return the sum of mu squared."""
        # proof: GDP-COMPOSITION
        return math.fsum(cost * count for cost, count in costs)

    def to_epsilon(self, total: float, delta: float) -> float:
        """Return the exact epsilon of sqrt(total)-GDP."""
        return gdp_epsilon(math.sqrt(total), delta)

    def to_delta(self, total: float, epsilon: float) -> float:
        """Return the exact delta of sqrt(total)-GDP."""
        return float(stated_delta(math.sqrt(total), epsilon))
