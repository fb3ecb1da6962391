"""Scores of one run: a noisy number that says how good a model is on the rows of the test part.

One score, one entry in `SCORES`: what is summed over people and its bound, and how the noisy value
is read. The larger, the better.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from noisette import accounting
from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.errors import InvalidParameter
from noisette.mechanisms import Gaussian, LaplaceVector
from noisette.plans import Plan, Run
from noisette.summaries import count_move
from noisette.training.second_moment import on_public_grid

__all__ = ["SCORES", "Accuracy", "AreaUnderCurve", "LogLoss", "RunScore"]

_LARGEST_LOSS = math.log(100.0)
_BINS = 32
_BITS = 22  # sums of 2^30 numbers are exact
_EDGES = np.linspace(-5.0, 5.0, _BINS - 1)


class RunScore(ABC):
    """A sum over test persons, noise for it, and its reading."""

    name: ClassVar[str]
    proof: ClassVar[str]

    def plan(self, epsilon: float, delta: float, adjacency: Adjacency) -> Plan:
        """Return the least noise within (epsilon, delta)."""
        if delta == 0.0:
            return Run(LaplaceVector(adjacency.contributions / epsilon * (1.0 + 1e-12)))
        z = accounting.calibrate(Gaussian, epsilon=epsilon, delta=delta, adjacency=adjacency)
        return Run(Gaussian(z))

    def check(self, model: Any) -> None:  # noqa: B027
        """Refuse an estimator that has not what the score needs, before anything is charged."""

    def check_classes(self, count: int) -> None:  # noqa: B027
        """Refuse a number of classes that the score is not for, before anything is charged."""

    @abstractmethod
    def bounded(self, model: Any, X: Any, y: Any, adjacency: Adjacency, *, pure: bool) -> Bounded:
        """Return the sum over test persons, with its bound in l1 or l2."""

    @abstractmethod
    def read(self, noisy: Floats) -> float:
        """Return the score of a noisy sum."""


class _Total(RunScore):
    """The sum of one number in [0, 1] for each test person."""

    proof: ClassVar[str] = "SCORE-SUM"

    @abstractmethod
    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return everybody's number, a function of the model and of the own row and label."""

    def bounded(self, model: Any, X: Any, y: Any, adjacency: Adjacency, *, pure: bool) -> Bounded:
        """Return the total; one person moves it by at most 1 under every relation."""
        # proof: SCORE-SUM
        numbers = np.clip(self.each(model, X, y), 0.0, 1.0) if len(y) else np.zeros(1)
        numbers = np.where(np.isnan(numbers), 0.0, numbers)  # no probability: the worst number
        total = [float(on_public_grid(numbers, 1.0, _BITS).sum())]  # proof: EXACT-SUM
        if pure:
            return Bounded(np.array(total), adjacency, "SCORE-SUM", l1=1.0)
        return Bounded(np.array(total), adjacency, "SCORE-SUM", l2=1.0)

    def read(self, noisy: Floats) -> float:
        """Return the noisy total: all runs have the same test persons, so it ranks as the mean."""
        return float(noisy[0])


class Accuracy(_Total):
    """How many answers are right."""

    name: ClassVar[str] = "accuracy"

    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return 1 for a right answer."""
        return np.asarray(np.asarray(model.predict(X)) == np.asarray(y), dtype=float)


class LogLoss(_Total):
    """How likely the model finds the truth: 1 for certainty, 0 for one in a hundred or less."""

    name: ClassVar[str] = "log-loss"

    def check(self, model: Any) -> None:
        """Refuse a model without probabilities."""
        _probabilities(model, self.name)

    def each(self, model: Any, X: Any, y: Any) -> Floats:
        """Return 1 - min(-log p(truth), log 100) / log 100; an unknown label has p = 0."""
        known = np.asarray(model.classes_)
        place = np.minimum(np.searchsorted(known, y), len(known) - 1)
        p = np.asarray(model.predict_proba(X), dtype=float)[np.arange(len(place)), place]
        p = np.where(known[place] == np.asarray(y), p, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 + np.maximum(np.log(p), -_LARGEST_LOSS) / _LARGEST_LOSS)


class AreaUnderCurve(RunScore):
    """Area under the ROC curve of two classes, from a noisy table of (label) x (score bin)."""

    name: ClassVar[str] = "auc"
    proof: ClassVar[str] = "HISTOGRAM"

    def check_classes(self, count: int) -> None:
        """Refuse more than two classes."""
        if count != 2:
            raise InvalidParameter(
                "scoring='auc' is for two classes; use 'accuracy' or 'log-loss'."
            )

    def bounded(self, model: Any, X: Any, y: Any, adjacency: Adjacency, *, pure: bool) -> Bounded:
        """Return the counts of both labels in public bins of the log odds; other labels nowhere."""
        # proof: HISTOGRAM
        known, y = np.asarray(model.classes_), np.asarray(y)
        self.check_classes(len(known))
        table = np.zeros((2, _BINS))
        if len(y):
            bins = np.searchsorted(_EDGES, _log_odds(model, X))
            for row in (0, 1):
                of_label = bins[y == known[row]]
                table[row] = np.bincount(of_label, minlength=_BINS)
        if pure:
            return Bounded(table.ravel(), adjacency, self.proof, l1=float(adjacency.contributions))
        return Bounded(table.ravel(), adjacency, self.proof, l2=count_move(1, adjacency))

    def read(self, noisy: Floats) -> float:
        """Return the area with mid-ranks; counts are not cut at 0, which would bias it."""
        zeros, ones = noisy.reshape(2, _BINS)
        pairs = float(zeros.sum() * ones.sum())
        below = np.cumsum(zeros) - zeros / 2.0
        return float(ones @ below) / pairs if pairs > 0.0 else 0.5


def _probabilities(model: Any, name: str) -> None:
    if not hasattr(model, "predict_proba"):
        raise InvalidParameter(
            f"scoring={name!r} needs a model with probabilities; use 'accuracy' or 'auc'."
        )


def _log_odds(model: Any, X: Any) -> Floats:
    if hasattr(model, "predict_proba"):
        p = np.clip(np.asarray(model.predict_proba(X), dtype=float)[:, 1], 1e-12, 1.0 - 1e-12)
        return np.asarray(np.log(p) - np.log1p(-p))
    scores = np.asarray(model.decision_function(X), dtype=float)
    return np.nan_to_num(2.0 * (scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]))


SCORES: dict[str, type[RunScore]] = {
    kind.name: kind for kind in (Accuracy, AreaUnderCurve, LogLoss)
}
"""Every score by its name."""
