"""The numerical accountant: certified brackets from the law of the privacy loss.

This file says which pair of distributions dominates each leaf of a plan under each relation; the
engine in `numerical/` composes pairs and certifies the result from both sides.
"""

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, log_ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.base import Accountant, counted, participation
from noisette.core.accounting.last_iterate import LastIterateRun
from noisette.core.accounting.numerical.bracket import delta_bracket, epsilon_bracket
from noisette.core.accounting.numerical.noise_pairs import (
    BoundedRange,
    GaussianPair,
    LaplacePair,
    SphericalLaplacePair,
)
from noisette.core.accounting.numerical.pairs import ApproximateDP, Pair
from noisette.core.accounting.numerical.plan import Step
from noisette.core.accounting.numerical.random_allocation import RandomAllocationPair
from noisette.core.accounting.numerical.sampled_pairs import (
    PoissonReplace,
    PoissonSampled,
    SymmetrisedSample,
)
from noisette.core.accounting.objective_pair import ObjectiveReplaced, ObjectiveTable
from noisette.core.accounting.selected import SearchPair, search_curve
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    GaussianThreshold,
    Laplace,
    Mechanism,
    ObjectiveNoise,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.core.plans import Declared, LastIterate, Run, Sampled, Selected
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import Noisy, PlanLike
from noisette.core.sampling import RandomAllocation, Shuffle
from noisette.core.sampling.base import Participation
from noisette.errors import Unproven

_SMALLEST_HALF = 1e-290
_LARGEST_CHAIN = 1000.0  # the largest epsilon of two changes that is looked for

Composition = tuple[tuple[Step, ...], tuple[Step, ...]]
"""The steps of a plan in the two neighbour orders, kept apart until the very end."""


def _both(upper: Pair, lower: Pair | None) -> Composition:
    other = None if lower is None else lower.swapped()
    return ((upper, lower, 1),), ((upper.swapped(), other, 1),)


def _upper_only(composition: Composition) -> Composition:
    first, second = (
        tuple((upper, None, count) for upper, _, count in order) for order in composition
    )
    return first, second


def _base_pair(mechanism: Mechanism, adjacency: Adjacency) -> tuple[Pair, bool]:
    """Return the pair of one unsampled use, and whether it is attained (so a lower bound too)."""
    if isinstance(mechanism, Gaussian):
        return GaussianPair(mechanism.shift(adjacency)), True
    if isinstance(mechanism, Laplace):
        return LaplacePair(mechanism.shift(adjacency)), True
    if isinstance(mechanism, SphericalLaplace):
        return SphericalLaplacePair(mechanism.shift(adjacency), mechanism.dimension), True
    if isinstance(mechanism, RandomizedResponse) and mechanism.categories == 2:
        return ApproximateDP(mechanism.pure_epsilon(adjacency)), True
    if isinstance(mechanism, Exponential):
        return BoundedRange(mechanism.pure_epsilon(adjacency)), False
    epsilon = mechanism.pure_epsilon(adjacency)
    if not math.isfinite(epsilon):
        raise Unproven(f"the numerical accountant knows no pair for {mechanism.name} noise.")
    return ApproximateDP(epsilon), False  # proof: PURE-RR


def attained(leaves: list[tuple[Leaf, int]], adjacency: Adjacency) -> bool:
    """Whether some neighbours realise the curve of unsampled uses, so that it is exact."""
    for leaf, _ in leaves:
        if not isinstance(leaf, Run | Sampled) or isinstance(leaf.sampler, Shuffle):
            return False  # a shuffle may hide something
        if (
            participation(leaf, adjacency).kind != "once"
            or isinstance(leaf.mechanism, ObjectiveNoise | Exponential | GaussianThreshold)
            or not _base_pair(leaf.mechanism, adjacency)[1]
        ):
            return False
    return True


