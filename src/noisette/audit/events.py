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
        values = values[np.linspace(0, len(values) - 1, _MOST_CANDIDATES).round().astype(int)]
    worlds, found = (np.sort(first), np.sort(second)), []
    for above in (True, False):
        if above:
            k, j = (len(x) - np.searchsorted(x, values, side="left") for x in worlds)
        else:
            k, j = (np.searchsorted(x, values, side="right") for x in worlds)
        scores = score(k.astype(float), len(first), j.astype(float), len(second))
        at = int(np.argmax(scores))
        event = Threshold(float(values[at]), above)
        found.append((scores[at], event, _chance(k[at], len(first)), _chance(j[at], len(second))))
    return max(found, key=lambda row: row[0])[1:]


def _chance(count: float, runs: int) -> float:
    """Return a probability that the pilot estimates, never 0 or 1."""
    return float((count + 0.5) / (runs + 1))


def repeats(
    first: Sequence[Outcome], second: Sequence[Outcome]
) -> tuple[Repetition, float, float] | None:
    """Return the repetition that tells `first` from `second` best, or None if there is none."""
    n, m, found = len(first), len(second), []
    pattern, other = (Counter(each.pattern for each in world) for world in (first, second))
    likely = frozenset(key for key in pattern if pattern[key] / n > other[key] / m + 0.05)
    if likely:
        p, q = sum(pattern[key] for key in likely) / n, sum(other[key] for key in likely) / m
        found.append((p - q, Repetition("pattern", likely), p, q))
    digest = Counter(outcome.digest for outcome in first)
    p = sum(count for count in digest.values() if count > 1) / n
    if p > 0 and None not in digest:
        q = sum(outcome.digest in digest for outcome in second) / m
        found.append((p - q, Repetition("digest", frozenset(digest)), p, q))
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


@dataclass(frozen=True)
class Box:
    """Every condition holds: number i (or its absolute value) is > or <= a threshold."""

    conditions: tuple[Condition, ...]

    def happened(self, outcomes: Sequence[Outcome]) -> Bools:
        """Return where the released numbers lie in the box."""
        rows = vectors(outcomes, 1 + max((i for i, *_ in self.conditions), default=0))
        inside = np.ones(len(rows), dtype=bool)
        for i, absolute, above, threshold in self.conditions:
            column = _column(rows, i, absolute)
            inside &= column > threshold if above else column <= threshold
        return inside

    def __str__(self) -> str:
        parts = (
            f"{f'|z{i}|' if absolute else f'z{i}'} {'>' if above else '<='} {threshold:.4g}"
            for i, absolute, above, threshold in self.conditions
        )
        return " and ".join(parts) or "always"


Event = Threshold | Repetition | Box
"""A set of outcomes; `happened` says of each outcome whether it lies in it."""


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
) -> tuple[Box, float, float]:
    """Return the box with the best score, and P and P' as the pilot estimates them."""
    width = max(vectors(first).shape[1], vectors(second).shape[1])
    worlds = x, y = vectors(first, width), vectors(second, width)
    columns = [(i, absolute) for i in _telling(x, y) for absolute in (False, True)]
    edges, bins = [], []
    for key in columns:
        cells = [_column(rows, *key) for rows in worlds]
        edges.append(np.unique(np.quantile(np.concatenate(cells), _GRID, method="inverted_cdf")))
        bins.append([np.searchsorted(edges[-1], each) for each in cells])
    best: tuple[float, Box, float, float] | None = None
    for pair in itertools.combinations(range(len(columns)), 2):
        shape = [len(edges[c]) + 1 for c in pair]
        for up in itertools.product((False, True), repeat=2):
            k, j = (_inside([bins[c][world] for c in pair], shape, up) for world in (0, 1))
            scores = score(k, len(x), j, len(y))
            at = np.unravel_index(int(np.argmax(scores)), scores.shape)
            if best is None or scores[at] > best[0]:
                conditions = tuple(
                    (*columns[c], above, float(edges[c][edge]))
                    for c, above, edge in zip(pair, up, at, strict=True)
                    if edge < len(edges[c])
                )
                chances = _chance(k[at], len(x)), _chance(j[at], len(y))
                best = (float(scores[at]), Box(conditions), *chances)
    assert best is not None
    return best[1:]


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
