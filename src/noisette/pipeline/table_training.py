"""`TableTraining`: knots, levels, shares and a model under one plan, charged before the first look.

0. The limits of a number to predict, where nobody states them (QUANTILE).
1. Quantile knots of the numeric columns, by halving (QUANTILE-TREE).
2. The levels of categorical columns that nobody listed (CATEGORY-THRESHOLD).
3. Now every column has public features. How rows spread over them, and over the labels (HISTOGRAM;
   a number lies between two of them): this gives centres, scales and the intercept's start.
4. The model, by objective perturbation in those coordinates (OBJECTIVE-PERTURBATION).

The noise of every step follows from the plan alone. Which features there are, their coordinates,
the norm bound and the regularisation follow from released numbers (PLAN-BEFORE-LOOK).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette import accounting
from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.columns import Categorical, Column, Dates, Hashed, Hats, Ignored, Numeric, Open
from noisette.errors import InvalidParameter
from noisette.losses import Loss, Softmax
from noisette.mechanisms import Gaussian, LaplaceVector, ObjectiveNoise
from noisette.persons import Persons
from noisette.pipeline.bars import Bars, bars_of, mean_bend
from noisette.pipeline.bounds import LearnBounds
from noisette.pipeline.categories import Coded, LearnCategories, ShownLevels, keys_of
from noisette.pipeline.coordinates import Block, Coordinates, coordinates
from noisette.pipeline.grid import Grid
from noisette.pipeline.knots import Knots, LearnKnots
from noisette.pipeline.pairs import (
    ColumnPair,
    coarse,
    filled_cells,
    filled_pairs,
    kernel,
    side,
    spread_of,
    steps_of,
    with_pairs,
)
from noisette.pipeline.recipe import TableRecipe
from noisette.pipeline.sample import Sample
from noisette.pipeline.shares import LearnShares, Spread
from noisette.pipeline.spikes import NOBODY, LearnSpikes, cells_of, hollow, with_spikes
from noisette.pipeline.step import PreparedStep, Step
from noisette.plans import Plan, Run, Together
from noisette.tables import Frame, Schema
from noisette.training import Public, Records
from noisette.training.algorithm import Algorithm, Prepared
from noisette.training.class_weight import BALANCED, balanced, weighed, weight_proofs
from noisette.training.levels import present
from noisette.training.objective_perturbation import check_solve, per_row, shape_of, solve_with
from noisette.training.passage import Passage
from noisette.training.public import PublicBudget
from noisette.training.records import check_rows_each

__all__ = [
    "FittedTable",
    "PreparedTable",
    "TableRun",
    "TableSample",
    "TableTraining",
    "inner_of",
    "is_plain",
    "is_wide",
]

_HIDING = 1e-6  # of the budget, for where the solver stopped
_WIDE = 2**26  # entries; above, rows stay sparse
_MOST_TURNED = 2048  # features; above, finding the directions of a column would take minutes
_WIDE_RANGE = 200.0
_BENT = 10.0
_QUADRATIC = 0.7  # of the rows have residuals below the threshold of the loss
_SLOTS = 2  # columns in which numbers that many people share are looked for
_ODDS = 6.0  # most that the intercept's start may be
_RARE_LABEL = 0.15  # below, few rows reach a probability of 1/2


def is_plain(column: Column) -> bool:
    """Whether a column is a number, so that hats take the place of it and of its stated curve."""
    inner = inner_of(column)
    return isinstance(inner, Numeric) or (isinstance(inner, Open) and inner.kind != "categorical")


def is_bounded(column: Column) -> bool:
    """Whether both bounds of a number are public."""
    grid = _grid(column)
    return grid.low is not None and grid.high is not None


def is_wide(rows: float, features: int) -> bool:
    """Whether rows stay sparse and are not centred."""
    return features > _MOST_TURNED or float(rows) * features > _WIDE


class TableSample:
    """The sensitive half: cells, class numbers or numbers to predict, and whose row it is."""

    def __init__(self, frame: Frame, labels: NDArray[Any], persons: Persons | None = None) -> None:
        self.frame, self.labels, self.persons = frame, labels, persons
        self.weights = None if persons is None else persons.weights

    def __repr__(self) -> str:
        return "<TableSample>"

    def part(self, chosen: NDArray[np.bool_]) -> "TableSample":
        """Return the rows of the chosen units: records, or persons with all their rows."""
        persons = self.persons
        rows = np.flatnonzero(chosen if persons is None else chosen[persons.index])
        few = None if persons is None else persons.take(rows)
        return TableSample(self.frame.take(rows), self.labels[rows], few)

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


@dataclass(frozen=True)
class PreparedTable(Prepared):
    """The steps at their scales, and the determinant's k of the model."""

    steps: tuple[tuple[Step, PreparedStep], ...] = ()
    curvature: float = 1.0