@lru_cache(maxsize=64)  # their tables take a while, and a search reads one plan many times
def _objective_pair(mechanism: ObjectiveNoise, adjacency: Adjacency) -> Composition:
    if mechanism.pure_only:  # proof: PURE-RR
        return _both(ApproximateDP(mechanism.pure_epsilon(adjacency)), None)
    if adjacency is Adjacency.REPLACE_ONE:
        return _both(ObjectiveReplaced(mechanism), None)
    # The first order is the one in which P holds the record, as for every pair here.
    with_record, without = (ObjectiveTable(mechanism, held) for held in (True, False))
    return ((with_record, None, 1),), ((without, None, 1),)


def _sampled_pair(mechanism: Mechanism, part: Participation, adjacency: Adjacency) -> Composition:
    if isinstance(mechanism, ObjectiveNoise):
        return _objective_pair(mechanism, adjacency)
    if isinstance(mechanism, GaussianThreshold):
        # Gaussian noise on common keys, beside a step that reveals all with probability delta_mass.
        # proof: CATEGORY-THRESHOLD. The two worst cases are not attained by the same neighbours.
        smooth = GaussianPair(mechanism.shift(adjacency))
        reveals = ApproximateDP(0.0, mechanism.delta_mass)
        order: tuple[Step, ...] = ((smooth, smooth, 1), (reveals, None, 1))
        return order, order
    base, exact = _base_pair(mechanism, adjacency)
    if part.kind == "once":
        return _both(base, base if exact else None)
    if part.kind == "allocation":
        if _amplified(mechanism) and adjacency is not Adjacency.REPLACE_ONE:
            z = mechanism.noise_multiplier  # type: ignore[attr-defined]
            upper = RandomAllocationPair(part.batches, z)  # proof: ALLOCATION-A
            return _both(upper, RandomAllocationPair(part.batches, z, dominating=False))
        return _both(base, None)  # proof: ALLOCATION-ONCE
    if part.kind == "poisson" and adjacency is not Adjacency.REPLACE_ONE:
        pair = PoissonSampled(base, part.rate)  # proof: POISSON-A
        return _both(pair, pair if exact else None)
    if part.kind == "poisson" and isinstance(mechanism, Gaussian):
        replaced = PoissonReplace(part.rate, mechanism.noise_multiplier)
        return _both(replaced, replaced)  # proof: POISSON-R
    # proof: WOR-R (for Poisson under replace-one it is the generic bound of POISSON-R)
    exact &= part.kind == "without-replacement" and part.proof == "WOR-R"
    lower = PoissonSampled(base, part.rate) if exact else None
    return _both(SymmetrisedSample(base, part.rate), lower)


def _amplified(mechanism: Mechanism) -> bool:
    """Whether random allocation is counted with its amplification (else as one plain use)."""
    # Below this noise an epoch reveals the bin anyway, and the tables would need too much range.
    return isinstance(mechanism, Gaussian) and mechanism.noise_multiplier >= 0.05


