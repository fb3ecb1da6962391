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
from noisette.tables.encoding import check_columns, is_date, label_numbers, names_of
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import (
    Cells,
    Column,
    DateCells,
    Dates,
    Hats,
    Ignored,
    Numeric,
    Open,
    canonical,
    encode_rows,
)
from noisette.tables.kinds.base import for_texts
from noisette.tables.memory import columns_of
from noisette.tables.reading import pieces
from noisette.tables.schema import Schema, spelling
from noisette.tables.stored import BLOCK, Growing, part_of, taken


class Frame:
    r"""The columns of a table by name, read with the facts of a schema if there is one.

    With a schema, its codes for missing cells are missing and the numbers of a date are days
    since 1970; the schema may have open facts. Its representation says nothing.

    Parameters
    ----------
    columns : dict of str to Cells
        The cells of each column; `of` and `read` make them.
    schema : Schema, optional
        The facts by which the cells are read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from noisette.tables import Schema
    >>> from noisette.tables.frame import Frame
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> schema = Schema.from_dict(facts)
    >>> frame = Frame.of({"age": [20, 70], "ill": ["no", "yes"]}, schema, target=True)
    >>> frame.numbers("age").tolist(), frame.cells("ill").texts(), frame.labels().tolist()
    ([20.0, 70.0], ['no', 'yes'], ['no', 'yes'])
    >>> codes, texts = frame.codes("ill")
    >>> codes.tolist(), texts
    ([0, 1], ['no', 'yes'])
    >>> frame.encode().shape, frame.persons() is None
    ((2, 1), True)
    >>> frame.take(np.array([1])).numbers("age").tolist()
    [70.0]
    >>> frame.part(slice(0, 1)).only("ill").shape, list(frame.columns)
    ((1, 1), ['age', 'ill'])
    >>> [rows.stop for rows, block in frame.blocks(1)]
    [1, 2]
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,ill\n20,no\n70,yes\n")
    >>> Frame.read(path, schema, target=True).shape
    (2, 2)

    """

    def __init__(self, columns: dict[str, Cells], schema: Schema | None = None) -> None:
        self._cells, self.schema = columns, schema
        self._facts: dict[str, Column] = {
            column.name: column for column in (() if schema is None else schema.columns)
        }

    def __repr__(self) -> str:
        return "<Frame>"

    @classmethod
    def of(cls, table: Any, schema: Schema | None = None, *, target: bool = False) -> "Frame":
        """Return the frame of a table in memory.

        Parameters
        ----------
        table : table
            A pandas, polars or pyarrow table, a dictionary of arrays, or a frame.
        schema : Schema, optional
            The facts by which the cells are read.
        target : bool, default False
            Whether the column of labels must be there.

        Returns
        -------
        Frame
            The columns.

        """
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
        """Return the frame of a CSV or Parquet file; columns that are ignored are not read.

        Parameters
        ----------
        path : str or Path
            The file.
        schema : Schema
            The facts by which the cells are read.
        target : bool, default False
            Whether to read the column of labels too.
        header : bool, default True
            Whether the first line of a CSV file names the columns.

        Returns
        -------
        Frame
            The columns.

        Raises
        ------
        InvalidData
            If the file has no rows, or does not have the columns of the schema.

        """
        path = Path(path)
        names, given = names_of(path, schema, target=target, header=header)
        check_columns(path, names, schema, target=target)
        numbers = [column.name for column in schema.columns if _holds_numbers(column)]
        if target and schema.target_bounds is not None:
            numbers.append(schema.target)
        wanted = [c.name for c in schema.columns if not isinstance(c, Ignored)]
        if target:
            wanted.append(schema.target)
        if target and schema.persons is not None:  # to train, and for nothing else
            wanted.append(schema.persons.column)
        wanted = wanted or list(names[:1])  # to count the rows
        growing = Growing(wanted, numbers, (schema.file.decimal, schema.file.thousands))
        for piece in pieces(path, schema.file, wanted, given, numbers):
            growing.add(piece)
        if not growing.rows:
            raise InvalidData(f"{path} has no rows.")
        return cls(growing.cells(), schema)

    def blocks(self, rows: int = BLOCK) -> Iterator[tuple[slice, "Frame"]]:
        """Yield the table in blocks of rows.

        Parameters
        ----------
        rows : int
            How many rows a block has.

        Yields
        ------
        tuple of (slice, Frame)
            Which rows, and the frame of these rows.

        """
        count = self.rows
        for start in range(0, max(count, 1), max(rows, 1)):
            part = slice(start, min(start + rows, count))
            yield part, self.part(part)

    def part(self, rows: slice) -> "Frame":
        """Return the frame of rows that follow each other.

        Parameters
        ----------
        rows : slice
            Which rows.

        Returns
        -------
        Frame
            The same columns.

        """
        start, stop, _ = rows.indices(self.rows)
        if (start, stop) == (0, self.rows):
            return self
        cells = {name: part_of(column, slice(start, stop)) for name, column in self._cells.items()}
        return Frame(cells, self.schema)

    def only(self, *names: str) -> "Frame":
        """Return the frame of some of the columns.

        Parameters
        ----------
        *names : str
            Their names.

        Returns
        -------
        Frame
            The same rows.

        """
        return Frame({name: self.cells(name) for name in names}, self.schema)

    def take(self, rows: Integers) -> "Frame":
        """Return the frame of some of the rows.

        Parameters
        ----------
        rows : ndarray of int
            Their places.

        Returns
        -------
        Frame
            The same columns.

        """
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
        """Return the cells of a column.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        Cells
            The cells as they were given.

        Raises
        ------
        InvalidParameter
            If there is no such column.

        """
        if name not in self._cells:
            raise InvalidParameter(f"the table has no column {name!r}.")
        return self._cells[name]

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, NaN where a cell is missing or no number.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        ndarray of shape (n,)
            The numbers.

        """
        cells, facts = self.cells(name), self._facts.get(name)
        if isinstance(facts, Dates) or (isinstance(facts, Open) and facts.kind == "date"):
            return DateCells(cells, facts.forms, facts.missing).numbers()
        found = cells.numbers()
        for code in _number_codes(facts):
            found[found == code] = np.nan
        return found

    def codes(self, name: str) -> tuple[Integers, list[str]]:
        """Return a column as places in a sorted list of the texts that occur; -1 is missing.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        tuple of (ndarray of shape (n,), list of str)
            The places, and the list.

        """
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
        """Return the class of every row as the schema names it, or the number to predict.

        Parameters
        ----------
        target : str, optional
            The column of labels, needed where there is no schema: then its texts are returned.

        Returns
        -------
        ndarray of shape (n,)
            The labels.

        Raises
        ------
        InvalidParameter
            If there is neither a schema nor a target, or they contradict each other.
        InvalidData
            If a cell has no label.

        """
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
        """Return whose rows they are, None where every row is a record of its own.

        Returns
        -------
        Persons or None
            The grouping by the column that the schema names.

        Raises
        ------
        InvalidData
            If a row has no identifier, and the schema does not say what that means.

        """
        if self.schema is None or self.schema.persons is None:
            return None
        self.schema.persons.require(self.names)
        facts = self.schema.persons
        return facts.group(facts.texts_of(self.cells(facts.column)))

    def encode(self, schema: Schema | None = None, *, cut: bool = True) -> Any:
        """Return the rows, shape (n, d), encoded one by one with a complete schema.

        Parameters
        ----------
        schema : Schema, optional
            The complete schema; the frame's own unless given.
        cut : bool, default True
            Whether rows are divided by ``row_norm`` and cut to norm 1.

        Returns
        -------
        ndarray or CSR matrix of shape (n, d)
            CSR if `Schema.sparse` says so.

        Raises
        ------
        InvalidParameter
            If there is no schema, or it has open facts.

        """
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
    numeric = {column.name for column in schema.columns if _holds_numbers(column)}
    unused = {column.name for column in schema.columns if isinstance(column, Ignored)}
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


def _holds_numbers(column: Column) -> bool:
    numeric = isinstance(column, Numeric | Hats)
    return numeric or (isinstance(column, Open) and column.kind == "numeric")


def _number_codes(facts: Column | None) -> list[float]:
    """Return the codes that mean missing in a column of numbers."""
    if isinstance(facts, Numeric | Hats):
        return list(facts.missing)
    found = []
    for code in facts.missing if isinstance(facts, Open) and not is_date(facts) else ():
        try:
            found.append(float(code))
        except ValueError:
            continue
    return found
