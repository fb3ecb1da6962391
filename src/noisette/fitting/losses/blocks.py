"""One block of rows, and the products that solvers form with it."""

from __future__ import annotations

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

    def back(self, values: Floats) -> Floats:
        """sum_i values_i x_i: (n,) -> (d,), (n, k) -> (k, d)."""
        inner = (values.T * self.factor) @ self.matrix
        if self.extra is None:
            return np.asarray(inner)
        last = values.T @ self.extra
        return np.concatenate([inner, last[..., None]], axis=-1)

    def formed(self, weights: Floats | None = None, out: Floats | None = None) -> Floats:
        """The rows themselves, each times its weight; in `out` if there is one."""
        factor, extra = self.factor, self.extra
        if weights is not None:
            factor, extra = factor * weights, None if extra is None else extra * weights
        out = np.empty(self.shape) if out is None else out
        np.multiply(self.matrix, factor[:, None], out=out[:, : self.matrix.shape[1]])
        if extra is not None:
            out[:, -1] = extra
        return out


def weighted(block: Any, weights: npt.NDArray[np.float64], out: Floats | None = None) -> Any:
    """The block with every row times its weight; a dense one in `out` if there is one."""
    if isinstance(block, Scaled):
        return block.formed(weights, out)
    if sparse.issparse(block):
        return block.multiply(weights[:, None]).tocsr()
    return np.multiply(block, weights[:, None], out=out)


def squared(block: Any) -> Any:
    """The block with every entry squared; a CSR result shares the indices."""
    if isinstance(block, Scaled):
        block = block.formed()
    if not sparse.issparse(block):
        return block * block
    result = sparse.csr_array(block.shape, dtype=np.float64)
    result.data, result.indices, result.indptr = block.data**2, block.indices, block.indptr
    return result


def back(block: Any, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """sum_i values_i x_i over one block: (n,) -> (d,), (n, k) -> (k, d)."""
    if isinstance(block, Scaled):
        return block.back(values)
    if sparse.issparse(block):
        return np.asarray((block.T @ values).T)
    return np.asarray(values.T @ block)


def weigh(values: Floats, omega: Floats | None) -> Floats:
    """Values times omega, row by row."""
    if omega is None:
        return values
    return np.asarray(values * (omega if values.ndim == 1 else omega[:, None]))
