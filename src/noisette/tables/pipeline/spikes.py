"""`LearnSpikes`: single numbers that many people share, in columns whose knots are few.

A column such as capital gain is 0 for nine people in ten, and most others have one of a few dozen
amounts. Halving finds the 0 and little else: it needs hundreds of rows for each further knot. One
noisy count of the rows at each candidate of the grid finds an amount that a few dozen share.

How many columns are counted is fixed in the plan; which ones follows from the released knots.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.tables.pipeline.shares import LearnShares, Spread
from noisette.tables.pipeline.step import PreparedStep

# Deviations of the noise: between the knots, where numbers are, few empty candidates pass; beyond
# them hardly any of 16,563.
_SURE, _SURER = 3.3, 4.5
NOBODY = Spread((np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0)), 1)
_FULL = 2.0 / 3.0
_MOST = 24  # spikes of one column


@dataclass(frozen=True)
class LearnSpikes(LearnShares):
    """Release how many rows lie at each candidate of the grids of `columns` columns."""

    name: ClassVar[str] = "spikes"
    summary: ClassVar[str] = "single numbers that many people share"

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many rows must share a number."""
        sigma = self.deviation(prepared.scale, prepared.public.adjacency)
        return f"A number that fewer than about {_SURE * sigma:.3g} rows share is hardly seen."


def cells_of(values: Floats, grid: Grid) -> Spread:
    """Return the candidate that is nearest to each number; a missing one has none."""
    # proof: ROW-LOCAL
    placed, points = grid.place(values), grid.points
    rows = np.flatnonzero(~np.isnan(placed))
    nearest = np.searchsorted(points[1:] / 2.0 + points[:-1] / 2.0, placed[rows])
    return Spread((rows, nearest, np.ones(len(rows))), len(points))


def hollow(knots: dict[str, list[float]], depth: int, slots: int) -> list[str]:
    """Return up to `slots` columns that have less than two thirds of the knots asked for.

    Their parts could not be halved, mostly because one number fills them; the fewest come first.
    """
    few = [name for name in knots if len(knots[name]) < _FULL * (2**depth + 1)]
    return sorted(few, key=lambda name: len(knots[name]))[:slots]


def with_spikes(knots: list[float], counts: Floats, sigma: float, grid: Grid) -> list[float]:
    """Return the knots with those of the numbers whose noisy count is beyond doubt.

    A spike stands between its two neighbours on the grid, so that the curve may jump there.
    """
    points = grid.points
    inside = (points >= knots[0]) & (points <= knots[-1])
    places = np.flatnonzero(counts > np.where(inside, _SURE, _SURER) * sigma)
    places = places[places != counts.argmax()]  # what most people have is where the curve starts
    places = places[np.argsort(-counts[places])][:_MOST]
    around = np.unique((places[:, None] + np.arange(-1, 2)).ravel())
    around = around[(around >= 0) & (around < len(points))]
    return sorted({*knots, *points[around].tolist()})
