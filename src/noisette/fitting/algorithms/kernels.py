"""Compiled SGD steps: a block of noisy mini-batch updates in one call.

Each kernel runs ``len(noise)`` steps of

    w <- Pi_radius[ w - eta_t ( lambda w + round(sum_i c_i g_i + Z_t) / b_t ) ],
    mean <- mean + gamma_t (w - mean)   (gamma_t = 0: no average),

over batches ``order[edges[t]:edges[t+1]]`` (an empty ``order`` is the given order). Rows are
clipped on the fly to norm ``bound`` and get a last constant entry ``bias`` if w is one longer than
a row, so no copy of the matrix is made; rows that are not finite, or of norm 1e100 and more, count
as blank. With
m_i = y x_i.w, g_i = y l'(m_i) x_i; ``clip`` < inf cuts its norm, which for a loss of one margin
clips l' and stays the derivative of a convex loss. All sums are float64, also for float32 rows.
The noise Z_t comes from `privacy.release`; nothing is drawn here, and ``round`` goes to its grid
(grid 0: not at all).

The records of a batch share their weights, so none has to wait for the one before: larger batches
are taken `CHUNK` records at a time, in loops without a branch, which become vector instructions.

Functions that call each other stand in one file, because numba's cache on disk asks only whether
the caller's file has changed. Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,call-arg"
import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from noisette.core.compiled import compiled

__all__ = [
    "LOGISTIC", "MANY", "add_rows", "dense_steps", "softmax_steps", "sparse_steps", "take_step",
]  # fmt: skip

LOGISTIC, HINGE, HUBER, SOFTPLUS = 0, 1, 2, 3
CHUNK = 64  # records at once, a multiple of _LANES
UNIT = 2.0**-53
_LANES = 8  # as many float64 as an instruction may take
_HUGE = 1e200
_STEEP = 700.0  # beyond, a sigmoid is 0 or 1 to the last digit, and e^t still a number
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXPONENT, _FRACTION_BITS = 1023, 52
# Sums may be reordered (SIMD); infinities and NaN keep their meaning.
_SUM = {"reassoc", "contract", "nsz"}
MANY = 8  # records of a batch, on average


@compiled(inline="always")
def _slope(loss, parameter, m):
    """Return l'(m), between -1 and 0."""
    if loss == LOGISTIC:
        return -1.0 / (1.0 + math.exp(m)) if m < _STEEP else 0.0
    if loss == HINGE:
        return -1.0 if m < 1.0 else 0.0
    if loss == HUBER:
        return -min(1.0, max(0.0, (1.0 + parameter - m) / (2.0 * parameter)))
    t = parameter * (m - 1.0)
    return -1.0 / (1.0 + math.exp(t)) if t < _STEEP else 0.0


@compiled(inline="always")
def _factor(square, bound, slack):
    """Return min(1, bound (1 - slack) / ||x||): the bound holds in floating point as well.

    0 where the square would overflow: such a row is blanked.
    """
    # proof: CLIP
    if not square < _HUGE:
        return 0.0
    limit = bound * slack
    return limit / math.sqrt(square) if square > limit * limit else 1.0


@compiled(inline="always")
def _clipped(slope, norm, clip):
    """Return the slope with |slope| norm <= clip."""
    size = abs(slope) * norm
    return slope * (clip * (1.0 - 4.0 * UNIT) / size) if size > clip else slope


@compiled(inline="always")
def _record(dot, square, constant, label, bound, slack, bias, clip, loss, parameter):
    """Return (y l'(m), factor): the gradient is their product times the row, and y l'(m) bias.

    `dot` and `square` belong to the row as given, `constant` is what the bias adds to x . w.
    """
    factor = _factor(square, bound, slack)
    if factor == 0.0:
        dot, square = 0.0, 0.0
    if not math.isfinite(dot):  # weights beyond 1e200: a NaN here would pass through every noise
        dot = 0.0
    slope = _slope(loss, parameter, label * (factor * dot + constant))
    if clip < np.inf:
        slope = _clipped(slope, math.sqrt(factor * factor * square + bias * bias), clip)
    return label * slope, factor


