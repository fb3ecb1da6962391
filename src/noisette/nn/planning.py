"""Plans for networks: which sampler, how many steps, how much noise. All from public facts."""

import math
from collections.abc import Sequence

from scipy.optimize import brentq

from noisette import _validate, accounting
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter, Unproven
from noisette.mechanisms import Gaussian
from noisette.plans import Parallel, Plan, Repeat, Sampled
from noisette.sampling import Poisson
from noisette.training.noisy_sgd import make_sampler

__all__ = ["make_level_plan", "make_plan"]


def make_plan(
    *,
    size: int,
    epsilon: float,
    delta: float,
    batch_size: int,
    epochs: int | None = None,
    steps: int | None = None,
    sampling: str | None = None,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> Plan:
    """Return the plan of a training run with the least noise for (epsilon, delta).

    Parameters
    ----------
    size : the public number of records (under add-remove: a public stand-in for it).
    batch_size : the expected number of records in a batch.
    epochs, steps : how long to train; give one of them.
    sampling : a name in `noisette.sampling.SAMPLERS`. Default ``"poisson"`` with `steps`, and
        ``"random-allocation"`` with `epochs` (every record once per epoch, in a batch that it draws
        itself).

    """
    size, batch_size = _validate.integer("size", size), _validate.integer("batch_size", batch_size)
    relation, delta = Adjacency.of(adjacency), _validate.delta_for(delta, size)
    if batch_size > size:
        raise InvalidParameter(
            f"batch_size={batch_size} is larger than the {size} records; choose at most {size}."
        )
    if (epochs is None) == (steps is None):
        raise InvalidParameter("give either epochs or steps.")
    chosen = sampling or ("random-allocation" if steps is None else "poisson")
    sampler, uses = make_sampler(chosen, size, batch_size, _validate.integer("epochs", epochs or 1))
    if steps is not None:
        steps = _validate.integer("steps", steps)
        if sampler.steps > 1:
            raise InvalidParameter(
                f"{chosen} sampling sweeps the data, so its length is a number of epochs, "
                "not of steps."
            )
        uses = steps
    sampler.participation(relation)  # refuses what has no proof, before a long calibration

    def plan(z: float) -> Plan:
        return Repeat(Sampled(Gaussian(z), sampler), uses)

    z = accounting.calibrate(plan, epsilon=epsilon, delta=delta, adjacency=relation)
    return plan(z).under(relation)


def make_level_plan(
    levels: Sequence[tuple[float, int]],
    *,
    delta: float,
    batch_size: int,
    steps: int,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> Parallel:
    """Return the plan that gives each group of people its own epsilon by its own sampling rate.

    `levels` lists (epsilon, number of people) of each group; both are public. All groups share the
    noise; group g joins a batch at the largest rate that keeps it within its epsilon, and the noise
    is such that the expected batch has `batch_size` people. Order is kept: person of group g is
    counted by part g of the plan.
    """
    # proof: SAMPLE-LEVELS
    relation = Adjacency.of(adjacency)
    if relation is Adjacency.ADD_REMOVE:
        raise Unproven(
            "personal levels need public group sizes, which add-remove hides; use another "
            "adjacency."
        )
    if not levels:
        raise InvalidParameter("levels must name at least one group.")
    groups = [(_validate.epsilon(e), _validate.integer("group size", n)) for e, n in levels]
    batch_size = _validate.integer("batch_size", batch_size)
    steps = _validate.integer("steps", steps)
    delta = _validate.delta_for(delta, sum(n for _, n in groups))
    if batch_size > sum(n for _, n in groups):
        raise InvalidParameter(f"batch_size={batch_size} is larger than all groups together.")

    def rates(z: float) -> list[float]:
        return [_largest_rate(z, steps, epsilon, delta, relation) for epsilon, _ in groups]

    def excess(log_z: float) -> float:
        found = sum(q * n for q, (_, n) in zip(rates(math.exp(log_z)), groups, strict=True))
        return math.log(max(found, 1e-12) / batch_size)

    # With everybody at the largest (smallest) level the answer is the noise for that one rate, and
    # a mixture lies between the two.
    rate = batch_size / sum(n for _, n in groups)

    def alone(epsilon: float) -> float:
        return accounting.calibrate(
            lambda z: Repeat(Sampled(Gaussian(z), Poisson(rate)), steps),
            epsilon=epsilon, delta=delta, adjacency=relation,
        )  # fmt: skip

    low, high = (alone(pick(epsilon for epsilon, _ in groups)) for pick in (max, min))
    z = high
    if low < high:
        z = math.exp(brentq(excess, math.log(low * 0.999), math.log(high * 1.001), xtol=1e-4))
    found = rates(z)
    for q, (epsilon, _) in zip(found, groups, strict=True):
        if q == 0.0:
            raise InvalidParameter(
                f"no sampling rate keeps the level {epsilon:g} at delta={delta:g} beside the "
                "others; bring the levels nearer to each other, or take a larger delta."
            )
    parts = [Repeat(Sampled(Gaussian(z), Poisson(q)), steps) for q in found]
    return Parallel(*parts, adjacency=relation)


def _largest_rate(
    z: float, steps: int, epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    def plan(rate: float) -> Plan:
        return Repeat(Sampled(Gaussian(z), Poisson(rate)), steps)

    try:
        return accounting.calibrate(
            plan, epsilon=epsilon, delta=delta, adjacency=adjacency, find="rate"
        )
    except InvalidParameter:  # so little noise that no rate will do
        return 0.0
