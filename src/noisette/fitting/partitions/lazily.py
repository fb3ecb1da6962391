"""Models that score where the rows lie."""

import copy
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from noisette.errors import InvalidData
from noisette.fitting.partitions.collections import is_dask

Method = TypeVar("Method", bound=Callable[..., Any])


def for_workers(model: Any) -> Any:
    """Return a copy of a model without what is the driver's, and no worker sees."""
    model = copy.copy(model)
    for name in ("ledger", "random_state"):
        if hasattr(model, name):
            setattr(model, name, None)
    return model


def lazily(method: Method) -> Method:
    """Let a method that scores rows take a collection of Dask, and return a lazy array of it.

    What is wrong with the columns is said at once; rows are looked at when somebody computes it.
    """

    @wraps(method)
    def either(self: Any, X: Any) -> Any:
        return _scored(self, method, X) if is_dask(X) else method(self, X)

    return cast("Method", either)


def _scored(model: Any, method: Callable[..., Any], X: Any) -> Any:
    """Return one lazy answer for each row."""
    if len(X.shape) != 2:
        raise InvalidData("X must be a matrix of Dask with one record per row, or a table.")
    width, cell = int(X.shape[1]), "" if hasattr(model, "schema_") else 0.0
    head: Any = np.full((1, width), cell)
    if hasattr(X, "columns"):
        import pandas as pd  # which tables of Dask are made of

        head = pd.DataFrame({name: [cell] for name in X.columns})
    none = np.asarray(method(model, head))[:0]
    work = partial(_part_scored, for_workers(model), method.__name__, none)
    if hasattr(X, "columns"):
        return X.map_partitions(work, meta=none)
    if len(X.chunks[1]) > 1:
        if np.isnan(X.shape[0]):
            raise InvalidData("an array of unknown chunk sizes must have whole rows in its chunks.")
        X = X.rechunk({1: -1})
    if none.ndim == 1:
        return X.map_blocks(work, drop_axis=1, meta=none)
    return X.map_blocks(work, chunks=(X.chunks[0], (none.shape[1],)), meta=none)


def _part_scored(model: Any, name: str, none: Any, part: Any) -> Any:
    """Return the answers of one partition, which may be empty."""
    return getattr(model, name)(part) if part.shape[0] else none
