"""Scores of one run: a noisy number that says how good a model is on the rows of the test part.

One score, one entry in `SCORES`: what is released about the test persons, and how it is read. The
larger, the better. The area under the curve is that of `noisette.evaluate`, by the same code.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.bounded import Bounded
from noisette.core.mechanisms import Gaussian, LaplaceVector
from noisette.core.plans import Plan, Run
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.second_moment import on_public_grid
from noisette.scores.binary import BinaryScores
from noisette.scores.layouts import EDGES, BinaryLayout, layout_for
from noisette.tables.pipeline.shares import ScoreTable, counted, table_for
from noisette.tables.pipeline.step import PreparedStep

_LARGEST_LOSS = math.log(100.0)
_BITS = 22  # sums of 2^30 numbers are exact
_BY_CHANCE = 0.5  # the area where a class may be missing among the test persons


class RunScore(ABC):
    """What is released about the test persons in one run, with noise, and its reading."""

    proofs: ClassVar[tuple[str, ...]]

    def check(self, model: Any) -> None:  # noqa: B027
        """Refuse an estimator that has not what the score needs, before anything is charged."""

    def check_classes(self, count: int) -> None:  # noqa: B027
        """Refuse a number of classes that the score is not for, before anything is charged."""

    @abstractmethod
    def plan(self, budget: PublicBudget) -> Plan:
        """Return the plan with the least noise within the budget."""

    @abstractmethod
    def noisy(self, model: Any, X: Any, y: Any, budget: PublicBudget, passage: Passage) -> float:
        """Return the score of a model on the test persons, released under the permit of a plan."""


class _Total(RunScore):
    """The sum of one number in [0, 1] for each test person."""

    proofs: ClassVar[tuple[str, ...]] = ("SCORE-SUM",)

    def plan(self, budget: PublicBudget) -> Plan:
        """Return one noisy number."""
        epsilon, delta, adjacency = budget.epsilon, budget.delta, budget.adjacency
        if delta == 0.0:
            return Run(LaplaceVector(adjacency.contributions / epsilon * (1.0 + 1e-12)))
        z = accounting.calibrate(Gaussian, epsilon=epsilon, delta=delta, adjacency=adjacency)
        return Run(Gaussian(z))

    @abstractmethod
    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return everybody's number, a function of the model and of the own row and label."""

    def noisy(self, model: Any, X: Any, y: Any, budget: PublicBudget, passage: Passage) -> float:
        """Return the noisy total: all runs have the same test persons, so it ranks as the mean.

        One person moves it by at most 1 under every relation.
        """
        # proof: SCORE-SUM
        numbers = np.clip(self.each(model, X, y), 0.0, 1.0) if len(y) else np.zeros(1)
        numbers = np.where(np.isnan(numbers), 0.0, numbers)  # no probability: the worst number
        total = np.array([on_public_grid(numbers, 1.0, _BITS).sum()])  # proof: EXACT-SUM
        limits: dict[str, Any] = {"l1" if budget.delta == 0.0 else "l2": 1.0}
        return float(passage.release(Bounded(total, budget.adjacency, "SCORE-SUM", **limits))[0])


class Accuracy(_Total):
    """How many answers are right."""

    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return 1 for a right answer."""
        return np.asarray(np.asarray(model.predict(X)) == np.asarray(y), dtype=float)


class LogLoss(_Total):
    """How likely the model finds the truth: 1 for certainty, 0 for one in a hundred or less."""

    def check(self, model: Any) -> None:
        """Refuse a model without probabilities."""
        if not hasattr(model, "predict_proba"):
            raise InvalidParameter(
                "scoring='log-loss' needs a model with probabilities; use 'accuracy' or 'auc'."
            )

    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return 1 - min(-log p(truth), log 100) / log 100; an unknown label has p = 0."""
        known = np.asarray(model.classes_)
        place = np.minimum(np.searchsorted(known, y), len(known) - 1)
        p = np.asarray(model.predict_proba(X), dtype=float)[np.arange(len(place)), place]
        p = np.where(known[place] == np.asarray(y), p, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 + np.maximum(np.log(p), -_LARGEST_LOSS) / _LARGEST_LOSS)


class AreaUnderCurve(RunScore):
    """Area under the ROC curve of two classes, from the noisy table of `noisette.evaluate`."""

    proofs: ClassVar[tuple[str, ...]] = ("HISTOGRAM", "SCORE-TABLE", "EXACT-SUM", "ROW-LOCAL")

    def check_classes(self, count: int) -> None:
        """Refuse more than two classes."""
        if count != 2:
            raise InvalidParameter(
                "scoring='auc' is for two classes; use 'accuracy' or 'log-loss'."
            )

    def plan(self, budget: PublicBudget) -> Plan:
        """Return one noisy table of labels by score bins."""
        return self._table(budget)[1].plan

    def _table(self, budget: PublicBudget) -> tuple[ScoreTable, PreparedStep]:
        # Laplace noise would make a smaller table, but the best of several runs costs more with it.
        shape = BinaryLayout((0, 1), EDGES, probabilities=True)
        return table_for(shape, budget, pure=budget.delta == 0.0)

    def noisy(self, model: Any, X: Any, y: Any, budget: PublicBudget, passage: Passage) -> float:
        """Return the area; counts are not cut at 0, which would bias it."""
        # proof: SCORE-TABLE
        self.check_classes(len(model.classes_))
        step, prepared = self._table(budget)
        layout: Any = layout_for(model)
        nobody = [np.empty(0, dtype=np.int64)]  # a coin for each may leave no test person
        with np.errstate(all="ignore"):
            sample = counted(layout, layout.codes(model, X, y) if len(y) else nobody, None)
        sums = step.run(sample, prepared, passage)
        deviation = step.deviation(prepared.scale, budget.adjacency)
        found: BinaryScores = layout.scores(sums, deviation=deviation)
        area = found.auc.value
        return area if math.isfinite(area) else _BY_CHANCE


SCORES: dict[str, type[RunScore]] = {
    "accuracy": Accuracy, "auc": AreaUnderCurve, "log-loss": LogLoss
}  # fmt: skip
"""Every score by its name."""
