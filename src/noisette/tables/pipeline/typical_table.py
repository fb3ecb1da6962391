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
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.plans.leaves import Noisy
from noisette.tables.frame import Frame
from noisette.tables.kinds.base import evenly_filled, falling
from noisette.tables.pipeline.bounds import LearnBounds
from noisette.tables.pipeline.categories import LearnCategories, ShownLevels
from noisette.tables.pipeline.coordinates import Block, moment_of
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.shares import LearnShares
from noisette.tables.pipeline.table_rows import WholeFrame
from noisette.tables.pipeline.table_run import TableRun, TableSample, push_of
from noisette.tables.pipeline.table_training import PreparedTable, TableTraining

_LEVELS = 8  # guessed of a column whose levels nobody listed
_UNLISTED = 1.0 - sum(part * part for part in falling(_LEVELS))
_WEAK = 0.7  # of the signal lost; docs/tables.md says what it divides
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class TypicalTable(TableRun):
    """The public half played through on a typical table: nothing here has seen a row.

    `weight_noise` is the noise of a weight, `typical_weight` the size of one that matters.
    """

    def __init__(self, training: TableTraining, prepared: PreparedTable, rows: int) -> None:
        nobody = TableSample(WholeFrame(Frame({})), np.zeros(0, dtype=np.intp))
        super().__init__(training, nobody, prepared)
        size = float(rows)
        self._hats = math.inf  # how many hats of a number whose knots are bought have rows
        for step, ready in prepared.steps:
            if isinstance(step, LearnKnots):
                levels = step.reach(ready, size)
                self._hats = math.inf if levels == step.levels else 2**levels
            elif isinstance(step, LearnBounds):
                self._hats = math.inf if step.found(ready, size) else 1
            elif isinstance(step, LearnCategories):
                bar, sigma = step.bar(ready)
                self.deviations |= dict.fromkeys(training.unknown, sigma)
                # a few levels for each column that nobody listed, those that reach the bar
                counts = size * np.array(falling(_LEVELS))
                shown = tuple(counts[counts >= bar].tolist())
                names = tuple(map("level {}".format, range(len(shown))))
                for name in training.unknown:
                    self.levels[name] = ShownLevels(names, shown)
                    self.facts[name] = {"categories": list(names)}
            elif type(step) is LearnShares:
                sigma = step.deviation(ready.scale, self.public.adjacency)
                self.deviations |= dict.fromkeys([*training.counted, ""], sigma)
        knots = list(map(float, range(training.target.typical_knots(training.recipe))))
        even = {"knots": knots, "center": knots[len(knots) // 2]}
        self.facts |= dict.fromkeys(training.numbers, even)
        self.schema = training.schema.completed(self.facts, free=self.free)
        filled = dict.fromkeys(training.numbers, self._hats)
        self.sums = {
            name: size * self.schema.by_name[name].typical(filled.get(name, math.inf))
            for name in training.counted
        }
        self._see(training.target.typical_counts(size), size)
        self.blocks = self._blocks()
        self.width = len(self.schema.features)
        self._play()

    def _play(self) -> None:
        """Add noise to the shares, and find the coordinates and what is lost in them."""
        training, signal = self.training, self.training.target.typical
        # normal quantiles in an even, fixed order
        noise = ndtri((_GOLDEN * np.arange(1.0, self.width + 1.0)) % 1.0)
        released, start = [], 0
        for name, block in zip(self.names, self.blocks, strict=True):
            own = block.noise * noise[start : start + block.features]
            start += block.features
            bare = block.rows is not None or name in self.levels
            released.append(block if bare else replace(block, shares=block.shares + own))
        mechanism = next(
            leaf.mechanism
            for leaf, _ in self.prepared.plan.leaves()
            if isinstance(leaf, Noisy) and isinstance(leaf.mechanism, ObjectiveNoise)
        )
        coords = self._coordinates(released, mechanism)
        width, self.norm = coords.map.shape[1], coords.norm
        facts = training._facts(self.public, width + 1, coords.norm, self.prepared.curvature)
        z, s, live = push_of(facts, mechanism), coords.spectrum, float(coords.spectrum.sum())
        ridge = self._shrunk(facts, z, coords)
        held = self.seen.bend * coords.held
        firm = held + ridge
        t = self._told(released, width) * signal / max(live, 1e-12)
        both = float(s @ (held / firm)) * t
        size = float(s @ ((held / firm) ** 2 * t + (z / firm) ** 2))
        lost = 1.0 - both**2 / max(size * signal, 1e-300)
        lost += self.seen.shift(z, coords.bias**2, ridge) / signal
        self.lost = float(min(1.0, max(lost, 0.0)))
        """The part of the signal that is lost, as the module's docstring has it."""
        self.weight_noise = z / self.seen.bend
        self.typical_weight = math.sqrt(signal / max(live, 1e-12))

    def _told(self, released: list[Block], width: int) -> float:
        """Return the part of all that may matter that coordinates tell apart, by its variance."""
        told, every, kept, groups = [], 0.0, 0.0, 0
        for name, clean, noisy in zip(self.names, self.blocks, released, strict=True):
            quiet = replace(clean, noise=0.0)
            told.append(moment_of(replace(quiet, merged=noisy.groups())))
            kept += told[-1].trace()
            groups += len(told[-1].mean)
            if name in self.training.numbers:
                slots = quiet.features - (quiet.filled is not None)
                quiet = replace(quiet, shares=evenly_filled(quiet.features, slots))
            whole = moment_of(replace(quiet, least=0.0))
            every += _UNLISTED if name in self.levels else whole.trace()
        if width < groups:
            values = np.concatenate([np.linalg.eigvalsh(each.covariance()) for each in told])
            kept = np.sort(values)[::-1][:width].sum()
        return min(1.0, float(kept) / max(every, 1e-12))

    def warning(self) -> tuple[str, bool]:
        """Return a sentence if a typical table of that shape could hardly teach anything, else "".

        And whether the plan cannot pay for the table at all.
        """
        training, public, rows = self.training, self.public, int(self.size)
        counts = self.deviations[""]
        everybody = (
            "so the model may do little better than to give everybody the "
            f"{training.target.everybody}"
        )
        hopeless = counts > rows
        if hopeless:
            why = (
                f"every count of rows gets noise of about {counts:,.3g} rows, so the plan cannot "
                "pay for this table"
            )
        elif self.lost <= _WEAK:
            return "", False
        elif training.recipe.sure * counts > 0.5 * self.size:
            why = (
                f"what fewer than half of the rows have in common drowns in the noise, {everybody}"
            )
        else:
            why = (
                f"about {100.0 * self.lost:.0f} % of what there is to learn is lost to the noise "
                f"on a typical table of that shape, {everybody}"
            )
        delta = "a delta such as 1e-6, " if public.delta == 0.0 and 1e-6 * rows < 1.0 else ""
        # noise hides where numbers lie, and stated bounds would tell it for free
        hidden = self._hats < math.inf and training.recipe.public_knots > 0
        bounds = "low and high of the numeric columns, " * hidden
        sentence = (
            f"From public facts alone ({rows:,} {'persons' if public.grouped else 'rows'}, "
            f"{len(training.schema.used):,} columns, epsilon = {public.epsilon:g}, delta = "
            f"{public.delta:g}), {why}; use a larger epsilon, {delta}{bounds}more rows, or "
            'fewer columns (kind = "ignore").'
        )
        return sentence, hopeless
