"""Per-person epsilon for output perturbation: a smaller weight buys a smaller epsilon.

All weights are at most 1 and the noise is calibrated for (epsilon, delta) at the sensitivity
Delta = sqrt(m) (a C / Lambda + 2 t), C = L R, a = 2 under replace-one and 1 otherwise, t the
distance that the solver may leave and m the number of models. A record of weight omega moves the
solution by at most sqrt(m) (omega a C / Lambda + 2 t) (a swap keeps the weight). If z(epsilon_i)
is the noise multiplier that epsilon_i would need, the shift it may have is the fraction
r_i = z(epsilon) / z(epsilon_i) of Delta (pure noise: epsilon_i / epsilon), hence

    omega_i = max(0, r_i (1 + 2 t Lambda / (a C)) - 2 t Lambda / (a C)).

Records of weight 0 are left out before the solver sees them, so nothing depends on them, not even
the number of rows (the solver's path, though not its certificate, depends on it).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import inputs
from noisette.linear.choices import Setting
from noisette.solvers import default_tolerance
from noisette.training.output_perturbation import noise_for

__all__ = ["checked_levels", "level_notes", "present", "weights_of_levels"]

Floats = NDArray[np.float64]

_MOST_LEVELS = 1_000
_ROUND_DOWN = 1.0 - 1e-12


def checked_levels(values: Any, n: int, epsilon: float) -> Floats:
    """Return ``sample_epsilon`` as n numbers in (0, epsilon]."""
    levels = inputs.vector("sample_epsilon", values, n, 0.0, epsilon, "epsilon")
    if not bool(np.all(levels > 0.0)):
        raise InvalidData("sample_epsilon must be above 0 for every person.")
    return levels


def weights_of_levels(levels: Floats, setting: Setting) -> Floats:
    """Return omega_i for every person's epsilon in (0, epsilon]."""
    # proof: OUTPUT-SENSITIVITY
    facts, loss = setting.facts, setting.loss
    moved = setting.adjacency.contributions * facts.gradient_bound(loss)
    tolerance = default_tolerance(loss, facts.for_solver(setting.features))
    slack = 2.0 * tolerance * (1.0 + 1e-12) / moved
    weights = _fractions(levels, setting) * _ROUND_DOWN * (1.0 + slack) - slack
    return np.asarray(np.clip(weights, 0.0, 1.0))


def _fractions(levels: Floats, setting: Setting) -> Floats:
    """Return r_i = z(epsilon) / z(epsilon_i)."""
    facts = setting.facts
    if facts.delta == 0.0:
        return levels / facts.epsilon
    distinct, where = np.unique(levels, return_inverse=True)
    if len(distinct) > _MOST_LEVELS:
        raise InvalidParameter(
            f"sample_epsilon has more than {_MOST_LEVELS} different levels; round them down."
        )
    dimension = setting.models * setting.dimension
    full = noise_for(facts, dimension).noise_multiplier
    each = [
        noise_for(replace(facts, epsilon=float(level)), dimension).noise_multiplier
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


def level_notes(levels: Floats, adjacency: Adjacency) -> tuple[str, ...]:
    """Return the sentences about levels; the levels are public by declaration.

    Under add-remove who is there is private, so the list of levels that occur is not stated: the
    only person of a level would be seen in it.
    """
    distinct = np.unique(levels)
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
