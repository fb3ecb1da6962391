"""`PrivateProjection`: fewer columns, by directions of a private second moment or by chance."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.second_moment import second_moment
from noisette.fitting.clipping import clip_rows
from noisette.tables.pipeline.step import PreparedStep, Sample
from noisette.tables.pipeline.transformer import RowStep, RowsTransformer


@dataclass(frozen=True)
class Moment:
    """The released sum of x x', noise included, row by row; and the number it is divided by."""

    total: tuple[tuple[float, ...], ...]
    count: float


@dataclass(frozen=True)
class LearnSecondMoment(RowStep):
    """Release sum x x'; its bound is sqrt(2) R^2 under replace-one.

    The count is the public number of records, else the public guess, else the trace over `bound`^2.
    """

    name: ClassVar[str] = "second-moment"
    summary: ClassVar[str] = "the private second moment of rows"
    proofs: ClassVar[tuple[str, ...]] = ("SECOND-MOMENT", "WHITENING", "ROW-LOCAL")

    def expected(self, prepared: PreparedStep) -> str:
        """Say how large the noise of the mean moment is, against its trace."""
        factor = 2.0**-0.5 if prepared.public.adjacency is Adjacency.REPLACE_ONE else 1.0
        spectral = prepared.scale * factor * (2.0 * self.features) ** 0.5
        size = prepared.public.size
        error = f"{spectral:.3g} / n" if size is None else f"{spectral / size:.3g}"
        return (
            f"The noise in the mean of x x' has norm about {error} R^2, where a moment that is "
            f"alike in all directions is {1.0 / self.features:.3g} R^2."
        )

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> Moment:
        """Return the noisy sum and its divisor."""
        public, bound = prepared.public, float(self.bound)
        # proof: CLIP
        total = second_moment(
            clip_rows(sample.data, bound), bound, public.adjacency, passage,
            most=public.most or 2**30, weights=sample.weights,
        )  # fmt: skip
        count = float(public.size or max(np.trace(total) / bound**2, 1.0))
        return Moment(tuple(map(tuple, total.tolist())), count)


class PrivateProjection(RowsTransformer):
    """Project rows on `components` directions, and cut them to the norm bound again.

    Parameters
    ----------
    components : int
        How many directions.
    epsilon, delta : float
        The budget of one ``fit``; delta > 0.
    method : str
        "pca" takes the leading directions of the private second moment of rows; "random" draws a
        matrix of signs without a look at the rows and charges nothing: then ``privacy_`` is None.
    norm_bound : float
        R, public; longer rows are scaled down to R, before and after.
    %(missing, adjacency, population)
    random_state : int, Randomness or None
        None draws secure noise; a number makes the run reproducible, and the guarantee void unless
        the method is "random".
    %(ledger)

    Attributes
    ----------
    components_ : ndarray of shape (components, d)
        The directions, one per row.
    released_ : Moment or None
        The second moment; None if nothing was released.
    privacy_ : Guarantee or None
        What is promised about everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateProjection
    >>> X = np.random.default_rng(0).uniform(-0.4, 0.4, (2000, 5))
    >>> project = PrivateProjection(2, epsilon=1.0, delta=1e-6, random_state=0)
    >>> project.plan(2000, 5).epsilon <= 1.0
    True
    >>> project.fit(X).transform(X).shape
    (2000, 2)
    >>> project.get_feature_names_out().tolist()
    ['principal0', 'principal1']

    """

    _released = "the second moment of rows"

    components_: Floats
    privacy_: Guarantee | None

    def __init__(
        self,
        components: int = 10,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: str = "pca",
        norm_bound: float = 1.0,
        missing: str = "refuse",
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _step(self, public: PublicBudget, features: int) -> LearnSecondMoment:
        _validate.choice("method", self.method, ("pca", "random"))
        if self.method == "random":
            raise InvalidParameter("method='random' charges nothing, so there is no plan to show.")
        if _validate.integer("components", self.components) > features:
            raise InvalidParameter(
                f"components must be at most the number of columns, {features}; "
                f"got {self.components}."
            )
        return LearnSecondMoment(features, self._bound())

    def _fit(self, X: Any, y: Any, sample_weight: Any, persons: Any) -> None:
        if self.method == "random":
            # proof: ROW-LOCAL
            # signs do not depend on the rows, so that mapping these is free
            _, randomness = self._check_public()
            count = _validate.integer("components", self.components)
            self._bound()
            self._sample(X, None, sample_weight)
            signs = randomness.generator.integers(0, 2, size=(count, self.n_features_in_))
            self.components_ = (2.0 * signs - 1.0) / np.sqrt(count)
            self.released_, self.privacy_ = None, None
            return
        super()._fit(X, y, sample_weight, persons)
        mean = np.array(self.released_.total) / self.released_.count
        _, vectors = np.linalg.eigh(mean)  # increasing
        self.components_ = vectors[:, ::-1][:, : self.components].T.copy()

    def _map(self, X: Any) -> Any:
        moved = clip_rows(X, self._bound()) @ self.components_.T  # proof: CLIP
        dense = moved.toarray() if sparse.issparse(moved) else np.asarray(moved)
        return clip_rows(dense, self._bound())

    def _names_out(self, names: NDArray[Any]) -> list[str]:
        kind = "principal" if self.method == "pca" else "random"
        return [f"{kind}{i}" for i in range(self.components)]
