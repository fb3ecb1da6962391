"""The columns of a table in a file against its schema: names and types; how many rows there are."""

from collections import Counter
from collections.abc import Sequence
from itertools import filterfalse
from pathlib import Path

from noisette import _validate
from noisette._validate import refuse
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables.cells import arrow, is_text
from noisette.tables.reading import csv_header, is_parquet, open_parquet, pieces
from noisette.tables.schema import Schema


def names_of(
    path: Path, schema: Schema, also: Sequence[str] = (), *, header: bool
) -> tuple[list[str], list[str] | None]:
    """Return the checked columns of a table, and the names to use if a file has no header line.

    Columns that are used must be there, and those in `also`; a file without a header may lack the
    target's column where that is not among them.
    """
    given = None
    if is_parquet(path):
        if not header:
            raise InvalidParameter("a Parquet file names its columns; --no-header is for CSV.")
        names = _checked_types(path, schema)
    else:
        names = csv_header(path, schema.file)
    if not header:
        first, names = names, list(schema.names)
        if schema.target not in also and len(first) == len(names) - 1:
            names.remove(schema.target)
        refuse(
            (first == names,
             f"the first line of {path} names the columns; leave out --no-header."),
            (len(first) != len(names),
             f"{path} has {len(first)} cells in its first row, but the schema names "
             f"{len(names)} columns; give them in order as names under [file]."),
            kind=InvalidData,
        )  # fmt: skip
        given = names
    check_columns(path, names, schema, also)
    return names, given


def _checked_types(path: Path, schema: Schema) -> list[str]:
    """Return the names of Parquet columns; refuse a used one whose type has no encoding."""
    is_ = arrow().types
    used = {*schema.used, schema.target, *schema.identifiers}
    dates = {column.name for column in schema.columns if column.reading.moments}
    with open_parquet(path) as file:
        types = file.schema_arrow
    for field in types:
        kind = field.type.value_type if is_.is_dictionary(field.type) else field.type
        moment = is_.is_date(kind) or is_.is_timestamp(kind)
        plain = (
            is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind)
            or is_.is_decimal(kind) or is_text(kind) or is_.is_null(kind)
            or (field.name in dates and moment)
        )  # fmt: skip
        if field.name in used and not plain:
            raise InvalidData(
                f"column {field.name!r} has the Parquet type {kind}, which has no encoding; turn "
                f'it into a number or a text, or set kind = "{"date" if moment else "ignore"}".'
            )
    return list(types.names)


def check_columns(
    path: Path | None, names: Sequence[str], schema: Schema, also: Sequence[str]
) -> None:
    """Refuse columns that are missing, doubled or unknown, by name: names are public.

    A first line without any known name may be somebody's row, so nothing of it is shown. A table
    in memory has no `path`.
    """
    known = {*schema.by_name, schema.target}
    if known.isdisjoint(names):
        if path is None:
            raise InvalidData("the table has none of the columns of the schema.")
        raise InvalidData(
            f"{path} names none of the columns of the schema; check delimiter and encoding under "
            "[file], or give --no-header if its first line is a row."
        )
    refuse_doubled(names)
    for name in filterfalse(known.__contains__, names):
        raise InvalidParameter(
            f"column {name!r} of the table is not in the schema; add it there, or give it "
            'kind = "ignore".'
            if name
            else "the table has a column without a name, perhaps by a separator at the line's end; "
            'write [columns.""] and kind = "ignore" into the schema.'
        )
    for name in filterfalse({*names}.__contains__, (*schema.used, *also)):
        raise InvalidData(f"the table has no column {name!r}, which the schema names.")


def refuse_doubled(names: Sequence[str]) -> None:
    """Refuse names of which two are alike."""
    for doubled in Counter(names) - Counter({*names}):
        named = f"named {doubled!r}" if doubled else "without a name"
        raise InvalidData(f"the table has two columns {named}; rename one.")


def count_units(path: Path, schema: Schema, *, header: bool) -> int:
    """Return how many rows a table has, or persons where the schema tells them apart.

    For tables of which that is public; cells are not looked at.
    """
    names, given = names_of(path, schema, schema.identifiers, header=header)
    who = schema.persons
    parts = pieces(path, schema.file, [names[0] if who is None else who.column], given)
    if who is None:
        return _validate.integer("the number of rows", sum(len(part[names[0]]) for part in parts))
    texts = [text for piece in parts for text in who.texts_of(piece[who.column])]
    return _validate.integer("the number of persons", who.group(texts).count)
