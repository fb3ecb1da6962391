"""`FileColumn`: rows of one table that lie in a temporary file, in parts read one at a time.

What solvers may ask of rows in parts is asked of one machine here: memory does not grow with the
rows, and whatever is proven for rows in parts (ROUND-ANY-ORDER) holds.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from noisette.core.parts import FAN, MOST_PARTS, Parted, merges_of
from noisette.errors import InvalidParameter

ROWS = 1 << 16
"""Rows of a part at least."""

Reader = Callable[[slice], Any]


class FileColumn(Parted):
    """A matrix or a vector in a file.

    `readers` give rows that follow each other; `function` makes the rows of a part from what all of
    them give.
    """

    def __init__(
        self, readers: Sequence[Reader], function: Callable[..., Any], shape: tuple[int, ...]
    ) -> None:
        self.readers, self.function, self.shape = tuple(readers), function, shape
        # proof: ROUND-ANY-ORDER
        self._step = max(ROWS, -(-shape[0] // MOST_PARTS))
        self.merges = merges_of(-(-shape[0] // self._step))

    def apply(
        self, function: Callable[..., Any], others: Sequence[Any], shape: tuple[int, ...] | None
    ) -> "FileColumn":
        """Return the column of function(part, parts of the others)."""
        if shape is not None and shape[0] != self.shape[0]:
            raise InvalidParameter("rows in a file are neither left out nor added.")
        columns = [self, *others]
        readers = [_Reader(column) if column is not None else _nothing for column in columns]
        found = FileColumn(readers, function, self.shape if shape is None else shape)
        found.is_sparse = self.is_sparse
        return found

    def sized(self, rows: int) -> "FileColumn":
        """Return the same column: the number of its rows is known."""
        return self

    def reduce(
        self, function: Callable[..., Any], others: Sequence[Any], join: Callable[[Any, Any], Any],
        last: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Return the values of all parts, joined in their order, `FAN` at a time."""
        waiting: list[list[Any]] = [[]]
        with np.errstate(all="ignore"):  # a warning would depend on the data
            for value in self.apply(function, others, None).parts():
                waiting[0].append(value)
                for level, values in enumerate(waiting):
                    if len(values) == FAN:
                        if level + 1 == len(waiting):
                            waiting.append([])
                        waiting[level + 1].append(reduce(join, values))
                        values.clear()
            for level, values in enumerate(waiting[:-1]):
                if values:
                    waiting[level + 1].append(reduce(join, values))
            found = reduce(join, waiting[-1])
            return found if last is None else last(found)

    def parts(self) -> Iterator[Any]:
        """Yield the parts, one at a time."""
        for start in range(0, self.shape[0], self._step):
            yield self.read(slice(start, min(start + self._step, self.shape[0])))

    def read(self, rows: slice) -> Any:
        """Return some rows that follow each other."""
        return self.function(*(reader(rows) for reader in self.readers))


class _Reader:
    """What reads a column."""

    def __init__(self, column: FileColumn) -> None:
        self._column = column

    def __call__(self, rows: slice) -> Any:
        return self._column.read(rows)


def _nothing(rows: slice) -> None:
    return None
