"""Encoded rows on their way to the solver: written once, block by block, read once a pass.

Rows that fit into memory become an array or a CSR matrix, as ever; more of them go to a temporary
file without a name. The solver asks for blocks of the same rows in the same order either way, so
its arithmetic and its certificate are the same to the last bit.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from noisette.tables.spill import IN_MEMORY, Spill, Spilled, Spilling

_ROWS = 8192


class Keeping:
    """Blocks of rows: in memory until they are many, then in the file."""

    def __init__(self, room: Spill | None) -> None:
        self._room, self._held, self._size = room, list[Any](), 0
        self._stored: StoredRows | None = None

    def add(self, block: Any) -> None:
        """Take the next rows."""
        self._held.append(block)
        thin = sparse.issparse(block)
        self._size += block.data.nbytes + (block.indices.nbytes if thin else 0)
        if self._room is not None and self._size > IN_MEMORY:
            if self._stored is None:
                self._stored = StoredRows(self._room, block.shape[1], is_sparse=thin)
            for each in self._held:
                self._stored.append(each)
            self._held = []

    def rows(self) -> Any:
        """Return all of them, None where there are none."""
        if self._stored is not None or not self._held:
            return self._stored
        if len(self._held) == 1:
            return self._held[0]
        thin = sparse.issparse(self._held[0])
        return sparse.vstack(self._held, format="csr") if thin else np.concatenate(self._held)


class StoredRows:
    """Rows in a file, dense or sparse, of float64; `losses.Rows` asks it for blocks."""

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, room: Spill, features: int, *, is_sparse: bool) -> None:
        self._room, self.is_sparse, self.shape = room, is_sparse, (0, features)
        store = Spilling(-1, room)
        self._values, self._places = Spilled(store, np.float64), Spilled(store, np.int32)
        self._kind = np.uint16 if features <= 1 << 16 else np.int32
        self._ends = Spilled(Spilling(math.inf), np.int64)  # of sparse rows, in memory
        self._ends.append(np.zeros(1, dtype=np.int64))

    def __repr__(self) -> str:
        return "<StoredRows>"

    def append(self, block: Any) -> None:
        """Write the next rows."""
        self.shape = self.shape[0] + block.shape[0], self.shape[1]
        if self.is_sparse:
            self._ends.append(len(self._values) + block.indptr[1:].astype(np.int64))
            self._places.append(block.indices.astype(self._kind))
        values = block.data if self.is_sparse else block
        self._values.append(np.asarray(values, dtype=np.float64).reshape(-1))

    def cut(self, rows: int) -> Iterator[tuple[slice, Any]]:
        """Yield the rows in order, so many at a time: arrays, or CSR matrices."""
        for start in range(0, self.shape[0], rows):
            part = slice(start, min(start + rows, self.shape[0]))
            yield part, self.read(part)

    def read(self, rows: slice) -> Any:
        """Return some rows that follow each other."""
        count, d = rows.stop - rows.start, self.shape[1]
        if not self.is_sparse:
            return self._values[d * rows.start : d * rows.stop].reshape(count, d)
        ends = self._ends[rows.start : rows.stop + 1]
        own = slice(*ends[[0, -1]].tolist())
        out = sparse.csr_array((count, d), dtype=np.float64)
        out.data, out.indices = self._values[own], self._places[own]
        out.indptr = (ends - ends[0]).astype(np.int32)
        return out

    def __getitem__(self, rows: Any) -> Any:
        """Return evenly spaced rows as a matrix; rows by their increasing numbers, stored."""
        kept = Keeping(None if isinstance(rows, slice) else self._room)
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.shape[0]))
        for part, block in self.cut(_ROWS):
            first, last = np.searchsorted(rows, [part.start, part.stop])
            if first < last:
                kept.add(block[rows[first:last] - part.start])
        return kept.rows()
