"""`TableRun`: the half of a table's training that sees the data, in blocks of rows.

What each step looks at is formed from the cells when it is wanted (`walks`), and the encoded rows
are written once, block by block, so that memory does not grow with the rows; small tables stay in
memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
from noisette.tables.pipeline.bars import Bars, bars_of, mean_bend
from noisette.tables.pipeline.bounds import LearnBounds
from noisette.tables.pipeline.categories import LearnCategories, ShownLevels
from noisette.tables.pipeline.coordinates import Block, Coordinates, coordinates
from noisette.tables.pipeline.knots import Knots, LearnKnots
from noisette.tables.pipeline.last import run_last
from noisette.tables.pipeline.pair_cells import PairView, filled_cells, kernel
from noisette.tables.pipeline.pairs import ColumnPair, filled_pairs
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.shares import (
    NOBODY,
    LearnShares,
    LearnSpikes,
    Spread,
    hollow,
    with_spikes,
)
from noisette.tables.pipeline.step import PreparedStep, Step
from noisette.tables.pipeline.table_columns import evenly, nearly_none, unread_note
from noisette.tables.pipeline.table_rows import PartedFrame, WholeFrame
from noisette.tables.pipeline.target import TargetCounts, TargetView
from noisette.tables.pipeline.walks import walked, walked_cells, walked_pair, walked_spread

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import PreparedTable, TableTraining

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
        self.weights = self.unit.weights
        self.pairs = 0
        """How many pairs of columns the model looks at, for the room that their cells need."""

    def __repr__(self) -> str:
        return "<TableSample>"

    def part(self, chosen: Any) -> "TableSample":
        """Return the rows of the chosen units: records, or persons with all their rows."""
        rows = self.table.rows_of(self.unit, chosen)
        found, few = self.table.where(rows), self.table.part_of(self.unit, chosen)
        return TableSample(found, each(_picked, self.labels, rows, shape=(found.rows,)), few)

    @property
    def rows(self) -> Any:
        """The table as a model takes it, or its parts."""
        return self.table.input

    @property
    def units(self) -> int:
        """How many units there are: rows, or persons."""
        return self.unit.count

    @property
    def proofs(self) -> tuple[str, ...]:
        """The theorems about the place where the rows lie."""
        return getattr(self.labels, "proofs", ())

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        sample = Sample([], None, self.labels, count=self.table.rows)
        sample.group(self.unit).check(public)
        used = self.table.rows
        if self.weights is not None:
            used = int(summed(np.count_nonzero, self.weights))
        check_rows_each(used, public)
        self.table.reserve(self.pairs)


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


class TableRun:
    """One run: what was released so far, and the cells."""

    def __init__(
        self, training: "TableTraining", sample: TableSample, prepared: "PreparedTable"
    ) -> None:
        self.training, self.sample, self.prepared = training, sample, prepared
        self.public = prepared.public
        self.facts: dict[str, dict[str, Any]] = {
            name: evenly(grid, training.recipe.public_knots)
            for name, grid in training.plain.items()
            if name not in training.numbers
        }
        self.free = tuple(self.facts)  # they follow from public bounds
        self.levels: dict[str, ShownLevels] = {}
        self.schema = training.schema
        self.sums: dict[str, Floats] = {}
        self.deviations: dict[str, float] = {}
        self.pairs: list[PairView] = []
        self.pair_sums: list[Floats] = []
        low, high = training.target.bounds
        self.bounds = (0.0 if low is None else low, 1.0 if high is None else high)

    def learn(self, step: Step, ready: PreparedStep, passage: Passage) -> None:
        """Run one step and keep what it released."""
        if isinstance(step, LearnBounds | LearnKnots):
            self._take_numbers(step, ready, passage)
        elif isinstance(step, LearnCategories):
            names = self.training.unknown
            data = self.sample.table.texts(names, self.sample.weights)
            self.levels = dict(zip(names, self._ran(step, data, ready, passage), strict=True))
            for name, levels in self.levels.items():
                self.facts[name] = {"categories": [text for text in levels.levels if text]}
            sigma = step._mechanism(ready.scale).sigma(self.public.adjacency)
            self.deviations |= dict.fromkeys(names, sigma)
        elif isinstance(step, LearnSpikes):
            self._take_spikes(step, ready, passage)
        elif isinstance(step, LearnShares):
            self.schema = self.training.schema.completed(self.facts, free=self.free)
            self._count(step, ready, passage)

    def _ran(self, step: Step, data: list[Any], ready: PreparedStep, passage: Passage) -> list[Any]:
        sample = Sample(data, self.sample.weights, count=self.sample.table.rows)
        return list(step.run(sample, ready, passage))

    def _take_numbers(
        self, step: LearnBounds | LearnKnots, ready: PreparedStep, passage: Passage
    ) -> None:
        """Buy knots, or limits of the target and of columns, between which knots lie evenly."""
        training, sample, names = self.training, self.sample, list(self.training.numbers)
        before = [sample.labels] if training.target.buys else []
        data = sample.table.ranks(names, step.grids, step.ups, sample.weights, *before)
        found = self._ran(step, data, ready, passage)
        if training.target.buys:
            target = found.pop(0)
            self.bounds = (target.low, target.high)
        for name, released in zip(names, found, strict=True):
            self.facts[name] = (
                {"knots": list(released.knots) or [released.median], "center": released.median}
                if isinstance(released, Knots)
                else evenly(Grid(released.low, released.high), training.recipe.public_knots)
            )

    def _take_spikes(self, step: LearnSpikes, ready: PreparedStep, passage: Passage) -> None:
        """Give the columns with the fewest knots more of them, at numbers that many share."""
        grids = self.training.numbers
        found = {name: self.facts[name]["knots"] for name in grids}
        names = hollow(found, self.training.recipe.depth, step.columns)
        data: list[Any] = []
        if names:
            chosen = {name: grids[name] for name in names}
            widths = [len(grid.points) for grid in chosen.values()]
            work = partial(_cells, chosen)
            data = self.sample.table.spreads(work, widths, self.sample.weights)
        data += [NOBODY] * (step.columns - len(names))  # they were paid for: nobody is counted
        counts = self._ran(step, data, ready, passage)
        sigma = step.deviation(ready.scale, self.public.adjacency)
        for name, own in zip(names, counts, strict=False):
            self.facts[name]["knots"] = with_spikes(found[name], own, sigma, grids[name])

    def _count(self, step: LearnShares, ready: PreparedStep, passage: Passage) -> None:
        known, target = self.schema.by_name, self.training.target
        names = self.training.counted
        columns = [known[name] for name in names]
        self.pairs = [self._pair(*pair) for pair in self.training.used_pairs]
        widths = [column.places for column in columns]
        widths += [*(pair.features for pair in self.pairs), target.cells]
        work = partial(
            _spreads, columns, self.pairs, self.schema.columns, target.cells,
            partial(target.spread, self.bounds),
        )  # fmt: skip
        sample = self.sample
        data = sample.table.spreads(work, widths, sample.weights, sample.labels)
        *sums, self.per_class = self._ran(step, data, ready, passage)
        self.sums = dict(zip(names, sums, strict=False))
        self.pair_sums = sums[len(names) :]
        sigma = step.deviation(ready.scale, self.public.adjacency)
        self.deviations |= dict.fromkeys(names, sigma) | {"": sigma}

    def _pair(self, first: str, second: str) -> PairView:
        """Return the views of a pair, fixed by what was released."""
        kept = []
        for name in (first, second):
            counts = self.levels[name].by_text if name in self.levels else {}
            kept.append(self.schema.by_name[name].coarse(self.training.recipe.cells, counts))
        return PairView((first, second), (kept[0], kept[1]))

    def _pair_blocks(self) -> list[Block]:
        """Return what is known of the cells of every pair."""
        blocks, recipe, known = [], self.training.recipe, self.schema.by_name
        noise = self.deviations[""] / self.size
        for pair, sums in zip(self.pairs, self.pair_sums, strict=True):
            each = zip(pair.columns, pair.shape, strict=True)
            first, second = (kernel(known[name], count) for name, count in each)
            prior = np.asarray(recipe.together * np.kron(first, second), dtype=np.float64)
            shares = sums / self.size
            ordered = [known[name].ordered for name in pair.columns]
            merged = filled_cells(shares.reshape(pair.shape), ordered, recipe.rare_cells, noise)
            blocks.append(
                Block(len(sums), shares, whole=False, noise=noise, merged=merged, prior=prior)
            )
        return blocks

    @property
    def size(self) -> float:
        """The number of units: public, or as released."""
        if self.public.exact:
            return float(self.public.exact)
        return max(float(self.per_class.sum()), self.deviations[""], 1.0)

    @cached_property
    def counts(self) -> TargetCounts:
        """What was released of the targets."""
        return TargetCounts(self.per_class, self.size, self.deviations[""])

    @cached_property
    def seen(self) -> TargetView:
        """What those counts say."""
        return self.training.target.seen(self.counts, self.training.recipe.signal)

    def _blocks(self) -> list[Block]:
        """Return what is known of the features of every column of the completed schema."""
        blocks = []
        for column in self.schema.columns:
            if not column.features:
                continue
            width = len(column.features)
            if column.name in self.levels:
                sums = column.level_sums(self.levels[column.name].by_text, self.size)
            else:
                sums = self.sums[column.name]
            hats, recipe = column.ordered, self.training.recipe
            sure = recipe.sure * self.deviations[column.name] / self.size
            least = sure / 2.0 if hats else max(recipe.rare, sure)
            noise = self.deviations[column.name] / self.size
            shares_of = sums / self.size
            block = Block(width, shares_of, hats, column.filled, least, column.whole, noise)
            blocks.append(replace(block, alike=recipe.alike, slot=sure, rows=column.place_rows))
        return blocks

    def model(self, passage: Passage) -> FittedTable:
        """Train in the released coordinates and return the weights of the encoded features."""
        training, blocks = self.training, [*self._blocks(), *self._pair_blocks()]
        if training.last is not None:
            coords = self._coordinates(blocks, None)
            theta, noise_each = run_last(self, coords, passage)
            variance = None if noise_each is None else np.full(len(coords.spectrum), noise_each**2)
            found = None if variance is None else bars_of(coords, blocks, theta, variance)
            return self._fitted(*coords.back(theta), found)
        noise = passage.leaf().mechanism
        assert isinstance(noise, ObjectiveNoise)
        coords = self._coordinates(blocks, noise)
        rows = self.sample.table.encoded(self.schema, coords, self.pairs)
        public = training._facts(self.public, rows.shape[1], coords.norm, self.prepared.curvature)
        public = replace(public, regularization=self._shrunk(public, noise, coords)[0])
        loss, origin = training.target.loss, None
        if not isinstance(loss, Softmax):
            origin = np.zeros(public.shape)
            origin[-1] = self.seen.start / coords.bias
        (theta,) = solve_with(self.records(rows), public, passage, parts=(0, 1), origin=origin)
        theta = training.target.expanded(theta)
        held = coords.spectrum if coords.held is None else coords.held
        theta = self.seen.calmed(np.asarray(theta), held, self._push(public, noise), public.ridge)
        variance = self._variance(public, noise, coords, theta)
        bars = bars_of(coords, blocks, theta, variance)
        return self._fitted(*coords.back(theta), bars)

    def _fitted(self, coef: Floats, intercept: Floats, bars: list[Bars] | None) -> FittedTable:
        """Return what was released, by columns and by pairs."""
        names = [column.name for column in self.schema.columns if column.features]
        width = coef.shape[1] - sum(pair.features for pair in self.pairs)
        pairs = filled_pairs(self.pairs, coef[:, width:], (bars or [])[len(names) :])
        found = None if bars is None else dict(zip(names, bars, strict=False))
        notes = (*self._unread(), *self.training.target.spoken(self.counts, self.bounds))
        return FittedTable(
            self.schema, coef[:, :width], intercept, notes, self.bounds, found, pairs
        )

    def _variance(
        self, public: Public, noise: ObjectiveNoise, coords: Coordinates, theta: Floats
    ) -> Floats:
        """Return about the variance that the noise gives each coordinate of the weights."""
        held = coords.spectrum if coords.held is None else coords.held
        bend = self.seen.bend
        if self.training.target.loss.name == "logistic":
            scores = theta[0, -1] * coords.bias, float(theta[0, :-1] ** 2 @ held)
            bend = self.size * mean_bend(*scores)
        firm = bend * np.where(held > coords.doubt, held, 0.0) + public.ridge
        return np.asarray((self._push(public, noise) / firm) ** 2)

    def _push(self, public: Public, noise: ObjectiveNoise) -> float:
        """Return the deviation of the noise in the gradient, along any direction."""
        z = noise.noise_multiplier * public.gradient_bound
        return z if noise.law == "gaussian" else z * math.sqrt(public.features + 1.0)

    def _unread(self) -> tuple[str, ...]:
        """Say, from released counts, of which columns nearly no cell was read."""
        counts: dict[str, Any] = {**self.sums, **self.levels}
        return tuple(
            unread_note(column, learnt=column.name in self.schema.learnt)
            for column in self.schema.columns
            if column.name in counts
            and nearly_none(column, counts[column.name], self.size, self.deviations[column.name])
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
        recipe = self.training.recipe
        width = sum(block.width for block in blocks)
        guess = self.public.size or self.public.most or 1
        return coordinates(
            blocks, floor=recipe.floor, slack=recipe.slack, intercept=recipe.intercept,
            wide=is_wide(guess, width),
            rank=(lambda *known: self._rank(noise, *known)) if recipe.truncated and noise else None,
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

    def _shrunk(
        self, public: Public, noise: ObjectiveNoise, coords: Coordinates
    ) -> tuple[float, float]:
        """Return the best Lambda from the least on, and the error of scores of typical variance.

        A direction of variance s has the error s (Lambda^2 t + z^2 + v s) / (h s + Lambda)^2, t
        the typical square of a weight, z the noise, h the curvature and v the chance of who the
        rows are. The intercept is such a direction, which starts from a mean in doubt.
        """
        z = self._push(public, noise)
        live = coords.spectrum[coords.spectrum > 0.0]
        if len(live) == 0:
            return public.ridge, self.seen.signal
        typical = self.seen.signal / float(live.sum())
        tried = public.ridge * np.exp(np.linspace(0.0, 5.0, 101))[:, None]
        pushed = z * z + self.seen.scatter * live
        each = live * (tried**2 * typical + pushed) / (self.seen.bend * live + tried) ** 2
        errors = each.sum(axis=1) + self.seen.shift(z, coords.bias**2, tried[:, 0])
        best = int(np.argmin(errors))
        return float(tried[best, 0]), float(errors[best])


def _picked(labels: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[Any]:
    return np.asarray(labels[chosen])


def _cells(grids: dict[str, Grid], frame: Frame) -> list[Any]:
    return [walked_cells(frame, name, grid) for name, grid in grids.items()]


def _spreads(
    columns: list[Column], pairs: list[PairView], every: Sequence[Column], cells: int,
    spread: Callable[[Any], Spread], frame: Frame, labels: Any,
) -> list[Any]:  # fmt: skip
    """Return the entries of columns, of pairs of them, and of the target behind them."""
    found: list[Any] = [walked_spread(column, frame) for column in columns]
    found += [walked_pair(pair, every, frame) for pair in pairs]
    return [*found, walked(frame.rows, cells, lambda part: spread(labels[part]))]
