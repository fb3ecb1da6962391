"""Rows of a data matrix, handed out in float64 blocks; never a copy of the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from noisette.errors import InvalidParameter

# One block of float64 entries (2 MB) should stay in cache, so that the two products with it
# (scores, then gradient) read memory once; measured best between 1024 and 4096 rows at d = 100.
_BLOCK_ENTRIES = 1 << 18
_MIN_ROWS, _MAX_ROWS = 64, 2048
# A sparse block costs a few Python calls, whatever its size; rows stay below 2^11 all the same
# where exactness asks for it (see ``exact_blocks`` in the solvers).
_SPARSE_ROWS = 8192


class Augmented:
    """Rows of a dense matrix, each times a factor, with a constant last column; no copy is made.

    Row i is (factor_i x_i, extra_i) in float64, whatever the type of the matrix; blocks of rows are
    formed when they are asked for. `extra` None adds no column. `norms` are those of the matrix's
    rows, where whoever clipped them has computed them.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        matrix: npt.NDArray[Any],
        factor: npt.NDArray[np.float64],
        extra: npt.NDArray[np.float64] | None,
        norms: npt.NDArray[np.float64] | None = None,
    ) -> None:
        self.matrix, self.factor, self.extra, self.norms = matrix, factor, extra, norms
        self.shape = (matrix.shape[0], matrix.shape[1] + (extra is not None))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> npt.NDArray[np.float64]:
        if isinstance(rows, tuple):  # columns too: of the rows that were asked for
            return np.asarray(self[rows[0]][(slice(None), *rows[1:])])
        part = np.asarray(self.matrix[rows], dtype=np.float64)
        if self.extra is None:
            return np.asarray(part * self.factor[rows][:, None])
        out = np.empty((part.shape[0], self.shape[1]))
        np.multiply(part, self.factor[rows][:, None], out=out[:, :-1])
        out[:, -1] = self.extra[rows]
        return out

    def __mul__(self, column: npt.NDArray[Any]) -> Augmented:
        """Scale every row, the constant included; `column` has the shape (n, 1)."""
        by = np.asarray(column, dtype=np.float64).reshape(-1)
        extra = None if self.extra is None else self.extra * by
        return Augmented(self.matrix, self.factor * by, extra, self.norms)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: Any) -> npt.NDArray[Any]:
        """Return the rows as an ordinary array."""
        return self[:].astype(dtype, copy=False)

    def known_squares(self) -> npt.NDArray[np.float64] | None:
        """Return the squared norms, to rounding, without a look at the rows; None: not known."""
        if self.norms is None:
            return None
        squares = (self.factor * self.norms) ** 2
        return np.asarray(squares if self.extra is None else squares + self.extra**2)


class Rows:
    """A matrix of n rows and d columns, dense (any order, any real type) or CSR.

    ``blocks()`` yields (slice, block): float64, dense 2-D array or CSR matrix. Float64 input is
    viewed; other types are converted block by block (CSR: the stored entries once). Shapes and
    types are checked once, here; the values are the caller's business.
    """

    def __init__(self, X: Any, block_rows: int | None = None) -> None:
        self.is_sparse = bool(sparse.issparse(X))
        if self.is_sparse:
            self.matrix: Any = sparse.csr_array(X)
        elif isinstance(X, Augmented):
            self.matrix = X
        else:
            self.matrix = np.asarray(X)
            if self.matrix.dtype == object or self.matrix.dtype.kind not in "fiub":
                raise InvalidParameter(f"X must hold real numbers; got dtype {self.matrix.dtype}.")
        if self.matrix.ndim != 2:
            raise InvalidParameter(f"X must have two dimensions; got {self.matrix.ndim}.")
        self.n, self.d = (int(size) for size in self.matrix.shape)
        if block_rows is None:
            per_block = _BLOCK_ENTRIES // max(self.d, 1)
            block_rows = (
                _SPARSE_ROWS if self.is_sparse else min(_MAX_ROWS, max(_MIN_ROWS, per_block))
            )
        self.block_rows = int(block_rows)
        self._cut = self._cut_sparse() if self.is_sparse else []
        if any(_repeats(block) for _, block in self._cut):
            # an entry stored in two halves would pass a norm check it should fail
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
            self._cut = self._cut_sparse()

    def _cut_sparse(self) -> list[tuple[slice, Any]]:
        """CSR blocks that share the data and index arrays of the whole; built once."""
        indptr = self.matrix.indptr
        cut = []
        for start in range(0, self.n, self.block_rows):
            stop = min(start + self.block_rows, self.n)
            first, last = int(indptr[start]), int(indptr[stop])
            block = sparse.csr_array((stop - start, self.d), dtype=np.float64)
            block.data = np.asarray(self.matrix.data[first:last], dtype=np.float64)
            block.indices = self.matrix.indices[first:last]
            block.indptr = indptr[start : stop + 1] - indptr[start]
            cut.append((slice(start, stop), block))
        return cut

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return -(-self.n // self.block_rows)

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """(slice of the rows, float64 block), in order."""
        if self.is_sparse:
            yield from self._cut
            return
        for start in range(0, self.n, self.block_rows):
            rows = slice(start, min(start + self.block_rows, self.n))
            yield rows, np.asarray(self.matrix[rows], dtype=np.float64)

    def sample(self, count: int) -> tuple[slice, Any]:
        """(slice, float64 block) of about ``count`` evenly spaced rows, for warm starts."""
        picked = slice(None, None, max(1, self.n // max(count, 1)))
        return picked, self.matrix[picked].astype(np.float64)

    def squared_norms(self) -> npt.NDArray[np.float64]:
        """||x_i||^2, shape (n,)."""
        norms = np.empty(self.n)
        for rows, block in self.blocks():
            if self.is_sparse:
                norms[rows] = squared(block) @ np.ones(self.d)
            else:
                norms[rows] = np.einsum("ij,ij->i", block, block)
        return norms

    def within(self, bound: float) -> bool:
        """Whether every row is finite and no longer than `bound`."""
        known = self.matrix.known_squares() if isinstance(self.matrix, Augmented) else None
        return bool(np.all((self.squared_norms() if known is None else known) <= bound**2))

    def scores(self, parameter: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """X w for w of shape (d,): (n,); X V' for V of shape (k, d): (n, k)."""
        out = np.empty((self.n, *parameter.shape[:-1]))
        for rows, block in self.blocks():
            out[rows] = block @ parameter.T
        return out


def _repeats(block: Any) -> bool:
    """Whether a CSR block stores some entry twice; linear time, the indices need no order."""
    columns = block.tocsc()
    same = columns.indices[1:] == columns.indices[:-1]
    starts = columns.indptr[1:-1]
    same[starts[(starts > 0) & (starts < len(columns.indices))] - 1] = False
    return bool(np.any(same))


def squared(block: Any) -> Any:
    """The block with every entry squared; a CSR result shares the indices."""
    if not sparse.issparse(block):
        return block * block
    result = sparse.csr_array(block.shape, dtype=np.float64)
    result.data, result.indices, result.indptr = block.data**2, block.indices, block.indptr
    return result


def back(block: Any, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """sum_i values_i x_i over one block: (n,) -> (d,), (n, k) -> (k, d)."""
    if sparse.issparse(block):
        return np.asarray((block.T @ values).T)
    return np.asarray(values.T @ block)
