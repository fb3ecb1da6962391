"""Output perturbation: solve, then add noise to the solution.

Theorem OUTPUT-SENSITIVITY. Let every record's loss be convex with gradients of norm at most
C = w L R, J = sum of losses + (Lambda/2) ||w||^2 with a public Lambda. Its minimiser moves by at
most C / Lambda when a record is added, removed or blanked out and 2 C / Lambda when it is replaced;
a point within t of the minimiser moves by 2 t more. No smoothness is needed: the hinge is covered.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette.core.bounded import Bounded
from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.core.plans import Run
from noisette.fitting.algorithms.algorithm import Algorithm, PreparedModel
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.records import Records, solutions
from noisette.fitting.solvers import check_ends, default_tolerance

_LARGEST_SPHERICAL = 2_000  # beyond, Gaussian noise is within 0.2 % and needs no quadrature


def sensitivity(public: Public, distance: float) -> float:
    """Return the l2 sensitivity of all models' solutions together with solver error `distance`."""
    # proof: OUTPUT-SENSITIVITY
    moved = public.adjacency.contributions * public.gradient_bound / public.ridge
    return float(np.sqrt(public.models) * (moved + 2.0 * distance))


def noise_for(public: Public, dimension: int) -> SphericalLaplace | Gaussian:
    """Return the least noise for the budget: spherical Laplace, which never loses to Gaussian."""
    if public.delta > 0.0 and dimension > _LARGEST_SPHERICAL:
        return Gaussian.calibrated(public.epsilon, public.delta, public.adjacency)
    return SphericalLaplace.calibrated(
        public.epsilon, public.delta, dimension=dimension, adjacency=public.adjacency
    )


@dataclass(frozen=True)
class Output(PreparedModel):
    """The sensitivity of the solutions and the solver's tolerance."""

    bound: float = 0.0
    tolerance: float = 0.0


@dataclass(frozen=True)
class OutputPerturbation(Algorithm[Output]):
    """Minimise the regularised sum of losses, then add noise to the minimiser."""

    name: ClassVar[str] = "output"
    summary: ClassVar[str] = "solve, then add noise to the weights; any convex loss"
    one_shot: ClassVar[bool] = True
    takes_levels: ClassVar[bool] = True

    def prepare(self, public: Public) -> Output:
        """Return one noisy release of all models' weights."""
        tolerance = default_tolerance(public.loss, public.for_solver())
        check_ends(public.loss, public.for_solver(), tolerance)  # proof: SOLVER-ENDS
        bound = sensitivity(public, tolerance / public.ridge * (1.0 + 1e-12))
        mechanism = noise_for(public, public.models * public.dimension)
        check_scale(mechanism, bound)
        loss = public.loss
        # the hinge is certified by its duality gap
        proofs = loss.proofs if math.isfinite(loss.smoothness) else (*loss.proofs, "HINGE-GAP")
        scale = mechanism.noise_multiplier * (bound / public.adjacency.contributions)
        return Output(public, Run(mechanism), proofs, scale * mechanism.spread, bound, tolerance)

    def run(
        self, records: Records, prepared: Output, passage: Passage
    ) -> list[NDArray[np.float64]]:
        """Return private minimisers, one for each target vector."""
        public = prepared.public
        value = Bounded(
            solutions(records, public, passage, prepared.tolerance), l2=prepared.bound,
            adjacency=public.adjacency, proof="OUTPUT-SENSITIVITY",
        )  # fmt: skip
        return [np.asarray(part) for part in passage.release(value)]
