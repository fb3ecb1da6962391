"""The accountant's frame: it walks the plan once and owns counts and nesting.

A concrete accountant only knows the cost of one leaf and how to turn a total into (epsilon, delta).
Counts are multiplied here and in `Plan.leaves`, nowhere else.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from noisette import _validate
from noisette.core.adjacency import Adjacency, require_same
from noisette.core.mechanisms import GaussianThreshold, ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import Run, Sampled
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.core.sampling.base import Participation
from noisette.errors import InvalidParameter, Unproven

Cost = TypeVar("Cost")

_MOST_USES = 2**53  # beyond, a count as a float could be smaller than the count


def counted(plan: PlanLike, adjacency: Adjacency) -> list[tuple[Leaf, int]]:
    """Return the distinct leaves of `plan` with their total counts, after the adjacency check."""
    plan = as_plan(plan)
    require_same(plan.adjacency or adjacency, "the plan", adjacency, "the accounting")
    if plan._groups > 1:
        raise Unproven(
            "an accountant counts one alternative at a time; use accounting.epsilon for a plan "
            "with Parallel parts."
        )
    counts: dict[Leaf, int] = {}
    for leaf, count in plan.leaves():
        counts[leaf] = counts.get(leaf, 0) + count
    if max(counts.values()) > _MOST_USES:
        raise InvalidParameter("a plan may run each of its parts at most 2^53 times.")
    return list(counts.items())


def participation(leaf: Run | Sampled, adjacency: Adjacency) -> Participation:
    """Return how one record takes part in `leaf`; at rate 1 sampling is taking part."""
    part = leaf.sampler.participation(adjacency)
    additive = isinstance(leaf.mechanism, AdditiveNoise)
    if part.kind == "poisson" and adjacency is Adjacency.REPLACE_ONE and not additive:
        # A replaced record may be in the batch or not; only additive noise on bounded
        # contributions is also close for a *missing* record. proof: POISSON-R
        raise Unproven(
            f"{leaf.mechanism.name} has no proof on Poisson batches under replace-one; "
            "use without-replacement sampling, or add-remove."
        )
    if part.kind != "once" and isinstance(leaf.mechanism, ObjectiveNoise | GaussianThreshold):
        raise Unproven(f"{leaf.mechanism.name} has no proof on random batches; use the full batch.")
    if part.kind != "once" and part.rate == 1.0 and part.batches == 1:
        return Participation("once", part.proof)
    return part


class Accountant(ABC, Generic[Cost]):
    """Turns a plan into upper bounds on epsilon and delta; `inf` and 1 mean "no bound".

    The functions `epsilon` and `delta` of `noisette.accounting` take the least of all; a single
    accountant is for comparison. `name` is its name in `ACCOUNTANTS`, `summary` a line for help
    texts.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def step(self, leaf: Leaf, adjacency: Adjacency) -> Cost:
        """Return the cost of one use of `leaf`."""

    @abstractmethod
    def add(self, costs: list[tuple[Cost, int]]) -> Cost:
        """Return the total of costs, each taken so many times."""

    @abstractmethod
    def to_epsilon(self, total: Cost, delta: float) -> float:
        """Return an epsilon that the total cost allows at `delta`."""

    def to_delta(self, total: Cost, epsilon: float) -> float:
        """Return the least delta at which `to_epsilon` reaches epsilon, rounded up."""
        # Bisection on log delta down to 1e-300, below which 0 or the last proven value is returned.
        if self.to_epsilon(total, 0.0) <= epsilon:
            return 0.0
        if self.to_epsilon(total, math.nextafter(1.0, 0.0)) > epsilon:
            return 1.0
        low, high = math.log(1e-300), 0.0
        while high - low > 1e-9:
            middle = (low + high) / 2.0
            if self.to_epsilon(total, math.exp(middle)) <= epsilon:
                high = middle
            else:
                low = middle
        return math.exp(high)

    def total(self, plan: PlanLike, adjacency: Adjacency | str = Adjacency.REPLACE_ONE) -> Cost:
        """Return the cost of the whole plan."""
        relation = Adjacency.of(adjacency)
        costs = []
        for leaf, count in counted(plan, relation):
            costs.append((self.step(leaf, relation), count))
        return self.add(costs)

    def epsilon(
        self, plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return an upper bound on epsilon at `delta`; inf if this accountant has none."""
        delta = _validate.delta(delta)
        return max(0.0, self.to_epsilon(self.total(plan, adjacency), delta))

    def delta(
        self, plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> float:
        """Return an upper bound on delta at `epsilon`; 1 if this accountant has none."""
        epsilon = _validate.non_negative("epsilon", epsilon)
        return min(1.0, max(0.0, self.to_delta(self.total(plan, adjacency), epsilon)))
