"""A table column by column, for what is learnt before rows are encoded.

It holds people's cells: it is an argument of private steps, never a result of one. A file that is
too large for memory is walked in blocks of rows (`stored`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Integers
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons
from noisette.tables.encoding import check_columns, label_numbers, names_of
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import Cells, canonical, encode_rows
from noisette.tables.kinds.base import for_texts
from noisette.tables.memory import columns_of
from noisette.tables.reading import pieces
from noisette.tables.schema import Schema, spelling
from noisette.tables.stored import BLOCK, Growing, part_of, taken


class Frame:
    """The columns of a table by name, read with the facts of a schema if there is one.

    With a schema, its codes for missing cells are missing and the numbers of a date are days
    since 1970; the schema may have open facts. Its representation says nothing.
    """

    def __init__(self, columns: dict[str, Cells], schema: Schema | None = None) -> None:
        self._cells, self.schema = columns, schema
        self._facts = {} if schema is None else schema.by_name

    def __repr__(self) -> str:
        return "<Frame>"

    @classmethod
    def of(cls, table: Any, schema: Schema | None = None, *, target: bool = False) -> "Frame":
        """Return the frame of a table in memory."""
        if isinstance(table, Frame):
            if schema is not None and table.schema is None:
                _check_types(table._cells, schema)
            return cls(table._cells, schema if schema is not None else table.schema)
        facts = FileFacts() if schema is None else schema.file
        columns = columns_of(table, (facts.decimal, facts.thousands))
        if schema is not None:
            check_columns(None, list(columns), schema, target=target)
            _check_types(columns, schema)
        return cls(columns, schema)

    @classmethod
    def read(
        cls, path: str | Path, schema: Schema, *, target: bool = False, header: bool = True
    ) -> "Frame":
        """Return the frame of a CSV or Parquet file; columns that are ignored are not read."""
        path = Path(path)
        names, given = names_of(path, schema, target=target, header=header)
        check_columns(path, names, schema, target=target)
        numbers, wanted = list(schema.numeric), list(schema.used)
        if target and schema.target_bounds is not None:
            numbers.append(schema.target)
        if target:  # to train; persons are for nothing else
            wanted += [schema.target, *schema.identifiers]
        wanted = wanted or list(names[:1])  # to count the rows
        growing = Growing(wanted, numbers, (schema.file.decimal, schema.file.thousands))
        for piece in pieces(path, schema.file, wanted, given, numbers):
            growing.add(piece)
        if not growing.rows:
            raise InvalidData(f"{path} has no rows.")
        return cls(growing.cells(), schema)

    def blocks(self, rows: int = BLOCK) -> Iterator[tuple[slice, "Frame"]]:
        """Yield the table in blocks of rows."""
        count = self.rows
        for start in range(0, max(count, 1), max(rows, 1)):
            part = slice(start, min(start + rows, count))
            yield part, self.part(part)

    def part(self, rows: slice) -> "Frame":
        """Return the frame of rows that follow each other."""
        start, stop, _ = rows.indices(self.rows)
        if (start, stop) == (0, self.rows):
            return self
        cells = {name: part_of(column, slice(start, stop)) for name, column in self._cells.items()}
        return Frame(cells, self.schema)

    def only(self, *names: str) -> "Frame":
        """Return the frame of some of the columns."""
        return Frame({name: self.cells(name) for name in names}, self.schema)

    def take(self, rows: Integers) -> "Frame":
        """Return the frame of some of the rows."""
        cells = {name: taken(column, rows) for name, column in self._cells.items()}
        return Frame(cells, self.schema)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._cells)

    @property
    def columns(self) -> dict[str, Cells]:
        """The cells of each column."""
        return self._cells

    @property
    def rows(self) -> int:
        """The number of rows; private under add-remove."""
        return len(next(iter(self._cells.values())))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows, len(self._cells)

    def cells(self, name: str) -> Cells:
        """Return the cells of a column."""
        if name not in self._cells:
            raise InvalidParameter(f"the table has no column {name!r}.")
        return self._cells[name]

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, NaN where a cell is missing or no number."""
        cells, facts = self.cells(name), self._facts.get(name)
        return cells.numbers() if facts is None else facts.reading.numbers(cells, facts.missing)

    def codes(self, name: str) -> tuple[Integers, list[str]]:
        """Return a column as places in a sorted list of the texts that occur; -1 is missing."""
        absent = {"", *map(str, getattr(self._facts.get(name), "missing", ()))}
        seen: dict[str, int] = {}
        cells = self.cells(name)
        first = for_texts(cells, lambda text: seen.setdefault(canonical(text), len(seen)), np.int64)
        occurs = np.zeros(len(seen), dtype=bool)
        occurs[first] = True
        present = sorted(text for text, k in seen.items() if occurs[k] and text not in absent)
        place = {text: number for number, text in enumerate(present)}
        return np.array([place.get(text, -1) for text in seen], dtype=np.int64)[first], present

    def labels(self, target: str | None = None) -> NDArray[Any]:
        """Return the class of every row as the schema names it, or the number to predict."""
        if self.schema is not None:
            if target not in (None, self.schema.target):
                raise InvalidParameter(
                    f"the schema says target = {self.schema.target!r}; got {target!r}."
                )
            name = self.schema.target
            if self.schema.target_bounds is not None:
                numbers = self.numbers(name)
                if not np.isfinite(numbers).all():
                    raise InvalidData(f"column {name!r} holds a cell that is no finite number.")
                return numbers
            positions = spelling(self.schema.labels)
            return np.array(self.schema.classes)[label_numbers(self.cells(name), positions, name)]
        if target is None:
            raise InvalidParameter("without a schema, labels needs the name of the target.")
        codes, texts = self.codes(target)
        if (codes < 0).any():
            raise InvalidData(f"column {target!r} holds a cell without a label.")
        return np.array(texts)[codes]

    def persons(self) -> Persons | None:
        """Return whose rows they are, None where every row is a record of its own."""
        if self.schema is None or self.schema.persons is None:
            return None
        self.schema.persons.require(self.names)
        facts = self.schema.persons
        return facts.group(facts.texts_of(self.cells(facts.column)))

    def encode(self, schema: Schema | None = None, *, cut: bool = True) -> Any:
        """Return the rows, shape (n, d), encoded one by one with a complete schema."""
        schema = schema if schema is not None else self.schema
        if schema is None:
            raise InvalidParameter("encoding needs a schema.")
        schema.check_complete()
        return encode_rows(schema.columns, self._cells, schema.row_norm if cut else None)


def _check_types(columns: dict[str, Any], schema: Schema) -> None:
    """Refuse dates where numbers are wanted, and cells that do not say which number they were.

    A column's type is as public as its name.
    """
    # proof: ROW-LOCAL
    numeric = set(schema.numeric)
    unused = {column.name for column in schema.columns if not column.used}
    if schema.target_bounds is not None:
        unused.add(schema.target)
    for name, cells in columns.items():
        if not hasattr(cells, "given"):  # of a file, which was read with its facts
            continue
        if name in numeric and cells.given.dates:
            raise InvalidData(
                f'column {name!r} holds dates by its type, which are no numbers; set kind = "date".'
            )
        if name not in numeric | unused:
            cells.given.check(f"column {name!r}")
