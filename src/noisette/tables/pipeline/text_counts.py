"""How often each text of a column occurs, however many texts there are.

Counts of partitions are added in memory; where the texts are many, sorted runs of them go to a
temporary file that nobody else can open, and are merged as they are read. Every text that occurs
keeps its exact count, a multiple of 2^-20 where persons share weights: one that was dropped for
want of memory would change what a person can move.
"""

import heapq
import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from noisette.tables.spill import IN_MEMORY, Spill

_EACH = 150
"""Bytes of a text and its count in memory, beside its letters."""

Pair = tuple[bytes, float]


class TextCounts:
    """Texts of one column with their counts, in order; `limit` bytes of them are in memory."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = IN_MEMORY if limit is None else limit
        self._held: Counter[str] = Counter()
        self._size = 0
        self._file: Spill | None = None
        self._runs: list[_Run] = []

    def __repr__(self) -> str:
        return "<TextCounts>"

    def add(self, counts: Counter[str]) -> None:
        """Add the counts of some rows."""
        self._size += sum(_EACH + len(text) for text in counts if text not in self._held)
        self._held.update(counts)
        if self._size > self._limit:  # what is in memory becomes one sorted run
            self._file = self._file or Spill()
            self._runs.append(_Run(self._file, _sorted(self._held)))
            self._held, self._size = Counter(), 0

    def counts(self) -> Any:
        """Return the counts of all texts, in their order."""
        return np.fromiter((count for _, count in self._pairs()), dtype=np.float64)

    def texts(self, places: Sequence[int]) -> dict[int, str]:
        """Return the texts at some places of that order."""
        wanted = set(places)
        pairs = itertools.islice(self._pairs(), max(wanted, default=-1) + 1)
        return {
            k: text.decode("utf-8", "surrogatepass")
            for k, (text, _) in enumerate(pairs)
            if k in wanted
        }

    def _pairs(self) -> Iterator[Pair]:
        """Yield every text once, in the order of code points, which is that of UTF-8 bytes."""
        room = max(self._limit // (4 * len(self._runs) + 4), 1)
        runs: list[Iterable[Pair]] = [run.pairs(room) for run in self._runs]
        several = heapq.merge(*runs, iter(_sorted(self._held)))
        for text, same in itertools.groupby(several, key=operator.itemgetter(0)):
            yield text, sum(count for _, count in same)


class _Run:
    """Sorted texts in a file: their letters, where each of them ends, and their counts."""

    def __init__(self, file: Spill, pairs: list[Pair]) -> None:
        self._file, self._count = file, len(pairs)
        lengths = [len(text) for text, _ in pairs]
        self._letters = file.append(np.frombuffer(b"".join(text for text, _ in pairs), np.uint8))
        self._lengths = file.append(np.array(lengths, dtype=np.int64))
        self._counts = file.append(np.array([count for _, count in pairs], dtype=np.float64))
        self._longest = max(lengths, default=0)

    def pairs(self, room: int) -> Iterator[Pair]:
        """Yield the texts in order, with about `room` bytes of them in memory."""
        step, place = max(room // (_EACH + self._longest), 1), self._letters
        for start in range(0, self._count, step):
            count = min(step, self._count - start)
            lengths = self._file.read(self._lengths + 8 * start, count, np.int64)
            counts = self._file.read(self._counts + 8 * start, count, np.float64).tolist()
            letters = self._file.read(place, int(lengths.sum()), np.uint8).tobytes()
            place += len(letters)
            ends = np.cumsum(lengths).tolist()
            for first, last, number in zip([0, *ends], ends, counts, strict=False):
                yield letters[first:last], number


def _sorted(counts: Counter[str]) -> list[Pair]:
    return sorted((text.encode("utf-8", "surrogatepass"), k) for text, k in counts.items())
