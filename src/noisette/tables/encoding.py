"""The columns of a table against its schema: names, types and labels."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables.cells import arrow, is_moment, is_text
from noisette.tables.kinds import Cells, canonical
from noisette.tables.kinds.base import for_texts
from noisette.tables.reading import csv_header, is_parquet, open_parquet
from noisette.tables.schema import Schema


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
    used = {*schema.used, schema.target, *schema.identifiers}
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
    to_train = (schema.target, *schema.identifiers) if target else ()
    for name in (*schema.used, *to_train):
        if name not in present:
            raise InvalidData(f"the table has no column {name!r}, which the schema names.")


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
