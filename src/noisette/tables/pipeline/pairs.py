"""Pairs of columns: how users name them, what was released (`ColumnPair`), what it shows.

`PairSurface` has what two columns add together to the score, in their own units, with its noise.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette._typing import Bools, Floats
from noisette.errors import InvalidParameter
from noisette.tables import Schema
from noisette.tables.pipeline.curves import LABELS
from noisette.tables.pipeline.pair_cells import PairView

_MOST_PAIRS = 20


@dataclass(frozen=True)
class ColumnPair(PairView):
    """What two columns add together: the views of both, and what was released of their cells.

    `weights` are of shape (outputs, a, b), `centre` is what the pair adds to each output of an
    average row, `deviation` the noise of every cell, model-based.
    """

    weights: Floats
    centre: tuple[float, ...]
    deviation: Floats

    def times(self, factor: float) -> "ColumnPair":
        """Return the pair in another unit."""
        return replace(
            self, weights=factor * self.weights, deviation=factor * self.deviation,
            centre=tuple(factor * each for each in self.centre),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for a file."""
        return {
            "columns": list(self.columns), "kept": [list(each) for each in self.kept],
            "weights": self.weights.tolist(), "centre": list(self.centre),
            "deviation": self.deviation.tolist(),
        }  # fmt: skip

    def surface(self, schema: Schema) -> "PairSurface":
        """Return what it adds, in the units of its columns: post-processing of released values."""
        first, second = (schema.by_name[name].points for name in self.columns)
        down, across = self.kept
        at = tuple(map(first.at.__getitem__, down)), tuple(map(second.at.__getitem__, across))
        value = np.moveaxis(self.weights - np.array(self.centre)[:, None, None], 0, -1)
        value = value[:, :, 0] if value.shape[2] == 1 else value
        known = (self.weights != 0.0).any(axis=0)  # cells that are left out have no weight
        return PairSurface(
            self.columns, (first.form, second.form), at, value, self.deviation, known
        )

    @classmethod
    def read(cls, node: Any, schema: Schema, outputs: int) -> "ColumnPair":
        """Return what `to_dict` wrote; TypeError, ValueError or KeyError if it is none."""
        first, second = node["columns"]
        kept = tuple(tuple(each) for each in node["kept"])
        widths = {column.name: len(column.features) for column in schema.columns}
        for name, places in zip((first, second), kept, strict=True):
            if not all(type(k) is int and 0 <= k < widths[name] for k in places):
                raise TypeError
        shape = (len(kept[0]), len(kept[1]))
        wanted = {"weights": (outputs, *shape), "deviation": shape, "centre": (outputs,)}
        found = {name: np.array(node[name], dtype=np.float64) for name in wanted}
        for name, each in found.items():
            if each.shape != wanted[name] or not np.isfinite(each).all():
                raise TypeError
        return cls(
            (first, second), (kept[0], kept[1]), found["weights"],
            tuple(found["centre"].tolist()), found["deviation"],
        )  # fmt: skip


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
        down, across = (LABELS[kind] for kind in self.kinds)
        return tuple(map(down, self.at[0])), tuple(map(across, self.at[1]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts, for JSON."""
        return {
            "columns": list(self.columns), "kinds": list(self.kinds),
            "at": [list(each) for each in self.at], "value": self.value.tolist(),
            "deviation": self.deviation.tolist(), "known": self.known.tolist(),
        }  # fmt: skip


def checked_pairs(pairs: Any, schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the pairs of names that the user states, or refuse them in one sentence."""
    if pairs is None:
        return ()
    known = schema.by_name
    found: list[tuple[str, str]] = []
    for each in [pairs] if isinstance(pairs, str) else pairs:
        if isinstance(each, str) or len(each) != 2 or each[0] == each[1]:
            raise InvalidParameter(
                "pairs must be a list of pairs of column names, such as [('age', 'hours')]."
            )
        first, second = map(str, each)
        for name in (first, second):
            if name not in known or not known[name].used:
                raise InvalidParameter(f"pairs: the model uses no column {name!r}.")
            if known[name].unpaired:
                raise InvalidParameter(f"pairs: column {name!r} {known[name].unpaired}.")
        if {first, second} in map(set, found):
            raise InvalidParameter(f"the pair of {first!r} and {second!r} is stated twice.")
        found.append((first, second))
    if len(found) > _MOST_PAIRS:
        raise InvalidParameter(f"at most {_MOST_PAIRS} pairs can be used; got {len(found)}.")
    return tuple(found)
