"""Networks: many noisy steps on gradients that somebody else computes, under one charge.

This file has what needs no network library: which sampler, how many steps, how much noise, all
from public facts. The run is driven by the caller, step by step: `noisette.nn.PrivateTraining`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from noisette import _validate
from noisette._typing import Indices
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, LaplaceVector
from noisette.core.plans import Parallel, Plan, Repeat, Run, Sampled, Together
from noisette.core.plans.leaves import Noisy
from noisette.core.randomness import Randomness
from noisette.core.sampling import Cyclic, Poisson, Sampler
from noisette.errors import InvalidParameter, PermitError, Unproven
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared
from noisette.fitting.algorithms.levels import check_groups, make_level_plan
from noisette.fitting.algorithms.noisy_sgd import make_sampler
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget, check_scale
from noisette.fitting.clipping import checked_bound

_NO_LEVELS = "what is released before the steps has no proof beside personal levels."


@dataclass(frozen=True, kw_only=True)
class PublicNetwork(PublicBudget):
    """Public facts of one training of a network, beside those of `PublicBudget`.

    `batch_size`, `epochs`, `steps` and `sampling` are those of `make_plan`.

    parameters : how many numbers are trained, where they are known already.
    levels : (epsilon, number of people) of each group with an epsilon of its own.
    before : what is released before the first step, within the same budget.
    plan : a plan of the caller's own, instead of all from `batch_size` to `before`.
    clip_norm : the norm bound of one record's gradient, or where a bound that moves begins.
    fixed : whether that bound stays as it is.
    band : of the correlated noise for cyclic batches; None is independent noise.
    """

    parameters: int | None = None
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    sampling: str | None = None
    levels: tuple[tuple[float, int], ...] = ()
    before: Plan | None = None
    plan: Plan | None = None
    clip_norm: float = 1.0
    fixed: bool = True
    band: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_bound("clip_norm", self.clip_norm)


@dataclass(frozen=True)
class Schedule:
    """`uses` uses of a sampler with one Gaussian; several samplers where people have levels.

    `first` is the number of leaves before the steps: 1 where classes are counted.
    """

    mechanism: Gaussian
    samplers: tuple[Sampler, ...]
    uses: int
    first: int = 0

    @classmethod
    def of(cls, plan: Plan) -> "Schedule":
        """Return what `plan` means for a training loop; refuse plans that are none."""
        first = 0
        if isinstance(plan, Together) and len(plan.plans) == 2:
            # proof: CLASS-WEIGHT
            counts, steps = plan.plans
            if isinstance(counts, Run) and isinstance(counts.mechanism, LaplaceVector):
                first, plan = 1, steps
                if isinstance(steps, Parallel):
                    raise Unproven(_NO_LEVELS)
        parts = [_single(part) for part in (plan.plans if isinstance(plan, Parallel) else (plan,))]
        mechanism, _, uses = parts[0]
        if len(parts) > 1 and not all(
            other == mechanism and times == uses and isinstance(chosen, Poisson)
            for other, chosen, times in parts
        ):
            raise Unproven(
                "personal levels are proven for Poisson batches with one noise and one "
                "number of steps for all groups; use make_level_plan."
            )
        return cls(mechanism, tuple(chosen for _, chosen, _ in parts), uses, first)

    @property
    def sampler(self) -> Sampler:
        """The sampler (that of the first group)."""
        return self.samplers[0]

    @property
    def steps(self) -> int:
        """How many noisy steps the run has."""
        return self.uses * self.sampler.steps

    def normaliser(self, size: int, counts: list[int] | None = None) -> float:
        """Return the public number by which a noisy sum is divided; `counts` are the groups'."""
        if counts is None:
            return self.sampler.normaliser(size)
        pairs = zip(self.samplers, counts, strict=True)
        return float(sum(sampler.normaliser(int(count)) for sampler, count in pairs))

    def refuse_unproven(self, adjacency: Adjacency, band: int | None, *, fixed: bool) -> None:
        """Refuse a relation, or a band of correlated noise, for which there is no proof."""
        for sampler in self.samplers:
            sampler.participation(adjacency)
        if len(self.samplers) > 1:
            check_groups(adjacency)
        if band is None:
            return
        # proof: BANDED-MF
        _validate.refuse(
            (
                not isinstance(self.sampler, Cyclic) or not fixed,
                "correlated noise is proven for cyclic batches and a fixed clip_norm; use "
                "sampling='cyclic' with flat or automatic clipping, or band=None.",
            ),
            (
                _validate.integer("band", band) > self.sampler.steps,
                f"band={band} is longer than the {self.sampler.steps} batches of an epoch, so that "
                "one record's steps would overlap; use a shorter band.",
            ),
            kind=Unproven,
        )


def _single(plan: Plan) -> tuple[Gaussian, Sampler, int]:
    uses = 1
    while isinstance(plan, Repeat):
        uses, plan = uses * plan.times, plan.plan
    # A subclass such as LastIterate promises something about what is released.
    if not isinstance(plan, Noisy) or plan.name not in ("sampled", "run"):
        raise Unproven("a network is trained by a repeated Sampled(Gaussian, sampler) plan.")
    if not isinstance(plan.mechanism, Gaussian):
        raise Unproven(f"{plan.mechanism.name} noise is not offered for networks; use a Gaussian.")
    return plan.mechanism, plan.sampler, uses


