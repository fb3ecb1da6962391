"""Everybody's own epsilon, in one place: what a level is, and how each algorithm honours it.

Levels epsilon_i <= epsilon are public by declaration, one for each person.

- **Output perturbation**: a smaller weight buys a smaller epsilon. All weights are at most 1, and
  the noise is calibrated for (epsilon, delta) at the sensitivity
  Delta = sqrt(m) (a C / Lambda + 2 t), C = L R, a = 2 under replace-one and 1 otherwise, t the
  distance that the solver may leave and m the number of models. A record of weight omega moves
  the solution by at most
  sqrt(m) (omega a C / Lambda + 2 t) (a swap keeps the weight). If z(epsilon_i) is the noise
  multiplier that epsilon_i would need, the shift it may have is the fraction
  r_i = z(epsilon) / z(epsilon_i) of Delta (pure noise: epsilon_i / epsilon), hence

      omega_i = max(0, r_i (1 + 2 t Lambda / (a C)) - 2 t Lambda / (a C)).

  Records of weight 0 are left out before the solver sees them, so nothing depends on them, not even
  the number of rows (the solver's path, though not its certificate, depends on it).
- **"scale"** (iterative algorithms): the gradient of person i is multiplied by c_i under one noise
  (PER-PERSON-SCALE).
- **"batches"** (single pass): people of equal level share batches with their own noise
  (PARALLEL-GROUPS).
- **Networks**: groups of people join Poisson batches at rates of their own, under one noise
  (SAMPLE-LEVELS).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, step_noises
from noisette.core.mechanisms.gaussian_curve import gdp_mu
from noisette.core.parts import all_of
from noisette.core.plans import Parallel, Plan, Repeat, Sampled
from noisette.core.sampling import Poisson
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.fitting.algorithms.algorithm import Algorithm, P
from noisette.fitting.algorithms.output_perturbation import noise_for
from noisette.fitting.algorithms.public import Public
from noisette.fitting.algorithms.records import Records, check_rows_each, check_unit, inside
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.solvers import default_tolerance

MOST_GROUPS = 100
_MOST_LEVELS = 1_000
_ROUND_DOWN = 1.0 - 1e-12
_NO_SHARES = "sample_epsilon with delta > 0 needs noise='gaussian', or sampling='levels'."


@dataclass(frozen=True, eq=False)
class Levels:
    """Everyone's own epsilon: public numbers, one per record, and how they are honoured."""

    values: Floats
    grouping: str = "scale"

    @property
    def scaled(self) -> bool:
        """Whether gradients are scaled under one noise."""
        return self.grouping == "scale"

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or not bool(np.all(self.values > 0.0)):
            raise InvalidData("sample_epsilon must be above 0 for every person.")


# --- output perturbation -----------------------------------------------------------------------


def weights_of_levels(levels: Levels, public: Public) -> Floats:
    """Return omega_i for every person's epsilon in (0, epsilon]."""
    # proof: OUTPUT-SENSITIVITY
    moved = public.adjacency.contributions * public.gradient_bound
    tolerance = default_tolerance(public.loss, public.for_solver())
    slack = 2.0 * tolerance * (1.0 + 1e-12) / moved
    shares = levels.values / public.epsilon  # r_i = z(epsilon) / z(epsilon_i)
    if public.delta > 0.0:
        distinct, where = np.unique(levels.values, return_inverse=True)
        if len(distinct) > _MOST_LEVELS:
            raise InvalidParameter(
                f"sample_epsilon has more than {_MOST_LEVELS} different levels; round them down."
            )
        full, *each = (
            noise_for(replace(public, epsilon=float(level)), public.models * public.dimension)
            for level in (public.epsilon, *distinct)
        )
        own = np.array([noise.noise_multiplier for noise in each])
        shares = (full.noise_multiplier / own)[where]
    return np.asarray(np.clip(shares * _ROUND_DOWN * (1.0 + slack) - slack, 0.0, 1.0))


# --- iterative algorithms ----------------------------------------------------------------------


def level_shares(levels: Floats, epsilon: float, delta: float, law: str) -> Floats:
    """Return c_i: the largest share of a gradient that costs person i at most levels[i].

    Pure: c = epsilon_i / epsilon. Gaussian: c = mu(epsilon_i, delta) / mu(epsilon, delta), since
    mu is proportional to the shift. `epsilon` is the public largest level.
    """
    # proof: PER-PERSON-SCALE
    if delta == 0.0:
        shares = levels / epsilon
    elif _has_mu(law):
        distinct, where = np.unique(levels, return_inverse=True)
        top = gdp_mu(epsilon, delta)
        shares = np.array([gdp_mu(float(level), delta) / top for level in distinct])[where]
    else:
        raise InvalidParameter(_NO_SHARES)
    return np.asarray(np.minimum(shares * (1.0 - 1e-12), 1.0))


