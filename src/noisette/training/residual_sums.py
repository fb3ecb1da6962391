"""One round of boosting: the noisy sum of whitened rows times clipped residuals.

Whitened rows depend on released numbers only, and are cut to a released norm R'; residuals are cut
to a released tau. Beside the sum of products the squares of the residuals are summed, which tell
how large the errors are, for a tenth of the room of the products.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.clipping import clip_rows
from noisette.losses.parted import most_merges, rows_of
from noisette.training.passage import Passage

__all__ = ["ResidualSums", "Whitener", "release_residual_sums", "residual_move"]

SQUARES = 0.1
"""The squared room of the squares beside that of the products."""

_UNIT = 2.0**-53


@dataclass(frozen=True)
class Whitener:
    """x -> x A, cut to `bound`; from released numbers alone."""

    map: Floats
    bound: float

    def __call__(self, block: Any) -> Floats:
        """Return the mapped rows, each cut by itself."""
        # proof: WHITENING
        moved = block @ self.map
        dense = moved.toarray() if sparse.issparse(moved) else moved
        return np.asarray(clip_rows(dense, self.bound))


@dataclass(frozen=True)
class ResidualSums:
    """Released sums of one round, and the deviations of their noise."""

    products: Floats
    squares: float
    products_noise: float
    squares_noise: float


def residual_move(adjacency: Adjacency, rounding: float = 0.0) -> float:
    """Return how far neighbours move (products, squares), in units of R' tau.

    `rounding` is the largest relative error of all rows but one together, in either world.
    """
    # proof: RESIDUAL-SUMS
    twice = adjacency is Adjacency.REPLACE_ONE
    return math.sqrt((4.0 if twice else 1.0) + SQUARES) * (1.0 + 1e-9) + 2.0 * rounding


def rounding_of(most: int, block: int, features: int, stretch: float, merges: int = 0) -> float:
    """Return how far the computed sum can be from the exact one, in units of R' tau.

    Sums of at most `most` rows in blocks of `block`, and of parts in `merges` additions more;
    `stretch` bounds ||A||_F R / R' and (1 + |theta| R) / tau, the cancellation inside of a row.
    """
    # proof: RESIDUAL-SUMS
    inside = 4.0 * (features + 8.0) * (1.0 + stretch)
    return 2.0 * most * _UNIT * (block + most / block + 1.0 + merges + inside)


def _residuals(
    theta: Floats, whitener: Whitener, clip: float, block: Any, targets: Floats, weights: Any
) -> tuple[Any, ...]:
    r = np.clip(targets - np.asarray(block @ theta).reshape(-1), -clip, clip)
    w = np.ones(len(r)) if weights is None else weights
    return whitener(block).T @ (w * r), float((w * r) @ r)


def release_residual_sums(
    rows: Any, targets: Any, theta: Floats, whitener: Whitener, clip: float,
    norm_bound: float, adjacency: Adjacency, passage: Passage, *, most: int,
    weights: Any = None, part: int = 0,
) -> ResidualSums:  # fmt: skip
    """Return sum w x~ r and sum w r^2, r the residual at `theta` cut to [-clip, clip]."""
    blocks = rows_of(rows)
    h = math.sqrt(SQUARES) * whitener.bound / clip
    total, squares = blocks.sums(
        partial(_residuals, theta, whitener, clip), targets, weights,
        start=(np.zeros(whitener.map.shape[1]), 0.0),
    )  # fmt: skip
    stretch = max(
        norm_bound * float(np.linalg.norm(whitener.map)) / whitener.bound,
        (1.0 + norm_bound * float(np.linalg.norm(theta))) / clip,
    )
    unit = whitener.bound * clip
    rounding = rounding_of(most, blocks.block_rows, blocks.d, stretch, most_merges(blocks))
    move = unit * residual_move(adjacency, rounding)
    value = Bounded(np.append(total, h * squares), adjacency, "RESIDUAL-SUMS", l2=move)
    noisy = passage.release(value, part)
    mechanism: Any = passage.leaf(part).mechanism
    spread = mechanism.noise_multiplier * mechanism.spread * move / adjacency.contributions
    return ResidualSums(noisy[:-1], float(noisy[-1]) / h, spread, spread / h)
