"""About the epsilon of a plan, in little time and without a guarantee: where a search begins."""

import math
from dataclasses import replace

from noisette.core.accounting.base import counted
from noisette.core.accounting.numerical.pairs import Pair, RandomAllocationPair, Swapped
from noisette.core.accounting.numerical.problems import EpsilonProblem
from noisette.core.accounting.pld import Composition, NumericalAccountant, has_allocation
from noisette.core.adjacency import Adjacency
from noisette.core.plans import PlanLike, as_plan
from noisette.errors import AdjacencyMismatch, Unproven

_RESOLUTION = 0.25  # of the tables; their time grows with its square
_WIDTH = 1e-2


def rough_epsilon(plan: PlanLike, delta: float, adjacency: Adjacency) -> float | None:
    """Return about epsilon at `delta`, to a few percent.

    None where the certified number takes little time itself: only tables of random allocation are
    slow. Under replace-one it solves ALLOCATION-R's equation for the two changes.
    """
    whole = as_plan(plan)
    if delta == 0.0 or len(list(whole.alternatives())) > 1:
        return None
    if not has_allocation(counted(whole, adjacency)):
        return None
    if adjacency is not Adjacency.REPLACE_ONE:
        return _rough(NumericalAccountant().total(whole, adjacency), delta)
    try:
        total = NumericalAccountant().total(whole, Adjacency.ZERO_OUT)
    except (AdjacencyMismatch, Unproven):  # another part is proven under replace-one only
        return None
    found = 0.0
    for _ in range(3):
        found = 2.0 * _rough(total, delta / (1.0 + math.exp(min(found / 2.0, 50.0))))
    return found


def _rough(total: Composition, delta: float) -> float:
    """Return the greater of the upper bounds of both orders, read once on a coarse lattice."""
    found = 0.0
    for steps in total:
        problem = EpsilonProblem(tuple((_coarse(up), None, n) for up, _, n in steps), delta)
        problem.prepare(_WIDTH, 0)
        problem.improve_upper()
        found = max(found, problem.high)
    return found


def _coarse(pair: Pair) -> Pair:
    if isinstance(pair, Swapped):
        return _coarse(pair.base).swapped()
    return replace(pair, resolution=_RESOLUTION) if isinstance(pair, RandomAllocationPair) else pair