def check_rows(
    update: Update, records: Records, levels: Levels | None, public: Public, *, stream: bool = False
) -> None:
    """Refuse, before anything is charged, what would break the bound C or the kernels.

    A margin loss multiplies by the label, so a label 2 would double a gradient. The kernels do not
    check indices, and rates, divisors and batches were prepared for the public number of records;
    a stream is prepared for any number.
    """
    (n, d), (y,), weights = records.rows.shape, records.targets, records.weights
    if update.dimension(d) != public.dimension or d + (update.bias is not None) != public.features:
        raise InvalidData("rows must have the number of features that was prepared for.")
    check_unit(records, public)
    if not stream:
        public.check_count(records.size)
    check_rows_each(n, public)
    if not all_of(partial(_one_each, update.loss), y, records.rows):
        raise InvalidData("y must have one entry for each row of X.")
    if levels is not None and levels.values.shape != (records.size,):
        raise InvalidData(f"levels must have one entry above 0 for each {public.unit}.")
    if weights is not None:
        alone = levels is not None and not public.grouped
        # proof: SAMPLE-WEIGHT
        if weights.shape != (n,) or not all_of(partial(inside, 1.0), weights) or alone:
            raise InvalidData(
                "sample_weight must have one entry in [0, 1] for each row of X, and no levels "
                "beside it."
            )


class Stepwise(Algorithm[P]):
    """An algorithm of many steps of `update`, with everybody's own `levels` where there are any."""

    weight_proofs: ClassVar[tuple[str, ...]] = ("SAMPLE-WEIGHT",)
    update: Update
    levels: Levels | None

    def check(self, records: Records, prepared: Any) -> None:
        """Refuse labels, weights and levels that would break the bound."""
        check_rows(self.update, records, self.levels, prepared.public)


def _one_each(loss: Any, target: Any, rows: Any) -> bool:
    """Return whether there is one target for each row; the loss refuses what it cannot take."""
    return bool(len(loss.targets(target)) == rows.shape[0])


def shares_of(records: Records, levels: Levels | None, public: Public, law: str) -> Floats | None:
    """Return by what everyone's gradient is multiplied; None: by 1."""
    if levels is None or not levels.scaled:
        return records.weights
    each = level_shares(levels.values, public.epsilon, public.delta, law)
    if records.weights is None:
        return each
    return np.asarray(each[records.unit.index] * records.weights)  # proof: PERSON-WEIGHTS


def share_proofs(levels: Levels | None, law: str, delta: float) -> tuple[str, ...]:
    """Return the theorems behind `shares_of` for levels; refuse a law that has none."""
    if levels is None or not levels.scaled:
        return ()
    if not step_noises()[law].proportional:
        raise Unproven(
            f"sample_epsilon has no proof for noise={law!r}, whose cost need not be proportional "
            "to what one record moves; use another noise, or sampling='levels'."
        )
    if delta > 0.0 and not _has_mu(law):
        raise InvalidParameter(_NO_SHARES)
    return ("PER-PERSON-SCALE", *(("FILTER-GDP",) if _has_mu(law) else ()))


def _has_mu(law: str) -> bool:
    """Whether noise of that name is Gaussian, so that its cost is one number, mu."""
    return issubclass(step_noises()[law], Gaussian)


def level_groups(levels: Levels | None, epsilon: float) -> list[tuple[float, Any]]:
    """Return (level, members) for every batch group; members None are all. Levels are public."""
    if levels is None or levels.scaled:
        return [(epsilon, None)]
    distinct, where = np.unique(levels.values, return_inverse=True)
    if len(distinct) > MOST_GROUPS:
        raise InvalidParameter(
            f"sampling='levels' takes at most {MOST_GROUPS} levels; round sample_epsilon down, "
            "or leave sampling to 'auto'."
        )
    return [(float(level), np.flatnonzero(where == k)) for k, level in enumerate(distinct)]


# --- networks ------------------------------------------------------------------------------------


