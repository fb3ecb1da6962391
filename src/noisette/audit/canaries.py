"""Canaries: pairs of neighbouring data sets on which a wrong bound shows.

Each function places one record that is as bad as the relation allows among rows that make it bad.
Rows are in units of the norm bound R. The record that changes is the last one; under replace-one it
is swapped, under zero-out it is blanked (see `Data.null`), under add-remove it is missing.

Where the claim is about persons (`Room.persons`), every row stands for a person and comes several
times: all rows of the last person change, and their number as well, since that is private.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness

LONG = 100.0
"""How much longer than R the rows of the norm canary are."""
OWN, OTHER = 40, 25
"""How many rows the person has who changes, and how many in the other world."""


class Data(NamedTuple):
    """One data set as ``fit`` takes it; `options` are further arguments of ``fit``."""

    X: Floats
    y: NDArray[Any]
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    @property
    def owners(self) -> NDArray[Any]:
        """Whose each row is; where rows are records, everybody has one."""
        return np.asarray(self.options.get("persons", np.arange(len(self.X))))

    def bare(self) -> "Data":
        """Return the data without levels and weights: only whose rows they are stays."""
        return self._replace(options={k: v for k, v in self.options.items() if k == "persons"})


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets; the last record of the first one differs."""

    name: str
    first: Data
    second: Data

    @property
    def changed(self) -> NDArray[np.intp]:
        """The rows of the record or person that differs, in the first data set."""
        return np.flatnonzero(self.first.owners == self.first.owners[-1])


@dataclass(frozen=True)
class Room:
    """Public facts that a canary must fit into.

    `rows` is the number of records (None: as many as the canary likes, at most `most`). `null` is
    how ``fit`` can be told that a record is blank: ``"sample_weight"`` 0, a ``"sample_epsilon"`` of
    almost 0, or a ``"zero-row"``, which is blank only without an intercept.
    """

    norm: float
    classes: tuple[Any, ...]
    adjacency: Adjacency
    features: int = 3
    rows: int | None = None
    most: int | None = None
    null: str = "zero-row"
    epsilon: float = 1.0
    persons: bool = False

    def count(self, wanted: int) -> int:
        """Return how many records to make."""
        return self.rows or min(wanted, self.most or wanted)

    def presence(self, rows: int, blank: int) -> dict[str, Floats]:
        """Return the arguments of ``fit`` that say that the last `blank` rows are not there.

        None where a row of zeros says it.
        """
        levels = {
            "sample_weight": (1.0, 0.0),
            "sample_epsilon": (self.epsilon, 1e-9 * self.epsilon),
        }
        if self.null not in levels:
            return {}
        return {self.null: np.repeat(levels[self.null], (rows - blank, blank))}

    def table(self, X: Floats, y: NDArray[Any], last: int | None = None) -> Data:
        """Return rows and labels as a data set.

        Of persons everybody has one to three equal rows, and the last one has `last`. Equal rows
        of one person weigh as much as one, so that what a canary shows stays what it was.
        """
        if not self.persons:
            return Data(X, y)
        counts = 1 + np.arange(len(X)) % 3
        counts[-1] = last or counts[-1]
        who = np.repeat(np.arange(len(X)), counts)
        return Data(X[who], y[who], {"persons": who})


def plain_table(room: Room, rows: int = 60, seed: int = 1) -> Data:
    """Return an ordinary table: rows of norm 0.2 R to R, labels by a noisy half-space."""
    return room.table(*ordinary(room, rows, seed)[:2])


def ordinary(room: Room, rows: int = 60, seed: int = 1) -> Data:
    """Return the rows of `plain_table`, one for each record or person."""
    n, d = room.count(rows), room.features
    generator = Randomness.from_seed(seed).generator
    X = generator.random((n, d)) - 0.5
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X *= room.norm * (0.2 + 0.8 * generator.random((n, 1))) / np.maximum(norms, 1e-12)
    score = X[:, 0] / room.norm + 0.3 * (generator.random(n) - 0.5)
    several = len(room.classes) > 2
    numbers = generator.integers(len(room.classes), size=n) if several else score > 0.0
    return Data(X, _labels(room, numbers))


def _labels(room: Room, numbers: Any) -> NDArray[Any]:
    return np.asarray(np.asarray(room.classes)[np.asarray(numbers, dtype=int)])


def _axis(room: Room, entries: Any) -> Floats:
    """Return a row with these first entries, in units of R."""
    row = np.append(np.asarray(entries, dtype=float), np.zeros(room.features))
    return row[: room.features] * room.norm


def _rows(room: Room, count: int, row: Any, label: int = 1, *other: float) -> Data:
    """Return equal records of one label; with `other`, every second one is that row of label 0."""
    n = room.count(count)
    X, y = np.tile(_axis(room, row), (n, 1)), _labels(room, np.full(n, label))
    if other:
        X[::2], y[::2] = _axis(room, other), room.classes[0]
    return Data(X, y)


