"""`Target`: what a table's model predicts, labels or a number, chosen once where y comes in.

Whatever depends on the kind of target stands here: its loss, what is bought for it, how it is
counted, and what the released counts say about the noise, the start and the size of the scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.class_weight import BALANCED, balanced, weighed
from noisette.fitting.algorithms.learnt_target import BUYING
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.losses import Loss
from noisette.tables.pipeline.bounds import LearnBounds, least_tail
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.recipe import TableRecipe
from noisette.tables.pipeline.shares import LearnSpikes, Spread
from noisette.tables.pipeline.step import Step

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import TableTraining

KNOTS = np.linspace(-1.0, 1.0, 9)
"""Between which numbers to predict are counted."""
LIMITS = "the limits of the target"
"""Words that mark the note on targets that lie beyond them."""

_BENT = 10.0
_SLOTS = 2  # columns in which numbers that many people share are looked for
_QUADRATIC = 0.7  # of the rows have residuals below the threshold of the loss
_LEAST_SPREAD = 0.002  # variance of targets in [-1, 1]
_ODDS = 6.0  # most that the intercept's start may be
_LEAST_SHARE = 0.002
_RARE_LABEL = 0.15  # below, few rows reach a probability of 1/2
# Limits get more of the budget where they would cut off more than _TAIL, and are not bought where
# ranks are so noisy that no share of it helps.
_TAIL, _HOPELESS, _LARGER = 0.1, 0.25, (0.15, 0.3)
_RARER_CLASS, _SPREAD = 0.25, 0.25  # of a typical table: a share, a deviation in half ranges
_MANY, _SURE = 0.02, 3.0  # of the targets, and deviations of the noise: so many were cut

Limits = tuple[float, float]


class Goal(NamedTuple):
    """A target, its values as a training takes them, and what a model of it knows in public."""

    target: "Target"
    known: dict[str, Any]
    y: Any = None


@dataclass(frozen=True)
class TargetCounts:
    """What was released of the targets: noisy counts, of how many, and the deviation of each."""

    sums: Floats
    size: float
    deviation: float


@dataclass(frozen=True)
class TargetView:
    """What the released counts of the targets say about a model of them.

    `start` is the score around which the intercept is shrunk, `bend` the curvature of the summed
    losses in a direction of variance 1, `signal` the variance of scores to expect.
    """

    start: float
    bend: float
    signal: float
    scatter: float = 0.0
    """The variance that the sample of rows gives a gradient along a direction of variance 1."""
    doubt: float | None = None
    """The deviation of a released mean around which weights may be drawn, None without one."""

    def shift(self, push: float, constant: float, ridge: Any) -> Any:
        """Return the mean square by which noise moves the scores of all rows together."""
        if self.doubt is None:
            return 0.0
        start = (ridge * self.doubt) ** 2 + push * push * constant
        return start / (self.bend * constant + ridge) ** 2


@dataclass(frozen=True)
class LabelTarget:
    """One of `cells` labels; `class_weight` is public, or "balanced" by the released counts."""

    loss: Loss
    cells: int = 2
    """Into how many cells targets are counted."""
    class_weight: tuple[float, ...] | str | None = None

    everybody: ClassVar[str] = "commonest label"
    """What a model that learnt nothing answers."""
    typical: ClassVar[float] = 1.0
    """The variance of the scores of the best model of a typical table."""
    ends: ClassVar[str] = "knots"
    """What is bought of columns of numbers."""
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    """The limits of a number; None where they are bought."""
    buys: ClassVar[bool] = False
    """Whether the limits of the target are bought."""

    @property
    def has_odds(self) -> bool:
        """Whether a score is the log-odds of the second of two labels."""
        return self.cells == 2 and self.loss.name == "logistic"

    # --- before the data ------------------------------------------------------------------------

    def number_steps(
        self, grids: Sequence[Grid], recipe: TableRecipe
    ) -> tuple[tuple[Step, float], ...]:
        """Return knots, and single numbers that many people share, with parts of the budget."""
        if not grids:
            return ()
        knots = LearnKnots(tuple(grids), recipe.depth, recipe.tails), recipe.knots
        if not recipe.spikes:
            return (knots,)
        return knots, (LearnSpikes(min(_SLOTS, len(grids))), recipe.spikes)

    def curvature(self, epsilon: float, contributions: int, recipe: TableRecipe) -> float:
        """Return the determinant's k for the model's part of epsilon: where it is free, or less."""
        # More than _BENT would leave so little regularisation that no solve is certain to end.
        return min(epsilon / (contributions * recipe.room), _BENT)

    def typical_counts(self, rows: float) -> Floats:
        """Return the cells of a typical table: a quarter for all rarer labels together."""
        rest = max(self.cells - 1, 1)
        rarer = [rows * _RARER_CLASS / rest] * rest
        return np.array([rows - sum(rarer), *rarer])

    def typical_knots(self, recipe: TableRecipe) -> int:
        """Return how many knots a column has: those of all halvings, and of the tails."""
        return int(2**recipe.depth - 1 + 2 * (recipe.tails > 0))

    # --- rows, one by one -------------------------------------------------------------------------

    def spread(self, limits: Limits, y: Any) -> Spread:
        """Return the cells of every row: its label."""
        return Spread((np.arange(len(y)), y, np.ones(len(y))), self.cells)

    def solved(self, limits: Limits, y: Any) -> Any:
        """Return targets as the loss takes them: signs for two labels, else their numbers."""
        return y if self.loss.kind == "multiclass" else np.where(y == 1, 1.0, -1.0)

    def weights(self, counts: TargetCounts, weights: Any, y: Any) -> Any:
        """Return the weights of rows times those of their labels."""
        return weights if self.class_weight is None else weighed(weights, self.factors(counts), y)

    # --- what released counts say -----------------------------------------------------------------

    def factors(self, counts: TargetCounts) -> Floats:
        """Return the weights of the classes: public, or from the released counts of labels."""
        asked = self.class_weight
        if asked is None:
            return np.ones(self.cells)
        # proof: CLASS-WEIGHT
        return balanced(counts.sums, counts.deviation) if asked == BALANCED else np.array(asked)

    def shares(self, counts: TargetCounts) -> Floats:
        """Return the share of the label that each output speaks for, as classes are weighted."""
        sums = np.maximum(counts.sums, counts.deviation) * self.factors(counts)
        found = np.maximum(sums, 1e-6) / np.maximum(sums, 1e-6).sum()
        own = found[1:] if self.cells == 2 else found
        return np.asarray(np.clip(own, _LEAST_SHARE, 1.0 - _LEAST_SHARE))

    def _odds(self, counts: TargetCounts) -> float:
        sums = np.maximum(counts.sums, counts.deviation) * self.factors(counts)
        sums = np.maximum(sums, 1e-6)
        return float(np.clip(math.log(sums[1] / sums[0]), -_ODDS, _ODDS))

    def seen(self, counts: TargetCounts, signal: float) -> TargetView:
        """Return the odds, which scores of the logistic loss are, and its curvature there.

        `signal` is the usual variance of scores.
        """
        odds = self._odds(counts)
        share = 1.0 / (1.0 + math.exp(-abs(odds))) if self.cells == 2 else 0.5
        bend = counts.size * max(share * (1.0 - share), 0.02)
        return TargetView(odds if self.loss.name == "logistic" else 0.0, bend, signal)

    def spoken(self, counts: TargetCounts, limits: Limits) -> tuple[str, ...]:
        """Say, from released counts, what makes answers alike: a rare label."""
        part = 1.0 / (1.0 + math.exp(abs(self._odds(counts)))) if self.cells == 2 else 0.5
        if part > _RARE_LABEL:
            return ()
        weighed = "" if self.class_weight is None else ", as class_weight counts them,"
        return (
            f"By the noisy counts, about {100.0 * part:.2g} % of the records{weighed} have "
            "the rarer label, so the likelier one, which predict gives, may be the other for "
            "nearly everybody: rank records by decision_function, or cut it at a limit of your "
            "own.",
        )


@dataclass(frozen=True)
class NumberTarget:
    """A number between two limits, of which None is bought; it is scaled to [-1, 1].

    Its methods are those of `LabelTarget`.
    """

    loss: Loss
    bounds: tuple[float | None, float | None] = (-1.0, 1.0)

    everybody: ClassVar[str] = "mean of the targets"
    typical: ClassVar[float] = 0.02
    ends: ClassVar[str] = "limits"
    has_odds: ClassVar[bool] = False
    cells: ClassVar[int] = len(KNOTS)
    class_weight: ClassVar[None] = None

    @property
    def buys(self) -> bool:
        """Whether a limit is open."""
        return None in self.bounds

    def settled(
        self, training: "TableTraining", public: PublicBudget, *, stated: bool
    ) -> "TableTraining":
        """Give limits that are bought more of the budget where they would cut off too much.

        Unless the user has `stated` their share.
        """
        columns = len(training.numbers) + self.buys
        if self.buys:
            public.known_size(BUYING)
        if not columns:
            return training
        recipe = training.recipe
        for knots in (recipe.knots,) if stated else (recipe.knots, *_LARGER):
            recipe = replace(recipe, knots=max(knots, recipe.knots))
            training = replace(training, recipe=recipe)
            scale = training.prepare(public).steps[0][1].scale
            tail = least_tail(public.size, scale, columns, public.adjacency)
            if tail <= _TAIL:
                break
        if self.buys and tail >= _HOPELESS:
            raise InvalidParameter(
                "from public facts alone, the limits of the target cannot be bought with so few "
                "rows, so little epsilon and so many columns; state low and high of the target "
                "([target] of the schema, or target_bounds=(low, high) in Python) "
                "or bounds of columns, or use a larger epsilon."
            )
        return replace(training, recipe=replace(recipe, tail=tail))

    def number_steps(
        self, grids: Sequence[Grid], recipe: TableRecipe
    ) -> tuple[tuple[Step, float], ...]:
        """Return the limits of the target and of columns."""
        ends = [Grid(*self.bounds)] if self.buys else []
        ends += grids
        return ((LearnBounds(tuple(ends), recipe.tail, wider=True), recipe.knots),) if ends else ()

    def curvature(self, epsilon: float, contributions: int, recipe: TableRecipe) -> float:
        """Return a k whose determinant is paid for: log(1 + k) of epsilon."""
        return min(epsilon * recipe.bent, _BENT)

    def typical_counts(self, rows: float) -> Floats:
        """Return numbers that keep to the middle of their range."""
        bell = np.exp(-0.5 * (KNOTS / _SPREAD) ** 2)
        return np.asarray(rows * bell / bell.sum())

    def typical_knots(self, recipe: TableRecipe) -> int:
        """Return the knots between limits."""
        return recipe.public_knots

    def spread(self, limits: Limits, y: Any) -> Spread:
        """Return the two knots around each number, between which it is divided."""
        place = np.interp(self.solved(limits, y), KNOTS, np.arange(len(KNOTS)))
        below = np.minimum(place.astype(np.intp), len(KNOTS) - 2)
        above = place - below
        rows, which = np.tile(np.arange(len(place)), 2), np.concatenate([below, below + 1])
        return Spread((rows, which, np.concatenate([1.0 - above, above])), len(KNOTS))

    def solved(self, limits: Limits, y: Any) -> Any:
        """Return numbers cut to their limits and scaled to [-1, 1], row by row."""
        # proof: ROW-LOCAL
        low, high = limits
        scaled = (np.clip(y, low, high) - (low / 2.0 + high / 2.0)) / ((high - low) / 2.0)
        return np.asarray(np.clip(scaled, -1.0, 1.0))

    def weights(self, counts: TargetCounts, weights: Any, y: Any) -> Any:
        """Return the weights of rows as they are."""
        return weights

    def seen(self, counts: TargetCounts, signal: float) -> TargetView:
        """Return the mean of the scaled targets, and at most their variance as signal."""
        sums, n = counts.sums, counts.size
        mean = float(np.clip(KNOTS @ sums / n, -1.0, 1.0))
        # what is divided between two knots has too large a square, by a sixth of their distance^2
        square = (KNOTS - mean) ** 2
        found = float(square @ sums) / n - float(KNOTS[1] - KNOTS[0]) ** 2 / 6.0
        off = counts.deviation / n
        signal = min(signal, max(found + off * float(np.linalg.norm(square)), _LEAST_SPREAD))
        bend = _QUADRATIC * n
        return TargetView(
            mean, bend, signal, 0.5 * bend * signal, off * float(np.linalg.norm(KNOTS))
        )

    def spoken(self, counts: TargetCounts, limits: Limits) -> tuple[str, ...]:
        """Return a sentence for each limit at which more targets lie than those beside explain.

        Where targets run on smoothly, the knot at the end has half as many as its neighbour. Many
        numbers are 0 and none below, so a lower limit of 0 is not spoken of.
        """
        (low, high), sums, size = limits, counts.sums, counts.size
        ends = [("upper", high, sums[-1] - max(sums[-2], 0.0) / 2.0)]
        if low != 0.0:
            ends.append(("lower", low, sums[0] - max(sums[1], 0.0) / 2.0))
        least = max(_MANY * size, _SURE * math.sqrt(1.25) * counts.deviation)
        return tuple(
            f"By the noisy counts, about {100.0 * found / size:.2g} % of the targets lie at "
            f"the {which} limit {limit:g} or beyond it: the model takes them all for {limit:g}, "
            f"and private scores of it are about targets that were cut so; with {LIMITS} further "
            "out, stated by you, they would be told apart."
            for which, limit, found in ends
            if found > least
        )


Target = LabelTarget | NumberTarget
