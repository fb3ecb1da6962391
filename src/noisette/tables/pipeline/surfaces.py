"""`PairSurface`: what two columns add together to the score, in their own units, with its noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisette._typing import Bools, Floats
from noisette.tables import Schema
from noisette.tables.kinds import Categorical, Column, Dates, Hats, day_text
from noisette.tables.pipeline.pairs import ColumnPair


@dataclass(frozen=True)
class PairSurface:
    """What the cells of two columns add together, beyond what each of them adds by itself.

    Parameters
    ----------
    columns : tuple of two str
        The first one goes down the rows of `value`, the second one across.
    kinds : tuple of two str
        "number", "date" or "levels".
    at : two tuples
        The knots or levels of each; between knots the surface is linear in either column.
    value : ndarray of shape (a, b) or (a, b, K)
        What is added at each of them; for K > 2 classes, to each of their scores.
    deviation : ndarray of shape (a, b)
        The standard deviation of the noise in it, model-based.
    known : ndarray of bool of shape (a, b)
        Where enough rows are; all other cells add one and the same number.

    """

    columns: tuple[str, str]
    kinds: tuple[str, str]
    at: tuple[tuple[Any, ...], tuple[Any, ...]]
    value: Floats
    deviation: Floats
    known: Bools

    @property
    def name(self) -> str:
        """Both names."""
        return " × ".join(self.columns)

    @property
    def labels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The points of both as texts, days as dates."""
        first, second = (
            tuple(_text(kind, point) for point in points)
            for kind, points in zip(self.kinds, self.at, strict=True)
        )
        return first, second

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts, for JSON."""
        return {
            "columns": list(self.columns), "kinds": list(self.kinds),
            "at": [list(each) for each in self.at], "value": self.value.tolist(),
            "deviation": self.deviation.tolist(), "known": self.known.tolist(),
        }  # fmt: skip


def _text(kind: str, point: Any) -> str:
    if kind == "levels":
        return str(point)
    return day_text(point) if kind == "date" else f"{point:.6g}"


def surfaces_of(schema: Schema, pairs: Sequence[ColumnPair]) -> tuple[PairSurface, ...]:
    """Return the surface of every pair: post-processing of released values."""
    columns = {column.name: column for column in schema.columns}
    found = []
    for pair in pairs:
        sides = [_side(columns[n], k) for n, k in zip(pair.columns, pair.kept, strict=True)]
        value = np.moveaxis(pair.weights - np.array(pair.centre)[:, None, None], 0, -1)
        value = value[:, :, 0] if value.shape[2] == 1 else value
        kinds, at = (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1])
        known = (pair.weights != 0.0).any(axis=0)  # cells that are left out have no weight
        found.append(PairSurface(pair.columns, kinds, at, value, pair.deviation, known))
    return tuple(found)


def _side(column: Column, kept: Sequence[int]) -> tuple[str, tuple[Any, ...]]:
    inner = column.column if isinstance(column, Dates) else column
    if isinstance(inner, Hats):
        kind = "date" if isinstance(column, Dates) else "number"
        return kind, tuple(inner.knots[k] for k in kept)
    assert isinstance(inner, Categorical)
    names = [group for group, _ in inner.groups if group != inner.reference]
    return "levels", tuple(names[k] for k in kept)
