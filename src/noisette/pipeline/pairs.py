"""`ColumnPair`: two columns together, as products of the coarse views of both.

A coarse view of a number has the hats of a few of its knots; that of a category has its levels.
Both are linear in the encoded features of the column: a hat of fewer knots is a sum of hats of all
of them. So a row's cells of a pair follow from its encoded features; no table is read again.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from noisette._typing import Floats
from noisette.columns import Categorical, Column, Dates, Hats, Ignored, Numeric, Open
from noisette.errors import InvalidParameter
from noisette.pipeline.bars import Bars
from noisette.pipeline.shares import Spread
from noisette.tables import Schema

__all__ = [
    "ColumnPair",
    "checked_pairs",
    "coarse",
    "filled_cells",
    "filled_pairs",
    "kernel",
    "pair_scores",
    "side",
    "spread_of",
    "steps_of",
    "sure_of",
    "with_pairs",
]

_MOST_PAIRS = 20
_MOST_LEVELS = 12  # of a category in a pair, the commonest
_BLOCK = 4  # neighbouring knots, of either number, whose rare cells are taken together
_EMPTY = 3.0  # so many empty cells of a pair may pass for filled ones
_REACH = 0.05  # of a column's range: over so much, what a pair adds is alike
_BELOW_ONE = 1.0 - 2.0**-40  # so that cells of a row add up to at most 1, whatever the rounding


@dataclass(frozen=True)
class ColumnPair:
    """What two columns add together: the views of both, and what was released of their cells.

    Parameters
    ----------
    columns : tuple of two str
        Their names.
    kept : two tuples of int
        Which features of each column are the knots or levels of its view.
    weights : ndarray of shape (outputs, a, b)
        The weight of every cell; what the pair adds to an average row is `centre`.
    centre : tuple of float
        For each output.
    deviation : ndarray of shape (a, b)
        The noise of a cell, model-based.

    """

    columns: tuple[str, str]
    kept: tuple[tuple[int, ...], tuple[int, ...]]
    weights: Floats
    centre: tuple[float, ...]
    deviation: Floats

    def times(self, factor: float) -> "ColumnPair":
        """Return the pair in another unit."""
        centre = tuple(factor * each for each in self.centre)
        return replace(
            self, weights=factor * self.weights, centre=centre, deviation=factor * self.deviation
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for a file."""
        return {
            "columns": list(self.columns), "kept": [list(each) for each in self.kept],
            "weights": self.weights.tolist(), "centre": list(self.centre),
            "deviation": self.deviation.tolist(),
        }  # fmt: skip

    @classmethod
    def read(cls, node: Any, schema: Schema, outputs: int) -> "ColumnPair":
        """Return what `to_dict` wrote; TypeError, ValueError or KeyError if it is none."""
        first, second = node["columns"]
        kept = tuple(tuple(each) for each in node["kept"])
        widths = {column.name: len(column.features) for column in schema.columns}
        for name, places in zip((first, second), kept, strict=True):
            if not all(type(k) is int and 0 <= k < widths[name] for k in places):
                raise TypeError
        weights = np.array(node["weights"], dtype=np.float64)
        deviation = np.array(node["deviation"], dtype=np.float64)
        centre = np.array(node["centre"], dtype=np.float64)
        shape = (len(kept[0]), len(kept[1]))
        found = (weights.shape, deviation.shape, centre.shape)
        if found != ((outputs, *shape), shape, (outputs,)):
            raise TypeError
        if not all(np.isfinite(each).all() for each in (weights, deviation, centre)):
            raise TypeError
        return cls((first, second), (kept[0], kept[1]), weights, tuple(centre.tolist()), deviation)