Record = tuple[Any, int]
"""The first entries of a row, in units of R, and the number of its label."""
Placed = Callable[[Room], tuple[Data, Record, Record]]
"""The rows of a canary, its record, and what replaces it under replace-one."""


def _pair(name: str, make: Placed, room: Room) -> Neighbours:
    """Put the canary last."""
    data, old, new = make(room)
    X, y = data.X.copy(), data.y.copy()
    X[-1], y[-1] = _axis(room, old[0]), room.classes[old[1]]
    first = room.table(X.copy(), y.copy(), OWN)
    if room.adjacency is Adjacency.ADD_REMOVE:
        return Neighbours(name, first, room.table(X[:-1], y[:-1]))
    X[-1] = 0.0
    if room.adjacency is Adjacency.REPLACE_ONE:
        X[-1], y[-1] = _axis(room, new[0]), room.classes[new[1]]
        return Neighbours(name, first, room.table(X, y, OTHER))
    sides = (first, 0), (room.table(X, y, OTHER), OTHER if room.persons else 1)
    return Neighbours(
        name,
        *(d._replace(options=d.options | room.presence(len(d.X), blank)) for d, blank in sides),
    )


def _saturated(room: Room) -> tuple[Data, Record, Record]:
    """Many short rows of both labels push w far along -e1; the canary there has a slope near 1.

    Replaced by its mirror image with the other label, it moves every direction but e1 twice, the
    intercept included.
    """
    side = np.sqrt(1.0 - 0.4**2)
    old, new = ((0.4, side), (-0.4, side)) if room.features > 1 else ((1.0,), (1.0,))
    return _rows(room, 3000, (-0.3,), 1, 0.3), (old, 1), (new, 0)


def _alone(room: Room) -> tuple[Data, Record, Record]:
    """The canary is alone in its direction: the largest leverage, and what whitening stretches."""
    data, alone = ordinary(room), np.eye(room.features)[-1]
    return data._replace(X=data.X * 0.2 * (1.0 - alone)), (alone, 1), (-alone, 1)


def _zeros(room: Room, count: int, number: Callable[[Any], Any]) -> Data:
    """Return rows of zeros; `number` gives the numbers of their labels."""
    n = room.count(count)
    return Data(np.zeros((n, room.features)), _labels(room, number(np.arange(n))))


_MAKERS: dict[str, Placed] = {
    "saturated push": _saturated,
    "opposite row": lambda room: (ordinary(room), ((1.0,), 1), ((-1.0,), 1)),
    "label flip": lambda room: (ordinary(room), ((1.0,), 1), ((1.0,), 0)),
    # all rows agree on e1, the canary is on the wrong side, and its mirror image as well
    "negative margin": lambda room: (
        _rows(room, 120, (1.0,), 1, -1.0), ((0.6, 0.8), 0), ((-0.6, 0.8), 1)
    ),
    # softmax: everybody is of class 0, the canary of the last one, then of the one before
    "vertex class": lambda room: (_rows(room, 200, (1.0,), 0), ((1.0,), -1), ((-1.0,), -2)),
    "orthogonal": _alone,
    # only the intercept can move; one row is of another class, for many libraries refuse just one
    "intercept only": lambda room: (_zeros(room, 60, lambda i: i > 0), ((), 0), ((), 1)),
    # rows far longer than the bound, which clipping must shorten
    "long row": lambda room: (ordinary(room), ((LONG,), 1), ((-LONG,), 1)),
    # everybody has the canary's record
    "duplicates": lambda room: (
        _rows(room, 60, (0.7, 0.7)), ((0.7, 0.7), 1), ((0.7, 0.7), 0)
    ),
    # everybody but the canary has one label
    "one class": lambda room: (
        Data(ordinary(room).X, _rows(room, 60, ()).y), ((0.0, 1.0), 0), ((0.0, 1.0), 1)
    ),
}  # fmt: skip

CANARIES: dict[str, Callable[[Room], Neighbours]] = {
    name: partial(_pair, name, make) for name, make in _MAKERS.items()
}


def among_zeros(room: Room) -> Neighbours:
    """One row among zero rows of all classes: what is the same in both worlds is pure noise."""
    data = _zeros(room, 12, lambda i: i % len(room.classes))
    return _pair("among zeros", lambda room: (data, ((1.0,), 1), ((), 1)), room)


# --- tables in which one record takes many places ------------------------------------------------

# Each `Family` has one ordinary table and a list of records for its last row that pull at whatever
# a preprocessing step computes: extremes move ranges, means and directions, a record in the middle
# is the median, a new word is a new category, another label moves every statistic of the target.
# The set of labels stays what it was: it counts as public.

MANY = 1000
"""Records in families that can have any number of them."""


