"""Per-person epsilon for output perturbation: a smaller weight buys a smaller epsilon.

All weights are at most 1 and the noise is calibrated for (epsilon, delta) at the sensitivity
Delta = sqrt(m) (a C / Lambda + 2 t), C = L R, a = 2 under replace-one and 1 otherwise, t the
distance that the solver may leave and m the number of models. A record of weight omega moves the
solution by at most sqrt(m) (omega a C / Lambda + 2 t) (a swap keeps the weight). If z(epsilon_i)
is the noise multiplier that epsilon_i would need, the shift it may have is the fraction
r_i = z(epsilon) / z(epsilon_i) of Delta (pure noise: epsilon_i / epsilon), hence

    omega_i = max(0, r_i (1 + 2 t Lambda / (a C)) - 2 t Lambda / (a C)).

Records of weight 0 are blanked out before the solver sees them, so nothing depends on them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import inputs
from noisette.linear.choices import Setting
from noisette.solvers import default_tolerance
from noisette.training.output_perturbation import noise_for

__all__ = ["blanked", "checked_levels", "level_notes", "weights_of_levels"]

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


def blanked(rows: Any, numbers: NDArray[np.intp], weights: Floats) -> tuple[Any, NDArray[np.intp]]:
    """Return rows and class numbers in which records of weight 0 are all zero."""
    absent = weights == 0.0
    if not bool(np.any(absent)):
        return rows, numbers
    keep = (~absent).astype(rows.dtype)
    kept = sparse.diags(keep) @ rows if sparse.issparse(rows) else rows * keep[:, None]
    return (kept.tocsr() if sparse.issparse(kept) else kept), np.where(absent, 0, numbers)


def level_notes(levels: Floats) -> tuple[str, ...]:
    """Return the sentences about levels; the levels are public by declaration."""
    distinct = np.unique(levels)
    listed = ", ".join(f"{level:g}" for level in distinct)
    if len(distinct) > 20:
        listed = f"{len(distinct)} levels from {distinct[0]:g} to {distinct[-1]:g}"
    return (
        f"Every person has an own epsilon ({listed}), stated with the same delta; the epsilon of "
        "this guarantee is the largest one allowed. Who has which level is public by declaration, "
        "and a person whose record is replaced keeps the level.",
    )
