"""Row-local encoders: a published column and public facts -> columns of features.

A number is clipped to public bounds, perhaps passed through a public curve, and mapped to an
interval of public width with 0 at a public typical value. A category becomes one indicator per
public level and one for "anything else"; a public reference level is the zero vector.

Why zero stands at the typical value and the commonest level is the reference: a mechanism pays
for the longest row it must allow for, so the constant part of a row is paid for and carries no
signal. `Encoder` then divides by `typical_norm` and clips to norm 1: dividing by the largest
possible norm instead would leave almost every row far inside the ball, and noise is added in
units of the ball. Longer rows lose a little length, which is row-local as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.clipping import clip_rows
from noisette.datasets.base import Table

__all__ = ["Angle", "Category", "Column", "Encoder", "Number"]

_CURVES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda t: t,
    "log1p": np.log1p,
    "signed-log1p": lambda t: np.sign(t) * np.log1p(np.abs(t)),
}


class Column(Protocol):
    """One published column (named `name`) turned into features."""

    @property
    def name(self) -> str:
        """The published name of the column."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it becomes."""

    def fill(self, values: NDArray[np.generic], out: Floats) -> None:
        """Write the features of `values` into `out`, shape (n, len(features))."""


@dataclass(frozen=True)
class Number:
    """t -> width (curve(t) - curve(zero)) / (curve(high) - curve(low)), t clipped to [low, high].

    With ``square=True`` the result is squared (distance from the typical value, either side).
    """

    name: str
    low: float
    high: float
    zero: float = 0.0
    width: float = 1.0
    curve: str = "linear"
    square: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """One feature."""
        return (f"{self.name}^2" if self.square else self.name,)

    def fill(self, values: NDArray[np.generic], out: Floats) -> None:
        """Write the scaled numbers into `out`, shape (n, 1)."""
        curve = _CURVES[self.curve]
        low, high, zero = curve(np.array([self.low, self.high, self.zero]))
        moved = curve(np.clip(values.astype(np.float64), self.low, self.high)) - zero
        moved *= self.width / (high - low)
        out[:, 0] = moved * moved if self.square else moved


@dataclass(frozen=True)
class Angle:
    """Degrees -> (cosine, sine) times `width` / 2."""

    name: str
    width: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """Two features."""
        return (f"cos({self.name})", f"sin({self.name})")

    def fill(self, values: NDArray[np.generic], out: Floats) -> None:
        """Write cosine and sine into `out`, shape (n, 2)."""
        radians = np.deg2rad(values.astype(np.float64))
        out[:, 0] = self.width / 2.0 * np.cos(radians)
        out[:, 1] = self.width / 2.0 * np.sin(radians)


@dataclass(frozen=True)
class Category:
    """One indicator per group of levels, one for anything else, none for the reference group.

    `groups` maps a feature name to the published levels that it stands for. Without `other`, an
    unlisted level counts as the reference (the zero vector).
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    reference: str | None = None
    other: bool = True
    weight: float = 1.0

    @classmethod
    def of(
        cls,
        name: str,
        levels: Sequence[str],
        reference: str | None = None,
        *,
        other: bool = True,
        weight: float = 1.0,
    ) -> "Category":
        """Return a category in which every level is its own group."""
        groups = tuple((level, (level,)) for level in levels)
        return cls(name, groups, reference, other, weight)

    @property
    def _slots(self) -> tuple[str, ...]:
        named = tuple(group for group, _ in self.groups if group != self.reference)
        return (*named, "other") if self.other else named

    @property
    def features(self) -> tuple[str, ...]:
        """One feature per group but the reference, and "other" last."""
        return tuple(f"{self.name}={slot}" for slot in self._slots)

    def fill(self, values: NDArray[np.generic], out: Floats) -> None:
        """Write the indicators into `out`, shape (n, len(features))."""
        slots = self._slots
        nowhere = len(slots)
        position = {group: slots.index(group) for group, _ in self.groups if group in slots}
        known = sorted(
            (level.encode(), position.get(group, nowhere))
            for group, levels in self.groups
            for level in levels
        )
        levels = np.array([level for level, _ in known])
        codes = np.array([code for _, code in known])
        place = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
        unlisted = nowhere - 1 if self.other else nowhere
        found = np.where(levels[place] == values, codes[place], unlisted)
        out[:] = 0.0
        rows = np.flatnonzero(found < nowhere)
        out[rows, found[rows]] = self.weight


@dataclass(frozen=True)
class Encoder:
    """All columns side by side, divided by `typical_norm`, rows clipped to norm 1."""

    columns: tuple[Column, ...]
    typical_norm: float

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def __call__(self, table: Table) -> Floats:
        """Return the encoded rows, shape (n, d), each of norm at most 1."""
        n = len(next(iter(table.values())))
        X = np.empty((n, len(self.features)))
        start = 0
        for column in self.columns:
            stop = start + len(column.features)
            column.fill(table[column.name], X[:, start:stop])
            start = stop
        X /= self.typical_norm
        clipped: Floats = clip_rows(X, 1.0)
        return clipped
