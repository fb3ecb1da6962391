"""Compiled slopes l'(m) of margin losses: of one record, or of the records of a batch at once.

A batch's records share their weights, so nothing has to wait for the record before: they are taken
`CHUNK` at a time, in loops without a branch, which become vector instructions.

Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
import math

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

__all__ = ["CHUNK", "LOGISTIC", "UNIT", "chunk_slopes", "clipped", "factor_of", "record_slope"]

LOGISTIC, HINGE, HUBER, SOFTPLUS = 0, 1, 2, 3
CHUNK = 64  # records at once, a multiple of _LANES
UNIT = 2.0**-53
_LANES = 8  # as many float64 as an instruction may take
_HUGE = 1e200
_STEEP = 700.0  # beyond, a sigmoid is 0 or 1 to the last digit, and e^t still a number
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXPONENT, _FRACTION_BITS = 1023, 52


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
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


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def factor_of(square, bound, slack):
    """Return min(1, bound (1 - slack) / ||x||): the bound holds in floating point as well.

    0 where the square would overflow: such a row is blanked.
    """
    # proof: CLIP
    if not square < _HUGE:
        return 0.0
    limit = bound * slack
    return limit / math.sqrt(square) if square > limit * limit else 1.0


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def clipped(slope, norm, clip):
    """Return the slope with |slope| norm <= clip."""
    size = abs(slope) * norm
    return slope * (clip * (1.0 - 4.0 * UNIT) / size) if size > clip else slope


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def record_slope(dot, square, constant, label, bound, slack, bias, clip, loss, parameter):
    """Return (y l'(m), factor): the gradient is their product times the row, and y l'(m) bias.

    `dot` and `square` belong to the row as given, `constant` is what the bias adds to x . w.
    """
    factor = factor_of(square, bound, slack)
    if factor == 0.0:
        dot, square = 0.0, 0.0
    if not math.isfinite(dot):  # weights beyond 1e200: a NaN here would pass through every noise
        dot = 0.0
    slope = _slope(loss, parameter, label * (factor * dot + constant))
    if clip < np.inf:
        slope = clipped(slope, math.sqrt(factor * factor * square + bias * bias), clip)
    return label * slope, factor


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _margin(dot, square, constant, label, limit):
    """As `record_slope` begins, without a branch: (m, factor)."""
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


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _sigmoid(t):
    """Return 1 / (1 + e^t), which is between 0 and 1 whatever e^t errs by.

    e^t = 2^k e^r, |r| <= log(2)/2, by Taylor's polynomial of degree 13, which errs by less than
    5e-18; with the roundings by some 2e-16 relatively.
    """
    t = min(max(t, -_STEEP), _STEEP)
    k = np.rint(t * _LOG2_E)
    r = (t - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return 1.0 / (1.0 + p * _of_bits((np.int64(k) + _EXPONENT) << _FRACTION_BITS))


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _smooth_slopes(dots, squares, labels, count, limit, constant, stretch, shift, slopes, factors):
    """The losses log(1 + e^{-stretch (m - shift)}) / stretch."""
    for q in range(count):
        m, factors[q] = _margin(dots[q], squares[q], constant, labels[q], limit)
        slopes[q] = -labels[q] * _sigmoid(stretch * (m - shift))


@numba.njit(cache=True, nogil=True, error_model="numpy")
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
            slopes[q] = clipped(slopes[q], math.sqrt(square + bias * bias), clip)
