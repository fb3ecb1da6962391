"""Hat functions: a number as a point between its two nearest knots.

The hat of a knot is 1 there, 0 at its neighbours and beyond, and linear in between; a number
outside of the knots counts as the nearest one. So at most two hats differ from zero, they add up
to 1, and their squares to at most 1. A linear model of hats is any broken line with those knots.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Bools, Floats
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Entries, scatter


@dataclass(frozen=True)
class Hats:
    """A number through the hats of increasing `knots`; `missing` are codes such as 999.

    A missing number counts as `center`, or as the middle knot if there is none; with
    `missing_slot` a feature says that it is missing. One knot makes a constant, so no feature.
    """

    name: str
    knots: tuple[float, ...]
    center: float | None = None
    missing: tuple[float, ...] = ()
    missing_slot: bool = False

    def __post_init__(self) -> None:
        knots = np.array(self.knots, dtype=np.float64)
        # Up to 1e300 the distance of two knots is an ordinary number.
        if len(knots) == 0 or not (np.abs(knots) <= 1e300).all() or (np.diff(knots) <= 0.0).any():
            raise InvalidParameter(
                f"column {self.name!r}: knots must be increasing numbers between -1e300 and 1e300."
            )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The knots as texts, rounded unless two of them would look the same."""
        short = tuple(f"{knot:.6g}" for knot in self.knots)
        return short if len(set(short)) == len(short) else tuple(map(repr, self.knots))

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each knot, and one for missing cells if there is a slot."""
        hats = tuple(f"{self.name} ~ {label}" for label in self.labels) if self._bends else ()
        return (*hats, f"{self.name} is missing") if self.missing_slot else hats

    @property
    def _bends(self) -> bool:
        return len(self.knots) > 1

    @property
    def mean_square(self) -> float:
        """What it adds to a squared row length if values spread evenly: a guess, not data."""
        return 2.0 / 3.0 if self._bends else 0.0

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return 1.0 * self._bends + 1.0 * self.missing_slot

    @property
    def nonzeros(self) -> int:
        """Two hats, and one for missing cells if there is a slot."""
        return 2 * self._bends + self.missing_slot

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        numbers = cells.numbers()
        for code in self.missing:
            numbers[numbers == code] = np.nan
        absent = np.isnan(numbers)
        features = np.empty((len(numbers), self.nonzeros), dtype=np.int32)
        values = np.empty(features.shape)
        if self._bends:
            self._hats(numbers, absent, features, values)
        if self.missing_slot:
            features[:, -1] = len(self.knots) if self._bends else 0
            values[:, -1] = absent
        return features, values

    def _hats(
        self, numbers: Floats, absent: Bools, features: NDArray[np.int32], values: Floats
    ) -> None:
        knots = np.array(self.knots)
        middle = self.knots[len(knots) // 2] if self.center is None else self.center
        numbers[absent] = middle
        t = np.clip(numbers, knots[0], knots[-1], out=numbers)
        left = np.searchsorted(knots[1:-1], t, side="right")
        share = (t - knots[left]) / np.diff(knots)[left]
        features[:, 0], features[:, 1] = left, left + 1
        values[:, 0], values[:, 1] = 1.0 - share, share

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""
        scatter(self.entries(cells), out)
