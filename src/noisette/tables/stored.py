"""Columns as they are kept: numbers, or texts of which each is kept once, in blocks of rows.

What is read from a file grows piece by piece, in memory or in a temporary file (`_spill`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Integers
from noisette.core.cells import Given
from noisette.tables.cells import CodedCells, Signs, TextCells, ValueCells
from noisette.tables.kinds import Cells
from noisette.tables.spill import Spilled, Spilling

BLOCK = 1 << 14
"""Rows of a block, as many as are encoded at a time."""


class StoredNumbers:
    """Numbers, in memory or in a file."""

    def __init__(self, values: Spilled) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self) -> Floats:
        """Return all of them, in an array of its own."""
        return np.asarray(self._values[:])

    def texts(self) -> Sequence[str]:
        """Return the numbers as texts."""
        return self.part(slice(None)).texts()

    def part(self, rows: slice) -> Cells:
        """Return some of the cells."""
        return ValueCells(Given(self._values[rows]))


class StoredTexts:
    """The number of a text for every cell, in memory or in a file."""

    def __init__(self, codes: Spilled, known: Sequence[str], signs: Signs) -> None:
        self._codes, self._known, self._signs = codes, known, signs

    def __len__(self) -> int:
        return len(self._codes)

    def numbers(self) -> Floats:
        """Read every text as a number, once."""
        return np.asarray(TextCells(self._known, *self._signs).numbers()[self._codes[:]])

    def texts(self) -> Sequence[str]:
        """Return the text of every cell."""
        return self.part(slice(None)).texts()

    def coded(self) -> tuple[NDArray[np.int32], Sequence[str]]:
        """Return the number of a text for every cell, and the texts."""
        return self._codes[:], self._known

    def part(self, rows: slice) -> CodedCells:
        """Return some of the cells."""
        return CodedCells(self._codes[rows], self._known, self._signs)


class Growing:
    """The columns of a table while it is read; those in `numbers` are kept as numbers."""

    def __init__(self, names: Sequence[str], numbers: Sequence[str], signs: Signs) -> None:
        self._store, self._signs = Spilling(), signs
        self._known: dict[str, dict[str, int]] = {name: {} for name in names if name not in numbers}
        self._vectors = {
            name: Spilled(self._store, np.int32 if name in self._known else np.float64)
            for name in names
        }

    @property
    def rows(self) -> int:
        """How many rows there are so far."""
        return len(next(iter(self._vectors.values()), ()))

    def add(self, piece: Mapping[str, Cells]) -> None:
        """Take the next rows."""
        for name, vector in self._vectors.items():
            if name in self._known:
                vector.append(_codes(piece[name], self._known[name]))
            else:
                vector.append(piece[name].numbers())

    def cells(self) -> dict[str, Cells]:
        """Return the columns."""
        found: dict[str, Cells] = {}
        for name, vector in self._vectors.items():
            if name in self._known:
                found[name] = StoredTexts(vector, list(self._known[name]), self._signs)
            else:
                found[name] = StoredNumbers(vector)
        return found


def _codes(cells: Cells, known: dict[str, int]) -> NDArray[np.signedinteger]:
    """Return the number of every text, new ones counted on, in the narrowest type that fits."""
    coded = getattr(cells, "coded", None)
    if coded is None:
        codes = np.array([known.setdefault(text, len(known)) for text in cells.texts()])
    else:
        found, texts = coded()
        codes = np.array([known.setdefault(text, len(known)) for text in texts])[found]
    kinds = [kind for kind in (np.int8, np.int16) if len(known) <= np.iinfo(kind).max]
    return codes.astype(kinds[0] if kinds else np.int32)


def part_of(cells: Any, rows: slice) -> Cells:
    """Return rows of a column that follow each other."""
    found: Cells = (cells.part if hasattr(cells, "part") else cells.take)(rows)
    return found


def taken(cells: Any, rows: Integers) -> Cells:
    """Return some cells of a column."""
    if isinstance(cells, StoredNumbers):
        return StoredNumbers(_taken(cells._values, rows))
    if isinstance(cells, StoredTexts):
        return StoredTexts(_taken(cells._codes, rows), cells._known, cells._signs)
    found: Cells = cells.take(rows)
    return found


def _taken(vector: Spilled, rows: Integers) -> Spilled:
    found = Spilled(vector.store, vector.dtype)
    if (np.diff(rows) < 0).any():
        found.append(vector[:][rows])
        return found
    for start in range(0, len(vector), BLOCK):
        first, last = np.searchsorted(rows, [start, start + BLOCK])
        if first < last:
            found.append(vector[start : start + BLOCK][rows[first:last] - start])
    return found
