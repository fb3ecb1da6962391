"""`TypicalTable`: a training played through on a typical table, before any data exist.

Hats hold equally many rows, of the levels of a column each is rarer than the one before, a quarter
of the rows has the rarer class, a number to predict keeps to the middle of its range. From the
shares that such a table would release, the code of the training itself gives features, norm bound
and regularisation.

**What is lost.** Let the scores of the best linear model have the variance S. Rare features that
are merged and directions that are left out take a part of it, by their variance. In the directions
that are kept, of variances s, let weights have the variance t = S / sum s. With the curvature h
and the noise z of a gradient, the released weight is a w + e with a = h s / (h s + Lambda), e of
variance q = z^2 / (h s + Lambda)^2. Of the variance of the best scores a multiple of the released
ones explains

    (sum s a t)^2 / (sum s t  sum s (a^2 t + q)),

which is what is left for ranking people (logistic loss), and after James and Stein's factor also
for predicting numbers, which lose besides what the noise in their mean adds.

S is the one thing that no public fact tells; docs/tables.md says on what it was chosen.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.plans.leaves import Noisy
from noisette.fitting.algorithms import Public
from noisette.tables.frame import Frame
from noisette.tables.kinds.base import evenly_filled, falling
from noisette.tables.pipeline.bounds import LearnBounds
from noisette.tables.pipeline.categories import LearnCategories, ShownLevels
from noisette.tables.pipeline.coordinates import Block, Coordinates, moment_of
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.shares import LearnShares
from noisette.tables.pipeline.table_rows import WholeFrame
from noisette.tables.pipeline.table_training import (
    PreparedTable,
    TableRun,
    TableSample,
    TableTraining,
)

_LEVELS = 8  # guessed of a column whose levels nobody listed
_WEAK = 0.7  # of the signal lost; docs/tables.md says what it divides
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Weakness:
    """A sentence if the model can hardly learn, and whether the plan cannot pay for the table."""

    sentence: str = ""
    hopeless: bool = False


def judged(typical: "TypicalTable") -> Weakness:
    """Say whether a typical table of that shape could teach anything."""
    counts, rows, public = typical.deviations[""], int(typical.size), typical.public
    used = len(typical.training.schema.used)
    same = typical.training.target.everybody
    everybody = f"so the model may do little better than to give everybody the {same}"
    hopeless = counts > rows
    if hopeless:
        why = (
            f"every count of rows gets noise of about {counts:,.3g} rows, so the plan cannot pay "
            "for this table"
        )
    elif (lost := typical.lost) <= _WEAK:
        return Weakness()
    elif typical.drowned:
        why = f"what fewer than half of the rows have in common drowns in the noise, {everybody}"
    else:
        part = 100.0 * lost
        why = (
            f"about {part:.0f} % of what there is to learn is lost to the noise on a typical table "
            f"of that shape, {everybody}"
        )
    delta = "a delta such as 1e-6, " if public.delta == 0.0 and 1e-6 * rows < 1.0 else ""
    unit = "persons" if public.grouped else "rows"
    bounds = "low and high of the numeric columns, " if typical.hidden else ""
    return Weakness(
        f"From public facts alone ({rows:,} {unit}, {used:,} columns, "
        f"epsilon = {public.epsilon:g}, delta = {public.delta:g}), {why}; use a larger epsilon, "
        f"{delta}{bounds}more rows, or "
        'fewer columns (kind = "ignore").',
        hopeless,
    )


class TypicalTable(TableRun):
    """The public half played through on a typical table: nothing here has seen a row."""

    def __init__(self, training: TableTraining, prepared: PreparedTable, rows: int) -> None:
        nobody = TableSample(WholeFrame(Frame({})), np.zeros(0, dtype=np.intp))
        super().__init__(training, nobody, prepared)
        self._rows = float(rows)
        self._hats = math.inf  # how many hats of a number whose knots are bought have rows
        adjacency = self.public.adjacency
        for step, ready in prepared.steps:
            if isinstance(step, LearnKnots):
                levels = step.reach(ready, self._rows)
                self._hats = math.inf if levels == step.levels else 2**levels
            elif isinstance(step, LearnBounds):
                self._hats = math.inf if step.found(ready, self._rows) else 1
            elif isinstance(step, LearnCategories):
                bar = step._mechanism(ready.scale).threshold(adjacency)
                sigma = step._mechanism(ready.scale).sigma(adjacency)
                self._guess_levels(bar)
                self.deviations |= dict.fromkeys(training.unknown, sigma)
            elif type(step) is LearnShares:
                sigma = step.deviation(ready.scale, adjacency)
                self.deviations |= dict.fromkeys(training.counted, sigma)
                self.deviations[""] = sigma
        count = training.target.typical_knots(training.recipe)
        self._bought = training.numbers
        for name in training.numbers:
            knots = [float(k) for k in range(count)]
            self.facts[name] = {"knots": knots, "center": knots[len(knots) // 2]}
        self.schema = training.schema.completed(self.facts, free=self.free)
        every = dict.fromkeys(self._bought, self._hats)
        self.sums = {
            name: self._rows * self.schema.by_name[name].typical(every.get(name, math.inf))
            for name in training.counted
        }
        self.per_class = training.target.typical_counts(self._rows)

    @property
    def size(self) -> float:
        """The number of rows that was stated."""
        return self._rows

    def _guess_levels(self, bar: float) -> None:
        """Guess a few levels for each column that nobody listed, those that reach the bar."""
        counts = [self._rows * part for part in falling(_LEVELS) if self._rows * part >= bar]
        names = tuple(f"level {k}" for k in range(len(counts)))
        for name in self.training.unknown:
            self.levels[name] = ShownLevels(names, tuple(counts))
            self.facts[name] = {"categories": list(names)}

    @property
    def drowned(self) -> bool:
        """Whether no feature that fewer than half of the rows have can be told from the noise."""
        return self.training.recipe.sure * self.deviations[""] > 0.5 * self.size

    @property
    def hidden(self) -> bool:
        """Whether noise hides where numbers lie, and stated bounds would tell it for free."""
        return self._hats < math.inf and self.training.recipe.public_knots > 0

    @property
    def _noise(self) -> ObjectiveNoise:
        return next(
            leaf.mechanism
            for leaf, _ in self.prepared.plan.leaves()
            if isinstance(leaf, Noisy) and isinstance(leaf.mechanism, ObjectiveNoise)
        )

    @cached_property
    def _released(self) -> list[Block]:
        """The blocks with noise on the shares: normal quantiles in an even, fixed order."""
        blocks, names = self._blocks(), self._with_features
        order = np.arange(1.0, sum(block.features for block in blocks) + 1.0)
        noise = ndtri((_GOLDEN * order) % 1.0)
        out, start = [], 0
        for name, block in zip(names, blocks, strict=True):
            own = block.noise * noise[start : start + block.features]
            start += block.features
            bare = block.rows is not None or name in self.levels
            out.append(block if bare else replace(block, shares=block.shares + own))
        return out

    @property
    def _with_features(self) -> list[str]:
        return [column.name for column in self.schema.columns if column.features]

    @cached_property
    def _model(self) -> Coordinates:
        return self._coordinates(self._released, self._noise)

    @property
    def _seen(self) -> float:
        """The part of all that may matter that the coordinates tell apart, by its variance."""
        told, every = [], 0.0
        for name, clean, noisy in zip(
            self._with_features, self._blocks(), self._released, strict=True
        ):
            quiet = replace(clean, noise=0.0)
            told.append(moment_of(replace(quiet, merged=noisy.groups())))
            if name in self._bought:
                slots = quiet.features - (quiet.filled is not None)
                quiet = replace(quiet, shares=evenly_filled(quiet.features, slots))
            whole = moment_of(replace(quiet, least=0.0))
            every += _UNLISTED if name in self.levels else whole.trace()
        kept, width = sum(moment.trace() for moment in told), self._model.map.shape[1]
        if width < sum(len(moment.mean) for moment in told):
            values = np.concatenate([np.linalg.eigvalsh(each.covariance()) for each in told])
            kept = np.sort(values)[::-1][:width].sum()
        return min(1.0, float(kept) / max(every, 1e-12))

    @property
    def norm(self) -> float:
        """The norm bound of the rows in their coordinates."""
        return self._model.norm

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(block.features for block in self._blocks())

    def told_apart(self) -> dict[str, int]:
        """Return for each column with features how many groups of them can be told apart."""
        names = self._with_features
        groups = (block.groups() for block in self._blocks())
        return {name: len(set(g[g >= 0])) for name, g in zip(names, groups, strict=True)}

    @cached_property
    def lost(self) -> float:
        """The part of the signal that is lost, as the module's docstring has it."""
        coords, facts = self._model, self._facts(self._model)
        ridge = self._shrunk(facts, self._noise, coords)[0]
        seen, z = self._seen, self._push(facts, self._noise)
        signal = self.training.target.typical
        s = coords.spectrum
        held = self.seen.bend * (s if coords.held is None else coords.held)
        firm = held + ridge
        t = seen * signal / max(float(s.sum()), 1e-12)
        both = float(s @ (held / firm)) * t
        size = float(s @ ((held / firm) ** 2 * t + (z / firm) ** 2))
        lost = 1.0 - both**2 / max(size * signal, 1e-300)
        lost += self.seen.shift(z, coords.bias**2, ridge) / signal
        return float(min(1.0, max(lost, 0.0)))

    def _facts(self, coords: Coordinates) -> Public:
        features = coords.map.shape[1] + 1
        return self.training._facts(self.public, features, coords.norm, self.prepared.curvature)

    def noise_and_weight(self) -> tuple[float, float]:
        """Return the noise of a weight and the size of one that matters."""
        coords = self._model
        facts = self._facts(coords)
        live = max(float(coords.spectrum.sum()), 1e-12)
        return self._push(facts, self._noise) / self.seen.bend, math.sqrt(
            self.training.target.typical / live
        )


_UNLISTED = 1.0 - sum(part * part for part in falling(_LEVELS))