def level_batch(
    samplers: tuple[Sampler, ...], members: list[Indices], randomness: Randomness
) -> Indices:
    """Return one batch, to which the members of each group come by their own sampler."""
    # proof: SAMPLE-LEVELS
    drawn = [
        rows[next(sampler.schedule(len(rows), randomness))]
        for sampler, rows in zip(samplers, members, strict=True)
        if len(rows)
    ]
    return np.sort(np.concatenate(drawn)) if drawn else np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class PreparedNetwork(Prepared):
    """A network's plan, and what it means for a training loop."""

    public: PublicNetwork

    @property
    def schedule(self) -> Schedule:
        """The plan as a loop: its sampler, its noise and how often."""
        return Schedule.of(self.plan)


@dataclass(frozen=True)
class NetworkSteps(Algorithm[PreparedNetwork]):
    """Noisy steps of a network on the batches of any sampler, every iterate counted.

    Its run is driven by the caller, who hands in gradients: `noisette.nn.PrivateTraining.step`.
    """

    name: ClassVar[str] = "network"
    summary: ClassVar[str] = "noisy steps of a network, driven by the caller"

    def prepare(self, public: PublicNetwork) -> PreparedNetwork:
        """Return the given plan, or the one with the least noise for (epsilon, delta)."""
        plan = public.plan if public.plan is not None else _least_noise(public)
        schedule = Schedule.of(plan)
        schedule.refuse_unproven(public.adjacency, public.band, fixed=public.fixed)
        check_scale(schedule.mechanism, public.clip_norm)
        proofs = ("SAMPLE-LEVELS",) if len(schedule.samplers) > 1 else ()
        if public.grouped:
            # proof: NN-PERSONS
            ordered = () if schedule.sampler.independent else ("PERSON-ORDER",)
            proofs = (*proofs, "NN-PERSONS", *ordered)
        return PreparedNetwork(public, plan.under(public.adjacency), proofs)

    def passes(self, prepared: PreparedNetwork) -> float:
        """Return about how often every row is read."""
        schedule, size = prepared.schedule, prepared.public.known_size("a network")
        counts = [count for _, count in prepared.public.levels] or None
        several = len(schedule.samplers) > 1
        return schedule.steps * schedule.normaliser(size, counts if several else None) / size

    def run(self, records: Any, prepared: PreparedNetwork, passage: Passage) -> NoReturn:
        """Refuse: a run is driven by its caller."""
        raise PermitError("a network is trained step by step, by noisette.nn.PrivateTraining.")


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
    size : int
        The public number of records (under add-remove: a public stand-in for it).
    epsilon, delta : float
        The guarantee to reach.
    batch_size : int
        The expected number of records in a batch.
    epochs, steps : int, optional
        How long to train; give one of them.
    sampling : str, optional
        A name in `noisette.sampling.SAMPLERS`. Default ``"poisson"`` with `steps`, and
        ``"random-allocation"`` with `epochs` (every record once per epoch, in a batch that it
        draws itself).
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.

    Returns
    -------
    Plan
        A repeated sampled Gaussian, bound to the relation.

    Raises
    ------
    InvalidParameter
        If a number is out of range, or not one of `epochs` and `steps` is given.
    Unproven
        If the sampler has no theorem under this relation.

    Examples
    --------
    >>> from noisette import accounting
    >>> from noisette.nn import make_plan
    >>> plan = make_plan(size=1000, epsilon=1.0, delta=1e-5, batch_size=100, steps=20)
    >>> plan.times, plan.plan.sampler
    (20, Poisson(rate=0.1))
    >>> 0.99 < accounting.epsilon(plan, delta=1e-5) <= 1.0
    True

    """
    return NetworkSteps().prepare(PublicNetwork(
        size=size, epsilon=epsilon, delta=delta, adjacency=Adjacency.of(adjacency),
        batch_size=batch_size, epochs=epochs, steps=steps, sampling=sampling,
    )).plan  # fmt: skip


def _least_noise(public: PublicNetwork) -> Plan:
    """Return the plan with the least noise that is certified for the public facts."""
    size = _validate.integer("size", public.known_size("a network"))
    batch_size = _validate.integer("batch_size", public.batch_size)
    _validate.delta_for(public.delta, size)
    epochs, steps, adjacency = public.epochs, public.steps, public.adjacency
    _validate.refuse(
        (
            batch_size > size,
            f"batch_size={batch_size} is larger than the {size} records; choose at most {size}.",
        ),
        ((epochs is None) == (steps is None), "give either epochs or steps."),
    )
    if public.levels:
        own, counts = zip(*public.levels, strict=True)
        _validate.refuse(
            (public.sampling not in (None, "poisson"), "sample_epsilon is for sampling='poisson'."),
            (max(own) > public.epsilon, "no level may be above epsilon."),
            (sum(counts) != public.size, "the groups must be of all records together."),
        )
        if public.before is not None:
            raise Unproven(_NO_LEVELS)
        found = make_level_plan(
            public.levels, delta=public.delta, batch_size=batch_size, adjacency=adjacency,
            steps=steps or (epochs or 1) * -(-size // batch_size),
        )  # fmt: skip
        return found if len(public.levels) > 1 else found.plans[0]
    chosen = public.sampling or ("random-allocation" if steps is None else "poisson")
    sampler, uses = make_sampler(chosen, size, batch_size, _validate.integer("epochs", epochs or 1))
    if steps is not None:
        uses = _validate.integer("steps", steps)
        if sampler.steps > 1:
            raise InvalidParameter(
                f"{chosen} sampling sweeps the data, so its length is a number of epochs, "
                "not of steps."
            )
    sampler.participation(adjacency)  # refuses what has no proof, before a long calibration

    def plan(z: float) -> Plan:
        steps = Repeat(Sampled(Gaussian(z), sampler), uses)
        return steps if public.before is None else Together(public.before, steps)

    z = accounting.calibrate(plan, epsilon=public.epsilon, delta=public.delta, adjacency=adjacency)
    return plan(z)
