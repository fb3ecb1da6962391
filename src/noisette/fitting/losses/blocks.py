"""One block of rows, and the products that solvers form with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from noisette._typing import Floats


class Scaled:
    """Rows (factor_i x_i, extra_i) that are not formed: products multiply what comes out of X.

    A product with it rounds each term twice more than one with the formed rows does, at most
    (ROUND-GRADIENT); no entry of a row is written.
    """

    def __init__(self, matrix: Floats, factor: Floats, extra: Floats | None) -> None:
        self.matrix, self.factor, self.extra = matrix, factor, extra
        self.shape = (matrix.shape[0], matrix.shape[1] + (extra is not None))

    def __getitem__(self, rows: Any) -> Scaled:
        extra = None if self.extra is None else self.extra[rows]
        return Scaled(self.matrix[rows], self.factor[rows], extra)

    def __matmul__(self, parameter: Floats) -> Floats:
        """X w for w of shape (d,) or (d, k)."""
        column = (slice(None),) + (None,) * (parameter.ndim - 1)
        if self.extra is None:
            return np.asarray((self.matrix @ parameter) * self.factor[column])
        scores = self.matrix @ parameter[:-1]
        scores *= self.factor[column]
        scores += self.extra[column] * parameter[-1]
        return np.asarray(scores)


def weighted(block: Any, weights: npt.NDArray[np.float64], out: Floats | None = None) -> Any:
    """The block with every row times its weight; a dense one in `out` if there is one."""
    if sparse.issparse(block):
        return block.multiply(weights[:, None]).tocsr()
    if not isinstance(block, Scaled):
        return np.multiply(block, weights[:, None], out=out)
    out = np.empty(block.shape) if out is None else out
    factor = (block.factor * weights)[:, None]
    np.multiply(block.matrix, factor, out=out[:, : block.matrix.shape[1]])
    if block.extra is not None:
        out[:, -1] = block.extra * weights
    return out


def squared(block: Any) -> Any:
    """The block with every entry squared; a CSR result shares the indices."""
    if isinstance(block, Scaled):
        block = weighted(block, np.ones(block.shape[0]))
    if not sparse.issparse(block):
        return block * block
    result = sparse.csr_array(block.shape, dtype=np.float64)
    result.data, result.indices, result.indptr = block.data**2, block.indices, block.indptr
    return result


def back(block: Any, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """sum_i values_i x_i over one block: (n,) -> (d,), (n, k) -> (k, d)."""
    if sparse.issparse(block):
        return np.asarray((block.T @ values).T)
    if not isinstance(block, Scaled):
        return np.asarray(values.T @ block)
    inner = (values.T * block.factor) @ block.matrix
    if block.extra is None:
        return np.asarray(inner)
    return np.concatenate([inner, (values.T @ block.extra)[..., None]], axis=-1)


def weigh(values: Floats, omega: Floats | None) -> Floats:
    """Values times omega, row by row."""
    if omega is None:
        return values
    return np.asarray(values * (omega if values.ndim == 1 else omega[:, None]))


class Total:
    """Several sums side by side; arrays are compensated where asked, numbers never.

    A compensated sum keeps what every addition lost (Knuth's two-sum is exact) and errs by 2u in
    all, however many terms there are and however sums of them are joined (ROUND-ANY-ORDER).
    """

    def __init__(self, compensated: bool = False, start: Sequence[Any] = ()) -> None:
        self.compensated = compensated
        self.sums: list[Any] = []
        self.lost: list[Any] = []
        if start:
            self.add(start)

    def add(self, terms: Sequence[Any]) -> None:
        """Add one term to each sum; a tuple in its place holds terms to be added in turn."""
        for place, term in enumerate(terms):
            in_turn = term if isinstance(term, tuple) else (term,)
            if place == len(self.sums):
                shape = np.shape(in_turn[0])
                self.sums.append(np.zeros(shape) if shape else 0.0)
                self.lost.append(np.zeros(shape) if shape and self.compensated else None)
            lost = self.lost[place]
            for each in in_turn:
                total = self.sums[place]
                if lost is None:
                    self.sums[place] += each
                    continue
                new = total + each
                seen = new - total
                lost += (total - (new - seen)) + (each - seen)
                self.sums[place] = new

    def join(self, other: Total) -> Total:
        """Add the sums of another total, and what was lost in them; return itself."""
        if other.sums:
            self.add(other.sums)
            for mine, theirs in zip(self.lost, other.lost, strict=True):
                if mine is not None and theirs is not None:
                    mine += theirs
        return self

    def values(self) -> list[Any]:
        """Return the sums."""
        if not self.compensated:
            return self.sums
        return [
            each if lost is None else each + lost
            for each, lost in zip(self.sums, self.lost, strict=True)
        ]
