"""The numbers of the page, all from public facts: the curve, an attacker's power, the noise."""

import math
from dataclasses import dataclass

from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms import Exponential, GaussianThreshold, Mechanism, ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import LastIterate, Parallel, Selected
from noisette.core.plans.leaves import Noisy
from noisette.errors import Unproven

DELTAS = tuple(10.0**-k for k in range(12, 1, -1))
_DRAWN_UP_TO = 100.0  # beyond it nothing is promised that a curve could show

Curve = list[tuple[float, float]]


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
