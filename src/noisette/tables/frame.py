"""A table column by column, for what is learnt before rows are encoded.

It holds people's cells: it is an argument of private steps, never a result of one. A file that is
too large for memory lies in a temporary file (`spill`) and is walked in blocks of rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import compress, count, repeat
from operator import methodcaller
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Integers
from noisette._validate import refuse
from noisette.core.cells import Given, given
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons
from noisette.tables.cells import CodedCells, Signs, ValueCells
from noisette.tables.encoding import check_columns, names_of
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import Cells, canonical, encode_rows
from noisette.tables.kinds.base import coded_of, for_texts
from noisette.tables.reading import pieces
from noisette.tables.schema import Schema
from noisette.tables.spill import BLOCK, Spilled, Spilling

_NO_COLUMN = "each column of a table must be a list or an array of one dimension."


class Frame:
    """The columns of a table by name, read with the facts of a schema if there is one.

    With a schema, its codes for missing cells are missing and the numbers of a date are days
    since 1970; the schema may have open facts. Its representation says nothing.
    """

    def __init__(self, columns: dict[str, Cells], schema: Schema | None = None) -> None:
        self.columns, self.schema = columns, schema
        self._facts = {} if schema is None else schema.by_name

    def __repr__(self) -> str:
        return "<Frame>"

    @classmethod
    def of(cls, table: Any, schema: Schema | None = None, *, target: bool = False) -> "Frame":
        """Return the frame of a table in memory."""
        if isinstance(table, Frame):
            columns, facts = table.columns, table.schema
        else:
            file, facts = FileFacts() if schema is None else schema.file, None
            columns = columns_of(table, file.signs)
            if schema is not None:
                also = (schema.target, *schema.identifiers) if target else ()
                check_columns(None, list(columns), schema, also)
        if schema is not None and facts is None:
            _check_types(columns, schema)
        return cls(columns, schema if schema is not None else facts)

    @classmethod
    def read(
        cls, path: str | Path, schema: Schema, *, target: bool = False, header: bool = True
    ) -> "Frame":
        """Return the frame of a CSV or Parquet file; columns that are ignored are not read."""
        path = Path(path)
        also = (schema.target, *schema.identifiers) if target else ()  # to train alone
        names, given = names_of(path, schema, also, header=header)
        numbers, wanted = list(schema.numeric), [*schema.used, *also] or names[:1]  # to count rows
        if target and schema.target_bounds is not None:
            numbers.append(schema.target)
        found = pieces(path, schema.file, wanted, given, numbers)
        frame = cls(_stored(found, wanted, numbers, schema.file.signs), schema)
        if not frame.rows:
            raise InvalidData(f"{path} has no rows.")
        return frame

    def blocks(self, rows: int = BLOCK) -> Iterator[tuple[slice, "Frame"]]:
        """Yield the table in blocks of rows."""
        for start in range(0, max(self.rows, 1), max(rows, 1)):
            part = slice(start, min(start + rows, self.rows))
            yield part, self.take(part)

    def only(self, *names: str) -> "Frame":
        """Return the frame of some of the columns."""
        return Frame(dict(zip(names, map(self.cells, names), strict=True)), self.schema)

    def take(self, rows: slice | Integers) -> "Frame":
        """Return the frame of some of the rows."""
        if isinstance(rows, slice) and rows.indices(self.rows) == (0, self.rows, 1):
            return self
        taken = map(methodcaller("take", rows), self.columns.values())
        return Frame(dict(zip(self.columns, taken, strict=True)), self.schema)

    @property
    def rows(self) -> int:
        """The number of rows; private under add-remove."""
        return len(next(iter(self.columns.values())))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows, len(self.columns)

    def cells(self, name: str) -> Cells:
        """Return the cells of a column."""
        if name not in self.columns:
            raise InvalidParameter(f"the table has no column {name!r}.")
        return self.columns[name]

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, NaN where a cell is missing or no number."""
        cells, facts = self.cells(name), self._facts.get(name)
        return cells.numbers() if facts is None else facts.reading.numbers(cells, facts.missing)

    def codes(self, name: str) -> tuple[Integers, list[str]]:
        """Return a column as places in a sorted list of the texts that occur; -1 is missing."""
        absent = {"", *map(str, getattr(self._facts.get(name), "missing", ()))}
        codes, known = coded_of(self.cells(name))
        texts, occurs = list(map(canonical, known)), np.zeros(len(known), dtype=bool)
        occurs[codes] = True
        present = sorted(set(compress(texts, occurs)) - absent)
        places = list(map(dict(zip(present, count())).get, texts, repeat(-1)))
        return np.array(places, dtype=np.int64)[codes], present

    def labels(self) -> NDArray[Any]:
        """Return the class of every row as the schema names it, or the number to predict."""
        schema: Any = self.schema
        name = schema.target
        if schema.target_bounds is not None:
            numbers = self.numbers(name)
            if not np.isfinite(numbers).all():
                raise InvalidData(f"column {name!r} holds a cell that is no finite number.")
            return numbers
        place = {canonical(text): k for k, (_, texts) in enumerate(schema.labels) for text in texts}
        # A text that no cell has may be in the list of texts: the number -1 is looked for in cells.
        found = for_texts(self.cells(name), lambda text: place.get(canonical(text), -1), np.intp)
        if (found < 0).any():
            raise InvalidData(
                f"column {name!r} holds a label, or an empty cell, that is not among the classes "
                "of the schema; list every label there, or take such rows out (which one it is, is "
                "not shown: it is somebody's)."
            )
        return np.array(schema.classes).take(found)

    def persons(self) -> Persons | None:
        """Return whose rows they are, None where every row is a record of its own."""
        facts = None if self.schema is None else self.schema.persons
        if facts is None:
            return None
        if facts.column not in self.columns:
            raise InvalidData(f"the table has no column {facts.column!r}, which the schema names.")
        return facts.group(facts.texts_of(self.columns[facts.column]))

    def encode(self, schema: Schema | None = None, *, cut: bool = True) -> Any:
        """Return the rows, shape (n, d), encoded one by one with a complete schema."""
        schema = schema if schema is not None else self.schema
        if schema is None:
            raise InvalidParameter("encoding needs a schema.")
        schema.check_complete()
        return encode_rows(schema.columns, self.columns, schema.row_norm if cut else None)