def make_level_plan(
    levels: Sequence[tuple[float, int]],
    *,
    delta: float,
    batch_size: int,
    steps: int,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> Parallel:
    """Return the plan that gives each group of people its own epsilon by its own sampling rate.

    All groups share the noise; group g joins a batch at the largest rate that keeps it within its
    epsilon, and the noise is such that the expected batch has `batch_size` people. Order is kept:
    person of group g is counted by part g of the plan.

    Parameters
    ----------
    levels : sequence of (float, int)
        The epsilon and the number of people of each group, both public.
    delta : float
        The delta of every group.
    batch_size : int
        The expected number of people in a batch.
    steps : int
        How many noisy steps.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation; not add-remove.

    Returns
    -------
    Parallel
        One part for each group.

    Raises
    ------
    InvalidParameter
        If a number is out of range, or the levels are too far from each other.
    Unproven
        If the relation is add-remove, which hides the sizes of groups.

    Examples
    --------
    >>> from noisette.nn import make_level_plan
    >>> plan = make_level_plan([(1.0, 300), (3.0, 700)], delta=1e-5, batch_size=50, steps=5)
    >>> careful, bold = (part.plan.sampler.rate for part in plan.plans)
    >>> careful < bold
    True

    """
    # proof: SAMPLE-LEVELS
    relation = Adjacency.of(adjacency)
    check_groups(relation)
    if not levels:
        raise InvalidParameter("levels must name at least one group.")
    groups = [(_validate.epsilon(e), _validate.integer("group size", n)) for e, n in levels]
    batch_size = _validate.integer("batch_size", batch_size)
    steps, total = _validate.integer("steps", steps), sum(n for _, n in groups)
    delta = _validate.delta_for(delta, total)
    if batch_size > total:
        raise InvalidParameter(f"batch_size={batch_size} is larger than all groups together.")
    z, rates = _rates(groups, batch_size, lambda z, q: _steps(z, q, steps), delta, relation)
    for q, (epsilon, _) in zip(rates, groups, strict=True):
        if q == 0.0:
            raise InvalidParameter(
                f"no sampling rate keeps the level {epsilon:g} at delta={delta:g} beside the "
                "others; bring the levels nearer to each other, or take a larger delta."
            )
    return Parallel(*(_steps(z, q, steps) for q in rates), adjacency=relation)


def check_groups(adjacency: Adjacency) -> None:
    """Refuse groups of people whose sizes are private."""
    # proof: SAMPLE-LEVELS
    if not adjacency.size_is_public:
        raise Unproven(
            "personal levels need public group sizes, which add-remove hides; use another "
            "adjacency."
        )


def _steps(z: float, rate: float, steps: int) -> Plan:
    return Repeat(Sampled(Gaussian(z), Poisson(rate)), steps)


def _rates(
    groups: list[tuple[float, int]], batch_size: int, plan: Callable[[float, float], Plan],
    delta: float, adjacency: Adjacency,
) -> tuple[float, list[float]]:  # fmt: skip
    """Return the noise of all groups, and the rate at which each joins a batch."""
    calibrated = partial(accounting.calibrate, delta=delta, adjacency=adjacency)

    def rates(z: float) -> list[float]:
        found = []
        for epsilon, _ in groups:
            try:
                found.append(calibrated(partial(plan, z), epsilon=epsilon, find="rate"))
            except InvalidParameter:  # so little noise that no rate will do
                found.append(0.0)
        return found

    def excess(log_z: float) -> float:
        found = sum(q * n for q, (_, n) in zip(rates(math.exp(log_z)), groups, strict=True))
        return math.log(max(found, 1e-12) / batch_size)

    # With everybody at the largest (smallest) level the answer is the noise for that one rate, and
    # a mixture lies between the two.
    rate = batch_size / sum(n for _, n in groups)
    low, z = (
        calibrated(lambda z: plan(z, rate), epsilon=pick(epsilon for epsilon, _ in groups))
        for pick in (max, min)
    )
    if low < z:
        z = math.exp(brentq(excess, math.log(low * 0.999), math.log(z * 1.001), xtol=1e-4))
    return z, rates(z)


# --- the statement -----------------------------------------------------------------------------


def level_notes(levels: Levels, adjacency: Adjacency) -> tuple[str, ...]:
    """Return the sentences about levels; the levels are public by declaration.

    Under add-remove who is there is private, so the list of levels that occur is not stated: the
    only person of a level would be seen in it.
    """
    if not adjacency.size_is_public:
        return (
            "Every person has their own epsilon, stated with the same delta; the epsilon of this "
            "guarantee is the largest one allowed. A person's level is as private as the person's "
            "record, and holds whether the record is there or not.",
        )
    distinct = np.unique(levels.values)
    listed = ", ".join(f"{level:g}" for level in distinct)
    if len(distinct) > 20:
        listed = f"{len(distinct)} levels from {distinct[0]:g} to {distinct[-1]:g}"
    return (
        f"Every person has their own epsilon ({listed}), stated with the same delta; the epsilon "
        "of this guarantee is the largest one allowed. Who has which level is public by "
        "declaration, and a person whose record is replaced keeps the level.",
    )
