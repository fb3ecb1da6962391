"""`Target`: what a table's model predicts, labels or a number, chosen once where y comes in.

Whatever depends on the kind of target stands here: its loss, what is bought for it, how it is
counted, and what the released counts say about the noise, the start and the size of the scores.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.class_weight import BALANCED, balanced, weighed, weight_proofs
from noisette.fitting.algorithms.learnt_target import BUYING
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.losses import Loss
from noisette.tables.pipeline.bounds import LearnBounds, least_tail
from noisette.tables.pipeline.cut_targets import cut_note
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.recipe import (
    TableRecipe,
    recipe_for,
    recipe_for_curves,
    recipe_for_number_curves,
    recipe_for_numbers,
    with_room_for,
)
from noisette.tables.pipeline.shares import Spread
from noisette.tables.pipeline.spikes import LearnSpikes
from noisette.tables.pipeline.step import Step
from noisette.tables.pipeline.walks import (
    KNOTS,
    cut_and_scaled,
    spread_of_labels,
    spread_of_numbers,
)

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import TableTraining

_BENT = 10.0
_SLOTS = 2  # columns in which numbers that many people share are looked for
_QUADRATIC = 0.7  # of the rows have residuals below the threshold of the loss
_LEAST_SPREAD = 0.002  # variance of targets in [-1, 1]
_ODDS = 6.0  # most that the intercept's start may be
_RARE_LABEL = 0.15  # below, few rows reach a probability of 1/2
# Limits get more of the budget where they would cut off more than _TAIL, and are not bought where
# ranks are so noisy that no share of it helps.
_TAIL, _HOPELESS, _LARGER = 0.1, 0.25, (0.15, 0.3)
_RARER_CLASS, _SPREAD = 0.25, 0.25  # of a typical table: a share, a deviation in half ranges

LINES, CURVES = "lines", "curves"
"""The shapes of a model: what a column adds is one broken line, of few knots or of many."""
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
class Target(ABC):
    """What is predicted, by public facts; `counts` are those that a training releases."""

    loss: Loss

    everybody: ClassVar[str]
    """What a model that learnt nothing answers."""
    typical: ClassVar[float]
    """The variance of the scores of the best model of a typical table."""
    bounds: ClassVar[Any] = (-1.0, 1.0)
    """The limits of a number; None where they are bought."""
    buys: ClassVar[bool] = False
    """Whether the limits of the target are bought."""
    proofs: ClassVar[Any] = ()
    cells: ClassVar[Any]
    """Into how many cells targets are counted."""

    # --- before the data ------------------------------------------------------------------------

    @abstractmethod
    def recipe(
        self, shape: str, public: PublicBudget, pairs: int = 0, **columns: Any
    ) -> TableRecipe:
        """Return the recipe for straight "lines" or "curves" of so many columns."""

    def settled(
        self, training: "TableTraining", public: PublicBudget, *, stated: bool
    ) -> "TableTraining":
        """Return the training with what the noise of its steps decides; `stated` is its share."""
        return training

    @abstractmethod
    def number_steps(
        self, grids: Sequence[Grid], recipe: TableRecipe
    ) -> tuple[tuple[Step, float], ...]:
        """Return the steps that learn of columns of numbers, with their parts of the budget."""

    @abstractmethod
    def curvature(self, epsilon: float, contributions: int, recipe: TableRecipe) -> float:
        """Return the determinant's k for the part of epsilon that the model has."""

    @abstractmethod
    def typical_counts(self, rows: float) -> Floats:
        """Return how the targets of a typical table spread over the cells."""

    @abstractmethod
    def typical_knots(self, recipe: TableRecipe) -> int:
        """Return how many knots are bought of a column."""

    @abstractmethod
    def bought(self, columns: str) -> str:
        """Say what is bought of so many columns of numbers."""

    # --- rows, one by one -------------------------------------------------------------------------

    @abstractmethod
    def spread(self, limits: Limits, y: Any) -> Spread:
        """Return the cells of every row."""

    @abstractmethod
    def solved(self, limits: Limits, y: Any) -> Any:
        """Return the targets of rows as the loss takes them."""

    def weights(self, counts: TargetCounts, weights: Any, y: Any) -> Any:
        """Return the weights of rows with those of their targets."""
        return weights

    # --- what released counts say -----------------------------------------------------------------

    @abstractmethod
    def start(self, counts: TargetCounts) -> float:
        """Return the score around which the intercept is shrunk."""

    @abstractmethod
    def bend(self, counts: TargetCounts) -> float:
        """Return the curvature of the summed losses in a direction of variance 1."""

    def signal(self, counts: TargetCounts, usual: float) -> float:
        """Return the variance of scores to expect."""
        return usual

    def scatter(self, counts: TargetCounts, usual: float) -> float:
        """Return the variance that the sample of rows gives a gradient, along variance 1."""
        return 0.0

    def shift(self, counts: TargetCounts, push: float, constant: float, ridge: Any) -> Any:
        """Return the mean square by which noise moves the scores of all rows together."""
        return 0.0

    def calmed(self, theta: Floats, held: Floats, chance: Floats) -> Floats:
        """Return weights without what noise alone would explain of them."""
        return theta

    @abstractmethod
    def spoken(self, counts: TargetCounts, limits: Limits) -> tuple[str, ...]:
        """Say, from released counts, what makes answers alike: a rare label, cut targets."""


