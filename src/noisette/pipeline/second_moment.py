"""`PrivateSecondMoment`: change coordinates so that rows are alike in all directions.

Isotropic noise costs least when the rows' second moment is a multiple of the identity.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound, clip_rows
from noisette.mechanisms import Gaussian
from noisette.pipeline.rows import RowsTransformer, bounded_rows, check_rows
from noisette.pipeline.sample import Sample
from noisette.pipeline.step import PreparedStep, Step
from noisette.plans import Plan, Run
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.training.passage import Passage
from noisette.training.public import PublicBudget
from noisette.training.second_moment import second_moment, whitener

__all__ = ["LearnSecondMoment", "Moment", "PrivateSecondMoment"]


@dataclass(frozen=True)
class Moment:
    """The released sum of x x', noise included, row by row; and the number it is divided by."""

    total: tuple[tuple[float, ...], ...]
    count: float

    @property
    def mean(self) -> Floats:
        """The mean of x x', as a matrix."""
        return np.array(self.total) / self.count


@dataclass(frozen=True)
class LearnSecondMoment(Step):
    """Release sum x x' of rows of norm at most `bound`.

    The sample's data are a matrix of rows, dense or CSR; longer rows are cut to the bound. The
    count is the public number of records, else the public guess, else the trace over `bound`^2.
    """

    features: int
    bound: float = 1.0

    name: ClassVar[str] = "second-moment"
    summary: ClassVar[str] = "the private second moment of rows"
    proofs: ClassVar[tuple[str, ...]] = ("SECOND-MOMENT", "WHITENING", "ROW-LOCAL")

    def __post_init__(self) -> None:
        _validate.integer("features", self.features)
        checked_bound("bound", self.bound)

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one noisy symmetric matrix, whose bound is sqrt(2) R^2 under replace-one."""
        return Run(Gaussian(scale))

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

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse rows that are not finite, or of another length than was planned."""
        super().check(records, prepared)
        check_rows(records, self.features)

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> Moment:
        """Return the noisy sum and its divisor."""
        public, bound = prepared.public, float(self.bound)
        total = second_moment(
            bounded_rows(sample.data, bound), bound, public.adjacency, passage,
            most=public.most or 2**30, weights=sample.weights,
        )  # fmt: skip
        count = float(public.size or max(np.trace(total) / bound**2, 1.0))
        return Moment(tuple(map(tuple, total.tolist())), count)


class PrivateSecondMoment(RowsTransformer):
    """Whiten rows by a private second moment: x -> A x, cut to a norm that follows from it.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one ``fit``; delta > 0.
    norm_bound : float
        R, public; longer rows are scaled down to R first.
    floor : float
        What is added to all eigenvalues of the mean moment, in units of R^2 / d.
    missing : str
        What a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    adjacency : str
        "replace-one" (default), "zero-out" or "add-remove".
    population : int, optional
        Public guess of the number of records, used under add-remove.
    random_state : int, Randomness or None
        None draws secure noise; a number makes the run reproducible, the guarantee void.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta).

    Attributes
    ----------
    released_ : Moment
        The noisy sum of x x' and the number it is divided by.
    map_ : ndarray of shape (d, d)
        The matrix A.
    norm_ : float
        The norm bound of the new rows.
    privacy_ : Guarantee
        What is promised about everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateSecondMoment
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 3))
    >>> whiten = PrivateSecondMoment(epsilon=1.0, delta=1e-6, random_state=0)
    >>> whiten.plan(2000, 3).epsilon <= 1.0
    True
    >>> whiten.fit(X).transform(X).shape
    (2000, 3)
    >>> whiten.get_feature_names_out().tolist()
    ['x0', 'x1', 'x2']

    """

    _released = "the second moment of rows"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        norm_bound: float = 1.0,
        floor: float = 0.5,
        missing: str = "refuse",
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.floor = floor
        self.missing = missing
        self.adjacency = adjacency
        self.population = population
        self.random_state = random_state
        self.ledger = ledger

    def _step(self, public: PublicBudget, features: int) -> LearnSecondMoment:
        _validate.positive("floor", self.floor)
        return LearnSecondMoment(features, self._bound())

    def _fit(self, X: Any, y: Any, sample_weight: Any, persons: Any) -> None:
        super()._fit(X, y, sample_weight, persons)
        self.map_, self.norm_ = whitener(self.released_.mean, self._bound(), float(self.floor))

    def _map(self, X: Any) -> Any:
        # proof: WHITENING
        rows = bounded_rows(X, self._bound())
        moved = rows @ self.map_
        return clip_rows(moved.toarray() if sparse.issparse(moved) else moved, self.norm_)
