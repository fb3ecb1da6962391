"""The numbers of a page and their words, from public facts: curve, attack, noise, costs."""

import math
from dataclasses import dataclass
from typing import Any

from noisette.core import accounting
from noisette.core.adjacency import UNITS, Adjacency
from noisette.core.guarantee import Guarantee, rounded_up
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Exponential, Gaussian, GaussianThreshold, ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import LastIterate, Parallel, Plan, Repeat, Selected, Together
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import Noisy
from noisette.errors import Unproven

DELTAS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
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
_NAMES: dict[Any, str] = {
    Exponential: "knots",
    GaussianThreshold: "levels",
    ObjectiveNoise: "weights",
}
_RELEASED = {
    "knots": "knots of the numeric columns",
    "spikes": "single numbers that many people share",
    "levels": "levels that nobody listed",
    "shares": "how the rows spread over features and labels",
    "weights": "the weights of the model",
    "calibration": "people by label and score",
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
        best = min(best, grown, 1.0 - math.exp(-epsilon) * (1.0 - alarm - delta))
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


def noise_of(guarantee: Guarantee) -> list[Noise]:
    """Return the noises of the plan in the order in which they were drawn."""
    plan, proofs, bought = guarantee.plan, guarantee.proofs, list[tuple[Leaf, int]]()
    if isinstance(plan, Parallel) and "TEST-SHARE" in proofs:
        plan, test = plan.plans
        bought = list(test.leaves())
    leaves = list(plan.leaves())
    objective = any(
        isinstance(getattr(leaf, "mechanism", None), ObjectiveNoise) for leaf, _ in leaves
    )
    found = []
    for number, (leaf, times) in enumerate([*leaves, *bought]):
        strength, batches, mechanism = None, 1, getattr(leaf, "mechanism", None)
        if isinstance(leaf, Noisy):
            times *= leaf.draws_per_use
            batches = leaf.sampler.steps if leaf.draws_per_use > 1 else 1
        if isinstance(mechanism, AdditiveNoise):
            strength = mechanism.noise_multiplier * mechanism.spread
            strength /= guarantee.adjacency.contributions
        kinds = {
            "search": isinstance(leaf, Selected),
            "declared": mechanism is None,
            "scores": number >= len(leaves),
            "objective": isinstance(mechanism, ObjectiveNoise),
            "levels": isinstance(mechanism, GaussianThreshold),
            "choices": objective and isinstance(mechanism, Exponential),
            "counts": objective and "HISTOGRAM" in proofs and leaf is not leaves[-1][0],
            "cover": objective and "APPROXIMATE-MINIMISER" in proofs,
            "weights": "OUTPUT-SENSITIVITY" in proofs,
            "value": times == 1 and not isinstance(leaf, LastIterate),
            "steps": True,
        }
        where = max(kinds, key=kinds.__getitem__)  # the first that holds
        found.append(Noise(where, strength, times, batches))
    return found


# --- words ----------------------------------------------------


def promised(of: Guarantee | Ledger, unit: str) -> dict[str, str]:
    """Return the words of a promise; the factor is rounded up."""
    return {
        "changed": "Were " + CHANGES[of.adjacency][0].format(UNITS[unit].any_one),
        "neighbours": _RELATIONS[unit][of.adjacency],
        "factor": factor_words(of.epsilon),
        "slack": f", plus {delta_words(of.delta)}" if of.delta else "",
    }


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
    large = "an astronomically large factor"
    return large if epsilon > 30.0 else f"a factor of {in_three(math.exp(epsilon))}"


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
    expected: str = ""
    """What the noise does to what it releases, where that was foreseen."""

    @property
    def released(self) -> str:
        """What it releases, in words."""
        return _RELEASED[self.name]

    def __str__(self) -> str:
        return f"{100.0 * self.part:.2g} % of the budget: {self.released}. {self.expected}"


def steps_of(plan: Plan, delta: float, adjacency: Adjacency) -> list[StepCost]:
    """Return the steps of a plan that learns the facts of a table; of any other plan none."""
    if isinstance(plan, Parallel):  # of a training and a test on other people
        plan = plan.plans[0]
    leaves = list(plan.leaves())
    kinds = [type(getattr(leaf, "mechanism", None)) for leaf, _ in leaves]
    if len(leaves) < 2 or type(None) in kinds:
        return []
    objective, groups, sizes = ObjectiveNoise in kinds, dict[str, list[Plan]](), dict[str, float]()
    for (leaf, count), kind in zip(leaves, kinds, strict=True):
        mechanism: Any = getattr(leaf, "mechanism", None)
        # What hides where the solver stopped, the last leaf, belongs to the weights.
        name = "weights" if "weights" in groups else _NAMES.get(kind, "shares")
        if objective and len(groups.get("weights", ())) == 2:
            name = "calibration"
        if name == "shares" and "shares" in groups and not objective:
            name = "weights"  # of another algorithm, which comes behind the shares
        elif name == "shares" and objective and "spikes" not in groups:
            before = kinds[: kinds.index(ObjectiveNoise)]
            name = "spikes" if before.count(Gaussian) > 1 else "shares"
        # What it takes of the budget, in the unit in which that was shared out.
        if delta == 0.0:
            size = mechanism.pure_epsilon(adjacency)
        elif kind is Exponential:  # one choice of epsilon e is about Gaussian(2 / e)
            size = (mechanism.epsilon / 2.0) ** 2
        else:
            size = (adjacency.contributions / getattr(mechanism, "noise_multiplier", 1.0)) ** 2
        sizes[name] = sizes.get(name, 0.0) + count * size
        groups.setdefault(name, []).append(Repeat(leaf, count))
    if len(groups) < 2 or "weights" not in groups:
        return []
    alone = {}
    for name, parts in groups.items():
        whole = Together(*parts) if len(parts) > 1 else parts[0]
        alone[name] = accounting.epsilon(whole, delta=delta, adjacency=adjacency)
    sizes = sizes if objective else alone  # else the budget is divided by epsilon
    total = sum(sizes.values())
    return [StepCost(name, sizes[name] / total, alone[name]) for name in groups]
