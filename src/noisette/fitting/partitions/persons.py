"""Whose rows they are, where the rows of a person may lie in several partitions.

Rows stay where they are. Every partition sends its identifiers, with how often each occurs, to the
holder of their bucket, who adds them up and answers how many rows a person has in all, and how many
in the partitions before. Then the weights of a partition follow from its own rows. Equal
identifiers meet in one bucket and are compared as they are, so no two persons are ever taken for
one; the driver learns how many persons there are, and no identifier.
"""

import math
import uuid
import zlib
from functools import partial
from operator import add, itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Indices, Integers
from noisette.core.adjacency import Adjacency
from noisette.core.cells import MIXED, given
from noisette.core.parts import all_of, each
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.partitions.collections import beside, is_dask
from noisette.fitting.partitions.columns import DaskColumn, same
from noisette.fitting.partitions.running import dask_module, guarded, persisted, run
from noisette.fitting.units import NO_COLUMN, Persons, Unit, UnreadPersons, row_weights

_MOST_BUCKETS = 32
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number that mixes the bits of a product

_NO_IDENTIFIERS = (
    "persons in partitions must be texts or whole numbers; write the identifiers in one of these "
    "ways."
)

Answer = tuple[Integers, Integers]
"""Of each identifier of a partition: all its rows, and those in the partitions before."""


class PartedRecords(Unit):
    """Records in partitions: rows that count nothing stay where they are."""

    def bound(self, adjacency: Adjacency, population: int | None) -> Any:
        """Return a public bound on their number, which sums over partitions need."""
        return self.known(adjacency, population)["most"]

    def present(self, rows: Any, numbers: Any, weights: Any) -> tuple[Any, Any, Any, Unit]:
        """Return the rows that are within a cap."""
        return self.within_cap(rows, numbers, weights)


class PartedPersons(PartedRecords, Persons):
    """A grouping of rows in partitions: how many persons, and the weight of every row."""

    def __init__(self, weights: DaskColumn, count: int, rules: Persons) -> None:
        self.count, self.at_random = count, False
        self.full, self.max_rows, self.missing = rules.full, rules.max_rows, rules.missing
        self.weights: Any = weights

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.weights.shape[0])

    def share(self, weights: Any = None) -> Any:
        """Return the weight of every row times its own one."""
        return self.weights if weights is None else each(np.multiply, self.weights, weights)

    def _obeyed_by(self, weights: Any, bound: float) -> bool:
        """Whether no row has more than its part of one weight, which is at most `bound`."""
        # proof: PERSON-WEIGHTS
        return isinstance(weights, DaskColumn) and all_of(
            partial(_obeyed, bound), weights, self.weights
        )

    def _most_used(self, weights: Any) -> float:
        """Return how many rows of a person have a weight at most, where they obey their own."""
        return math.inf if self.max_rows is None else self.max_rows

    def within_cap(self, rows: Any, numbers: Any, weights: Any) -> tuple[Any, Any, Any, Unit]:
        """Return rows, numbers and weights without the rows beyond the cap, and whose they are."""
        if self.max_rows is None:
            return rows, numbers, weights, self
        count = int(self.weights.reduce(np.count_nonzero, (), add))
        rows, numbers, weights, own = (
            each(_within, column, self.weights, shape=(count, *column.shape[1:]))
            for column in (rows, numbers, weights, self.weights)
        )
        return rows, numbers, weights, PartedPersons(own, self.count, self)

    def _nowhere(self, *args: Any, **more: Any) -> NoReturn:
        raise InvalidParameter("persons in partitions are only summed over.")

    take = rows_of = shuffled = one_each = _nowhere


def _within(column: Any, weights: Floats) -> Any:
    """Return the entries of a column at rows of a weight above 0."""
    return column[np.flatnonzero(weights)]


def _obeyed(bound: float, weights: Floats, own: Floats) -> bool:
    return len(weights) == len(own) and bool(np.all((weights >= 0.0) & (weights <= bound * own)))


def unit_beside(rows: Any, ids: Any, n: int) -> Unit:
    """Return whose the n rows are, by identifiers in partitions that go with those of `rows`."""
    if ids is None:
        return PartedRecords(n)
    rules = ids if isinstance(ids, UnreadPersons) else UnreadPersons(ids)
    if isinstance(ids, Persons) and not isinstance(ids, UnreadPersons):
        raise InvalidParameter(
            "rows in partitions take identifiers that nobody has grouped yet; pass the column "
            "itself, or Persons.of(column, ...) of a column in partitions."
        )
    found = rules.ids
    if not is_dask(found) and not isinstance(found, DaskColumn):
        found = Persons.of(found, missing=rules.missing).index
    if not isinstance(found, DaskColumn):
        found = beside(rows, found)
    column = found.apply(partial(_identified, rules.missing), (rows,), rows.shape[:1])
    *kept, total = persisted(_exchanged(column, rules))
    count = int(run(total))
    return PartedPersons(DaskColumn([kept], same, rows.shape[:1], held=True), count, rules)


