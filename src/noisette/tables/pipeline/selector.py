"""`PrivateSelector`: keep the columns whose mean differs most between the classes.

The sum of the rows of every class is one vector to which each record adds at most the norm bound,
whatever the number of columns and classes; so one noisy vector pays for all scores.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._scikit import check_is_fitted
from noisette._typing import Floats, Labels
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.ledger import Ledger
from noisette.core.parts import each
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.second_moment import on_public_grid
from noisette.fitting.clipping import clip_rows
from noisette.fitting.losses.rows import Rows
from noisette.models import inputs
from noisette.models.outputs import labels_fact
from noisette.tables.pipeline.step import PreparedStep, Sample, Step
from noisette.tables.pipeline.transformer import RowStep, RowsTransformer

_COUNT = 0.35  # what every row adds to the count, in units of the norm bound
_BITS = 22  # sums of 2^30 rows are exact


@dataclass(frozen=True)
class ClassMeans:
    """The released sums of rows of every class, and the noisy numbers of records."""

    sums: tuple[tuple[float, ...], ...]
    counts: tuple[float, ...]


@dataclass(frozen=True)
class LearnScores(RowStep):
    """Release the sum of the rows of each of `classes` classes.

    The sample's labels are numbers from 0 on.
    """

    classes: int = 2

    name: ClassVar[str] = "selector"
    summary: ClassVar[str] = "private scores of columns: how their means differ between classes"
    proofs: ClassVar[tuple[str, ...]] = ("CLASS-SUMS", "ROW-LOCAL")

    def expected(self, prepared: PreparedStep) -> str:
        """Say how far off a class mean may be."""
        return (
            f"Each entry of the mean of a class of m records gets noise of about "
            f"{prepared.scale * self.bound:.3g} / m."
        )

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse rows and labels that were not planned."""
        super().check(records, prepared)
        labels = records.labels
        if labels is None or not bool(np.all((labels >= 0) & (labels < self.classes))):
            raise InvalidData("every row needs a label of one of the classes.")

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> ClassMeans:
        """Return the noisy sums and counts of all classes."""
        # sum w x of the rows of each class, with a column of `_COUNT` R; every record adds to one
        # class only, and rows are cut to norm R, whatever they were
        # proof: CLASS-SUMS
        bound, labels, weights = float(self.bound), sample.labels, sample.weights
        assert labels is not None
        weights = np.ones(sample.count) if weights is None else weights
        extra, total = _COUNT * bound, np.zeros((self.classes, self.features + 1))
        for where, block in Rows(clip_rows(sample.data, bound)).blocks():  # proof: CLIP
            w = weights[where]
            thin = sparse.issparse(block)
            share = block.multiply(w[:, None]).tocsr() if thin else block * w[:, None]
            share = on_public_grid(share, bound, _BITS)  # proof: EXACT-SUM
            added = on_public_grid(extra * w, bound, _BITS)
            for number in range(self.classes):
                mine = np.flatnonzero(labels[where] == number)
                total[number, :-1] += np.asarray(share[mine].sum(axis=0)).ravel()
                total[number, -1] += added[mine].sum()
        move, adjacency = 2.0 * bound, prepared.public.adjacency
        if adjacency is not Adjacency.REPLACE_ONE:
            move = math.hypot(bound, extra) * (1.0 + 2.0**-50)
        noisy = passage.release(Bounded(total.ravel(), adjacency, "CLASS-SUMS", l2=move))
        noisy = noisy.reshape(self.classes, self.features + 1)
        counts = np.maximum(np.asarray(noisy[:, -1]) / (_COUNT * float(self.bound)), 1.0)
        return ClassMeans(tuple(map(tuple, noisy[:, :-1].tolist())), tuple(counts.tolist()))


class PrivateSelector(RowsTransformer):
    """Keep the `k` columns whose private means differ most between the classes.

    Parameters
    ----------
    k : int
        How many columns to keep; all if there are fewer.
    epsilon, delta : float
        The budget of one ``fit``; delta > 0.
    norm_bound : float
        R, public; longer rows are scaled down to R for the scores. ``transform`` returns the
        columns as they are.
    %(classes, missing, adjacency, population, random_state, ledger)

    Attributes
    ----------
    released_ : ClassMeans
        The noisy sums and numbers of records of every class.
    scores_ : ndarray of shape (d,)
        The score of every column.
    %(released)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateSelector
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 3))
    >>> y = X[:, 1] > 0
    >>> select = PrivateSelector(1, epsilon=1.0, delta=1e-6, classes=[False, True], random_state=0)
    >>> select.plan(2000, 3).epsilon <= 1.0
    True
    >>> select.fit(X, y).get_support().tolist()
    [False, True, False]
    >>> select.transform(X).shape, select.get_feature_names_out().tolist()
    ((2000, 1), ['x1'])

    """

    _released = "sums of rows and numbers of records of every class"
    _refuses = ("entries", "labels")
    _needs_labels = True

    def __init__(
        self,
        k: int = 10,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        norm_bound: float = 1.0,
        classes: Labels | None = None,
        missing: str = "refuse",
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _step(self, public: PublicBudget, features: int) -> LearnScores:
        _validate.integer("k", self.k)
        found = getattr(self, "classes_", self.classes)
        return LearnScores(features, self._bound(), 2 if found is None else len(found))

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        rows, labels = inputs.rows_and_targets(self, X, y, 1)
        self.classes_ = inputs.sorted_classes(self.classes, labels)
        numbers = each(partial(inputs.label_numbers, self.classes_), labels)
        return Sample(rows, self._weights(sample_weight, rows.shape[0]), numbers)

    def _known(self, step: Step) -> tuple[str, ...]:
        return (*super()._known(step), labels_fact(self.classes_, given=self.classes is not None))

    @property
    def scores_(self) -> Floats:
        """The spread of the class means of each column, weighted by the sizes of the classes."""
        check_is_fitted(self, "released_")
        counts = np.array(self.released_.counts)[:, None]
        share, means = counts / counts.sum(), np.array(self.released_.sums) / counts
        around = means - (share * means).sum(axis=0)
        return np.asarray(np.sqrt((share * around**2).sum(axis=0)))

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return which columns are kept, as a mask or as indices.

        Parameters
        ----------
        indices : bool, default False
            Whether to return the numbers of the columns.

        Returns
        -------
        ndarray of shape (d,) or (k,)
            A mask of all columns, or the numbers of those that are kept, increasing.

        """
        kept = np.sort(np.argsort(-self.scores_, kind="stable")[: self.k])
        return kept if indices else np.isin(np.arange(self.n_features_in_), kept)

    def _map(self, X: Any) -> Any:
        return X[:, self.get_support(indices=True)]

    def _names_out(self, names: NDArray[Any]) -> list[str]:
        return [str(name) for name in names[self.get_support(indices=True)]]
