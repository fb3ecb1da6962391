"""Private whitening, then objective perturbation, under one charge.

Isotropic noise costs tr(C) tr(C^-1) >= d^2 for rows with second moment C, with equality iff C is a
multiple of the identity. So a share of the budget buys a noisy second moment; a row map
x -> A x with released parameters, followed by a clip to a released norm R', is row-local and free.

The plan is fixed before the data are seen: Gaussian (second moment), objective noise with a fixed
multiplier and a fixed k, Gaussian (solver error). R' is chosen from the released moment, and
Lambda = s R'^2 / k with it, because the pair of the objective step depends on (multiplier, k) only.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import accounting
from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.clipping import clip_rows
from noisette.errors import InvalidParameter, Unproven
from noisette.losses import Loss, Rows
from noisette.mechanisms import Gaussian, ObjectiveNoise
from noisette.plans import Plan, Run, Together
from noisette.privacy import release
from noisette.randomness import Randomness
from noisette.training.common import Facts, Trained
from noisette.training.objective_perturbation import check_solve, shape_of, solve_with

__all__ = ["whitened_objective_perturbation"]

Floats = NDArray[np.float64]

_SHARE_OF_HIDING = 1e-6  # of mu squared
_FLOOR = 0.5  # eigenvalue floor, in units of R^2 / d
_ROOM = 1.5  # Lambda relative to the least one: keeps the objective step close to Gaussian


@lru_cache(maxsize=128)
def _calibrated(share: float, dimension: int, k: float, shape: str, classes: int,
                epsilon: float, delta: float, adjacency: Adjacency) -> float:  # fmt: skip
    """Return the multiplier scale c with which the plan meets the budget."""
    return accounting.calibrate(
        lambda c: _plan(c, share, dimension, k, shape, classes),
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
    )


def _plan(c: float, share: float, dimension: int, k: float, shape: str, classes: int) -> Plan:
    """Return the plan in which mu^2 is divided as share : rest : almost nothing."""
    return Together(
        Run(Gaussian(c / math.sqrt(share))),
        Run(_noise(c, share, dimension, k, shape, classes)),
        Run(Gaussian(c / math.sqrt(_SHARE_OF_HIDING))),
    )


def _noise(
    c: float, share: float, dimension: int, k: float, shape: str, classes: int
) -> ObjectiveNoise:
    """Return the law of the linear term."""
    return ObjectiveNoise(c / math.sqrt(1.0 - share), dimension, "gaussian", k, shape, classes)


def whitened_objective_perturbation(
    rows: Any,
    targets: list[NDArray[Any]],
    loss: Loss,
    facts: Facts,
    randomness: Randomness,
    *,
    share: float = 0.1,
    guess: int | None = None,
    sample_weight: Floats | None = None,
    label: str = "whitened objective perturbation",
) -> Trained:
    """Return one private model; ``facts.regularization`` is ignored (it follows from R').

    `share` of the budget (in mu squared) goes to the second moment. Needs delta > 0. Under
    add-remove `guess` is a public guess of n, on which only accuracy depends (default: the bound
    ``facts.size``).
    """
    if len(targets) != 1:
        raise Unproven("whitening is for one model; use multi_class='softmax', not one-vs-rest.")
    if facts.delta == 0.0:
        raise InvalidParameter("whitening needs delta > 0; set delta, or whiten=False.")
    if not 0.0 < share < 1.0:
        raise InvalidParameter(f"the share for whitening must be in (0, 1); got {share!r}.")
    facts.check(rows, targets, loss, sample_weight)
    shape, classes = shape_of(loss), getattr(loss, "classes", 2)
    features = rows.shape[1]
    dimension = int(np.prod(loss.parameter_shape(features)))
    k = facts.epsilon / (_ROOM * facts.adjacency.contributions)
    c = _calibrated(
        share, dimension, k, shape, classes, facts.epsilon, facts.delta, facts.adjacency
    )
    plan = _plan(c, share, dimension, k, shape, classes)
    noise = _noise(c, share, dimension, k, shape, classes)
    # Whether the solve ends does not depend on R', which scales all of it alike (Lambda ~ R'^2);
    # both ends of its range are checked, with room for rounding.
    for bound in (1.0, math.sqrt(features)):
        trial = _inner(facts, loss, shape, bound, k * (1.0 + 1e-6))
        check_solve(loss, trial, noise, features)
    permit = facts.ledger.charge(
        plan, label=label, delta=facts.delta, epsilon=facts.epsilon, seeded=randomness.seeded
    )

    moment = _private_second_moment(rows, facts, permit, randomness)
    count = facts.size if guess is None else guess
    map_, new_bound = _whitener(moment / count, facts.norm_bound)
    mapped = np.concatenate([np.asarray(block @ map_) for _, block in Rows(rows).blocks()])
    mapped = clip_rows(mapped, new_bound)  # proof: WHITENING
    inner = _inner(facts, loss, shape, new_bound, k)
    (theta,) = solve_with(
        mapped, targets, loss, inner, randomness, permit, sample_weight=sample_weight, parts=(1, 2)
    )
    return Trained([theta @ map_], permit, proofs=("WHITENING", *loss.proofs))  # A is symmetric


def _inner(facts: Facts, loss: Loss, shape: str, bound: float, k: float) -> Facts:
    """Return the facts of the objective step: rows of norm R' = `bound`, Lambda = s R'^2 / k."""
    per_row = {
        "self-bounded": loss.self_bounded,
        "one-signed": loss.smoothness,
        "softmax": loss.trace,
    }[shape]
    assert per_row is not None
    inner = Facts(
        epsilon=facts.epsilon,
        delta=facts.delta,
        ledger=facts.ledger,
        norm_bound=bound,
        regularization=1.0,
        size=facts.size,
        weight_bound=facts.weight_bound,
    )
    return replace(inner, regularization=per_row * inner.squared_bound / k)


def _private_second_moment(rows: Any, facts: Facts, permit: Any, randomness: Randomness) -> Floats:
    """Return sum x x' with symmetric Gaussian noise, in isometric coordinates.

    ||x x'||_F <= R^2 (zero-out, add-remove) and ||x x' - y y'||_F <= sqrt(2) R^2 (replace-one).
    """
    # proof: SECOND-MOMENT
    factor = math.sqrt(2.0) if facts.adjacency is Adjacency.REPLACE_ONE else 1.0
    d = rows.shape[1]
    exact = np.zeros((d, d))
    for _, block in Rows(rows).blocks():  # float64, whatever the type of the rows
        product = block.T @ block
        exact += product.toarray() if sparse.issparse(product) else product
    upper = np.triu_indices(d, 1)
    flat = np.concatenate([np.diag(exact), math.sqrt(2.0) * exact[upper]]).astype(float)
    squared = facts.squared_bound / facts.weight_bound
    value = Bounded(flat, l2=factor * squared, adjacency=facts.adjacency, proof="SECOND-MOMENT")
    noisy = release(value, permit, randomness, part=0)
    out = np.zeros((d, d))
    out[upper] = noisy[d:] / math.sqrt(2.0)
    return np.asarray(out + out.T + np.diag(noisy[:d]))


def _whitener(mean_moment: Floats, bound: float) -> tuple[Floats, float]:
    """Return A = (S_+ + t I)^{-1/2} and the new norm bound sqrt(tr S_+ (S_+ + t I)^{-1})."""
    d = mean_moment.shape[0]
    floor = _FLOOR * bound**2 / d
    values, vectors = np.linalg.eigh(mean_moment)
    values = np.maximum(values, 0.0)
    map_ = (vectors / np.sqrt(values + floor)) @ vectors.T
    effective = float(np.sum(values / (values + floor)))
    return map_, math.sqrt(max(effective, 1.0))