@compiled(inline="always")
def _margin(dot, square, constant, label, limit):
    """As `_record` begins, without a branch: (m, factor)."""
    # proof: CLIP
    factor = limit / math.sqrt(square) if square > limit * limit else 1.0
    factor = factor if square < _HUGE else 0.0
    dot = dot if factor > 0.0 and abs(dot) < np.inf else 0.0
    return label * (factor * dot + constant), factor


@intrinsic
def _of_bits(typingctx, bits):
    """Return the float64 that has these 64 bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@compiled(inline="always")
def _sigmoid(t):
    """Return 1 / (1 + e^t), which is between 0 and 1 whatever e^t errs by.

    e^t = 2^k e^r, |r| <= log(2)/2, by Taylor's polynomial of degree 13, which errs by less than
    5e-18; with the roundings by some 2e-16 relatively.
    """
    t = min(max(t, -_STEEP), _STEEP)
    k = np.rint(t * _LOG2_E)
    r = (t - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0))
    p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * p))
    p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r * p))
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * p))))
    return 1.0 / (1.0 + p * _of_bits((np.int64(k) + _EXPONENT) << _FRACTION_BITS))


@compiled(fastmath={"contract", "nsz"})
def _smooth_slopes(dots, squares, labels, count, limit, constant, stretch, shift, slopes, factors):
    """The losses log(1 + e^{-stretch (m - shift)}) / stretch."""
    for q in range(count):
        m, factors[q] = _margin(dots[q], squares[q], constant, labels[q], limit)
        slopes[q] = -labels[q] * _sigmoid(stretch * (m - shift))


@compiled()
def chunk_slopes(room, count, bound, slack, constant, bias, clip, loss, parameter):
    """Put y l'(m) and factors behind dots, squares and labels, the first three rows of `room`.

    Its shape is (5, CHUNK). Entries beyond `count` are made blank, up to a multiple of `_LANES`.
    """
    dots, squares, labels, slopes, factors = room[0], room[1], room[2], room[3], room[4]
    limit = bound * slack
    if loss in (LOGISTIC, SOFTPLUS):
        whole = (count + _LANES - 1) // _LANES * _LANES
        for q in range(count, whole):
            dots[q] = squares[q] = labels[q] = 0.0
        stretch, shift = (1.0, 0.0) if loss == LOGISTIC else (parameter, 1.0)
        _smooth_slopes(
            dots, squares, labels, whole, limit, constant, stretch, shift, slopes, factors
        )
    else:
        for q in range(count):
            m, factors[q] = _margin(dots[q], squares[q], constant, labels[q], limit)
            slopes[q] = labels[q] * _slope(loss, parameter, m)
    if clip < np.inf:
        for q in range(count):
            square = factors[q] * factors[q] * squares[q] if factors[q] > 0.0 else 0.0
            slopes[q] = _clipped(slopes[q], math.sqrt(square + bias * bias), clip)


@compiled(fastmath=_SUM)
def _dot_and_square(X, i, w, start, d):
    """Return (x . w[start:start + d], ||x||^2) for row i; indices, since views cost more."""
    dot, square = 0.0, 0.0
    for j in range(d):
        v = np.float64(X[i, j])
        dot += v * w[start + j]
        square += v * v
    return dot, square


@compiled(fastmath=_SUM)
def take_step(w, mean, g, grid, eta, gamma, ridge, normaliser, radius):
    """One projected step along the noisy sum g, which is used up, and the running mean."""
    keep, rate, square = 1.0 - eta * ridge, eta / normaliser, 0.0
    if grid > 0.0:
        rate *= grid
        inverse = 1.0 / grid
        for j in range(w.shape[0]):
            g[j] = np.rint(g[j] * inverse)  # proof: FLOAT-GRID
    for j in range(w.shape[0]):
        v = keep * w[j] - rate * g[j]
        w[j] = v
        square += v * v
    if square > radius * radius:
        shrink = radius / math.sqrt(square)
        for j in range(w.shape[0]):
            w[j] *= shrink
    if gamma > 0.0:
        for j in range(w.shape[0]):
            mean[j] += gamma * (w[j] - mean[j])


@compiled(fastmath=_SUM)
def _add(g, start, X, i, scale, d):
    for j in range(d):
        g[start + j] += scale * np.float64(X[i, j])


@compiled(fastmath=_SUM)
def _add_four(g, X, rows, scales, d):
    """Four rows at once: g is read and written once for all of them."""
    a, b, c, e = rows
    s, t, u, v = scales
    for j in range(d):
        first = s * np.float64(X[a, j]) + t * np.float64(X[b, j])
        g[j] += first + (u * np.float64(X[c, j]) + v * np.float64(X[e, j]))


@compiled()
def _add_chunk(
    g, X, y, share, order, start, count, w, room, picked, bound, bias, clip, loss, parameter
):
    """As `add_rows` for start .. start + count - 1, all of them at once: `CHUNK` at most."""
    d = X.shape[1]
    has_bias = w.shape[0] > d
    dots, squares, labels, slopes, factors = room[0], room[1], room[2], room[3], room[4]
    for q in range(count):
        picked[q] = order[start + q] if order.shape[0] > 0 else start + q
        dots[q], squares[q] = _dot_and_square(X, picked[q], w, 0, d)
        labels[q] = y[picked[q]]
    constant = bias * w[d] if has_bias else 0.0
    slack = 1.0 - (d + 4) * UNIT
    chunk_slopes(room, count, bound, slack, constant, bias, clip, loss, parameter)
    total, clean = 0.0, True
    for q in range(count):
        slopes[q] *= share[picked[q]] if share.shape[0] > 0 else 1.0
        total += slopes[q]
        slopes[q] *= factors[q]
        clean &= factors[q] > 0.0
    if has_bias:
        g[d] += total * bias
    q = 0
    while clean and q + 4 <= count:
        rows = (picked[q], picked[q + 1], picked[q + 2], picked[q + 3])
        _add_four(g, X, rows, (slopes[q], slopes[q + 1], slopes[q + 2], slopes[q + 3]), d)
        q += 4
    while q < count:
        if factors[q] > 0.0:  # a blank row may hold infinities and NaN
            _add(g, 0, X, picked[q], slopes[q], d)
        q += 1


@compiled()
def add_rows(g, X, y, share, order, start, stop, w, bound, bias, clip, loss, parameter):
    """Add c_i g_i of the dense rows order[start:stop] to g; `share` holds c_i or is empty."""
    d = X.shape[1]
    has_bias = w.shape[0] > d
    slack = 1.0 - (d + 4) * UNIT
    constant = bias * w[d] if has_bias else 0.0
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        dot, square = _dot_and_square(X, i, w, 0, d)
        slope, factor = _record(
            dot, square, constant, y[i], bound, slack, bias, clip, loss, parameter
        )
        scale = slope * (share[i] if share.shape[0] > 0 else 1.0)
        if factor > 0.0:  # a blank row may hold infinities and NaN
            _add(g, 0, X, i, scale * factor, d)
        if has_bias:
            g[d] += scale * bias


@compiled()
def dense_steps(
    X, many, y, share, order, edges, w, mean, noise, grid, eta, gamma, ridge, normaliser, radius,
    bound, bias, clip, loss, parameter,
):  # fmt: skip
    """Steps on dense rows; `many` records of a batch at once are faster from `MANY` on."""
    g, room, picked = np.empty(w.shape[0]), np.zeros((5, CHUNK)), np.empty(CHUNK, np.int64)
    for t in range(noise.shape[0]):
        g[:] = noise[t]
        if not many:
            add_rows(
                g, X, y, share, order, edges[t], edges[t + 1], w, bound, bias, clip, loss, parameter
            )
        for start in range(edges[t], edges[t + 1] if many else edges[t], CHUNK):
            count = min(CHUNK, edges[t + 1] - start)
            _add_chunk(
                g, X, y, share, order, start, count, w, room, picked, bound, bias, clip, loss,
                parameter,
            )  # fmt: skip
        take_step(w, mean, g, grid, eta[t], gamma[t], ridge, normaliser[t], radius)


@compiled()
def sparse_steps(
    data, indices, indptr, d, y, share, order, edges, w, mean, noise, grid, eta, gamma, ridge,
    normaliser, radius, bound, bias, clip, loss, parameter,
):  # fmt: skip
    """As `dense_steps`, on CSR rows without repeated entries."""
    has_bias = w.shape[0] > d
    slack = 1.0 - (d + 4) * UNIT
    g = np.empty(w.shape[0])
    for t in range(noise.shape[0]):
        g[:] = noise[t]
        for k in range(edges[t], edges[t + 1]):
            i = order[k] if order.shape[0] > 0 else k
            dot, square = 0.0, 0.0
            for q in range(indptr[i], indptr[i + 1]):
                v = np.float64(data[q])
                dot += v * w[indices[q]]
                square += v * v
            constant = bias * w[d] if has_bias else 0.0
            slope, factor = _record(
                dot, square, constant, y[i], bound, slack, bias, clip, loss, parameter
            )
            scale = slope * (share[i] if share.shape[0] > 0 else 1.0)
            if factor > 0.0:  # a blank row may hold infinities and NaN
                for q in range(indptr[i], indptr[i + 1]):
                    g[indices[q]] += scale * factor * np.float64(data[q])
            if has_bias:
                g[d] += scale * bias
        take_step(w, mean, g, grid, eta[t], gamma[t], ridge, normaliser[t], radius)


@compiled()
def _residual(scores, basis, full, label):
    """Turn coordinate scores (K-1) into Q'(p - e_y); return its norm."""
    classes, k1 = basis.shape
    top = -np.inf
    for a in range(classes):
        v = 0.0
        for c in range(k1):
            v += basis[a, c] * scores[c]
        full[a] = v
        top = max(top, v)
    total = 0.0
    for a in range(classes):
        full[a] = math.exp(full[a] - top)
        total += full[a]
    square = 0.0
    for a in range(classes):
        full[a] = full[a] / total - (1.0 if a == label else 0.0)
        square += full[a] * full[a]
    for c in range(k1):
        v = 0.0
        for a in range(classes):
            v += basis[a, c] * full[a]
        scores[c] = v
    return math.sqrt(square)


