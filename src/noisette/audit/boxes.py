"""Events for a release of several numbers, found without being told where to look.

The pilot tries all boxes with one or two conditions on the released numbers and their absolute
values (``z_3 > 4 and |z_7| <= 0.1``), on a grid of quantiles that is fine in the tails and near the
smallest values, and keeps the one with the best bound. Trying thousands of boxes is harmless: the
chosen one is tested on runs that the search has not seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Bools, Floats
from noisette.audit.events import Outcome, Score

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
            column = np.abs(rows[:, i]) if absolute else rows[:, i]
            inside &= column > threshold if above else column <= threshold
        return inside

    def __str__(self) -> str:
        parts = []
        for i, absolute, above, threshold in self.conditions:
            name = f"|z{i}|" if absolute else f"z{i}"
            parts.append(f"{name} {'>' if above else '<='} {threshold:.4g}")
        return " and ".join(parts) or "always"


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
    x, y = vectors(first, width), vectors(second, width)
    kept = _telling(x, y)
    columns = [(i, absolute) for i in kept for absolute in (False, True)]
    binned = [_bins(*(_column(rows, *key) for rows in (x, y))) for key in columns]
    best: tuple[float, Box, float, float] | None = None
    n, m = len(x), len(y)
    for a, b in itertools.combinations(range(len(columns)), 2):
        for up_a, up_b in itertools.product((False, True), repeat=2):
            k, j = (_inside(binned[a], binned[b], w, up_a, up_b) for w in (0, 1))
            scores = score(k, n, j, m)
            at = np.unravel_index(int(np.argmax(scores)), scores.shape)
            if best is None or scores[at] > best[0]:
                pairs = ((a, up_a, int(at[0])), (b, up_b, int(at[1])))
                box = Box(tuple(_conditions(columns, binned, pairs)))
                p, q = (k[at] + 0.5) / (n + 1), (j[at] + 0.5) / (m + 1)
                best = (float(scores[at]), box, float(p), float(q))
    assert best is not None
    return best[1:]


@dataclass(frozen=True)
class _Binned:
    edges: Floats
    bins: tuple[NDArray[np.intp], NDArray[np.intp]]


def _column(rows: Floats, i: int, absolute: bool) -> Floats:
    return np.abs(rows[:, i]) if absolute else rows[:, i]


def _bins(x: Floats, y: Floats) -> _Binned:
    pooled = np.concatenate([x, y])
    edges = np.unique(np.quantile(pooled, _GRID, method="inverted_cdf"))
    return _Binned(edges, (np.searchsorted(edges, x), np.searchsorted(edges, y)))


def _inside(a: _Binned, b: _Binned, world: int, up_a: bool, up_b: bool) -> Floats:
    """Counts of runs in every box of two conditions; the last row and column mean no condition."""
    shape = (len(a.edges) + 1, len(b.edges) + 1)
    flat = np.bincount(a.bins[world] * shape[1] + b.bins[world], minlength=shape[0] * shape[1])
    table = flat.reshape(shape).cumsum(axis=0).cumsum(axis=1).astype(float)
    if up_a:
        table = np.concatenate([table[-1:] - table[:-1], table[-1:]])
    if up_b:
        table = np.concatenate([table[:, -1:] - table[:, :-1], table[:, -1:]], axis=1)
    return table


def _conditions(
    columns: list[tuple[int, bool]], binned: list[_Binned], chosen: Sequence[tuple[int, bool, int]]
) -> list[Condition]:
    found = []
    for column, above, edge in chosen:
        if edge < len(binned[column].edges):
            i, absolute = columns[column]
            found.append((i, absolute, above, float(binned[column].edges[edge])))
    return found


def _telling(x: Floats, y: Floats) -> list[int]:
    """The numbers that differ most between the worlds, at most eight: pairs are searched."""
    if x.shape[1] <= _MOST_NUMBERS:
        return list(range(x.shape[1]))

    def measure(i: int) -> float:
        return max(
            _distance(np.sort(_column(x, i, how)), np.sort(_column(y, i, how)))
            for how in (False, True)
        )

    return sorted(range(x.shape[1]), key=measure, reverse=True)[:_MOST_NUMBERS]


def _distance(x: Floats, y: Floats) -> float:
    """Kolmogorov's distance of two sorted samples."""
    grid = np.concatenate([x, y])
    below = [np.searchsorted(each, grid, side="right") / len(each) for each in (x, y)]
    return float(np.max(np.abs(below[0] - below[1])))
