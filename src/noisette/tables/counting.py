"""How many rows or persons a table has, where that is public; cells are not looked at."""

from pathlib import Path

from noisette import _validate
from noisette.tables.encoding import check_columns, names_of
from noisette.tables.reading import pieces
from noisette.tables.schema import Schema


def count_units(path: Path, schema: Schema, *, header: bool) -> int:
    """Return the number of rows, or of persons where the schema tells them apart."""
    names, given = names_of(path, schema, target=False, header=header)
    check_columns(path, names, schema, target=False)
    who = schema.persons
    first = list(names[:1]) if who is None else [who.column]
    parts = pieces(path, schema.file, first, given)
    if who is not None:
        who.require(names)
        texts = [text for piece in parts for text in who.texts_of(piece[who.column])]
        return _validate.integer("the number of persons", who.group(texts).count)
    count = sum(len(next(iter(piece.values()))) for piece in parts)
    return _validate.integer("the number of rows", count)
