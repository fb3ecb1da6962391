"""Encoded rows on their way to the solver: written once, block by block, read once a pass.

Rows that fit into memory become an array or a CSR matrix, as ever; more of them go to a temporary
file without a name. The solver asks for blocks of the same rows in the same order either way, so
its arithmetic and its certificate are the same to the last bit.
"""

import bisect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette.tables.spill import IN_MEMORY, Spill

_ROWS = 8192


class Keeping:
    """Blocks of rows: in memory until they are many, then in the file."""

    def __init__(self, room: Spill | None) -> None:
        self._room, self._held, self._size = room, list[Any](), 0
        self._stored: StoredRows | None = None

    def add(self, block: Any) -> None:
        """Take the next rows."""
        if self._stored is not None:
            self._stored.append(block)
            return
        self._held.append(block)
        self._size += block.data.nbytes + (block.indices.nbytes if sparse.issparse(block) else 0)
        if self._room is not None and self._size > IN_MEMORY:
            self._stored = StoredRows(self._room, block.shape[1], is_sparse=sparse.issparse(block))
            for each in self._held:
                self._stored.append(each)
            self._held = []

    def rows(self) -> Any:
        """Return all of them, None where there are none."""
        if self._stored is not None:
            return self._stored
        if not self._held:
            return None
        if len(self._held) == 1:
            return self._held[0]
        if sparse.issparse(self._held[0]):
            return sparse.vstack(self._held, format="csr")
        return np.concatenate(self._held)


class _Written(NamedTuple):
    """One block in the file; `ends` says where its sparse rows end."""

    first: int
    last: int
    values: int
    places: int
    ends: NDArray[np.int64] | None


class StoredRows:
    """Rows in a file, dense or sparse, of float64; `losses.Rows` asks it for blocks."""

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, room: Spill, features: int, *, is_sparse: bool) -> None:
        self._room, self._features, self.is_sparse = room, features, is_sparse
        self._blocks: list[_Written] = []
        self._kind = np.dtype(np.uint16 if features <= 1 << 16 else np.int32)

    def __repr__(self) -> str:
        return "<StoredRows>"

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return (self._blocks[-1].last if self._blocks else 0), self._features

    def append(self, block: Any) -> None:
        """Write the next rows."""
        first = self.shape[0]
        last = first + block.shape[0]
        if not self.is_sparse:
            place = self._room.append(np.asarray(block, dtype=np.float64))
            self._blocks.append(_Written(first, last, place, 0, None))
            return
        values = self._room.append(np.asarray(block.data, dtype=np.float64))
        places = self._room.append(block.indices.astype(self._kind))
        ends = block.indptr.astype(np.int32)
        self._blocks.append(_Written(first, last, values, places, ends))

    def cut(self, rows: int) -> Iterator[tuple[slice, Any]]:
        """Yield the rows in order, so many at a time: arrays, or CSR matrices."""
        for start in range(0, self.shape[0], rows):
            part = slice(start, min(start + rows, self.shape[0]))
            yield part, self.read(part)

    def read(self, rows: slice) -> Any:
        """Return some rows that follow each other."""
        starts = [block.first for block in self._blocks]
        begin = max(bisect.bisect_right(starts, rows.start) - 1, 0)
        parts = []
        for block in self._blocks[begin:]:
            if block.first >= rows.stop:
                break
            low, high = max(rows.start, block.first), min(rows.stop, block.last)
            parts.append(self._piece(block, low - block.first, high - block.first))
        if len(parts) == 1:
            return parts[0]
        return sparse.vstack(parts, "csr") if self.is_sparse else np.concatenate(parts)

    def _piece(self, block: _Written, low: int, high: int) -> Any:
        d = self._features
        if block.ends is None:
            entries = self._room.read(block.values + 8 * d * low, d * (high - low), np.float64)
            return entries.reshape(high - low, d)
        first, last = int(block.ends[low]), int(block.ends[high])
        out = sparse.csr_array((high - low, d), dtype=np.float64)
        out.data = self._room.read(block.values + 8 * first, last - first, np.float64)
        place = block.places + self._kind.itemsize * first
        out.indices = self._room.read(place, last - first, self._kind).astype(np.int32)
        out.indptr = block.ends[low : high + 1] - block.ends[low]
        return out

    def __getitem__(self, rows: Any) -> Any:
        """Return evenly spaced rows as a matrix; rows by their increasing numbers, stored."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.shape[0]))
            kept = Keeping(None)
        else:
            kept = Keeping(self._room)
        for part, block in self.cut(_ROWS):
            first, last = np.searchsorted(rows, [part.start, part.stop])
            if first < last:
                kept.add(block[rows[first:last] - part.start])
        return kept.rows()
