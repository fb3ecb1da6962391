"""The privacy curve of the last iterate of contracting noisy steps, every record once per epoch.

Lengths are in units of sigma/b, as in `noisette.accounting.last_iterate`, which knows what makes a
step contract. The functions here trust that it does; the curve follows from
`noisette.accounting.minorant`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.minorant import best_position_mus
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon, stated_delta
from noisette.core.roots import moved, private_root
from noisette.errors import InvalidParameter


def _position_mus(
    contraction: ArrayLike, batches: int, epochs: int, noise_ratio: float, step_size: ArrayLike,
    diameter: float, *, worst: bool,
) -> Floats:  # fmt: skip
    """Check the arguments of `cyclic_last_mu` and return mu of the worst or of each position."""
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


def cyclic_last_mu(
    contraction: ArrayLike,
    batches: int,
    epochs: int,
    noise_ratio: float,
    *,
    step_size: ArrayLike = 1.0,
    diameter: float = math.inf,
) -> float:
    """Return mu of the last iterate for the worst place of a record used once per epoch.

    contraction (in [0, 1]) and step_size broadcast to (epochs, batches): scalar, (epochs, 1) or
    full. noise_ratio is r = Delta/sigma. diameter is that of the projection set, in units of
    sigma/b. Valid for every fixed or random order, and for steps that vary inside an epoch (there
    it is loose). With constant steps it is, for l >= 2 (for l = 1 see `full_batch_last_mu`),
    r sqrt(1 + c^{2l-2} (1-c^2)/(1-c^l)^2 (1-c^{l(E-1)})/(1+c^{l(E-1)})), and r sqrt(1 + (E-1)/l)
    at c = 1.
    """
    mus = _position_mus(contraction, batches, epochs, noise_ratio, step_size, diameter, worst=True)
    return float(mus[0])


def reshuffled_last_mus(
    contraction: ArrayLike,
    batches: int,
    epochs: int,
    noise_ratio: float,
    *,
    step_size: ArrayLike = 1.0,
    diameter: float = math.inf,
) -> Floats:
    """Return (mu_1, ..., mu_l): mu given that the record is in batch j of the last epoch.

    Arguments as in `cyclic_last_mu`. At c = 1, E >= 2: mu_j^2 = r^2 [(E-2)/l + 1/j + 1/(l-j+1)]
    for j > (l+1)/2, with 4/(l+1) in place of the last two terms otherwise.
    """
    return _position_mus(
        contraction, batches, epochs, noise_ratio, step_size, diameter, worst=False
    )


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

    mus from `reshuffled_last_mus`; weights are the probabilities of the record's position in the
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
