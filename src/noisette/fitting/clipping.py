"""Clipping: rows and per-example gradients -> vectors that obey a public norm bound.

Clipping is a row-local map with a public parameter, so it costs no privacy; it is what makes a
bound true instead of assumed.
"""

from typing import Any

import numpy as np
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.errors import InvalidData, InvalidParameter

_LEAST, _MOST = 1e-30, 1e30


def checked_bound(name: str, value: object) -> float:
    """Return a norm bound as a float whose square is an ordinary number.

    Below 1e-154 squares underflow: a row far beyond the bound would look as long as 0 and stay as
    it is. The limits leave room for products, and for a constant column in single precision.
    """
    bound = _validate.positive(name, value)
    if not _LEAST <= bound <= _MOST:
        raise InvalidParameter(
            f"{name} must lie between {_LEAST:g} and {_MOST:g}, so that squared norms neither "
            f"vanish nor overflow; got {value!r}, rescale the features."
        )
    return bound


def row_norms(rows: Any) -> Floats:
    """Return the Euclidean norm of every row of a dense or CSR matrix, shape (n,)."""
    if rows.ndim != 2:
        raise InvalidData("rows must be a matrix with one record per row.")
    if sparse.issparse(rows):
        wide = rows.astype(np.float64)  # squares of small float32 numbers would vanish
        if wide.format == "csr" and wide.has_canonical_format:  # else an entry may be in parts
            wide.data **= 2
            return np.asarray(np.sqrt(wide @ np.ones(wide.shape[1])))
        return np.asarray(np.sqrt(wide.multiply(wide).sum(axis=1))).ravel().astype(float)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=float)))


def clip_factors(
    rows: Any, bound: float, unit: float = 2.0**-53, norms: Floats | None = None
) -> Floats:
    """Return min(1, bound / ||x||) for every row, rounded down for products of precision `unit`.

    Multiplying row i by the i-th factor, in arithmetic of that precision, gives `clip_rows`.
    `norms` are the rows' own, from `row_norms`, where the caller needs them too.
    """
    # proof: CLIP
    bound = checked_bound("bound", bound)
    if norms is None:
        norms = row_norms(rows)
    if not np.isfinite(norms).all():
        raise InvalidData("rows must be finite: no NaN, no infinity, no overflow when squared.")
    # norms are summed in float64; factor and product are rounded to `unit`
    slack = 1.0 - rows.shape[1] * 2.0**-53 - 4.0 * unit
    long = norms > bound * slack
    factor = np.ones_like(norms)
    factor[long] = bound * slack / norms[long]
    return factor


def clip_rows(rows: Any, bound: float) -> Any:
    """Return `rows` with every longer row scaled down to norm `bound` (same type, new memory).

    x -> x min(1, bound / ||x||). Rows within the bound are unchanged, zero rows stay zero; NaN and
    infinities are refused without saying where they are. The factor is rounded down by the errors
    of norm and product, (d + 4) 2^-53 for float64, so the bound also holds in floating point.
    """
    return clipped_and_measured(rows, bound)[0]


def clipped_and_measured(rows: Any, bound: float) -> tuple[Any, Floats]:
    """Return `clip_rows` and the norms of the clipped rows, to rounding, from one look at them."""
    matrix: Any = rows if sparse.issparse(rows) else np.asarray(rows)
    if not np.issubdtype(matrix.dtype, np.floating):
        matrix = matrix.astype(float)
    norms = row_norms(matrix)
    factor = clip_factors(matrix, bound, float(np.finfo(matrix.dtype).eps) / 2.0, norms)
    rounded = factor.astype(matrix.dtype)
    # a factor near 1e-40 has few digits in single precision, so its rounding is not small
    rounded = np.where(rounded > factor, np.nextafter(rounded, matrix.dtype.type(0)), rounded)
    norms = norms * rounded.astype(float)
    if sparse.issparse(matrix):
        clipped = matrix.tocsr(copy=True)
        clipped.data *= np.repeat(rounded, np.diff(clipped.indptr))
        return clipped, norms
    return matrix * rounded[:, None], norms
