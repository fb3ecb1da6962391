"""What two tables say about a classifier of several classes."""

from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.guarantee import Guarantee
from noisette.scores.binary import Calibration, LabelScores
from noisette.scores.score import Score, ratio


@dataclass(frozen=True, eq=False)
class MulticlassScores(LabelScores):
    """Accuracy, recall, precision and calibration of the answer, for three classes and more.

    Parameters
    ----------
    classes : list
        The K labels.
    table : ndarray of shape (K, K)
        Counts of (true, answered); noisy if bought.
    highs : ndarray of shape (B,)
        Upper ends of bins of the probability of the answer; empty where there is none.
    confidence : ndarray of shape (2, B)
        Counts of (wrong or right) x (bin).
    deviation : float
        The standard deviation of the noise on each count.
    notes : tuple of str
        By which rules rows were counted.
    privacy_ : Guarantee, optional
        The guarantee that covers the counts; None where they are exact, which nothing covers.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.scores import MulticlassScores
    >>> found = MulticlassScores(["a", "b", "c"], np.diag([5.0, 3.0, 2.0]))
    >>> found.accuracy.value, found.majority[0], found.recall["b"].value
    (1.0, 'a', 1.0)
    >>> found.confusion()[1, 1], found.verdict(), found.to_dict()["classes"], len(found.lines())
    (np.float64(3.0), '', ['a', 'b', 'c'], 10)

    """

    _by_label = "table"

    classes: list[Any]
    table: Floats
    highs: Floats = field(default_factory=lambda: np.empty(0))
    confidence: Floats = field(default_factory=lambda: np.empty((2, 0)))
    deviation: float = 0.0
    notes: tuple[str, ...] = ()
    privacy_: Guarantee | None = field(default=None, repr=False)

    @property
    def accuracy(self) -> Score:
        """How many of all answers are right."""
        return ratio(np.eye(len(self.classes)).ravel(), self.table.ravel(), self.deviation)

    def confusion(self) -> Floats:
        """Return counts of (true, answered).

        Returns
        -------
        ndarray of shape (K, K)
            Noisy if they were bought.

        """
        return self.table.copy()

    @property
    def recall(self) -> dict[Any, Score]:
        """For each class, how many of its rows were answered with it."""
        return self._found(self.table)

    @property
    def precision(self) -> dict[Any, Score]:
        """For each class, how many of the rows that were answered with it are of it."""
        return self._found(self.table.T)

    def _found(self, table: Floats) -> dict[Any, Score]:
        own = map(ratio, np.eye(len(self.classes)), table, repeat(self.deviation))
        return dict(zip(self.classes, own, strict=True))

    @property
    def calibration(self) -> list[Calibration]:
        """How sure the model was of its answer, beside how often it was right."""
        ends, truth = [0.0, *self.highs.tolist()], np.array([0.0, 1.0])
        return [
            Calibration(
                low, high, (low + high) / 2.0, ratio(truth, counts, self.deviation),
                float(counts.sum()),
            )
            for low, high, counts in zip(ends, ends[1:], self.confidence.T, strict=False)
        ]  # fmt: skip

    def verdict(self) -> str:
        """Return a plain sentence if the model is no better than the majority, else ''.

        Returns
        -------
        str
            One sentence, or nothing.

        """
        K = len(self.classes)
        heard = self.table.sum(axis=0) > 2.0 * self.deviation * np.sqrt(K)
        always = self.classes[int(heard.argmax())] if heard.sum() == 1 else None
        return self._verdict(np.eye(K), always)

    def to_dict(self) -> dict[str, Any]:
        """Return every score for JSON.

        Returns
        -------
        dict
            Scores with their error bars.

        """
        return self._shared(self.verdict()) | {
            "accuracy": self.accuracy.to_dict(),
            "precision": [score.to_dict() for score in self.precision.values()],
            "recall": [score.to_dict() for score in self.recall.values()],
            "confusion": self.table.tolist(),
        }

    def lines(self) -> list[str]:
        """Return the scores as lines of text.

        Returns
        -------
        list of str
            For a terminal.

        """
        answer, share = self.majority
        each = zip(self.classes, self.recall.values(), self.precision.values(), strict=True)
        title = "how sure the model was of its answer, and how often it was right:"
        return [
            f"accuracy   {self.accuracy}",
            f"majority   {share}: the answer {answer!r} to everybody",
            *(f"{label!r}: recall {found}; precision {right}" for label, found, right in each),
            *self._closing(self.table.tolist(), title, "right {1}", self.verdict()),
        ]
