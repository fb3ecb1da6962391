"""Summaries of columns, each with the bound that its theorem gives: ranks and counts.

Every row has a weight in [0, 1], which is a function of its own person's rows; the weights of one
person add up to at most 1. A blanked record (zero-out) and a missing cell have weight 0: they count
nowhere, not even in totals. Weights are rounded down to multiples of 2^-20, so that sums are exact
in every order.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.parts import summed
from noisette.errors import InvalidData, InvalidParameter

NEVER = -1e300
"""The score of a candidate that is excluded by public or released facts."""

_WEIGHT_UNIT = 2.0**20
_ROWS = 1 << 18
_PAID = 1.0 + 5e-7  # q W, and scores with a base measure, round by 2^-53 of W <= 2^30, twice


class Ranks:
    """How many rows lie below, and at, each of the public candidates of one column.

    Parameters
    ----------
    values : the column; NaN is missing. An array, or whatever has a length and gives one for a
        slice: only some of the rows are looked at at a time.
    candidates : public, increasing.
    weights : of the rows; None is 1 for each.
    place : moves values to where they count, row by row.

    """

    def __init__(
        self, values: Any, candidates: Any, weights: Any = None,
        place: Callable[[Floats], Floats] | None = None,
    ) -> None:  # fmt: skip
        self.candidates = np.asarray(candidates, dtype=np.float64)
        if self.candidates.ndim != 1 or not (np.diff(self.candidates) > 0.0).all():
            raise InvalidParameter("candidates must be an increasing list of numbers.")
        count = len(values)
        w = None if weights is None else _weights(weights, count)
        self._below, self._up_to = np.zeros((2, len(self.candidates)))
        self._total = 0.0
        for start in range(0, count, _ROWS):  # sums of multiples of 2^-20 are exact in any order
            part = slice(start, min(start + _ROWS, count))
            block = np.asarray(values[part], dtype=np.float64)
            block = block if place is None else place(block)
            if w is None:
                ordered = np.sort(block)  # NaN stands last
                ordered = ordered[: len(ordered) - int(np.isnan(block).sum())]
                self._below += np.searchsorted(ordered, self.candidates, "left")
                self._up_to += np.searchsorted(ordered, self.candidates, "right")
                self._total += len(ordered)
            else:
                own = w[part] * ~np.isnan(block)
                self._below += self._before(np.searchsorted(self.candidates, block, "right"), own)
                self._up_to += self._before(np.searchsorted(self.candidates, block, "left"), own)
                self._total += float(own.sum())

    def _before(self, first: Any, weights: Floats) -> Floats:
        """Return the weight of rows whose `first` candidate comes no later, per candidate."""
        size = len(self.candidates)
        found = np.bincount(first, weights=weights, minlength=size + 1)
        return np.asarray(np.cumsum(found)[:size], dtype=np.float64)

    def join(self, other: "Ranks") -> "Ranks":
        """Add the rows of another part of the column, at the same candidates; return itself."""
        # proof: EXACT-SUM
        self._below = self._below + other._below
        self._up_to = self._up_to + other._up_to
        self._total += other._total
        return self

    def quantile(
        self, quantile: float, adjacency: Adjacency, *, epsilon: float = 1.0, log_prior: Any = None
    ) -> Bounded:
        """Return one score per candidate: minus its distance in rank from the quantile.

        `log_prior` is the logarithm of a public base measure on the candidates, for an exponential
        mechanism of this `epsilon`.
        """
        # proof: QUANTILE
        q = _validate.fraction("quantile", quantile)
        move = quantile_move(q, adjacency) * _PAID
        scores = -_distance(self._below, self._up_to, q * self._total)
        scores = scores + _prior(log_prior, move, epsilon)
        return Bounded(np.maximum(scores, NEVER), adjacency, "QUANTILE", linf=move)

    def medians(
        self, knots: Any, adjacency: Adjacency, *, epsilon: float = 1.0, log_prior: Any = None,
        log_stop: float | None = None,
    ) -> Bounded:  # fmt: skip
        """Return one row of scores per gap between `knots`, for the median of the rows inside.

        `knots` are the indices of released candidates, increasing; they cut the candidates into
        len(knots) + 1 gaps, and belong to none. A gap without a candidate has only `NEVER`.
        `log_prior` is the logarithm of a base measure, for each gap divided by its sum there. With
        `log_stop` there is one more candidate, the last: none, as far off as no rows on one side
        can be, with that logarithm of a base measure.
        """
        # proof: QUANTILE-TREE
        knots = np.asarray(knots, dtype=np.int64)
        move, size = median_move(adjacency) * _PAID, len(self.candidates)
        start = np.append(0.0, self._up_to[knots])[:, None]
        end = np.append(self._below[knots], self._total)[:, None]
        half = (end - start) / 2.0
        scores = -_distance(self._below - start, self._up_to - start, half)
        index = np.arange(size)
        inside = index > np.append(-1, knots)[:, None]
        inside &= index < np.append(knots, size)[:, None]
        if log_prior is not None:
            odds = np.where(inside, np.exp(log_prior), 0.0)
            share = odds / np.maximum(odds.sum(axis=1, keepdims=True), 1e-300)
            scores += _prior(np.log(np.maximum(share, 1e-300)), move, epsilon)
        scores = np.where(inside, scores, NEVER)
        if log_stop is not None:
            scores = np.hstack([scores, -half + _prior(log_stop, move, epsilon)])
        return Bounded(np.maximum(scores, NEVER), adjacency, "QUANTILE-TREE", linf=move)

    def __repr__(self) -> str:
        return f"<Ranks of a column at {len(self.candidates)} candidates>"


def quantile_move(quantile: float, adjacency: Adjacency) -> float:
    """Return how far one person moves any score of a quantile."""
    # proof: QUANTILE
    return 1.0 if adjacency is Adjacency.REPLACE_ONE else max(quantile, 1.0 - quantile)


def median_move(adjacency: Adjacency) -> float:
    """Return how far one person moves the scores of all medians of one level, rows added up."""
    # proof: QUANTILE-TREE
    return 1.0 if adjacency is Adjacency.REPLACE_ONE else 0.5


def _distance(below: Floats, up_to: Floats, target: Any) -> Floats:
    """Return how far `target` lies from the interval of ranks [below, up_to] of a candidate."""
    return np.asarray(np.maximum(np.maximum(below - target, target - up_to), 0.0))


def _prior(log_prior: Any, move: float, epsilon: float) -> Floats:
    """Return the public term of the scores under which a base measure multiplies the odds."""
    prior = np.asarray(0.0 if log_prior is None else log_prior, dtype=np.float64)
    return np.asarray(prior * (2.0 * move / _validate.epsilon(epsilon)))


def count_move(columns: int, adjacency: Adjacency) -> float:
    """Return how far the counts of `columns` columns together move between neighbours, in l2."""
    # proof: HISTOGRAM
    return math.sqrt(columns * adjacency.contributions)


def histogram(codes: Any, levels: int, adjacency: Adjacency, weights: Any = None) -> Bounded:
    """Return the counts of public levels, bounded in l1; the code -1 is missing."""
    # proof: HISTOGRAM
    counts = summed(partial(part_counts, levels), codes, weights)  # exact
    return Bounded(counts, adjacency, "HISTOGRAM", l1=float(adjacency.contributions))


@dataclass(frozen=True, repr=False, eq=False)
class KnownCounts:
    """The counts of a column's codes 0, 1, ..., exact, from whoever has counted them."""

    counts: Floats