@dataclass(frozen=True)
class TableTraining(Algorithm[PreparedTable]):
    """Learn what is open in `schema`, then train; `recipe` says how the budget is shared."""

    schema: Schema
    loss: Loss
    recipe: TableRecipe
    classes: int = 2
    persons: bool = False
    keys: int = 1
    class_weight: tuple[float, ...] | str | None = None
    bounds: tuple[float | None, float | None] = (-1.0, 1.0)
    """The limits of a number to predict; None where they are bought."""
    pairs: tuple[tuple[str, str], ...] = ()

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "facts of a raw table and a model, under one plan"

    # --- public half -------------------------------------------------------------------------

    @property
    def plain(self) -> list[Column]:
        """The columns that get knots."""
        return [column for column in self.schema.columns if is_plain(column)]

    @property
    def numbers(self) -> list[Column]:
        """Those of them whose knots are bought."""
        free = self.recipe.public_knots > 0
        return [column for column in self.plain if not (free and is_bounded(column))]

    @property
    def unknown(self) -> list[Open]:
        """The columns whose levels nobody listed."""
        return [column for column in self.schema.open if column.kind == "categorical"]

    @property
    def counted(self) -> list[Column]:
        """The columns whose shares are bought: those with knots, and those of public levels."""
        kinds = (Categorical, Hashed, Hats)
        known = [c for c in self.schema.columns if isinstance(inner_of(c), kinds)]
        return [*self.plain, *known]

    @property
    def regression(self) -> bool:
        """Whether a number is predicted, not a class."""
        return self.loss.kind == "regression"

    @property
    def buys_bounds(self) -> bool:
        """Whether the limits of the number to predict are bought."""
        return self.regression and None in self.bounds

    @property
    def used_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs for which public facts leave room."""
        return self.pairs if self.recipe.cells else ()

    def steps(self, *, pure: bool, delta: float) -> Iterator[tuple[Step, float]]:
        """Yield the steps before the model, in order, each with its part of the budget."""
        recipe = self.recipe
        if self.regression and (self.buys_bounds or self.numbers):
            ends = [Grid(*self.bounds)] if self.buys_bounds else []
            ends += map(_grid, self.numbers)
            yield LearnBounds(tuple(ends), recipe.tail), recipe.knots
        elif self.numbers:
            grids = tuple(map(_grid, self.numbers))
            yield LearnKnots(grids, recipe.depth, recipe.tails), recipe.knots
            if recipe.spikes:
                yield LearnSpikes(min(_SLOTS, len(self.numbers))), recipe.spikes
        if self.unknown:
            atoms = recipe.atoms * delta
            yield LearnCategories(len(self.unknown), atoms, self.keys), recipe.levels
        columns = len(self.counted) + len(self.used_pairs) + 1
        yield LearnShares(columns, exact_pure=pure), recipe.shares

    def prepare(self, public: PublicBudget) -> PreparedTable:
        """Return all steps and the model in one plan with the least noise for the budget."""
        if self.persons != (public.unit == "person"):
            # proof: PERSON-MEAN
            raise InvalidParameter(f"this plan is not for {public.unit}s as the unit.")
        if self.unknown and self.keys < keys_of(public):
            # proof: CATEGORY-THRESHOLD
            raise InvalidParameter("a person may hold more levels than was planned for.")
        pure = public.delta == 0.0
        if pure and self.unknown:
            raise InvalidParameter(
                f"the levels of column {self.unknown[0].name!r} are to be learnt, which needs "
                "delta > 0; 1e-6 is a common choice, or list the levels."
            )
        steps = tuple(self.steps(pure=pure, delta=public.delta))
        k = self._curvature(public, pure=pure)
        shape, classes = shape_of(self.loss), getattr(self.loss, "classes", 2)
        model = (self.recipe.model, k, shape, classes, self.persons)
        scale = _calibrated(steps, model, public.epsilon, public.delta, public.adjacency)
        prepared = tuple(
            (step, step.prepared(public, _scale(step, share, scale, public)))
            for step, share in steps
        )
        plan = _plan(steps, model, scale, public)
        noise = _noise(model, scale, public)
        for bound in (1.0, 30.0):  # scaling rows scales the problem, so two lengths stand for all
            facts = self._facts(public, 1000, bound, k * (1.0 + 1e-6))
            check_solve(facts, noise)
        proofs: tuple[str, ...] = ("PLAN-BEFORE-LOOK", "WHITENING", "SMOOTHNESS-PRIOR")
        proofs += ("PERSON-MEAN",) if self.persons else ()
        proofs += tuple(id_ for step, _ in steps for id_ in step.proofs)
        proofs += weight_proofs(self.class_weight)
        proofs += ("PAIR-CELLS",) if self.used_pairs else ()
        return PreparedTable(public, plan, (*proofs, *self.loss.proofs), prepared, k)

    def _curvature(self, public: PublicBudget, *, pure: bool) -> float:
        share = public.epsilon * (self.recipe.model if pure else 1.0)
        if self.regression:  # the determinant is paid for: log(1 + k) of epsilon
            return min(share * self.recipe.bent, _BENT)
        # More than _BENT would leave so little regularisation that no solve is certain to end.
        return min(share / (public.adjacency.contributions * self.recipe.room), _BENT)

    def _facts(self, public: PublicBudget, features: int, norm: float, k: float) -> Public:
        """Return the facts of the model: rows of that norm, and the least Lambda for k."""
        inner = Public(
            epsilon=public.epsilon, delta=public.delta, adjacency=public.adjacency,
            size=public.size, most=public.most, unit=public.unit, max_rows=public.max_rows,
            loss=self.loss, features=features, norm_bound=norm,
        )  # fmt: skip
        return replace(inner, regularization=per_row(self.loss) * inner.squared_bound / k)

    # --- the half that sees the data ---------------------------------------------------------

    def run(self, sample: TableSample, prepared: PreparedTable, passage: Passage) -> FittedTable:
        """Return the completed schema and the weights of its features."""
        work = TableRun(self, sample, prepared)
        first = 0
        for step, ready in prepared.steps:
            work.learn(step, ready, passage.after(first))
            first += len(list(ready.plan.leaves()))
        return work.model(passage.after(first))


class TableRun:
    """One run: what was released so far, and the cells."""

    def __init__(
        self, training: TableTraining, sample: TableSample, prepared: PreparedTable
    ) -> None:
        self.training, self.sample, self.prepared = training, sample, prepared
        self.public = prepared.public
        self.facts: dict[str, dict[str, Any]] = {
            column.name: _evenly(_grid(column), training.recipe.public_knots)
            for column in training.plain
            if column not in training.numbers
        }
        self.free = tuple(self.facts)  # they follow from public bounds
        self.levels: dict[str, ShownLevels] = {}
        self.schema = training.schema
        self.sums: tuple[Floats, ...] = ()
        self.deviations: dict[str, float] = {}
        self.pairs: list[ColumnPair] = []  # their views; then with weights
        self.pair_sums: list[Floats] = []
        low, high = training.bounds
        self.bounds = (0.0 if low is None else low, 1.0 if high is None else high)

    @property
    def targets(self) -> Floats:
        """Numbers to predict, cut to their limits and scaled to [-1, 1], row by row."""
        # proof: ROW-LOCAL
        low, high = self.bounds
        inside = np.clip(self.sample.labels, low, high)
        scaled = (inside - (low / 2.0 + high / 2.0)) / ((high - low) / 2.0)
        return np.asarray(np.clip(scaled, -1.0, 1.0))

    def learn(self, step: Step, ready: PreparedStep, passage: Passage) -> None:
        """Run one step and keep what it released."""
        frame, weights = self.sample.frame, self.sample.weights
        if isinstance(step, LearnBounds):
            self._take_bounds(step, ready, passage)
        elif isinstance(step, LearnKnots):
            names = [column.name for column in self.training.numbers]
            data: list[Any] = [frame.numbers(name) for name in names]
            found = step.run(Sample(data, weights, count=frame.rows), ready, passage)
            for name, knots in zip(names, found, strict=True):
                self.facts[name] = _knots(knots)
        elif isinstance(step, LearnCategories):
            names = [column.name for column in self.training.unknown]
            data = [_coded(frame, name) for name in names]
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
        data = [frame.numbers(name) for name in names]
        if training.buys_bounds:
            data.insert(0, self.sample.labels)
        found = list(step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage))
        if training.buys_bounds:
            target = found.pop(0)
            self.bounds = (target.low, target.high)
        for name, ends in zip(names, found, strict=True):
            self.facts[name] = _evenly(Grid(ends.low, ends.high), training.recipe.public_knots)

    def _take_spikes(self, step: LearnSpikes, ready: PreparedStep, passage: Passage) -> None:
        """Give the columns with the fewest knots more of them, at numbers that many share."""
        frame = self.sample.frame
        grids = {column.name: _grid(column) for column in self.training.numbers}
        found = {name: self.facts[name]["knots"] for name in grids}
        names = hollow(found, self.training.recipe.depth, step.columns)
        data: list[Any] = [cells_of(frame.numbers(name), grids[name]) for name in names]
        data += [NOBODY] * (step.columns - len(names))  # they were paid for: nobody is counted
        counts = step.run(Sample(data, self.sample.weights, count=frame.rows), ready, passage)
        sigma = step.deviation(ready.scale, self.public.adjacency)
        for name, each in zip(names, counts, strict=False):
            self.facts[name]["knots"] = with_spikes(found[name], each, sigma, grids[name])

    def _count(self, step: LearnShares, ready: PreparedStep, passage: Passage) -> None:
        frame, known = self.sample.frame, {c.name: c for c in self.schema.columns}
        names = [column.name for column in self.training.counted]
        data = [_spread(known[name], frame) for name in names]
        pairs = [self._pair(*each, known) for each in self.training.used_pairs]
        sample = Sample([*data, *pairs, self._target()], self.sample.weights, count=frame.rows)
        *sums, self.per_class = step.run(sample, ready, passage)
        self.sums, self.pair_sums = tuple(sums[: len(names)]), sums[len(names) :]
        sigma = step.deviation(ready.scale, self.public.adjacency)
        self.deviations |= dict.fromkeys(names, sigma) | {"": sigma}

    def _pair(self, first: str, second: str, known: dict[str, Column]) -> Spread:
        """Fix the views of a pair by what was released, and return its cells."""
        views, kept = [], []
        for name in (first, second):
            levels = self.levels.get(name)
            counts = dict(zip(levels.levels, levels.counts, strict=True)) if levels else None
            kept.append(coarse(known[name], self.training.recipe.cells, counts))
            cells = np.zeros((self.sample.frame.rows, len(known[name].features)))
            known[name].fill(self.sample.frame.cells(name), cells)
            views.append(cells @ side(known[name], kept[-1]))
        nothing = np.zeros((0, len(kept[0]), len(kept[1])))
        self.pairs.append(ColumnPair((first, second), (kept[0], kept[1]), nothing, (), nothing))
        return spread_of((views[0], views[1]))

    def _pair_blocks(self) -> list[Block]:
        """Return what is known of the cells of every pair."""
        blocks, recipe = [], self.training.recipe
        known = {column.name: column for column in self.schema.columns}
        noise = self.deviations[""] / self.size
        for pair, sums in zip(self.pairs, self.pair_sums, strict=True):
            each = zip(pair.columns, pair.kept, strict=True)
            first, second = (kernel(known[name], len(kept)) for name, kept in each)
            prior = np.asarray(recipe.together * np.kron(first, second), dtype=np.float64)
            shares = sums / self.size
            shape = tuple(map(len, pair.kept))
            coarser = tuple(steps_of(known[name]) for name in pair.columns)
            merged = filled_cells(shares.reshape(shape), coarser, recipe.rare_cells, noise)
            blocks.append(
                Block(len(sums), shares, whole=False, noise=noise, merged=merged, prior=prior)
            )
        return blocks

    def _target(self) -> Spread:
        """Return the label of every row; a number in [-1, 1] lies between two labels."""
        count = self.sample.frame.rows
        rows = np.arange(count)
        if not self.training.regression:
            return Spread((rows, self.sample.labels, np.ones(count)), self.training.classes)
        above = (1.0 + self.targets) / 2.0
        which = np.repeat([0, 1], count)
        return Spread((np.tile(rows, 2), which, np.concatenate([1.0 - above, above])), 2)

    @property
    def size(self) -> float:
        """The number of units: public, or as released."""
        if self.public.adjacency.size_is_public and self.public.size is not None:
            return float(self.public.size)
        return max(float(self.per_class.sum()), self.deviations[""], 1.0)

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
                sums = _sums_of_levels(self.levels[column.name], column, self.size)
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
            block = Block(width, shares_of, hats, _filled(inner), least, whole, noise)
            blocks.append(replace(block, alike=recipe.alike))
        return blocks

    def model(self, passage: Passage) -> FittedTable:
        """Train in the released coordinates and return the weights of the encoded features."""
        training, blocks = self.training, [*self._blocks(), *self._pair_blocks()]
        noise = passage.leaf().mechanism
        assert isinstance(noise, ObjectiveNoise)
        coords = self._coordinates(blocks, noise)
        encoded = self.sample.frame.encode(self.schema, cut=False)
        rows = coords.rows(with_pairs(encoded, self.schema, self.pairs))
        public = training._facts(self.public, rows.shape[1], coords.norm, self.prepared.curvature)
        public = replace(public, regularization=self._shrunk(public, noise, coords.spectrum)[0])
        binary = not isinstance(training.loss, Softmax)
        origin = self._origin(public, coords) if binary else None
        target = np.where(self.sample.labels == 1, 1.0, -1.0) if binary else self.sample.labels
        if training.regression:
            target = self.targets
        records = self._records(rows, target)
        (theta,) = solve_with(records, public, passage, parts=(0, 1), origin=origin)
        theta = theta[None, :] if binary else training.loss.expand(theta)  # type: ignore[attr-defined]
        coef, intercept = coords.back(np.asarray(theta))
        variance = self._variance(public, noise, coords, np.asarray(theta))
        bars = bars_of(coords, blocks, np.asarray(theta), variance)
        names = [column.name for column in self.schema.columns if column.features]
        width = coef.shape[1] - sum(map(len, self.pair_sums))
        pairs = filled_pairs(self.pairs, coef[:, width:], bars[len(names) :])
        found = dict(zip(names, bars, strict=False))
        notes = self._rarer_label()
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
        return np.asarray((self._push(public, noise) / (bend * held + public.ridge)) ** 2)

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
            sums = np.maximum(self.per_class, 0.0)
            mean = float(np.clip((sums[1] - sums[0]) / max(float(sums.sum()), 1.0), -1.0, 1.0))
            origin[-1] = mean / coords.bias
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
        slack, signal = self.training.recipe.slack, self.training.recipe.signal
        spread = (slack * noise.noise_multiplier) ** 2 * np.cumsum(left)
        if noise.law != "gaussian":
            spread *= count + 2.0
        lost = signal * (1.0 - np.cumsum(values) / max(float(values.sum()), 1e-12))
        return int(np.argmin(lost + spread * count / self._bend**2)) + 1

    def _shrunk(
        self, public: Public, noise: ObjectiveNoise, spectrum: Floats
    ) -> tuple[float, float]:
        """Return the best Lambda from the least on, and the error of scores of typical variance.

        A direction of variance s has the error s (Lambda^2 t + z^2) / (h s + Lambda)^2, t the
        typical square of a weight, z the noise and h the curvature.
        """
        z = self._push(public, noise)
        live = spectrum[spectrum > 0.0]
        if len(live) == 0:
            return public.ridge, self.training.recipe.signal
        typical = self.training.recipe.signal / float(live.sum())
        tried = public.ridge * np.exp(np.linspace(0.0, 5.0, 101))[:, None]
        each = live * (tried**2 * typical + z * z) / (self._bend * live + tried) ** 2
        errors = each.sum(axis=1)
        best = int(np.argmin(errors))
        return float(tried[best, 0]), float(errors[best])


def inner_of(column: Column) -> Column:
    """Return the column of numbers that a column of dates is, and any other as it is."""
    return column.column if isinstance(column, Dates) else column


def _grid(column: Column) -> Grid:
    inner = inner_of(column)
    if isinstance(inner, Open):
        return Grid(inner.low, inner.high, dates=inner.kind == "date")
    assert isinstance(inner, Numeric)
    view = inner.views[0]
    return Grid(view.low, view.high, dates=isinstance(column, Dates))


def _evenly(grid: Grid, count: int) -> dict[str, Any]:
    """Return knots between public bounds: even steps, or even ratios for a wide range of numbers.

    Days have even steps: the year 1970 is no zero around which they crowd.
    """
    assert grid.low is not None
    assert grid.high is not None
    ends = np.array([grid.low, grid.high])
    wide = grid.high - grid.low > _WIDE_RANGE and not grid.dates
    if wide:
        ends = np.sign(ends) * np.log1p(np.abs(ends))
    steps = np.linspace(float(ends[0]), float(ends[1]), count)
    if wide:
        steps = np.sign(steps) * np.expm1(np.abs(steps))
    return {"knots": np.unique(steps).tolist()}


def _knots(found: Knots) -> dict[str, Any]:
    return {"knots": list(found.knots) or [found.median], "center": found.median}


def _coded(frame: Frame, name: str) -> Coded:
    """Return the codes of a column; a missing cell is a level of its own, the empty text."""
    codes, texts = frame.codes(name)
    return Coded(np.where(codes < 0, len(texts), codes), [*texts, ""])


def _spread(column: Column, frame: Frame) -> Spread:
    """Return the entries of one column, of which those of a row add up to at most 1."""
    rows, features, values = column.places(frame.cells(column.name))  # type: ignore[union-attr]
    inner, width = inner_of(column), max(len(column.features), 1)
    weight = getattr(inner, "weight", 1.0)
    if isinstance(inner, Hats) and inner.missing_slot:
        absent = np.zeros(frame.rows, dtype=bool)
        absent[rows[features == width - 1]] = True
        kept = ~absent[rows] | (features == width - 1)
        rows, features, values = rows[kept], features[kept], values[kept]
    return Spread((rows, features, values / weight), width)


def _filled(column: Column) -> Floats | None:
    """Return the hats of a missing cell, if a slot says that it is missing."""
    if not isinstance(column, Hats) or not column.missing_slot:
        return None
    out = np.zeros(len(column.features))
    if len(column.knots) > 1:
        knots = np.array(column.knots)
        middle = knots[len(knots) // 2] if column.center is None else column.center
        out[: len(knots)] = np.maximum(
            [np.interp(middle, knots, row) for row in np.eye(len(knots))], 0.0
        )
    return out


def _sums_of_levels(levels: ShownLevels, column: Column, size: float) -> Floats:
    """Return the sums of the features of a column whose levels were released: levels, other."""
    assert isinstance(column, Categorical)
    counts = dict(zip(levels.levels, levels.counts, strict=True))
    named = [counts.get(group, 0.0) for group, _ in column.groups if group != column.reference]
    missing = counts.get("", 0.0)
    rest = max(size - math.fsum(named) - missing, 0.0)
    tail = [rest] * column.other + [missing] * column.missing_slot
    return np.array([*named, *tail])


# --- the plan --------------------------------------------------------------------------------

Model = tuple[float, float, str, int, bool]


def _scale(step: Step, share: float, scale: float, public: PublicBudget) -> float:
    """Return the step's noise for its share: of mu squared, or of epsilon where delta = 0."""
    if public.delta > 0.0:
        return scale / math.sqrt(share)
    return scale * step.pure_cost / share