@dataclass(frozen=True)
class LabelTarget(Target):
    """One of `classes` labels; `class_weight` is public, or "balanced" by the released counts."""

    classes: int = 2
    class_weight: tuple[float, ...] | str | None = None

    everybody: ClassVar[str] = "commonest label"
    typical: ClassVar[float] = 1.0

    @property
    def cells(self) -> int:
        """One for each label."""
        return self.classes

    @property
    def proofs(self) -> tuple[str, ...]:
        """The theorem of class weights, where there are any."""
        return weight_proofs(self.class_weight)

    def recipe(
        self, shape: str, public: PublicBudget, pairs: int = 0, **columns: Any
    ) -> TableRecipe:
        """Return the recipe for labels."""
        chosen = recipe_for_curves if shape == CURVES else recipe_for
        return with_room_for(chosen(public, **columns), public, pairs, numbers=False)

    def number_steps(
        self, grids: Sequence[Grid], recipe: TableRecipe
    ) -> tuple[tuple[Step, float], ...]:
        """Return knots, and single numbers that many people share."""
        if not grids:
            return ()
        knots = LearnKnots(tuple(grids), recipe.depth, recipe.tails), recipe.knots
        if not recipe.spikes:
            return (knots,)
        return knots, (LearnSpikes(min(_SLOTS, len(grids))), recipe.spikes)

    def curvature(self, epsilon: float, contributions: int, recipe: TableRecipe) -> float:
        """Return the k at which the determinant is free, or less."""
        # More than _BENT would leave so little regularisation that no solve is certain to end.
        return min(epsilon / (contributions * recipe.room), _BENT)

    def typical_counts(self, rows: float) -> Floats:
        """Return a quarter of the rows for all rarer labels together."""
        rest = max(self.classes - 1, 1)
        rarer = [rows * _RARER_CLASS / rest] * rest
        return np.array([rows - sum(rarer), *rarer])

    def typical_knots(self, recipe: TableRecipe) -> int:
        """Return the knots of all halvings, and of the tails."""
        return int(2**recipe.depth - 1 + 2 * (recipe.tails > 0))

    def bought(self, columns: str) -> str:
        """Name the knots."""
        return f"the knots of {columns}"

    def spread(self, limits: Limits, y: Any) -> Spread:
        """Return the label of every row."""
        return spread_of_labels(self.classes, y)

    def solved(self, limits: Limits, y: Any) -> Any:
        """Return signs for a binary loss, else the numbers of the labels."""
        return y if self.loss.kind == "multiclass" else np.where(y == 1, 1.0, -1.0)

    def weights(self, counts: TargetCounts, weights: Any, y: Any) -> Any:
        """Return the weights of rows times those of their labels."""
        return weights if self.class_weight is None else weighed(weights, self._factors(counts), y)

    def _factors(self, counts: TargetCounts) -> Floats:
        """Return the weights of the classes: public, or from the released counts of labels."""
        asked = self.class_weight
        if asked is None:
            return np.ones(self.classes)
        # proof: CLASS-WEIGHT
        return balanced(counts.sums, counts.deviation) if asked == BALANCED else np.array(asked)

    def _odds(self, counts: TargetCounts) -> float:
        sums = np.maximum(counts.sums, counts.deviation) * self._factors(counts)
        sums = np.maximum(sums, 1e-6)
        return float(np.clip(math.log(sums[1] / sums[0]), -_ODDS, _ODDS))

    def start(self, counts: TargetCounts) -> float:
        """Return the released odds, which scores of the logistic loss are."""
        return self._odds(counts) if self.loss.name == "logistic" else 0.0

    def bend(self, counts: TargetCounts) -> float:
        """Return that of the logistic loss at the released odds."""
        share = 1.0 / (1.0 + math.exp(-abs(self._odds(counts)))) if self.classes == 2 else 0.5
        return counts.size * max(share * (1.0 - share), 0.02)

    def spoken(self, counts: TargetCounts, limits: Limits) -> tuple[str, ...]:
        """Speak of a rare label."""
        part = 1.0 / (1.0 + math.exp(abs(self._odds(counts)))) if self.classes == 2 else 0.5
        if part > _RARE_LABEL:
            return ()
        return (
            f"By the noisy counts, about {100.0 * part:.2g} % of the records have the rarer label, "
            "so the likelier one, which predict gives, may be the other for nearly everybody: rank "
            "records by decision_function, or cut it at a limit of your own.",
        )


