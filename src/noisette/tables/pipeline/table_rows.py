"""The rows of a table as the steps of a training look at them: at hand, or counted in partitions.

Ranks, counts and shares of the partitions are whole multiples of a public unit, so their sums are
exact in every order (EXACT-SUM), and a step cannot tell them from those of one table. They stay on
the driver, inside of the step, and are as sensitive as the cells.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add, attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Integers
from noisette.core.grid import Grid, ranks_at
from noisette.core.parts import all_of, summed
from noisette.core.randomness import Randomness
from noisette.core.summaries import KnownCounts, Ranks, part_counts
from noisette.errors import InvalidData
from noisette.fitting.partitions.collections import beside, is_dask, parted
from noisette.fitting.partitions.columns import MOST_DRAWN_FROM, DaskColumn, drawn
from noisette.fitting.units import Persons, Unit, UnreadPersons
from noisette.tables import Schema
from noisette.tables.encoding import check_columns
from noisette.tables.frame import Frame
from noisette.tables.pipeline.coordinates import Coordinates
from noisette.tables.pipeline.pair_cells import CELLS, PairView
from noisette.tables.pipeline.text_counts import TextCounts
from noisette.tables.spill import IN_MEMORY, Spill
from noisette.tables.stored_rows import Keeping

_MOST = 1 << 30  # bytes of rows that stay in memory where the disk has no room for them
_WIDE = 2**26  # entries of dense rows at most (`table_run.is_wide`)


class NumberColumn:
    """A column as numbers, NaN where a cell is missing; ``column[start:stop]`` is an array."""

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._name = frame.only(name), name
        self.shape = (frame.rows,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Floats:
        return self._frame.take(rows).numbers(self._name)


class CodedColumn:
    """The codes of a column, formed when they are asked for, and the texts of those codes.

    A missing cell is a level of its own, the empty text.
    """

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._name = frame, name

    @property
    def codes(self) -> Integers:
        """The code of every row."""
        codes, texts = self._frame.codes(self._name)
        self.texts = [*texts, ""]
        codes[codes < 0] = len(texts)
        return codes

    def at(self, codes: Sequence[int]) -> dict[int, str]:
        """Return the texts of some of the codes that were asked for."""
        return dict(zip(codes, map(self.texts.__getitem__, codes), strict=True))


class WholeFrame:
    """A table at hand; what a step looks at is formed block by block whenever it is wanted."""

    most_drawn = math.inf
    tests_persons = True

    def __init__(self, frame: Frame, room: Spill | None = None) -> None:
        self.input, self.schema, self.room = frame, frame.schema, room

    @property
    def rows(self) -> int:
        """The number of rows; private under add-remove."""
        return self.input.rows

    def targets(self, y: Any) -> Any:
        """Return y, or what the schema names as target: labels, or numbers to predict."""
        if is_dask(y):
            raise InvalidData("y lives in partitions, so X must, too.")
        return self.input.labels() if y is None else y

    def persons(self) -> Persons | None:
        """Return whose rows they are by the column that the schema names."""
        return self.input.persons()

    def ranks(
        self, names: Sequence[str], grids: Sequence[Grid], ups: Sequence[bool | None],
        weights: Any, *before: Any,
    ) -> list[Any]:  # fmt: skip
        """Return columns as numbers, behind those that stand before them."""
        return [*before, *map(partial(NumberColumn, self.input), names)]

    def texts(self, names: Sequence[str], weights: Any) -> list[Any]:
        """Return columns as codes of their texts."""
        return list(map(partial(CodedColumn, self.input), names))

    def spreads(self, entries: Callable[..., list[Any]], weights: Any, *others: Any) -> list[Any]:
        """Return the entries of every column."""
        return entries(self.input, *others)

    def drawn(
        self, units: int, share: float, randomness: Randomness, *, exact: bool
    ) -> NDArray[np.bool_]:
        """Return which units are drawn for a test, without a look at any cell.

        So many of them at random, or with `exact` false by a coin for each, so that one person more
        or less moves nobody else.
        """
        # proof: TEST-SHARE
        generator = randomness.generator
        if not exact:
            return np.asarray(generator.random(units) < share)
        chosen = np.zeros(units, dtype=bool)
        chosen[generator.permutation(units)[: round(share * units)]] = True
        return chosen

    def part(self, unit: Unit, chosen: Any) -> tuple[Any, "WholeFrame", Unit | None]:
        """Return which rows are those of chosen units, these rows, and whose they are."""
        rows = chosen[unit.index]
        found = WholeFrame(self.input.take(np.flatnonzero(rows)), self.room)
        return rows, found, unit.part(chosen)

    def reserve(self, pairs: int) -> None:
        """Take a file with room for the encoded rows, unless memory will do.

        The bound follows from the kinds of the columns and the number of rows: three entries of a
        number, one of a category, four of a pair. It is asked for before the charge, so no full
        disk comes after it.
        """
        self.room, schema = None, self.schema
        assert schema is not None
        numbers = sum(map(bool, map(attrgetter("reading.word"), schema.columns)))
        entries = 1 + CELLS * pairs + len(schema.columns) + 2 * numbers
        size = 12 * entries * self.rows
        if size <= IN_MEMORY:
            return
        room = Spill()
        try:
            copies = 1 + len(schema.identifiers)  # one is without rows beyond a person's cap
            room.reserve(copies * max(size, 8 * (_WIDE + self.rows)))
        except InvalidData:
            if size > _MOST:
                raise
            return
        self.room = room

    def encoded(
        self, schema: Schema, coords: Coordinates, pairs: Sequence[PairView],
        finish: Callable[[Any], Any] | None = None, width: int | None = None,
    ) -> Any:  # fmt: skip
        """Return the rows in the coordinates of a model; in the file if they are many.

        `finish` is done to the rows of each block, which then have `width` columns.
        """
        return _encoded(schema, coords, pairs, finish, self.input, self.room)


class PartedFrame:
    """The columns of a table in partitions; its parts are frames, made where they lie.

    What a step looks at is counted there, in one pass for all columns. Its methods are those of
    `WholeFrame`.
    """

    most_drawn = MOST_DRAWN_FROM
    tests_persons = False

    def __init__(self, frames: DaskColumn, schema: Schema) -> None:
        self.input, self.schema = frames, schema

    @classmethod
    def of(cls, table: Any, schema: Schema, *, target: bool) -> "PartedFrame":
        """Return the frame of a table of Dask; columns that are ignored are not read."""
        if not hasattr(table, "columns"):
            raise InvalidData("a table in partitions is a dask.dataframe.DataFrame.")
        also = (schema.target, *schema.identifiers) * target
        check_columns(None, list(map(str, table.columns)), schema, also)
        wanted = {*schema.used, *[schema.target] * target, *schema.identifiers}
        frames, *_ = parted(table[[name for name in table.columns if str(name) in wanted]])
        found = frames.apply(partial(_framed, schema), (), (0,))
        return cls(found.sized(int(summed(attrgetter("rows"), found))), schema)

    @property
    def rows(self) -> int:
        """The number of rows; private under add-remove."""
        return self.input.shape[0]

    def targets(self, y: Any) -> Any:
        """Return y as a vector with an entry for each row, or what the schema names as target."""
        if y is None:
            return self.input.apply(Frame.labels, (), None)
        found = beside(self.input, y)
        if not all_of(lambda own, frame: len(own) == frame.rows, found, self.input):
            raise InvalidData("y must have one entry for each row of the table.")
        return found

    def persons(self) -> Persons:
        """Return whose rows they are, not grouped yet."""
        facts: Any = self.schema.persons
        ids = self.input.apply(
            lambda frame: facts.identifiers(facts.texts_of(frame.cells(facts.column))), (), None
        )
        return UnreadPersons(ids, missing=facts.missing, max_rows=facts.max_rows)

    def ranks(
        self, names: Sequence[str], grids: Sequence[Grid], ups: Sequence[bool | None],
        weights: Any, *before: Any,
    ) -> list[Any]:  # fmt: skip
        """Return the ranks of columns at the candidates of their grids, in one pass.

        They are snapped in each of the ways `ups` (`core.grid.Placed`); `before` are columns of
        numbers that stand before them.
        """
        work = partial(_ranks, list(names), list(grids), list(ups))
        found = iter(self.input.reduce(work, (weights, *before), partial(_joined, Ranks.join)))
        return [RankedColumn({up: next(found) for up in ups}) for _ in grids]

    def texts(self, names: Sequence[str], weights: Any) -> list[Any]:
        """Return how many rows have each text of the columns, in one pass.

        The counts of a few partitions at a time come to the driver, and go on to a file of it where
        texts are many.
        """
        found = [TextCounts(IN_MEMORY // len(names)) for _ in names]
        work = partial(_texts, list(names))
        for counts in self.input.groups(work, (weights,), partial(_joined, add)):
            for column, some in zip(found, counts, strict=True):
                column.add(some)
        return list(map(CountedTexts, found))

    def spreads(self, entries: Callable[..., list[Any]], weights: Any, *others: Any) -> list[Any]:
        """Return the sums of the entries of every column, in one pass."""
        own, join = (weights, *others), partial(_joined, add)
        return list(map(CountedSpread, self.input.reduce(partial(_sums, entries), own, join)))

    def drawn(self, units: int, share: float, randomness: Randomness, *, exact: bool) -> DaskColumn:
        """Return which rows are drawn for a test, wherever that is asked."""
        return drawn(self.input, share, randomness, exact=exact)

    def part(self, unit: Unit, chosen: DaskColumn) -> tuple[Any, "PartedFrame", None]:
        """Return the chosen records; persons are not tested here (`tests_persons`)."""
        count = int(summed(np.count_nonzero, chosen))
        found = self.input.apply(_chosen_rows, (chosen,), (count,))
        return chosen, PartedFrame(found, self.schema), None

    def reserve(self, pairs: int) -> None:
        """Take no room: rows are encoded where they lie."""

    def encoded(
        self, schema: Schema, coords: Coordinates, pairs: Sequence[PairView],
        finish: Callable[[Any], Any] | None = None, width: int | None = None,
    ) -> Any:  # fmt: skip
        """Return the rows in the coordinates of a model."""
        shape = (self.rows, width or coords.map.shape[1] + 1)
        found = self.input.apply(partial(_encoded, schema, coords, list(pairs), finish), (), shape)
        found.is_sparse = coords.sparse
        return found


def _framed(schema: Schema, part: Any) -> Frame:
    absent = [c.name for c in schema.columns if not c.used and c.name not in part]
    table = part.assign(**dict.fromkeys(absent, ""))
    return Frame.of(table, schema, target=schema.target in table.columns)


def _chosen_rows(frame: Frame, chosen: Any) -> Frame:
    if len(chosen) != frame.rows:
        raise InvalidData("the table changed while it was read.")
    return frame.take(np.flatnonzero(chosen))


def _joined(join: Callable[[Any, Any], Any], first: list[Any], second: list[Any]) -> list[Any]:
    return [join(one, other) for one, other in zip(first, second, strict=True)]


def _ranks(
    names: list[str], grids: list[Grid], ups: list[bool | None], frame: Frame, weights: Any,
    *before: Any,
) -> list[Ranks]:  # fmt: skip
    columns = zip([*before, *map(frame.numbers, names)], grids, strict=True)
    return [ranks_at(column, grid, weights, up=up) for column, grid in columns for up in ups]


def _texts(names: list[str], frame: Frame, weights: Any) -> list[Counter[str]]:
    found = []
    for name in names:
        codes, texts = frame.codes(name)
        counts = part_counts(len(texts) + 1, codes + 1, weights).tolist()  # proof: EXACT-SUM
        # a missing cell is a level of its own, the empty text
        found.append(Counter({text: k for text, k in zip(["", *texts], counts, strict=True) if k}))
    return found


def _sums(
    entries: Callable[..., list[Any]], frame: Frame, weights: Any, *others: Any
) -> list[Floats]:
    # proof: EXACT-SUM
    return [spread.checked_sums(frame.rows, weights) for spread in entries(frame, *others)]


def _encoded(
    schema: Schema, coords: Coordinates, pairs: Sequence[PairView],
    finish: Callable[[Any], Any] | None, frame: Frame, room: Spill | None = None,
) -> Any:  # fmt: skip
    kept = Keeping(room)
    for _, block in frame.blocks():
        rows = coords.rows(schema.columns, block.columns, pairs)
        kept.add(rows if finish is None else finish(rows))
    return kept.rows()


@dataclass(frozen=True, repr=False)
class RankedColumn:
    """A column of numbers whose ranks are known, for each way of snapping them."""

    ranks: dict[bool | None, Ranks]


class CountedTexts:
    """A column of categories whose texts are counted; `codes` are the counts themselves."""

    def __init__(self, counts: TextCounts) -> None:
        found = counts.counts()
        # missing cells, the empty text, are the first in order and get the last code, as in memory
        self._shift = int(counts.texts([0]).get(0) == "")
        self._counts, self._size = counts, len(found)
        self.codes = KnownCounts(np.roll(found, -self._shift))

    def at(self, codes: Sequence[int]) -> dict[int, str]:
        """Return the texts of some codes."""
        places = {(code + self._shift) % self._size: code for code in codes}
        return {places[place]: text for place, text in self._counts.texts(list(places)).items()}


@dataclass(frozen=True, repr=False)
class CountedSpread:
    """A column whose sums are known; rows were checked where they lie."""

    sums: Floats

    def checked_sums(self, count: int, weights: Any) -> Floats:
        """Return the sum of every feature; the weights are in it."""
        return self.sums
