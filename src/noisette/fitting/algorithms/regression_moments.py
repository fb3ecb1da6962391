"""The private second moments of rows and targets together: sum xx', sum xy, sum y^2, and counts.

One Gaussian vector, each block with its own share of the noise. A replaced record cannot move all
blocks as far as it can move each of them alone, so the vector is bounded as a whole.

One round of boosting: the noisy sum of whitened rows times clipped residuals.

Whitened rows depend on released numbers only, and are cut to a released norm R'; residuals are cut
to a released tau. Beside the sum of products the squares of the residuals are summed, which tell
how large the errors are, for a tenth of the room of the products. A last round may ask for a third
block, the sum of r^2 x~ x~', which tells whether errors are larger in some directions than in
others.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.second_moment import bits_of_squares, on_public_grid, symmetric
from noisette.fitting.clipping import clip_rows
from noisette.fitting.losses.blocks import weighted
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.losses.rows import row_products

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
    blocks = rows_of(rows)
    d = blocks.d
    # the exact Gram matrix of (x, y, 1, [|y| = 1]), every entry on a public grid
    (gram,) = blocks.sums(
        partial(_products, bound, bits_of_squares(most)), targets, weights,
        start=(np.zeros((d + 3, d + 3)),),
    )  # fmt: skip
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
    squares, count, clipped = (float(each) for each in noisy[-3:])
    return Moments(
        rows=symmetric(noisy[:d], noisy[d : -d - 3]), products=noisy[-d - 3 : -3],
        squares=squares, count=count, clipped=clipped,
        rows_noise=spread / a, products_noise=spread / b, squares_noise=spread / c,
        counts_noise=spread / e,
    )  # fmt: skip


def _products(bound: float, bits: int, block: Any, y: Floats, weights: Any) -> tuple[Floats]:
    d = block.shape[1]
    own = np.column_stack([y, np.ones(len(y)), np.abs(y) >= _AT_BOUND])
    if weights is not None:
        block, own = weighted(block, np.sqrt(weights)), weighted(own, np.sqrt(weights))
    # proof: EXACT-SUM
    x, own = on_public_grid(block, bound, bits), on_public_grid(own, 1.0, bits)
    product = x.T @ x
    out = np.zeros((d + 3, d + 3))
    out[:d, :d] = product.toarray() if sparse.issparse(product) else product
    out[:d, d:] = x.T @ own
    out[d:, d:] = own.T @ own
    return (out,)


SQUARES = 0.1
"""The squared room of the squares beside that of the products."""

DIRECTIONS = 0.3
"""The squared room of the third block beside that of the products, where it is asked for."""

_UNIT = 2.0**-53


@dataclass(frozen=True)
class Whitener:
    """x -> x A, cut to `bound`; from released numbers alone."""

    map: Floats
    bound: float

    def __call__(self, block: Any) -> Floats:
        """Return the mapped rows, each cut by itself."""
        # proof: WHITENING
        moved = row_products(block, self.map)
        dense = moved.toarray() if sparse.issparse(moved) else moved
        return np.asarray(clip_rows(dense, self.bound))


Cuts = tuple[float, float]
"""Where the third block cuts whitened rows and residuals: later than the products do."""


@dataclass(frozen=True)
class ResidualSums:
    """Released sums of one round, and the deviations of their noise.

    `directions` is the sum of r^2 x~ x~', where it was asked for; `directions_noise` is the
    deviation on its diagonal, 1 / sqrt(2) of it beside.
    """

    products: Floats
    squares: float
    products_noise: float
    squares_noise: float
    directions: Floats | None = None
    directions_noise: float = 0.0


def residual_move(
    adjacency: Adjacency, rounding: float = 0.0, *, directions: bool = False
) -> float:
    """Return how far neighbours move (products, squares[, directions]), in units of R' tau.

    `rounding` is the largest relative error of all rows but one together, in either world.
    """
    # proof: RESIDUAL-SUMS
    twice = adjacency is Adjacency.REPLACE_ONE
    third = DIRECTIONS * (2.0 if twice else 1.0) if directions else 0.0
    return math.sqrt((4.0 if twice else 1.0) + SQUARES + third) * (1.0 + 1e-9) + 2.0 * rounding


def rounding_of(most: int, block: int, features: int, stretch: float, merges: int = 0) -> float:
    """Return how far the computed sum can be from the exact one, in units of R' tau.

    Sums of at most `most` rows in blocks of `block`, and of parts in `merges` additions more;
    `stretch` bounds ||A||_F R / R' and (1 + |theta| R) / tau, the cancellation inside of a row.
    """
    # proof: RESIDUAL-SUMS
    inside = 4.0 * (features + 8.0) * (1.0 + stretch)
    return 2.0 * most * _UNIT * (block + most / block + 1.0 + merges + inside)


def _residuals(
    theta: Floats, whitener: Whitener, clip: float, cuts: Cuts | None, block: Any,
    targets: Floats, weights: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return what the rows of one block add to each of the sums."""
    whole = targets - np.asarray(block @ theta).reshape(-1)
    r = np.clip(whole, -clip, clip)
    w = np.ones(len(r)) if weights is None else weights
    found = whitener(block).T @ (w * r), float((w * r) @ r)
    if cuts is None:
        return found
    r = np.clip(whole, -cuts[1], cuts[1])
    moved = Whitener(whitener.map, cuts[0])(block) * (np.sqrt(w) * r)[:, None]
    return *found, moved.T @ moved


