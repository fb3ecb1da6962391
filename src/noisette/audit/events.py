"""Events that tell two worlds apart, chosen on pilot runs that the test never sees again."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

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


@dataclass(frozen=True)
class Event:
    """A set of outcomes: in words, and where some of them lie in it."""

    words: str
    happened: Callable[[Sequence[Outcome]], Bools]


def threshold(limit: float, above: bool) -> Event:
    """The statistic is at least (`above`) or at most the limit."""

    def happened(outcomes: Sequence[Outcome]) -> Bools:
        values = np.array([outcome.value for outcome in outcomes])
        return values >= limit if above else values <= limit

    return Event(f"statistic {'>=' if above else '<='} {limit:.6g}", happened)


_REPETITIONS = {
    "digest": "the release is bit by bit one that an earlier run had already given",
    "pattern": "parts of the release are equal bit by bit as one world has it more often",
}


def repetition(attribute: str, seen: frozenset[Hashable]) -> Event:
    """The outcome shows a repetition that the pilot saw in one world more than in the other."""
    return Event(
        _REPETITIONS[attribute],
        lambda outcomes: np.array([getattr(each, attribute) in seen for each in outcomes]),
    )


def best_threshold(first: Floats, second: Floats, score: Score) -> tuple[Event, float, float]:
    """Return the threshold event with the best score, and P and P' as the pilot estimates them.

    `first` holds the pilot's statistics in the world where the event should be likely.
    """
    values = np.unique(np.concatenate([first, second]))
    if len(values) > _MOST_CANDIDATES:
        values = values[np.linspace(0, len(values) - 1, _MOST_CANDIDATES).round().astype(int)]
    worlds, found = (np.sort(first), np.sort(second)), []
    for above in (True, False):
        k, j = (
            len(x) - np.searchsorted(x, values, side="left")
            if above
            else np.searchsorted(x, values, side="right")
            for x in worlds
        )
        scores = score(k.astype(float), len(first), j.astype(float), len(second))
        at = int(np.argmax(scores))
        event = threshold(float(values[at]), above)
        found.append((scores[at], event, _chance(k[at], len(first)), _chance(j[at], len(second))))
    return max(found, key=lambda row: row[0])[1:]


def _chance(count: float, runs: int) -> float:
    """Return a probability that the pilot estimates, never 0 or 1."""
    return float((count + 0.5) / (runs + 1))


def repeats(
    first: Sequence[Outcome], second: Sequence[Outcome]
) -> tuple[Event, float, float] | None:
    """Return the repetition that tells `first` from `second` best, or None if there is none."""
    n, m, found = len(first), len(second), []
    pattern, other = (Counter(each.pattern for each in world) for world in (first, second))
    likely = frozenset(key for key in pattern if pattern[key] / n > other[key] / m + 0.05)
    if likely:
        p, q = sum(pattern[key] for key in likely) / n, sum(other[key] for key in likely) / m
        found.append((p - q, repetition("pattern", likely), p, q))
    digest = Counter(outcome.digest for outcome in first)
    p = sum(count for count in digest.values() if count > 1) / n
    if p > 0 and None not in digest:
        q = sum(outcome.digest in digest for outcome in second) / m
        found.append((p - q, repetition("digest", frozenset(digest)), p, q))
    if not found:
        return None
    _, event, p, q = max(found, key=lambda row: row[0])
    return event, _chance(p * n, n), _chance(q * m, m)


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


_TAIL = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4)
_GRID = np.array([*_TAIL, 0.5, *(1.0 - q for q in reversed(_TAIL))])
_MOST_NUMBERS = 8

Condition = tuple[int, bool, bool, float]  # which number, its absolute value, above, threshold


def box(conditions: Sequence[Condition]) -> Event:
    """Every condition holds: number i (or its absolute value) is > or <= a threshold."""
    words = (
        f"{f'|z{i}|' if absolute else f'z{i}'} {'>' if above else '<='} {limit:.4g}"
        for i, absolute, above, limit in conditions
    )

    def happened(outcomes: Sequence[Outcome]) -> Bools:
        rows = vectors(outcomes, 1 + max((i for i, *_ in conditions), default=0))
        inside = np.ones(len(rows), dtype=bool)
        for i, absolute, above, limit in conditions:
            column = _column(rows, i, absolute)
            inside &= column > limit if above else column <= limit
        return inside

    return Event(" and ".join(words) or "always", happened)


def vectors(outcomes: Sequence[Outcome], least: int = 1) -> Floats:
    """The released numbers, one row for each run and at least `least` columns.

    NaN counts as minus infinity, and so does a number that a shorter release does not have.
    """
    found = [np.zeros(0) if each.vector is None else each.vector for each in outcomes]
    rows = np.full((len(found), max(least, *map(len, found), 0)), -np.inf)
    for row, vector in zip(rows, found, strict=True):
        row[: len(vector)] = np.where(np.isnan(vector), -np.inf, vector)
    return rows


def best_box(
    first: Sequence[Outcome], second: Sequence[Outcome], score: Score
) -> tuple[Event, float, float]:
    """Return the box with the best score, and P and P' as the pilot estimates them."""
    width = max(vectors(first).shape[1], vectors(second).shape[1])
    worlds = x, y = vectors(first, width), vectors(second, width)
    columns = [(i, absolute) for i in _telling(x, y) for absolute in (False, True)]
    edges, bins = [], []
    for key in columns:
        cells = [_column(rows, *key) for rows in worlds]
        edges.append(np.unique(np.quantile(np.concatenate(cells), _GRID, method="inverted_cdf")))
        bins.append([np.searchsorted(edges[-1], each) for each in cells])
    found: list[tuple[float, Event, float, float]] = []
    for pair in itertools.combinations(range(len(columns)), 2):
        shape = [len(edges[c]) + 1 for c in pair]
        for up in itertools.product((False, True), repeat=2):
            k, j = (_inside([bins[c][world] for c in pair], shape, up) for world in (0, 1))
            scores = score(k, len(x), j, len(y))
            at = np.unravel_index(int(np.argmax(scores)), scores.shape)
            conditions = [
                (*columns[c], above, float(edges[c][edge]))
                for c, above, edge in zip(pair, up, at, strict=True)
                if edge < len(edges[c])
            ]
            p, q = _chance(k[at], len(x)), _chance(j[at], len(y))
            found.append((float(scores[at]), box(conditions), p, q))
    return max(found, key=lambda row: row[0])[1:]


