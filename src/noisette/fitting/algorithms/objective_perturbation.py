"""Objective perturbation: add a random linear term, then solve.

The theorem is OBJECTIVE-PERTURBATION (`mechanisms.objective_noise`). A solver that stops at a
gradient norm t instead of 0 is covered by APPROXIMATE-MINIMISER: given the exact minimiser, both
neighbours' points lie in one ball of radius t / Lambda, so a second, tiny release of sensitivity
2 t / Lambda hides where in the ball they are.
"""

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded, InKernel
from noisette.core.mechanisms import Gaussian, Mechanism, ObjectiveNoise, SphericalLaplace
from noisette.core.mechanisms.gaussian_curve import gdp_mu
from noisette.core.mechanisms.spherical_laplace_curve import largest_shift
from noisette.core.plans import Plan, Repeat, Run, Together
from noisette.core.roots import private_root
from noisette.errors import InvalidParameter, PermitError, Unproven
from noisette.fitting.algorithms.algorithm import Algorithm, PreparedModel
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.records import Records, solutions
from noisette.fitting.losses import Loss
from noisette.fitting.solvers import attainable_tolerance, check_ends

_SHARE = 1e-3  # of epsilon and delta, for the solver's error and the accountant's rounding
TOLERANCE = 1e-9  # of C, on the gradient norm
_TOO_LITTLE = "no noise reaches epsilon={:.4g} with so little regularization; raise one of them."
_MANY = 100  # from this dimension on Gaussian noise is as good and composes better


def shape_of(loss: Loss) -> str:
    """Return which row of the theorem's table covers `loss`; refuse the rest."""
    if not math.isfinite(loss.smoothness):
        raise Unproven(
            f"objective perturbation has no proof for the {loss.name} loss, which has a kink; "
            "use a smoothed loss ('softplus' or 'huber') or mechanism='output'."
        )
    if loss.kind == "multiclass":
        return "softmax"
    if loss.self_bounded is not None:
        return "self-bounded"
    if loss.decreasing:
        return "one-signed"
    if math.isfinite(loss.lipschitz):
        return "two-signed"  # proof: TWO-SIGNED
    raise Unproven(
        f"objective perturbation has no proof for the {loss.name} loss, whose slope has no bound; "
        "use a loss with a bound, such as 'huber'."
    )


def curvature(public: Public) -> float:
    """Return k = (bound on one record's Hessian) / Lambda, as `ObjectiveNoise` wants it."""
    return per_row(public.loss) * public.squared_bound / public.ridge


def of_curvature(public: Public, k: float) -> Public:
    """Return the facts with the least Lambda for k, rounded up: `curvature` of them is within k."""
    ridge = per_row(public.loss) * public.squared_bound / k * (1.0 + 2.0**-50)
    return replace(public, regularization=ridge)


def per_row(loss: Loss) -> float:
    """Return the bound on one record's Hessian, in rows of norm 1, that the theorem uses."""
    bend = loss.trace if shape_of(loss) == "softmax" else loss.self_bounded
    return loss.smoothness if bend is None else bend


def least_regularization(
    loss: Loss, epsilon: float, contributions: int, squared: float, *, persons: bool = False
) -> float:
    """Return a Lambda at which the determinant costs nothing (or half of epsilon).

    `squared` is (weight cap) R^2. For self-bounded losses k = s w R^2 / Lambda <= epsilon under
    zero-out and add-remove, epsilon / 2 under replace-one; otherwise the determinant gets a
    quarter of epsilon, which is k itself for persons and log(1 + k) for records.
    """
    # the second factor: so that roundings leave k below its limit, where a curve is exact
    epsilon = epsilon * (1.0 - _SHARE) * (1.0 - 1e-12)
    bend = per_row(loss) * squared
    if loss.self_bounded is not None:
        return bend * contributions / epsilon
    if loss.kind == "multiclass":
        return bend * 4.0 / epsilon
    if persons:
        return bend * 4.0 / epsilon  # proof: PERSON-MEAN
    return bend / math.expm1(min(epsilon / 4.0, 600.0))  # more is safe


def _by_pairs(k: float, persons: bool, epsilon: float, delta: float, to: Adjacency) -> bool:
    """Return whether the noise of one release is counted by its pair, not by its own curve."""
    return delta > 0.0 and (persons or k > epsilon / to.contributions)


