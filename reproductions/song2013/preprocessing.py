"""The preprocessing of Song, Chaudhuri and Sarwate (2013), and a variant that costs no privacy.

The paper: "normalizing each feature, projecting each row to the unit ball, and then reducing the
data dimension by random projections, which preserve differential privacy", d = 9 for KDDCup99 and
d = 15 for MNIST. Step by step:

1. z_j = (x_j - mean_j) / std_j. **Not private**: mean and standard deviation are read off the rows,
   so one person changes everybody's features and no theorem on the later noise covers that. (To
   scale by the largest norm in the data would be worse: it is one person's value.)
2. z <- z / max(1, ||z||). Free: each row by itself, with the public radius 1.
3. x' = z G, G with independent N(0, 1/d) entries from a seed. Free: G does not depend on the data.
   It preserves privacy, but **not the norm bound** that the paper's theorem needs: E||zG||^2 =
   ||z||^2, and about half of the rows come out longer than 1.
4. So rows are clipped to norm 1 once more, which the paper does not mention. Free, as step 2.

`paper_preprocessing` does all four, for experiments beside the paper's figures: the guarantee that
follows holds for the preprocessed rows only if the column statistics are taken as public.
`private_preprocessing` replaces step 1 by public limits. It is a map of each row by itself with
public parameters, so neighbouring tables stay neighbouring and nothing is charged.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from noisette import _validate
from noisette._typing import Floats
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.clipping import clip_rows

__all__ = ["PAPER_DIMENSION", "PaperPreprocessing", "paper_preprocessing", "private_preprocessing"]

PAPER_DIMENSION = {"kddcup99": 9, "mnist": 15}
BLOCK = 4096  # rows at a time: the normalised copy of MNIST would take 400 MB


def gaussian_projection(features: int, dimension: int, seed: int) -> Floats:
    """Return G of shape (features, dimension), entries N(0, 1/dimension), from `seed` only."""
    features = _validate.integer("features", features)
    dimension = _validate.integer("dimension", dimension)
    generator = Randomness.from_seed(seed).generator
    # Quantiles of uniforms that are kept off 0 and 1, where they are infinite.
    uniform = np.clip(generator.random((features, dimension)), 2.0**-54, 1.0 - 2.0**-53)
    matrix: Floats = ndtri(uniform) / np.sqrt(dimension)
    return matrix


@dataclass(frozen=True, eq=False)
class PaperPreprocessing:
    """The paper's map with the column statistics of the rows it was fitted to: not private.

    `PaperPreprocessing.fit(X, dimension, seed)` reads mean and deviation off X; calling the result
    applies the same map to any rows, the test set for instance. A constant column becomes 0.
    """

    mean: Floats
    std: Floats
    projection: Floats

    @classmethod
    def fit(cls, X: ArrayLike, dimension: int, seed: int) -> "PaperPreprocessing":
        """Read the column statistics off X, shape (n, D), and draw G."""
        rows = _matrix(X)
        std = rows.std(axis=0)
        return cls(rows.mean(axis=0), std, gaussian_projection(rows.shape[1], dimension, seed))

    def __call__(self, X: ArrayLike) -> Floats:
        """Return the preprocessed rows, shape (n, dimension), in the unit ball."""
        scale = np.where(self.std > 0.0, 1.0 / np.where(self.std > 0.0, self.std, 1.0), 0.0)
        return _project(_matrix(X, len(self.mean)), self.mean, scale, self.projection)


def paper_preprocessing(X: ArrayLike, dimension: int, seed: int) -> Floats:
    """Return X preprocessed as in the paper, shape (n, dimension), rows in the unit ball.

    **Not private**: see the top of this file. For experiments that stand beside the paper's.
    """
    return PaperPreprocessing.fit(X, dimension, seed)(X)


def private_preprocessing(
    X: ArrayLike,
    dimension: int,
    seed: int,
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    norm_bound: float = 1.0,
) -> Floats:
    """Return X scaled by public limits, clipped, projected and clipped: shape (n, dimension).

    `low` and `high` are public limits of the columns (numbers, or one for each column): values are
    clipped to them and mapped to [-1, 1]. Without them columns stay as they are, which is right
    for rows from `benchmarks.real.load`. Rows are then divided by the public `norm_bound` and
    clipped to norm 1. Costs no privacy, because a row's result depends on that row, the limits
    and the seed, and on no other row. The seed must not be chosen by looking at results.
    """
    rows = _matrix(X)
    norm_bound = _validate.positive("norm_bound", norm_bound)
    columns = rows.shape[1]
    centre, half = np.zeros(columns), np.ones(columns)
    if (low is None) != (high is None):
        raise InvalidParameter("low and high belong together; only one of them was given.")
    if low is not None and high is not None:
        bottom, top = _limits("low", low, columns), _limits("high", high, columns)
        if not (bottom < top).all():
            raise InvalidParameter("low must be below high in every column.")
        rows = np.clip(rows, bottom, top)
        centre, half = (bottom + top) / 2.0, (top - bottom) / 2.0
    return _project(
        rows, centre, 1.0 / (half * norm_bound), gaussian_projection(columns, dimension, seed)
    )


def _matrix(X: ArrayLike, columns: int | None = None) -> Floats:
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidData("X must be a matrix with one record per row.")
    if columns is not None and rows.shape[1] != columns:
        raise InvalidData(f"X must have the {columns} columns that the map was fitted to.")
    return rows


def _limits(name: str, value: ArrayLike, columns: int) -> Floats:
    limits = np.asarray(value, dtype=np.float64)
    if limits.shape not in ((), (columns,)) or not np.isfinite(limits).all():
        raise InvalidParameter(f"{name} must be a number or {columns} numbers, all finite.")
    return np.broadcast_to(limits, (columns,))


def _project(rows: Floats, centre: Floats, scale: Floats, projection: Floats) -> Floats:
    out = np.empty((len(rows), projection.shape[1]))
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        ball = clip_rows((rows[block] - centre) * scale, 1.0)
        # Not ball @ projection: BLAS may sum in an order that depends on the number of rows.
        out[block] = clip_rows(np.einsum("ij,jk->ik", ball, projection), 1.0)
    return out
