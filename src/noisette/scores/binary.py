"""What a table of (label) x (score) says about a classifier of two classes."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidParameter
from noisette.scores.score import Score, Told, auc, ratio

_TENTHS = np.arange(1, 11) / 10.0
_SURE = 1e-6  # probabilities are cut so far from 0 and 1 in the log loss


@dataclass(frozen=True)
class Confusion:
    """Who was answered what, at one threshold; `table[i][j]` is (true i, answered j).

    Parameters
    ----------
    threshold : float
        Rows with a probability above it are answered with the second class.
    table : tuple of tuple of float
        Counts, noisy if they were bought; `error` is the standard deviation of the noise on each.
    error : tuple of tuple of float
        See there.
    accuracy, precision, recall, specificity : Score
        Right answers; right among those answered with the second class; found among those of the
        second class; found among those of the first.

    Examples
    --------
    >>> from noisette.scores import BinaryScores
    >>> found = BinaryScores.of(["no", "yes"], [0.2, 0.4, 0.7, 0.9], [0, 1, 0, 1])
    >>> found.confusion(0.5).table
    ((1.0, 1.0), (1.0, 1.0))

    """

    threshold: float
    table: tuple[tuple[float, ...], ...]
    error: tuple[tuple[float, ...], ...]
    accuracy: Score
    precision: Score
    recall: Score
    specificity: Score


@dataclass(frozen=True)
class RocCurve:
    """The ROC curve: one point for each threshold, with standard errors.

    Parameters
    ----------
    thresholds : ndarray
        Increasing.
    false_positive, true_positive : ndarray
        Shares of the two classes above each threshold.
    false_error, true_error : ndarray
        Their standard errors, of noise and sample.

    Examples
    --------
    >>> from noisette.scores import BinaryScores
    >>> BinaryScores.of([0, 1], [0.2, 0.9], [0, 1]).roc.true_positive.tolist()
    [1.0, 1.0, 0.0]

    """

    thresholds: Floats
    false_positive: Floats
    true_positive: Floats
    false_error: Floats
    true_error: Floats


@dataclass(frozen=True)
class Calibration:
    """What was predicted and what happened, bin by bin.

    Parameters
    ----------
    low, high : float
        The bin (low, high] of predicted probabilities.
    predicted : float
        About the mean prediction inside.
    observed : Score
        The share of the second class.
    count : float
        About how many rows.

    Examples
    --------
    >>> from noisette.scores import BinaryScores
    >>> found = BinaryScores.of([0, 1], [0.21, 0.29, 0.95], [0, 1, 1]).calibration
    >>> [(row.high, round(row.predicted, 2), row.observed.value) for row in found]
    [(0.3, 0.25, 0.5), (1.0, 0.95, 1.0)]

    """

    low: float
    high: float
    predicted: float
    observed: Score
    count: float


class LabelScores(Told):
    """What scores of two classes and of several share; `_by_label` names counts by true label."""

    _by_label: ClassVar[str] = "counts"

    @property
    def majority(self: Any) -> tuple[Any, Score]:
        """The most common class, and how many answers are right if it is always given."""
        counts = getattr(self, self._by_label)
        k = int(counts.sum(axis=1).argmax())
        truth = np.repeat(np.arange(len(counts)) == k, counts.shape[1])
        return self.classes[k], ratio(truth, counts.ravel(), self.deviation)

    def _verdict(self: Any, right: Floats, always: Any, ranks: Score | None = None) -> str:
        """Return a sentence unless the accuracy is above that of the majority answer.

        `always` is the answer that the model gives to everybody, as far as counts can tell; `ranks`
        its AUC: a model of a rare label may tell people apart without ever answering it.
        """
        k = self.classes.index(self.majority[0])
        right[k] -= 1.0  # what the majority answer gets right as well
        counts = getattr(self, self._by_label).ravel()
        gain = ratio(right.ravel(), counts, self.deviation, -1.0, 1.0)
        if not gain.trusted:
            return (
                "There are too few rows for this noise to tell whether the model beats the "
                "majority."
            )
        if gain.low > 0.0:
            return ""
        majority = f"the answer {self.classes[k]!r} to everybody"
        seen = ", as far as the noisy counts can tell" if self.deviation > 0.0 else ""
        if always is None and gain.value > 0.0:
            return f"It is not certain that the model beats {majority}."
        told = f"The model is no better than {majority}; "
        if always is not None:
            told = (
                f"The model answers {always!r} to everybody{seen}: it is no better than the "
                "majority; "
            )
        if ranks is not None and ranks.trusted and ranks.low > 0.5:
            return (
                f"{told}but it tells people apart (AUC {ranks.value:.3f}): rank them by "
                "probability, or choose another threshold or class weights."
            )
        return f"{told}class weights or another threshold may help."

    def _shared(self: Any, verdict: str) -> dict[str, Any]:
        """Return what JSON says of all classifiers."""
        answer, share = self.majority
        return {
            "classes": self.classes, "notes": self.notes, "verdict": verdict,
            "calibration": [
                vars(row) | {"observed": row.observed.to_dict()} for row in self.calibration
            ],
            "majority": {"answer": answer, "accuracy": share.to_dict()},
        }  # fmt: skip

    def _closing(self: Any, table: Any, title: str, words: str, verdict: str) -> list[str]:
        """Return the lines of the table, of the calibration and of the verdict."""
        names = list(map(str, self.classes))
        cells = [[f"{count:.0f}" for count in row] for row in table]
        wide = max(len(text) for row in (names, *cells) for text in row) + 2
        first = max(map(len, names)) + len("true ")
        shown = ["", " " * first + "".join(f"{name:>{wide}}" for name in names) + "  (answered)"]
        for name, texts in zip(names, cells, strict=True):
            shown.append(f"true {name}".ljust(first) + "".join(f"{text:>{wide}}" for text in texts))
        rows = [
            f"  {row.low:.3g} to {row.high:.3g}: {words.format(row.predicted, row.observed)} "
            f"({row.count:.0f} rows)"
            for row in self.calibration
            if row.count >= 1.0
        ]
        return [*shown, *(["", title, *rows] if rows else []), *(["", verdict] if verdict else [])]


@dataclass(frozen=True, eq=False)
class BinaryScores(LabelScores):
    """Accuracy, AUC, ROC, calibration and confusion from one table of counts.

    Parameters
    ----------
    classes : list
        The two labels.
    highs, centres : ndarray of shape (B,)
        Upper ends of the score bins (low, high], and the probability that stands for each.
    counts : ndarray of shape (2, B)
        How many rows of each class are in each bin; noisy, and then also below 0, if bought.
    deviation : float
        The standard deviation of the noise on each count.
    binned : bool
        Whether thresholds are bound to the ends of bins.
    probabilities : bool
        Whether scores are probabilities, or only rank.
    notes : tuple of str
        By which rules rows were counted.
    privacy_ : Guarantee, optional
        The guarantee that covers the counts; None where they are exact, which nothing covers.

    Examples
    --------
    >>> from noisette.scores import BinaryScores
    >>> found = BinaryScores.of(["no", "yes"], [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> found.auc.value, found.accuracy.value
    (0.75, 0.75)
    >>> found.confusion(0.3).recall.value, found.verdict(0.3)
    (1.0, "It is not certain that the model beats the answer 'no' to everybody.")
    >>> found.to_dict()["threshold"], found.lines()[2]
    (0.5, 'AUC        0.750 ± 0.125 (95 %: 0.000 to 1.000)')

    """

    classes: list[Any]
    highs: Floats
    centres: Floats
    counts: Floats
    deviation: float = 0.0
    binned: bool = False
    probabilities: bool = True
    notes: tuple[str, ...] = ()
    privacy_: Guarantee | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, classes: Any, scores: Any, labels: Any, *, weights: Any = None,
        probabilities: bool = True, notes: tuple[str, ...] = (),
    ) -> "BinaryScores":  # fmt: skip
        """Return the exact scores of rows that may be counted: no guarantee covers them.

        Parameters
        ----------
        classes : sequence
            The two labels.
        scores : array_like of shape (n,)
            The probability of the second class, or another score in [0, 1].
        labels : array_like of shape (n,)
            0 or 1, the number of the label; -1 counts nowhere.
        weights : array_like of shape (n,), optional
            How much each row counts.
        probabilities : bool, default True
            Whether scores are probabilities.
        notes : tuple of str, optional
            By which rules rows were counted.

        Returns
        -------
        BinaryScores
            Bins hold one score each, so that nothing is rounded.

        """
        s, y = np.asarray(scores, dtype=float), np.asarray(labels)
        w = np.ones(len(s)) if weights is None else np.asarray(weights, dtype=float)
        values, place = np.unique(s, return_inverse=True)
        counts = np.stack(
            [np.bincount(place[y == k], w[y == k], minlength=len(values)) for k in (0, 1)]
        ).astype(np.float64)
        return cls(list(classes), values, values, counts, probabilities=probabilities, notes=notes)

    # --- at one threshold ------------------------------------------------------------------

    def confusion(self, threshold: float = 0.5) -> Confusion:
        """Return who was answered what at a threshold.

        Parameters
        ----------
        threshold : float, default 0.5
            In [0, 1]; where counts were bought, the nearest end of a bin is taken, as the answer
            says.

        Returns
        -------
        Confusion
            Counts and rates.

        """
        t = self._threshold(threshold)
        above = self.highs > t
        s, (n, p) = self.deviation, self.counts
        table = [(float(row[~above].sum()), float(row[above].sum())) for row in (n, p)]
        error = tuple(s * float(np.sqrt(side.sum())) for side in (~above, above))
        right = np.concatenate([~above, above]).astype(float)
        return Confusion(
            t,
            tuple(table),
            (error, error),
            ratio(right, self.counts.ravel(), s),
            ratio(np.repeat([0.0, 1.0], int(above.sum())), self.counts[:, above].ravel(), s),
            ratio(above.astype(float), p, s),
            ratio((~above).astype(float), n, s),
        )

    def _threshold(self, threshold: float) -> float:
        asked = _validate.real("threshold", threshold)
        if not 0.0 <= asked <= 1.0:
            raise InvalidParameter(f"threshold must lie in [0, 1]; got {threshold!r}.")
        if not self.binned:
            return asked
        ends = np.append(0.0, self.highs)
        return float(ends[np.argmin(np.abs(ends - asked))])

    @property
    def accuracy(self) -> Score:
        """How many of all answers are right, at the threshold 0.5."""
        return self.confusion(0.5).accuracy

    # --- over all thresholds ---------------------------------------------------------------

    @property
    def auc(self) -> Score:
        """How often a row of the second class has a higher score than one of the first."""
        edges = np.append(0.0, self.highs) if self.binned else None
        return auc(self.counts[1], self.counts[0], self.deviation, edges)

    @property
    def roc(self) -> RocCurve:
        """The ROC curve with standard errors."""
        ends, total = np.append(0.0, self.highs), self.counts.sum(axis=1, keepdims=True)
        below = np.append(np.zeros((2, 1)), np.cumsum(self.counts, axis=1), axis=1)
        above, bins = (total - below) / total, np.arange(len(ends))[::-1]  # above each end
        noise = bins * (1.0 - above) ** 2 + (len(ends) - 1 - bins) * above**2
        error = np.sqrt(
            self.deviation**2 * noise + np.maximum(total * above * (1.0 - above), 0.0)
        ) / abs(total)
        return RocCurve(ends, above[0], above[1], error[0], error[1])

    @property
    def calibration(self) -> list[Calibration]:
        """Predicted probabilities beside what happened; by tenths where bins allow it.

        Empty where the model gives no probabilities.
        """
        if not self.probabilities:
            return []
        highs = self.highs.round(9)
        ends = _TENTHS if not self.binned or np.isin(_TENTHS.round(9), highs).all() else self.highs
        where = np.searchsorted(ends.round(9), highs, side="left")
        found = []
        for k, high in enumerate(ends):
            inside = where == k
            if not inside.any():
                continue
            low, counts = float(ends[k - 1]) if k else 0.0, self.counts[:, inside]
            each = counts.sum(axis=0)
            mean = ratio(self.centres[inside], each, self.deviation, low, float(high)).value
            found.append(
                Calibration(
                    low, float(high), float(np.clip(np.nan_to_num(mean, nan=low), low, high)),
                    ratio(np.repeat([0.0, 1.0], len(each)), counts.ravel(), self.deviation),
                    float(each.sum()),
                )
            )  # fmt: skip
        return found

    @property
    def log_loss(self) -> Score:
        """Mean of -log(probability of the true class), up to the width of the bins."""
        p = np.clip(self.centres, _SURE, 1.0 - _SURE)
        weights = np.concatenate([-np.log1p(-p), -np.log(p)])
        return ratio(weights, self.counts.ravel(), self.deviation, 0.0, float(-np.log(_SURE)))

    # --- in words --------------------------------------------------------------------------

    def verdict(self, threshold: float = 0.5) -> str:
        """Return a plain sentence if the model is no better than the majority, else ''.

        Parameters
        ----------
        threshold : float, default 0.5
            At which the model answers.

        Returns
        -------
        str
            One sentence, or nothing.

        """
        above, (n, p) = self.highs > self._threshold(threshold), self.counts
        least = 2.0 * self.deviation * np.sqrt(2.0 * self.counts.shape[1])
        silent = [j for j, side in enumerate((~above, above)) if (n + p)[side].sum() <= least]
        always = self.classes[1 - silent[0]] if len(silent) == 1 else None
        return self._verdict(np.stack([~above, above]).astype(float), always, self.auc)

    def to_dict(self, threshold: float = 0.5) -> dict[str, Any]:
        """Return every score for JSON, at a threshold.

        Parameters
        ----------
        threshold : float, default 0.5
            At which the model answers.

        Returns
        -------
        dict
            Scores with their error bars.

        """
        found = self.confusion(threshold)
        return self._shared(self.verdict(threshold)) | {
            "threshold": found.threshold,
            "accuracy": found.accuracy.to_dict(),
            "auc": self.auc.to_dict(),
            "precision": found.precision.to_dict(),
            "recall": found.recall.to_dict(),
            "log_loss": self.log_loss.to_dict() if self.probabilities else None,
            "confusion": found.table,
        }

    def lines(self, threshold: float = 0.5) -> list[str]:
        """Return the scores as lines of text.

        Parameters
        ----------
        threshold : float, default 0.5
            At which the model answers.

        Returns
        -------
        list of str
            For a terminal.

        """
        found, (answer, share) = self.confusion(threshold), self.majority
        shown = [
            f"accuracy   {found.accuracy}, at threshold {found.threshold:g}",
            f"majority   {share}: the answer {answer!r} to everybody",
            f"AUC        {self.auc}",
            f"precision  {found.precision}, of the answer {self.classes[1]!r}",
            f"recall     {found.recall}, of those who are {self.classes[1]!r}",
        ]
        if self.probabilities:
            shown.append(f"log loss   {self.log_loss}")
        title = f"predicted probability of {self.classes[1]!r}, and what happened:"
        return shown + self._closing(
            found.table, title, "predicted {:.3f}, observed {}", self.verdict(threshold)
        )
