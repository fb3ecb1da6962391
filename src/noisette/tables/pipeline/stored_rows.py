"""The rows of a table in the coordinates of its model, and the room that they need."""

from collections.abc import Sequence
from typing import Any

from noisette.errors import InvalidData
from noisette.tables import Schema
from noisette.tables.frame import Frame
from noisette.tables.pipeline.coordinates import Coordinates
from noisette.tables.pipeline.pair_cells import CELLS, PairView
from noisette.tables.spill import IN_MEMORY, Spill
from noisette.tables.stored_rows import Keeping

_MOST = 1 << 30  # bytes of rows that stay in memory where the disk has no room for them
_WIDE = 2**26  # entries of dense rows at most (`table_run.is_wide`)


def room_for(frame: Frame, pairs: int = 0) -> Spill | None:
    """Return a file with room for the encoded rows of a table; None if memory will do.

    The bound follows from the kinds of the columns and the number of rows: three entries of a
    number, one of a category, four of a pair. It is asked for before the charge, so no full disk
    comes after it.
    """
    columns = () if frame.schema is None else frame.schema.columns
    entries = 1 + sum(3 if column.reading.word else 1 for column in columns)
    entries += CELLS * pairs
    copies = 1 if frame.schema is None or frame.schema.persons is None else 2  # without those
    size = 12 * entries * frame.rows  # beyond a person's cap
    if size <= IN_MEMORY:
        return None
    room = Spill()
    try:
        room.reserve(copies * max(size, 8 * (_WIDE + frame.rows)))
    except InvalidData:
        if size > _MOST:
            raise
        return None
    return room


def encoded_rows(
    frame: Frame, schema: Schema, coords: Coordinates, room: Spill | None,
    pairs: Sequence[PairView] = (),
) -> Any:  # fmt: skip
    """Return the rows of a table in their coordinates; in the file if they are many."""
    kept = Keeping(room)
    for _, block in frame.blocks():
        kept.add(coords.rows(schema.columns, block.columns, pairs))
    return kept.rows()