@compiled()
def softmax_steps(
    X, y, share, order, edges, w, mean, noise, grid, eta, gamma, ridge, normaliser, radius,
    bound, bias, clip, basis,
):  # fmt: skip
    """As `dense_steps` for softmax: w is V of shape (K-1, d or d+1) as one vector."""
    d, k1 = X.shape[1], basis.shape[1]
    width = w.shape[0] // k1
    has_bias = width > d
    slack = 1.0 - (d + 4) * UNIT
    g, scores, full = np.empty(w.shape[0]), np.empty(k1), np.empty(basis.shape[0])
    for t in range(noise.shape[0]):
        g[:] = noise[t]
        for k in range(edges[t], edges[t + 1]):
            i = order[k] if order.shape[0] > 0 else k
            square, factor = 0.0, 1.0
            for c in range(k1):
                scores[c], square = _dot_and_square(X, i, w, c * width, d)
            factor = _factor(square, bound, slack)
            if factor == 0.0:
                square = 0.0
            for c in range(k1):
                scores[c] = scores[c] * factor if factor > 0.0 else 0.0
                if has_bias:
                    scores[c] += bias * w[c * width + d]
            size = _residual(scores, basis, full, y[i])
            if not size < 2.0:  # NaN, from weights beyond 1e200: it would pass through every noise
                size = 0.0
                scores[:] = 0.0
            scale = share[i] if share.shape[0] > 0 else 1.0
            if clip < np.inf:
                norm = math.sqrt(factor * factor * square + bias * bias)
                scale *= _clipped(1.0, size * norm, clip)
            for c in range(k1):
                if factor > 0.0:  # a blank row may hold infinities and NaN
                    _add(g, c * width, X, i, scale * scores[c] * factor, d)
                if has_bias:
                    g[c * width + d] += scale * scores[c] * bias
        take_step(w, mean, g, grid, eta[t], gamma[t], ridge, normaliser[t], radius)
