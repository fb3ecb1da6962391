"""`TableRun`: the half of a table's training that sees the data, in blocks of rows.

What each step looks at is formed from the cells when it is wanted (`walks`), and the encoded rows
are written once, block by block, so that memory does not grow with the rows; small tables stay in
memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.parts import each, is_parted, summed
from noisette.fitting.algorithms import Public, Records
from noisette.fitting.algorithms.class_weight import BALANCED, balanced, weighed
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
from noisette.tables.pipeline.cut_targets import cut_note
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.pair_cells import PairView, filled_cells, kernel
from noisette.tables.pipeline.pairs import ColumnPair, filled_pairs
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.shares import (
    NOBODY,
    LearnShares,
    LearnSpikes,
    Spread,
    WalkedSpread,
    hollow,
    with_spikes,
)
from noisette.tables.pipeline.step import PreparedStep, Step
from noisette.tables.pipeline.stored_rows import encoded_rows, room_for
from noisette.tables.pipeline.table_columns import evenly, nearly_none, unread_note
from noisette.tables.pipeline.walks import (
    KNOTS,
    CodedColumn,
    NumberColumn,
    cut_and_scaled,
    spread_of_labels,
    spread_of_numbers,
    walked,
    walked_cells,
    walked_pair,
    walked_spread,
)
from noisette.tables.spill import Spill

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import PreparedTable, TableTraining

_WIDE = 2**26  # entries; above, rows stay sparse
_MOST_TURNED = 2048  # features; above, finding the directions of a column would take minutes
_QUADRATIC = 0.7  # of the rows have residuals below the threshold of the loss
_LEAST_SPREAD = 0.002  # variance of targets in [-1, 1]
_ODDS = 6.0  # most that the intercept's start may be
_RARE_LABEL = 0.15  # below, few rows reach a probability of 1/2


def is_wide(rows: float, features: int) -> bool:
    """Whether rows stay sparse and are not centred."""
    return features > _MOST_TURNED or float(rows) * features > _WIDE


class TableSample:
    """The sensitive half: cells, class numbers or numbers to predict, and whose row it is."""

    def __init__(self, frame: Frame, labels: NDArray[Any], unit: Unit | None = None) -> None:
        self.frame, self.labels, self.unit = frame, labels, unit or Unit(len(labels))
        self.weights = self.unit.weights
        self.pairs = 0
        """How many pairs of columns the model looks at, for the room that their cells need."""
        self.room: Spill | None = None
        """Where encoded rows go that are too many for memory; it is there before the charge."""

    def __repr__(self) -> str:
        return "<TableSample>"

    def part(self, chosen: Any) -> "TableSample":
        """Return the rows of the chosen units: records, or persons with all their rows."""
        if self.parted:
            frame: Any = self.frame
            found = frame.where(chosen)
            return TableSample(found, each(_picked, self.labels, chosen, shape=(found.rows,)))
        rows = np.flatnonzero(chosen[self.unit.index])
        part = TableSample(self.frame.take(rows), self.labels[rows], self.unit.take(rows))
        part.room = self.room
        return part

    @property
    def rows(self) -> Any:
        """The table as a model takes it, or in parts."""
        frame: Any = self.frame
        return frame.frames if self.parted else frame

    @property
    def units(self) -> int:
        """How many units there are: rows, or persons."""
        return self.unit.count

    @property
    def parted(self) -> bool:
        """Whether the rows live in parts."""
        return is_parted(self.labels)

    @property
    def proofs(self) -> tuple[str, ...]:
        """The theorems about the place where the rows lie."""
        return getattr(self.labels, "proofs", ())

    def runs(self, usual: type["TableRun"]) -> type["TableRun"]:
        """Return what runs a training on these rows: the usual, or what goes to their parts."""
        if not self.parted:
            return usual
        from noisette.tables.pipeline.parted_run import PartedRun  # which is a run, too

        return PartedRun

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        sample = Sample([], None, self.labels, count=self.frame.rows)
        sample.group(self.unit).check(public)
        used = self.frame.rows
        if self.weights is not None:
            used = int(summed(np.count_nonzero, self.weights))
        check_rows_each(used, public)
        self.room = None if self.parted else room_for(self.frame, self.pairs)


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
            column.name: evenly(column.grid, training.recipe.public_knots)
            for column in training.plain
            if column not in training.numbers
        }
        self.free = tuple(self.facts)  # they follow from public bounds
        self.levels: dict[str, ShownLevels] = {}
        self.schema = training.schema
        self.sums: tuple[Floats, ...] = ()
        self.deviations: dict[str, float] = {}
        self.pairs: list[PairView] = []
        self.pair_sums: list[Floats] = []
        low, high = training.bounds
        self.bounds = (0.0 if low is None else low, 1.0 if high is None else high)

    @property
    def targets(self) -> Floats:
        """Numbers to predict, cut to their limits and scaled to [-1, 1], row by row."""
        scaled: Floats = each(partial(cut_and_scaled, *self.bounds), self.sample.labels)
        return scaled

    def learn(self, step: Step, ready: PreparedStep, passage: Passage) -> None:
        """Run one step and keep what it released."""
        frame, weights = self.sample.frame, self.sample.weights
        if isinstance(step, LearnBounds):
            self._take_bounds(step, ready, passage)
        elif isinstance(step, LearnKnots):
            names = [column.name for column in self.training.numbers]
            data = self._numbers(names, step.grids, (None,))
            found = step.run(Sample(data, weights, count=frame.rows), ready, passage)
            for name, knots in zip(names, found, strict=True):
                found_knots = list(knots.knots) or [knots.median]
                self.facts[name] = {"knots": found_knots, "center": knots.median}
        elif isinstance(step, LearnCategories):
            names = [column.name for column in self.training.unknown]
            data = self._coded(names)
            released = step.run(Sample(data, weights, count=frame.rows), ready, passage)
            self.levels = dict(zip(names, released, strict=True))
            for name, levels in self.levels.items():
                self.facts[name] = {"categories": [text for text in levels.levels if text]}
            sigma = step._mechanism(ready.scale).sigma(self.public.adjacency)
            self.deviations |= dict.fromkeys(names, sigma)
        elif isinstance(step, LearnSpikes):
            self._take_spikes(step, ready, passage)
        elif isinstance(step, LearnShares):
            self.schema = self.training.schema.completed(self.facts, free=self.free)
            self._count(step, ready, passage)

    def _take_bounds(self, step: LearnBounds, ready: PreparedStep, passage: Passage) -> None:
        """Buy the limits of the target and of open columns; knots lie evenly between them."""
        training, frame = self.training, self.sample.frame
        names = [column.name for column in training.numbers]
        data = self._numbers(names, step.grids, (False, True))
        found = list(step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage))
        if training.buys_bounds:
            target = found.pop(0)
            self.bounds = (target.low, target.high)
        for name, ends in zip(names, found, strict=True):
            self.facts[name] = evenly(Grid(ends.low, ends.high), training.recipe.public_knots)

    def _take_spikes(self, step: LearnSpikes, ready: PreparedStep, passage: Passage) -> None:
        """Give the columns with the fewest knots more of them, at numbers that many share."""
        frame = self.sample.frame
        grids = {column.name: column.grid for column in self.training.numbers}
        found = {name: self.facts[name]["knots"] for name in grids}
        names = hollow(found, self.training.recipe.depth, step.columns)
        data = self._cells({name: grids[name] for name in names})
        data += [NOBODY] * (step.columns - len(names))  # they were paid for: nobody is counted
        counts = step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage)
        sigma = step.deviation(ready.scale, self.public.adjacency)
        for name, own in zip(names, counts, strict=False):
            self.facts[name]["knots"] = with_spikes(found[name], own, sigma, grids[name])

    def _count(self, step: LearnShares, ready: PreparedStep, passage: Passage) -> None:
        names = [column.name for column in self.training.counted]
        self.pairs = [self._pair(*pair) for pair in self.training.used_pairs]
        data = self._spreads([self.schema.by_name[name] for name in names])
        sample = Sample(data, self.sample.weights, count=self.sample.frame.rows)
        *sums, self.per_class = step.run(sample, ready, passage)
        self.sums, self.pair_sums = tuple(sums[: len(names)]), sums[len(names) :]
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
        blocks, recipe = [], self.training.recipe
        known = self.schema.by_name
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

    # --- what the steps look at: here, columns of a table that is at hand ------------------------

    def _numbers(
        self, names: list[str], grids: Sequence[Grid], ups: Sequence[bool | None]
    ) -> list[Any]:
        """Return columns as numbers, behind the target where its limits are bought.

        `ups` says how a step will snap them to its `grids` (`columns.grid.Placed`).
        """
        before: list[Any] = [self.sample.labels] if self.training.buys_bounds else []
        return [*before, *(NumberColumn(self.sample.frame, name) for name in names)]

    def _coded(self, names: list[str]) -> list[Any]:
        """Return columns as codes of their texts."""
        return [CodedColumn(self.sample.frame, name) for name in names]

    def _cells(self, grids: dict[str, Grid]) -> list[Any]:
        """Return the candidate that is nearest to each number of columns."""
        return [walked_cells(self.sample.frame, name, grid) for name, grid in grids.items()]

    def _spreads(self, columns: list[Column]) -> list[Any]:
        """Return the entries of columns, of pairs of them, and of the target behind them."""
        frame, every = self.sample.frame, self.schema.columns
        found = [walked_spread(column, frame) for column in columns]
        found += [walked_pair(pair, every, frame) for pair in self.pairs]
        return [*found, self._target()]

    def _model_rows(self, coords: Coordinates) -> Any:
        """Return the rows in the coordinates of the model."""
        frame, room = self.sample.frame, self.sample.room
        return encoded_rows(frame, self.schema, coords, room, self.pairs)

    def _target(self) -> WalkedSpread:
        """Return the label of every row; a number in [-1, 1] lies between two knots."""
        count = self.sample.frame.rows
        if not self.training.regression:
            return walked(count, self.training.classes, self._labels)
        return walked(count, len(KNOTS), self._between)

    def _labels(self, part: slice) -> Spread:
        return spread_of_labels(self.training.classes, self.sample.labels[part])

    def _between(self, part: slice) -> Spread:
        return spread_of_numbers(cut_and_scaled(*self.bounds, self.sample.labels[part]))

    @property
    def size(self) -> float:
        """The number of units: public, or as released."""
        if self.public.adjacency.size_is_public and self.public.size is not None:
            return float(self.public.size)
        return max(float(self.per_class.sum()), self.deviations[""], 1.0)

    @property
    def _moments(self) -> tuple[float, float]:
        """The mean of the scaled targets, and how large their variance may be, as released."""
        sums, n = self.per_class, self.size
        mean = float(np.clip(KNOTS @ sums / n, -1.0, 1.0))
        # what is divided between two knots has too large a square, by a sixth of their distance^2
        square = (KNOTS - mean) ** 2
        found = float(square @ sums) / n - float(KNOTS[1] - KNOTS[0]) ** 2 / 6.0
        doubt = self.deviations[""] / n * float(np.linalg.norm(square))
        return mean, max(found + doubt, _LEAST_SPREAD)

    @property
    def _mean_doubt(self) -> float:
        """The deviation of the noise in the mean of the scaled targets."""
        return self.deviations[""] / self.size * float(np.linalg.norm(KNOTS))

    @property
    def _signal(self) -> float:
        """The variance of scores to expect: at most that of the targets."""
        usual = self.training.recipe.signal
        return min(usual, self._moments[1]) if self.training.regression else usual

    @property
    def _scatter(self) -> float:
        """The variance that the sample of rows gives a gradient along a direction of variance 1."""
        return 0.5 * self._bend * self._signal if self.training.regression else 0.0

    def _blocks(self) -> list[Block]:
        """Return what is known of the features of every column of the completed schema."""
        names = [column.name for column in self.training.counted]
        shares = dict(zip(names, self.sums, strict=True))
        blocks = []
        for column in self.schema.columns:
            if not column.features:
                continue
            width = len(column.features)
            if column.name in self.levels:
                sums = column.level_sums(self.levels[column.name].by_text, self.size)
            else:
                sums = shares[column.name]
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
        noise = passage.leaf().mechanism
        assert isinstance(noise, ObjectiveNoise)
        coords = self._coordinates(blocks, noise)
        rows = self._model_rows(coords)
        public = training._facts(self.public, rows.shape[1], coords.norm, self.prepared.curvature)
        public = replace(public, regularization=self._shrunk(public, noise, coords)[0])
        binary = not isinstance(training.loss, Softmax)
        origin = self._origin(public, coords) if binary else None
        target = each(_signs, self.sample.labels) if binary else self.sample.labels
        if training.regression:
            target = self.targets
        records = self._records(rows, target)
        (theta,) = solve_with(records, public, passage, parts=(0, 1), origin=origin)
        theta = theta[None, :] if binary else training.loss.expand(theta)  # type: ignore[attr-defined]
        theta = self._calmed(public, noise, coords, np.asarray(theta))
        variance = self._variance(public, noise, coords, theta)
        bars = bars_of(coords, blocks, theta, variance)
        return self._fitted(*coords.back(theta), bars)

    def _fitted(self, coef: Floats, intercept: Floats, bars: list[Bars]) -> FittedTable:
        """Return what was released, by columns and by pairs."""
        names = [column.name for column in self.schema.columns if column.features]
        width = coef.shape[1] - sum(pair.features for pair in self.pairs)
        pairs = filled_pairs(self.pairs, coef[:, width:], bars[len(names) :])
        found, notes = dict(zip(names, bars, strict=False)), self._spoken()
        return FittedTable(
            self.schema, coef[:, :width], intercept, notes, self.bounds, found, pairs
        )

    def _variance(
        self, public: Public, noise: ObjectiveNoise, coords: Coordinates, theta: Floats
    ) -> Floats:
        """Return about the variance that the noise gives each coordinate of the weights."""
        held = coords.spectrum if coords.held is None else coords.held
        bend = self._bend
        if self.training.loss.name == "logistic":
            scores = theta[0, -1] * coords.bias, float(theta[0, :-1] ** 2 @ held)
            bend = self.size * mean_bend(*scores)
        firm = bend * np.where(held > coords.doubt, held, 0.0) + public.ridge
        return np.asarray((self._push(public, noise) / firm) ** 2)

    def _calmed(
        self, public: Public, noise: ObjectiveNoise, coords: Coordinates, theta: Floats
    ) -> Floats:
        """Return weights of a number, drawn to the mean as far as noise alone would explain them.

        James and Stein's factor, from released weights and what is known of their noise.
        """
        if not self.training.regression:
            return theta
        held = coords.spectrum if coords.held is None else coords.held
        firm = self._bend * held + public.ridge
        pushed = self._push(public, noise) ** 2 + self._scatter * held
        chance = float(held @ (pushed / firm**2))
        size = float(held @ theta[0, :-1] ** 2)
        factor = max(0.0, 1.0 - chance / size) if size > 0.0 else 0.0
        return np.append(factor * theta[:, :-1], theta[:, -1:], axis=1)

    def _push(self, public: Public, noise: ObjectiveNoise) -> float:
        """Return the deviation of the noise in the gradient, along any direction."""
        z = noise.noise_multiplier * public.gradient_bound
        return z if noise.law == "gaussian" else z * math.sqrt(public.features + 1.0)

    def _spoken(self) -> tuple[str, ...]:
        """Say, from released counts, what makes answers alike: a rare label, cut targets."""
        unread = self._unread()
        if self.training.regression:
            cut = cut_note(self.per_class, self.size, self.deviations[""], self.bounds)
            return (*unread, *cut)
        part = 1.0 / (1.0 + math.exp(abs(self._odds()))) if self.training.classes == 2 else 0.5
        if part > _RARE_LABEL:
            return unread
        return (
            *unread,
            f"By the noisy counts, about {100.0 * part:.2g} % of the records have the rarer label, "
            "so the likelier one, which predict gives, may be the other for nearly everybody: rank "
            "records by decision_function, or cut it at a limit of your own.",
        )

    def _unread(self) -> tuple[str, ...]:
        """Say, from released counts, of which columns nearly no cell was read."""
        names = [column.name for column in self.training.counted]
        counts: dict[str, Any] = dict(zip(names, self.sums, strict=True)) | self.levels
        return tuple(
            unread_note(column, learnt=column.name in self.schema.learnt)
            for column in self.schema.columns
            if column.name in counts
            and nearly_none(column, counts[column.name], self.size, self.deviations[column.name])
        )

    @property
    def _factors(self) -> Floats:
        """The weights of the classes: public, or from the released counts of labels."""
        asked = self.training.class_weight
        if asked is None:
            return np.ones(self.training.classes)
        # proof: CLASS-WEIGHT
        return (
            balanced(self.per_class, self.deviations[""]) if asked == BALANCED else np.array(asked)
        )

    def _records(self, rows: Any, target: NDArray[Any]) -> Records:
        """Return the rows that count; those beyond the cap of a person are left out."""
        weights, unit = self.sample.weights, self.sample.unit
        if self.training.class_weight is not None:
            weights = weighed(weights, self._factors, self.sample.labels)
        if weights is not None:
            rows, target, weights, unit = unit.present(rows, target, weights)
        return Records(rows, [target], weights, unit)

    def _odds(self) -> float:
        sums = np.maximum(self.per_class, self.deviations[""]) * self._factors
        sums = np.maximum(sums, 1e-6)
        return float(np.clip(math.log(sums[1] / sums[0]), -_ODDS, _ODDS))

    def _origin(self, public: Public, coords: Coordinates) -> Floats:
        """Return the weights around which the model is shrunk: those of the released odds."""
        origin = np.zeros(public.shape)
        if self.training.regression:
            origin[-1] = self._moments[0] / coords.bias
        elif self.training.loss.name == "logistic":
            origin[-1] = self._odds() / coords.bias
        return origin

    def _coordinates(self, blocks: list[Block], noise: ObjectiveNoise) -> Coordinates:
        """Return the coordinates for released shares, and for the noise that is to come."""
        recipe = self.training.recipe
        width = sum(block.width for block in blocks)
        guess = self.public.size or self.public.most or 1
        return coordinates(
            blocks, floor=recipe.floor, slack=recipe.slack, intercept=recipe.intercept,
            wide=is_wide(guess, width),
            rank=(lambda *known: self._rank(noise, *known)) if recipe.truncated else None,
        )  # fmt: skip

    @property
    def _bend(self) -> float:
        """The curvature of the summed losses in a direction of variance 1."""
        if self.training.regression:
            return _QUADRATIC * self.size
        share = 1.0 / (1.0 + math.exp(-abs(self._odds()))) if self.training.classes == 2 else 0.5
        return self.size * max(share * (1.0 - share), 0.02)

    def _rank(self, noise: ObjectiveNoise, values: Floats, left: Floats) -> int:
        """Return how many directions are worth their noise: signal lost against noise added."""
        count = np.arange(1, len(values) + 1)
        slack, signal = self.training.recipe.slack, self._signal
        spread = (slack * noise.noise_multiplier) ** 2 * np.cumsum(left)
        if noise.law != "gaussian":
            spread *= count + 2.0
        lost = signal * (1.0 - np.cumsum(values) / max(float(values.sum()), 1e-12))
        return int(np.argmin(lost + spread * count / self._bend**2)) + 1

    def _shift(self, public: Public, noise: ObjectiveNoise, coords: Coordinates, ridge: Any) -> Any:
        """Return the mean square by which noise moves the scores of all rows together."""
        constant, z = coords.bias**2, self._push(public, noise)
        start = (ridge * self._mean_doubt) ** 2 + z * z * constant
        return start / (self._bend * constant + ridge) ** 2

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
            return public.ridge, self._signal
        typical = self._signal / float(live.sum())
        tried = public.ridge * np.exp(np.linspace(0.0, 5.0, 101))[:, None]
        pushed = z * z + self._scatter * live
        each = live * (tried**2 * typical + pushed) / (self._bend * live + tried) ** 2
        errors = each.sum(axis=1)
        if self.training.regression:
            errors += self._shift(public, noise, coords, tried[:, 0])
        best = int(np.argmin(errors))
        return float(tried[best, 0]), float(errors[best])


def _picked(labels: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[Any]:
    return np.asarray(labels[chosen])


def _signs(labels: NDArray[Any]) -> Floats:
    return np.where(labels == 1, 1.0, -1.0)
