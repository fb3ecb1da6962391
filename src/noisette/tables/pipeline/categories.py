"""`PrivateCategories`: the levels of categorical columns that enough people share.

All levels that occur are counted with Gaussian noise, and those whose noisy count reaches a bar are
shown; a level that one person alone holds shows with probability at most the step's share of delta,
all columns together. Everything else is "other"; the most frequent level is the reference.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import GaussianThreshold
from noisette.core.plans import Plan, Run
from noisette.core.randomness import Randomness
from noisette.core.summaries import key_counts
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.models import inputs
from noisette.tables.kinds import Categorical, Column, canonical
from noisette.tables.pipeline.step import PreparedStep, Sample, Step
from noisette.tables.pipeline.transformer import EncodingTransformer

_SHARE = 0.5  # of delta, for levels that one person alone holds


@dataclass(frozen=True, repr=False)
class Coded:
    """A column of categories: a code for each row, -1 where it is missing, and the codes' texts."""

    codes: NDArray[np.int64]
    texts: Sequence[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Coded":
        """Return texts as codes, "" as missing."""
        place: dict[str, int] = {"": -1}
        codes = [place.setdefault(text, len(place) - 1) for text in texts]
        return cls(np.array(codes, dtype=np.int64), list(place)[1:])

    def at(self, codes: Sequence[int]) -> dict[int, str]:
        """Return the texts of some codes."""
        return {code: self.texts[code] for code in codes}


@dataclass(frozen=True)
class ShownLevels:
    """The released levels of one column, the most frequent first, with their noisy counts."""

    levels: tuple[str, ...]
    counts: tuple[float, ...]

    @property
    def by_text(self) -> dict[str, float]:
        """The count of each level."""
        return dict(zip(self.levels, self.counts, strict=True))


@dataclass(frozen=True)
class LearnCategories(Step):
    """Count the levels of `columns` columns and show those that reach the bar.

    The sample's data are a list of `Coded`. `delta_mass` is the probability that a level shows
    which one person alone holds; `keys` is how many levels of a column one person may hold.
    """

    columns: int
    delta_mass: float
    keys: int = 1

    name: ClassVar[str] = "categories"
    summary: ClassVar[str] = "the levels of categorical columns that enough people share"
    proofs: ClassVar[tuple[str, ...]] = ("CATEGORY-THRESHOLD", "ROW-LOCAL")

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left of a level that one person alone holds."""
        return (
            "A level that one person alone holds is shown with probability at most "
            f"{self.delta_mass:g}, all columns together.",
        )

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one vector of counts; the mechanism checks the step's numbers."""
        return Run(GaussianThreshold(scale, self.delta_mass, self.columns, self.keys))

    def bar(self, prepared: PreparedStep) -> tuple[float, float]:
        """Return the bar that noisy counts must reach, and the deviation of their noise."""
        mechanism = GaussianThreshold(prepared.scale, self.delta_mass, self.columns, self.keys)
        adjacency = prepared.public.adjacency
        return mechanism.threshold(adjacency), mechanism.sigma(adjacency)

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many people a level needs."""
        bar, sigma = self.bar(prepared)
        return (
            f"A level shows if its count plus noise of about {sigma:.3g} reaches {bar:.4g}: surely "
            f"from {math.ceil(bar + 3.0 * sigma):,} people on."
        )

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse another number of columns than was planned."""
        super().check(records, prepared)
        if self.keys < keys_of(prepared.public):
            # proof: CATEGORY-THRESHOLD
            raise InvalidParameter("a person may hold more levels than was planned for.")
        if [len(column.codes) for column in records.data] != [records.count] * self.columns:
            raise InvalidParameter("there must be one column for each that was planned.")

    def run(
        self, sample: Sample, prepared: PreparedStep, passage: Passage
    ) -> tuple[ShownLevels, ...]:
        """Return the levels of every column."""
        # proof: CATEGORY-THRESHOLD
        counts, keys = key_counts(
            map(attrgetter("codes"), sample.data), prepared.public.adjacency, sample.weights
        )
        noisy = passage.release(counts)
        shown: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for place in np.flatnonzero(~np.isnan(noisy)):  # NaN did not reach the bar
            column, code = keys[place]
            if column >= 0:
                shown[column][code] = float(noisy[place])
        found = []
        for number, coded in enumerate(sample.data):
            own = shown[number]
            texts = coded.at(list(own))
            order = sorted(own, key=lambda code: (-own[code], texts[code]))
            found.append(
                ShownLevels(
                    tuple(map(texts.__getitem__, order)), tuple(map(own.__getitem__, order))
                )
            )
        return tuple(found)


def keys_of(public: PublicBudget) -> int:
    """Return how many levels of one column one unit may hold; refuse persons without a cap."""
    # proof: CATEGORY-THRESHOLD
    if not public.grouped:
        return 1
    if public.max_rows is None:
        raise InvalidParameter(
            "levels that nobody listed are learnt only where the rows of a person are capped; "
            "declare max_rows, as in Persons.of(ids, max_rows=20), or list the levels."
        )
    return public.max_rows


class PrivateCategories(EncodingTransformer):
    """One indicator for each level that enough people share, and one for all others.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one ``fit``; half of delta is for levels of one single person.
    most : int, optional
        How many levels of a column to keep, the most frequent ones; None keeps all released.
    drop_reference : bool
        Whether the most frequent level is the zero vector.
    indicate_missing : bool
        Whether a feature says that a cell is missing; else it is "other".
    sparse_output : bool
        Whether ``transform`` returns a CSR matrix.
    %(adjacency, population, random_state, ledger)

    Attributes
    ----------
    released_ : tuple of ShownLevels
        The levels of each column with their noisy counts.
    categories_ : list of list of str
        The levels alone.
    %(released)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateCategories
    >>> X = np.repeat([["red"], ["blue"], ["rare"]], [600, 399, 1], axis=0)
    >>> levels = PrivateCategories(epsilon=1.0, delta=1e-6, random_state=0)
    >>> levels.plan(1000, 1).epsilon <= 1.0
    True
    >>> levels.fit(X).categories_
    [['red', 'blue']]
    >>> levels.get_feature_names_out().tolist(), levels.transform(X).shape
    (['x0=blue', 'x0 (other)'], (1000, 2))

    """

    _released = "levels of categorical columns with noisy counts"
    _refuses = ("columns",)
    _welcome = ("allow_nan", "categorical", "string")
    _column = staticmethod(Coded.of)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        most: int | None = None,
        drop_reference: bool = True,
        indicate_missing: bool = False,
        sparse_output: bool = False,
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _step(self, public: PublicBudget, features: int) -> LearnCategories:
        if public.delta == 0.0:
            fit = _validate.proposed_delta(public.size)
            raise InvalidParameter(f"unknown categories need delta > 0, such as {fit}.")
        if self.most is not None:
            _validate.integer("most", self.most)
        for name in ("drop_reference", "indicate_missing", "sparse_output"):
            _validate.boolean(name, getattr(self, name))
        return LearnCategories(features, _SHARE * public.delta, keys_of(public))

    def _cells(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return the text of every cell; "" where it is missing (None, NaN, blank)."""
        # proof: ROW-LOCAL
        coded = [column.coded() for column in inputs.columns(self, X, reset=reset)]
        return np.column_stack([
            np.array(list(map(canonical, texts)), dtype=object)[codes] for codes, texts in coded
        ])  # fmt: skip

    @property
    def categories_(self) -> list[list[str]]:
        """The levels of every column."""
        return [list(found.levels[: self.most]) for found in self.released_]

    def _encoder(self, name: str, found: ShownLevels) -> Column:
        levels = found.levels[: self.most]
        reference = levels[0] if levels and self.drop_reference else None  # else all are "other"
        return Categorical.of(name, levels, reference, missing_slot=self.indicate_missing)
