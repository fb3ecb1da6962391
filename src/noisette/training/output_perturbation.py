"""Output perturbation: solve, then add noise to the solution.

Theorem OUTPUT-SENSITIVITY. Let every record's loss be convex with gradients of norm at most
C = w L R, J = sum of losses + (Lambda/2) ||w||^2 with a public Lambda. Its minimiser moves by at
most C / Lambda when a record is added, removed or blanked out and 2 C / Lambda when it is replaced;
a point within t of the minimiser moves by 2 t more. No smoothness is needed: the hinge is covered.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.bounded import Bounded
from noisette.losses import Loss
from noisette.mechanisms import Gaussian, SphericalLaplace
from noisette.plans import Run
from noisette.privacy import release
from noisette.randomness import Randomness
from noisette.solvers import default_tolerance, minimise
from noisette.training.common import Facts, Trained, check_scale

__all__ = ["noise_for", "output_perturbation", "sensitivity"]

_LARGEST_SPHERICAL = 2_000  # beyond, Gaussian noise is within 0.2 % and needs no quadrature


def sensitivity(loss: Loss, facts: Facts, models: int, distance: float) -> float:
    """Return the l2 sensitivity of `models` concatenated solutions with solver error `distance`."""
    # proof: OUTPUT-SENSITIVITY
    moved = facts.adjacency.contributions * facts.gradient_bound(loss) / facts.regularization
    return float(np.sqrt(models) * (moved + 2.0 * distance))


def noise_for(facts: Facts, dimension: int) -> SphericalLaplace | Gaussian:
    """Return the least noise for the budget: spherical Laplace, which never loses to Gaussian."""
    if facts.delta > 0.0 and dimension > _LARGEST_SPHERICAL:
        return Gaussian.calibrated(facts.epsilon, facts.delta, facts.adjacency)
    return SphericalLaplace.calibrated(
        facts.epsilon, facts.delta, dimension=dimension, adjacency=facts.adjacency
    )


def output_perturbation(
    rows: Any,
    targets: list[NDArray[Any]],
    loss: Loss,
    facts: Facts,
    randomness: Randomness,
    *,
    sample_weight: NDArray[np.float64] | None = None,
    label: str = "output perturbation",
) -> Trained:
    """Return private minimisers, one for each target vector (several for one-vs-rest).

    `rows` must obey ``facts.norm_bound`` (see `with_intercept`), weights ``facts.weight_bound``.
    """
    facts.check(rows, targets, loss, sample_weight)
    shape = loss.parameter_shape(rows.shape[1])
    models, size = len(targets), int(np.prod(shape))
    tolerance = default_tolerance(loss, facts.for_solver(rows.shape[1]))
    facts.check_ends(loss, rows.shape[1], tolerance)
    bound = sensitivity(loss, facts, models, tolerance / facts.regularization * (1.0 + 1e-12))
    mechanism = noise_for(facts, models * size)
    check_scale(mechanism, bound)
    permit = facts.ledger.charge(
        Run(mechanism), label=label, delta=facts.delta, epsilon=facts.epsilon,
        seeded=randomness.seeded,
    )  # fmt: skip
    solved = [
        minimise(
            loss,
            rows,
            target,
            regularization=facts.regularization,
            norm_bound=facts.norm_bound,
            tolerance=tolerance,
            sample_weight=sample_weight,
            weight_bound=facts.weight_bound,
            max_rows=facts.size,
        ).weights
        for target in targets
    ]
    value = Bounded(
        np.stack(solved), l2=bound, adjacency=facts.adjacency, proof="OUTPUT-SENSITIVITY"
    )
    noisy = release(value, permit, randomness)
    # the hinge is certified by its duality gap
    proofs = loss.proofs if math.isfinite(loss.smoothness) else (*loss.proofs, "HINGE-GAP")
    return Trained([np.asarray(part) for part in noisy], permit, proofs=proofs)
