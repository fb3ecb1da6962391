"""Exact sensitivity of the logistic-loss gradient at a released iterate.

With label y = +-1 and |x| <= B the gradient at w is g = sigmoid(w.v) v, v = -y x, |v| <= B. If w is
a function of past noisy outputs, a bound that depends on R = |w| may set the noise of the next
step (Gaussian filter). v = B u with |u| <= 1 gives g = B sigmoid(B w.u) u, so every quantity at
row bound B is B times the one at row bound 1 and iterate norm B R.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter

# Covers the root finding and the rounding of expit and sqrt, on the private side.
_SAFETY = 1.0 + 1e-12


def logistic_gradient_sensitivity(
    iterate_norm: ArrayLike, adjacency: str, row_bound: float = 1.0
) -> Floats | float:
    """Return the largest change of one record's logistic gradient at |w| = `iterate_norm`.

    zero-out and add-remove: B sigmoid(B R). replace-one, in dimension >= 2:

        B 2 sigmoid(R' x*) sqrt(1 - x*^2),  R' = B R,  x* the root of R' sigmoid(-R' x)(1-x^2) = x,

    which rises from B at R = 0 to 2 B (in dimension 1 it is an upper bound). Vectorised over R;
    rounded up by 1e-12 and never above the global bounds B and 2 B. Rows must satisfy |x| <= B
    **including** the bias column; a public per-record weight multiplies the result; a ridge term
    does not enter. The function increases with R, so an upper bound on |w| may be passed.
    """
    r = np.asarray(iterate_norm, dtype=float)
    bound = _validate.positive("row_bound", row_bound)
    if not (r >= 0).all():
        raise InvalidParameter("iterate_norm must be at least 0, without NaN.")
    with np.errstate(over="ignore"):
        scaled = np.minimum(bound * r, 1e300)
    if Adjacency.of(adjacency) is not Adjacency.REPLACE_ONE:
        # proof: LOGISTIC-SENSITIVITY-ZERO-OUT
        unit = np.minimum(expit(scaled) * _SAFETY, 1.0)
    else:
        # proof: LOGISTIC-SENSITIVITY-REPLACE-ONE
        # The left side falls and the right side rises on [0, 1], so the root x* is unique. It
        # maximises sigmoid(R' x) sqrt(1 - x^2): an error e in x* costs only O(e^2) in the value.
        low, high = np.zeros_like(scaled), np.ones_like(scaled)
        with np.errstate(over="ignore", under="ignore"):
            for _ in range(60):
                x = 0.5 * (low + high)
                # expit(-inf) = 0 makes inf * 0; a row bound times norm that large is capped before.
                right = scaled * expit(-scaled * x) * (1.0 - x * x) > x
                low, high = np.where(right, x, low), np.where(right, high, x)
        x = 0.5 * (low + high)
        unit = np.minimum(2.0 * expit(scaled * x) * np.sqrt(1.0 - x * x) * _SAFETY, 2.0)
    value = np.asarray(bound * unit)
    return float(value) if value.ndim == 0 else value