class NumericalAccountant(Accountant[Composition]):
    """Certified lower and upper bounds on epsilon and delta of a plan."""

    name: ClassVar[str] = "numerical"
    summary: ClassVar[str] = "certified numerical bracket (privacy loss distributions)"

    def __init__(self, rtol: float = 1e-3) -> None:
        self.rtol = _validate.positive("rtol", rtol)

    def step(self, leaf: Leaf, adjacency: Adjacency) -> Composition:
        """Return the dominating pairs of one use in both orders."""
        if isinstance(leaf, Declared):
            if leaf.epsilon == leaf.delta == 0.0:
                return (), ()
            return _both(ApproximateDP(leaf.epsilon, leaf.delta), None)  # proof: KOV-APPROX
        if isinstance(leaf, LastIterate):
            # In a composition the worst position stands for all. proof: LAST-ITERATE-GCM
            return _both(GaussianPair(LastIterateRun(leaf, adjacency).mu()), None)
        if isinstance(leaf, Selected):
            return _both(SearchPair(leaf, adjacency), None)  # proof: SELECT-PROFILE
        assert isinstance(leaf, Run | Sampled)
        composition = _sampled_pair(leaf.mechanism, participation(leaf, adjacency), adjacency)
        # One use per epoch is proven from above; from below a shuffle may hide something.
        return _upper_only(composition) if isinstance(leaf.sampler, Shuffle) else composition

    def add(self, costs: list[tuple[Composition, int]]) -> Composition:
        """Return all steps with multiplied counts, order by order."""
        orders: tuple[list[Step], list[Step]] = ([], [])
        for composition, times in costs:
            for collected, steps in zip(orders, composition, strict=True):
                for upper, lower, count in steps:
                    collected.append((upper, lower, count * times))
        return tuple(orders[0]), tuple(orders[1])

    def to_epsilon(self, total: Composition, delta: float) -> float:
        """Return the upper end of the bracket."""
        return self._ends(total, delta)[1]

    def to_delta(self, total: Composition, epsilon: float) -> float:
        """Return the upper end of the bracket."""
        return delta_bracket(total, epsilon, self.rtol)[1] if any(total) else 0.0

    def _ends(self, total: Composition, delta: float) -> tuple[float, float]:
        """Return both ends of the bracket of epsilon."""
        if not any(total):
            return 0.0, 0.0
        if delta == 0.0:
            return 0.0, math.inf
        return epsilon_bracket(total, delta, self.rtol)

    def bracket(
        self, plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> tuple[float, float]:
        """Return (lower, upper) bounds on epsilon at `delta`."""
        relation, delta = Adjacency.of(adjacency), _validate.delta(delta)
        leaves = counted(plan, relation)
        alone = _own_curve(leaves, relation)
        if alone is not None:
            return 0.0, alone.epsilon(delta)
        lower, upper = self._ends(self.total(plan, relation), delta)
        for leaf, count in leaves:
            if not isinstance(leaf, Noisy) or not isinstance(leaf.sampler, Shuffle):
                continue
            if isinstance(leaf.mechanism, Gaussian):
                given = leaf.sampler.batches, leaf.mechanism.noise_multiplier, delta
                shown = shuffle_lower_epsilon(*given, epochs=count, adjacency=relation)
                lower = max(lower, shown)
        if relation is Adjacency.REPLACE_ONE and has_allocation(leaves):
            total = self._zero_out_total(leaves)
            if total is not None:
                other, single = self._ends(total, delta)
                chained = self._chain(_upper_only(total), delta, 2.0 * single)
                # A record with a zero vector is a record, so zero-out neighbours are among ours.
                lower, upper = max(lower, other), min(upper, chained)
        return min(lower, upper), upper

    def epsilon(
        self, plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the certified upper bound on epsilon."""
        return self.bracket(plan, delta=delta, adjacency=adjacency)[1]

    def delta(
        self, plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return the certified upper bound on delta."""
        relation, epsilon = Adjacency.of(adjacency), _validate.non_negative("epsilon", epsilon)
        leaves = counted(plan, relation)
        alone = _own_curve(leaves, relation)
        if alone is not None:
            return float(alone.delta(epsilon))
        value = self.to_delta(self.total(plan, relation), epsilon)
        if relation is Adjacency.REPLACE_ONE and has_allocation(leaves):
            total = self._zero_out_total(leaves)
            if total is not None and epsilon <= 1400.0:  # beyond, e^{epsilon/2} is no double
                # proof: ALLOCATION-R, with the budget split in halves. A delta that underflows
                # to 0 must not hide a large factor.
                half = max(self.to_delta(_upper_only(total), epsilon / 2.0), _SMALLEST_HALF)
                value = min(value, half * (1.0 + math.exp(epsilon / 2.0)))
        return min(1.0, value)

    def _zero_out_total(self, leaves: list[tuple[Leaf, int]]) -> Composition | None:
        try:
            return self.add(
                [(self.step(leaf, Adjacency.ZERO_OUT), count) for leaf, count in leaves]
            )
        except Unproven:  # another part of the plan has a proof under replace-one only
            return None

    def _chain(self, total: Composition, delta: float, start: float) -> float:
        """Return an epsilon of two changes from those of one, inf where none is found.

        proof: ALLOCATION-R, with the budget split in halves: e is enough as soon as one change has
        epsilon e / 2 at delta / (1 + e^{e/2}). What is needed there grows with e, but slowly; the
        growth seen so far says where the two meet.
        """
        found, rate = start, 0.0
        last: tuple[float, float] | None = None
        for _ in range(60):
            share = delta / (1.0 + math.exp(min(found, 1400.0) / 2.0)) * (1.0 - 1e-14)
            if not found <= _LARGEST_CHAIN or share < _SMALLEST_HALF:
                return math.inf
            needed = 2.0 * self._ends(total, share)[1]
            if needed <= found:
                return found
            if last is not None:
                rate = min(0.9, max(0.0, (needed - last[1]) / (found - last[0])))
            last = found, needed
            found = (needed - rate * found) / (1.0 - rate) * (1.0 + self.rtol / 16.0)
        return math.inf


def _own_curve(leaves: list[tuple[Leaf, int]], adjacency: Adjacency) -> Any:
    """Return the curve of a plan that is one leaf with a curve of its own, used once, else None."""
    if len(leaves) != 1 or leaves[0][1] != 1:
        return None
    leaf = leaves[0][0]
    if isinstance(leaf, LastIterate):
        return LastIterateRun(leaf, adjacency)
    return search_curve(leaf, adjacency) if isinstance(leaf, Selected) else None


def has_allocation(leaves: list[tuple[Leaf, int]]) -> bool:
    """Whether some leaf is counted by the tables of random allocation."""
    return any(
        isinstance(leaf, Sampled)
        and isinstance(leaf.sampler, RandomAllocation)
        and _amplified(leaf.mechanism)
        for leaf, _ in leaves
    )


def shuffle_lower_epsilon(
    batches: int, noise_multiplier: float, delta: float, *, epochs: int = 1,
    adjacency: Adjacency | str = Adjacency.ZERO_OUT,
) -> float:  # fmt: skip
    """Return a proved **lower** bound on epsilon of shuffled SGD with all iterates released.

    No accountant may report less for a shuffled loader. The data: every gradient is -C except the
    record's +C, so, in units of C and centred, an epoch shows x ~ N(2 e_t, z^2 I) with t uniform
    over the l batches, against N(e_t, z^2 I) (zero-out) or N(0, z^2 I) (replace-one). For any tau
    the event max x_t > tau has probabilities p and q under the two, and over E reshuffled epochs
    the number of such events is Bin(E, p) against Bin(E, q), so for every k

        epsilon >= log( (P[Bin(E, p) >= k] - delta) / P[Bin(E, q) >= k] ).

    The bound is maximised over tau and k, at least 0, rounded down.
    """
    # proof: SHUFFLE-LOWER
    count = _validate.integer("batches", batches)
    z = _validate.positive("noise_multiplier", noise_multiplier)
    rounds, relation = _validate.integer("epochs", epochs), Adjacency.of(adjacency)
    Shuffle(batches=1).participation(relation)  # refuses add-remove with the reason
    other, delta = 2.0 - relation.contributions, _validate.delta(delta)
    # Every k is valid; 200 of them lose nothing visible and bound the work.
    k = np.unique(np.rint(np.linspace(1, rounds, min(rounds, 200))))[:, None]

    def bound(tau: Floats) -> Floats:
        rest = (count - 1) * log_ndtr(tau / z)
        # P(max_t x_t > tau), one coordinate N(shift, z^2) and the others N(0, z^2)
        p, q = (
            betainc(k, rounds - k + 1, -np.expm1(log_ndtr((tau - shift) / z) + rest))
            for shift in (2.0, other)
        )
        # p close to delta or q near the smallest double have lost digits: they prove nothing.
        good = (p > 1.01 * delta) & (q > 1e-290)
        value = np.log(np.where(good, p - delta, 1.0)) - np.log(np.where(good, q, 1.0))
        return np.asarray(value.max(axis=0))

    low, high, best = -2.0 - 10.0 * z, 4.0 + 40.0 * z, 0.0
    for _ in range(6):  # every tau is valid: refining a grid only tightens
        grid = np.linspace(low, high, 401)
        values = bound(grid)
        top, step = int(values.argmax()), grid[1] - grid[0]
        best = max(best, float(values[top]))
        low, high = grid[top] - 2.0 * step, grid[top] + 2.0 * step
    return max(0.0, best * (1.0 - 1e-9) - 1e-9)
