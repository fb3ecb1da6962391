"""Accountants that add up one number for each use: epsilon, or mu squared of Gaussian noise."""

import math
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from noisette import _validate
from noisette.core.accounting.base import Accountant, participation
from noisette.core.accounting.last_iterate import LastIterateRun
from noisette.core.accounting.selected import pure_search, search_curve
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon, stated_delta
from noisette.core.plans import Declared, LastIterate, Run, Sampled, Selected
from noisette.core.plans.base import Leaf


def subsampled(epsilon: float, rate: float) -> float:
    """Return log(1 + rate (e^epsilon - 1)), the tight cost of running on a random part.

    For an epsilon-private mechanism under replace-one on a uniform subset of fixed size, or under
    add-remove / zero-out on a Poisson sample.
    """
    # proof: SUBSAMPLE-PURE
    epsilon, rate = _validate.non_negative("epsilon", epsilon), _validate.rate("rate", rate)
    if rate == 1.0:
        return epsilon
    if epsilon > 700.0:  # e^epsilon overflows; log(rate e^eps + 1 - rate) = eps + log rate + tiny
        return epsilon + math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def advanced_composition(epsilons: list[tuple[float, int]], delta: float) -> float:
    """Return epsilon of adaptive composition of pure mechanisms at `delta` > 0, mixed epsilons.

    sum_i e_i (e^{e_i} - 1)/(e^{e_i} + 1) + sqrt(2 log(1/delta) sum_i e_i^2), never more than the
    plain sum (Kairouz, Oh and Viswanath 2015, Theorem 3.5).
    """
    # proof: KOV-MIXED
    delta = _validate.delta(delta)
    epsilons = [
        (
            e if e == math.inf else _validate.non_negative("epsilon", e),
            _validate.integer("count", k),
        )
        for e, k in epsilons
    ]
    plain = math.fsum(e * k for e, k in epsilons)
    if delta <= 0.0 or not math.isfinite(plain):
        return plain
    drift = math.fsum(k * e * math.tanh(e / 2.0) for e, k in epsilons)
    spread = math.sqrt(2.0 * math.log(1.0 / delta) * math.fsum(k * e * e for e, k in epsilons))
    return min(plain, drift + spread)


def kairouz_oh_viswanath(epsilon: float, count: int, delta: float) -> float:
    """Return the optimal epsilon of `count` adaptive uses of any epsilon-private mechanism.

    The k-fold composition is (e', delta(e'))-private for every e' >= 0 with
    delta(e') = sum_l C(k, l) [e^{(k-l) eps} - e^{e' + l eps}]_+ / (1 + e^eps)^k, which is attained
    by randomised response (Kairouz, Oh and Viswanath 2015, Theorem 3.3, for all real e').
    """
    # proof: KOV
    epsilon, count = _validate.non_negative("epsilon", epsilon), _validate.integer("count", count)
    delta = _validate.delta(delta)
    top = epsilon * count
    if delta == 0.0 or top == 0.0:
        return top
    ups = np.arange(count, -1, -1, dtype=float)  # how many of the k losses are +epsilon
    losses = (2.0 * ups - count) * epsilon
    log_choose = gammaln(count + 1.0) - gammaln(ups + 1.0) - gammaln(count - ups + 1.0)
    log_p = log_choose + ups * epsilon - count * np.logaddexp(0.0, epsilon)
    # The terms of log_p are far larger than their sum; their roundings count against us.
    rounding = 2.0**-50 * (float(gammaln(count + 1.0)) + count * (1.0 + epsilon))

    def excess(candidate: float) -> float:
        above = losses > candidate
        if not above.any():
            return -math.log(delta) - 745.0
        gap = np.log(-np.expm1(candidate - losses[above]))
        return float(logsumexp(log_p[above] + gap)) + rounding - math.log(delta)

    if excess(0.0) <= 0.0:
        return 0.0
    root = float(brentq(excess, 0.0, top, xtol=1e-13, rtol=1e-13))
    # delta(e') falls with e', so a step up is on the private side.
    return min(top, root * (1.0 + 1e-12) + 1e-12)


def pure_epsilon(leaf: Leaf, adjacency: Adjacency) -> float:
    """Return the pure epsilon of one use of `leaf`, sampling included (inf if it has none)."""
    if isinstance(leaf, Declared):
        return leaf.epsilon if leaf.delta == 0.0 else math.inf
    if isinstance(leaf, Selected):
        sums = [
            math.fsum(pure_epsilon(part, adjacency) * count for part, count in plan.leaves())
            for plan in leaf.candidates
        ]
        return pure_search(leaf, max(sums))
    if not isinstance(leaf, Run | Sampled):
        return math.inf
    part = participation(leaf, adjacency)
    epsilon = leaf.mechanism.pure_epsilon(adjacency)
    if part.kind in ("poisson", "without-replacement") and math.isfinite(epsilon):
        return subsampled(epsilon, part.rate)  # proof: SUBSAMPLE-PURE
    # proof: ALLOCATION-ONCE (random allocation gives a pure mechanism nothing provable here)
    return epsilon


