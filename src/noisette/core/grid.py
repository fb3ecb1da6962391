"""`Grid`: the public candidates among which quantiles of a column are chosen, and their prior.

Without known bounds, the candidates are the numbers that people write: 0 and, of either sign, all
numbers with 3 significant digits from 1 to 10^6, all whole numbers to 3,000 (years), and those with
2 digits from 10^-6 to 1 and from 10^6 to 10^12: 16,563 in all. A value that many share (0, 40
hours, 5,000) is then a candidate itself and can be found exactly; otherwise the next candidate is
at most 1 % away (10 % below 1 and above 10^6). The prior gives every decade the same weight and 0
that of one decade, so a finer grid costs nothing: a choice pays for the logarithm of the share of
the prior that lies near the answer, about 4 nats for a decade.

Between known bounds half of the prior is uniform on at least 1,024 equal steps (whole numbers among
them where the bounds are whole), and half is as above: the values of a bounded column may crowd at
0 as well. With one known bound the candidates are those above on the right side of it.

Days since 1970 are no numbers that people write: three digits of them are a hundred days apart. An
open bound of dates is the first day of 1900 or of 2100, and every day between is a candidate.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.summaries import Ranks
from noisette.errors import InvalidParameter

NATS = 10.0
"""About what a choice from a grid pays at most for not knowing where the answer is."""

_STEPS = 1024
_LEAST, _MOST = 1e-6, 1e12
_YEARS = 3000
_MOST_DAYS = 150_000
_CENTURIES = -25_567.0, 47_482.0  # 1900-01-01 and 2100-01-01, in days since 1970


@dataclass(frozen=True)
class Grid:
    """The candidates of one column; None leaves a bound open. Values outside count as the ends.

    Those of a column of `dates` are days since 1970.
    """

    low: float | None = None
    high: float | None = None
    dates: bool = False
    ends: tuple[float, float] = field(init=False, repr=False, compare=False)
    """The first and the last candidate."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None:
                object.__setattr__(self, name, _validate.real(name, bound) + 0.0)
        first, last = _CENTURIES if self.dates else (-_MOST, _MOST)
        low, high = self.low, self.high
        if low is None:
            low = min(first, (high or 0.0) - 366.0 if self.dates else 10.0 * (high or 0.0))
        if high is None:
            known = self.low or 0.0
            high = max(last, known + 366.0 if self.dates else 10.0 * known)
        object.__setattr__(self, "ends", (low, high))
        if not -math.inf < low < high < math.inf:
            raise InvalidParameter(f"a column needs finite low < high; got {low:g} and {high:g}.")
        if len(self.points) < 2:
            raise InvalidParameter(f"no numbers are known between {low:g} and {high:g}.")

    @property
    def points(self) -> Floats:
        """The candidates, increasing."""
        return _made(self)[0]

    @property
    def log_prior(self) -> Floats:
        """The logarithm of the prior of every candidate."""
        return _made(self)[1]

    @property
    def middle(self) -> float:
        """Where a value is put of which nothing is known: the middle of known bounds, else 0."""
        low, high = self.ends
        known = self.low is not None and self.high is not None
        return low / 2.0 + high / 2.0 if known else min(max(0.0, low), high)

    def place(self, values: Floats) -> Floats:
        """Return the values with those outside moved to the ends, infinities too; NaN stays."""
        # proof: ROW-LOCAL
        return np.clip(values, *self.ends)

    def snapped(self, values: Floats, *, up: bool) -> Floats:
        """Return every value as the next candidate above it, or below; NaN stays.

        A number that many share may lie between two candidates (a top code of 500,001). Ranks then
        jump there, and all candidates beyond are equally far from a quantile inside of the jump,
        up to 10^12; among snapped values every quantile has a candidate of its own.
        """
        # proof: ROW-LOCAL
        placed = self.place(np.asarray(values, dtype=np.float64))
        index = np.searchsorted(self.points, placed, side="left" if up else "right")
        index = np.clip(index if up else index - 1, 0, len(self.points) - 1)
        return np.where(np.isnan(placed), np.nan, self.points[index])


def ranks_at(column: Any, grid: Grid, weights: Any, *, up: bool | None = None) -> Ranks:
    """Return the ranks of a column at the candidates, which a column in parts knows already.

    Values outside of the grid are moved to its ends; where `up` is given, all are snapped.
    """
    known: dict[bool | None, Ranks] | None = getattr(column, "ranks", None)
    if known is not None:
        return known[up]
    place = grid.place if up is None else partial(grid.snapped, up=up)
    return Ranks(column, grid.points, weights, place)


@lru_cache(maxsize=256)
def _made(grid: Grid) -> tuple[Floats, Floats]:
    low, high = grid.ends
    bounded = grid.low is not None and grid.high is not None
    inside = [_uniform(low, high)] if bounded or grid.dates else []
    if grid.dates and high - low < _MOST_DAYS:
        inside.append(np.arange(math.floor(low) + 1.0, high))
    elif not grid.dates:
        written = _numbers()
        inside.append(written[(written > low) & (written < high)])
    points = np.unique(np.concatenate([[low, high], *inside]))
    edges = np.concatenate([[low], points[1:] / 2.0 + points[:-1] / 2.0, [high]])
    even = np.diff(edges / (high / 2.0 - low / 2.0)) / 2.0
    # How many decades beyond 10^-6 a number is, with its sign.
    decades = np.sign(edges) * (np.log10(np.abs(edges) + _LEAST) - math.log10(_LEAST))
    prior = np.diff(decades) + (points == 0.0)
    prior /= prior.sum()
    if grid.dates or bounded:
        prior = even if grid.dates else prior / 2.0 + even / 2.0
    log_prior = np.log(np.maximum(prior, 1e-12))
    points.setflags(write=False)
    log_prior.setflags(write=False)
    return points, log_prior


def _uniform(low: float, high: float) -> Floats:
    """Return at least 1,024 equal steps; whole numbers stay where the bounds are whole."""
    span = high - low
    if low.is_integer() and high.is_integer() and span <= 4 * _STEPS:
        steps = int(span) * math.ceil(_STEPS / span)
        return np.asarray(low + np.arange(1, steps) * span / steps)
    share = np.arange(1, _STEPS) / _STEPS
    return np.asarray(low * (1.0 - share) + high * share)  # the span may overflow


@lru_cache(maxsize=1)
def _numbers() -> Floats:
    """Return the numbers that people write, of both signs, and 0."""
    two, three = np.arange(10.0, 100.0), np.arange(100.0, 1000.0)
    tens = np.array([1e2, 1e3, 1e4, 1e5, 1e6, 1e7])[:, None]
    parts = [
        two / tens, three / [[100.0], [10.0], [1.0]],  # divided: 3.7 is the float of 37 / 10
        three * [[10.0], [100.0], [1000.0]], two * (1000.0 * tens), np.arange(1000.0, _YEARS),
        np.array([_MOST]),
    ]  # fmt: skip
    positive = np.unique(np.concatenate(list(map(np.ravel, parts))))
    return np.concatenate([-positive[::-1], [0.0], positive])