def _noise(model: Model, scale: float, public: PublicBudget) -> ObjectiveNoise:
    share, k, shape, classes, persons = model
    if public.delta > 0.0:
        z = scale / math.sqrt(share)
        return ObjectiveNoise(z, None, "gaussian", k, shape, classes, persons)
    return ObjectiveNoise(scale / share, None, "spherical-laplace", k, shape, classes, persons)


def _plan(
    steps: tuple[tuple[Step, float], ...], model: Model, scale: float, public: PublicBudget
) -> Plan:
    """Return all leaves in the order in which they run."""
    learnt = [
        step.plan(_scale(step, share, scale, public), public.adjacency) for step, share in steps
    ]
    hiding = Gaussian(scale / math.sqrt(_HIDING)) if public.delta > 0.0 else None
    return Together(
        *learnt, Run(_noise(model, scale, public)), Run(hiding or LaplaceVector(scale / 1e-3))
    )


@lru_cache(maxsize=64)
def _calibrated(
    steps: tuple[tuple[Step, float], ...], model: Model, epsilon: float, delta: float,
    adjacency: Adjacency,
) -> float:  # fmt: skip
    public = PublicBudget(epsilon=epsilon, delta=delta, adjacency=adjacency, size=None)
    return accounting.calibrate(
        lambda scale: _plan(steps, model, scale, public),
        epsilon=epsilon, delta=delta, adjacency=adjacency,
    )  # fmt: skip
