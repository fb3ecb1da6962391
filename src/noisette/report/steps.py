"""What each step of a plan cost: its part of the budget, and its epsilon had it run alone."""

from dataclasses import dataclass

from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    GaussianThreshold,
    Mechanism,
    ObjectiveNoise,
)
from noisette.core.plans import Noisy, Parallel, Plan, Repeat, Together


@dataclass(frozen=True)
class StepCost:
    """One step: its name, its part of the whole budget, and its epsilon at the same delta alone.

    Parts are of mu squared, in which Gaussian costs add up, and of epsilon where delta = 0 or where
    the model is not found by objective perturbation. The epsilons do not add up to the whole:
    together, steps cost less than the sum of each alone.
    """

    name: str
    part: float
    epsilon: float


def steps_of(plan: Plan, delta: float, adjacency: Adjacency) -> list[StepCost]:
    """Return the steps of a plan that learns the facts of a table; of any other plan none."""
    if isinstance(plan, Parallel):  # of a training and a test on other people
        plan = plan.plans[0]
    groups: dict[str, list[tuple[Noisy, int]]] = {}
    leaves = list(plan.leaves())
    counts = sum(
        isinstance(leaf.mechanism, Gaussian) for leaf, _ in leaves if isinstance(leaf, Noisy)
    )
    objective = any(
        isinstance(getattr(leaf, "mechanism", None), ObjectiveNoise) for leaf, _ in leaves
    )
    if len(leaves) < 2 or not all(isinstance(leaf, Noisy) for leaf, _ in leaves):
        return []
    for leaf, count in leaves:
        assert isinstance(leaf, Noisy)
        # What hides where the solver stopped, the last leaf, belongs to the weights.
        name = "weights" if "weights" in groups else _name(leaf.mechanism)
        if name == "shares" and "shares" in groups and not objective:
            name = "weights"  # of another algorithm, which comes behind the shares
        elif name == "shares" and objective and "spikes" not in groups and counts > 2:
            name = "spikes"
        groups.setdefault(name, []).append((leaf, count))
    if len(groups) < 2 or "weights" not in groups:
        return []
    alone = {name: _alone(group, delta, adjacency) for name, group in groups.items()}
    sizes = {
        name: sum(count * _size(leaf.mechanism, adjacency, pure=delta == 0.0) for leaf, count in of)
        for name, of in groups.items()
    }
    if not objective:  # whose budget is divided by epsilon
        sizes = alone
    whole = sum(sizes.values())
    return [StepCost(name, sizes[name] / whole, alone[name]) for name in groups]


def _name(mechanism: Mechanism) -> str:
    if isinstance(mechanism, Exponential):
        return "knots"
    if isinstance(mechanism, GaussianThreshold):
        return "levels"
    return "weights" if isinstance(mechanism, ObjectiveNoise) else "shares"


def _size(mechanism: Mechanism, adjacency: Adjacency, *, pure: bool) -> float:
    """Return what a mechanism takes of the budget, in the unit in which it was shared out."""
    if pure:
        return mechanism.pure_epsilon(adjacency)
    if isinstance(mechanism, Exponential):  # one choice of epsilon e is about Gaussian(2 / e)
        return (mechanism.epsilon / 2.0) ** 2
    scale: float = getattr(mechanism, "noise_multiplier", 1.0)
    return (adjacency.contributions / scale) ** 2


def _alone(group: list[tuple[Noisy, int]], delta: float, adjacency: Adjacency) -> float:
    parts = [Repeat(leaf, count) for leaf, count in group]
    plan = Together(*parts) if len(parts) > 1 else parts[0]
    return accounting.epsilon(plan, delta=delta, adjacency=adjacency)
