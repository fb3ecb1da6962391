"""From a file and a schema to the matrix and the labels of an estimator, row by row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons
from noisette.tables.cells import arrow, is_moment, is_text
from noisette.tables.file_parts import FileColumn
from noisette.tables.kinds import Cells, canonical, encode_rows
from noisette.tables.kinds.base import for_texts
from noisette.tables.reading import csv_header, is_parquet, open_parquet, pieces
from noisette.tables.schema import Schema, spelling
from noisette.tables.spill import Spill, Spilled, Spilling
from noisette.tables.stored_rows import Keeping, StoredRows, may_be_stored


@dataclass(frozen=True)
class Encoded:
    """A table as a model takes it; ``repr`` shows nothing of it.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), or Frame
        Rows of norm at most 1, CSR if `Schema.sparse` says so; for a model that encodes cells by
        itself the cells. Many rows may stay in a temporary file, where that was allowed.
    y : ndarray of shape (n,) or None
        The label of each row, or None if not asked for; in the file if the rows are there.
    persons : Persons or None
        Whose row each row is, where the schema says how to tell.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.tables.encoding import Encoded
    >>> Encoded(np.zeros((3, 2)), None)
    <Encoded table>

    """

    X: Any
    y: Any
    persons: Persons | None = None

    def __repr__(self) -> str:
        return "<Encoded table>"  # how many rows there are may be private

    @property
    def count(self) -> int:
        """The number of rows, or of persons where rows are grouped by person."""
        return int(self.X.shape[0]) if self.persons is None else self.persons.count


def names_of(
    path: Path, schema: Schema, *, target: bool, header: bool
) -> tuple[list[str], list[str] | None]:
    """Return the columns of the table, and the names to use if a CSV file has no header line.

    Where no labels are asked for, a file without a header may lack the target's column.
    """
    if is_parquet(path):
        if not header:
            raise InvalidParameter("a Parquet file names its columns; --no-header is for CSV.")
        with open_parquet(path) as file:
            return _checked_types(file.schema_arrow, schema), None
    first = csv_header(path, schema.file)
    if header:
        return first, None
    given = list(schema.names)
    if not target and len(first) == len(given) - 1:
        given.remove(schema.target)
    if first == given:
        raise InvalidData(f"the first line of {path} names the columns; leave out --no-header.")
    if len(first) != len(given):
        raise InvalidData(
            f"{path} has {len(first)} cells in its first row, but the schema names {len(given)} "
            "columns; give them in order as names under [file]."
        )
    return given, given


def _checked_types(types: Any, schema: Schema) -> list[str]:
    """Return the names of Parquet columns; refuse a used one whose type has no encoding."""
    pa = arrow()
    used = {*schema.used, schema.target}
    if schema.persons is not None:
        used.add(schema.persons.column)
    dates = {column.name for column in schema.columns if column.reading.moments}
    for field in types:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind) or is_text(kind) or pa.types.is_null(kind)
        )  # fmt: skip
        plain = plain or (field.name in dates and is_moment(kind))
        if field.name in used and not plain:
            raise InvalidData(
                f"column {field.name!r} has the Parquet type {kind}, which has no encoding; turn "
                f'it into a number or a text, or set kind = "{_advised(kind)}".'
            )
    return list(types.names)


def _advised(kind: Any) -> str:
    return "date" if is_moment(kind) else "ignore"


def check_columns(path: Path | None, names: Sequence[str], schema: Schema, *, target: bool) -> None:
    """Refuse columns that are missing, doubled or unknown, by name: names are public.

    A first line without any known name may be somebody's row, so nothing of it is shown. A table
    in memory has no `path`.
    """
    known = {column.name for column in schema.columns} | {schema.target}
    if path is None and not known.intersection(names):
        raise InvalidData("the table has none of the columns of the schema.")
    if not known.intersection(names):
        raise InvalidData(
            f"{path} names none of the columns of the schema; check delimiter and encoding under "
            "[file], or give --no-header if its first line is a row."
        )
    present = Counter(names)
    for name, times in present.items():
        if times > 1:
            named = f"named {name!r}" if name else "without a name"
            raise InvalidData(f"the table has two columns {named}; rename one.")
    for name in names:
        if name == "" and name not in known:
            raise InvalidParameter(
                "the table has a column without a name, perhaps by a separator at the line's end; "
                'write [columns.""] and kind = "ignore" into the schema.'
            )
        if name not in known:
            raise InvalidParameter(
                f"column {name!r} of the table is not in the schema; add it there, or give it "
                'kind = "ignore".'
            )
    for name in (*schema.used, schema.target) if target else schema.used:
        if name not in present:
            raise InvalidData(f"the table has no column {name!r}, which the schema names.")
    if target and schema.persons is not None:
        schema.persons.require(names)


def encode(
    path: str | Path, schema: Schema, *, target: bool, header: bool = True, in_file: bool = False,
    counted: bool = True,
) -> Encoded:  # fmt: skip
    r"""Read and encode a whole table; with `target` its labels and persons too.

    Each row is encoded by itself: divided by ``row_norm`` and cut to norm 1. So neighbouring tables
    become neighbouring matrices, and encoding costs no privacy.

    Parameters
    ----------
    path : str or Path
        A CSV or Parquet file.
    schema : Schema
        The public facts about its columns.
    target : bool
        Whether to read the labels too.
    header : bool, default True
        Whether a CSV file has a header line.
    in_file : bool, default False
        Whether rows and labels are in parts if they are many, and may then stay in a temporary
        file, for a model that takes rows in parts; not for persons.
    counted : bool, default True
        Whether the number of rows is public. Else rows are in parts whatever their number: the
        guarantee of such a model cites the theorem for it.

    Returns
    -------
    Encoded
        The matrix and the labels.

    Raises
    ------
    InvalidData
        If the file cannot be read, lacks a column, has no rows or an unknown label.
    InvalidParameter
        If the table has a column that is not in the schema.
    MissingExtra
        If the file is Parquet and pyarrow is absent.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noisette.tables import Schema, encode
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill\n31,no\n62,yes\n")
    >>> encode(table, Schema.from_dict(facts), target=True).y.tolist()
    ['no', 'yes']

    """
    path = Path(path)
    schema.check_complete()
    names, given = names_of(path, schema, target=target, header=header)
    check_columns(path, names, schema, target=target)
    wanted = [column.name for column in schema.columns if column.features]
    positions = spelling(schema.labels)
    kept = Keeping(Spill()) if in_file else _Blocks()
    labels = Spilled(Spilling(), np.intp)
    asked = [*wanted, schema.target] if target else wanted or list(names[:1])  # to count the rows
    who = schema.persons if target else None
    ids: list[str] = []
    if who is not None:
        asked.append(who.column)
    for piece in pieces(path, schema.file, asked, given, schema.numeric):
        kept.add(encode_rows(schema.columns, piece, schema.row_norm))
        if target:
            found = label_numbers(piece[schema.target], positions, schema.target)
            labels.append(found.astype(np.min_scalar_type(len(schema.classes))))
        if who is not None:
            ids.extend(who.texts_of(piece[who.column]))
    X = kept.rows()
    if X is None:
        raise InvalidData(f"{path} has no rows.")
    names_of_classes = np.array(schema.classes)
    stored = isinstance(X, StoredRows)
    thin = X.is_sparse if stored else sparse.issparse(X)
    if in_file and (not counted or may_be_stored(X.shape, is_sparse=thin)):
        rows = FileColumn([X.read if stored else X.__getitem__], _same, X.shape)
        rows.is_sparse = thin
        return Encoded(rows, FileColumn([labels.__getitem__], names_of_classes.take, X.shape[:1]))
    y = names_of_classes[labels[:]] if target else None
    return Encoded(X, y, None if who is None else who.group(ids))


def _same(rows: Any) -> Any:
    return rows


class _Blocks:
    """Encoded rows on their way to one matrix, which is in memory once and not twice."""

    def __init__(self) -> None:
        self._sparse: list[Any] = []
        self._dense = Spilled(Spilling(), np.float64)
        self._count = self._features = 0

    def add(self, block: Any) -> None:
        self._count, self._features = self._count + block.shape[0], block.shape[1]
        if sparse.issparse(block):
            self._sparse.append(block)
        else:
            self._dense.append(block.ravel())

    def rows(self) -> Any:
        if self._sparse:
            return sparse.vstack(self._sparse, "csr")
        return self._dense[:].reshape(self._count, self._features) if self._count else None


def label_numbers(cells: Cells, positions: dict[str, int], name: str) -> NDArray[np.intp]:
    """Return the class number of every label; one that is no class is refused and not shown."""
    # A text that no cell has may be in the list of texts: the number -1 is looked for in cells.
    numbers = for_texts(cells, lambda text: positions.get(canonical(text), -1), np.intp)
    if (numbers < 0).any():
        raise InvalidData(
            f"column {name!r} holds a label, or an empty cell, that is not among the classes of "
            "the schema; list every label there, or take such rows out (which one it is, is not "
            "shown: it is somebody's)."
        )
    return numbers
