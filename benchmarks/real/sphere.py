"""The synthetic set of Song, Chaudhuri and Sarwate (2013): points on the unit sphere.

n points uniform on the sphere in d dimensions, labelled by the side of a hidden hyperplane
through the origin; points nearer to it than the margin are drawn again, so the classes are
linearly separable with that margin. The paper has n = 10,000, d = 5, margin 0.001. Every row has
norm 1 by construction, which is public; nothing else needs to be.
"""

import numpy as np
from scipy.special import ndtri

from noisette import _validate
from noisette._typing import Floats
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.clipping import clip_rows
from noisette.tables.datasets.base import Dataset

__all__ = ["sphere"]


def _uniform_directions(generator: np.random.Generator, count: int, d: int) -> Floats:
    """Normalised Gaussian vectors; uniforms are kept off 0 and 1 (infinite quantiles)."""
    uniform = np.clip(generator.random((count, d)), 2.0**-54, 1.0 - 2.0**-53)
    z = ndtri(uniform)
    rows: Floats = clip_rows(z / np.sqrt(np.einsum("ij,ij->i", z, z))[:, None], 1.0)
    return rows


def sphere(
    n: int = 10_000, d: int = 5, *, margin: float = 0.001, seed: int = 0, n_test: int = 2_000
) -> Dataset:
    """Return `n` training and `n_test` test points with the same hidden hyperplane.

    Parameters
    ----------
    n : int, default 10_000
        How many training points.
    d : int, default 5
        The dimension.
    margin : float, default 0.001
        Points nearer to the hyperplane are drawn again.
    seed : int, default 0
        Of the generator; nobody is protected, since nobody is in it.
    n_test : int, default 2_000
        How many test points.

    Returns
    -------
    Dataset
        Points on the unit sphere, labelled by the side on which they lie.

    Raises
    ------
    InvalidParameter
        If a number is out of range.

    Examples
    --------
    >>> from benchmarks.real import sphere
    >>> sphere(n=100, d=3, n_test=10).X.shape
    (100, 3)

    """
    n = _validate.integer("n", n)
    d = _validate.integer("d", d, least=2)
    n_test = _validate.integer("n_test", n_test, least=0)
    margin = _validate.non_negative("margin", margin)
    if margin * d**0.5 > 1.0:
        raise InvalidParameter(
            f"margin must be at most 1/sqrt(d), or hardly a point is left; got {margin!r}."
        )
    generator = Randomness.from_seed(seed).generator
    normal = _uniform_directions(generator, 1, d)[0]
    kept = np.empty((0, d))
    while len(kept) < n + n_test:
        drawn = _uniform_directions(generator, n + n_test, d)
        kept = np.concatenate([kept, drawn[np.abs(drawn @ normal) >= margin]])
    X = kept[: n + n_test]
    y = (X @ normal > 0.0).astype(np.int64)
    return Dataset(
        name="sphere",
        X=X[:n],
        y=y[:n],
        X_test=X[n:],
        y_test=y[n:],
        classes=np.arange(2),
        class_names=("below", "above"),
        feature_names=tuple(f"x{j}" for j in range(d)),
        norm_bound=1.0,
        public=("rows lie on the unit sphere: by construction",),
        unit="one row is one invented point",
    )
