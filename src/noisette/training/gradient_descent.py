"""Private gradient descent without tuning: full batch, momentum, tail average.

With T steps that are mu-GDP together, the statistical effect of step size eta and momentum beta is
tau = eta T / (1 - beta) alone, and it acts like 1 / lambda. In rows of norm 1,

    tau = min(16 n mu / (Delta sqrt(d)), T_max / (M (1 - beta))),   beta = 0.9,
    T = max(8, ceil(tau (1 - beta) M)),   eta = tau (1 - beta) / T,

from public facts only (M is the loss's curvature, Delta a planning value of the sensitivity). The
noise of step t has std Delta_t sqrt(T) / mu on the gradient sum, where Delta_t bounds the
sensitivity *at the released iterate* w_t: for logistic loss it grows with ||w_t|| from half of the
global bound (LOGISTIC-SENSITIVITY-*). Choosing it from past outputs is what FILTER-GDP licenses.
The mean of the last T/2 iterates is post-processing.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette.accounting.sensitivity import logistic_gradient_sensitivity
from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.errors import Unproven
from noisette.losses import Logistic, Softmax
from noisette.losses.rows import Rows, back
from noisette.mechanisms import Gaussian
from noisette.mechanisms.gaussian_curve import gdp_delta, gdp_mu
from noisette.plans import Repeat, Run
from noisette.privacy import Ledger, release
from noisette.randomness import Randomness
from noisette.training.common import Trained, check_scale
from noisette.training.single_pass import shares_of
from noisette.training.steps import Progress, Update, loss_number, loss_parameter

__all__ = ["Recipe", "gradient_descent", "recipe"]

Floats = NDArray[np.float64]

MOMENTUM = 0.9
FACTOR = 16.0
MOST_STEPS = 1_000
LEAST_STEPS = 8


@dataclass(frozen=True)
class Recipe:
    """Steps T, step size eta (for rows of norm R as they are) and the budget mu of all steps."""

    steps: int
    step_size: float
    mu: float


def recipe(
    update: Update, *, size: int, dimension: int, epsilon: float, delta: float,
    adjacency: Adjacency, most_steps: int = MOST_STEPS,
) -> Recipe:  # fmt: skip
    """Return the schedule from public facts; `size` is n or its public estimate."""
    if not math.isfinite(update.loss.smoothness):
        raise Unproven(
            f"gradient descent needs a smooth loss, which the {update.loss.name} is not; use "
            "'huber' or 'softplus', or choose another sampling."
        )
    bound = update.row_bound
    mu = gdp_mu(epsilon, delta)
    curvature = update.loss.smoothness + update.regularization / bound**2
    largest = 1.0 / curvature
    planned = update.contribution / bound * adjacency.contributions
    if isinstance(update.loss, Logistic) and update.clip_norm is None:
        planned = 1.5 if adjacency is Adjacency.REPLACE_ONE else 1.0
    tau = min(
        FACTOR * size * mu / (planned * math.sqrt(dimension)),
        most_steps * largest / (1.0 - MOMENTUM),
    )
    steps = max(LEAST_STEPS, math.ceil(tau * (1.0 - MOMENTUM) / largest))
    return Recipe(steps, tau * (1.0 - MOMENTUM) / steps / bound**2, mu)


def gradient_descent(
    X: Any,
    y: NDArray[Any],
    update: Update,
    randomness: Randomness,
    *,
    ledger: Ledger,
    epsilon: float,
    delta: float,
    population: int | None = None,
    levels: Floats | None = None,
    sample_weight: Floats | None = None,
    schedule: Recipe | None = None,
    label: str = "private gradient descent",
    verbose: int = 0,
) -> Trained:
    """Return the tail average of private gradient descent on all rows.

    `levels` are everyone's own epsilon: gradients are scaled by mu(epsilon_i) / mu(epsilon).
    `sample_weight` in [0, 1] scales them too; give one of the two.
    """
    n, features = X.shape
    dimension, adjacency = update.dimension(features), ledger.adjacency
    size = n if adjacency.size_is_public else _validate.integer("population", population)
    update.check(X, y, levels, sample_weight)
    plan_of = schedule or recipe(
        update, size=size, dimension=dimension, epsilon=epsilon, delta=delta, adjacency=adjacency
    )
    steps = plan_of.steps
    share, scaled = shares_of(levels, sample_weight, epsilon, delta, "gaussian")
    z = adjacency.contributions * math.sqrt(steps) / plan_of.mu
    while float(gdp_delta(math.sqrt(steps) * (adjacency.contributions / z), epsilon)) > delta:
        z *= 1.0 + 1e-15
    check_scale(Gaussian(z), update.contribution)
    permit = ledger.charge(
        Repeat(Run(Gaussian(z)), steps), label=label, delta=delta, epsilon=epsilon,
        seeded=randomness.seeded,
    )  # fmt: skip
    gradient = _gradient_of(X, y, update, share)
    w, velocity, tail = np.zeros(dimension), np.zeros(dimension), np.zeros(dimension)
    first_kept, progress = steps // 2, Progress(verbose, steps)
    for t in range(steps):
        bound, proof = _sensitivity(update, w, adjacency)
        # proof: FILTER-GDP
        value = Bounded(gradient(w), l2=bound, adjacency=adjacency, proof=proof)
        noisy = release(value, permit, randomness)
        velocity *= MOMENTUM
        velocity += noisy / size + update.regularization * w
        w = w - plan_of.step_size * velocity
        norm = float(np.linalg.norm(w))
        if norm > update.radius:
            w *= update.radius / norm
        if t >= first_kept:
            tail += w / (steps - first_kept)
        progress.show(t + 1)
    proofs = ("CLIP", "FILTER-GDP", *scaled)
    return Trained([tail.reshape(update.shape(features))], permit, proofs=proofs)


def _sensitivity(update: Update, w: Floats, adjacency: Adjacency) -> tuple[float, str]:
    """Return (sensitivity of the gradient sum at w, its theorem)."""
    everywhere = adjacency.contributions * update.contribution
    if not isinstance(update.loss, Logistic) or update.norm_bound is None:
        return everywhere, "CLIP"
    # the norm is computed in floating point: rounded up
    norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
    here = float(logistic_gradient_sensitivity(norm, adjacency.value, row_bound=update.row_bound))
    if here >= everywhere:
        return everywhere, "CLIP"
    if adjacency is Adjacency.REPLACE_ONE:
        # proof: LOGISTIC-SENSITIVITY-REPLACE-ONE
        return here, "LOGISTIC-SENSITIVITY-REPLACE-ONE"
    return here, "LOGISTIC-SENSITIVITY-ZERO-OUT"  # proof: LOGISTIC-SENSITIVITY-ZERO-OUT


def _gradient_of(X: Any, y: NDArray[Any], update: Update, share: Floats | None) -> Any:
    """Return the function w -> sum of clipped gradients over all rows."""
    from noisette.training import kernels

    loss = update.loss
    limit = math.inf if update.norm_bound is None else update.norm_bound
    if isinstance(loss, Softmax) or sparse.issparse(X):
        return _blocked_gradient(X, y, update, share)
    nobody, _ = kernels.empty()
    number, parameter = loss_number(loss), loss_parameter(loss) or 0.0
    shares = nobody if share is None else share

    def gradient(w: Floats) -> Floats:
        g = np.empty_like(w)
        kernels.full_gradient(
            X, y, shares, w, limit, update.bias or 0.0, update.clip, number, parameter, g
        )
        return g

    return gradient


def _blocked_gradient(X: Any, y: NDArray[Any], update: Update, share: Floats | None) -> Any:
    """Return the gradient function by blocks of matrix products: softmax and sparse rows."""
    loss, bias = update.loss, update.bias
    rows = Rows(X)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(rows.squared_norms())
    blank = ~(lengths < 1e100)  # as in the kernels
    lengths[blank] = 0.0
    factor = np.where(blank, 0.0, 1.0)
    if update.norm_bound is not None:
        limit = update.norm_bound * (1.0 - (rows.d + 4) * 2.0**-53)  # proof: CLIP
        long = lengths > limit
        factor[long] = limit / lengths[long]
    full = np.hypot(lengths * factor, bias or 0.0)

    def gradient(w: Floats) -> Floats:
        W = w.reshape(update.shape(rows.d))
        total = np.zeros_like(W)
        for part, block in rows.blocks():
            if blank[part].any():
                block = _without(block, blank[part])
            f = factor[part] if W.ndim == 1 else factor[part][:, None]
            inner = W if bias is None else W[..., :-1]
            scores = (block @ inner.T) * f
            if bias is not None:
                scores = scores + bias * W[..., -1]
            derivative = np.asarray(loss.at_scores(scores, y[part])[1], dtype=float)
            scale = np.ones(len(full[part])) if share is None else share[part].copy()
            if update.clip < math.inf:
                size = np.abs(derivative) if W.ndim == 1 else np.linalg.norm(derivative, axis=1)
                size = size * full[part]
                over = size > update.clip
                scale[over] *= update.clip * (1.0 - 1e-14) / size[over]
            derivative = derivative * (scale if W.ndim == 1 else scale[:, None])
            if bias is not None:
                total[..., :-1] += back(block, derivative * f)
                total[..., -1] += bias * derivative.sum(axis=0)
            else:
                total += back(block, derivative * f)
        return total.ravel()

    return gradient


def _without(block: Any, blank: NDArray[np.bool_]) -> Any:
    """Return a copy of a block in which blank rows are zero; 0 times infinity would be NaN."""
    block = block.copy()
    if sparse.issparse(block):
        block.data[np.repeat(blank, np.diff(block.indptr))] = 0.0
    else:
        block[blank] = 0.0
    return block
