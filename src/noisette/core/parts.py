"""`Parted`: a matrix or a vector whose rows live in parts, elsewhere.

Whoever holds the parts (`fitting/partitions`) evaluates a function on each of them where it lies
and joins the answers in a fixed order. No row leaves its part but those of a sample, which the
holder of another part may see, and the driver never.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

MOST_PARTS = 2**24
"""So many parts at most, so that a public number bounds the additions of their sums."""

FAN = 8
"""So many sums of parts are added in one place."""


def merges_of(parts: int) -> int:
    """Return how many additions a term goes through while sums of `parts` parts are joined."""
    # proof: ROUND-ANY-ORDER
    levels, left = 0, max(parts, 1)
    while left > 1:
        left, levels = -(-left // FAN), levels + 1
    return FAN * levels


class Parted(ABC):
    """A matrix or a vector cut into parts by rows.

    Attributes
    ----------
    shape : tuple of int
        As of an array; the first entry is as private as the number of rows is.
    merges : int
        So many sums of parts at most go into another one on the way to the total.

    """

    shape: tuple[int, ...]
    dtype = np.dtype(np.float64)
    merges: int
    is_sparse = False
    held = False
    """Whether the parts are in memory, so that nobody reads them again."""
    within: float | None = None
    """The bound within which all rows were seen to lie."""
    total: float | None = None
    """The sum of a column that was added up before."""
    proofs = ("ROUND-ANY-ORDER", "ROW-LOCAL")
    """The theorems that a training on such rows rests on, beside its own."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("rows in parts are never put into one array.")

    @abstractmethod
    def apply(
        self, function: Callable[..., Any], others: Sequence[Any], shape: tuple[int, ...] | None
    ) -> Parted:
        """Return function(part, parts of the others) of every part, when it is asked for.

        `others` are parted alike, or None. `shape` is that of the result; None keeps it.
        """

    @abstractmethod
    def reduce(
        self, function: Callable[..., Any], others: Sequence[Any], join: Callable[[Any, Any], Any],
        last: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Return function(part, parts of the others) of all parts, joined in a fixed order.

        `last`, if given, is applied to the result before it leaves the parts' place.
        """

    def groups(
        self, function: Callable[..., Any], others: Sequence[Any], join: Callable[[Any, Any], Any]
    ) -> Iterator[Any]:
        """Yield what `reduce` returns, but of some parts at a time: for what grows as it is joined.

        The parts come in their order, each of them once.
        """
        yield self.reduce(function, others, join)

    def kept(self, columns: Sequence[Any]) -> list[Any]:
        """Return columns that go with this one, made once and for all where that costs little."""
        return list(columns)

    def few(self, count: int) -> tuple[Parted, float]:
        """Return about `count` of the parts, evenly spread, and which share of all they are.

        The same ones of every column that goes with this one; all of them unless a holder can
        leave some out.
        """
        return self, 1.0

    @abstractmethod
    def parts(self) -> Iterator[Any]:
        """Yield the parts themselves, one at a time: for the last resort of a solver only."""


def is_parted(values: Any) -> bool:
    """Return whether rows live in parts elsewhere."""
    return isinstance(values, Parted)


def each(
    function: Callable[..., Any], first: Any, *others: Any, shape: tuple[int, ...] | None = None,
    dense: bool = False,
) -> Any:  # fmt: skip
    """Return function(first, *others), part by part where `first` is parted.

    `function` must treat rows one by one; None among `others` is handed on. `dense` says that it
    returns dense rows, whatever it gets.
    """
    if not isinstance(first, Parted):
        return function(first, *others)
    found = first.apply(function, others, shape)
    found.is_sparse = found.is_sparse and not dense
    return found


def joined(
    function: Callable[..., Any], first: Any, *others: Any, join: Callable[[Any, Any], Any]
) -> Any:
    """Return function(first, *others): of one part, or of all parts and joined."""
    if isinstance(first, Parted):
        return first.reduce(function, others, join)
    return function(first, *others)


def total_of(column: Any) -> float:
    """Return the sum of a column, to rounding."""
    if isinstance(column, Parted):
        if column.total is None:
            column.total = math.fsum(column.reduce(_part_sum, (), listed))
        return column.total
    return float(np.sum(column))


def both(first: Any, second: Any) -> Any:
    """Return whether both hold, question by question."""
    if isinstance(first, tuple):
        return tuple(one and other for one, other in zip(first, second, strict=True))
    return first and second


summed = partial(joined, join=operator.add)
"""Return function(first, *others), or its sum over parts; for sums that are exact anyway."""
all_of = partial(joined, join=both)
"""Return what function(first, *others) says, on every part where `first` is parted.

It says yes or no to one question, or to each of several (a tuple).
"""


def _part_sum(column: Any) -> list[float]:
    return [float(np.sum(column))]


def listed(first: list[Any], second: list[Any]) -> list[Any]:
    """Return both lists, one after the other."""
    return [*first, *second]
