"""Privacy of releasing only the last iterate of noisy SGD on a smooth convex loss.

For SGD with step eta, noise std sigma on the gradient sum and public normaliser b, the update map
is c-Lipschitz with c = max(|1 - eta m|, |1 - eta M|), adds noise nu = eta sigma/b, and moves by
s = eta Delta/b in the record's own steps and by 0 elsewhere. Lengths are measured in units of
sigma/b, so nu = eta and s = eta r with r = Delta/sigma, the GDP parameter of one participation.
The privacy of X_T follows from `minorant`. `LastIterateRun` checks the conditions and refuses by
name; the functions on curves trust that the steps contract.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisette import _validate
from noisette._typing import Floats
from noisette.core import plans
from noisette.core.accounting.minorant import best_position_mus
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon, stated_delta
from noisette.core.roots import moved, private_root
from noisette.core.sampling import Shuffle
from noisette.core.sampling.base import PassSampler
from noisette.errors import InvalidParameter, Unproven

# name: (coefficient, power of the parameter, bound on |loss'|). With rows |x| <= R the loss is
# coefficient * parameter^power * R^2 smooth and its gradient is at most slope * R.
LOSSES: dict[str, tuple[float, int, float]] = {
    "logistic": (0.25, 0, 1.0),
    "softmax": (0.5, 0, math.sqrt(2.0)),
    "huber_hinge": (0.5, -1, 1.0),  # parameter h: half-width of the quadratic part
    "softplus": (0.25, 1, 1.0),  # parameter s: log(1 + e^{s (1 - margin)}) / s
}


def loss_constants(
    loss: str, *, row_bound: float = 1.0, ridge: float = 0.0, parameter: float | None = None
) -> tuple[float, float, float]:
    """Return (smoothness M, strong convexity m, gradient bound C) of a listed loss.

    M = curvature * R^2 + ridge, m = ridge, C = slope * R (the ridge term is the same on both
    neighbours and is not part of C). Rows must satisfy |x| <= R **including** the bias column, the
    ridge must act on every coordinate, and batches must not exceed the normaliser.
    """
    # proof: GLM-SMOOTHNESS
    if loss not in LOSSES:
        listed = ", ".join(repr(name) for name in LOSSES)
        raise InvalidParameter(
            f"loss must be one of {listed}, whose curvature is known; got {loss!r}."
        )
    coefficient, power, slope = LOSSES[loss]
    if (parameter is None) != (power == 0):
        rule = "takes no parameter" if power == 0 else "needs its smoothing parameter"
        raise InvalidParameter(f"loss {loss!r} {rule}; got {parameter!r}.")
    value = 1.0 if parameter is None else _validate.positive("parameter", parameter)
    row = _validate.positive("row_bound", row_bound)
    lam = _validate.non_negative("ridge", ridge)
    return coefficient * value**power * row * row + lam, lam, slope * row


def _frozen(values: Any) -> Any:
    """Return nested sequences and arrays as nested tuples, other values unchanged."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    nested = isinstance(values, Sequence) and not isinstance(values, str)
    return tuple(_frozen(v) for v in values) if nested else values


