"""Numbers: clipped to public bounds and moved by a public curve.

A number t is clipped to [low, high] and becomes width (curve(t) - zero) / (curve(high) -
curve(low)), where zero is the curve at the public centre, so that a typical person is near 0. A
missing number becomes 0, as if it were the centre.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisette._typing import Floats
from noisette.tables.kinds.base import Cells, Entries

CURVES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda t: t,
    "log1p": np.log1p,
    "signed-log1p": lambda t: np.sign(t) * np.log1p(np.abs(t)),
}


@dataclass(frozen=True)
class View:
    """One feature made of a number; with `square` the result is squared (both tails count)."""

    low: float
    high: float
    center: float | None = None
    width: float = 2.0
    curve: str = "linear"
    square: bool = False

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest value of the feature."""
        ends = self._map(np.array([self.low, self.high]))
        if not self.square:
            return float(ends[0]), float(ends[1])
        return 0.0, float((ends * ends).max())

    def _map(self, t: Floats) -> Floats:
        curve = CURVES[self.curve]
        low, high = curve(np.array([self.low, self.high]))
        zero = (low + high) / 2.0
        if self.center is not None:
            zero = curve(np.array([self.center]))[0]
        # Divided first: the width of a huge range may overflow.
        return np.asarray((curve(t) / (high - low) - zero / (high - low)) * self.width)

    def __call__(self, numbers: Floats) -> Floats:
        """Return the feature of every number; 0 for NaN."""
        moved = self._map(np.clip(numbers, self.low, self.high))
        moved[np.isnan(numbers)] = 0.0
        return moved * moved if self.square else moved


@dataclass(frozen=True)
class Numeric:
    """A number, seen through one or more views; `missing` are codes such as 999."""

    name: str
    views: tuple[View, ...]
    missing: tuple[float, ...] = ()
    missing_slot: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each view, and one for missing cells if there is a slot."""
        names = []
        for view in self.views:
            name = self.name if view.curve == "linear" else f"{view.curve}({self.name})"
            name = f"{name}^2" if view.square else name
            names.append(name if name not in names else f"{name} up to {view.high:g}")
        return (*names, f"{self.name} is missing") if self.missing_slot else tuple(names)

    @property
    def mean_square(self) -> float:
        """What it adds to a squared row length if values spread evenly: a guess, not data."""
        return sum(((b - a) ** 2) / 12.0 for a, b in (view.span for view in self.views))

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""
        numbers = cells.numbers()
        for code in self.missing:
            numbers[numbers == code] = np.nan
        for j, view in enumerate(self.views):
            out[:, j] = view(numbers)
        if self.missing_slot:
            out[:, -1] = np.isnan(numbers)

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        square = sum(max(a * a, b * b) for a, b in (view.span for view in self.views))
        return max(square, 1.0) if self.missing_slot else square  # a missing number is 0

    @property
    def nonzeros(self) -> int:
        """One for each view, and one for missing cells if there is a slot."""
        return len(self.views) + self.missing_slot

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        out = np.zeros((len(cells), self.nonzeros))
        self.fill(cells, out)
        return np.broadcast_to(np.arange(self.nonzeros, dtype=np.int32), out.shape), out
