"""`DaskColumn`: a matrix or a vector in the partitions of Dask, as a function of what lies there.

A column is its partitions as the user's graph makes them, and a function that turns a partition
into rows. Functions are put together on the driver and run on the workers, one task for each
partition and pass, so that a partition is read, used and forgotten. Every task has a key of its
own, and the sum of all tasks takes each key once: a task that is lost or repeated changes nothing
but time.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisette.core.parts import FAN, MOST_PARTS, Parted, listed, merges_of
from noisette.core.randomness import Randomness, coin_words
from noisette.errors import InvalidParameter
from noisette.fitting.partitions.running import dask_module, guarded, joined, persisted, run

_AHEAD = 4


class DaskColumn(Parted):
    """Rows or values in partitions.

    `sources` are lists of delayed partitions, as long as each other; `function` makes the rows of a
    partition from those of every source. They are cut into `chunks`, or as those of `like` are.
    """

    def __init__(
        self, sources: Sequence[Sequence[Any]], function: Callable[..., Any],
        shape: tuple[int, ...], held: bool = False, like: Any = None, chunks: Any = None,
    ) -> None:  # fmt: skip
        self.sources, self.function, self.shape = tuple(sources), function, shape
        self.held, self.chunks = held, chunks
        if like is not None:
            self.chunks, self.is_sparse = like.chunks, like.is_sparse
        if len(self.sources[0]) > MOST_PARTS:
            # proof: ROUND-ANY-ORDER
            raise InvalidParameter(f"a table may have at most {MOST_PARTS} partitions.")
        self.merges = merges_of(len(self.sources[0]))

    def apply(
        self, function: Callable[..., Any], others: Sequence[Any], shape: tuple[int, ...] | None
    ) -> "DaskColumn":
        """Return the column of function(part, parts of the others)."""
        columns = [self, *others]
        sources = [each for column in columns if column is not None for each in column.sources]
        held = all(column is None or column.held for column in columns)
        inner = [None if c is None else (c.function, len(c.sources)) for c in columns]
        whole = partial(_joint, function, inner)
        return DaskColumn(sources, whole, self.shape if shape is None else shape, held, self)

    def sized(self, rows: int) -> "DaskColumn":
        """Return the same column with its number of rows."""
        return self.apply(same, (), (rows, *self.shape[1:]))

    def leaves(self, function: Callable[..., Any], others: Sequence[Any]) -> list[Any]:
        """Return one task for each partition."""
        whole = self.apply(function, others, None)
        task = dask_module().delayed(guarded, pure=False, traverse=False)
        return [task(whole.function, *parts) for parts in zip(*whole.sources, strict=True)]

    def reduce(
        self, function: Callable[..., Any], others: Sequence[Any], join: Callable[[Any, Any], Any],
        last: Callable[[Any], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Return the values of all partitions, joined in their order, `FAN` at a time."""
        values = self.leaves(function, others)
        while len(values) > 1:
            values = _by_fan(values, join)
        if last is not None:
            task = dask_module().delayed(guarded, pure=False, traverse=False)
            values = [task(last, values[0])]
        return run(values[0])

    def groups(
        self, function: Callable[..., Any], others: Sequence[Any], join: Callable[[Any, Any], Any]
    ) -> Iterator[Any]:
        """Yield the values of `FAN` partitions, joined; some of these are worked on together."""
        task = dask_module().delayed(guarded, pure=False)
        values = _by_fan(self.leaves(function, others), join)
        for k in range(0, len(values), _AHEAD):
            yield from run(task(_together, *values[k : k + _AHEAD]))

    def kept(self, columns: Sequence[Any]) -> list[Any]:
        """Return the columns with their parts kept where they are, if their sources are in memory.

        Then nobody has to make them again in every pass; what is read from files is not kept.
        """
        known = [column for column in columns if column is not None]
        if not all(isinstance(column, DaskColumn) and column.held for column in known):
            return list(columns)
        first, *others = known
        made = persisted(first.leaves(_together, others))
        found = list(columns)
        for number, each in enumerate(known):  # `guarded` of every later task hands on a failure
            item = DaskColumn([made], itemgetter(number), each.shape, True, each)
            found[columns.index(each)] = item
        return found

    def few(self, count: int) -> tuple["DaskColumn", float]:
        """Return about `count` of the partitions, evenly spread, and their share of all."""
        every = len(self.sources[0])
        picked = [source[:: -(-every // count)] for source in self.sources]
        found = DaskColumn(picked, self.function, self.shape, self.held)
        found.is_sparse = self.is_sparse
        return found, len(picked[0]) / every

    def parts(self) -> Iterator[Any]:
        """Yield the partitions, one at a time."""
        for leaf in self.leaves(same, ()):
            yield run(leaf)


def _by_fan(values: list[Any], join: Callable[[Any, Any], Any]) -> list[Any]:
    """Return tasks that join the values of `FAN` tasks each, in their order."""
    task = dask_module().delayed(joined, pure=False)
    return [task(join, values[k : k + FAN]) for k in range(0, len(values), FAN)]


def _joint(function: Callable[..., Any], inner: list[Any], *raws: Any) -> Any:
    """Return one function of the parts of several columns, each made from its own sources."""
    raw = iter(raws)
    given = [None if each is None else each[0](*islice(raw, each[1])) for each in inner]
    return function(*given)


def same(part: Any) -> Any:
    """Return a part as it is."""
    return part


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


MOST_DRAWN_FROM = 10**9
"""So many rows at most, for the law of how many come from which partition."""


class Coins(NamedTuple):
    """What one part tosses by: so many of its rows are drawn, or each of them by chance."""

    key: int
    part: int
    rows: int
    number: int | None
    chance: float


def drawn(frames: DaskColumn, share: float, randomness: Randomness, *, exact: bool) -> DaskColumn:
    """Return which rows of tables are drawn, as truth values, without a look at any cell.

    With `exact` so many of all rows, every choice of them equally likely; else each row by a coin
    of its own. Who is drawn is the same in every pass.
    """
    # proof: TEST-SHARE
    key, sizes = randomness.shared_key(), frames.reduce(_size, (), listed)
    left = sum(sizes)
    wanted, task, coins = round(share * left), dask_module().delayed, []
    for part, size in enumerate(sizes):
        count = None
        if exact:
            count = int(randomness.generator.hypergeometric(size, left - size, wanted))
            left, wanted = left - size, wanted - count
        coins.append(task(Coins(key, part, size, count, share), traverse=False))
    return DaskColumn([coins], _tossed, frames.shape[:1], held=True)


def _size(frame: Any) -> list[int]:
    return [frame.rows]


def _tossed(coins: Coins) -> NDArray[np.bool_]:
    """Return who is drawn in one part: those below a limit, or so many with the least words."""
    words = coin_words(coins.key, coins.part, coins.rows)
    if coins.number is None:
        return np.asarray(words < np.uint64(int(coins.chance * 2.0**64)))
    chosen = np.zeros(coins.rows, dtype=bool)
    chosen[np.argsort(words, kind="stable")[: coins.number]] = True
    return chosen
