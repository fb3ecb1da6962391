"""Hat functions: a number as a point between its two nearest knots.

The hat of a knot is 1 there, 0 at its neighbours and beyond, and linear in between; a number
outside of the knots counts as the nearest one. So at most two hats differ from zero, they add up
to 1, and their squares to at most 1. A linear model of hats is any broken line with those knots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import (
    NUMBERS,
    Cells,
    Column,
    Entries,
    Points,
    Reading,
    scatter,
    some,
)


@dataclass(frozen=True)
class ReadAsNumber(Column):
    """A column whose cells are read as numbers, or as dates."""

    _: KW_ONLY
    reading: Reading = NUMBERS

    at: ClassVar[Any] = ()
    """The numbers that stand for it."""

    entries_at: ClassVar[Callable[..., Entries]]
    """Returns the entries of numbers, NaN for a missing one."""

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        return self.entries_at(self.reading.numbers(cells, self.missing))

    @property
    def points(self) -> Points:
        """The numbers that stand for it, and behind them a missing one if it has a slot."""
        shown = np.array([*self.at, *[np.nan] * self.missing_slot])
        rows = np.zeros((len(shown), len(self.features)))
        scatter(self.entries_at(shown), rows)
        return Points("date" if self.reading.moments else "number", self.at, rows)

    @property
    def _about_missing(self) -> str:
        codes = ", ".join(f"{code:g}" for code in self.missing if not isinstance(code, str))
        text = f"; missing if {codes}" if codes else ""
        return f"{text}{'; a slot for missing' * self.missing_slot}{self.reading.written}"

    def _on_card(self, form: dict[str, Any], missing: list[Any], weights: Floats) -> dict[str, Any]:
        missing = missing + [[1.0, weights[-1].tolist()]] * self.missing_slot
        return form | {"missing": missing} | self.reading.card(self.missing)


@dataclass(frozen=True)
class Hats(ReadAsNumber):
    """A number through the hats of increasing `knots`; `missing` are codes such as 999.

    A missing number counts as `center`, or as the middle knot if there is none; with
    `missing_slot` a feature says that it is missing. One knot makes a constant, so no feature.
    """

    knots: tuple[float, ...]
    center: float | None = None

    ordered: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        knots = np.array(self.knots, dtype=np.float64)
        # Up to 1e300 the distance of two knots is an ordinary number.
        if len(knots) == 0 or not (np.abs(knots) <= 1e300).all() or (np.diff(knots) <= 0.0).any():
            raise InvalidParameter(
                f"column {self.name!r}: knots must be increasing numbers between -1e300 and 1e300."
            )

    @cached_property
    def features(self) -> tuple[str, ...]:
        """One feature for each knot, and one for missing cells if there is a slot."""
        hats = [f"{self.name} ~ {label}" for label in self.reading.labels(self.knots)]
        return (*hats * self._bends, *[f"{self.name} is missing"] * self.missing_slot)

    @property
    def _bends(self) -> bool:
        return len(self.knots) > 1

    @property
    def _middle(self) -> float:
        return self.knots[len(self.knots) // 2] if self.center is None else self.center

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

    def entries_at(self, numbers: Floats) -> Entries:
        """Return the entries of numbers, NaN for a missing one."""
        absent, knots = np.isnan(numbers), np.array(self.knots)
        features = np.empty((len(numbers), self.nonzeros), dtype=np.int32)
        values = np.empty(features.shape)
        if self._bends:
            numbers[absent] = self._middle
            t = np.clip(numbers, knots[0], knots[-1], out=numbers)
            left = np.searchsorted(knots[1:-1], t, side="right")
            share = (t - knots[left]) / np.diff(knots)[left]
            features[:, 0], features[:, 1] = left, left + 1
            values[:, 0], values[:, 1] = 1.0 - share, share
        if self.missing_slot:
            features[:, -1] = len(knots) if self._bends else 0
            values[:, -1] = absent
        return features, values

    def spread(self, cells: Cells) -> Entries:
        """Return the hats of every cell; a missing one with a slot counts as nothing else."""
        features, values = self.entries(cells)
        if self.missing_slot:
            values[values[:, -1] > 0.0, :-1] = 0.0
        return features, values

    @property
    def filled(self) -> Floats | None:
        """The hats of a missing cell, if a slot says that it is missing."""
        if not self.missing_slot:
            return None
        out, knots = np.zeros(len(self.features)), np.array(self.knots)
        for k, row in enumerate(np.eye(len(knots)) if self._bends else ()):
            out[k] = max(np.interp(self._middle, knots, row), 0.0)
        return out

    @property
    def ends(self) -> tuple[float, float]:
        """The outer knots."""
        return self.knots[0], self.knots[-1]

    @property
    def size(self) -> int:
        """How many knots it has."""
        return len(self.knots)

    @property
    def at(self) -> tuple[float, ...]:
        """The knots, where there are features of them."""
        return self.knots if self._bends else ()

    def describe(self) -> str:
        """Return its knots and codes."""
        knots = some(list(map(self.reading.label, self.knots)))
        centre = "" if self.center is None else f"; centre {self.reading.label(self.center)}"
        return f"knots {knots}{centre}{self._about_missing}"

    def forecast(self, groups: int, *, bought: bool) -> str:
        """Say where its knots come from."""
        where = "bought" if bought else "set between the stated bounds, for free"
        return f"up to {len(self.knots)} knots, {where}"

    def card(self, weights: Floats) -> dict[str, Any]:
        """Return a broken line: knots, and the weights there."""
        knots, at = self.knots, weights[: len(self.knots)].tolist()
        if not self._bends:  # one knot has no feature
            knots, at = (0.0, 1.0), np.zeros((2, weights.shape[1])).tolist()
        middle = self._middle
        left = min(max(int(np.searchsorted(knots, middle, side="right")) - 1, 0), len(knots) - 2)
        share = float(np.clip((middle - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0))
        missing = [[1.0 - share, at[left]], [share, at[left + 1]]]
        return self._on_card({"knots": list(knots), "weights": at}, missing, weights)

    def coarse(self, cells: int, counts: Mapping[str, float]) -> tuple[int, ...]:
        """Return `cells` of its knots, evenly among them."""
        if not self._bends:
            return ()
        even = np.linspace(0.0, len(self.knots) - 1.0, min(cells, len(self.knots)))
        return tuple(np.unique(np.round(even).astype(int)).tolist())

    def merge(self, kept: Sequence[int]) -> Floats:
        """Return the matrix that makes hats of a few knots of all hats.

        Entries are at least 0 and those of a row at most 1; a missing number counts as the middle.
        """
        out, knots = np.zeros((len(self.features), len(kept))), np.array(self.knots)
        for cell, unit in enumerate(np.eye(len(kept))):
            out[: len(knots), cell] = np.clip(np.interp(knots, knots[list(kept)], unit), 0.0, 1.0)
        return out
