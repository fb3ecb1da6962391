"""Loss sums, gradients and Hessian products of a linear model, block by block.

F(w) = sum_i omega_i l(w; x_i, y_i): no regulariser, no mean. X is (n, d), dense or CSR, and is
never densified; w has ``loss.parameter_shape(d)``; omega defaults to 1. Sums over no rows are 0.
The arithmetic is float64 whatever the type of X.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.fitting.losses import Loss
from noisette.fitting.losses.blocks import back
from noisette.fitting.losses.rows import Rows


def _prepare(
    loss: Loss, X: Any, y: npt.ArrayLike, parameter: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[Rows, npt.NDArray[Any], Floats, Floats | None]:
    rows = X if isinstance(X, Rows) else Rows(X)
    target = loss.targets(y)
    w = np.asarray(parameter, dtype=np.float64)
    omega = None if weights is None else np.asarray(weights, dtype=np.float64)
    shape = loss.parameter_shape(rows.d)
    if w.shape != shape:
        raise InvalidParameter(f"the parameter must have shape {shape}; got {w.shape}.")
    if len(target) != rows.n or (omega is not None and omega.shape != (rows.n,)):
        raise InvalidParameter(f"X, y and sample_weight must have the same length, {rows.n}.")
    return rows, target, w, omega


def _weighted(values: Floats, omega: Floats | None, part: slice) -> Floats:
    if omega is None:
        return values
    factor = omega[part]
    return np.asarray(values * (factor if values.ndim == 1 else factor[:, None]))


def loss_sum(
    loss: Loss,
    X: Any,
    y: npt.ArrayLike,
    parameter: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Return F(w), the sum of the losses of all rows."""
    rows, target, w, omega = _prepare(loss, X, y, parameter, sample_weight)
    total = 0.0
    for part, block in rows.blocks():
        value, _ = loss.at_scores(block @ w.T, target[part])
        total += float(np.sum(_weighted(np.asarray(value), omega, part)))
    return total


def gradient(
    loss: Loss,
    X: Any,
    y: npt.ArrayLike,
    parameter: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> Floats:
    """Return the gradient of F at w, with the parameter's shape."""
    rows, target, w, omega = _prepare(loss, X, y, parameter, sample_weight)
    total = np.zeros_like(w)
    for part, block in rows.blocks():
        _, slope = loss.at_scores(block @ w.T, target[part])
        total += back(block, _weighted(np.asarray(slope), omega, part))
    return total


def hessian_vector_product(
    loss: Loss,
    X: Any,
    y: npt.ArrayLike,
    parameter: npt.ArrayLike,
    vector: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> Floats:
    """Return the Hessian of F at w applied to ``vector``."""
    rows, target, w, omega = _prepare(loss, X, y, parameter, sample_weight)
    v = np.asarray(vector, dtype=np.float64)
    if v.shape != w.shape:
        raise InvalidParameter(f"vector must have shape {w.shape}; got {v.shape}.")
    total = np.zeros_like(w)
    for part, block in rows.blocks():
        bent = loss.curvature(block @ w.T, target[part], block @ v.T)
        total += back(block, _weighted(np.asarray(bent), omega, part))
    return total
