"""Proven bounds on delta at an epsilon, one by one: who asks whether one is enough stops early."""

import math
from collections.abc import Iterator

from noisette.core.accounting.base import counted, participation
from noisette.core.accounting.gdp import GaussianAccountant
from noisette.core.accounting.pld import NumericalAccountant
from noisette.core.accounting.pure import pure_epsilon
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Mechanism
from noisette.core.mechanisms.gaussian_curve import stated_delta
from noisette.core.plans import Leaf, Plan, PlanLike, Run, Sampled

SMALLEST_DELTA = 1e-300


def _plain(leaf: Leaf, adjacency: Adjacency) -> bool:
    """Whether every record takes part once in one use of the leaf."""
    return isinstance(leaf, Run | Sampled) and participation(leaf, adjacency).kind == "once"


def exact_numbers(plan: PlanLike, adjacency: Adjacency) -> tuple[float, float]:
    """Return (pure epsilon, mu) of the plan; inf for what it does not have.

    Both are exact in their own field and cost microseconds: pure mechanisms at delta = 0, and
    Gaussians in which every record takes part once per use.
    """
    leaves = counted(plan, adjacency)
    pure = math.fsum(pure_epsilon(leaf, adjacency) * count for leaf, count in leaves)
    plain = all(_plain(leaf, adjacency) for leaf, _ in leaves)
    return pure, math.sqrt(GaussianAccountant().total(plan, adjacency)) if plain else math.inf


def single_use(plan: PlanLike, adjacency: Adjacency) -> Mechanism | None:
    """Return the mechanism of a plan that is one plain use of it: its own curve is then exact."""
    leaves = counted(plan, adjacency)
    if len(leaves) != 1 or leaves[0][1] != 1:
        return None
    leaf = leaves[0][0]
    return leaf.mechanism if _plain(leaf, adjacency) else None  # type: ignore[attr-defined]


def _two_uses(plan: Plan, epsilon: float, adjacency: Adjacency) -> Iterator[float]:
    """Yield delta_1(e - e_2) + delta_2(e_2) of two plain single uses for some splits.

    Near the largest loss of a pure mechanism the lattice is loose and this is not: it is how
    objective perturbation with its tiny second release is calibrated, whose own split comes first.
    """
    # proof: FILTER-SUMS
    leaves = counted(plan, adjacency)
    if len(leaves) != 2 or any(count != 1 for _, count in leaves):
        return
    if not all(_plain(leaf, adjacency) for leaf, _ in leaves):
        return
    first, second = (leaf.mechanism for leaf, _ in leaves)  # type: ignore[attr-defined]
    for share in (5e-4, 1e-4, 8e-4, 2e-3, 1e-2, 5e-2, 0.2, 0.5):
        spent = epsilon * share
        yield first.delta(epsilon - spent, adjacency) + second.delta(spent, adjacency)


def delta_bounds(plan: Plan, epsilon: float, adjacency: Adjacency) -> Iterator[float]:
    """Yield proven bounds on delta of a plan without alternatives, the dearest last."""
    pure, mu = exact_numbers(plan, adjacency)
    if pure <= epsilon:
        yield 0.0
        return
    # Not pure at this epsilon, so delta is positive even where its double is 0.
    for bound in _positive_bounds(plan, epsilon, adjacency, mu):
        yield max(bound, SMALLEST_DELTA)


def _positive_bounds(
    plan: Plan, epsilon: float, adjacency: Adjacency, mu: float
) -> Iterator[float]:
    if math.isfinite(mu):
        yield float(stated_delta(mu, epsilon))
    mechanism = single_use(plan, adjacency)
    if mechanism is not None:
        yield mechanism.delta(epsilon, adjacency)
    yield from _two_uses(plan, epsilon, adjacency)
    yield NumericalAccountant().delta(plan, epsilon=epsilon, adjacency=adjacency)


def run_delta(plan: Plan, epsilon: float, relation: Adjacency) -> float:
    """Return a proven delta of one run of a search, whose curve takes many readings.

    As `delta`, without the bounds that cost time and are not the least there.
    """
    pure, mu = exact_numbers(plan, relation)
    if pure <= epsilon:
        return 0.0
    if math.isfinite(mu) and not math.isfinite(pure):
        return float(stated_delta(mu, epsilon))
    value = NumericalAccountant().delta(plan, epsilon=epsilon, adjacency=relation)
    if epsilon > 0.6 * pure and value < 1e-4:  # where the lattice is loose
        value = min(value, *_two_uses(plan, epsilon, relation), 1.0)
    mechanism = single_use(plan, relation)
    return value if mechanism is None else min(value, mechanism.delta(epsilon, relation))
