"""Raw tables and their hostile neighbours: one record, or one person, with other cells.

A proof starts at the raw cell. So a cell of the record that changes is empty, or of another type
than its column has; an identifier is missing; a person has one row or forty. `CONTAINERS` puts the
same cells into the tables that people have, whose packages may find another type for a whole column
because of one.
"""

import datetime
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from noisette.audit.canaries import OTHER, OWN
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.tables.kinds import column_of

OTHER_TYPE = {"numeric": "a text", "categorical": 7, "date": 20201231}
"""A cell of another type than a column of this kind has."""


@dataclass(frozen=True)
class RawTable:
    """Cells as plain values by column, labels, and whose rows they are; the last record changes.

    `ends` are two ordinary cells of each column that lie far apart, and two such labels.
    """

    kinds: dict[str, str]
    columns: dict[str, list[Any]]
    labels: list[Any]
    ends: dict[str, tuple[Any, Any]]
    label_ends: tuple[Any, Any]
    owners: list[Any]
    """Whose each row is; where rows are records, everybody has one."""
    by_person: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    def ending(self: "Table", cells: dict[str, Any], label: Any, rows: int, who: Any) -> "Table":
        """Return the table whose last record has these cells, in so many rows of one person."""
        kept = len(self) - self.owners.count(self.owners[-1])
        rows = rows if self.by_person else min(rows, 1)
        columns = {n: [*old[:kept], *[cells.get(n, "")] * rows] for n, old in self.columns.items()}
        return replace(
            self, columns=columns, labels=[*self.labels[:kept], *[label] * rows],
            owners=[*self.owners[:kept], *[who] * rows],
        )  # fmt: skip

    def end(self, k: int) -> dict[str, Any]:
        """Return a record of the cells at one end."""
        return {name: ends[k] for name, ends in self.ends.items()}

    def whole(self, target: str, person: str | None) -> dict[str, list[Any]]:
        """Return all columns, those of the labels and of the identifiers included."""
        whole = self.columns | {target: self.labels}
        return whole | {person: self.owners} if person and self.by_person else whole


Table = TypeVar("Table", bound=RawTable)


def neighbours(
    table: Table, adjacency: Adjacency, *, single: bool = False
) -> tuple[Table, dict[str, Table]]:
    """Return one table and its neighbours by name; `single` allows a missing identifier."""
    who, high = table.owners[-1], table.end(1)
    old, new = table.label_ends
    records = {"the other end": high}
    for name, kind in table.kinds.items():
        records[f"one cell empty, {name}"] = high | {name: None}
        records[f"one cell of another type, {name}"] = high | {name: OTHER_TYPE[kind]}
    others = {name: table.ending(cells, new, OWN, who) for name, cells in records.items()}
    if table.by_person:
        others["a single row"] = table.ending(high, new, 1, who)
        if single:
            others["one identifier missing"] = table.ending(high, new, 1, None)
    rows = 0 if adjacency is Adjacency.ADD_REMOVE else OTHER
    return table.ending(table.end(0), old, rows, who), others


def invented(
    kinds: dict[str, Any], rows: int, labels: Any, *, persons: bool = False, seed: int = 0
) -> RawTable:
    """Return an invented table of columns of these kinds, as a schema states them.

    `labels` are the classes, or the two ends of a number.
    """
    g = Randomness.from_seed(seed).generator
    columns, ends, plain = {}, {}, {}
    for name, stated in kinds.items():
        fact = {"kind": stated} if isinstance(stated, str) else stated
        if fact["kind"] != "ignore":
            plain[name], values = _column(fact)
            ends[name] = values[0], values[-1]
            columns[name] = [values[k] for k in g.integers(len(values), size=rows)]
    chosen = (
        [labels[0] + (labels[1] - labels[0]) * float(u) for u in g.random(rows)]
        if isinstance(labels, tuple)
        else [labels[k] for k in g.integers(len(labels), size=rows)]
    )
    whose = [f"p{k // 2 if persons else k}" for k in range(rows)]
    return RawTable(plain, columns, chosen, ends, (labels[0], labels[-1]), whose, persons)


def _column(fact: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the plain kind of a column, and values for it, from one end to the other."""
    known = {name: value for name, value in fact.items() if value not in (None, "?")}
    reading = column_of("x", fact, (), learn=True).reading
    if reading.word == "number":
        low, high = known.get("low", 0.0), known.get("high", 100.0)
        return "numeric", [low + (high - low) * k / 40 for k in range(41)]
    if reading.moments:
        ends = known.get("low", "1990-01-01"), known.get("high", "2020-12-31")
        first, last = (datetime.date.fromisoformat(str(end)[:10]) for end in ends)
        return "date", [(first + k * ((last - first) / 40)).isoformat() for k in range(41)]
    return "categorical", [str(value) for value in fact.get("categories") or "abcd"]


# --- containers ----------------------------------------------------------------------------------

Columns = dict[str, list[Any]]


class NotHeld(Exception):
    """A container whose column has one type cannot hold this cell."""


def _pandas(columns: Columns) -> Any:
    return import_module("pandas").DataFrame(columns)


def _nullable(columns: Columns) -> Any:
    whole = import_module("pandas").Int64Dtype()
    return _arrow(columns).to_pandas(types_mapper={import_module("pyarrow").int64(): whole}.get)


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


def _parquet(columns: Columns, parts: int = 1) -> Path:
    """Return a folder of Parquet files."""
    folder, table = Path(tempfile.mkdtemp()), _arrow(columns)
    size = -(-len(table) // parts)
    for k in range(parts):
        path, part = folder / f"part-{k}.parquet", table.slice(k * size, size)
        import_module("pyarrow.parquet").write_table(part, path, row_group_size=40)
    return folder


CONTAINERS: dict[str, tuple[str, Callable[[Columns], Any]]] = {
    "lists": ("numpy", dict),
    "pandas": ("pandas", _pandas),
    "pandas nullable": ("pandas", _nullable),
    "polars": ("polars", lambda x: import_module("polars").from_arrow(_arrow(x))),
    "pyarrow": ("pyarrow", _arrow),
    "parquet": ("pyarrow", lambda x: _parquet(x) / "part-0.parquet"),
    "dask": ("dask", lambda x: import_module("dask.dataframe").from_pandas(_pandas(x), 3)),
    "dask parquet": (
        "dask",
        lambda x: import_module("dask.dataframe").read_parquet(_parquet(x, 3)),
    ),
}
"""What makes a table of columns, and the package that it needs."""


def installed() -> list[str]:
    """Return the containers whose packages are there."""
    return [name for name, (package, _) in CONTAINERS.items() if find_spec(package) is not None]