class CountedKeys(Sequence[tuple[int, int]]):
    """Which (column, code) each count is of; the first of none, (-1, -1). Eight bytes a key."""

    def __init__(self, codes: Sequence[Any]) -> None:
        self._codes = codes
        self._starts = np.cumsum([1, *map(len, codes)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self._starts[-1]:
            raise IndexError("there is no such key.")
        column = int(np.searchsorted(self._starts, place, side="right")) - 1
        if column < 0:
            return -1, -1
        return column, int(self._codes[column][place - self._starts[column]])


def key_counts(
    columns: Iterable[Any], adjacency: Adjacency, weights: Any = None
) -> tuple[Bounded, CountedKeys]:
    """Return the counts of the keys that occur, and which (column, code) each of them is.

    For `GaussianThreshold`, one key per row and column. Both the list and its length are secret:
    keep only the keys that pass. The first entry belongs to no key, (-1, -1), so that a table of
    missing cells is no exception; it may pass as any other and means nothing.
    """
    # proof: CATEGORY-THRESHOLD
    keys, counts = list[Any](), [np.zeros(1)]
    for codes in columns:
        if isinstance(codes, KnownCounts):
            found = codes.counts
        else:
            codes = np.asarray(codes, dtype=np.int64)
            found = part_counts(int(codes.max(initial=-1)) + 1, codes, weights)
        present = np.nonzero(found > 0.0)[0]
        keys.append(present)
        counts.append(found[present])
    move = count_move(len(keys), adjacency)
    value = Bounded(np.concatenate(counts), adjacency, "CATEGORY-THRESHOLD", l2=move)
    return value, CountedKeys(keys)


def _weights(weights: Any, rows: int) -> Floats:
    """Return checked weights, rounded down so that one person's still add up to at most 1."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (rows,) or not ((w >= 0.0) & (w <= 1.0)).all():
        raise InvalidData("weights must be one number between 0 and 1 for each row.")
    return np.asarray(np.floor(w * _WEIGHT_UNIT) / _WEIGHT_UNIT)


def part_counts(levels: int, codes: Any, weights: Any) -> Floats:
    """Return the weight of rows with each code; the code -1 is missing."""
    codes = np.asarray(codes, dtype=np.int64)
    w = None if weights is None else _weights(weights, len(codes))
    if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= levels:
        raise InvalidData("codes must lie between -1 (missing) and the number of levels.")
    known = codes >= 0
    own = None if w is None else w[known]
    return np.bincount(codes[known], weights=own, minlength=levels).astype(np.float64)
