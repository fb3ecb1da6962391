"""`TableRun`: the half of a table's training that sees the data, in blocks of rows.

What each step looks at is formed from the cells when it is wanted (`walks`), and the encoded rows
are written once, block by block, so that memory does not grow with the rows; small tables stay in
memory.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noisette._spill import Spill
from noisette._typing import Floats
from noisette.columns import Categorical, Hats, Ignored
from noisette.losses import Softmax
from noisette.mechanisms import ObjectiveNoise
from noisette.persons import Persons
from noisette.pipeline.bars import Bars, bars_of, mean_bend
from noisette.pipeline.bounds import LearnBounds
from noisette.pipeline.categories import LearnCategories, ShownLevels
from noisette.pipeline.coordinates import Block, Coordinates, coordinates
from noisette.pipeline.grid import Grid
from noisette.pipeline.knots import LearnKnots
from noisette.pipeline.sample import Sample
from noisette.pipeline.shares import LearnShares, Spread, WalkedSpread
from noisette.pipeline.spikes import NOBODY, LearnSpikes, hollow, with_spikes
from noisette.pipeline.step import PreparedStep, Step
from noisette.pipeline.stored_rows import encoded_rows, room_for
from noisette.pipeline.table_columns import (
    evenly,
    filled,
    grid_of,
    inner_of,
    knot_facts,
    sums_of_levels,
)
from noisette.pipeline.walks import CodedColumn, NumberColumn, walked, walked_cells, walked_spread
from noisette.tables import Frame, Schema
from noisette.training import Public, Records
from noisette.training.class_weight import BALANCED, balanced, weighed
from noisette.training.levels import present
from noisette.training.objective_perturbation import solve_with
from noisette.training.passage import Passage
from noisette.training.public import PublicBudget
from noisette.training.records import check_rows_each

if TYPE_CHECKING:
    from noisette.pipeline.table_training import PreparedTable, TableTraining

__all__ = ["FittedTable", "TableRun", "TableSample", "is_wide"]

_WIDE = 2**26  # entries; above, rows stay sparse
_MOST_TURNED = 2048  # features; above, finding the directions of a column would take minutes
_QUADRATIC = 0.7  # of the rows have residuals below the threshold of the loss
_KNOTS = np.linspace(-1.0, 1.0, 9)  # between which targets are counted
_LEAST_SPREAD = 0.002  # variance of targets in [-1, 1]
_ODDS = 6.0  # most that the intercept's start may be
_RARE_LABEL = 0.15  # below, few rows reach a probability of 1/2


def is_wide(rows: float, features: int) -> bool:
    """Whether rows stay sparse and are not centred."""
    return features > _MOST_TURNED or float(rows) * features > _WIDE


class TableSample:
    """The sensitive half: cells, class numbers or numbers to predict, and whose row it is."""

    def __init__(self, frame: Frame, labels: NDArray[Any], persons: Persons | None = None) -> None:
        self.frame, self.labels, self.persons = frame, labels, persons
        self.weights = None if persons is None else persons.weights
        self.room: Spill | None = None
        """Where encoded rows go that are too many for memory; it is there before the charge."""

    def __repr__(self) -> str:
        return "<TableSample>"

    def part(self, chosen: NDArray[np.bool_]) -> "TableSample":
        """Return the rows of the chosen units: records, or persons with all their rows."""
        persons = self.persons
        rows = np.flatnonzero(chosen if persons is None else chosen[persons.index])
        few = None if persons is None else persons.take(rows)
        part = TableSample(self.frame.take(rows), self.labels[rows], few)
        part.room = self.room
        return part

    @property
    def units(self) -> int:
        """How many units there are: rows, or persons."""
        return self.frame.rows if self.persons is None else self.persons.count

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        sample = Sample([], None, self.labels, count=self.frame.rows)
        sample.group(self.persons).check(public)
        used = self.frame.rows if self.weights is None else int((self.weights > 0.0).sum())
        check_rows_each(used, public)
        self.room = room_for(self.frame)


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


class TableRun:
    """One run: what was released so far, and the cells."""

    def __init__(
        self, training: "TableTraining", sample: TableSample, prepared: "PreparedTable"
    ) -> None:
        self.training, self.sample, self.prepared = training, sample, prepared
        self.public = prepared.public
        self.facts: dict[str, dict[str, Any]] = {
            column.name: evenly(grid_of(column), training.recipe.public_knots)
            for column in training.plain
            if column not in training.numbers
        }
        self.free = tuple(self.facts)  # they follow from public bounds
        self.levels: dict[str, ShownLevels] = {}
        self.schema = training.schema
        self.sums: tuple[Floats, ...] = ()
        self.deviations: dict[str, float] = {}
        low, high = training.bounds
        self.bounds = (0.0 if low is None else low, 1.0 if high is None else high)

    @property
    def targets(self) -> Floats:
        """Numbers to predict, cut to their limits and scaled to [-1, 1], row by row."""
        return self._scaled(slice(None))

    def _scaled(self, part: slice) -> Floats:
        # proof: ROW-LOCAL
        low, high = self.bounds
        inside = np.clip(self.sample.labels[part], low, high)
        scaled = (inside - (low / 2.0 + high / 2.0)) / ((high - low) / 2.0)
        return np.asarray(np.clip(scaled, -1.0, 1.0))

    def learn(self, step: Step, ready: PreparedStep, passage: Passage) -> None:
        """Run one step and keep what it released."""
        frame, weights = self.sample.frame, self.sample.weights
        if isinstance(step, LearnBounds):
            self._take_bounds(step, ready, passage)
        elif isinstance(step, LearnKnots):
            names = [column.name for column in self.training.numbers]
            data: list[Any] = [NumberColumn(frame, name) for name in names]
            found = step.run(Sample(data, weights, count=frame.rows), ready, passage)
            for name, knots in zip(names, found, strict=True):
                self.facts[name] = knot_facts(knots)
        elif isinstance(step, LearnCategories):
            names = [column.name for column in self.training.unknown]
            data = [CodedColumn(frame, name) for name in names]
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
        data: list[Any] = [NumberColumn(frame, name) for name in names]
        if training.buys_bounds:
            data.insert(0, self.sample.labels)
        found = list(step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage))
        if training.buys_bounds:
            target = found.pop(0)
            self.bounds = (target.low, target.high)
        for name, ends in zip(names, found, strict=True):
            self.facts[name] = evenly(Grid(ends.low, ends.high), training.recipe.public_knots)

    def _take_spikes(self, step: LearnSpikes, ready: PreparedStep, passage: Passage) -> None:
        """Give the columns with the fewest knots more of them, at numbers that many share."""
        frame = self.sample.frame
        grids = {column.name: grid_of(column) for column in self.training.numbers}
        found = {name: self.facts[name]["knots"] for name in grids}
        names = hollow(found, self.training.recipe.depth, step.columns)
        data: list[Any] = [walked_cells(frame, name, grids[name]) for name in names]
        data += [NOBODY] * (step.columns - len(names))  # they were paid for: nobody is counted
        counts = step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage)
        sigma = step.deviation(ready.scale, self.public.adjacency)
        for name, each in zip(names, counts, strict=False):
            self.facts[name]["knots"] = with_spikes(found[name], each, sigma, grids[name])

    def _count(self, step: LearnShares, ready: PreparedStep, passage: Passage) -> None:
        frame, known = self.sample.frame, {c.name: c for c in self.schema.columns}
        names = [column.name for column in self.training.counted]
        data = [walked_spread(known[name], frame) for name in names]
        sample = Sample([*data, self._target()], self.sample.weights, count=frame.rows)
        *sums, self.per_class = step.run(sample, ready, passage)
        self.sums = tuple(sums)
        sigma = step.deviation(ready.scale, self.public.adjacency)
        self.deviations |= dict.fromkeys(names, sigma) | {"": sigma}

    def _target(self) -> WalkedSpread:
        """Return the label of every row; a number in [-1, 1] lies between two knots."""
        count = self.sample.frame.rows
        if not self.training.regression:
            return walked(count, self.training.classes, self._labels)
        return walked(count, len(_KNOTS), self._between)

    def _labels(self, part: slice) -> Spread:
        labels = self.sample.labels[part]
        count = len(labels)
        return Spread((np.arange(count), labels, np.ones(count)), self.training.classes)

    def _between(self, part: slice) -> Spread:
        place = np.interp(self._scaled(part), _KNOTS, np.arange(len(_KNOTS)))
        below = np.minimum(place.astype(np.intp), len(_KNOTS) - 2)
        above = place - below
        rows, which = np.tile(np.arange(len(place)), 2), np.concatenate([below, below + 1])
        return Spread((rows, which, np.concatenate([1.0 - above, above])), len(_KNOTS))

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
        mean = float(np.clip(_KNOTS @ sums / n, -1.0, 1.0))
        # what is divided between two knots has too large a square, by a sixth of their distance^2
        square = (_KNOTS - mean) ** 2
        found = float(square @ sums) / n - float(_KNOTS[1] - _KNOTS[0]) ** 2 / 6.0
        doubt = self.deviations[""] / n * float(np.linalg.norm(square))
        return mean, max(found + doubt, _LEAST_SPREAD)

    @property
    def _mean_doubt(self) -> float:
        """The deviation of the noise in the mean of the scaled targets."""
        return self.deviations[""] / self.size * float(np.linalg.norm(_KNOTS))

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
            if isinstance(column, Ignored) or not column.features:
                continue
            width = len(column.features)
            sums = shares.get(column.name)
            if column.name in self.levels:
                sums = sums_of_levels(self.levels[column.name], column, self.size)
            if sums is None:
                blocks.append(Block(width, size=column.mean_square))
                continue
            inner = inner_of(column)
            hats = isinstance(inner, Hats)
            recipe = self.training.recipe
            sure = recipe.sure * self.deviations[column.name] / self.size
            least = sure / 2.0 if hats else max(recipe.rare, sure)
            whole = hats or (isinstance(inner, Categorical) and inner.reference is None)
            noise = self.deviations[column.name] / self.size
            shares_of = sums / self.size
            block = Block(width, shares_of, hats, filled(inner), least, whole, noise)
            blocks.append(replace(block, alike=recipe.alike))
        return blocks

    def model(self, passage: Passage) -> FittedTable:
        """Train in the released coordinates and return the weights of the encoded features."""
        training, blocks = self.training, self._blocks()
        noise = passage.leaf().mechanism
        assert isinstance(noise, ObjectiveNoise)
        coords = self._coordinates(blocks, noise)
        rows = encoded_rows(self.sample.frame, self.schema, coords, self.sample.room)
        public = training._facts(self.public, rows.shape[1], coords.norm, self.prepared.curvature)
        public = replace(public, regularization=self._shrunk(public, noise, coords)[0])
        binary = not isinstance(training.loss, Softmax)
        origin = self._origin(public, coords) if binary else None
        target = np.where(self.sample.labels == 1, 1.0, -1.0) if binary else self.sample.labels
        if training.regression:
            target = self.targets
        records = self._records(rows, target)
        (theta,) = solve_with(records, public, passage, parts=(0, 1), origin=origin)
        theta = theta[None, :] if binary else training.loss.expand(theta)  # type: ignore[attr-defined]
        theta = self._calmed(public, noise, coords, np.asarray(theta))
        coef, intercept = coords.back(theta)
        names = [column.name for column in self.schema.columns if column.features]
        variance = self._variance(public, noise, coords, theta)
        bars = bars_of(coords, names, blocks, theta, variance)
        return FittedTable(self.schema, coef, intercept, self._rarer_label(), self.bounds, bars)

    def _variance(
        self, public: Public, noise: ObjectiveNoise, coords: Coordinates, theta: Floats
    ) -> Floats:
        """Return about the variance that the noise gives each coordinate of the weights."""
        held = coords.spectrum if coords.held is None else coords.held
        bend = self._bend
        if self.training.loss.name == "logistic":
            scores = theta[0, -1] * coords.bias, float(theta[0, :-1] ** 2 @ held)
            bend = self.size * mean_bend(*scores)
        return np.asarray((self._push(public, noise) / (bend * held + public.ridge)) ** 2)

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

    def _rarer_label(self) -> tuple[str, ...]:
        """Say, from released counts, that the likelier label may be the same for everybody."""
        if self.training.regression:
            return ()
        part = 1.0 / (1.0 + math.exp(abs(self._odds()))) if self.training.classes == 2 else 0.5
        if part > _RARE_LABEL:
            return ()
        return (
            f"By the noisy counts, about {100.0 * part:.2g} % of the records have the rarer label, "
            "so the likelier one, which predict gives, may be the other for nearly everybody: rank "
            "records by decision_function, or cut it at a limit of your own.",
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
        weights, persons = self.sample.weights, self.sample.persons
        if self.training.class_weight is not None:
            weights = weighed(weights, self._factors, self.sample.labels)
        if weights is not None:
            rows, target, weights, persons = present(rows, target, weights, persons)
        return Records(rows, [target], weights, persons)

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
        width = sum(block.features for block in blocks)
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
            constant, tried_ = coords.bias**2, tried[:, 0]
            start = tried_**2 * self._mean_doubt**2 + z * z * constant
            errors += start / (self._bend * constant + tried_) ** 2
        best = int(np.argmin(errors))
        return float(tried[best, 0]), float(errors[best])