def _exchanged(column: DaskColumn, rules: UnreadPersons) -> list[Any]:
    """Return the weights of every partition and the number of persons, as delayed objects.

    All tasks stand in one dictionary: as objects of Dask, each of them would carry the graph of all
    others along.
    """
    parts = range(len(column.sources[0]))
    buckets = range(min(len(parts), _MOST_BUCKETS))
    asking, again = column.leaves(partial(_asked, len(buckets)), ()), column.leaves(same, ())
    name, work = f"persons-{uuid.uuid4().hex}", partial(_weighed, rules.full, rules.max_rows)
    tasks: dict[Any, Any] = {}
    for part, told in enumerate(again):
        answers = [(name, "answer", part, bucket) for bucket in buckets]
        tasks[name, "weights", part] = (guarded, work, told.key, *answers)
        for bucket in buckets:
            asked, found = asking[part].key, (name, "bucket", bucket)
            tasks[name, "question", part, bucket] = (guarded, itemgetter(bucket), asked)
            tasks[name, "answer", part, bucket] = (guarded, itemgetter(part), found)
    for bucket in buckets:
        questions = [(name, "question", part, bucket) for part in parts]
        tasks[name, "bucket", bucket] = (guarded, _answered, *questions)
    # behind the answers stands the number of persons, behind the questions that of rows of nobody
    ends = [(guarded, itemgetter(len(parts)), (name, "bucket", bucket)) for bucket in buckets]
    ends += [(guarded, itemgetter(len(buckets)), told.key) for told in asking]
    tasks |= {(name, "end", place): task for place, task in enumerate(ends)}
    tasks[name, "count"] = (guarded, _added, *((name, "end", place) for place in range(len(ends))))
    graphs = dask_module("dask.highlevelgraph")
    whole = graphs.HighLevelGraph.from_collections(name, tasks, dependencies=[*asking, *again])
    flat = graphs.HighLevelGraph.from_collections(name, dict(whole))
    delayed = dask_module("dask.delayed").Delayed
    keys = [*((name, "weights", part) for part in parts), (name, "count")]
    return [delayed(key, flat, layer=name) for key in keys]


def _added(*numbers: int) -> int:
    return sum(numbers)


class Identified(NamedTuple):
    """The identifiers of one partition, each once, and which of them every row has (-1: none)."""

    texts: bool | None
    keys: NDArray[Any]
    numbers: Indices


def _identified(missing: str, ids: Any, rows: Any) -> Identified:
    """Return the identifiers of one partition in the form in which all partitions compare them."""
    if len(ids) != (rows.rows if hasattr(rows, "rows") else rows.shape[0]):
        raise InvalidData("persons must have one identifier for each row.")
    keys, numbers = given(ids, NO_COLUMN).keys()
    absent = numbers < 0
    texts = all(isinstance(key, str) for key in keys)
    found = Identified(texts, keys.astype(object) if texts else _whole(keys), numbers)
    if missing == "refuse" and bool(absent.any()):
        raise InvalidData(
            "persons has a row without an identifier; fill it in, leave the row out, or "
            "make such rows persons of their own with Persons.of(ids, missing='single')."
        )
    return found if len(found.keys) else found._replace(texts=None)


def _whole(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return identifiers as whole numbers, in whatever type this partition has them."""
    # proof: PERSON-WEIGHTS
    kind = keys.dtype.kind
    if kind in "iuf":
        good = not np.any(keys % 1) and (kind != "u" or bool(np.all(keys < 2**63)))
    else:
        good = kind == "O" and all(
            isinstance(key, int | float) and -(2**63) <= key < 2**63 and key % 1 == 0
            for key in keys.tolist()
        )
    if good:
        return keys.astype(np.int64)
    raise InvalidData(_NO_IDENTIFIERS)


def _bucket_of(told: Identified, buckets: int) -> Integers:
    """Return who counts each identifier: the same for equal ones, in every process."""
    if told.texts:
        codes = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in told.keys]
        return np.array(codes, dtype=np.int64) % buckets
    mixed = told.keys.astype(np.int64).view(np.uint64) * _SPREAD
    return ((mixed >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)


def _asked(buckets: int, told: Identified) -> list[Any]:
    """Return for each bucket identifiers and their rows, and behind them the rows without any."""
    where, there = _bucket_of(told, buckets), told.numbers[told.numbers >= 0]
    counts = np.bincount(there, minlength=len(told.keys))
    pieces: list[Any] = [
        (told.texts, told.keys[where == bucket], counts[where == bucket])
        for bucket in range(buckets)
    ]
    return [*pieces, int(np.sum(told.numbers < 0))]


def _answered(*pieces: Any) -> list[Any]:
    """Return for each partition what it asked for, and behind it the number of persons."""
    if len({texts for texts, _, _ in pieces} - {None}) > 1:
        raise InvalidData(MIXED)
    known: dict[Any, int] = {}
    numbers = [
        np.array([known.setdefault(key, len(known)) for key in keys.tolist()], dtype=np.intp)
        for _, keys, _ in pieces
    ]
    totals, before = np.zeros(len(known), dtype=np.int64), []
    for number, (_, _, counts) in zip(numbers, pieces, strict=True):
        before.append(totals[number])
        totals[number] += counts
    answers = zip(numbers, before, strict=True)
    return [*((totals[number], seen) for number, seen in answers), len(known)]


def _weighed(full: int, max_rows: int | None, told: Identified, *answers: Answer) -> Floats:
    """Return the weight of every row of one partition."""
    # proof: PERSON-WEIGHTS
    where = _bucket_of(told, len(answers))
    totals, before = np.zeros((2, len(told.keys)), dtype=np.int64)
    for bucket, (sizes, seen) in enumerate(answers):
        totals[where == bucket], before[where == bucket] = sizes, seen
    # a row without an identifier is a person of its own
    totals, before = np.append(totals, 1), np.append(before, 0)
    weights = row_weights(totals, full, max_rows)[told.numbers]
    if max_rows is not None:
        place = before[told.numbers] + np.where(told.numbers < 0, 0, _places(told.numbers))
        weights[place >= max_rows] = 0.0
    return weights


def _places(numbers: Indices) -> Integers:
    """Return how many rows of the same person stand before each row of the partition."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.searchsorted(ordered, ordered, side="left")
    places = np.empty(len(numbers), dtype=np.int64)
    places[order] = np.arange(len(numbers)) - first
    return places
