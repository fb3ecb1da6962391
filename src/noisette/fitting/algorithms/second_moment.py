"""The private second moment of bounded rows, and the coordinates in which rows are alike."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.losses.blocks import weighted
from noisette.fitting.losses.partitioned import rows_of

_FLOOR = 0.5  # eigenvalue floor, in units of R^2 / d
_PAID = 1.0 + 3e-7  # sqrt(2) S rounds by 2^-53 of S, twice, and S is at most 2^30 R^2


def on_public_grid(block: Any, bound: float, bits: int) -> Any:
    """Return entries rounded towards 0 to multiples of about bound / 2^bits, dense or CSR.

    No norm grows, and sums of at most 2^(52 - bits) such rows have no rounding errors, in any
    order: one row changes a computed sum by exactly what it adds.
    """
    # proof: EXACT-SUM
    grid = 2.0 ** (math.floor(math.log2(bound)) + 1 - bits)
    if sparse.issparse(block):
        out = block.copy()
        out.data = np.trunc(block.data / grid) * grid
        return out
    return np.trunc(block / grid) * grid


def bits_of_squares(most: int) -> int:
    """Return how many bits entries may have so that sums of `most` products are exact."""
    # proof: EXACT-SUM
    return max(8, min(24, (52 - max(most, 1).bit_length()) // 2))


def second_moment(
    rows: Any, bound: float, adjacency: Adjacency, passage: Passage, *, most: int,
    part: int = 0, weights: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return sum w x x' with symmetric Gaussian noise, in isometric coordinates.

    ||x x'||_F <= R^2 (zero-out, add-remove) and ||x x' - y y'||_F <= sqrt(2) R^2 (replace-one), R =
    `bound`, for weights in [0, 1] as well. `most` is a public bound on the number of rows.
    """
    # proof: SECOND-MOMENT
    factor = math.sqrt(2.0) if adjacency is Adjacency.REPLACE_ONE else 1.0
    blocks = rows_of(rows)
    d = blocks.d
    (exact,) = blocks.sums(
        partial(_squares, bound, bits_of_squares(most)), weights, start=(np.zeros((d, d)),)
    )
    above = math.sqrt(2.0) * exact[np.triu_indices(d, 1)]
    flat = np.concatenate([np.diag(exact), above]).astype(float)
    value = Bounded(flat, l2=_PAID * factor * bound**2, adjacency=adjacency, proof="SECOND-MOMENT")
    noisy = passage.release(value, part)
    return symmetric(noisy[:d], noisy[d:] / math.sqrt(2.0))


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return the symmetric matrix of its diagonal and, row by row, of what stands above it."""
    out = np.diag(diagonal)
    out[np.triu_indices(len(diagonal), 1)] = above
    return np.asarray(out + np.triu(out, 1).T)


def _squares(bound: float, bits: int, block: Any, weights: Floats | None) -> tuple[Floats]:
    """Return the exact sum of x x' over one block, which is in float64."""
    if weights is not None:
        block = weighted(block, np.sqrt(weights))
    block = on_public_grid(block, bound, bits)
    product = block.T @ block
    return (product.toarray() if sparse.issparse(product) else product,)


def whitener(mean_moment: Floats, bound: float) -> tuple[Floats, float]:
    """Return A = (S_+ + t I)^{-1/2} and the new norm bound sqrt(tr S_+ (S_+ + t I)^{-1})."""
    least = _FLOOR * bound**2 / len(mean_moment)
    values, vectors = np.linalg.eigh(mean_moment)
    values = np.maximum(values, 0.0)
    map_ = (vectors / np.sqrt(values + least)) @ vectors.T
    effective = float(np.sum(values / (values + least)))
    return map_, math.sqrt(max(effective, 1.0))
