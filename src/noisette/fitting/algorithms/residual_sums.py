"""One round of boosting: the noisy sum of whitened rows times clipped residuals.

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
from noisette.fitting.clipping import clip_rows
from noisette.fitting.losses.partitioned import rows_of

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
        moved = block @ self.map
        dense = moved.toarray() if sparse.issparse(moved) else moved
        return np.asarray(clip_rows(dense, self.bound))


@dataclass(frozen=True)
class Cuts:
    """Where the third block cuts whitened rows and residuals: later than the products do."""

    row: float
    residual: float


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
    r = np.clip(whole, -cuts.residual, cuts.residual)
    moved = Whitener(whitener.map, cuts.row)(block) * (np.sqrt(w) * r)[:, None]
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
    later = whitener if cuts is None else Whitener(whitener.map, cuts.row)
    third = () if cuts is None else (np.zeros((d, d)),)
    total, squares, *directions = blocks.sums(
        partial(_residuals, theta, whitener, clip, cuts), targets, weights,
        start=(np.zeros(d), 0.0, *third),
    )  # fmt: skip
    stretch = max(
        norm_bound * float(np.linalg.norm(whitener.map)) / min(whitener.bound, later.bound),
        (1.0 + norm_bound * float(np.linalg.norm(theta))) / clip,
    )
    unit = whitener.bound * clip
    rounding = rounding_of(most, blocks.block_rows, blocks.d, stretch, blocks.most_merges)
    move = unit * residual_move(adjacency, rounding, directions=cuts is not None)
    # what a record of largest size adds to each block, in units of R' tau: 1, sqrt(c), sqrt(c')
    h = math.sqrt(SQUARES) * whitener.bound / clip
    q = 0.0 if cuts is None else math.sqrt(DIRECTIONS) * unit / (cuts.row * cuts.residual) ** 2
    upper = np.triu_indices(d, 1)
    flat = np.append(total, h * squares)
    for sums in directions:
        more = [q * np.diag(sums), math.sqrt(2.0) * q * sums[upper]]
        flat = np.concatenate([flat, *more])
    noisy = passage.release(Bounded(flat, adjacency, "RESIDUAL-SUMS", l2=move), part)
    mechanism: Any = passage.leaf(part).mechanism
    spread = mechanism.noise_multiplier * mechanism.spread * move / adjacency.contributions
    out = ResidualSums(noisy[:d], float(noisy[d]) / h, spread, spread / h)
    if cuts is None:
        return out
    found = np.zeros((d, d))
    found[upper] = noisy[2 * d + 1 :] / math.sqrt(2.0)
    found += found.T + np.diag(noisy[d + 1 : 2 * d + 1])
    return replace(out, directions=found / q, directions_noise=spread / q)
