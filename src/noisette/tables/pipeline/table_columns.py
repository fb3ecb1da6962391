"""What the public facts of a column say to a table's training: its grid, knots and fillings."""

import math
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.tables.kinds import Categorical, Column, Dates, Hats, Numeric, Open
from noisette.tables.pipeline.categories import ShownLevels
from noisette.tables.pipeline.knots import Knots

_WIDE_RANGE = 200.0


def is_plain(column: Column) -> bool:
    """Whether a column is a number, so that hats take the place of it and of its stated curve."""
    inner = inner_of(column)
    return isinstance(inner, Numeric) or (isinstance(inner, Open) and inner.kind != "categorical")


def inner_of(column: Column) -> Column:
    """Return the column of numbers that a column of dates is, and any other as it is."""
    return column.column if isinstance(column, Dates) else column


def grid_of(column: Column) -> Grid:
    """Return the public candidates for the knots of a column of numbers."""
    inner = inner_of(column)
    if isinstance(inner, Open):
        return Grid(inner.low, inner.high, dates=inner.kind == "date")
    assert isinstance(inner, Numeric)
    view = inner.views[0]
    return Grid(view.low, view.high, dates=isinstance(column, Dates))


def evenly(grid: Grid, count: int) -> dict[str, Any]:
    """Return knots between public bounds: even steps, or even ratios for a wide range of numbers.

    Days have even steps: the year 1970 is no zero around which they crowd.
    """
    assert grid.low is not None
    assert grid.high is not None
    ends = np.array([grid.low, grid.high])
    wide = grid.high - grid.low > _WIDE_RANGE and not grid.dates
    if wide:
        ends = np.sign(ends) * np.log1p(np.abs(ends))
    steps = np.linspace(float(ends[0]), float(ends[1]), count)
    if wide:
        steps = np.sign(steps) * np.expm1(np.abs(steps))
    return {"knots": np.unique(steps).tolist()}


def knot_facts(found: Knots) -> dict[str, Any]:
    """Return released knots as the facts of a column."""
    return {"knots": list(found.knots) or [found.median], "center": found.median}


def filled(column: Column) -> Floats | None:
    """Return the hats of a missing cell, if a slot says that it is missing."""
    if not isinstance(column, Hats) or not column.missing_slot:
        return None
    out = np.zeros(len(column.features))
    if len(column.knots) > 1:
        knots = np.array(column.knots)
        middle = knots[len(knots) // 2] if column.center is None else column.center
        out[: len(knots)] = np.maximum(
            [np.interp(middle, knots, row) for row in np.eye(len(knots))], 0.0
        )
    return out


def sums_of_levels(levels: ShownLevels, column: Column, size: float) -> Floats:
    """Return the sums of the features of a column whose levels were released: levels, other."""
    assert isinstance(column, Categorical)
    counts = dict(zip(levels.levels, levels.counts, strict=True))
    named = [counts.get(group, 0.0) for group, _ in column.groups if group != column.reference]
    missing = counts.get("", 0.0)
    rest = max(size - math.fsum(named) - missing, 0.0)
    tail = [rest] * column.other + [missing] * column.missing_slot
    return np.array([*named, *tail])
