"""Views and cells of a pair of columns: what a row adds to a grid of products of two coarse views.

A coarse view of a number has the hats of a few of its knots; that of a category has its levels.
Both are linear in the entries of the column: a hat of fewer knots is a sum of hats of all of them.
At most two entries of a view differ from zero, so a row has at most four cells of a pair, and no
grid of all rows is ever formed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from noisette._typing import Floats
from noisette.tables.kinds import Cells, Column
from noisette.tables.kinds.base import Entries

CELLS = 4
"""How many cells of a pair one row has at most."""
_BLOCK = 4  # neighbouring knots, of either number, whose rare cells are taken together
_EMPTY = 3.0  # so many empty cells of a pair may pass for filled ones
_REACH = 0.05  # of a column's range: over so much, what a pair adds is alike
_BELOW_ONE = 1.0 - 2.0**-40  # so that cells of a row add up to at most 1, whatever the rounding


@dataclass(frozen=True)
class PairView:
    """Two columns by name, and which features of each are the knots or levels of its view."""

    columns: tuple[str, str]
    kept: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of knots or levels of both views."""
        return len(self.kept[0]), len(self.kept[1])

    @property
    def features(self) -> int:
        """How many cells the grid has."""
        return len(self.kept[0]) * len(self.kept[1])

    def entries(self, columns: Sequence[Column], cells: Mapping[str, Cells]) -> Entries:
        """Return the place in the grid and the value of every product, row by row."""
        # proof: ROW-LOCAL
        known = {column.name: column for column in columns}
        return products(*(
            view_of(known[name], cells[name], kept)
            for name, kept in zip(self.columns, self.kept, strict=True)
        ))  # fmt: skip


def view_of(column: Column, cells: Cells, kept: Sequence[int]) -> Floats:
    """Return the view of a column, shape (rows, cells): entries >= 0 that add up to at most 1."""
    # proof: PAIR-CELLS
    merge = column.merge(kept) * _BELOW_ONE
    features, values = column.entries(cells)
    out = np.zeros((len(values), len(kept)))
    for places, each in zip(features.T, values.T, strict=True):
        out += each[:, None] * merge[places]
    return out


def _two(view: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the places and values of the two entries that may differ from zero."""
    count, width = view.shape
    if width == 0:
        return np.zeros((count, 0), dtype=np.intp), np.zeros((count, 0))
    rows, rest = np.arange(count), view.copy()
    first = view.argmax(axis=1)
    rest[rows, first] = 0.0
    second = rest.argmax(axis=1)
    values = np.column_stack([view[rows, first], rest[rows, second]])
    return np.column_stack([first, second]), values


def products(first: Floats, second: Floats) -> Entries:
    """Return the products of two views as entries of a grid, row by row."""
    # proof: PAIR-CELLS
    (p, u), (q, v) = _two(first), _two(second)
    places = p[:, :, None] * second.shape[1] + q[:, None, :]
    values = u[:, :, None] * v[:, None, :]
    count, width = len(first), p.shape[1] * q.shape[1]
    return places.reshape(count, width).astype(np.int32), values.reshape(count, width)


def sure_of(cells: int) -> float:
    """Return how many deviations of its noise a cell must have, so that few empty ones pass."""
    return float(ndtri(1.0 - _EMPTY / max(cells, 2.0 * _EMPTY)))


def filled_cells(
    shares: Floats, ordered: Sequence[bool], rare: float, noise: float
) -> NDArray[np.intp]:
    """Return the group of every cell, -1 for those left out, from released shares.

    Neighbours may be taken together where they are `ordered`: knots are, levels are not.

    A cell that enough rows fill stands alone; what is left of a block of neighbours is one group if
    enough rows fill that, and so on; so a grid is fine where people are and coarse elsewhere.
    """
    out = np.full(shares.shape, -1, dtype=np.intp)
    count = 0
    for level in range(3):
        down, across = (_BLOCK**level if each else 1 for each in ordered)
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
    if not column.ordered or cells < 2:
        return np.eye(cells)
    apart = np.abs(np.arange(cells)[:, None] - np.arange(cells)) / (cells - 1.0)
    return np.asarray(np.exp(-apart / _REACH))
