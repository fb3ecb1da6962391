"""`TableOutlook`: what a table's training will release and cost, before any data exist.

The public half is played through on a typical table: hats that hold equally many rows, levels of
which each is rarer than the one before, a quarter of the rows in the rarer class. From the shares
that such a table would release, the code of the training itself gives features, norm bound and
regularisation.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from noisette import _validate, accounting
from noisette.columns import Categorical, Column, Hashed, Hats, Ignored
from noisette.mechanisms import ObjectiveNoise
from noisette.pipeline.categories import LearnCategories, ShownLevels
from noisette.pipeline.coordinates import Coordinates
from noisette.pipeline.shares import LearnShares
from noisette.pipeline.table_training import (
    PreparedTable,
    TableRun,
    TableSample,
    TableTraining,
    inner_of,
    is_wide,
)
from noisette.plans import Noisy, Plan
from noisette.report.steps import steps_of
from noisette.tables import Frame
from noisette.training import Public

__all__ = ["ColumnOutlook", "StepShare", "TableOutlook", "Weakness", "table_outlook", "weakness"]

_LEVELS = 8  # guessed of a column whose levels nobody listed
_RARER_CLASS = 0.25
_WEAK = 0.8  # of the signal lost; tests/pipeline/test_table_outlook.py has what it divides
_SECONDS = 4e-9  # for an entry of the matrix in one pass, on one core of 2026
_PASSES = 60.0

NAMES = {
    "knots": "knots of the numeric columns",
    "levels": "levels that nobody listed",
    "shares": "how the rows spread over features and labels",
    "weights": "the weights of the model",
}
"""What each step releases, in words."""


@dataclass(frozen=True)
class StepShare:
    """One step of a table's training.

    Attributes
    ----------
    name : str
        "knots", "levels", "shares" or "weights".
    part : float
        Its part of the budget: of mu squared, or of epsilon where delta = 0.
    epsilon : float
        Its epsilon at the same delta, had it run alone.
    expected : str
        What the noise does to what it releases.

    """

    name: str
    part: float
    epsilon: float
    expected: str


@dataclass(frozen=True)
class ColumnOutlook:
    """What becomes of one column.

    Attributes
    ----------
    name, kind : str
        As in the schema.
    features : int
        How many features it gives, about.
    matters : bool
        Whether it can matter: a column that nothing can be told apart by is paid for in vain.
    note : str
        What is bought for it, and what would be worth knowing.

    """

    name: str
    kind: str
    features: int
    matters: bool
    note: str


@dataclass(frozen=True)
class TableOutlook:
    """The plan of one table's training and what to expect of it.

    Attributes
    ----------
    plan : Plan
        What would be charged.
    epsilon, delta : float
        The guarantee of that plan.
    adjacency : str
        Whose neighbour it is about.
    rows : int
        The number of rows (of persons, where these are the unit), or the guess of it.
    features : int
        How many features the columns give, about.
    steps : tuple of StepShare
        The steps in order, the model last.
    columns : tuple of ColumnOutlook
        What becomes of each column.
    lost : float
        About the part of what there is to learn that noise and shrinkage take, from 0 to 1.
    weight_noise : float
        About the standard deviation that privacy adds to each weight, for features of variance 1.
    typical_weight : float
        About the size of a weight that matters.
    memory : int
        Bytes, about.
    seconds : float
        Time on one core, about.
    warning : str
        A sentence if public facts say that the model can hardly learn, else nothing.
    unit : str
        What `rows` counts: "row" or "person".

    """

    plan: Plan
    epsilon: float
    delta: float
    adjacency: str
    rows: int
    features: int
    steps: tuple[StepShare, ...]
    columns: tuple[ColumnOutlook, ...]
    lost: float
    weight_noise: float
    typical_weight: float
    memory: int
    seconds: float
    warning: str = ""
    unit: str = "row"

    @property
    def algorithm(self) -> str:
        """The name of what would run."""
        return TableTraining.name

    def __str__(self) -> str:
        lines = [
            f"A model of a raw table: epsilon = {self.epsilon:.4g}, delta = {self.delta:g} "
            f"({self.adjacency}).",
            f"{self.rows:,} {self.unit}s, about {self.features:,} features.",
            *(
                f"{100.0 * step.part:.2g} % of the budget: {NAMES[step.name]}. {step.expected}"
                for step in self.steps
            ),
            f"About {100.0 * self.lost:.0f} % of what there is to learn is lost to the noise.",
            f"About {self.memory / 1e6:,.0f} MB of memory and {self.seconds:.2g} s on one core.",
        ]
        return "\n".join([*lines, self.warning] if self.warning else lines)


def table_outlook(training: TableTraining, prepared: PreparedTable, rows: int) -> TableOutlook:
    """Return what the training of `rows` rows will release and cost."""
    public = prepared.public
    rows = _validate.integer("n", rows)
    typical = _Typical(training, prepared, rows)
    noise, weight = typical.noise_and_weight()
    width = typical.width
    epsilon = accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency)
    costs = steps_of(prepared.plan, public.delta, public.adjacency)
    said = [step.expected(ready) for step, ready in prepared.steps]
    said.append(
        f"Each weight gets noise of about {noise:.2g}; a typical weight is about {weight:.2g}."
    )
    dense = rows * (width + 1) * (0.15 if is_wide(rows, width) else 2.0)
    return TableOutlook(
        plan=prepared.plan,
        epsilon=epsilon,
        delta=public.delta,
        adjacency=str(public.adjacency),
        rows=rows,
        features=width,
        steps=tuple(
            StepShare(cost.name, cost.part, cost.epsilon, expected)
            for cost, expected in zip(costs, said, strict=True)
        ),
        columns=typical.columns(),
        lost=typical.lost,
        weight_noise=noise,
        typical_weight=weight,
        memory=int(8.0 * dense + 8.0 * rows * len(training.schema.columns) + 100e6),
        seconds=_SECONDS * _PASSES * dense,
        warning=_judged(typical).sentence,
        unit="person" if training.persons else "row",
    )


@dataclass(frozen=True)
class Weakness:
    """A sentence if the model can hardly learn, and whether the plan cannot pay for the table."""

    sentence: str = ""
    hopeless: bool = False


def weakness(training: TableTraining, prepared: PreparedTable, rows: int) -> Weakness:
    """Judge from public facts alone whether the model can learn."""
    return _judged(_Typical(training, prepared, rows))


def _judged(typical: "_Typical") -> Weakness:
    counts, rows, public = typical.deviations[""], int(typical.size), typical.public
    used = sum(not isinstance(column, Ignored) for column in typical.training.schema.columns)
    same = "mean of the targets" if typical.training.regression else "commonest label"
    everybody = f"so the model may do little better than to give everybody the {same}"
    hopeless = counts > rows
    if hopeless:
        why = (
            f"every count of rows gets noise of about {counts:,.3g} rows, so the plan cannot pay "
            "for this table"
        )
    elif typical.drowned:
        why = f"what fewer than half of the rows have in common drowns in the noise, {everybody}"
    else:
        if typical.lost <= _WEAK:
            return Weakness()
        part = 100.0 * typical.lost
        why = f"about {part:.0f} % of what there is to learn is lost to the noise, {everybody}"
    delta = "a delta such as 1e-6, " if public.delta == 0.0 and 1e-6 * rows < 1.0 else ""
    return Weakness(
        f"From public facts alone ({rows:,} rows, {used:,} columns, epsilon = {public.epsilon:g}, "
        f"delta = {public.delta:g}), {why}; use a larger epsilon, {delta}more rows, or fewer "
        'columns (kind = "ignore").',
        hopeless,
    )


class _Typical(TableRun):
    """The public half played through on a typical table: nothing here has seen a row."""

    def __init__(self, training: TableTraining, prepared: PreparedTable, rows: int) -> None:
        nobody = TableSample(Frame({}), np.zeros(0, dtype=np.intp))
        super().__init__(training, nobody, prepared)
        self._rows = float(rows)
        adjacency = self.public.adjacency
        for step, ready in prepared.steps:
            if isinstance(step, LearnCategories):
                bar = step._mechanism(ready.scale).threshold(adjacency)
                sigma = step._mechanism(ready.scale).sigma(adjacency)
                self._guess_levels(bar)
                self.deviations |= {column.name: sigma for column in training.unknown}
            elif type(step) is LearnShares:
                sigma = step.deviation(ready.scale, adjacency)
                self.deviations |= {column.name: sigma for column in training.counted}
                self.deviations[""] = sigma
        count = 2**training.recipe.depth - 1 + 2 * (training.recipe.tails > 0)
        if training.regression:
            count = training.recipe.public_knots
        for column in training.numbers:
            knots = [float(k) for k in range(count)]
            self.facts[column.name] = {"knots": knots, "center": knots[len(knots) // 2]}
        self.schema = training.schema.completed(self.facts, free=self.free)
        known = {column.name: column for column in self.schema.columns}
        self.sums = tuple(self._guess_sums(known[column.name]) for column in training.counted)
        rest = max(training.classes - 1, 1)
        rarer = [self._rows * _RARER_CLASS / rest] * rest
        self.per_class = np.array([self._rows - sum(rarer), *rarer])

    @property
    def size(self) -> float:
        """The number of rows that was stated."""
        return self._rows

    @property
    def _signal(self) -> float:
        """What the recipe counts on: nothing is known of the targets."""
        return self.training.recipe.signal

    def _guess_levels(self, bar: float) -> None:
        """Guess a few levels for each column that nobody listed, those that reach the bar."""
        counts = [self._rows * part for part in _falling(_LEVELS) if self._rows * part >= bar]
        names = tuple(f"level {k}" for k in range(len(counts)))
        for column in self.training.unknown:
            self.levels[column.name] = ShownLevels(names, tuple(counts))
            self.facts[column.name] = {"categories": list(names)}

    def _guess_sums(self, column: Column) -> Any:
        """Return how rows spread over the features of one column."""
        width = max(len(column.features), 1)
        inner = inner_of(column)
        if not isinstance(inner, Categorical):
            slots = width - bool(getattr(inner, "missing_slot", False))
            even = np.full(max(slots, 1), self._rows / max(slots, 1))
            return np.concatenate([even, np.zeros(width - len(even))])
        slots = len(inner.groups) - (inner.reference is not None)
        parts = _falling(slots + (inner.reference is not None))[-slots:] if slots else []
        return self._rows * np.concatenate([parts, np.zeros(width - slots)])

    @property
    def drowned(self) -> bool:
        """Whether no feature that fewer than half of the rows have can be told from the noise."""
        return self.training.recipe.sure * self.deviations[""] > 0.5 * self.size

    @property
    def _noise(self) -> ObjectiveNoise:
        return next(
            leaf.mechanism
            for leaf, _ in self.prepared.plan.leaves()
            if isinstance(leaf, Noisy) and isinstance(leaf.mechanism, ObjectiveNoise)
        )

    @cached_property
    def _model(self) -> tuple[Coordinates, float]:
        """The coordinates, and the part of all signal that lies in them."""
        blocks = [replace(block, least=0.0) for block in self._blocks()]
        coords = self._coordinates(blocks, self._noise)
        if not self.training.recipe.truncated:
            return coords, 1.0
        recipe = replace(self.training.recipe, truncated=False)
        whole = _Typical(replace(self.training, recipe=recipe), self.prepared, int(self._rows))
        return coords, float(coords.spectrum.sum() / max(whole._model[0].spectrum.sum(), 1e-12))

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(block.features for block in self._blocks())

    @property
    def lost(self) -> float:
        """The part of the signal that noise, shrinkage and left out directions take."""
        coords, kept = self._model
        facts = self._facts(coords)
        error = self._shrunk(facts, self._noise, coords)[1] / self.training.recipe.signal
        return 1.0 if self.drowned else min(1.0, 1.0 - kept + kept * error)

    def _facts(self, coords: Coordinates) -> Public:
        features = coords.map.shape[1] + 1
        return self.training._facts(self.public, features, coords.norm, self.prepared.curvature)

    def noise_and_weight(self) -> tuple[float, float]:
        """Return the noise of a weight and the size of one that matters."""
        coords, _ = self._model
        facts = self._facts(coords)
        noise = self._noise.noise_multiplier * facts.gradient_bound
        if self._noise.law != "gaussian":
            noise *= math.sqrt(facts.features + 1.0)
        live = max(float(coords.spectrum.sum()), 1e-12)
        return noise / self._bend, math.sqrt(self.training.recipe.signal / live)

    def columns(self) -> tuple[ColumnOutlook, ...]:
        """Return what becomes of every column."""
        blocks = iter(self._blocks())
        stated = {column.name: column for column in self.training.schema.columns}
        bought = {column.name for column in self.training.numbers}
        found = []
        for column in self.schema.columns:
            before = stated[column.name]
            kind = self.training.schema.source["columns"][column.name]["kind"]
            if isinstance(before, Ignored):
                found.append(ColumnOutlook(column.name, kind, 0, False, "not used"))
                continue
            groups = 0
            if not isinstance(column, Ignored) and column.features:
                groups = len({g for g in next(blocks).groups().tolist() if g >= 0})
            found.append(self._column(column, kind, groups, bought=column.name in bought))
        return tuple(found)

    def _column(self, column: Column, kind: str, groups: int, *, bought: bool) -> ColumnOutlook:
        inner = inner_of(column)
        features = 0 if isinstance(column, Ignored) else len(column.features)
        matters = groups > 1
        if column.name in self.levels:
            note = "levels are bought; listing them is free, and needs no delta"
            if not matters:
                note = "no level has enough rows to show: list the levels, or ignore the column"
        elif isinstance(inner, Hats):
            where = "bought" if bought else "set between the stated bounds, for free"
            note = f"up to {len(inner.knots)} knots, {where}"
        elif isinstance(inner, Hashed):
            note = f"{inner.buckets} buckets of a public hash, of which about {groups} stand out"
            if not matters:
                note = f"none of {inner.buckets} buckets has enough rows: use fewer, or group them"
        elif groups < features:
            note = f"of {features} levels about {groups} can be told apart; the rest are merged"
            if not matters:
                note = f"none of its {features} features has enough rows: group them"
        else:
            note = "levels are stated"
        return ColumnOutlook(column.name, kind, features, matters, note)


def _falling(levels: int) -> list[float]:
    """Return shares of levels of which each is rarer than the one before: 1, 1/2, 1/3, ..."""
    parts = 1.0 / np.arange(1.0, levels + 1.0)
    return list(map(float, parts / parts.sum()))
