"""Objective perturbation: add a random linear term, then solve.

The theorem is OBJECTIVE-PERTURBATION (`mechanisms.objective_noise`). A solver that stops at a
gradient norm t instead of 0 is covered by APPROXIMATE-MINIMISER: given the exact minimiser, both
neighbours' points lie in one ball of radius t / Lambda, so a second, tiny release of sensitivity
2 t / Lambda hides where in the ball they are.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from noisette import accounting
from noisette.adjacency import Adjacency
from noisette.bounded import Bounded, InKernel
from noisette.errors import InvalidParameter, Unproven
from noisette.losses import Loss
from noisette.mechanisms import Gaussian, Mechanism, ObjectiveNoise, SphericalLaplace
from noisette.plans import Plan, Repeat, Run, Together
from noisette.privacy import Permit, release
from noisette.randomness import Randomness
from noisette.solvers import attainable_tolerance, minimise
from noisette.training.common import Facts, Trained, check_scale

__all__ = [
    "TOLERANCE",
    "check_solve",
    "curvature",
    "least_regularization",
    "objective_perturbation",
    "shape_of",
    "solve_with",
]

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
    raise Unproven(f"objective perturbation of the {loss.name} loss is not covered here.")


def curvature(loss: Loss, facts: Facts) -> float:
    """Return k = (bound on one record's Hessian) / Lambda, as `ObjectiveNoise` wants it."""
    per_row = {
        "self-bounded": loss.self_bounded,
        "one-signed": loss.smoothness,
        "softmax": loss.trace,
    }[shape_of(loss)]
    assert per_row is not None
    return per_row * facts.squared_bound / facts.regularization


def least_regularization(loss: Loss, epsilon: float, contributions: int, squared: float) -> float:
    """Return a Lambda at which the determinant costs nothing (or half of epsilon).

    `squared` is (weight cap) R^2. For self-bounded losses k = s w R^2 / Lambda <= epsilon under
    zero-out and add-remove, epsilon / 2 under replace-one; otherwise the determinant gets a
    quarter of epsilon.
    """
    epsilon *= 1.0 - _SHARE
    if loss.self_bounded is not None:
        return loss.self_bounded * squared * contributions / epsilon
    if loss.kind == "multiclass":
        return loss.trace * squared * 4.0 / epsilon
    return loss.smoothness * squared / math.expm1(epsilon / 4.0)


@lru_cache(maxsize=256)
def noise_multiplier(
    law: str, dimension: int, k: float, shape: str, classes: int,
    epsilon: float, delta: float, adjacency: Adjacency,
) -> float:  # fmt: skip
    """Return the least multiplier of one release within (epsilon, delta), from public facts.

    Where the determinant costs more than epsilon (little regularisation, delta > 0) the closed
    form has nothing to say and the pair is used instead.
    """
    if delta > 0.0 and k > epsilon / adjacency.contributions:
        try:
            return accounting.calibrate(
                lambda z: Run(ObjectiveNoise(z, dimension, law, k, shape, classes)),
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
            )
        except InvalidParameter:
            raise InvalidParameter(_TOO_LITTLE.format(epsilon)) from None

    def excess(log_z: float) -> float:
        mechanism = ObjectiveNoise(math.exp(log_z), dimension, law, k, shape, classes)
        if delta == 0.0:
            return mechanism.pure_epsilon(adjacency) - epsilon
        reached = mechanism.delta(epsilon, adjacency)
        return math.log(max(reached, 1e-300) / delta)

    low, high = -8.0, 0.0
    while excess(high) > 0.0:
        high += 2.0
        if high > 30.0:
            raise InvalidParameter(_TOO_LITTLE.format(epsilon))
    while excess(low) <= 0.0:
        low -= 2.0
    root = float(brentq(excess, low, high, xtol=1e-9))
    while excess(root) > 0.0:
        root += 1e-9
    return math.exp(root)


def _mechanism(loss: Loss, facts: Facts, dimension: int) -> ObjectiveNoise:
    """Return the law with the smaller noise for a single release."""
    k, shape = curvature(loss, facts), shape_of(loss)
    classes = getattr(loss, "classes", 2)
    epsilon, delta = facts.epsilon * (1.0 - _SHARE), facts.delta * (1.0 - _SHARE)

    def candidate(law: str) -> ObjectiveNoise:
        z = noise_multiplier(law, dimension, k, shape, classes, epsilon, delta, facts.adjacency)
        return ObjectiveNoise(z, dimension, law, k, shape, classes)

    if facts.delta == 0.0:
        return candidate("spherical-laplace")
    gaussian = candidate("gaussian")
    if dimension > _MANY or shape == "softmax":
        return gaussian
    spherical = candidate("spherical-laplace")
    rms = spherical.noise_multiplier * math.sqrt(dimension + 1.0)
    return spherical if rms < gaussian.noise_multiplier else gaussian


def _hiding(facts: Facts, dimension: int) -> Mechanism:
    """Return the mechanism that hides where the solver stopped."""
    epsilon, delta = facts.epsilon * _SHARE / 2.0, facts.delta * _SHARE
    if delta == 0.0:
        return SphericalLaplace.calibrated(epsilon, dimension=dimension, adjacency=facts.adjacency)
    return Gaussian.calibrated(epsilon, delta, facts.adjacency)


def _plan(noise: ObjectiveNoise, hiding: Mechanism, models: int) -> Plan:
    inner: Plan = Run(noise) if models == 1 else Repeat(Run(noise), models)
    return Together(inner, Run(hiding))


@lru_cache(maxsize=64)
def _shared_multiplier(noise: ObjectiveNoise, hiding: Mechanism, models: int,
                       epsilon: float, delta: float, adjacency: Adjacency) -> float:  # fmt: skip
    """Return the multiplier with which `models` releases together stay within the budget."""

    def plan(z: float) -> Plan:
        changed = ObjectiveNoise(
            z, noise.dimension, noise.law, noise.curvature, noise.shape, noise.classes
        )
        return _plan(changed, hiding, models)

    return accounting.calibrate(plan, epsilon=epsilon, delta=delta, adjacency=adjacency)


def objective_perturbation(
    rows: Any,
    targets: list[NDArray[Any]],
    loss: Loss,
    facts: Facts,
    randomness: Randomness,
    *,
    sample_weight: NDArray[np.float64] | None = None,
    label: str = "objective perturbation",
) -> Trained:
    """Return private models, one for each target vector (several for one-vs-rest).

    `rows` must obey ``facts.norm_bound`` (see `with_intercept`), weights ``facts.weight_bound``.
    """
    facts.check(rows, targets, loss, sample_weight)
    models, size = len(targets), int(np.prod(loss.parameter_shape(rows.shape[1])))
    noise, hiding = _mechanism(loss, facts, size), _hiding(facts, models * size)
    if models > 1:
        z = _shared_multiplier(noise, hiding, models, facts.epsilon, facts.delta, facts.adjacency)
        noise = ObjectiveNoise(z, size, noise.law, noise.curvature, noise.shape, noise.classes)
    plan = _plan(noise, hiding, models)
    tolerance = check_solve(loss, facts, noise, rows.shape[1])
    check_scale(noise, facts.gradient_bound(loss))
    check_scale(hiding, _reach(tolerance, facts, models))
    permit = facts.ledger.charge(plan, label=label, delta=facts.delta, epsilon=facts.epsilon)
    weights = solve_with(
        rows, targets, loss, facts, randomness, permit, sample_weight=sample_weight, parts=(0, 1)
    )
    return Trained(weights, permit)


def solve_with(
    rows: Any,
    targets: list[NDArray[Any]],
    loss: Loss,
    facts: Facts,
    randomness: Randomness,
    permit: Permit,
    *,
    sample_weight: NDArray[np.float64] | None,
    parts: tuple[int, int],
) -> list[NDArray[np.float64]]:
    """Draw the linear terms, solve, and release the solutions under an existing permit."""
    shape = loss.parameter_shape(rows.shape[1])
    size, bound = int(np.prod(shape)), facts.gradient_bound(loss)
    noise = permit.leaf(parts[0]).mechanism
    assert isinstance(noise, ObjectiveNoise)
    tolerance = _public_tolerance(loss, facts, noise, rows.shape[1])
    term = Bounded(
        InKernel(size), contribution=bound, adjacency=facts.adjacency,
        proof="OBJECTIVE-PERTURBATION",
    )  # fmt: skip
    stream = release(term, permit, randomness, part=parts[0])
    solved = [
        minimise(
            loss,
            rows,
            target,
            regularization=facts.regularization,
            norm_bound=facts.norm_bound,
            tolerance=tolerance,
            linear=stream.take(1)[0].reshape(shape),
            sample_weight=sample_weight,
            weight_bound=facts.weight_bound,
            max_rows=facts.size,
        ).weights
        for target in targets
    ]
    # proof: APPROXIMATE-MINIMISER
    reach = _reach(tolerance, facts, len(targets))
    value = Bounded(
        np.stack(solved), l2=reach, adjacency=facts.adjacency, proof="APPROXIMATE-MINIMISER"
    )
    return [np.asarray(part) for part in release(value, permit, randomness, part=parts[1])]


def _reach(tolerance: float, facts: Facts, models: int) -> float:
    """Return how far apart two neighbours' points around the same minimisers can lie."""
    return 2.0 * math.sqrt(models) * tolerance / facts.regularization * (1.0 + 1e-12)


def check_solve(loss: Loss, facts: Facts, noise: ObjectiveNoise, features: int) -> float:
    """Return the public tolerance; refuse, before the charge, what is not proven to be solved."""
    tolerance = _public_tolerance(loss, facts, noise, features)
    facts.check_ends(loss, features, tolerance, _largest_term(loss, facts, noise))
    return tolerance


def _largest_term(loss: Loss, facts: Facts, noise: ObjectiveNoise) -> float:
    """Return a bound on the linear term's norm that fails with probability below e^-80.

    If it fails, the solver may refuse, whatever the data are.
    """
    scale = noise.noise_multiplier * facts.gradient_bound(loss)
    d = noise.dimension
    if noise.law == "gaussian":
        return scale * (math.sqrt(d) + 15.0)
    return scale * (d + 20.0 * math.sqrt(d) + 100.0)


def _public_tolerance(loss: Loss, facts: Facts, noise: ObjectiveNoise, features: int) -> float:
    """Return a tolerance that depends on public facts only, not on the drawn noise.

    The attainable tolerance grows with ||b||, so the bound on ||b|| stands in for it.
    """
    largest = _largest_term(loss, facts, noise)
    wanted = TOLERANCE * facts.gradient_bound(loss)
    return max(wanted, 1.01 * attainable_tolerance(loss, facts.for_solver(features, largest)))
