"""The numbers of a page and their words, from public facts: curve, attack, noise, costs."""

import math
from dataclasses import dataclass

from noisette.core import accounting
from noisette.core.adjacency import UNITS, Adjacency
from noisette.core.guarantee import Guarantee, rounded_up
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    GaussianThreshold,
    Mechanism,
    ObjectiveNoise,
)
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import LastIterate, Parallel, Plan, Repeat, Selected, Together
from noisette.core.plans.leaves import Noisy
from noisette.errors import Unproven

DELTAS = tuple(10.0**-k for k in range(12, 1, -1))
_DRAWN_UP_TO = 100.0  # beyond it nothing is promised that a curve could show

Curve = list[tuple[float, float]]

_RELATIONS = {
    "record": {
        Adjacency.REPLACE_ONE: "replace-one: one person's record is exchanged for any other",
        Adjacency.ZERO_OUT: "zero-out: one person's record is blanked out, so that neither its "
        "features nor its label take part",
        Adjacency.ADD_REMOVE: "add-remove: one person's record is added or taken away",
    },
    "person": {
        Adjacency.REPLACE_ONE: "replace-one: all rows of one person are exchanged for any others",
        Adjacency.ZERO_OUT: "zero-out: all rows of one person are blanked out, so that neither "
        "their features nor their labels take part",
        Adjacency.ADD_REMOVE: "add-remove: all rows of one person are added or taken away",
    },
}
# What the promise speaks of: under zero-out and add-remove it says nothing about another record.
CHANGES = {
    Adjacency.REPLACE_ONE: ("{} different", "two candidates for {} apart"),
    Adjacency.ZERO_OUT: ("{} blanked out", "whether {} took part or was blanked out"),
    Adjacency.ADD_REMOVE: ("{} missing, or one more there", "whether {} took part at all"),
}
_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def curve_of(guarantee: Guarantee, deltas: tuple[float, ...] = DELTAS) -> Curve:
    """Return (delta, epsilon) pairs of the guarantee's own curve, finite ones only.

    The promised pair is among them, and a reading never exceeds the promise to its left.
    """
    if guarantee.epsilon > _DRAWN_UP_TO:
        return [(guarantee.delta, guarantee.epsilon)] if guarantee.delta else []
    points: Curve = []
    for delta in sorted({*deltas, guarantee.delta} - {0.0}):
        try:
            epsilon = guarantee.epsilon_at(delta)
        except Unproven:
            continue
        if delta >= guarantee.delta:  # the promise itself is a bound from its delta on
            epsilon = min(epsilon, guarantee.epsilon)
        if math.isfinite(epsilon):
            points.append((delta, epsilon))
    return points


def attack_power(guarantee: Guarantee, alarm: float, curve: Curve) -> float:
    """Return a bound on how often an attacker is right who may err with probability `alarm`.

    The attacker sees the release and decides between two neighbouring data sets, knowing all other
    records. At every (delta, epsilon) of the curve the power is at most e^epsilon alarm + delta and
    at most 1 - e^-epsilon (1 - alarm - delta); the least of all is returned.
    """
    # proof: TEST-POWER
    best = 1.0
    for delta, epsilon in [(guarantee.delta, guarantee.epsilon), *curve]:
        grown = math.exp(min(epsilon, 700.0)) * alarm + delta
        kept = 1.0 - math.exp(-epsilon) * (1.0 - alarm - delta)
        best = min(best, grown, kept)
    return max(best, alarm)


@dataclass(frozen=True)
class Noise:
    """One kind of noise in a plan.

    `strength` is its standard deviation along one direction, in units of the most that changing
    one record can do to the value it was added to; k changed records do at most k times that.
    `times` is how often it was drawn, `batches` into how many parts a pass is divided.
    """

    where: str
    strength: float | None
    times: int
    batches: int


def _spread(mechanism: Mechanism) -> float | None:
    """Return the standard deviation along one direction in units of C, if the noise is added."""
    if not isinstance(mechanism, AdditiveNoise):
        return None
    return mechanism.noise_multiplier * mechanism.spread