def release_residual_sums(
    rows: Any, targets: Any, theta: Floats, whitener: Whitener, clip: float,
    norm_bound: float, adjacency: Adjacency, passage: Passage, *, most: int,
    weights: Any = None, part: int = 0, cuts: Cuts | None = None,
) -> ResidualSums:  # fmt: skip
    """Return sum w x~ r and sum w r^2, r the residual at `theta` cut to [-clip, clip].

    With `cuts` also sum w r^2 x~ x~', where x~ and r are cut as `cuts` says.
    """
    blocks = rows_of(rows)
    d = whitener.map.shape[1]
    least = whitener.bound if cuts is None else min(whitener.bound, cuts[0])
    third = () if cuts is None else (np.zeros((d, d)),)
    total, squares, *directions = blocks.sums(
        partial(_residuals, theta, whitener, clip, cuts), targets, weights,
        start=(np.zeros(d), 0.0, *third),
    )  # fmt: skip
    stretch = max(
        norm_bound * float(np.linalg.norm(whitener.map)) / least,
        (1.0 + norm_bound * float(np.linalg.norm(theta))) / clip,
    )
    unit = whitener.bound * clip
    rounding = rounding_of(most, blocks.block_rows, blocks.d, stretch, blocks.most_merges)
    move = unit * residual_move(adjacency, rounding, directions=cuts is not None)
    # what a record of largest size adds to each block, in units of R' tau: 1, sqrt(c), sqrt(c')
    h = math.sqrt(SQUARES) * whitener.bound / clip
    q = 0.0 if cuts is None else math.sqrt(DIRECTIONS) * unit / (cuts[0] * cuts[1]) ** 2
    upper = np.triu_indices(d, 1)
    flat = np.append(total, h * squares)
    for sums in directions:
        flat = np.concatenate([flat, q * np.diag(sums), math.sqrt(2.0) * q * sums[upper]])
    noisy = passage.release(Bounded(flat, adjacency, "RESIDUAL-SUMS", l2=move), part)
    mechanism: Any = passage.leaf(part).mechanism
    spread = mechanism.noise_multiplier * mechanism.spread * move / adjacency.contributions
    out = ResidualSums(noisy[:d], float(noisy[d]) / h, spread, spread / h)
    if cuts is None:
        return out
    found = symmetric(noisy[d + 1 : 2 * d + 1], noisy[2 * d + 1 :] / math.sqrt(2.0))
    return replace(out, directions=found / q, directions_noise=spread / q)
