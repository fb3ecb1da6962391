"""Privacy of releasing only the last iterate of noisy SGD on a smooth convex loss.

For SGD with step eta, noise std sigma on the gradient sum and public normaliser b, the update map
is c-Lipschitz with c = max(|1 - eta m|, |1 - eta M|), adds noise nu = eta sigma/b, and moves by
s = eta Delta/b in the record's own steps and by 0 elsewhere. Lengths are measured in units of
sigma/b, so nu = eta and s = eta r with r = Delta/sigma, the GDP parameter of one participation.
The privacy of X_T follows from `minorant`. `LastIterateRun` checks the conditions and refuses by
name; the functions on curves trust that the steps contract.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from noisette import _validate
from noisette._typing import Floats
from noisette.core import plans
from noisette.core.accounting.minorant import last_mus
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon, stated_delta
from noisette.core.roots import private_root
from noisette.core.sampling import Shuffle
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
    return coefficient * value**power * row_bound * row_bound + ridge, ridge, slope * row_bound


class LastIterateRun:
    """One run of plain SGD of which only the last iterate leaves, with its guarantee.

    w <- w - eta (ridge w + (1/b) (sum of the batch's loss gradients + N(0, sigma^2 I)))

    b is the sampler's `normaliser`, which no batch exceeds (else the smoothness M would be too
    small); the steps are at most 2/M; every record is used once per epoch. The noise ratio is
    r = Delta/sigma: 1/z for zero-out, 2/z for replace-one, z = sigma/C.

    Also required and not checkable here: a convex per-example loss with the stated M for every
    record, a public start, noise and steps that do not depend on the data or the iterates, no
    momentum, no averaging, no clipping of gradient vectors, no data-dependent stopping, no other
    iterate that leaves, and orders drawn independently of the data.
    """

    def __init__(self, leaf: plans.LastIterate, adjacency: Adjacency) -> None:
        sampler, shape = leaf.sampler, (leaf.epochs, leaf.sampler.steps)
        if adjacency is Adjacency.ADD_REMOVE and leaf.size is None:
            # The number of rows is not public, so the sum cannot be divided by it.
            raise Unproven(
                "last-iterate privacy under add-remove needs `size`, a public number that divides "
                "the gradient sum and that the number of records never exceeds; state it, or use "
                "replace-one or zero-out."
            )
        smooth, strong, _ = loss_constants(
            leaf.loss, row_bound=leaf.norm_bound, ridge=leaf.regularization,
            parameter=leaf.loss_parameter,
        )  # fmt: skip
        self.smoothness, self.strong_convexity = _validate.positive("smoothness", smooth), strong
        ratio = adjacency.contributions / leaf.mechanism.noise_multiplier  # type: ignore[attr-defined]
        self.noise_ratio = _validate.positive("noise_ratio", ratio)
        if adjacency is Adjacency.ADD_REMOVE and sampler.steps > 1:
            raise Unproven(
                "adjacency 'add-remove' is refused with more than one batch, since inserting a "
                "record moves the others to other batches; use 'zero-out' or 'replace-one'."
            )
        rates = np.reshape(np.asarray(leaf.learning_rate, dtype=float), (-1, 1))
        self.steps = steps = np.broadcast_to(rates, shape)
        if (steps > 2.0 / smooth).any():
            raise InvalidParameter(
                f"every step size must be at most 2/smoothness = {2.0 / smooth:.6g}, or "
                f"the update does not contract; got {float(steps.max()):.6g}."
            )
        # c = max(|1 - eta m|, |1 - eta M|): 1 - eta m as long as eta <= 2/(M + m), never above 1.
        # proof: GRADIENT-STEP-LIPSCHITZ
        c = np.maximum(abs(1.0 - steps * strong), steps * smooth - 1.0)
        # Rounding 1 - eta m down would claim a contraction that is not there.
        self.contractions = np.minimum(c + 2.0**-51, 1.0)
        self.weights: Floats | str | None = None
        if isinstance(sampler, Shuffle):
            # A uniform permutation puts a record in batch j with probability size_j / n.
            self.weights = "even" if sampler.batch_size is None else "rest"
            if leaf.size is not None:
                self.weights = np.diff(sampler.edges(leaf.size)).astype(float)

    def position_mus(self) -> Floats:
        """Return mu given each position in the last epoch; one value for a fixed order."""
        return last_mus(self.contractions, self.steps, self.noise_ratio, worst=self.weights is None)

    def mu(self) -> float:
        """Return mu of the worst position of a record; valid for every order."""
        return float(last_mus(self.contractions, self.steps, self.noise_ratio, worst=True)[0])

    def delta(self, epsilon: ArrayLike) -> Floats | float:
        """Return the privacy curve of the released iterate at epsilon (any shape)."""
        return reshuffled_last_delta(epsilon, self.position_mus(), self.weights)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with delta(epsilon) <= delta, rounded up."""
        return reshuffled_last_epsilon(delta, self.position_mus(), self.weights)


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
    means = (total + np.cumsum(falling, axis=-1)) / (count + np.arange(1, count + 1))
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
    each = np.asarray(stated_delta(m, np.asarray(epsilon, dtype=float)[..., None]))
    if isinstance(weights, str):
        values = _worst_split(each, m, weights)
    else:
        w = np.ones(m.size) if weights is None else np.asarray(weights, dtype=float)
        values = each @ (w / w.sum())
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
    if excess(high) < 0.0:
        return private_root(
            excess, 0.0, high, lambda x, turn: x * (1.0 + 1e-13), xtol=1e-300, rtol=1e-13
        )
    while not excess(high) <= 0.0:
        high *= 1.0 + 1e-13
    return high
