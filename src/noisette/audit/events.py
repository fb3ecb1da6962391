"""Events that tell two worlds apart, chosen on pilot runs that the test never sees again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from noisette._typing import Bools, Floats

Score = Callable[[Floats, int, Floats, int], Floats]

_MOST_CANDIDATES = 400
_MOST_BLOCKS = 1000


@dataclass(frozen=True)
class Outcome:
    """What one run leaves behind: the statistic, and what shows whether noise was used twice."""

    value: float
    vector: Floats | None = None  # the released numbers, where no statistic was given
    digest: Hashable = None  # of everything released
    pattern: Hashable = None  # which parts of the release are equal bit by bit


class Event(Protocol):
    """A set of outcomes."""

    def happened(self, outcomes: Sequence[Outcome]) -> Bools:
        """Return, for each outcome, whether it lies in the event."""


@dataclass(frozen=True)
class Threshold:
    """The statistic is at least (``above``) or at most the threshold."""

    threshold: float
    above: bool

    def happened(self, outcomes: Sequence[Outcome]) -> Bools:
        """Return where the statistic is on the event's side."""
        values = np.array([outcome.value for outcome in outcomes])
        return values >= self.threshold if self.above else values <= self.threshold

    def __str__(self) -> str:
        return f"statistic {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True)
class Repetition:
    """The outcome shows a repetition that the pilot saw in one world more than in the other."""

    attribute: str
    seen: frozenset[Hashable]

    def happened(self, outcomes: Sequence[Outcome]) -> Bools:
        """Return where a repetition of the pilot came again."""
        return np.array([getattr(outcome, self.attribute) in self.seen for outcome in outcomes])

    def __str__(self) -> str:
        if self.attribute == "digest":
            return "the release is bit by bit one that an earlier run had already given"
        return "parts of the release are equal bit by bit as one world has it more often"


def best_threshold(first: Floats, second: Floats, score: Score) -> tuple[Threshold, float, float]:
    """Return the threshold event with the best score, and P and P' as the pilot estimates them.

    `first` holds the pilot's statistics in the world where the event should be likely.
    """
    values = np.unique(np.concatenate([first, second]))
    if len(values) > _MOST_CANDIDATES:
        kept = np.linspace(0, len(values) - 1, _MOST_CANDIDATES).round().astype(int)
        values = values[kept]
    n, m = len(first), len(second)
    first, second = np.sort(first), np.sort(second)
    best: tuple[float, Threshold, float, float] | None = None
    for above in (True, False):
        if above:
            k = n - np.searchsorted(first, values, side="left")
            j = m - np.searchsorted(second, values, side="left")
        else:
            k = np.searchsorted(first, values, side="right")
            j = np.searchsorted(second, values, side="right")
        scores = score(k.astype(float), n, j.astype(float), m)
        at = int(np.argmax(scores))
        if best is None or scores[at] > best[0]:
            event = Threshold(float(values[at]), above)
            best = (float(scores[at]), event, (k[at] + 0.5) / (n + 1), (j[at] + 0.5) / (m + 1))
    assert best is not None
    return best[1], float(best[2]), float(best[3])


def repeats(
    first: Sequence[Outcome], second: Sequence[Outcome]
) -> tuple[Repetition, float, float] | None:
    """Return the repetition that tells `first` from `second` best, or None if there is none."""
    n, m = len(first), len(second)
    found: list[tuple[float, Repetition, float, float]] = []
    pattern = Counter(outcome.pattern for outcome in first)
    other = Counter(outcome.pattern for outcome in second)
    likely = frozenset(key for key in pattern if pattern[key] / n > other[key] / m + 0.05)
    if likely:
        p, q = sum(pattern[key] for key in likely) / n, sum(other[key] for key in likely) / m
        found.append((p - q, Repetition("pattern", likely), p, q))
    digest = Counter(outcome.digest for outcome in first)
    p = sum(count for count in digest.values() if count > 1) / n
    if p > 0 and None not in digest:
        seen = frozenset(digest)
        q = sum(outcome.digest in seen for outcome in second) / m
        found.append((p - q, Repetition("digest", seen), p, q))
    if not found:
        return None
    _, event, p, q = max(found, key=lambda row: row[0])
    return event, (p * n + 0.5) / (n + 1), (q * m + 0.5) / (m + 1)


def trace(output: Any) -> tuple[Hashable, Hashable]:
    """Return the digest of a released array and the pattern of its equal parts.

    The parts are the rows (one for each class of a linear model); of a single row the entries.
    """
    array = np.ascontiguousarray(output, dtype=np.float64)
    digest = hashlib.blake2b(array.tobytes(), digest_size=16).digest()
    rows = array.reshape(array.shape[0], -1) if array.ndim > 1 else array.reshape(1, -1)
    if len(rows) == 1:
        rows = rows.reshape(-1, 1)
    first: dict[bytes, int] = {}
    parts = [row.tobytes() for row in rows[:_MOST_BLOCKS]]
    pattern = tuple(first.setdefault(part, i) for i, part in enumerate(parts))
    # None where all parts differ, which is what independent noise looks like
    return digest, None if len(first) == len(parts) else pattern