def _column(rows: Floats, i: int, absolute: bool) -> Floats:
    return np.abs(rows[:, i]) if absolute else rows[:, i]


def _inside(bins: list[Any], shape: Sequence[int], up: tuple[bool, ...]) -> Floats:
    """Counts of runs in every box of two conditions; the last row and column mean no condition."""
    flat = np.bincount(bins[0] * shape[1] + bins[1], minlength=shape[0] * shape[1])
    table = flat.reshape(shape).cumsum(axis=0).cumsum(axis=1).astype(float)
    if up[0]:
        table = np.concatenate([table[-1:] - table[:-1], table[-1:]])
    if up[1]:
        table = np.concatenate([table[:, -1:] - table[:, :-1], table[:, -1:]], axis=1)
    return table


def _telling(x: Floats, y: Floats) -> list[int]:
    """The numbers that differ most between the worlds, at most eight: pairs are searched."""

    def measure(i: int) -> float:  # Kolmogorov's distance
        pairs = ((_column(x, i, how), _column(y, i, how)) for how in (False, True))
        return max(float(ks_2samp(*pair, method="asymp").statistic) for pair in pairs)

    order = range(x.shape[1])
    if len(order) <= _MOST_NUMBERS:
        return list(order)
    return sorted(order, key=measure, reverse=True)[:_MOST_NUMBERS]