@lru_cache(maxsize=256)
def noise_multiplier(
    law: str, dimension: int, k: float, shape: str, classes: int, persons: bool,
    epsilon: float, delta: float, adjacency: Adjacency, factor: float = 1.0,
) -> float:  # fmt: skip
    """Return the least multiplier of one release within (epsilon, delta), from public facts.

    Where the determinant costs more than epsilon (little regularisation, delta > 0), and for
    persons, the closed form has nothing to say and the pair is used instead. `factor` is about how
    much more noise than for an additive release is needed; it makes the search shorter.
    """
    first = ObjectiveNoise(1.0, dimension, law, k, shape, classes, persons)
    if _by_pairs(k, persons, epsilon, delta, adjacency):
        try:
            return accounting.calibrate(
                lambda z: Run(replace(first, noise_multiplier=z)),
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
                start=factor * _guess(first, epsilon, delta, adjacency),
            )
        except InvalidParameter:
            raise InvalidParameter(_TOO_LITTLE.format(epsilon)) from None

    @cache  # both ends of the bracket were read when the search comes to them
    def excess(log_z: float) -> float:
        mechanism = replace(first, noise_multiplier=math.exp(log_z))
        if delta == 0.0:
            return mechanism.pure_epsilon(adjacency) - epsilon
        return math.log(max(mechanism.delta(epsilon, adjacency), 1e-300) / delta)

    high = math.log(_guess(first, epsilon, delta, adjacency)) if delta > 0.0 else -2.0
    step = 0.01
    while excess(high) > 0.0:
        high, step = high + step, min(4.0 * step, 2.0)
        if high > 30.0:
            raise InvalidParameter(_TOO_LITTLE.format(epsilon))
    low, step = high, 0.01
    while excess(low) <= 0.0:
        low, step = low - step, min(4.0 * step, 2.0)
    return math.exp(private_root(excess, low, high, lambda x, _: x + 1e-9, xtol=1e-9))


