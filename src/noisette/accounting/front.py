"""The front door of accounting: the best proven number for a plan."""

from typing import Any

from noisette.accounting.base import Accountant
from noisette.accounting.gdp import GaussianAccountant
from noisette.accounting.moments import MomentsAccountant, RenyiAccountant
from noisette.accounting.pure import AdvancedAccountant, LinearAccountant
from noisette.adjacency import Adjacency
from noisette.plans import PlanLike

__all__ = ["ACCOUNTANTS", "delta", "epsilon"]

ACCOUNTANTS: dict[str, type[Accountant[Any]]] = {
    kind.name: kind
    for kind in (
        LinearAccountant,
        AdvancedAccountant,
        MomentsAccountant,
        RenyiAccountant,
        GaussianAccountant,
    )
}


def epsilon(
    plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
) -> float:
    """Return the least proven epsilon of `plan` at `delta` (inf if no theorem bounds it)."""
    if delta == 0.0:  # only a pure accountant can answer, and it is exact
        return LinearAccountant().epsilon(plan, delta=0.0, adjacency=adjacency)
    kinds = ACCOUNTANTS.values()
    return min(kind().epsilon(plan, delta=delta, adjacency=adjacency) for kind in kinds)


def delta(
    plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
) -> float:
    """Return the least proven delta of `plan` at `epsilon` (1 if no theorem bounds it)."""
    kinds = ACCOUNTANTS.values()
    return min(kind().delta(plan, epsilon=epsilon, adjacency=adjacency) for kind in kinds)
