"""Which cell each row falls into, by public rules: what is counted before anything is scored.

A layout is public: labels, edges and rules. `codes` sees the answers of a released model and the
labels, row by row, and returns for each column of cells one code per row; -1 adds nothing, and a
code between two whole numbers divides the row between two cells.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._scikit import ClassifierMixin
from noisette._typing import Floats
from noisette._validate import refuse
from noisette.core.cells import given, taken
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.scores.binary import BinaryScores
from noisette.scores.multiclass import MulticlassScores
from noisette.scores.regression import RegressionScores

EDGES = (
    0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4,
    0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995,
    0.9975, 0.999, 1.0,
)  # fmt: skip
"""Ends of 34 bins of probabilities: round numbers, closer together where classes are rare."""

_TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_RESIDUAL_BINS, _TARGET_BINS, _MOST_BINS = 20, 20, 1000
_SHOWN = 5  # classes in a message
_BLOCK = 8192  # rows that a model is asked about at once

_NO_LABEL = "A row whose label is none of the model's classes counted nowhere."
_NO_SCORE = "A row that got no probability was put into the lowest bin."


@dataclass(frozen=True)
class BinaryLayout:
    """(label) x (bin of the score), one column of 2 B cells."""

    classes: tuple[Any, ...]
    edges: tuple[float, ...]
    probabilities: bool

    notes = (_NO_LABEL, _NO_SCORE)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        return (2 * (len(self.edges) - 1),)

    def codes(self, model: Any, X: Any, y: Any) -> list[NDArray[np.int64]]:
        """Return the cell of every row."""
        # proof: SCORE-TABLE
        scores = second_of(model, X, len(y))
        return [_binned(numbers_of(self.classes, y), scores, self.edges)]

    def scores(self, sums: Sequence[Floats], **more: Any) -> BinaryScores:
        """Return what the counts say."""
        edges = np.array(self.edges)
        return BinaryScores(
            list(self.classes), edges[1:], (edges[1:] + edges[:-1]) / 2.0,
            np.asarray(sums[0]).reshape(2, -1), binned=True, probabilities=self.probabilities,
            **more,
        )  # fmt: skip


@dataclass(frozen=True)
class MulticlassLayout:
    """(label) x (answer), and where there are probabilities (right or wrong) x (how sure)."""

    classes: tuple[Any, ...]
    edges: tuple[float, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The rules."""
        return (_NO_LABEL, _NO_SCORE) if self.edges else (_NO_LABEL,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        table = len(self.classes) ** 2
        return (table, 2 * (len(self.edges) - 1)) if self.edges else (table,)

    def codes(self, model: Any, X: Any, y: Any) -> list[NDArray[np.int64]]:
        """Return the cell of every row in each of the tables."""
        # proof: SCORE-TABLE
        scores, labels, K = answers_of(model, X), numbers_of(self.classes, y), len(self.classes)
        if scores.shape != (len(y), K):
            raise InvalidData("the model must give one score for each row and class.")
        lost = np.asarray(np.isnan(scores).any(axis=1))
        answer = np.where(lost, 0, np.where(lost[:, None], 0.0, scores).argmax(axis=1))
        found = [_joined(labels, answer, K)]
        if self.edges:
            sure = np.where(lost, 0.0, scores.max(axis=1))
            right = np.where(labels < 0, -1, (labels == answer).astype(np.int64))
            found.append(_binned(right, sure, self.edges))
        return found

    def scores(self, sums: Sequence[Floats], **more: Any) -> MulticlassScores:
        """Return what the counts say."""
        K = len(self.classes)
        table = np.asarray(sums[0]).reshape(K, K)
        if self.edges:
            sure = np.asarray(sums[1]).reshape(2, -1)
            more |= {"highs": np.array(self.edges[1:]), "confidence": sure}
        return MulticlassScores(list(self.classes), table, **more)


@dataclass(frozen=True)
class RegressionLayout:
    """Residuals and targets, each divided between the two knots around it: two columns.

    Means of whatever is straight between knots, such as |residual|, are then exact.
    """

    low: float
    high: float
    bins: int = _RESIDUAL_BINS

    @property
    def notes(self) -> tuple[str, ...]:
        """The rules."""
        return (
            f"Targets were cut to [{self.low:g}, {self.high:g}], residuals to the same width on "
            "both sides of 0; a row without a target counted nowhere, one without a prediction as "
            "the largest residual.",
        )

    @property
    def knots(self) -> Floats:
        """Knots of residuals, 0 among them, closer together around it."""
        t = np.linspace(-1.0, 1.0, 2 * math.ceil(self.bins / 2) + 1)
        return np.asarray((self.high - self.low) * np.sign(t) * t * t)

    @property
    def target_knots(self) -> Floats:
        """Knots of targets."""
        return np.linspace(self.low, self.high, _TARGET_BINS + 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        return (len(self.knots), len(self.target_knots))

    def codes(self, model: Any, X: Any, y: Any) -> list[NDArray[np.float64]]:
        """Return where every residual and every target lies among the knots."""
        # proof: SCORE-TABLE
        held = given(y, "y must have one target for each row.")
        target = held.numbers()
        if np.isnan(target).all() and any(isinstance(cell, str) for cell in held.cells()):
            raise InvalidData("the targets must be numbers.")
        cut = np.clip(target, self.low, self.high)
        said = np.asarray(_called(model.predict, X), dtype=float)
        if said.shape != target.shape:
            raise InvalidData("the model must give one number for each row.")
        rest = np.where(np.isnan(said), np.inf, cut - said)
        return [
            np.where(np.isnan(target), -1.0, np.interp(values, knots, np.arange(len(knots))))
            for values, knots in ((rest, self.knots), (cut, self.target_knots))
        ]

    def scores(self, sums: Sequence[Floats], **more: Any) -> RegressionScores:
        """Return what the counts say."""
        first, second = map(np.asarray, sums)
        return RegressionScores(self.knots, first, self.target_knots, second, **more)


Layout = BinaryLayout | MulticlassLayout | RegressionLayout


def layout_for(model: Any, bins: Any = None, target_bounds: Any = None) -> Layout:
    """Return the layout for a fitted model, from public facts: its classes and what it offers."""
    if not hasattr(model, "classes_"):
        if target_bounds is None:  # those of the model are public, or were released with it
            target_bounds = getattr(model, "target_bounds_", getattr(model, "target_bounds", None))
        refuse(
            (
                isinstance(model, type | ClassifierMixin) or not hasattr(model, "predict"),
                "the model must be fitted, and have predict.",  # a fitted classifier has classes_
            ),
            (
                target_bounds is None or isinstance(target_bounds, str),
                "a model that predicts numbers needs target_bounds=(low, high), public bounds of "
                "the target.",
            ),
        )
        low, high = (_validate.real("target_bounds", each) for each in tuple(target_bounds))
        if not low < high:
            raise InvalidParameter(f"target_bounds needs low < high; got {low!r} and {high!r}.")
        return RegressionLayout(low, high, _few(_RESIDUAL_BINS if bins is None else bins))
    classes = tuple(np.asarray(model.classes_).tolist())
    if target_bounds is not None:
        raise InvalidParameter("target_bounds is for models that predict numbers.")
    known = hasattr(model, "predict_proba")
    if bins is None and not known and not hasattr(model, "decision_function"):
        bins = (0.0, 0.5, 1.0)  # answers are all there is
    if len(classes) == 2:
        return BinaryLayout(classes, _edges(bins, EDGES), known)
    return MulticlassLayout(classes, _edges(bins, _TENTHS) if known else ())


def _few(bins: Any) -> int:
    count = _validate.integer("bins", bins, least=2)
    if count > _MOST_BINS:
        raise InvalidParameter(f"bins must be at most {_MOST_BINS}; got {count}.")
    return count


def _edges(bins: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Return public ends of bins: the usual ones, so many of equal width, or those given."""
    if bins is None:
        return usual
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        return tuple(np.linspace(0.0, 1.0, _few(bins) + 1).round(12).tolist())
    listed = bins if isinstance(bins, Iterable) and not isinstance(bins, str) else ()
    ends = tuple(_validate.real("bins", each) for each in listed)
    if len(ends) < 3 or (ends[0], ends[-1]) != (0.0, 1.0) or (np.diff(ends) <= 0.0).any():
        raise InvalidParameter("bins must be a number, or increasing ends from 0 to 1.")
    _few(len(ends) - 1)
    return ends


def _called(method: Any, X: Any) -> Any:
    """Call a model; what its own messages may quote from the rows stays inside.

    Linear algebra rounds a row by how many others there are, and a last bit decides on which side
    of an edge a score lies. So rows go in blocks of one size, the last one filled up.
    """
    # proof: ROW-LOCAL
    try:
        column = next(iter(X.values())) if isinstance(X, Mapping) else X
        count = column.shape[0] if hasattr(column, "shape") else len(column)
        places = np.minimum(np.arange(-(-count // _BLOCK) * _BLOCK), count - 1)
        parts = np.split(places, range(_BLOCK, len(places), _BLOCK))
        found = np.concatenate([np.asarray(method(taken(X, part))) for part in parts])
        return found[:count] if len(found) == len(places) else found
    except NoisetteError:
        raise
    except Exception as error:
        name = type(error).__name__
    raise InvalidData(f"the model could not score the rows ({name}).")


def answers_of(model: Any, X: Any) -> Floats:
    """Return probabilities, or scores brought into (0, 1) by a public map."""
    if hasattr(model, "predict_proba"):
        return np.asarray(_called(model.predict_proba, X), dtype=float)
    if not hasattr(model, "decision_function"):
        labels = numbers_of(tuple(np.asarray(model.classes_).tolist()), _called(model.predict, X))
        whole = np.arange(len(model.classes_)) == labels[:, None]
        return np.where(labels[:, None] < 0, np.nan, whole)
    found = np.asarray(_called(model.decision_function, X), dtype=float)
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-found))) if found.ndim == 1 else found


def second_of(model: Any, X: Any, rows: int) -> Floats:
    """Return the score of the second class, one for each row."""
    scores = answers_of(model, X)
    column = scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores
    if column.shape != (rows,):
        raise InvalidData("the model must give one score for each row.")
    return column


def numbers_of(classes: tuple[Any, ...], y: Any) -> NDArray[np.int64]:
    """Return the number of every label, -1 for one that is not among the classes.

    Texts are refused for a model of numbers, and numbers for one of texts: nobody would count.
    """
    # proof: ROW-LOCAL
    held = given(y, "y must have one label for each row.")
    held.check("y")
    labels = held.cells().tolist()
    known, found = (set(map(_kind, set(map(type, each)))) for each in (classes, labels))
    found.discard("")
    if found and not known & found:
        shown = ", ".join(map(repr, classes[:_SHOWN])) + (", ..." if len(classes) > _SHOWN else "")
        raise InvalidData(
            f"the labels are {' and '.join(sorted(found))}, but the classes of the model are "
            f"{' and '.join(sorted(known))} ({shown}), so that no row would count; bring y into "
            "the model's form."
        )
    place: dict[Any, int] = dict(zip(classes, range(len(classes)), strict=True))

    def number(label: Any) -> int:
        try:
            return place.get(label, -1)
        except TypeError:  # a list or the like, which no class can be
            return -1

    return np.array(list(map(number, labels)), dtype=np.int64)


def _kind(kind: type) -> str:
    """Return what labels of a type are, in a word; nothing for missing ones."""
    if kind.__name__ in ("NoneType", "NAType"):
        return ""
    other = "texts" if issubclass(kind, str) else "neither numbers nor texts"
    return "numbers" if issubclass(kind, Number | np.bool_) else other  # True and 1 are the same


def places_of(codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return rows, cells and shares of one column of codes; the shares of a row add up to 1."""
    rows = np.flatnonzero(codes >= 0)
    cells = np.floor(codes[rows]).astype(np.int64)
    rest = np.asarray(codes[rows] - cells, dtype=float)
    part = np.flatnonzero(rest > 0.0)
    return (
        np.concatenate([rows, rows[part]]),
        np.concatenate([cells, cells[part] + 1]),
        np.concatenate([1.0 - rest, rest[part]]),
    )


def _binned(first: NDArray[Any], scores: Floats, edges: tuple[float, ...]) -> NDArray[np.int64]:
    """Return cells of (first) x (bin of the score); no score is the lowest one."""
    bins = np.clip(np.searchsorted(edges, scores, side="left") - 1, 0, len(edges) - 2)
    return _joined(first, np.where(np.isnan(scores), 0, bins), len(edges) - 1)


def _joined(first: NDArray[Any], second: NDArray[Any], size: int) -> NDArray[np.int64]:
    return np.where(first < 0, -1, first * size + second).astype(np.int64)
