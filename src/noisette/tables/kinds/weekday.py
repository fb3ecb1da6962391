"""The weekday of a date, as a point on a circle, so that Sunday stands next to Monday.

The k-th day from Monday on becomes (cos, sin) of k sevenths of a turn, a little inside of the
circle: squares of the two add up to at most 1. A missing cell is in the middle, (0, 0), and fills
its slot if there is one. So the square of a row grows by at most 1, whatever the cell.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.tables.kinds.base import Cells, Column, Entries, Points, in_slots
from noisette.tables.kinds.dates import Days
from noisette.tables.kinds.kind import Kind, Stated

WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_INSIDE = 1.0 - 2.0**-50  # more than the rounding of cosine and sine
_FIRST = 3  # 1 January 1970 was a Thursday


@dataclass(frozen=True)
class Weekday(Column):
    """The weekday of a date; a moment counts in UTC, or as it stands if it has no time zone."""

    kind: ClassVar[str] = "weekday"
    free: ClassVar[str] = "weekdays by their place on a circle (free)"
    unpaired: ClassVar[str] = 'is a weekday, which has no levels; as a "date" it can be paired'
    most_square: ClassVar[float] = 1.0  # proof: ROW-LOCAL

    @property
    def features(self) -> tuple[str, ...]:
        """Two features, and one for missing cells if there is a slot."""
        ends = (f"cos({self.name})", f"sin({self.name})")
        return (*ends, *[f"{self.name} is missing"] * self.missing_slot)

    @property
    def nonzeros(self) -> int:
        """Cosine and sine, and one for missing cells if there is a slot."""
        return len(self.features)

    @property
    def _rows(self) -> Floats:
        """The features of each weekday, and of a missing cell."""
        turn = 2.0 * math.pi * np.arange(7) / 7.0
        rows = np.zeros((8, self.nonzeros))
        rows[:7, 0], rows[:7, 1] = _INSIDE * np.cos(turn), _INSIDE * np.sin(turn)
        rows[7, 2:] = 1.0
        return rows

    def _days(self, cells: Cells) -> NDArray[np.intp]:
        """Return the weekday of every cell from Monday = 0 on; 7 is missing."""
        # proof: ROW-LOCAL
        days = (np.floor(self.reading.numbers(cells, self.missing)) + _FIRST) % 7
        return np.where(np.isnan(days), 7, days).astype(np.intp)

    def entries(self, cells: Cells) -> Entries:
        """Return the features of all cells."""
        values = self._rows[self._days(cells)]
        return np.broadcast_to(np.arange(self.nonzeros, dtype=np.int32), values.shape), values

    @property
    def places(self) -> int:
        """Seven days, and missing cells if there is a slot."""
        return 7 + self.missing_slot

    @property
    def place_rows(self) -> Floats:
        """The features of each of them."""
        return self._rows[: self.places]

    def spread(self, cells: Cells) -> Entries:
        """Return the indicator of each cell's weekday, or of its slot if it is missing."""
        return in_slots(self.places, 1.0, self._days(cells))

    @property
    def points(self) -> Points:
        """The days of the week."""
        return Points("levels", (*WEEK, *["(missing)"] * self.missing_slot), self.place_rows)

    def describe(self) -> str:
        """Return what becomes of a date."""
        slot = "; a slot for missing" * self.missing_slot
        return f"the day of the week, as a point on a circle{slot}{self.reading.written}"

    def forecast(self, groups: int, *, bought: bool) -> str:
        """Say that nothing is bought but counts."""
        return "two numbers, the place of the weekday on a circle; nothing to state"

    def card(self, weights: Floats) -> dict[str, Any]:
        """Return what the days add, in a cycle that starts with day 0, 1 January 1970."""
        rows = [
            list(map(list, zip(row, weights.tolist(), strict=True))) for row in self._rows.tolist()
        ]
        week = [rows[(day + _FIRST) % 7][:2] for day in range(7)]
        return {"cycle": week, "missing": rows[7][2:]} | self.reading.card(self.missing)


def _parse(stated: Stated) -> Weekday:
    return Weekday(
        stated.name, reading=Days.of(stated), missing=stated.texts, missing_slot=stated.slot
    )


WEEKDAY = Kind(
    "weekday",
    "the weekday of a date",
    "Days of which only the weekday matters, such as that of an admission; written like 2020-12-31 "
    "or as you say on the card.",
    ("", "of a date, only its day of the week: Sunday stands next to Monday"),
    _parse,
    ("format",),
    asks=("format",),
)
