"""All columns side by side: the rows of a matrix, dense or sparse, each of norm at most 1."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.fitting.clipping import clip_rows
from noisette.tables.kinds.base import Cells, Column, Entries

_WIDE, _TIMES = 200, 8


def is_sparse(columns: Sequence[Column]) -> bool:
    """Whether rows are kept sparse: more than 200 features, at most an eighth of them not zero.

    It is a matter of the public columns alone: the same for every table.
    """
    d = sum(map(len, map(attrgetter("features"), columns)))
    return bool(d > _WIDE and sum(map(attrgetter("nonzeros"), columns)) * _TIMES <= d)


def slices(columns: Sequence[Column]) -> Iterator[tuple[Column, slice]]:
    """Yield each column that has features, and which ones of all they are."""
    start = 0
    for column in columns:
        stop = start + len(column.features)
        if stop > start:
            yield column, slice(start, stop)
        start = stop


def encode_rows(
    columns: Sequence[Column], cells: Mapping[str, Cells], row_norm: float | None
) -> Floats:
    """Return the rows, shape (n, d): columns side by side, divided by `row_norm`, cut to norm 1.

    Dividing by the largest possible norm instead would leave almost every row far inside the ball,
    and noise is added in units of the ball. Longer rows lose a little length, row by row. Without
    a `row_norm` the features are returned as they are. Where `is_sparse` says so, it is CSR.
    """
    # proof: ROW-LOCAL
    used = list(filter(attrgetter("features"), columns))
    n = len(cells[used[0].name]) if used else len(next(iter(cells.values())))
    width, thin = sum(map(len, map(attrgetter("features"), used))), is_sparse(used)
    if thin:  # no dense row ever exists
        X = matrix_of(*sparse_entries(used, cells, n), width)
    else:
        X = np.zeros((n, width))
        for column, part in slices(used):
            column.fill(cells[column.name], X[:, part])
    if row_norm is not None:
        values = X.data if thin else X
        values /= row_norm
        X = clip_rows(X, 1.0)
    return cast(Floats, X)


def sparse_entries(used: Sequence[Column], cells: Mapping[str, Cells], n: int) -> Entries:
    """Return the entries of all columns side by side."""
    width = sum(map(attrgetter("nonzeros"), used))
    features, values = np.empty((n, width), dtype=np.int32), np.empty((n, width))
    place = 0
    for column, own in slices(used):
        part = slice(place, place + column.nonzeros)
        found, values[:, part] = column.entries(cells[column.name])
        np.add(found, own.start, out=features[:, part])
        place = part.stop
    return features, values


def matrix_of(features: NDArray[np.int32], values: Floats, width: int) -> Any:
    """Return the CSR matrix of entries, in order and each place once; zeros are left out."""
    kept = values != 0.0
    ends = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(kept.sum(axis=1), out=ends[1:])
    X = sparse.csr_matrix((len(values), width))
    X.data, X.indices, X.indptr = values[kept], features[kept], ends
    X.sum_duplicates()
    return X
