"""Rows of a data matrix, handed out in float64 blocks; never a copy of the whole matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from noisette.errors import InvalidParameter
from noisette.fitting.losses.blocks import Scaled, Total, squared, weigh

# One block of float64 entries (2 MB) should stay in cache, so that the two products with it
# (scores, then gradient) read memory once; measured best between 1024 and 4096 rows at d = 100.
_BLOCK_ENTRIES = 1 << 18
_MIN_ROWS, _MAX_ROWS = 64, 2048
# A sparse block costs a few Python calls, whatever its size; rows stay below 2^11 all the same
# where exactness asks for it (see ``exact_blocks`` in the solvers).
_SPARSE_ROWS = 8192
# the largest norm bound of the solvers: so far their arguments about overflow reach
_TAME = 1e30
_UNFORMED = 2  # roundings more of a term where its row is not formed


class Augmented:
    """Rows of a dense matrix, each times a factor, with a constant last column; no copy is made.

    Row i is (factor_i x_i, extra_i) in float64, whatever the type of the matrix; blocks of rows are
    formed when they are asked for. Without `extra` there is no such column; `norms` are those of
    the matrix's rows, where whoever clipped them has computed them.
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
        self._tame: bool | None = None

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> npt.NDArray[np.float64]:
        if isinstance(rows, tuple):  # columns too: of the rows that were asked for
            return np.asarray(self[rows[0]][(slice(None), *rows[1:])])
        return self.formed(rows)

    def formed(
        self, rows: Any, out: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Write rows to an array, a new one if there is none, and return it."""
        factor = self.factor[rows][:, None]
        out = np.empty((len(factor), self.shape[1])) if out is None else out
        last = self.matrix.shape[1]
        np.multiply(self.matrix[rows], factor, out=out[:, :last], dtype=np.float64)
        if self.extra is not None:
            out[:, -1] = self.extra[rows]
        return out

    def scaled(self, rows: slice, room: npt.NDArray[np.float64] | None = None) -> Scaled | None:
        """Return rows that need not be formed; None where one of the matrix may be too long."""
        if self._tame is None:
            self._tame = self.norms is not None and bool(np.all(self.norms <= _TAME))
        if not self._tame:
            return None
        matrix = np.asarray(self.matrix[rows])
        if matrix.dtype != np.float64:
            wide = np.empty(matrix.shape) if room is None else room[:, : matrix.shape[1]]
            np.copyto(wide, matrix, casting="unsafe")
            matrix = wide
        extra = None if self.extra is None else self.extra[rows]
        return Scaled(matrix, self.factor[rows], extra)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def known_squares(self) -> npt.NDArray[np.float64] | None:
        """Return the squared norms, to rounding, without a look at the rows; None: not known."""
        if self.norms is None:
            return None
        squares = (self.factor * self.norms) ** 2
        return np.asarray(squares if self.extra is None else squares + self.extra**2)


class Measured(sparse.csr_array):  # type: ignore[misc]
    """A CSR matrix with the squared norms of its rows, from whoever clipped them.

    What is derived from it, a copy or some of its rows, has to be measured again.
    """

    squares: npt.NDArray[np.float64] | None = None

    def __init__(
        self, *given: Any, squares: npt.NDArray[np.float64] | None = None, **options: Any
    ) -> None:
        super().__init__(*given, **options)
        self.squares = squares

    def known_squares(self) -> npt.NDArray[np.float64] | None:
        """Return the squared norms, to rounding, without a look at the rows; None: not known."""
        return self.squares


class Rows:
    """A matrix of n rows and d columns, dense (any order, any real type) or CSR.

    ``blocks()`` yields (slice, block): float64, dense 2-D array or CSR matrix. Float64 input is
    viewed; other types are converted block by block (CSR: the stored entries once). Shapes and
    types are checked once, here; the values are the caller's business. A block has as many rows as
    fit the cache, unless `block_rows` is given.
    """

    reread = False  # in every pass, from wherever they lie
    most_merges = 0  # a public bound on the additions with which sums of parts are joined
    whole_steps = False  # whether Newton's with all rows are worth their passes, for few features
    share = 0  # one row in so many may go into a sample, beside a fixed number; 0: no more

    def __init__(self, X: Any, block_rows: int | None = None) -> None:
        self._stored = hasattr(X, "cut")  # rows that are not in memory hand out blocks themselves
        self.is_sparse = bool(X.is_sparse if self._stored else sparse.issparse(X))
        self._known = X.known_squares() if isinstance(X, Augmented | Measured) else None
        if self._stored or isinstance(X, Augmented):
            self.matrix: Any = X
        elif self.is_sparse:
            self.matrix = sparse.csr_array(X)
        else:
            self.matrix = np.asarray(X)
            if self.matrix.dtype == object or self.matrix.dtype.kind not in "fiub":
                raise InvalidParameter(f"X must hold real numbers; got dtype {self.matrix.dtype}.")
        self._lay_out(block_rows)
        self._cut = self._cut_sparse() if self.is_sparse and not self._stored else []
        if any(map(_repeats, self._cut)):
            # an entry stored in two halves would pass a norm check it should fail
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
            self._cut = self._cut_sparse()

    def _lay_out(self, block_rows: int | None = None, merges: int = 0) -> None:
        """Set how many rows there are, and how many a block has.

        So many roundings at most as `depth` says does a row's term go through (ROUND-GRADIENT,
        -ANY-ORDER).
        """
        if self.matrix.ndim != 2:
            raise InvalidParameter(f"X must have two dimensions; got {self.matrix.ndim}.")
        self.n, self.d = map(int, self.matrix.shape)
        if block_rows is None:
            dense = min(_MAX_ROWS, max(_MIN_ROWS, _BLOCK_ENTRIES // max(self.d, 1)))
            block_rows = _SPARSE_ROWS if self.is_sparse else dense
        self.block_rows = int(block_rows)
        self.depth = self.block_rows + -(-self.n // self.block_rows) + merges + _UNFORMED

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

    def blocks(self, *, formed: bool = True, passing: bool = False) -> Iterator[tuple[slice, Any]]:
        """Yield the rows in blocks, in order; `passing`: each gone when the next one comes.

        All of those are formed in the same memory: where an allocator gives what is freed back at
        once, as on workers of Dask, new memory for a block costs more than what is done with it.
        """
        matrix, room = self.matrix, None
        if self._stored or self.is_sparse:
            yield from matrix.cut(self.block_rows) if self._stored else self._cut
            return
        if passing and (isinstance(matrix, Augmented) or matrix.dtype != np.float64):
            room = np.empty((min(self.block_rows, self.n), self.d))
        for start in range(0, self.n, self.block_rows):
            rows = slice(start, min(start + self.block_rows, self.n))
            block = None if room is None else room[: rows.stop - start]
            if isinstance(matrix, Augmented):
                scaled = None if formed else matrix.scaled(rows, block)
                yield rows, matrix.formed(rows, block) if scaled is None else scaled
            elif block is None:
                yield rows, np.asarray(matrix[rows], np.float64)
            else:
                np.copyto(block, matrix[rows], casting="unsafe")
                yield rows, block

    def sums(
        self, work: Callable[..., Any], *columns: Any, start: Sequence[Any] = (),
        compensated: bool = False, block_rows: int | None = None, formed: bool = True,
    ) -> list[Any]:  # fmt: skip
        """Return the sums of ``work(block, *parts)`` over all blocks, parts of the columns.

        `work` returns one term for each sum, treats rows one by one and can be pickled.
        """
        total = Total(compensated, start)
        rows = self if block_rows is None else Rows(self.matrix, block_rows)
        for part, block in rows.blocks(formed=formed, passing=True):
            total.add(work(block, *(None if each is None else each[part] for each in columns)))
        return total.values()

    def on_sample(self, count: int, work: Callable[..., Any], *columns: Any) -> Any:
        """Return ``work(rows, *columns)`` of about ``count`` evenly spaced rows."""
        return work(*sampled(max(1, self.n // max(count, 1)), self.matrix, *columns))

    def fetched(self, column: Any) -> Any:
        """Return a whole column."""
        return column

    def curved(self, weights: npt.NDArray[np.float64] | None) -> float:
        """Return the sum of weight x squared norm."""
        squares = self.squared_norms()
        return float(np.sum(squares if weights is None else squares * weights))

    def squared_norms(self) -> npt.NDArray[np.float64]:
        """Return the squared norm of every row."""
        norms = np.empty(self.n)
        for rows, block in self.blocks():
            if self.is_sparse:
                norms[rows] = squared(block) @ np.ones(self.d)
            else:
                norms[rows] = np.einsum("ij,ij->i", block, block)
        return norms

    def within(self, bound: float) -> bool:
        """Return whether every row is finite and no longer than `bound`."""
        squares = self.squared_norms() if self._known is None else self._known
        return bool(np.all(squares <= bound**2))

    def slopes_along(self, loss: Any, w: Any, p: Any, y: Any, omega: Any) -> Callable[..., float]:
        """Return t -> the slope of the summed losses at w + tp along p.

        The scores move along a line, s + tq, so in memory one pass over X pays for every t.
        """
        scores, moves = self.scores(w), self.scores(p)
        weighted = weigh(moves, omega)
        return lambda t: float(np.vdot(loss.at_scores(scores + t * moves, y)[1], weighted))

    def scores(self, parameter: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return X w for w of shape (d,), X V' for V of shape (k, d)."""
        out = np.empty((self.n, *parameter.shape[:-1]))
        for rows, block in self.blocks(formed=False):
            out[rows] = block @ parameter.T
        return out


def sampled(step: int, X: Any, *columns: Any) -> list[Any]:
    """Return one row in `step`, and what the columns have there."""
    rows = X[::step].astype(np.float64)
    return [rows, *(None if column is None else column[::step] for column in columns)]


def _repeats(cut: tuple[slice, Any]) -> bool:
    """Whether a CSR block stores some entry twice; linear time, the indices need no order."""
    columns = cut[1].tocsc()
    same = columns.indices[1:] == columns.indices[:-1]
    starts = columns.indptr[1:-1]
    same[starts[(starts > 0) & (starts < len(columns.indices))] - 1] = False
    return bool(np.any(same))


def row_products(block: Any, matrix: Any) -> Any:
    """Return block @ matrix, to the bit a function of each row alone.

    A dense product rounds a row by how many there are; filled up to whole tiles, it does not.
    """
    if sparse.issparse(block):
        return block @ matrix
    spare = -block.shape[0] % _MIN_ROWS
    return (np.pad(block, ((0, spare), (0, 0))) @ matrix)[: block.shape[0]]