def columns_of(table: Any, signs: Signs) -> dict[str, Cells]:
    """Return the columns of a table in memory by name; names that occur twice are refused.

    None of the packages is imported here: whoever hands in such a table has it.
    """
    # proof: ROW-LOCAL
    home = type(table).__module__.partition(".")[0]
    pairs: Any
    of_pandas = home == "pandas" and hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2
    if of_pandas or isinstance(table, Mapping):
        pairs = table.items()
    elif home == "polars" and hasattr(table, "get_columns"):
        pairs = zip(table.columns, table.get_columns(), strict=True)
    elif home == "pyarrow" and hasattr(table, "column_names"):
        pairs = zip(table.column_names, table.columns, strict=True)
    else:
        raise InvalidData(
            "a table is a data frame of pandas or polars, a pyarrow table or a dictionary of "
            f"columns; got an object of type {type(table).__name__}."
        )
    columns: dict[str, Cells] = {}
    for name, column in pairs:
        if str(name) in columns:
            raise InvalidData(f"the table has two columns named {str(name)!r}; rename one.")
        columns[str(name)] = ValueCells(given(column, _NO_COLUMN), signs)
    lengths = set(map(len, columns.values()))
    refuse(
        (not columns, "the table has no columns."),
        (len(lengths) > 1, "the columns of the table must be of one length."),
        kind=InvalidData,
    )
    return columns


def _stored(
    found: Iterable[Mapping[str, Cells]], names: list[str], numbers: Collection[str], signs: Signs
) -> dict[str, Cells]:
    """Return the columns of a table that comes in pieces; of texts, each is kept once."""
    store = Spilling()
    known: dict[str, dict[str, int]] = {name: {} for name in names if name not in numbers}
    vectors = {name: Spilled(store, np.int32 if name in known else np.float64) for name in names}
    for piece in found:
        for name, vector in vectors.items():
            if name not in known:
                vector.append(piece[name].numbers())
                continue
            codes, texts = coded_of(piece[name])
            places = np.array([known[name].setdefault(t, len(known[name])) for t in texts])
            # the narrowest type that fits
            vector.append(places.astype(np.min_scalar_type(-len(known[name]) - 1))[codes])
    return {
        name: CodedCells(vector, list(known[name]), signs)
        if name in known
        else ValueCells(Given(cast(Any, vector)))
        for name, vector in vectors.items()
    }


def _check_types(columns: dict[str, Any], schema: Schema) -> None:
    """Refuse dates where numbers are wanted, and cells that do not say which number they were.

    A column's type is as public as its name.
    """
    # proof: ROW-LOCAL
    numeric = set(schema.numeric)
    free = numeric | ({*schema.by_name} - {*schema.used})
    if schema.target_bounds is not None:
        free.add(schema.target)
    for name, cells in columns.items():
        if not hasattr(cells, "given"):  # of a file, which was read with its facts
            continue
        if name in numeric and cells.given.dates:
            raise InvalidData(
                f'column {name!r} holds dates by its type, which are no numbers; set kind = "date".'
            )
        if name not in free:
            cells.given.check(f"column {name!r}")
