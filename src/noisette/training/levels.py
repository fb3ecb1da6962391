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
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.mechanisms import Gaussian, step_noises
from noisette.mechanisms.gaussian_curve import gdp_mu
from noisette.solvers import default_tolerance
from noisette.training.output_perturbation import noise_for
from noisette.training.public import Public
from noisette.training.records import Records
from noisette.training.steps import Update

__all__ = [
    "GROUPINGS",
    "Levels",
    "check_rows",
    "level_groups",
    "level_notes",
    "level_shares",
    "present",
    "share_proofs",
    "shares_of",
    "weights_of_levels",
]


GROUPINGS = ("scale", "batches")
MOST_GROUPS = 100
_MOST_LEVELS = 1_000
_ROUND_DOWN = 1.0 - 1e-12
_NO_SHARES = "sample_epsilon with delta > 0 needs noise='gaussian', or grouping='batches'."


@dataclass(frozen=True, eq=False)
class Levels:
    """Everyone's own epsilon: public numbers, one per record, and how they are honoured."""

    values: Floats
    grouping: str = "scale"

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or not bool(np.all(self.values > 0.0)):
            raise InvalidData("sample_epsilon must be above 0 for every person.")

    @property
    def scaled(self) -> bool:
        """Whether gradients are scaled under one noise."""
        return self.grouping == "scale"


# --- output perturbation -----------------------------------------------------------------------


def weights_of_levels(levels: Levels, public: Public) -> Floats:
    """Return omega_i for every person's epsilon in (0, epsilon]."""
    # proof: OUTPUT-SENSITIVITY
    moved = public.adjacency.contributions * public.gradient_bound
    tolerance = default_tolerance(public.loss, public.for_solver())
    slack = 2.0 * tolerance * (1.0 + 1e-12) / moved
    weights = _fractions(levels.values, public) * _ROUND_DOWN * (1.0 + slack) - slack
    return np.asarray(np.clip(weights, 0.0, 1.0))


def _fractions(levels: Floats, public: Public) -> Floats:
    """Return r_i = z(epsilon) / z(epsilon_i)."""
    if public.delta == 0.0:
        return levels / public.epsilon
    distinct, where = np.unique(levels, return_inverse=True)
    if len(distinct) > _MOST_LEVELS:
        raise InvalidParameter(
            f"sample_epsilon has more than {_MOST_LEVELS} different levels; round them down."
        )
    dimension = public.models * public.dimension
    full = noise_for(public, dimension).noise_multiplier
    each = [
        noise_for(replace(public, epsilon=float(level)), dimension).noise_multiplier
        for level in distinct
    ]
    return np.asarray(full / np.array(each))[where]


def present(
    rows: Any, numbers: NDArray[np.intp], weights: Floats
) -> tuple[Any, NDArray[np.intp], Floats]:
    """Return rows, class numbers and weights of the records whose weight is above 0.

    If there are none, all of them stay, with zeros instead of their data; the solution is then 0
    whatever their number is.
    """
    kept = weights > 0.0
    if bool(np.all(kept)):
        return rows, numbers, weights
    if not bool(np.any(kept)):
        nothing = np.zeros((len(weights), rows.shape[1]))
        return nothing, np.zeros_like(numbers), weights
    return rows[np.flatnonzero(kept)], numbers[kept], weights[kept]


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
    if public.adjacency.size_is_public and not stream and n != public.size:
        raise InvalidData(f"the training was prepared for {public.size} records, not for {n}.")
    if len(update.loss.targets(y)) != n:
        raise InvalidData("y must have one entry for each row of X.")
    if levels is not None and levels.values.shape != (n,):
        raise InvalidData("levels must have one entry above 0 for each row of X.")
    if weights is not None:
        inside = (weights >= 0.0) & (weights <= 1.0)  # proof: SAMPLE-WEIGHT
        if weights.shape != (n,) or not bool(np.all(inside)) or levels is not None:
            raise InvalidData(
                "sample_weight must have one entry in [0, 1] for each row of X, and no levels "
                "beside it."
            )


def shares_of(records: Records, levels: Levels | None, public: Public, law: str) -> Floats | None:
    """Return by what everyone's gradient is multiplied; None: by 1."""
    if levels is not None and levels.scaled:
        return level_shares(levels.values, public.epsilon, public.delta, law)
    return records.weights


def share_proofs(levels: Levels | None, law: str, delta: float) -> tuple[str, ...]:
    """Return the theorems behind `shares_of` for levels; refuse a law that has none."""
    if levels is None or not levels.scaled:
        return ()
    if not step_noises()[law].proportional:
        raise Unproven(
            f"sample_epsilon has no proof for noise={law!r}, whose cost need not be proportional "
            "to what one record moves; use another noise, or grouping='batches'."
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
            f"grouping='batches' takes at most {MOST_GROUPS} levels; round sample_epsilon down, "
            "or use grouping='scale'."
        )
    return [(float(level), np.flatnonzero(where == k)) for k, level in enumerate(distinct)]


# --- the statement -----------------------------------------------------------------------------


def level_notes(levels: Levels, adjacency: Adjacency) -> tuple[str, ...]:
    """Return the sentences about levels; the levels are public by declaration.

    Under add-remove who is there is private, so the list of levels that occur is not stated: the
    only person of a level would be seen in it.
    """
    distinct = np.unique(levels.values)
    listed = ", ".join(f"{level:g}" for level in distinct)
    if len(distinct) > 20:
        listed = f"{len(distinct)} levels from {distinct[0]:g} to {distinct[-1]:g}"
    if not adjacency.size_is_public:
        return (
            "Every person has their own epsilon, stated with the same delta; the epsilon of this "
            "guarantee is the largest one allowed. A person's level is as private as the person's "
            "record, and holds whether the record is there or not.",
        )
    return (
        f"Every person has their own epsilon ({listed}), stated with the same delta; the epsilon "
        "of this guarantee is the largest one allowed. Who has which level is public by "
        "declaration, and a person whose record is replaced keeps the level.",
    )
