"""`Unit` and `Persons`: which rows belong to whom, and how much each of them counts.

The unit is chosen once, where data or a plan come in, and nobody below asks which one it is. A
`Unit` is a record, one row for each. The unit of protection can also be a person with any number
of rows. Every row then has a weight that is a function of that person's rows alone, and the weights
of one person add up to at most 1. So a person's part in a sum of bounded rows has the bound of a
single row.

Who is who follows from the identifiers alone. The *numbers* of persons follow from which ones there
are, or from where they appear first, and both change with the rows of one person. So no batch may
be decided by a person's number: sampling by coins does not ask for it, and everything else takes
`Persons.shuffled` first.
"""

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._typing import Bools, Floats, Indices, Integers
from noisette.core.adjacency import Adjacency
from noisette.core.cells import given
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter, PermitError

MISSING_IDENTIFIERS = ("refuse", "single")
"""What a row without an identifier does: it is refused, or it is a person of its own."""

NO_COLUMN = "persons must be a column of identifiers, one for each row."
MOST_WITHOUT_GUESS = 1_000_000
"""Most units under add-remove without ``population``."""
_UNIT = 2.0**-52

_Guess = TypeVar("_Guess", int, int | None)


class Unit:
    """Whose rows they are: here every row is a record of its own.

    Parameters
    ----------
    count : int
        The number of units; here it is that of rows.

    """

    word = "record"
    max_rows: int | None = None
    """The public cap on the rows of one unit, where there is one to enforce."""
    weights: Any = None
    """The weight of every row, None where it is 1."""
    index: Any = slice(None)
    """Which entry of a vector with one entry for each unit is that of each row."""
    refusals: tuple[str, ...] = ()
    """What a fit may refuse beside rows and labels: ids of `core.refusals`."""
    order: tuple[str, ...] = ()
    """The theorem behind the numbers by which batches are decided."""
    _too_few = "Found array with {} sample(s) while a minimum of {} is required."

    notes: Any = ()
    """What a guarantee says about the rows of a unit, in sentences."""
    _fewest = 1

    def __init__(self, count: int) -> None:
        self.count = count

    @staticmethod
    def of(ids: Any, rows: int) -> "Unit":
        """Return whose the rows are: persons, where there are identifiers."""
        return Unit(rows) if ids is None else Persons.of(ids, rows)

    @staticmethod
    def planned(count: int, *, persons: bool, max_rows: int | None) -> "Unit":
        """Return so many units without rows, for a plan."""
        if _validate.boolean("persons", persons):
            return PlannedPersons(count, max_rows)
        if max_rows is not None:
            raise InvalidParameter("max_rows is for persons=True.")
        return Unit(count)

    def size(self, adjacency: Adjacency, population: _Guess) -> int | _Guess:
        """Return the number of units where it is public, else the public guess of it."""
        return self.count if adjacency.size_is_public else population

    def known(self, adjacency: Adjacency, population: int | None) -> dict[str, Any]:
        """Return what is public about the units: their number, bounds, and what they are.

        The solvers' certificates need a public bound on the number. Under add-remove it is a
        declared fact about the data, like the unit of a row: at most twice the guess `population`,
        or a million. A larger bound would cost accuracy, because the error that the solver can
        certify, and the noise that hides it, grow with it.
        """
        guess = MOST_WITHOUT_GUESS if population is None else 2 * population
        public = adjacency.size_is_public
        size, most = (self.count, self.count) if public else (population, guess)
        if self.count > most:
            raise InvalidParameter(
                f"under add-remove at most {most} {self.word}s are accepted here; pass a larger "
                "population=..., a public guess of their number."
            )
        return {"size": size, "most": most, "unit": self.word, "max_rows": self.max_rows}

    def check_count(self, adjacency: Adjacency, least: int) -> None:
        """Refuse fewer units than `least` where their number is public."""
        if adjacency.size_is_public and self.count < max(least, self._fewest):
            raise InvalidData(self._too_few.format(self.count, least))

    def check(self, weights: Any, bound: float, max_rows: int | None) -> None:
        """Refuse weights that give one unit more than one weight, or more rows than its cap."""

    def share(self, weights: Any = None) -> Any:
        """Return the weight of every row times its own one."""
        return weights

    def bound(self, adjacency: Adjacency, population: int | None) -> int | None:
        """Return a public bound on the number of units where sums over all rows need one."""
        return None

    def present(self, rows: Any, numbers: Any, weights: Any) -> tuple[Any, Any, Any, "Unit"]:
        """Return rows, numbers, weights and units of the rows whose weight is above 0.

        If there are none, one stays with zeros instead of its data: the solution is then 0, and
        no loss refuses it, nor a bound on their number.
        """
        kept = weights > 0.0
        if bool(np.all(kept)):
            return rows, numbers, weights, self
        left = np.flatnonzero(kept)
        if len(left) == 0:
            first = self.take(np.zeros(1, dtype=np.intp))
            return np.zeros((1, rows.shape[1])), numbers[:1], weights[:1], first
        return rows[left], numbers[left], weights[left], self.take(left)

    def within_cap(self, rows: Any, numbers: Any, weights: Any) -> tuple[Any, Any, Any, "Unit"]:
        """Return the same without rows beyond a cap, where they cannot just count nothing."""
        return rows, numbers, weights, self

    def take(self, rows: Indices) -> "Unit":
        """Return whose some of the rows are."""
        return Unit(len(rows))

    def part(self, chosen: Bools) -> "Unit":
        """Return the chosen units, with all their rows, numbered from 0 on."""
        return Unit(int(np.count_nonzero(chosen)))

    def rows_of(self, chosen: Indices) -> Indices:
        """Return all rows of the chosen units."""
        return chosen

    def batches(self, edges: Integers, order: Integers, *, drawn: bool) -> tuple[Any, Any]:
        """Return batches of units as batches of rows: where each ends, and the rows in order.

        An empty order is 0, 1, 2, ... Only numbers that were given at random may decide who
        shares a batch, unless the batches were `drawn` without looking at numbers.
        """
        return edges, order

    def shuffled(self, randomness: Randomness) -> "Unit":
        """Return the same with numbers that may decide who shares a batch."""
        return self

    def mixed(self, numbers: Any, randomness: Randomness) -> Any:
        """Return numbers of units in an order that may decide who shares a batch."""
        return numbers

    def one_each(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value for each unit, of one for each row."""
        return values


RECORDS = Unit(0)
"""Records, where nobody asks how many."""


class PlannedPersons(Unit):
    """What is public about persons before there are any: how many, and the cap on their rows."""

    word = "person"

    def __init__(self, count: int, max_rows: int | None) -> None:
        super().__init__(count)
        self.max_rows = None if max_rows is None else _validate.integer("max_rows", max_rows)


class Persons(Unit):
    """A grouping of rows by person, made by `Persons.of`; it shows nothing of itself.

    Parameters
    ----------
    index : ndarray of shape (n,)
        The number of each row's person, from 0 to ``count`` - 1; everyone has a row.
    count : int
        The number of persons N.
    full : int, default 1
        A person with m rows gives each of them the weight 1 / max(m, full): 1 is the mean over
        a person's rows, more is a sum of rows that is capped at 1.
    max_rows : int, optional
        A public cap on a person's rows: the first so many count, further ones have weight 0.
    missing : {"refuse", "single"}, default "refuse"
        The rule for rows without an identifier.
    at_random : bool, default False
        Whether the numbers were given at random, so that batches may be decided by them.

    Examples
    --------
    >>> from noisette import Persons
    >>> persons = Persons.of(["ann", "bob", "ann"])
    >>> persons.count, persons.index.tolist(), persons.weights.round(3).tolist()
    (2, [0, 1, 0], [0.5, 1.0, 0.5])
    >>> persons
    <Persons>

    """

    word = "person"
    refusals = ("identifiers",)
    order = ("PERSON-ORDER",)
    _too_few = "there must be rows of at least two persons."
    _fewest = 2

    def __init__(
        self, index: Indices, count: int, *, full: int = 1, max_rows: int | None = None,
        missing: str = "refuse", at_random: bool = False,
    ) -> None:  # fmt: skip
        self.index, self.count, self.missing, self.at_random = index, count, missing, at_random
        self.full = _validate.integer("full", full)
        self.max_rows = None if max_rows is None else _validate.integer("max_rows", max_rows)
        self.sizes: Indices = np.bincount(index, minlength=count)

    @classmethod
    def of(
        cls, ids: Any, rows: int | None = None, *, missing: str = "refuse", full: int = 1,
        max_rows: int | None = None,
    ) -> "Persons":  # fmt: skip
        """Return the grouping that a column of identifiers makes.

        Parameters
        ----------
        ids : Persons or array_like of shape (n,)
            One identifier for each row: texts, or anything else that can be hashed, in a list, an
            array, or a column of pandas, polars or pyarrow. They are compared as they are, cell by
            cell: 7 and 7.0 are one. A `Persons` passes through, with the rules that it has. A
            column of Dask is read by ``fit``, for rows in the same partitions.
        rows : int, optional
            How many identifiers there must be.
        missing : {"refuse", "single"}, default "refuse"
            Whether a missing identifier (None, NaN, NA, a blank text) is refused, or makes its
            row a person of its own.
        full : int, default 1
            The number of rows from which on a person has the full weight; see the class.
        max_rows : int, optional
            How many rows of a person count at most; see the class.

        Returns
        -------
        Persons
            The grouping.

        Raises
        ------
        InvalidData
            If there is not one identifier for each row, one cannot be hashed, one is missing, or
            one is a number with a point from 2^53 on, which may stand for several persons.
        InvalidParameter
            If a rule is out of range, or one is given for a `Persons`.

        Examples
        --------
        >>> from noisette import Persons
        >>> Persons.of([7, None, 7, None], missing="single").count
        3
        >>> Persons.of(["a", "a", "b"], full=4).weights.round(2).tolist()
        [0.25, 0.25, 0.25]

        """
        missing = _validate.choice("missing", missing, MISSING_IDENTIFIERS)
        if hasattr(ids, "__dask_graph__"):
            ids = UnreadPersons(ids, missing=missing, full=full, max_rows=max_rows)
            missing, full, max_rows = "refuse", 1, None
        if isinstance(ids, Persons):
            grouped = ids
            if (missing, full, max_rows) != ("refuse", 1, None):
                raise InvalidParameter(
                    "a Persons has its rules already; give missing, full and max_rows together "
                    "with the identifiers."
                )
        else:
            numbers = given(ids, NO_COLUMN).keys().numbers
            absent = numbers < 0
            if missing == "refuse" and bool(absent.any()):
                raise InvalidData(
                    "persons has a row without an identifier; fill it in, leave the row out, or "
                    "make such rows persons of their own with Persons.of(ids, missing='single')."
                )
            index, count = _compact(numbers, absent)
            grouped = cls(index, count, full=full, max_rows=max_rows, missing=missing)
        if rows is not None and isinstance(grouped, UnreadPersons):
            raise InvalidData("persons live in partitions, so X must, too.")
        if rows is not None and grouped.rows != rows:
            raise InvalidData("persons must have one identifier for each row.")
        return grouped

    def __repr__(self) -> str:
        return "<Persons>"

    @cached_property
    def weights(self) -> Floats:
        """The weight of every row; those of one person add up to at most 1, rounded or not."""
        # proof: PERSON-WEIGHTS
        weights = row_weights(self.sizes, self.full, self.max_rows)[self.index]
        if self.max_rows is not None and bool(np.any(self.sizes > self.max_rows)):
            rows, starts = self.grouped
            place = np.arange(len(rows)) - np.repeat(starts[:-1], self.sizes)
            weights[rows[place >= self.max_rows]] = 0.0
        return np.asarray(weights)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.index)

    def _obeyed_by(self, weights: Any, bound: float) -> bool:
        """Whether the weights of every person's rows add up to at most `bound`."""
        # proof: PERSON-WEIGHTS
        return bool(np.all(np.bincount(self.index, weights, minlength=self.count) <= bound))

    def _most_used(self, weights: Any) -> float:
        """Return how many rows with a weight above 0 a person has at most."""
        used = np.bincount(self.index[weights > 0.0], minlength=self.count)
        return int(used.max(initial=0))

    def share(self, weights: Floats | None = None) -> Floats:
        """Return the weight of every row times its own one; a person's obey the cap."""
        # proof: PERSON-WEIGHTS
        return self.weights if weights is None else np.asarray(self.weights * weights)

    def take(self, rows: Indices) -> "Persons":
        """Return the grouping of some of the rows, numbers and weights' rule kept."""
        return self._like(self.index[rows], self.count, at_random=self.at_random)

    def part(self, chosen: Bools) -> "Persons":
        """Return the grouping of the chosen persons, in so many as they are."""
        index = (np.cumsum(chosen) - 1)[self.index[chosen[self.index]]]
        return self._like(index, int(np.count_nonzero(chosen)), at_random=self.at_random)

    def _like(self, index: Indices, count: int, *, at_random: bool) -> "Persons":
        return Persons(
            index, count, full=self.full, max_rows=self.max_rows, missing=self.missing,
            at_random=at_random,
        )  # fmt: skip

    @property
    def notes(self) -> tuple[str, ...]:
        """What a guarantee says about the rows of a person: public rules, nothing about anybody."""
        each = "1 / m" if self.full == 1 else f"1 / max(m, {self.full})"
        said = f"The unit is a person: each row of a person with m rows has the weight {each}."
        if self.max_rows is not None:
            said = (
                f"The unit is a person, of whom at most the first {self.max_rows} rows, m in "
                f"number, are used, each with the weight {each}."
            )
        if self.missing == "single":
            return said, "A row without an identifier counts as a person of its own."
        return (said,)

    @cached_property
    def grouped(self) -> tuple[Indices, Indices]:
        """All rows, person by person, and where the rows of each person start (N + 1 numbers)."""
        n = len(self.index)
        # rows of a sparse matrix are sorted by counting, which is faster than by comparing
        places = (np.ones(n, dtype=bool), (self.index, np.arange(n)))
        held = sparse.csr_array(places, shape=(self.count, n))
        return held.indices.astype(np.intp), held.indptr.astype(np.intp)

    def check(self, weights: Any, bound: float, max_rows: int | None) -> None:
        """Refuse weights that give one person more than one weight, or more rows than the cap."""
        # proof: PERSON-WEIGHTS
        if weights is None or weights.shape != (self.rows,):
            raise InvalidData("the rows of a person must share one weight.")
        if not self._obeyed_by(weights, bound):
            raise InvalidData("the weights of one person's rows must add up to at most one weight.")
        if max_rows is not None and self._most_used(weights) > max_rows:
            raise InvalidData(f"a person has more than max_rows={max_rows} rows.")

    def batches(self, edges: Integers, order: Integers, *, drawn: bool) -> tuple[Any, Any]:
        """Return batches of persons as batches of rows."""
        if not (self.at_random or drawn):
            # proof: PERSON-ORDER
            raise PermitError("persons must be put into a random order before batches are drawn.")
        chosen = order if len(order) else np.arange(self.count)
        ends = np.concatenate([[0], np.cumsum(self.sizes[chosen])])
        return ends[edges], self.rows_of(chosen).astype(np.int64, copy=False)

    def rows_of(self, chosen: Indices) -> Indices:
        """Return all rows of the chosen persons, one person after another."""
        rows, starts = self.grouped
        sizes = self.sizes[chosen]
        ends = np.cumsum(sizes)
        steps = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
        return np.asarray(rows[np.repeat(starts[chosen], sizes) + steps])

    def shuffled(self, randomness: Randomness) -> "Persons":
        """Return the same grouping with persons numbered at random, by nothing that is known."""
        # proof: PERSON-ORDER
        number = randomness.generator.permutation(self.count)
        return self._like(number[self.index], self.count, at_random=True)

    def mixed(self, numbers: Any, randomness: Randomness) -> Any:
        """Return numbers of persons in a random order."""
        # proof: PERSON-ORDER
        return randomness.generator.permutation(numbers)

    def one_each(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value for each person, refused by `name` where a person's rows differ."""
        each = np.empty(self.count, dtype=values.dtype)
        each[self.index] = values
        if not np.array_equal(each[self.index], values):
            raise InvalidData(f"{name} must be the same in all rows of one person.")
        return each


class UnreadPersons(Persons):
    """Identifiers in partitions that nobody has grouped yet, and the rules for them."""

    def __init__(
        self, ids: Any, *, full: int = 1, max_rows: int | None = None, missing: str = "refuse"
    ) -> None:
        self.ids, self.missing = ids, missing
        self.full = _validate.integer("full", full)
        self.max_rows = None if max_rows is None else _validate.integer("max_rows", max_rows)


def row_weights(sizes: Indices, full: int, max_rows: int | None) -> Floats:
    """Return the weight of each row of persons with so many rows, within the cap.

    In floating point a sum of m numbers may exceed the true one by (m - 1) 2^-53 of it, and a
    product with a sample weight by 2^-53; the weights are smaller by more than that.
    """
    # proof: PERSON-WEIGHTS
    most = np.inf if max_rows is None else float(max_rows)
    shared = np.maximum(np.minimum(sizes, most), full).astype(np.float64)
    with np.errstate(divide="ignore"):  # nobody has no rows
        each = np.nextafter((1.0 - (shared + 2.0) * _UNIT) / shared, 0.0)
    each[shared == 1.0] = 1.0
    return np.asarray(each)


def _compact(numbers: Indices, absent: NDArray[np.bool_]) -> tuple[Indices, int]:
    """Return numbers 0 .. N - 1 in the order of appearance; every missing one is its own."""
    if not bool(absent.any()):
        return numbers, int(numbers.max(initial=-1)) + 1
    top = int(numbers.max(initial=0)) + 1
    numbers = numbers.copy()
    numbers[absent] = top + np.arange(int(absent.sum()))
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.intp)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(place[inverse.reshape(-1)]), len(first)