def _guess(noise: ObjectiveNoise, epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Return about the multiplier that is needed, from the curve of the additive release."""
    if noise.shape != "self-bounded":
        epsilon, delta = epsilon - noise.offset, delta / max(1, noise.classes - 1)
    if noise.law == "gaussian":
        shift = gdp_mu(max(epsilon, 1e-2), delta)
    else:
        shift = largest_shift(max(epsilon, 1e-2), delta, noise.dimension or 1)
    return adjacency.contributions / shift


def _mechanism(public: Public) -> ObjectiveNoise:
    """Return the law with the smaller noise for a single release."""
    dimension, k, persons = public.dimension, curvature(public), public.grouped
    rule = (k, shape_of(public.loss), getattr(public.loss, "classes", 2), persons)
    epsilon, delta = public.epsilon * (1.0 - _SHARE), public.delta * (1.0 - _SHARE)

    def candidate(law: str, factor: float = 1.0) -> ObjectiveNoise:
        z = noise_multiplier(law, dimension, *rule, epsilon, delta, public.adjacency, factor)
        return ObjectiveNoise(z, dimension, law, *rule)

    if public.delta == 0.0:
        return candidate("spherical-laplace")
    gaussian = candidate("gaussian")
    if dimension > _MANY or gaussian.shape == "softmax":
        return gaussian
    equal = gaussian.noise_multiplier / math.sqrt(dimension + 1.0)  # of the same mean square
    factor = 1.0
    if _by_pairs(k, persons, epsilon, delta, public.adjacency):
        even = replace(gaussian, law="spherical-laplace", noise_multiplier=equal)
        if accounting.epsilon(Run(even), delta=delta, adjacency=public.adjacency) > epsilon:
            return gaussian
        factor = gaussian.noise_multiplier / _guess(gaussian, epsilon, delta, public.adjacency)
    spherical = candidate("spherical-laplace", factor)
    return spherical if spherical.noise_multiplier < equal else gaussian


def _plan(noise: ObjectiveNoise, hiding: Mechanism, models: int) -> Plan:
    return Together(Run(noise) if models == 1 else Repeat(Run(noise), models), Run(hiding))


@lru_cache(maxsize=64)
def _shared_multiplier(noise: ObjectiveNoise, hiding: Mechanism, models: int,
                       epsilon: float, delta: float, adjacency: Adjacency) -> float:  # fmt: skip
    """Return the multiplier with which `models` releases together stay within the budget."""

    def plan(z: float) -> Plan:
        return _plan(replace(noise, noise_multiplier=z), hiding, models)

    return accounting.calibrate(plan, epsilon=epsilon, delta=delta, adjacency=adjacency)


@dataclass(frozen=True)
class ObjectivePerturbation(Algorithm[PreparedModel]):
    """Add a random linear term to the regularised sum of losses, then minimise."""

    name: ClassVar[str] = "objective"
    summary: ClassVar[str] = "add a random linear term, then solve; smooth losses, least noise"
    one_shot: ClassVar[bool] = True

    def prepare(self, public: Public) -> PreparedModel:
        """Return the linear terms of all models and one tiny release of the solutions."""
        noise, models = _mechanism(public), public.models
        epsilon, delta = public.epsilon * _SHARE / 2.0, public.delta * _SHARE
        hiding: Mechanism  # hides where the solver stopped
        if delta == 0.0:
            hiding = SphericalLaplace.calibrated(
                epsilon, dimension=models * public.dimension, adjacency=public.adjacency
            )
        else:
            hiding = Gaussian.calibrated(epsilon, delta, public.adjacency)
        if models > 1:
            z = _shared_multiplier(
                noise, hiding, models, public.epsilon, public.delta, public.adjacency
            )
            noise = replace(noise, noise_multiplier=z)
        check_scale(hiding, check_solve(public, noise))
        check_scale(noise, public.gradient_bound)
        moved = None  # about how far the linear term moves each weight
        if public.size is not None:  # for rows alike in all directions
            spread = 1.0 if noise.law == "gaussian" else math.sqrt(public.dimension + 1.0)
            each = noise.noise_multiplier * public.gradient_bound * spread
            bend = public.size * public.loss.initial_curvature * public.norm_bound**2
            moved = each / (bend / public.features + public.ridge)
        return PreparedModel(public, _plan(noise, hiding, models), public.loss.proofs, moved)

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> list[Floats]:
        """Return private models, one for each target vector."""
        return solve_with(records, prepared.public, passage, parts=(0, 1))


def solve_with(
    records: Records, public: Public, passage: Passage, *, parts: tuple[int, int],
    origin: Floats | None = None,
) -> list[Floats]:  # fmt: skip
    """Draw the linear terms, solve, and release the solutions under an existing permit.

    `origin` is a public or released point around which the weights are regularised instead of 0.
    The theorem holds for theta - origin, whose losses have the same bounds; in theta it is the
    linear term -Lambda origin.
    """
    noise = passage.leaf(parts[0]).mechanism
    assert isinstance(noise, ObjectiveNoise)
    if curvature(public) > noise.curvature:
        # proof: PLAN-BEFORE-LOOK
        raise PermitError("the regularisation is below the one that was charged for.")
    if noise.persons != public.grouped:
        # proof: PERSON-MEAN
        raise PermitError("the linear term was charged for another unit of protection.")
    pulled = np.zeros(public.shape) if origin is None else -public.ridge * origin
    tolerance, reach, _ = _tolerance(public, noise, float(np.linalg.norm(pulled)))
    term = Bounded(
        InKernel(public.dimension), contribution=public.gradient_bound,
        adjacency=public.adjacency, proof="OBJECTIVE-PERTURBATION",
    )  # fmt: skip
    stream = passage.release(term, part=parts[0])
    found = solutions(records, public, passage, tolerance, stream, pulled)
    # proof: APPROXIMATE-MINIMISER
    hidden: dict[str, Any] = {"l2": reach}
    if passage.leaf(parts[1]).mechanism.norm == "l1":
        hidden = {"l1": reach * math.sqrt(found.size) * (1.0 + 1e-12)}
    value = Bounded(found, adjacency=public.adjacency, proof="APPROXIMATE-MINIMISER", **hidden)
    return list(passage.release(value, part=parts[1]))


def check_solve(public: Public, noise: ObjectiveNoise) -> float:
    """Refuse, before the charge, what is not proven to be solved; return `_tolerance`'s reach."""
    tolerance, reach, largest = _tolerance(public, noise)
    # proof: SOLVER-ENDS
    check_ends(public.loss, public.for_solver(largest), tolerance)
    return reach


def _tolerance(
    public: Public, noise: ObjectiveNoise, pull: float = 0.0
) -> tuple[float, float, float]:
    """Return a tolerance, how far apart it lets two neighbours' points lie around the same
    minimisers, and a bound on the linear term's norm; all from public facts, not the drawn noise.

    The bound fails with probability below e^-80; the solver may then refuse, whatever the data
    are. The attainable tolerance grows with ||b||, so the bound on ||b|| stands in for it.
    """
    scale, d = noise.noise_multiplier * public.gradient_bound, public.dimension
    largest = scale * (d + 20.0 * math.sqrt(d) + 100.0)
    if noise.law == "gaussian":
        largest = scale * (math.sqrt(d) + 15.0)
    attainable = attainable_tolerance(public.loss, public.for_solver(largest + pull))
    tolerance = max(TOLERANCE * public.gradient_bound, 1.01 * attainable)
    reach = 2.0 * math.sqrt(public.models) * tolerance / public.ridge * (1.0 + 1e-12)
    return tolerance, reach, largest
