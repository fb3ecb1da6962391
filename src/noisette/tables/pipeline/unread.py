"""Say, from the noisy counts that a training releases, that nearly no cell of a column was read.

The counts are those of the cells that are missing (numbers, dates, hashed and learnt levels), and
of those that hold no listed level. A model of encoded rows releases no such count.
"""

from typing import Any

from noisette._typing import Floats
from noisette.tables.kinds import Categorical, Column, Dates, Hats
from noisette.tables.pipeline.categories import ShownLevels
from noisette.tables.pipeline.table_columns import inner_of

_FEW, _SURE, _CLEAR = 0.02, 3.0, 0.01  # of the rows; deviations; how small a deviation tells it


def unread_note(column: Column, *, learnt: bool) -> str:
    """Return the sentence about a column; `learnt` levels are those of no list."""
    inner = inner_of(column)
    read = "was there: nearly all are missing"
    if isinstance(column, Dates):
        read = "could be read as a date"
    elif isinstance(inner, Hats):
        read = "could be read as a number"
    elif isinstance(inner, Categorical) and not learnt:
        read = "held one of the listed levels"
    return (
        f"By the noisy counts, nearly no cell of column {column.name!r} {read}, so it taught the "
        "model little: unless the table is so, check its kind, and how its cells are "
        "written."
    )


def nearly_none(column: Column, counts: Floats | ShownLevels, size: float, noise: float) -> bool:
    """Return whether released counts say so; they are of its features, or of learnt levels."""
    if noise > _CLEAR * size:
        return False
    inner = inner_of(column)
    if isinstance(counts, ShownLevels):
        gone = [count for text, count in zip(counts.levels, counts.counts, strict=True) if not text]
    else:
        slots = int(getattr(inner, "missing_slot", False))
        if isinstance(inner, Categorical) and inner.groups and inner.other:
            slots += 1
        gone = counts[len(counts) - slots :].tolist()
    read = size - sum(gone)
    return bool(gone) and read <= max(_FEW * size, _SURE * len(gone) ** 0.5 * noise)


def unread_in(model: Any) -> dict[str, str]:
    """Return the sentence of each such column of a fitted model of a table, from its guarantee."""
    said, schema = set(model.privacy_.notes), model.schema_
    every = {c.name: unread_note(c, learnt=c.name in schema.learnt) for c in schema.columns}
    return {name: note for name, note in every.items() if note in said}
