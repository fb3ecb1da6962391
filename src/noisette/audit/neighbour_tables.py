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
from typing import Any, NamedTuple

import numpy as np

from noisette.audit.canaries import LONG, OTHER, OWN, Data, Room, ordinary
from noisette.core.adjacency import Adjacency

Record = tuple[Any, Any]
"""A row and its label."""
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

    def families(self, missing: bool) -> list[Family]:
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

    def data(self, record: Record | None) -> Data:
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
    records: list[Record]
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
