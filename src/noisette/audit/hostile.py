"""Raw tables and their hostile neighbours: one record, or one person, with the worst of cells.

A proof starts at the raw cell. So the cells of the record that changes are empty, not a number,
infinite, huge, negative zero, a whole number beyond 2^53, or of another type than their column has;
identifiers are missing; a person has one row or forty. `CONTAINERS` puts the same cells into the
tables that people have, whose packages may find another type for a whole column because of one.
"""

import datetime
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from noisette.audit.canaries import OTHER, OWN
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.tables.kinds import column_of

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
class RawTable:
    """Cells as plain values by column, labels, and whose rows they are; the last record changes.

    `ends` are two ordinary cells of each column that lie far apart, and two such labels. `blank`
    says how many of the last rows are blanked (zero-out), None that nothing is said of it.
    """

    kinds: dict[str, str]
    columns: dict[str, list[Any]]
    labels: list[Any]
    ends: dict[str, tuple[Any, Any]]
    label_ends: tuple[Any, Any]
    owners: list[Any]
    """Whose each row is; where rows are records, everybody has one."""
    by_person: bool = False
    blank: int | None = None
    more_labels: tuple[Any, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def weights(self) -> Any:
        """Which rows are there, where the relation is zero-out."""
        if self.blank is None:
            return None
        present = np.ones(len(self))
        present[len(self) - self.blank :] = 0.0
        return present

    @property
    def own(self) -> int:
        """How many rows the last record has, or the last person."""
        return self.owners.count(self.owners[-1])

    def without(self) -> "RawTable":
        """Return the table without the last record or person."""
        kept = len(self) - self.own
        columns = {name: cells[:kept] for name, cells in self.columns.items()}
        labels, owners = self.labels[:kept], self.owners[:kept]
        return replace(self, columns=columns, labels=labels, owners=owners)

    def ending(self, cells: dict[str, Any], label: Any, rows: int, who: Any) -> "RawTable":
        """Return the table whose last record has these cells, in so many rows of one person."""
        bare, rows = self.without(), rows if self.by_person else 1
        columns = {
            name: [*old, *[cells.get(name, "")] * rows] for name, old in bare.columns.items()
        }
        labels, owners = [*bare.labels, *[label] * rows], [*bare.owners, *[who] * rows]
        return replace(self, columns=columns, labels=labels, owners=owners)

    def whole(self, target: str, person: str | None) -> dict[str, list[Any]]:
        """Return all columns, those of the labels and of the identifiers included."""
        whole = self.columns | {target: self.labels}
        return whole | {person: self.owners} if person and self.by_person else whole

    def array(self) -> Any:
        """Return the cells row by row, as numbers where they are such."""
        try:
            return np.array(list(self.columns.values()), dtype=float).T
        except (TypeError, ValueError):
            return [list(row) for row in zip(*self.columns.values(), strict=True)]


def neighbours(
    table: RawTable, adjacency: Adjacency, *, single: bool = False
) -> tuple[RawTable, dict[str, RawTable]]:
    """Return one table and its neighbours by name; `single` allows a missing identifier."""
    who = table.owners[-1]
    low = {name: ends[0] for name, ends in table.ends.items()}
    first = table.ending(low, table.label_ends[0], OTHER, who)
    others = {name: first.ending(cells, label, OWN, who) for name, cells, label in _records(table)}
    high = {name: ends[1] for name, ends in table.ends.items()}
    if table.by_person:
        others["a single row"] = first.ending(high, table.label_ends[1], 1, who)
        if single:
            others["one identifier missing"] = first.ending(high, table.label_ends[1], 1, None)
    if adjacency is Adjacency.ADD_REMOVE:
        first = table.without()
    elif adjacency is Adjacency.ZERO_OUT:
        others = {name: replace(other, blank=0) for name, other in others.items()}
        first = replace(first, blank=first.own)
    return first, others


def _records(table: RawTable) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield the names, cells and labels of hostile records."""
    low, high = ({name: ends[k] for name, ends in table.ends.items()} for k in (0, 1))
    old, new = table.label_ends
    yield "the other end", high, new
    yield "the same end, another label", low, new
    yield "the other end, the same label", high, old
    yield "a crossed record", _crossed(table), new
    for cell in EMPTY:
        yield f"all cells {cell}", dict.fromkeys(low, cell), new
    for k in range(max(map(len, OTHERS.values()))):
        cells = {name: OTHERS[kind][k % len(OTHERS[kind])] for name, kind in table.kinds.items()}
        yield f"cells of other types, {k}", cells, new
    numbers = [name for name, kind in table.kinds.items() if kind == "numeric"]
    for cell in NUMBERS if numbers else ():
        yield f"numbers {cell}", high | dict.fromkeys(numbers, cell), new
    for name, kind in table.kinds.items():
        yield f"one cell empty, {name}", high | {name: None}, new
        yield f"one cell of another type, {name}", high | {name: OTHERS[kind][0]}, new
    for label in table.more_labels:
        yield f"the label {label!r}", high, label


def _crossed(table: RawTable) -> dict[str, Any]:
    """Return high, low, high, low, ... and a cell in the middle: at a right angle to both ends."""
    cells = {name: ends[(k + 1) % 2] for k, (name, ends) in enumerate(table.ends.items())}
    numbers = [name for name, kind in table.kinds.items() if kind == "numeric"]
    if len(numbers) % 2:
        cells[numbers[-1]] = sum(table.ends[numbers[-1]]) / 2.0
    return cells


def invented(
    kinds: dict[str, Any], rows: int, labels: Any, *, persons: bool = False, seed: int = 0
) -> RawTable:
    """Return an invented table of columns of these kinds, as a schema states them.

    `labels` are the classes, or the two ends of a number.
    """
    g = Randomness.from_seed(seed).generator
    facts = {n: {"kind": f} if isinstance(f, str) else f for n, f in kinds.items()}
    columns, ends, plain = {}, {}, {}
    for name, fact in facts.items():
        if fact["kind"] == "ignore":
            continue
        plain[name], values, ends[name] = _column(fact)
        columns[name] = [values[k] for k in g.integers(len(values), size=rows)]
    if isinstance(labels, tuple):
        chosen = [labels[0] + (labels[1] - labels[0]) * float(u) for u in g.random(rows)]
    else:
        chosen = [labels[k] for k in g.integers(len(labels), size=rows)]
    whose = [f"p{k // 2 if persons else k}" for k in range(rows)]
    return RawTable(plain, columns, chosen, ends, (labels[0], labels[-1]), whose, persons)


def _column(fact: dict[str, Any]) -> tuple[str, list[Any], tuple[Any, Any]]:
    """Return the plain kind of a column, values for it, and two that lie far apart."""
    reading = column_of("x", fact, (), learn=True).reading
    if reading.word == "number":
        low, high = _stated(fact, "low", 0.0), _stated(fact, "high", 100.0)
        values: list[Any] = [low + (high - low) * k / 40 for k in range(41)]
        return "numeric", values, (low, high)
    if reading.moments:
        low, high = _stated(fact, "low", "1990-01-01"), _stated(fact, "high", "2020-12-31")
        first, last = (datetime.date.fromisoformat(str(end)[:10]) for end in (low, high))
        step = (last - first) / 40
        values = [(first + k * step).isoformat() for k in range(41)]
        return "date", values, (values[0], values[-1])
    values = [str(value) for value in fact.get("categories") or "abcd"]
    return "categorical", values, (values[0], values[-1])


def _stated(fact: dict[str, Any], name: str, default: Any) -> Any:
    value = fact.get(name)
    return default if value in (None, "?") else value


# --- containers ----------------------------------------------------------------------------------

Columns = dict[str, list[Any]]


class NotHeld(Exception):
    """A container whose column has one type cannot hold this cell."""


def _pandas(columns: Columns) -> Any:
    return import_module("pandas").DataFrame(columns)


def _nullable(columns: Columns) -> Any:
    whole = import_module("pandas").Int64Dtype()
    return _arrow(columns).to_pandas(types_mapper={import_module("pyarrow").int64(): whole}.get)


def _polars(columns: Columns) -> Any:
    return import_module("polars").from_arrow(_arrow(columns))


def _arrow(columns: Columns) -> Any:
    """Return a table whose columns keep the type that all rows but the last ones ask for."""
    pa = import_module("pyarrow")
    made = {}
    for name, cells in columns.items():
        kept = pa.array(cells[: len(cells) // 2])
        try:
            made[name] = pa.array(cells, type=kept.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise NotHeld(name) from None
    return pa.table(made)


def _parquet(columns: Columns) -> Path:
    path = Path(tempfile.mkdtemp()) / "table.parquet"
    import_module("pyarrow.parquet").write_table(_arrow(columns), path, row_group_size=40)
    return path


def _dask(columns: Columns) -> Any:
    return import_module("dask.dataframe").from_pandas(_pandas(columns), npartitions=3)


def _dask_parquet(columns: Columns) -> Any:
    folder = Path(tempfile.mkdtemp())
    table, parquet = _arrow(columns), import_module("pyarrow.parquet")
    for k in range(3):
        size = -(-len(table) // 3)
        parquet.write_table(table.slice(k * size, size), folder / f"part-{k}.parquet")
    return import_module("dask.dataframe").read_parquet(folder)


CONTAINERS: dict[str, tuple[str, Callable[[Columns], Any]]] = {
    "lists": ("numpy", dict),
    "pandas": ("pandas", _pandas),
    "pandas nullable": ("pandas", _nullable),
    "polars": ("polars", _polars),
    "pyarrow": ("pyarrow", _arrow),
    "parquet": ("pyarrow", _parquet),
    "dask": ("dask", _dask),
    "dask parquet": ("dask", _dask_parquet),
}
"""What makes a table of columns, and the package that it needs."""


def installed() -> list[str]:
    """Return the containers whose packages are there."""
    return [name for name, (package, _) in CONTAINERS.items() if find_spec(package) is not None]
