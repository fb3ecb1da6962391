"""The private second moments of rows and targets together: sum xx', sum xy, sum y^2, and counts.

One Gaussian vector, each block with its own share of the noise. A replaced record cannot move all
blocks as far as it can move each of them alone, so the vector is bounded as a whole.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.second_moment import bits_of_squares, on_public_grid
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.losses.rows import Rows

_PAID = 1.0 + 3e-7  # a scaled sum rounds by 2^-53 of itself in both worlds, 2^30 at most
_AT_BOUND = 1.0 - 2.0**-40  # a target that was cut is 1 in size but for rounding
MOST = 2**30
"""So many rows at most: then all sums are exact, and their scaling is paid for."""


@dataclass(frozen=True)
class MomentShares:
    """How the noise is divided: what one added record of largest size moves in each block, squared.

    `rows` is for sum xx', `products` for sum xy, `squares` for sum y^2, `counts` for the number of
    records and of those whose target lies at a bound. They add up to 1.
    """

    rows: float = 0.60
    products: float = 0.30
    squares: float = 0.06
    counts: float = 0.04


SHARES = MomentShares()


def moments_move(shares: MomentShares, adjacency: Adjacency) -> float:
    """Return how far neighbours move the scaled vector, in l2."""
    a, b, c, e = shares.rows, shares.products, shares.squares, shares.counts
    if adjacency is not Adjacency.REPLACE_ONE:
        return math.sqrt(a + b + c + e) * _PAID
    # proof: REGRESSION-REPLACE
    return math.sqrt(max(2 * a + b + c, 2 * a + 2 * b + b * b / (2 * a)) + e) * _PAID


@dataclass(frozen=True)
class Moments:
    """Released sums for targets in [-1, 1], and the deviation of the noise in each entry.

    `rows` is symmetric; the noise of its diagonal has the deviation `rows_noise`, that beside the
    diagonal 1 / sqrt(2) of it.
    """

    rows: Floats
    products: Floats
    squares: float
    count: float
    clipped: float
    rows_noise: float
    products_noise: float
    squares_noise: float
    counts_noise: float


def release_moments(
    rows: Any, targets: Floats, bound: float, adjacency: Adjacency, passage: Passage, *,
    most: int, weights: Floats | None = None, shares: MomentShares = SHARES, part: int = 0,
) -> Moments:  # fmt: skip
    """Return the noisy sums over rows of norm at most `bound` and targets in [-1, 1].

    `most` is a public bound on the number of rows. A row of weight 0 adds nothing.
    """
    # proof: REGRESSION-MOMENTS
    gram = _gram(rows_of(rows), targets, bound, most, weights)
    d = gram.shape[0] - 3
    upper = np.triu_indices(d, 1)
    a = math.sqrt(shares.rows) / bound**2
    b = math.sqrt(shares.products) / bound
    c = math.sqrt(shares.squares)
    e = math.sqrt(shares.counts / 2.0)
    scales = np.concatenate(
        [np.full(d, a), np.full(len(upper[0]), math.sqrt(2.0) * a), np.full(d, b), [c, e, e]]
    )
    flat = np.concatenate(
        [
            np.diag(gram)[:d], gram[:d, :d][upper], gram[:d, d],
            [gram[d, d], gram[d + 1, d + 1], gram[d + 1, d + 2]],
        ]
    )  # fmt: skip
    proof = "REGRESSION-REPLACE" if adjacency is Adjacency.REPLACE_ONE else "REGRESSION-MOMENTS"
    move = moments_move(shares, adjacency)
    noisy = passage.release(Bounded(flat * scales, adjacency, proof, l2=move), part) / scales
    mechanism: Any = passage.leaf(part).mechanism
    spread = mechanism.noise_multiplier * mechanism.spread * move / adjacency.contributions
    out = np.zeros((d, d))
    out[upper] = noisy[d : len(flat) - d - 3]
    out += out.T + np.diag(noisy[:d])
    squares, count, clipped = (float(each) for each in noisy[-3:])
    return Moments(
        rows=out, products=noisy[-d - 3 : -3], squares=squares, count=count, clipped=clipped,
        rows_noise=spread / a, products_noise=spread / b, squares_noise=spread / c,
        counts_noise=spread / e,
    )  # fmt: skip


def _gram(blocks: Rows, targets: Any, bound: float, most: int, weights: Any) -> Floats:
    """Return the exact Gram matrix of (x, y, 1, [|y| = 1]), every entry on a public grid."""
    size = blocks.d + 3
    (out,) = blocks.sums(
        partial(_products, bound, bits_of_squares(most)), targets, weights,
        start=(np.zeros((size, size)),),
    )  # fmt: skip
    return np.asarray(out)


def _products(bound: float, bits: int, block: Any, y: Floats, weights: Any) -> tuple[Floats]:
    d = block.shape[1]
    own = np.column_stack([y, np.ones(len(y)), np.abs(y) >= _AT_BOUND])
    if weights is not None:
        root = np.sqrt(weights)[:, None]
        block = block.multiply(root).tocsr() if sparse.issparse(block) else block * root
        own = own * root
    # proof: EXACT-SUM
    x, own = on_public_grid(block, bound, bits), on_public_grid(own, 1.0, bits)
    product = x.T @ x
    out = np.zeros((d + 3, d + 3))
    out[:d, :d] = product.toarray() if sparse.issparse(product) else product
    out[:d, d:] = x.T @ own
    out[d:, d:] = own.T @ own
    return (out,)
