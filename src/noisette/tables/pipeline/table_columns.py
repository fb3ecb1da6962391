"""What public facts and released counts say of single columns: knots, and cells that nobody read.

Counts that a training releases tell whether nearly no cell of a column was read: those of the
cells that are missing (numbers, dates, hashed and learnt levels), and of those that hold no listed
level. A model of encoded rows releases no such count.
"""

from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.tables.kinds import Column
from noisette.tables.pipeline.categories import ShownLevels

_WIDE_RANGE = 200.0
_FEW, _SURE, _CLEAR = 0.02, 3.0, 0.01  # of the rows; deviations; how small a deviation tells it


def evenly(grid: Grid, count: int) -> dict[str, Any]:
    """Return knots between public bounds: even steps, or even ratios for a wide range of numbers.

    Days have even steps: the year 1970 is no zero around which they crowd.
    """
    ends = np.array([grid.low, grid.high], dtype=np.float64)
    wide = float(ends[1] - ends[0]) > _WIDE_RANGE and not grid.dates
    if wide:
        ends = np.sign(ends) * np.log1p(np.abs(ends))
    steps = np.linspace(float(ends[0]), float(ends[1]), count)
    if wide:
        steps = np.sign(steps) * np.expm1(np.abs(steps))
    return {"knots": np.unique(steps).tolist()}


def unread_note(column: Column, *, learnt: bool) -> str:
    """Return the sentence about a column; `learnt` levels are those of no list."""
    return (
        f"By the noisy counts, nearly no cell of column {column.name!r} "
        f"{column.unread(learnt=learnt)}, so it taught the model little: unless the table is so, "
        "check its kind, and how its cells are written."
    )


def nearly_none(column: Column, counts: Floats | ShownLevels, size: float, noise: float) -> bool:
    """Return whether released counts say so; they are of its places, or of learnt levels."""
    if noise > _CLEAR * size:
        return False
    if isinstance(counts, ShownLevels):
        gone = [count for text, count in counts.by_text.items() if not text]
    else:
        gone = counts[len(counts) - column.gone :].tolist()
    read = size - sum(gone)
    return bool(gone) and read <= max(_FEW * size, _SURE * len(gone) ** 0.5 * noise)


def unread_in(model: Any) -> dict[str, str]:
    """Return the sentence of each such column of a fitted model of a table, from its guarantee."""
    said, schema = set(model.privacy_.notes), model.schema_
    return {
        c.name: note
        for c in schema.columns
        if (note := unread_note(c, learnt=c.name in schema.learnt)) in said
    }
