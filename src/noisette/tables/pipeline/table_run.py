"""`TableRun`: the half of a table's training that sees the data, in blocks of rows.

What each step looks at is formed from the cells when it is wanted (`shares`), and the encoded rows
are written once, block by block, so that memory does not grow with the rows; small tables stay in
memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, getitem, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.parts import each, summed
from noisette.fitting.algorithms import Public, Records
from noisette.fitting.algorithms.objective_perturbation import solve_with
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.records import check_rows_each
from noisette.fitting.losses import Softmax
from noisette.fitting.units import Unit
from noisette.tables import Schema
from noisette.tables.frame import Frame
from noisette.tables.kinds import Column
from noisette.tables.pipeline.bars import Bars, bars_of
from noisette.tables.pipeline.bounds import LearnBounds
from noisette.tables.pipeline.categories import LearnCategories, ShownLevels
from noisette.tables.pipeline.coordinates import Block, Coordinates, coordinates
from noisette.tables.pipeline.finishing import (
    SCORE_CELLS,
    best_slope,
    finished_cells,
    mean_for,
    score_cells,
    slope_and_shift,
)
from noisette.tables.pipeline.knots import Knots, LearnKnots
from noisette.tables.pipeline.last import expanded, run_last
from noisette.tables.pipeline.pair_cells import PairView, filled_cells, kernel
from noisette.tables.pipeline.pairs import ColumnPair
from noisette.tables.pipeline.shares import (
    NOBODY,
    LearnCalibration,
    LearnShares,
    LearnSpikes,
    Spread,
    WalkedSpread,
    cells_of,
    hollow,
    with_spikes,
)
from noisette.tables.pipeline.step import PreparedStep, Sample, Step
from noisette.tables.pipeline.table_columns import evenly, nearly_none, unread_note
from noisette.tables.pipeline.table_rows import PartedFrame, WholeFrame
from noisette.tables.pipeline.target import (
    LabelTarget,
    Limits,
    NumberTarget,
    Target,
    TargetCounts,
)

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import PreparedTable, TableTraining

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WIDE = 2**26  # entries; above, rows stay sparse
_MOST_TURNED = 2048  # features; above, finding the directions of a column would take minutes


def is_wide(rows: float, features: int) -> bool:
    """Whether rows stay sparse and are not centred."""
    return features > _MOST_TURNED or float(rows) * features > _WIDE


class TableSample:
    """The sensitive half: cells, class numbers or numbers to predict, and whose row it is."""

    def __init__(
        self, table: WholeFrame | PartedFrame, labels: Any, unit: Unit | None = None
    ) -> None:
        self.table, self.labels, self.unit = table, labels, unit or Unit(len(labels))
        self.rows, self.weights = table.input, self.unit.weights
        self.proofs: tuple[str, ...] = getattr(labels, "proofs", ())
        """The theorems about the place where the rows lie."""

    def part(self, chosen: Any) -> "TableSample":
        """Return the rows of the chosen units: records, or persons with all their rows."""
        rows, found, few = self.table.part(self.unit, chosen)
        return TableSample(found, each(getitem, self.labels, rows, shape=(found.rows,)), few)

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        used = self.table.rows
        Sample([], None, self.labels, count=used).group(self.unit).check(public)
        if self.weights is not None:
            used = int(summed(np.count_nonzero, self.weights))
        check_rows_each(used, public)


@dataclass(frozen=True)
class FittedTable:
    """What was released: the schema with nothing open, weights of its features, and how.

    `bounds` are the limits of a number to predict, public or released.
    """

    schema: Schema
    coef: Floats
    intercept: Floats
    notes: tuple[str, ...]
    bounds: tuple[float, float] = (-1.0, 1.0)
    bars: dict[str, Bars] | None = None
    pairs: tuple[ColumnPair, ...] = ()
    mean: float = 0.0
    width: float = 1.0
    """Of the scores of people, as far as released numbers tell."""

    def times(self, slope: float, shift: float) -> "FittedTable":
        """Return the model with scores further from their mean, and this moved."""
        times = methodcaller("times", slope)
        bars = self.bars and dict(zip(self.bars, map(times, self.bars.values()), strict=True))
        return replace(
            self, coef=slope * self.coef, bars=bars, mean=self.mean + shift,
            intercept=self.mean + shift + slope * (self.intercept - self.mean),
            pairs=tuple(map(times, self.pairs)),
        )  # fmt: skip


def table_scores(frame: Frame, schema: Schema, coef: Floats, pairs: Sequence[ColumnPair]) -> Floats:
    """Return what columns and pairs add to each output, for every row by itself to the bit."""
    # A dense product rounds a row by how many there are, a sparse one adds row by row.
    found = sparse.csr_matrix(frame.encode(schema, cut=False)) @ coef.T
    for pair in pairs:
        places, values = pair.entries(schema.columns, frame.columns)
        weights = pair.weights.reshape(len(pair.weights), -1)
        found = found + np.einsum("onk,nk->no", weights[:, places], values)
    return np.asarray(found, dtype=np.float64)


class TableRun:
    """One run: what was released so far, and the cells."""

    def __init__(
        self, training: "TableTraining", sample: TableSample, prepared: "PreparedTable"
    ) -> None:
        self.training, self.sample, self.prepared = training, sample, prepared
        self.public, self.schema = prepared.public, training.schema
        self.facts: dict[str, dict[str, Any]] = {
            name: evenly(grid, training.recipe.public_knots)
            for name, grid in training.plain.items()
            if name not in training.numbers
        }
        self.free = tuple(self.facts)  # they follow from public bounds
        self.levels: dict[str, ShownLevels] = {}
        self.sums: dict[str, Floats] = {}
        self.deviations: dict[str, float] = {}
        self.pairs: list[PairView] = []
        self.pair_sums: list[Floats] = []
        low, high = training.target.bounds
        self.bounds = (0.0 if low is None else low, 1.0 if high is None else high)

    def learn(self, step: Step, ready: PreparedStep, passage: Passage) -> None:
        """Run one step and keep what it released."""
        training, sample = self.training, self.sample
        if isinstance(step, LearnBounds | LearnKnots):
            # knots, or limits of the target and of columns, between which knots lie evenly
            names = list(training.numbers)
            before = [sample.labels] if training.target.buys else []
            data = sample.table.ranks(names, step.grids, step.ups, sample.weights, *before)
            found = self._ran(step, data, ready, passage)
            if training.target.buys:
                target = found.pop(0)
                self.bounds = (target.low, target.high)
            self.facts |= {
                name: {"knots": list(each.knots) or [each.median], "center": each.median}
                if isinstance(each, Knots)
                else evenly(Grid(each.low, each.high), training.recipe.public_knots)
                for name, each in zip(names, found, strict=True)
            }
        elif isinstance(step, LearnCategories):
            names = training.unknown
            data = sample.table.texts(names, sample.weights)
            self.levels = dict(zip(names, self._ran(step, data, ready, passage), strict=True))
            self.facts |= {
                name: {"categories": list(filter(None, shown.levels))}
                for name, shown in self.levels.items()
            }
            self.deviations |= dict.fromkeys(names, step.bar(ready)[1])
        elif isinstance(step, LearnSpikes):
            # more knots for the columns with the fewest, at numbers that many share
            grids, facts = training.numbers, self.facts
            knots = {name: facts[name]["knots"] for name in grids}
            names = hollow(knots, training.recipe.depth, step.columns)
            work = partial(_cells, {name: grids[name] for name in names})
            data = sample.table.spreads(work, sample.weights) if names else []
            data += [NOBODY] * (step.columns - len(names))  # they were paid for: nobody is counted
            counts = self._ran(step, data, ready, passage)
            sigma = step.deviation(ready.scale, self.public.adjacency)
            for name, own in zip(names, counts, strict=False):
                facts[name]["knots"] = with_spikes(knots[name], own, sigma, grids[name])
        elif isinstance(step, LearnShares):
            self.schema = training.schema.completed(self.facts, free=self.free)
            self._count(step, ready, passage)

    def _ran(self, step: Step, data: list[Any], ready: PreparedStep, passage: Passage) -> list[Any]:
        sample = Sample(data, self.sample.weights, count=self.sample.table.rows)
        return list(step.run(sample, ready, passage))

    def _count(self, step: LearnShares, ready: PreparedStep, passage: Passage) -> None:
        """Count how rows spread over the features of columns and pairs, and over the target."""
        training, sample, known = self.training, self.sample, self.schema.by_name
        for pair in training.used_pairs:  # the views of a pair, fixed by what was released
            shown = (self.levels[name].by_text if name in self.levels else {} for name in pair)
            first, second = (
                known[name].coarse(training.recipe.cells, counts)
                for name, counts in zip(pair, shown, strict=True)
            )
            self.pairs.append(PairView(pair, (first, second)))
        names = training.counted
        work = partial(_spreads, self.schema, names, self.pairs, training.target, self.bounds)
        data = sample.table.spreads(work, sample.weights, sample.labels)
        *sums, per_class = self._ran(step, data, ready, passage)
        self.sums = dict(zip(names, sums, strict=False))
        self.pair_sums = sums[len(names) :]
        sigma = step.deviation(ready.scale, self.public.adjacency)
        self.deviations |= dict.fromkeys([*names, ""], sigma)
        self._see(per_class, float(self.public.exact or max(float(per_class.sum()), sigma, 1.0)))

    def _see(self, per_class: Floats, size: float) -> None:
        """Keep what was released of the targets, and of how many units if that is private."""
        training, self.size = self.training, size
        self.counts = TargetCounts(per_class, size, self.deviations[""])
        self.seen = training.target.seen(self.counts, training.recipe.signal)

    def _blocks(self) -> list[Block]:
        """Return what is known of the features of every column, and of the cells of every pair."""
        blocks, recipe, known = [], self.training.recipe, self.schema.by_name
        used = list(filter(attrgetter("features"), self.schema.columns))
        self.names = list(map(attrgetter("name"), used))
        for column in used:
            name, levels = column.name, self.levels.get(column.name)
            sums = (
                self.sums[name] if levels is None else column.level_sums(levels.by_text, self.size)
            )
            noise = self.deviations[name] / self.size
            sure = recipe.sure * self.deviations[name] / self.size
            blocks.append(
                Block(
                    len(column.features), sums / self.size, ordered=column.ordered,
                    filled=column.filled, whole=column.whole, noise=noise,
                    least=sure / 2.0 if column.ordered else max(recipe.rare, sure), slot=sure,
                    rows=column.place_rows,
                )
            )  # fmt: skip
        for pair, sums in zip(self.pairs, self.pair_sums, strict=True):
            first, second = known[pair.columns[0]], known[pair.columns[1]]
            noise, shares = self.deviations[""] / self.size, sums / self.size
            prior: Any = np.kron(kernel(first, pair.shape[0]), kernel(second, pair.shape[1]))
            ordered = [first.ordered, second.ordered]
            merged = filled_cells(shares.reshape(pair.shape), ordered, recipe.rare_cells, noise)
            prior = np.asarray(recipe.together * prior, dtype=np.float64)
            blocks.append(
                Block(len(sums), shares, whole=False, noise=noise, merged=merged, prior=prior)
            )
        return blocks

    def model(self, passage: Passage) -> FittedTable:
        """Train in the released coordinates and return the weights of the encoded features."""
        training, blocks, seen = self.training, self._blocks(), self.seen
        if training.last is not None:
            coords, bars = self._coordinates(blocks, None), None
            theta, noise_each = run_last(self, coords, passage)
            if noise_each is not None:
                even = np.full(len(coords.spectrum), noise_each**2)
                bars = bars_of(coords, blocks, theta, even)
            return self._fitted(*coords.back(theta), bars)
        noise = passage.leaf().mechanism
        assert isinstance(noise, ObjectiveNoise)
        coords = self._coordinates(blocks, noise)
        rows = self.sample.table.encoded(self.schema, coords, self.pairs)
        public = training._facts(self.public, rows.shape[1], coords.norm, self.prepared.curvature)
        push = push_of(public, noise)
        public = replace(public, regularization=self._shrunk(public, push, coords))
        loss, origin = training.target.loss, None
        if not isinstance(loss, Softmax):
            origin = np.zeros(public.shape)
            origin[-1] = seen.start / coords.bias
        (theta,) = solve_with(self.records(rows), public, passage, parts=(0, 1), origin=origin)
        theta, held = expanded(loss, theta), coords.held
        if seen.doubt is not None:
            # weights are drawn to the mean as far as noise alone would explain them: James and
            # Stein's factor, from released weights and what is known of their noise
            firm, pushed = seen.bend * held + public.ridge, push**2 + seen.scatter * held
            chance, total = float(held @ (pushed / firm**2)), float(held @ theta[0, :-1] ** 2)
            factor = max(0.0, 1.0 - chance / total) if total > 0.0 else 0.0
            theta = np.append(factor * theta[:, :-1], theta[:, -1:], axis=1)
        # about the variance that the noise gives each coordinate of the weights
        bend = seen.bend
        if loss.name == "logistic":  # its mean curvature p (1 - p) over scores of a normal law
            variance = float(theta[0, :-1] ** 2 @ held)
            p = expit(theta[0, -1] * coords.bias + math.sqrt(variance) * _NODES)
            bend = self.size * float(_WEIGHTS @ (p * (1.0 - p)) / _WEIGHTS.sum())
        firm = bend * np.where(held > coords.doubt, held, 0.0) + public.ridge
        bars = bars_of(coords, blocks, theta, np.asarray((push / firm) ** 2))
        coef, intercept = coords.back(theta)
        if isinstance(training.target, NumberTarget):
            return self._fitted(coef, intercept, bars)
        shares = training.target.shares(self.counts)
        coef, bars = finished_cells(
            coords, blocks, theta, coef, bars, size=self.size, ridge=public.ridge, push=push,
            shares=shares, pure=self.public.delta == 0.0,
        )  # fmt: skip
        fitted = self._fitted(coef, intercept, bars)
        if not training.target.has_odds or coords.sparse:
            return fitted
        slope = best_slope(coords, theta[0, :-1], seen.bend, public.ridge, push)
        mean, spread = float(theta[0, -1]) * coords.bias, math.sqrt(max(variance, 1e-4))
        fitted = replace(fitted, mean=mean, width=slope * spread)
        return fitted.times(slope, mean_for(mean, spread, slope * spread) - mean)

    def corrected(
        self, fitted: FittedTable, step: LearnCalibration, ready: PreparedStep, passage: Passage
    ) -> FittedTable:
        """Count people by label and score, and correct slope and intercept by these counts."""
        # proof: FINISHING
        target = self.training.target
        assert isinstance(target, LabelTarget)
        data = self.sample.table.spreads(
            partial(_scored, fitted), self.sample.weights, self.sample.labels
        )
        (counts,) = self._ran(step, data, ready, passage)
        deviation = step.deviation(ready.scale, self.public.adjacency)
        factors, shares = target.factors(self.counts), np.maximum(self.counts.sums, 1.0)
        weight = float(factors @ shares / shares.sum())
        return fitted.times(*slope_and_shift(counts, deviation, factors, weight, fitted.width))

    def _fitted(self, coef: Floats, intercept: Floats, bars: list[Bars] | None) -> FittedTable:
        """Return what was released, by columns and by pairs; say what released counts tell."""
        names, width = self.names, len(self.schema.features)
        counts: dict[str, Any] = {**self.sums, **self.levels}
        notes = [
            unread_note(c, learnt=c.name in self.schema.learnt)
            for c in self.schema.columns
            if c.name in counts
            and nearly_none(c, counts[c.name], self.size, self.deviations[c.name])
        ]
        own, rest, pairs = coef[:, :width], coef[:, width:], []
        for pair, bar in zip(self.pairs, (bars or [])[len(names) :], strict=True):
            weights, rest = np.split(rest, [pair.features], axis=1)
            grid = weights.reshape(len(weights), *pair.shape)
            noise = np.array(bar.cells).reshape(pair.shape)
            pairs.append(ColumnPair(pair.columns, pair.kept, grid, bar.centre, noise))
        found = None if bars is None else dict(zip(names, bars, strict=False))
        notes += self.training.target.spoken(self.counts, self.bounds)
        return FittedTable(
            self.schema, own, intercept, tuple(notes), self.bounds, found, tuple(pairs)
        )

    def records(self, rows: Any, *, every: bool = False) -> Records:
        """Return the rows with their targets, but for those that count nothing.

        `every` keeps these in their places, unless sums over partitions have no bound for them.
        """
        target, labels, unit = self.training.target, self.sample.labels, self.sample.unit
        weights = target.weights(self.counts, self.sample.weights, labels)
        solved = each(partial(target.solved, self.bounds), labels)
        if weights is not None:
            kept = unit.within_cap if every else unit.present
            rows, solved, weights, unit = kept(rows, solved, weights)
        return Records(rows, [solved], weights, unit)

    def _coordinates(self, blocks: list[Block], noise: ObjectiveNoise | None) -> Coordinates:
        """Return the coordinates for released shares, and for the noise that is to come."""
        recipe, width = self.training.recipe, sum(map(attrgetter("width"), blocks))
        return coordinates(
            blocks, floor=recipe.floor, slack=recipe.slack, intercept=recipe.intercept,
            wide=is_wide(self.public.size or self.public.most or 1, width),
            rank=partial(self._rank, noise) if recipe.truncated and noise else None,
        )  # fmt: skip

    def _rank(self, noise: ObjectiveNoise, values: Floats, left: Floats) -> int:
        """Return how many directions are worth their noise: signal lost against noise added."""
        count = np.arange(1, len(values) + 1)
        slack, signal = self.training.recipe.slack, self.seen.signal
        spread = (slack * noise.noise_multiplier) ** 2 * np.cumsum(left)
        if noise.law != "gaussian":
            spread *= count + 2.0
        lost = signal * (1.0 - np.cumsum(values) / max(float(values.sum()), 1e-12))
        return int(np.argmin(lost + spread * count / self.seen.bend**2)) + 1

    def _shrunk(self, public: Public, push: float, coords: Coordinates) -> float:
        """Return the best Lambda from the least on.

        A direction of variance s has the error s (Lambda^2 t + z^2 + v s) / (h s + Lambda)^2, t
        the typical square of a weight, z the noise, h the curvature and v the chance of who the
        rows are. The intercept is such a direction, which starts from a mean in doubt.
        """
        live = coords.spectrum[coords.spectrum > 0.0]
        if len(live) == 0:
            return public.ridge
        typical = self.seen.signal / float(live.sum())
        tried = public.ridge * np.exp(np.linspace(0.0, 5.0, 101))[:, None]
        pushed = push * push + self.seen.scatter * live
        each = live * (tried**2 * typical + pushed) / (self.seen.bend * live + tried) ** 2
        errors = each.sum(axis=1) + self.seen.shift(push, coords.bias**2, tried[:, 0])
        return float(tried[int(np.argmin(errors)), 0])


def push_of(public: Public, noise: ObjectiveNoise) -> float:
    """Return the deviation of the noise in the gradient, along any direction."""
    z = noise.noise_multiplier * public.gradient_bound
    return z if noise.law == "gaussian" else z * math.sqrt(public.features + 1.0)


def _scored(fitted: FittedTable, frame: Frame, labels: Any) -> list[Any]:
    """Return what people add to the cells of residuals and curvature."""

    def spread(block: Frame, part: slice) -> Spread:
        # proof: ROW-LOCAL
        scores = table_scores(block, fitted.schema, fitted.coef, fitted.pairs) + fitted.intercept
        cells = score_cells(scores[:, 0], labels[part], fitted.mean, fitted.width)
        return Spread.of_rows(cells, SCORE_CELLS)

    return [WalkedSpread(frame, SCORE_CELLS, spread)]


def _cells(grids: dict[str, Grid], frame: Frame) -> list[Any]:
    """Return the candidates that are nearest to the numbers of columns."""
    return [
        WalkedSpread(frame.only(name), len(grid.points), partial(_nearest, name, grid))
        for name, grid in grids.items()
    ]


def _nearest(name: str, grid: Grid, block: Frame, part: slice) -> Spread:
    return cells_of(block.numbers(name), grid)


def _spreads(
    schema: Schema, names: Sequence[str], pairs: Sequence[PairView], target: Target,
    limits: Limits, frame: Frame, labels: Any,
) -> list[Any]:  # fmt: skip
    """Return the entries of columns, of pairs of them, and of the target behind them."""

    def of_column(column: Column, block: Frame, part: slice) -> Spread:
        return Spread.of_rows(column.spread(block.cells(column.name)), column.places)

    def of_pair(pair: PairView, block: Frame, part: slice) -> Spread:
        return Spread.of_rows(pair.entries(schema.columns, block.columns), pair.features)

    def of_target(block: Frame, part: slice) -> Spread:
        return target.spread(limits, labels[part])

    found = []
    for column in map(schema.by_name.__getitem__, names):
        work = partial(of_column, column)
        found.append(WalkedSpread(frame.only(column.name), column.places, work))
    for pair in pairs:
        found.append(WalkedSpread(frame.only(*pair.columns), pair.features, partial(of_pair, pair)))
    return [*found, WalkedSpread(frame.only(next(iter(frame.columns))), target.cells, of_target)]