@dataclass(frozen=True)
class NumberTarget(Target):
    """A number between two limits, of which None is bought; it is scaled to [-1, 1]."""

    bounds: tuple[float | None, float | None] = (-1.0, 1.0)  # type: ignore[misc]

    everybody: ClassVar[str] = "mean of the targets"
    typical: ClassVar[float] = 0.02
    cells: ClassVar[int] = len(KNOTS)

    @property
    def buys(self) -> bool:  # type: ignore[override]
        """Whether a limit is open."""
        return None in self.bounds

    def recipe(
        self, shape: str, public: PublicBudget, pairs: int = 0, **columns: Any
    ) -> TableRecipe:
        """Return the recipe for numbers."""
        chosen = recipe_for_number_curves if shape == CURVES else recipe_for_numbers
        return with_room_for(chosen(public, **columns), public, pairs, numbers=True)

    def settled(
        self, training: "TableTraining", public: PublicBudget, *, stated: bool
    ) -> "TableTraining":
        """Give limits that are bought more of the budget where they would cut off too much."""
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

    def bought(self, columns: str) -> str:
        """Name the limits."""
        return f"the limits of {columns}" + " and of the target" * self.buys

    def spread(self, limits: Limits, y: Any) -> Spread:
        """Return the two knots around each number."""
        return spread_of_numbers(cut_and_scaled(*limits, y))

    def solved(self, limits: Limits, y: Any) -> Any:
        """Return numbers cut to their limits and scaled to [-1, 1]."""
        return cut_and_scaled(*limits, y)

    def _moments(self, counts: TargetCounts) -> tuple[float, float]:
        """Return the mean of the scaled targets, and how large their variance may be."""
        sums, n = counts.sums, counts.size
        mean = float(np.clip(KNOTS @ sums / n, -1.0, 1.0))
        # what is divided between two knots has too large a square, by a sixth of their distance^2
        square = (KNOTS - mean) ** 2
        found = float(square @ sums) / n - float(KNOTS[1] - KNOTS[0]) ** 2 / 6.0
        doubt = counts.deviation / n * float(np.linalg.norm(square))
        return mean, max(found + doubt, _LEAST_SPREAD)

    def start(self, counts: TargetCounts) -> float:
        """Return the released mean."""
        return self._moments(counts)[0]

    def bend(self, counts: TargetCounts) -> float:
        """Return that of the rows with small residuals."""
        return _QUADRATIC * counts.size

    def signal(self, counts: TargetCounts, usual: float) -> float:
        """Return at most the variance of the targets."""
        return min(usual, self._moments(counts)[1])

    def scatter(self, counts: TargetCounts, usual: float) -> float:
        """Return that of residuals about as large as the signal."""
        return 0.5 * self.bend(counts) * self.signal(counts, usual)

    def shift(self, counts: TargetCounts, push: float, constant: float, ridge: Any) -> Any:
        """Return what the noise in the mean, and in the intercept, adds."""
        doubt = counts.deviation / counts.size * float(np.linalg.norm(KNOTS))
        start = (ridge * doubt) ** 2 + push * push * constant
        return start / (self.bend(counts) * constant + ridge) ** 2

    def calmed(self, theta: Floats, held: Floats, chance: Floats) -> Floats:
        """Return weights drawn to the mean, by James and Stein's factor from released weights."""
        size = float(held @ theta[0, :-1] ** 2)
        factor = max(0.0, 1.0 - float(held @ chance) / size) if size > 0.0 else 0.0
        return np.append(factor * theta[:, :-1], theta[:, -1:], axis=1)

    def spoken(self, counts: TargetCounts, limits: Limits) -> tuple[str, ...]:
        """Speak of targets beyond a limit."""
        return cut_note(counts.sums, counts.size, counts.deviation, limits)