def _approximate_epsilon(leaf: Leaf, adjacency: Adjacency, delta: float) -> float:
    """Return epsilon of one Gaussian use at its own `delta` > 0, amplified as (eps, delta)-DP."""
    if isinstance(leaf, Selected):
        return search_curve(leaf, adjacency).epsilon(delta)
    if not isinstance(leaf, Run | Sampled):
        return math.inf
    part = participation(leaf, adjacency)
    mu = leaf.mechanism.mu(adjacency)
    if mu is None:
        return math.inf
    if part.kind in ("poisson", "without-replacement"):
        # proof: SUBSAMPLE-PURE: (eps, delta) becomes (log(1 + q (e^eps - 1)), q delta)
        return subsampled(gdp_epsilon(mu, min(1.0, delta / part.rate)), part.rate)
    return gdp_epsilon(mu, delta)


Uses = list[tuple[Leaf, Adjacency, int]]


class LinearAccountant(Accountant[Uses]):
    """Adds up epsilons and deltas of single uses; delta is shared equally among them."""

    name: ClassVar[str] = "linear"
    summary: ClassVar[str] = "linear composition of single steps"

    def step(self, leaf: Leaf, adjacency: Adjacency) -> Uses:
        """Return the leaf itself: its epsilon depends on its share of delta."""
        if isinstance(leaf, Run | Sampled):
            participation(leaf, adjacency)  # refuses what has no proof
        return [(leaf, adjacency, 1)]

    def add(self, costs: list[tuple[Uses, int]]) -> Uses:
        """Return all uses with multiplied counts."""
        return [(leaf, adj, k * count) for uses, count in costs for leaf, adj, k in uses]

    def to_epsilon(self, total: Uses, delta: float) -> float:
        """Return the sum of epsilons when every use that needs it gets the same delta."""
        # proof: FILTER-SUMS
        terms, needy = [], []
        for leaf, adjacency, count in total:
            if isinstance(leaf, Declared):
                terms.append(leaf.epsilon * count)
                delta -= leaf.delta * count
            elif math.isfinite(epsilon := pure_epsilon(leaf, adjacency)):
                terms.append(epsilon * count)
            else:
                needy.append((leaf, adjacency, count))
        if delta < 0.0 or (needy and delta == 0.0):
            return math.inf
        uses = sum(count for _, _, count in needy)
        terms += [_approximate_epsilon(leaf, adj, delta / uses) * k for leaf, adj, k in needy]
        return math.fsum(terms)


class AdvancedAccountant(Accountant[list[tuple[float, int]]]):
    """Optimal composition of pure mechanisms that knows only their epsilons."""

    name: ClassVar[str] = "advanced"
    summary: ClassVar[str] = "optimal composition of pure epsilons"

    def step(self, leaf: Leaf, adjacency: Adjacency) -> list[tuple[float, int]]:
        """Return the pure epsilon of one use."""
        return [(pure_epsilon(leaf, adjacency), 1)]

    def add(self, costs: list[tuple[list[tuple[float, int]], int]]) -> list[tuple[float, int]]:
        """Return all epsilons with their counts, equal ones together."""
        merged: dict[float, int] = {}
        for cost, count in costs:
            for epsilon, times in cost:
                merged[epsilon] = merged.get(epsilon, 0) + times * count
        return list(merged.items())

    def to_epsilon(self, total: list[tuple[float, int]], delta: float) -> float:
        """Return the exact optimum for equal epsilons, the mixed bound otherwise."""
        if any(not math.isfinite(epsilon) for epsilon, _ in total):
            return math.inf
        if len(total) == 1:
            return kairouz_oh_viswanath(total[0][0], total[0][1], delta)
        return advanced_composition(total, delta)


class GaussianAccountant(Accountant[float]):
    """Adds up mu squared; the total is exact when every leaf is Gaussian and takes part once."""

    name: ClassVar[str] = "gdp"
    summary: ClassVar[str] = "composition of Gaussians, exact without sampling"

    def step(self, leaf: Leaf, adjacency: Adjacency) -> float:
        """Return mu^2 of one use, inf if it is not Gaussian."""
        if isinstance(leaf, LastIterate):
            return LastIterateRun(leaf, adjacency).mu() ** 2  # proof: LAST-ITERATE-GCM
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
