"""Columns of a table as the steps look at them, formed for a block of rows whenever it is wanted.

Counts and ranks are exact in every order (EXACT-SUM, and weights of 2^-20 in `summaries`), so it
does not matter to any released number how the rows are cut.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Integers
from noisette.core.grid import Grid
from noisette.tables.frame import Frame
from noisette.tables.kinds import Column
from noisette.tables.pipeline.pair_cells import PairView
from noisette.tables.pipeline.shares import RowSpread, Spread, WalkedSpread, cells_of

_BLOCK = 1 << 16
KNOTS = np.linspace(-1.0, 1.0, 9)
"""Between which numbers to predict are counted."""


class NumberColumn:
    """A column as numbers, NaN where a cell is missing; ``column[start:stop]`` is an array."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._name = frame.only(name), name
        self.shape = (frame.rows,)

    def __repr__(self) -> str:
        return "<NumberColumn>"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Floats:
        return self._frame.take(rows).numbers(self._name)


class CodedColumn:
    """The codes of a column; a missing cell is a level of its own, the empty text."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._name = frame, name
        self._texts: list[str] | None = None

    def __repr__(self) -> str:
        return "<CodedColumn>"

    @property
    def codes(self) -> Integers:
        """The code of every row."""
        codes, texts = self._frame.codes(self._name)
        self._texts = [*texts, ""]
        codes[codes < 0] = len(texts)
        return codes

    @property
    def texts(self) -> Sequence[str]:
        """The text of every code."""
        if self._texts is None:
            self.codes  # noqa: B018 - it finds the texts
        assert self._texts is not None
        return self._texts

    def at(self, codes: Sequence[int]) -> dict[int, str]:
        """Return the texts of some codes."""
        return {code: self.texts[code] for code in codes}


def walked(count: int, features: int, spread: Callable[[slice], Spread]) -> WalkedSpread:
    """Return entries that are formed for a slice of the rows at a time."""

    def blocks() -> Iterator[tuple[slice, Spread]]:
        for start in range(0, count, _BLOCK):
            part = slice(start, min(start + _BLOCK, count))
            yield part, spread(part)

    return WalkedSpread(blocks, features)


def _walked_frame(
    frame: Frame, features: int, spread: Callable[[Frame], Spread | RowSpread]
) -> WalkedSpread:
    def blocks() -> Iterator[tuple[slice, Spread | RowSpread]]:
        for part, block in frame.blocks(_BLOCK):
            yield part, spread(block)

    return WalkedSpread(blocks, features)


def walked_spread(column: Column, frame: Frame) -> WalkedSpread:
    """Return the entries of one column, of which those of a row add up to at most 1."""
    width = column.places
    return _walked_frame(
        frame.only(column.name),
        width,
        lambda block: RowSpread(column.spread(block.cells(column.name)), width),
    )


def walked_pair(pair: PairView, columns: Sequence[Column], frame: Frame) -> WalkedSpread:
    """Return the cells of a pair of columns, of which those of a row add up to at most 1."""
    return _walked_frame(
        frame.only(*pair.columns),
        pair.features,
        lambda block: RowSpread(pair.entries(columns, block.columns), pair.features),
    )


def walked_cells(frame: Frame, name: str, grid: Grid) -> WalkedSpread:
    """Return the candidate that is nearest to each number; a missing one has none."""
    return _walked_frame(
        frame.only(name), len(grid.points), lambda block: cells_of(block.numbers(name), grid)
    )


def cut_and_scaled(low: float, high: float, labels: Floats) -> Floats:
    """Return numbers cut to their limits and scaled to [-1, 1], row by row."""
    # proof: ROW-LOCAL
    inside = np.clip(labels, low, high)
    scaled = (inside - (low / 2.0 + high / 2.0)) / ((high - low) / 2.0)
    return np.asarray(np.clip(scaled, -1.0, 1.0))


def spread_of_labels(classes: int, labels: NDArray[Any]) -> Spread:
    """Return the label of every row."""
    return Spread((np.arange(len(labels)), labels, np.ones(len(labels))), classes)


def spread_of_numbers(targets: Floats) -> Spread:
    """Return a number in [-1, 1] of every row, which is divided between the two knots around it."""
    place = np.interp(targets, KNOTS, np.arange(len(KNOTS)))
    below = np.minimum(place.astype(np.intp), len(KNOTS) - 2)
    above = place - below
    rows, which = np.tile(np.arange(len(place)), 2), np.concatenate([below, below + 1])
    return Spread((rows, which, np.concatenate([1.0 - above, above])), len(KNOTS))