def _strength(leaf: Noisy, guarantee: Guarantee) -> float | None:
    spread = _spread(leaf.mechanism)
    return None if spread is None else spread / guarantee.adjacency.contributions


def noise_of(guarantee: Guarantee) -> list[Noise]:
    """Return the noises of the plan in the order in which they were drawn."""
    plan, scores = guarantee.plan, list[Noise]()
    if isinstance(plan, Parallel) and "TEST-SHARE" in guarantee.proofs:
        plan, test = plan.plans
        for leaf, count in test.leaves():
            assert isinstance(leaf, Noisy)
            scores.append(Noise("scores", _strength(leaf, guarantee), count, 1))
    leaves = list(plan.leaves())
    objective = any(
        isinstance(leaf, Noisy) and isinstance(leaf.mechanism, ObjectiveNoise) for leaf, _ in leaves
    )
    found = []
    for leaf, count in leaves:
        if isinstance(leaf, Selected):
            found.append(Noise("search", None, count, 1))
            continue
        if not isinstance(leaf, Noisy):
            found.append(Noise("declared", None, count, 1))
            continue
        where, times = "steps", count * leaf.draws_per_use
        if isinstance(leaf.mechanism, ObjectiveNoise):
            where = "objective"
        elif isinstance(leaf.mechanism, GaussianThreshold):
            where = "levels"
        elif objective and isinstance(leaf.mechanism, Exponential):
            where = "choices"
        elif objective and "HISTOGRAM" in guarantee.proofs and leaf is not leaves[-1][0]:
            where = "counts"
        elif objective and "APPROXIMATE-MINIMISER" in guarantee.proofs:
            where = "cover"
        elif "OUTPUT-SENSITIVITY" in guarantee.proofs:
            where = "weights"
        elif times == 1 and not isinstance(leaf, LastIterate):
            where = "value"
        batches = leaf.sampler.steps if leaf.draws_per_use > 1 else 1
        found.append(Noise(where, _strength(leaf, guarantee), times, batches))
    return found + scores


# --- words ----------------------------------------------------


def neighbours_of(adjacency: Adjacency, unit: str) -> str:
    """Return who may differ, in words."""
    return _RELATIONS[unit][adjacency]


def were_changed(adjacency: Adjacency, unit: str) -> str:
    """Return the condition of the promise, for the start of a sentence."""
    return "Were " + CHANGES[adjacency][0].format(UNITS[unit].any_one)


def delta_words(delta: float) -> str:
    """Return delta as people write it, never less than it is."""
    if delta == 0.0:
        return "0"
    digits, power = f"{float(rounded_up(delta, digits=3)):.2e}".split("e")
    if int(power) >= -3:
        return rounded_up(delta, digits=3)
    ten = "10" + str(int(power)).translate(_UP)
    return ten if float(digits) == 1.0 else f"{float(digits):g} × {ten}"


def factor_words(epsilon: float) -> str:
    """Return e^epsilon in three digits, rounded up."""
    if epsilon > 30.0:
        return "an astronomically large factor"
    return f"a factor of {in_three(math.exp(epsilon))}"


def in_three(value: float) -> str:
    """Return a number in three digits, rounded up."""
    places = 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10.0**places - 1e-9) / 10.0**places:,.{max(0, places)}f}"


# --- what each step of a plan cost ------------------------------------------------


@dataclass(frozen=True)
class StepCost:
    """One step: its name, its part of the whole budget, and its epsilon at the same delta alone.

    Parts are of mu squared, in which Gaussian costs add up, and of epsilon where delta = 0. The
    epsilons do not add up to the whole: together, steps cost less than the sum of each alone.
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
    sizes = {
        name: sum(count * _size(leaf.mechanism, adjacency, pure=delta == 0.0) for leaf, count in of)
        for name, of in groups.items()
    }
    alone = {name: _alone(group, delta, adjacency) for name, group in groups.items()}
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