def checked_pairs(pairs: Any, schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the pairs of names that the user states, or refuse them in one sentence."""
    if pairs is None:
        return ()
    known = {column.name: column for column in schema.columns}
    found: list[tuple[str, str]] = []
    for each in [pairs] if isinstance(pairs, str) else pairs:
        if isinstance(each, str) or len(each) != 2 or each[0] == each[1]:
            raise InvalidParameter(
                "pairs must be a list of pairs of column names, such as [('age', 'hours')]."
            )
        first, second = map(str, each)
        for name in (first, second):
            _check_column(name, known.get(name))
        if {first, second} in [set(other) for other in found]:
            raise InvalidParameter(f"the pair of {first!r} and {second!r} is stated twice.")
        found.append((first, second))
    if len(found) > _MOST_PAIRS:
        raise InvalidParameter(f"at most {_MOST_PAIRS} pairs can be used; got {len(found)}.")
    return tuple(found)


def _check_column(name: str, column: Column | None) -> None:
    if column is None or isinstance(column, Ignored):
        raise InvalidParameter(f"pairs: the model uses no column {name!r}.")
    inner = column.column if isinstance(column, Dates) else column
    if not isinstance(inner, Numeric | Open | Hats | Categorical):
        raise InvalidParameter(f"pairs: column {name!r} is hashed; list its levels, or learn them.")


def coarse(column: Column, cells: int, counts: dict[str, float] | None = None) -> tuple[int, ...]:
    """Return which features of a column make its view: `cells` of its knots, or its levels.

    `counts` are released counts of levels; without them the first levels are taken.
    """
    inner = column.column if isinstance(column, Dates) else column
    if isinstance(inner, Hats):
        if len(inner.knots) < 2:
            return ()
        even = np.linspace(0.0, len(inner.knots) - 1.0, min(cells, len(inner.knots)))
        return tuple(np.unique(np.round(even).astype(int)).tolist())
    assert isinstance(inner, Categorical)
    names = [group for group, _ in inner.groups if group != inner.reference]
    order = sorted(range(len(names)), key=lambda k: -(counts or {}).get(names[k], 0.0))
    return tuple(sorted(order[:_MOST_LEVELS]))


def side(column: Column, kept: Sequence[int]) -> Floats:
    """Return the matrix (features, cells) that makes a row's view of its encoded features.

    Entries are at least 0, and those of a view add up to at most 1. A missing number counts as the
    middle, as its hats do; a level that is not kept has no cell.
    """
    # proof: PAIR-CELLS
    inner = column.column if isinstance(column, Dates) else column
    merge = np.zeros((len(column.features), len(kept)))
    if isinstance(inner, Hats):
        knots = np.array(inner.knots)
        for cell, unit in enumerate(np.eye(len(kept))):
            merge[: len(knots), cell] = np.clip(np.interp(knots, knots[list(kept)], unit), 0.0, 1.0)
    else:
        merge[list(kept), np.arange(len(kept))] = 1.0 / getattr(inner, "weight", 1.0)
    return merge * _BELOW_ONE


def cells_of(first: Floats, second: Floats) -> Floats:
    """Return the products of two views, row by row."""
    # proof: PAIR-CELLS
    return np.asarray(first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def spread_of(views: tuple[Floats, Floats]) -> Spread:
    """Return the cells of a pair as entries to count."""
    cells = cells_of(*views)
    rows, places = np.nonzero(cells)
    return Spread((rows, places, cells[rows, places]), cells.shape[1])


def _views(X: Any, schema: Schema, pair: Any) -> tuple[Floats, Floats]:
    found, start = {}, 0
    for column in schema.columns:
        stop = start + len(column.features)
        if column.name in pair.columns:
            part = X[:, start:stop] @ side(column, pair.kept[pair.columns.index(column.name)])
            found[column.name] = np.asarray(part)
        start = stop
    return found[pair.columns[0]], found[pair.columns[1]]


def with_pairs(X: Any, schema: Schema, pairs: Sequence[Any]) -> Any:
    """Return encoded rows with the cells of all pairs behind them; row by row."""
    # proof: ROW-LOCAL
    parts = [cells_of(*_views(X, schema, pair)) for pair in pairs]
    if not parts:
        return X
    if sparse.issparse(X):
        return sparse.hstack([X, *map(sparse.csr_matrix, parts)], format="csr")
    return np.hstack([X, *parts])


def pair_scores(X: Any, schema: Schema, pairs: Sequence[ColumnPair]) -> Any:
    """Return what pairs add to each output, shape (n, outputs); 0 without pairs."""
    total: Any = 0.0
    for pair in pairs:
        cells = cells_of(*_views(X, schema, pair))
        total = total + cells @ pair.weights.reshape(len(pair.weights), -1).T
    return total


def filled_pairs(
    views: Sequence[ColumnPair], coef: Floats, bars: Sequence[Bars]
) -> tuple[ColumnPair, ...]:
    """Return the pairs with their weights and the noise of every cell."""
    found, start = [], 0
    for pair, bar in zip(views, bars, strict=True):
        shape = (len(pair.kept[0]), len(pair.kept[1]))
        stop = start + len(bar.cells)
        weights = np.asarray(coef[:, start:stop]).reshape(len(coef), *shape)
        deviation = np.array(bar.cells).reshape(shape)
        found.append(replace(pair, weights=weights, centre=bar.centre, deviation=deviation))
        start = stop
    return tuple(found)


def sure_of(cells: int) -> float:
    """Return how many deviations of its noise a cell must have, so that few empty ones pass."""
    return float(ndtri(1.0 - _EMPTY / max(cells, 2.0 * _EMPTY)))


def steps_of(column: Column) -> int:
    """Return how many neighbours of a view may be taken together: knots may, levels may not."""
    inner = column.column if isinstance(column, Dates) else column
    return _BLOCK if isinstance(inner, Hats) else 1


def filled_cells(
    shares: Floats, coarser: tuple[int, ...], rare: float, noise: float
) -> NDArray[np.intp]:
    """Return the group of every cell, -1 for those left out, from released shares.

    A cell that enough rows fill stands alone; what is left of a block of neighbours is one group if
    enough rows fill that, and so on; so a grid is fine where people are and coarse elsewhere.
    """
    out = np.full(shares.shape, -1, dtype=np.intp)
    count = 0
    for level in range(3):
        down, across = (each**level for each in coarser)
        starts = range(0, shares.shape[0], down), range(0, shares.shape[1], across)
        sure = sure_of(len(starts[0]) * len(starts[1])) * noise
        for i, j in itertools.product(*starts):
            block = (slice(i, i + down), slice(j, j + across))
            rest = out[block] < 0
            filled = float(shares[block][rest].sum())
            if rest.any() and filled >= max(rare, sure * math.sqrt(rest.sum())):
                out[block][rest] = count
                count += 1
    return out.ravel()


def kernel(column: Column, cells: int) -> Floats:
    """Return the prior covariance of a view's weights: near knots are alike, levels are not."""
    inner = column.column if isinstance(column, Dates) else column
    if not isinstance(inner, Hats) or cells < 2:
        return np.eye(cells)
    apart = np.abs(np.arange(cells)[:, None] - np.arange(cells)) / (cells - 1.0)
    return np.asarray(np.exp(-apart / _REACH))
