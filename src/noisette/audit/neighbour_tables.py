"""Tables in which one record takes many places: beyond all others, in their middle, a new word.

Each `Family` has one ordinary table and a list of records for its last row that pull at whatever a
preprocessing step computes: extremes move ranges, means and directions, a record in the middle is
the median, a new word is a new category, another label moves every statistic of the target. The set
of labels stays what it was: it counts as public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from noisette.audit.canaries import LONG, OTHER, OWN, Data, Room, ordinary
from noisette.core.adjacency import Adjacency

Record = tuple[Any, Any]
MANY = 1000
"""Records in families that can have any number of them."""


@dataclass(frozen=True)
class Table:
    """An ordinary table with its families; `wrapped` turns rows into what ``fit`` takes."""

    rows: list[Any]
    labels: list[Any]
    wrapped: Callable[[list[Any]], Any]
    moves: Callable[[Table], list[Family]]
    room: Room

    def families(self, missing: bool) -> list[Family]:
        """Return all families; one has missing entries, for estimators that say they take them."""
        found = self.moves(self)
        if missing and isinstance(self.rows[-1], np.ndarray):
            found.append(_subsets("a missing entry", self, _missing))
        return [*found, _other_label(self)]

    @property
    def blankable(self) -> bool:
        """Whether ``fit`` can be told that a record is blank; a level per person is public."""
        return self.room.null != "sample_epsilon"

    @property
    def apart(self) -> tuple[int, int]:
        """How many changes lie between number 0 and another data set, and between two others."""
        if self.room.adjacency is Adjacency.REPLACE_ONE:
            return 1, 1
        return 1 if self.room.adjacency is Adjacency.ADD_REMOVE or self.blankable else 2, 2

    def data(self, record: Record | None) -> Data:
        """Return the table with this last record; None: missing, blank, else an ordinary one."""
        rows, labels = self.rows[:-1], self.labels[:-1]
        relation = self.room.adjacency
        if record is None and relation is Adjacency.ADD_REMOVE:
            return Data(self.wrapped(rows), np.asarray(labels), self._persons(len(rows), 1))
        row, label = (self.rows[-1], self.labels[-1]) if record is None else record
        own = 1 if not self.room.persons else OTHER if record is None else OWN
        rows, labels = [*rows, *[row] * own], [*labels, *[label] * own]
        options = self._persons(len(rows), own)
        if relation is Adjacency.ZERO_OUT and self.blankable:
            options |= self.room.presence(len(rows), blank=own if record is None else 0)
            if record is None:
                rows[-own:] = [np.zeros_like(row)] * own
        return Data(self.wrapped(rows), np.asarray(labels), options)

    def _persons(self, rows: int, own: int) -> dict[str, Any]:
        """Return whose rows they are, where the claim is about persons: the last one has `own`."""
        if not self.room.persons:
            return {}
        return {"persons": np.minimum(np.arange(rows), rows - own)}


@dataclass(frozen=True)
class Family:
    """Records for the last row of one table, each different from all others."""

    name: str
    table: Table
    record: Callable[[int], Record]
    size: int

    def world(self, j: int) -> Data:
        """Return the data set number j; number 0 is the one without the record."""
        return self.table.data(None if j == 0 else self.record(j - 1))


def number_tables(room: Room, names: list[str] | None) -> Iterator[Table]:
    """Yield tables of numbers, the plain one first; the others are for steps that refuse it."""

    def wrapped(rows: list[Any]) -> Any:
        if names is None or find_spec("pandas") is None:
            return np.array(rows)
        return import_module("pandas").DataFrame(np.array(rows), columns=names)

    X, y, _ = ordinary(room)
    signs = (-1.0) ** np.arange(room.features)
    for rows, moves in (
        (X, lambda table: [_extreme(table, signs), _central(table)]),
        (np.abs(X), lambda table: [_extreme(table, np.abs(signs)), _central(table)]),
        ((X > 0.0).astype(float), lambda table: [_subsets("other bits", table, _flipped)]),
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

    def new_words(j: int) -> Any:
        return np.array([f"word{j}"] * d, dtype=object)

    yield Table(list(cells), labels, as_table, _of_rows("a new category", new_words), room)
    texts = [" ".join(row) for row in cells]
    yield Table(texts, labels, list, _of_rows("a new word", "word{}".format), room)


# --- families ------------------------------------------------------------------------------------


def _of_rows(name: str, row: Callable[[int], Any]) -> Callable[[Table], list[Family]]:
    """Records with any number of other rows and the ordinary label."""
    return lambda table: [Family(name, table, lambda j: (row(j), table.labels[-1]), MANY)]


def _other_label(table: Table) -> Family:
    """The ordinary row with the other labels."""
    others = [label for label in table.room.classes if label != table.labels[-1]]
    return Family("another label", table, lambda j: (table.rows[-1], others[j]), len(others))


def _extreme(table: Table, signs: Any) -> Family:
    """Farther out than all others, in every column."""
    far = _of_rows("an extreme record", lambda j: table.room.norm * (LONG + j) * signs)
    return far(table)[0]


def _central(table: Table) -> Family:
    """Between the two rows in the middle of every column, where it is the median."""
    others = np.sort(np.array(table.rows[:-1]), axis=0)
    low, high = others[len(others) // 2 - 1], others[len(others) // 2]
    between = _of_rows(
        "a record in the middle", lambda j: low + (j + 1.0) / (MANY + 1.0) * (high - low)
    )
    return between(table)[0]


def _subsets(name: str, table: Table, change: Callable[[Any, Any], None]) -> Family:
    """The ordinary row with some entries changed, in all ways (of few columns)."""
    width = min(len(table.rows[-1]), 8)

    def record(j: int) -> Record:
        row, chosen = np.array(table.rows[-1]), np.zeros(len(table.rows[-1]), dtype=bool)
        chosen[:width] = (j + 1) >> np.arange(width) & 1
        change(row, chosen)
        return row, table.labels[-1]

    return Family(name, table, record, 2**width - 1)


def _missing(row: Any, chosen: Any) -> None:
    row[chosen] = None if row.dtype == object else np.nan


def _flipped(row: Any, chosen: Any) -> None:
    row[chosen] = 1.0 - row[chosen]
