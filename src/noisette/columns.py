"""Row-local encoders of columns: a cell and public facts -> features.

A number t is clipped to [low, high] and becomes width (curve(t) - zero) / (curve(high) -
curve(low)), where zero is the curve at the public centre, so that a typical person is near 0. A
category becomes an indicator for each public level and one for "anything else"; the reference
level, if one is named, is the zero vector. A missing number becomes 0, as if it were the centre.

Out-of-range, unlisted and unreadable cells are mapped silently. A warning or a count would tell
something about the rows, and no theorem has paid for it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from noisette._typing import Floats
from noisette.clipping import clip_rows

__all__ = [
    "CURVES",
    "Categorical",
    "Cells",
    "Column",
    "Encodes",
    "Ignored",
    "Numeric",
    "View",
    "canonical",
    "encode_rows",
]

_WHOLE = re.compile(r"[+-]?\d+\.0*")
_TRUTH = {"true": "true", "True": "true", "TRUE": "true"} | {
    "false": "false", "False": "false", "FALSE": "false",
}  # fmt: skip


def canonical(value: object) -> str:
    """Return the text by which cells and categories are compared.

    Blanks around it do not count; "1.0" and "1" are the same, and so are "True" and "true".
    """
    text = str(value).strip()
    if text in _TRUTH:
        return _TRUTH[text]
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


class Cells(Protocol):
    """One column of a piece of a table."""

    def __len__(self) -> int:
        """Return the number of cells."""

    def numbers(self) -> Floats:
        """Return numbers; NaN where the cell is missing."""

    def texts(self) -> Sequence[str]:
        """Return texts; "" where the cell is missing."""


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
class Ignored:
    """A column that is not used."""

    name: str

    @property
    def features(self) -> tuple[str, ...]:
        """No feature."""
        return ()

    @property
    def mean_square(self) -> float:
        """It adds nothing to the length of a row."""
        return 0.0

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write nothing: the cells are not looked at."""


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


@dataclass(frozen=True)
class Categorical:
    """Named groups of levels, the slot "other", and perhaps a slot for missing cells.

    Without `other`, an unlisted level is the zero vector, as the reference is.
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    reference: str | None = None
    other: bool = True
    weight: float = 1.0
    missing: tuple[str, ...] = ()
    missing_slot: bool = False

    @classmethod
    def of(
        cls, name: str, levels: Sequence[str], reference: str | None = None, *,
        other: bool = True, weight: float = 1.0,
    ) -> "Categorical":  # fmt: skip
        """Return a column in which every level is its own group."""
        return cls(name, tuple((level, (level,)) for level in levels), reference, other, weight)

    @cached_property
    def _slots(self) -> tuple[str, ...]:
        """The names of the indicators; a name in brackets cannot be mistaken for a level."""
        named = [f"={group}" for group, _ in self.groups if group != self.reference]
        named += [" (other)"] * self.other + [" (missing)"] * self.missing_slot
        return tuple(named)

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each slot."""
        return tuple(self.name + slot for slot in self._slots)

    @property
    def mean_square(self) -> float:
        """The squared weight, or half of it if a reference level saves a part of the rows."""
        return self.weight**2 * (1.0 if self.reference is None else 0.5)

    @cached_property
    def _places(self) -> tuple[dict[str, int], int, int]:
        """The slot of every known text, that of any other, and the number that means no slot."""
        slots = {slot: place for place, slot in enumerate(self._slots)}
        nowhere = len(slots)
        unlisted = slots[" (other)"] if self.other else nowhere
        absent = slots[" (missing)"] if self.missing_slot else unlisted
        known = {"": absent} | dict.fromkeys(self.missing, absent)
        for group, levels in self.groups:
            place = nowhere if group == self.reference else slots[f"={group}"]
            known.update(dict.fromkeys(levels, place))
        return known, unlisted, nowhere

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the indicators of all cells into `out`, shape (n, len(features))."""
        known, unlisted, nowhere = self._places
        quick = known.get
        found = [quick(text, -1) for text in cells.texts()]
        if -1 in found:  # only then is a cell's text brought into canonical form
            found = [
                quick(canonical(text), unlisted) if place < 0 else place
                for place, text in zip(found, cells.texts(), strict=True)
            ]
        places = np.array(found, dtype=np.intp)
        out[:] = 0.0
        rows = np.flatnonzero(places < nowhere)
        out[rows, places[rows]] = self.weight


Column = Numeric | Categorical | Ignored


class Encodes(Protocol):
    """What a table needs of a column: its published name, its features and how to fill them."""

    @property
    def name(self) -> str:
        """The published name of the column."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it becomes."""

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""


def encode_rows(columns: Sequence[Encodes], cells: Mapping[str, Cells], row_norm: float) -> Floats:
    """Return the rows, shape (n, d): columns side by side, divided by `row_norm`, cut to norm 1.

    Dividing by the largest possible norm instead would leave almost every row far inside the ball,
    and noise is added in units of the ball. Longer rows lose a little length, row by row.
    """
    # proof: ROW-LOCAL
    used = [column for column in columns if column.features]
    X = np.zeros((len(cells[used[0].name]), sum(len(column.features) for column in used)))
    start = 0
    for column in used:
        stop = start + len(column.features)
        column.fill(cells[column.name], X[:, start:stop])
        start = stop
    X /= row_norm
    clipped: Floats = clip_rows(X, 1.0)
    return clipped