@dataclass(frozen=True)
class Table:
    """An ordinary table with its families; `wrapped` turns rows into what ``fit`` takes."""

    rows: list[Any]
    labels: list[Any]
    wrapped: Callable[[list[Any]], Any]
    moves: dict[str, list[Any]]
    """Name of a family -> the rows that the last record may have."""
    room: Room

    def families(self, missing: bool) -> list["Family"]:
        """Return all families; one has missing entries, for estimators that say they take them."""
        row, label = self.rows[-1], self.labels[-1]
        records = {name: [(each, label) for each in rows] for name, rows in self.moves.items()}
        if missing and isinstance(row, np.ndarray):
            lost = _subsets(row, lambda cells: None if row.dtype == object else np.nan)
            records["a missing entry"] = [(each, label) for each in lost]
        records["another label"] = [(row, each) for each in self.room.classes if each != label]
        near = 1 if self.room.adjacency is not Adjacency.ZERO_OUT or self.blankable else 2
        apart = near, 1 if self.room.adjacency is Adjacency.REPLACE_ONE else 2
        return [Family(name, self, found, apart) for name, found in records.items()]

    @property
    def blankable(self) -> bool:
        """Whether ``fit`` can be told that a record is blank; a level per person is public."""
        return self.room.null != "sample_epsilon"

    def data(self, record: tuple[Any, Any] | None) -> Data:
        """Return the table with this last record; None: missing, blank, else an ordinary one."""
        relation, options = self.room.adjacency, dict[str, Any]()
        row, label = record or (self.rows[-1], self.labels[-1])
        own = (OTHER if record is None else OWN) if self.room.persons else 1
        if record is None and relation is Adjacency.ADD_REMOVE:
            own = 0
        rows, labels = [*self.rows[:-1], *[row] * own], [*self.labels[:-1], *[label] * own]
        if self.room.persons:
            options["persons"] = np.minimum(np.arange(len(rows)), len(self.rows) - 1)
        if relation is Adjacency.ZERO_OUT and self.blankable:
            options |= self.room.presence(len(rows), blank=own if record is None else 0)
            if record is None:
                rows[-own:] = [np.zeros_like(row)] * own
        return Data(self.wrapped(rows), np.asarray(labels), options)


class Family(NamedTuple):
    """Data sets by number: number 0 is without the record, which is another one in all others."""

    name: str
    table: Table
    records: list[tuple[Any, Any]]
    """Rows and labels."""
    apart: tuple[int, int]
    """How many changes lie between number 0 and another data set, and between two others."""

    def world(self, number: int) -> Data:
        """Return the data set of this number."""
        return self.table.data(None if number == 0 else self.records[number - 1])


def number_tables(room: Room, names: list[str] | None) -> Iterator[Table]:
    """Yield tables of numbers, the plain one first; the others are for steps that refuse it."""

    def wrapped(rows: list[Any]) -> Any:
        if names is None or find_spec("pandas") is None:
            return np.array(rows)
        return import_module("pandas").DataFrame(np.array(rows), columns=names)

    def pulled(rows: Any, far: Any) -> dict[str, list[Any]]:
        others = np.sort(rows[:-1], axis=0)
        low, high = others[len(others) // 2 - 1], others[len(others) // 2]
        steps = range(MANY)
        return {
            # farther out than all others, in every column
            "an extreme record": [room.norm * (LONG + j) * far for j in steps],
            # between the two rows in the middle of every column, where it is the median
            "a record in the middle": [
                low + (j + 1.0) / (MANY + 1.0) * (high - low) for j in steps
            ],
        }

    X, y, _ = ordinary(room)
    signs, bits = (-1.0) ** np.arange(room.features), (X > 0.0).astype(float)
    for rows, moves in (
        (X, pulled(X, signs)),
        (np.abs(X), pulled(np.abs(X), np.abs(signs))),
        (bits, {"other bits": _subsets(bits[-1], lambda cells: 1.0 - cells)}),
    ):
        yield Table(list(rows), list(y), wrapped, moves, room)


def text_tables(room: Room) -> Iterator[Table]:
    """Yield a table of words and a list of texts."""
    labels = list(ordinary(room).y)
    words = np.array(["red", "green", "blue", "grey", "pink"], dtype=object)
    n, d = len(labels), room.features
    cells = words[(np.arange(n)[:, None] * (1 + np.arange(d)) + np.arange(d)) % len(words)]

    def as_table(rows: list[Any]) -> Any:
        return np.array(rows, dtype=object).reshape(len(rows), d)

    new = [f"word{j}" for j in range(MANY)]
    new_rows = [np.array([word] * d, dtype=object) for word in new]
    yield Table(list(cells), labels, as_table, {"a new category": new_rows}, room)
    yield Table([" ".join(row) for row in cells], labels, list, {"a new word": new}, room)


def _subsets(row: Any, changed: Callable[[Any], Any]) -> list[Any]:
    """Return the row with some entries changed, in all ways (of few columns)."""
    numbers = np.arange(1, 2 ** min(len(row), 8))[:, None]
    chosen = (numbers >> np.arange(len(row)) & 1).astype(bool)
    rows = np.tile(row, (len(chosen), 1))
    rows[chosen] = changed(rows[chosen])
    return list(rows)
