"""From arrays and tables of Dask to columns in partitions that are cut alike."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from noisette.core.cells import given
from noisette.core.parts import Parted
from noisette.errors import InvalidData
from noisette.fitting.partitions.columns import DaskColumn, same
from noisette.fitting.partitions.running import dask_module

_NOT_ALIKE = (
    "the partitions of X and of what goes with it must be cut alike; take all of them from one "
    "table, or give arrays whose chunk sizes are known (compute_chunk_sizes())."
)
_NO_VECTOR = "y must be a vector with one entry for each row of X."


def is_dask(values: Any) -> bool:
    """Return whether `values` is an array, table or column of Dask."""
    return "dask" in sys.modules and hasattr(values, "__dask_graph__")


def parted(X: Any, *vectors: Any) -> list[Any]:
    """Return a matrix or table and vectors of Dask as columns whose partitions go together."""
    if isinstance(X, Parted):
        return [X, *vectors]
    sources, chunks = _pieces(X, None)
    shape = (0, int(X.shape[1])) if len(X.shape) == 2 else (0,)
    rows = DaskColumn([sources], same, shape, _held(X), chunks=chunks)
    return [rows, *(None if vector is None else beside(rows, vector) for vector in vectors)]


def beside(rows: DaskColumn, vector: Any) -> DaskColumn:
    """Return a vector whose partitions go with those of `rows`."""
    found, _ = _pieces(vector, rows.chunks)
    if len(found) != len(rows.sources[0]):
        raise InvalidData(_NOT_ALIKE)
    return DaskColumn([found], _as_vector, rows.shape[:1], _held(vector))


def _pieces(values: Any, chunks: tuple[int, ...] | None) -> tuple[list[Any], Any]:
    """Return the delayed partitions, and the sizes of those of an array where they are known.

    Their graphs are taken as they are: optimised one by one, X and y would be cut differently
    (small files are read together), and what makes both of them would run twice, in two orders.
    """
    if hasattr(values, "npartitions") and hasattr(values, "divisions"):
        return list(values.to_delayed(optimize_graph=False)), None
    if not is_dask(values):
        if chunks is None:
            raise InvalidData(_NOT_ALIKE)
        values = vector_of(values)
        if values.ndim != 1 or len(values) != sum(chunks):
            raise InvalidData("Found input variables with inconsistent numbers of samples.")
        values = dask_module("dask.array").from_array(values, chunks=(chunks,))
    if not hasattr(values, "chunks") or values.ndim > 2:
        raise InvalidData("X must be a matrix of Dask with one record per row, or a table.")
    known = not any(np.isnan(size) for size in values.chunks[0])
    if known and chunks is not None and values.chunks[0] != chunks:
        if sum(values.chunks[0]) != sum(chunks):
            raise InvalidData("Found input variables with inconsistent numbers of samples.")
        values = values.rechunk({0: chunks})
    if values.ndim == 2 and len(values.chunks[1]) > 1:
        if not known:
            raise InvalidData("an array of unknown chunk sizes must have whole rows in its chunks.")
        values = values.rechunk({1: -1})
    pieces = values.to_delayed(optimize_graph=False).ravel()
    return list(pieces), values.chunks[0] if known else None


def _held(values: Any) -> bool:
    """Return whether all that a collection is made of is in memory, persisted or given so."""
    return not is_dask(values) or not any(
        isinstance(node, tuple)
        or (type(node).__name__ == "Task" and not getattr(node, "dependencies", ()))
        for node in dict(values.__dask_graph__()).values()
    )


def vector_of(values: Any) -> Any:
    """Return an array of one type, or of single cells where a gap would change that type."""
    # proof: ROW-LOCAL
    if getattr(values, "ndim", 1) != 1 or isinstance(values, Sequence):
        return np.asarray(values)
    return given(values, _NO_VECTOR).cells()


def _as_vector(part: Any) -> Any:
    if getattr(part, "ndim", 1) == 2 and part.shape[1] == 1:
        part = part.iloc[:, 0] if hasattr(part, "iloc") else part[:, 0]
    values = vector_of(part)
    if values.ndim != 1:
        raise InvalidData(_NO_VECTOR)
    return values