@dataclass(frozen=True, kw_only=True)
class LastIterateRun:
    """One run of plain SGD of which only the last iterate leaves, with its guarantee.

    w <- w - eta (ridge w + (1/b) (sum of the batch's loss gradients + N(0, sigma^2 I)))

    ==================  ========================================================================
    field               meaning and condition (all public)
    ==================  ========================================================================
    smoothness          M of the batch objective, ridge included; see `loss_constants`
    strong_convexity    m of the batch objective: the ridge, 0 <= m <= M
    step_sizes          one number, one per epoch, or (epochs, batches); each <= 2/M
    batches, epochs     l and E; every record is used once per epoch
    noise_ratio         r = Delta/sigma: 1/z for zero-out, 2/z for replace-one, z = sigma/C
    adjacency           add-remove only for full batches (l = 1)
    shuffled            whether a record's place is random, drawn once or anew in each epoch
    batch_sizes         one number or one per batch; none above normalizer (else M is too small);
                        unknown: "even" (they differ by at most one) or "rest" (the last is
                        smaller), and none above normalizer
    normalizer          b, the public divisor of the gradient sum
    ==================  ========================================================================

    Also required and not checkable here: a convex per-example loss with the stated M for every
    record, a public start, noise and steps that do not depend on the data or the iterates, no
    momentum, no averaging, no clipping of gradient vectors, no data-dependent stopping, no other
    iterate that leaves, and orders drawn independently of the data.
    """

    smoothness: float
    strong_convexity: float
    step_sizes: float | Sequence[float] | Sequence[Sequence[float]]
    batches: int
    epochs: int
    noise_ratio: float
    adjacency: Adjacency
    shuffled: bool
    batch_sizes: int | Sequence[int] | str
    normalizer: float

    def __post_init__(self) -> None:
        # Tuples, so that nothing can change between the checks and the accounting.
        object.__setattr__(self, "step_sizes", _frozen(self.step_sizes))
        object.__setattr__(self, "batch_sizes", _frozen(self.batch_sizes))
        for name in ("smoothness", "normalizer", "noise_ratio"):
            _validate.positive(name, getattr(self, name))
        for name in ("batches", "epochs"):
            _validate.integer(name, getattr(self, name))
        if not 0.0 <= self.strong_convexity <= self.smoothness:
            raise InvalidParameter(
                "strong_convexity must lie between 0 and smoothness; "
                f"got {self.strong_convexity!r}."
            )
        if self.adjacency is Adjacency.ADD_REMOVE and self.batches > 1:
            raise Unproven(
                "adjacency 'add-remove' is refused with more than one batch, since inserting a "
                "record moves the others to other batches; use 'zero-out' or 'replace-one'."
            )
        steps, largest = self._steps(), int(self._sizes().max())
        if (steps > 2.0 / self.smoothness).any():
            raise InvalidParameter(
                f"every step size must be at most 2/smoothness = {2.0 / self.smoothness:.6g}, or "
                f"the update does not contract; got {float(steps.max()):.6g}."
            )
        if largest > self.normalizer:
            raise InvalidParameter(
                f"no batch may be larger than the normalizer {self.normalizer!r}, or the batch "
                f"objective is rougher than smoothness; got {largest}."
            )

    def _sizes(self) -> NDArray[np.int64]:
        sizes = np.asarray(1 if self.batch_sizes in ("even", "rest") else self.batch_sizes)
        right = sizes.ndim == 0 or sizes.shape == (self.batches,)
        if not right or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 1).any():
            raise InvalidParameter("batch_sizes must be one whole number >= 1, or one per batch.")
        return np.broadcast_to(sizes, (self.batches,))

    def _steps(self) -> Floats:
        steps = np.asarray(self.step_sizes, dtype=float)
        if steps.shape == (self.epochs,):
            steps = steps[:, None]
        elif steps.shape not in ((), (self.epochs, self.batches)):
            raise InvalidParameter(
                "step_sizes must be one number, one per epoch or epochs x batches."
            )
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise InvalidParameter("step_sizes must be positive, finite numbers.")
        return np.broadcast_to(steps, (self.epochs, self.batches))

    def contractions(self) -> Floats:
        """Return c = max(|1 - eta m|, |1 - eta M|), rounded up, shape (epochs, batches).

        It is 1 - eta m as long as eta <= 2/(M + m), and never above 1.
        """
        # proof: GRADIENT-STEP-LIPSCHITZ
        steps = self._steps()
        c = np.maximum(abs(1.0 - steps * self.strong_convexity), steps * self.smoothness - 1.0)
        # Rounding 1 - eta m down would claim a contraction that is not there.
        return np.minimum(c + 2.0**-51, 1.0)

    def position_mus(self, *, worst: bool | None = None) -> Floats:
        """Return mu given each position in the last epoch; one value for a fixed order."""
        return last_mus(
            self.contractions(), self.batches, self.epochs, self.noise_ratio,
            step_size=self._steps(), worst=not self.shuffled if worst is None else worst,
        )  # fmt: skip

    def mu(self) -> float:
        """Return mu of the worst position of a record; valid for every order."""
        return float(self.position_mus(worst=True)[0])

    def _position_weights(self) -> Floats | str | None:
        # A uniform permutation puts a record in batch j with probability size_j / n.
        if not self.shuffled:
            return None
        known = self.batch_sizes
        return known if isinstance(known, str) else self._sizes().astype(float)

    def delta(self, epsilon: ArrayLike) -> Floats | float:
        """Return the privacy curve of the released iterate at epsilon (any shape)."""
        return reshuffled_last_delta(epsilon, self.position_mus(), self._position_weights())

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with delta(epsilon) <= delta, rounded up."""
        return reshuffled_last_epsilon(delta, self.position_mus(), self._position_weights())


def last_iterate_run(leaf: plans.LastIterate, adjacency: Adjacency) -> LastIterateRun:
    """Return the checked description of a last-iterate leaf; refuses what has no proof."""
    sampler, batches, normalizer = leaf.sampler, leaf.sampler.steps, 1.0
    sizes: list[int] | str = "even" if getattr(sampler, "batch_size", None) is None else "rest"
    if adjacency is Adjacency.ADD_REMOVE and leaf.size is None:
        # The number of rows is not public, so the sum cannot be divided by it.
        raise Unproven(
            "last-iterate privacy under add-remove needs `size`, a public number that divides the "
            "gradient sum and that the number of records never exceeds; state it, or use "
            "replace-one or zero-out."
        )
    if leaf.size is not None and isinstance(sampler, PassSampler):
        edges = sampler.edges(leaf.size)
        sizes = [int(b - a) for a, b in itertools.pairwise(edges)]
        normalizer = sampler.normaliser(leaf.size)
    smooth, strong, _ = loss_constants(
        leaf.loss,
        row_bound=leaf.norm_bound,
        ridge=leaf.regularization,
        parameter=leaf.loss_parameter,
    )
    return LastIterateRun(
        smoothness=smooth,
        strong_convexity=strong,
        step_sizes=leaf.learning_rate,
        batches=batches,
        epochs=leaf.epochs,
        noise_ratio=adjacency.contributions / leaf.mechanism.noise_multiplier,  # type: ignore[attr-defined]
        adjacency=adjacency,
        shuffled=isinstance(sampler, Shuffle),
        batch_sizes=sizes,
        normalizer=normalizer,
    )


def last_mus(
    contraction: ArrayLike,
    batches: int,
    epochs: int,
    noise_ratio: float,
    *,
    step_size: ArrayLike = 1.0,
    diameter: float = math.inf,
    worst: bool = False,
) -> Floats:
    """Return (mu_1, ..., mu_l) of the last iterate: mu_j if the record ends in batch j.

    contraction (in [0, 1]) and step_size broadcast to (epochs, batches): scalar, (epochs, 1) or
    full. noise_ratio is r = Delta/sigma. diameter is that of the projection set, in units of
    sigma/b. At c = 1, E >= 2: mu_j^2 = r^2 [(E-2)/l + 1/j + 1/(l-j+1)] for j > (l+1)/2, with
    4/(l+1) in place of the last two terms otherwise.

    With `worst` the result is the largest of them alone, valid for every fixed or random order,
    and for steps that vary inside an epoch (there it is loose). With constant steps it is, for
    l = 1 and T = E, r sqrt((1-c^T)/(1+c^T) (1+c)/(1-c)), and for l >= 2
    r sqrt(1 + c^{2l-2} (1-c^2)/(1-c^l)^2 (1-c^{l(E-1)})/(1+c^{l(E-1)})); r sqrt(1 + (E-1)/l) at
    c = 1.
    """
    # proof: LAST-ITERATE-FULL-BATCH (one batch)
    shape = (_validate.integer("epochs", epochs), _validate.integer("batches", batches))
    c = np.broadcast_to(np.asarray(contraction, dtype=float), shape)
    eta = np.broadcast_to(np.asarray(step_size, dtype=float), shape)
    if not ((c >= 0).all() and (c <= 1).all()):
        raise InvalidParameter(
            "contraction must lie in [0, 1]: smaller steps make the map contract."
        )
    if not ((eta > 0).all() and np.isfinite(eta).all()):
        raise InvalidParameter("step_size must be positive and finite.")
    ratio = _validate.positive("noise_ratio", noise_ratio)
    return best_position_mus(c, eta, ratio, diameter, worst=worst)


def _weights(count: int, weights: ArrayLike | None) -> Floats:
    w = np.ones(count) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (count,) or not (np.isfinite(w).all() and (w > 0).all()):
        raise InvalidParameter(f"weights must be {count} positive numbers, one per batch position.")
    return np.asarray(w / w.sum())


def _worst_split(values: Floats, mus: Floats, split: str) -> Floats:
    """Return the largest mean of values[..., j] over the batch sizes that `split` leaves open.

    "even": weights s_j / sum(s), s_j in {1, 2}; values grow with mus, so the worst k batches to be
    the larger ones are those of the largest mus. "rest": equal weights, or 0 for the last batch.
    """
    # proof: LAST-ITERATE-SPLIT
    if split == "rest":
        means = [values.mean(axis=-1), values[..., : max(mus.size - 1, 1)].mean(axis=-1)]
        return np.asarray(np.maximum(*means))
    falling = values[..., np.argsort(-mus, kind="stable")]
    count, total = mus.size, falling.sum(axis=-1, keepdims=True)
    larger = np.arange(1, count + 1)
    means = (total + np.cumsum(falling, axis=-1)) / (count + larger)
    return np.asarray(np.maximum(means.max(axis=-1), total[..., 0] / count))


def reshuffled_last_delta(
    epsilon: ArrayLike, mus: ArrayLike, weights: ArrayLike | str | None = None
) -> Floats | float:
    """Return sum_j w_j delta_{mu_j}(epsilon), the last-iterate curve of a random order.

    mus from `last_mus`; weights are the probabilities of the record's position in the
    last epoch, batch sizes / n for a uniform permutation (default: equal). Where n is not known
    they are "even" (batch sizes differ by at most one) or "rest" (full batches but for the last,
    which may be smaller), and the worst n counts. Any shape of epsilon.
    """
    # proof: LAST-ITERATE-RESHUFFLED
    m = np.asarray(mus, dtype=float)
    e = np.asarray(epsilon, dtype=float)
    each = np.asarray(stated_delta(m, e[..., None]))
    if isinstance(weights, str):
        values = _worst_split(each, m, _validate.choice("weights", weights, ("even", "rest")))
    else:
        values = each @ _weights(m.size, weights)
    delta = np.minimum(values * (1.0 + (m.size + 8) * 2.0**-52), 1.0)
    return float(delta) if delta.ndim == 0 else delta


def reshuffled_last_epsilon(
    delta: float, mus: ArrayLike, weights: ArrayLike | str | None = None
) -> float:
    """Return the smallest epsilon >= 0 with `reshuffled_last_delta` <= delta, rounded up."""
    m = np.asarray(mus, dtype=float)
    high = gdp_epsilon(float(m.max()), delta)  # also refuses a delta outside [0, 1]

    def excess(epsilon: float) -> float:
        return float(reshuffled_last_delta(epsilon, m, weights)) * (1.0 + 1e-12) - delta

    if high in (0.0, math.inf) or excess(0.0) <= 0.0:
        return 0.0 if high < math.inf else high

    def up(x: float, turn: int) -> float:
        return x * (1.0 + 1e-13)

    if excess(high) < 0.0:
        return private_root(excess, 0.0, high, up, xtol=1e-300, rtol=1e-13)
    return moved(high, lambda x: excess(x) <= 0.0, up)
