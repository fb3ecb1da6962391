"""The worst of cells, for the replay at the door: not a number, infinite, huge, of other types.

`noisette.audit.hostile` has the neighbours that `noisette audit FOLDER` tries.
"""

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette.audit.canaries import OWN
from noisette.audit.hostile import RawTable, invented, neighbours
from noisette.core.adjacency import Adjacency

_DAY = datetime.date(2020, 12, 31)
_WHOLE = 2**53 + 1
EMPTY: tuple[Any, ...] = (None, math.nan)
NUMBERS: tuple[Any, ...] = (math.inf, -math.inf, 1e300, -1e300, -0.0, float(2**53), 0.1)
OTHERS: dict[str, tuple[Any, ...]] = {
    "numeric": ("a text", True, _DAY, _WHOLE),
    "categorical": (7, True, _DAY, _WHOLE, 0.5, "", "nobody else's", "1.0"),
    "date": (20201231, True, "31/31/2020", _DAY, "1900-01-01", 1e300),
}
"""Cells of another type than a column of this kind has, or that no other row has."""


@dataclass(frozen=True)
class HostileTable(RawTable):
    """A raw table with more labels to try.

    `blank` says how many of the last rows are blanked (zero-out), None that nothing is said of it.
    """

    blank: int | None = None
    more_labels: tuple[Any, ...] = ()

    @classmethod
    def invented(cls, *given: Any, **facts: Any) -> "HostileTable":
        return cls(**vars(invented(*given, **facts)))

    @property
    def weights(self) -> Any:
        """Which rows are there, where the relation is zero-out."""
        if self.blank is None:
            return None
        present = np.ones(len(self))
        present[len(self) - self.blank :] = 0.0
        return present

    def array(self) -> Any:
        """Return the cells row by row, as numbers where they are such."""
        try:
            return np.array(list(self.columns.values()), dtype=float).T
        except (TypeError, ValueError):
            return [list(row) for row in zip(*self.columns.values(), strict=True)]


def hostile_neighbours(
    table: HostileTable, adjacency: Adjacency
) -> tuple[HostileTable, dict[str, HostileTable]]:
    """Return one table and its neighbours by name."""
    first, others = neighbours(table, adjacency, single=True)
    who = table.owners[-1]
    others |= {name: table.ending(cells, label, OWN, who) for name, cells, label in records(table)}
    if adjacency is Adjacency.ZERO_OUT:
        others = {name: replace(other, blank=0) for name, other in others.items()}
        first = replace(first, blank=first.owners.count(who))
    return first, others


def records(table: RawTable) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield the names, cells and labels of hostile records."""
    low, high = table.end(0), table.end(1)
    old, new = table.label_ends
    yield "the same end, another label", low, new
    yield "the other end, the same label", high, old
    yield "a crossed record", crossed(table), new
    for cell in EMPTY:
        yield f"all cells {cell}", dict.fromkeys(low, cell), new
    for k in range(max(map(len, OTHERS.values()))):
        cells = {name: OTHERS[kind][k % len(OTHERS[kind])] for name, kind in table.kinds.items()}
        yield f"cells of other types, {k}", cells, new
    numbers = [name for name, kind in table.kinds.items() if kind == "numeric"]
    for cell in NUMBERS if numbers else ():
        yield f"numbers {cell}", high | dict.fromkeys(numbers, cell), new
    for label in table.more_labels if isinstance(table, HostileTable) else ():
        yield f"the label {label!r}", high, label


def crossed(table: RawTable) -> dict[str, Any]:
    """Return high, low, high, low, ... and a cell in the middle: at a right angle to both ends."""
    cells = {name: ends[(k + 1) % 2] for k, (name, ends) in enumerate(table.ends.items())}
    numbers = [name for name, kind in table.kinds.items() if kind == "numeric"]
    if len(numbers) % 2:
        cells[numbers[-1]] = sum(table.ends[numbers[-1]]) / 2.0
    return cells
