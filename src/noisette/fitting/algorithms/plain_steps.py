"""Gradients and SGD steps in NumPy, for losses without a number in the compiled kernels.

The same clipping, blanking and rounding as in `kernels`, for whatever loss says how it bends at
given scores; slower for small batches.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.fitting.losses.blocks import back
from noisette.fitting.losses.rows import Rows

if TYPE_CHECKING:
    from noisette.fitting.algorithms.steps import Batches, State, Update

CUT_SHORT = 1e-14
"""A gradient that is cut is shorter than its limit by so much, relatively."""


def plain_steps(
    update: "Update", state: "State", X: Any, y: Any, batches: "Batches", noise: Floats,
    grid: float, share: Floats | None,
) -> None:  # fmt: skip
    """Run one step per noise vector; see `steps.advance`."""
    from noisette.fitting.algorithms import kernels

    power = -1.0 if update.averaging is None else float(update.averaging)
    for t, rate in enumerate(update.rates(state.steps, len(noise))):
        rows: Any = slice(int(batches.edges[t]), int(batches.edges[t + 1]))
        if len(batches.order):
            rows = batches.order[rows]
        part = None if share is None else share[rows]
        g = noise[t] + blocked_gradient(X[rows], y[rows], update, part)(state.w)
        gamma = (power + 1.0) / (state.steps + t + 1.0 + power) if power >= 0.0 else 0.0
        kernels.take_step(
            state.w, state.mean, g, grid, rate, update.regularization, batches.normalisers[t],
            update.radius, gamma,
        )  # fmt: skip


def blocked_gradient(X: Any, y: NDArray[Any], update: "Update", share: Floats | None) -> Any:
    """Return w -> sum of clipped gradients, by blocks of matrix products."""
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
            scores = _finite(block @ inner.T) * f
            if bias is not None:
                scores = scores + bias * W[..., -1]
            derivative = _finite(np.asarray(loss.at_scores(scores, y[part])[1], dtype=float))
            scale = np.ones(len(full[part])) if share is None else share[part].copy()
            if update.clip < math.inf:
                size = np.abs(derivative) if W.ndim == 1 else np.linalg.norm(derivative, axis=1)
                size = size * full[part]
                over = size > update.clip
                scale[over] *= update.clip * (1.0 - CUT_SHORT) / size[over]
            derivative = derivative * (scale if W.ndim == 1 else scale[:, None])
            if bias is not None:
                total[..., :-1] += back(block, derivative * f)
                total[..., -1] += bias * derivative.sum(axis=0)
            else:
                total += back(block, derivative * f)
        return total.ravel()

    return gradient


def _finite(values: Floats) -> Floats:
    """Return 0 for what is not finite: with weights beyond 1e200 a NaN would pass every noise."""
    good = np.isfinite(values)
    return values if bool(good.all()) else np.where(good, values, 0.0)


def _without(block: Any, blank: NDArray[np.bool_]) -> Any:
    """Return a copy of a block in which blank rows are zero; 0 times infinity would be NaN."""
    block = block.copy()
    if sparse.issparse(block):
        block.data[np.repeat(blank, np.diff(block.indptr))] = 0.0
    else:
        block[blank] = 0.0
    return block
