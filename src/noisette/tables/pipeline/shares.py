"""`LearnShares`: how the rows spread over the features of columns, as one noisy vector.

A row adds to each column a vector of entries >= 0 that add up to at most 1: an indicator of a
public level, two neighbouring hats, the indicator of a missing cell, its label. The noisy sums give
means, and with them the second moment inside of each column, for the price of counting.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Indices
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.grid import Grid
from noisette.core.mechanisms import Gaussian, LaplaceVector
from noisette.core.parts import is_parted, summed
from noisette.core.plans import Plan, Run
from noisette.core.summaries import count_move
from noisette.errors import InvalidData
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.second_moment import on_public_grid
from noisette.fitting.partitions.lazily import for_workers
from noisette.scores.layouts import Layout, places_of
from noisette.tables.frame import Frame
from noisette.tables.kinds.base import Entries
from noisette.tables.pipeline.step import PreparedStep, Sample, Step

_BITS = 22  # sums of 2^30 rows are exact
_BLOCK = 1 << 16

Places = tuple[Indices, Indices, Floats]
"""Row, feature and value of every entry that may differ from zero; no place occurs twice."""


@dataclass(frozen=True, repr=False)
class Spread:
    """The entries of one column that may differ from zero: row, feature, value; and its width."""

    places: Places
    features: int

    @classmethod
    def of_rows(cls, entries: Entries, features: int) -> "Spread":
        """Return the entries of a column that has so many of every row."""
        which, values = entries
        rows = np.repeat(np.arange(len(values)), values.shape[1])
        return cls((rows, which.ravel().astype(np.intp), values.ravel()), features)

    def checked_sums(self, count: int, weights: Floats | None) -> Floats:
        """Return the exact sum of every feature, entries rounded down to a public grid.

        Entries below 0, and rows that add up to more than 1, are refused.
        """
        rows, features, values = self.places
        total = np.bincount(rows, weights=values, minlength=count)
        if (values < 0.0).any() or (total > 1.0 + 1e-12).any() or len(total) != count:
            raise InvalidData("a row must add entries of at least 0 that add up to at most 1.")
        shared = values if weights is None else values * weights[rows]
        rounded = on_public_grid(shared, 1.0, _BITS)  # proof: EXACT-SUM
        sums = np.bincount(features, weights=rounded, minlength=self.features)
        return np.asarray(sums, dtype=np.float64)


@dataclass(frozen=True, repr=False)
class WalkedSpread:
    """The entries of one column, formed for a block of rows at a time whenever they are wanted.

    Counts are exact in every order (EXACT-SUM), so it does not matter to any released number how
    the rows are cut.
    """

    frame: Frame
    features: int
    spread: Callable[[Frame, slice], Spread]

    def checked_sums(self, count: int, weights: Floats | None) -> Floats:
        """Return the sums after a check of all rows; partial sums are exact too."""
        total, seen = np.zeros(self.features), 0
        for part, block in self.frame.blocks(_BLOCK):
            own, spread = None if weights is None else weights[part], self.spread(block, part)
            total += spread.checked_sums(part.stop - part.start, own)  # proof: EXACT-SUM
            seen = part.stop
        if seen != count:
            raise InvalidData("every row must be in one block.")
        return total


@dataclass(frozen=True)
class LearnShares(Step):
    """Release the sums of `columns` columns; the sample's data are a list of `Spread`.

    With `exact_pure` the noise is Laplace's, for delta = 0, and the scale 1 costs about epsilon = 1
    for each contribution; else it is Gaussian.
    """

    columns: int
    exact_pure: bool = False

    name: ClassVar[str] = "shares"
    summary: ClassVar[str] = "how rows spread over hats, public levels and labels"
    pure: ClassVar[bool] = True
    proofs: ClassVar[tuple[str, ...]] = ("HISTOGRAM", "EXACT-SUM", "ROW-LOCAL")
    says: ClassVar[str] = "Each share gets noise of about {0:.3g} rows."
    """What the noise does, given its deviation and the least count that stands out of it."""

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one noisy vector."""
        return Run(LaplaceVector(scale) if self.exact_pure else Gaussian(scale))

    def deviation(self, scale: float, adjacency: Adjacency) -> float:
        """Return the standard deviation of the noise on each sum, in rows."""
        if self.exact_pure:
            return math.sqrt(2.0) * scale * self.columns
        return scale * count_move(self.columns, adjacency) / adjacency.contributions

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many rows off a sum may be."""
        sigma = self.deviation(prepared.scale, prepared.public.adjacency)
        return self.says.format(sigma, _SURE * sigma)

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> tuple[Floats, ...]:
        """Return the noisy sums of every column."""
        if len(sample.data) != self.columns:
            # proof: PLAN-BEFORE-LOOK
            raise InvalidData("there must be one column for each that was planned.")
        adjacency = prepared.public.adjacency
        sums = list(map(methodcaller("checked_sums", sample.count, sample.weights), sample.data))
        value = np.concatenate(sums)
        # proof: HISTOGRAM
        if self.exact_pure:
            bounded = Bounded(
                value, adjacency, "HISTOGRAM", l1=float(adjacency.contributions * self.columns)
            )
        else:
            bounded = Bounded(value, adjacency, "HISTOGRAM", l2=count_move(self.columns, adjacency))
        return tuple(np.split(passage.release(bounded), np.cumsum(list(map(len, sums)))[:-1]))


@dataclass(frozen=True)
class LearnCalibration(LearnShares):
    """Release how people of each label spread over the scores of the released model."""

    name: ClassVar[str] = "calibration"
    summary: ClassVar[str] = "people by label and score, for slope and intercept"
    says: ClassVar[str] = "Each count of people gets noise of about {0:.3g} rows."


# --- single numbers that many people share ----------------------------------------------------

# Deviations of the noise: between the knots, where numbers are, few empty candidates pass; beyond
# them hardly any of 16,563.
_SURE, _SURER = 3.3, 4.5
NOBODY = Spread((np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0)), 1)
_FULL = 2.0 / 3.0
_MOST = 24  # spikes of one column


@dataclass(frozen=True)
class LearnSpikes(LearnShares):
    """Release how many rows lie at each candidate of the grids of `columns` columns.

    A column such as capital gain is 0 for nine people in ten, and most others have one of a few
    dozen amounts. Halving finds the 0 and little else: it needs hundreds of rows for each further
    knot. One noisy count of the rows at each candidate finds an amount that a few dozen share. How
    many columns are counted is fixed in the plan; which ones follows from the released knots.
    """

    name: ClassVar[str] = "spikes"
    summary: ClassVar[str] = "single numbers that many people share"
    says: ClassVar[str] = "A number that fewer than about {1:.3g} rows share is hardly seen."


def cells_of(values: Floats, grid: Grid) -> Spread:
    """Return the candidate that is nearest to each number; a missing one has none."""
    # proof: ROW-LOCAL
    placed, points = grid.place(values), grid.points
    rows = np.flatnonzero(~np.isnan(placed))
    nearest = np.searchsorted(points[1:] / 2.0 + points[:-1] / 2.0, placed[rows])
    return Spread((rows, nearest, np.ones(len(rows))), len(points))


def hollow(knots: dict[str, list[float]], depth: int, slots: int) -> list[str]:
    """Return up to `slots` columns that have less than two thirds of the knots asked for.

    Their parts could not be halved, mostly because one number fills them; the fewest come first.
    """
    few = [name for name in knots if len(knots[name]) < _FULL * (2**depth + 1)]
    return sorted(few, key=lambda name: len(knots[name]))[:slots]


def with_spikes(knots: list[float], counts: Floats, sigma: float, grid: Grid) -> list[float]:
    """Return the knots with those of the numbers whose noisy count is beyond doubt.

    A spike stands between its two neighbours on the grid, so that the curve may jump there.
    """
    points = grid.points
    inside = (points >= knots[0]) & (points <= knots[-1])
    places = np.flatnonzero(counts > np.where(inside, _SURE, _SURER) * sigma)
    places = places[places != counts.argmax()]  # what most people have is where the curve starts
    places = places[np.argsort(-counts[places])][:_MOST]
    around = np.unique((places[:, None] + np.arange(-1, 2)).ravel())
    around = around[(around >= 0) & (around < len(points))]
    return sorted({*knots, *points[around].tolist()})


# --- one noisy table of (label) x (score bin), which pays for every score -------------------------


@dataclass(frozen=True)
class ScoreTable(LearnShares):
    """Release the counts of all cells of a layout."""

    name: ClassVar[str] = "scores"
    summary: ClassVar[str] = "how labels and scores of test rows fall into cells"
    proofs: ClassVar[tuple[str, ...]] = (*LearnShares.proofs, "SCORE-TABLE")
    says: ClassVar[str] = "Each cell of the table gets noise of about {0:.3g} rows."


def table_for(
    layout: Layout, public: PublicBudget, *, pure: bool = True
) -> tuple[ScoreTable, PreparedStep]:
    """Return the step with the least noise for the budget, from public facts.

    Cells are disjoint, so one person moves the counts by little also in l1, and Laplace noise is
    usually the smaller one; `pure` says whether it may be used where a delta allows the other.
    """
    columns, found = len(layout.sizes), []
    laws = [True] if pure or public.delta == 0.0 else []
    for exact in laws if public.delta == 0.0 else [*laws, False]:
        step = ScoreTable(columns, exact_pure=exact)
        prepared = step.prepare(replace(public, delta=0.0) if exact else public)
        found.append((step.deviation(prepared.scale, public.adjacency), step, prepared))
    _, step, prepared = min(found, key=itemgetter(0))
    return step, prepared


@dataclass(frozen=True, repr=False)
class CodeSpread:
    """The cells of rows in partitions, counted where they lie."""

    codes: Any
    features: int

    def checked_sums(self, count: int, weights: Any) -> Floats:
        """Return the exact sum of every cell, after a check in every part."""
        size = self.features
        # proof: EXACT-SUM
        return np.asarray(summed(
            lambda own, shares: Spread(places_of(own), size).checked_sums(len(own), shares),
            self.codes, weights,
        ))  # fmt: skip


def codes_of(layout: Layout, model: Any, X: Any, y: Any) -> list[Any]:
    """Return the cells of every row; where rows are in partitions, when they are asked for."""
    if not is_parted(X):
        return list(layout.codes(model, X, y))
    whole = X.apply(partial(_part_codes, layout, for_workers(model)), (y,), y.shape)
    return [whole.apply(itemgetter(k), (), None) for k in range(len(layout.sizes))]


def _part_codes(layout: Layout, model: Any, X: Any, y: Any) -> Any:
    if len(y) == 0:  # which many a model refuses
        return [np.zeros(0, dtype=np.intp) for _ in layout.sizes]
    return layout.codes(model, X, y)


def counted(layout: Layout, codes: Sequence[NDArray[Any]], weights: Any) -> Sample:
    """Return what the step looks at: the cell of every row, or its shares in two; -1 has none."""
    spreads = [
        CodeSpread(column, size) if is_parted(column) else Spread(places_of(column), size)
        for column, size in zip(codes, layout.sizes, strict=True)
    ]
    return Sample(spreads, weights, count=len(codes[0]))
