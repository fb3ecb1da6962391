"""Choosing epsilon on a table that everybody may see: accuracy and AUC against epsilon."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noisette import _validate
from noisette._typing import Floats, Indices
from noisette.core.adjacency import Adjacency
from noisette.core.cells import taken
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter, MissingExtra, WeakModelWarning
from noisette.fitting.units import Persons, Unit
from noisette.scores import BinaryScores, measure
from noisette.tables.frame import Frame
from noisette.tuning.budget import divided

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

ONLY_PUBLIC = (
    "This table must be public or synthetic: the figures are exact facts about it, nothing "
    "protects the people in it, and nothing was charged."
)


@dataclass(frozen=True, eq=False)
class EpsilonCurve:
    """How good a model is at each epsilon, on a public table; `compare_epsilons` makes it.

    Parameters
    ----------
    epsilons : tuple of float
        Increasing.
    accuracy : ndarray of shape (len(epsilons), repeats)
        On rows that had no part in the training, each time others.
    auc : ndarray of shape (len(epsilons), repeats) or None
        The same for the area under the ROC curve; None for more than two classes.
    plain_accuracy, plain_auc : ndarray of shape (repeats,)
        Of a logistic regression without privacy on the same rows; `plain_auc` may be None.
    majority : ndarray of shape (repeats,)
        The accuracy of the most common answer, given to everybody.
    answer : object
        That answer.
    rows : int
        How many rows (persons, where there are any) each model was trained on.
    delta : float
        The delta of every model.
    adjacency : str
        Whose neighbour epsilon is about.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression, tuning
    >>> X, y = make_classification(2000, 5, random_state=0)
    >>> model = LogisticRegression(norm_bound=3.0, classes=[0, 1])
    >>> found = tuning.compare_epsilons(model, X, y, [0.05, 5.0], repeats=2)
    >>> low, high = found.accuracy.mean(axis=1)
    >>> bool(low < high), found.rows, found.to_dict()["repeats"], len(found.plot().axes)
    (True, 1600, 2, 2)
    >>> found.lines()[1]
    'epsilon         accuracy          AUC'

    """

    epsilons: tuple[float, ...]
    accuracy: Floats
    auc: Floats | None
    plain_accuracy: Floats
    plain_auc: Floats | None
    majority: Floats
    answer: Any
    rows: int
    delta: float
    adjacency: str

    @property
    def repeats(self) -> int:
        """How often everything was repeated, with other rows and other noise."""
        return len(self.majority)

    def to_dict(self) -> dict[str, Any]:
        """Return means and standard deviations for JSON.

        Returns
        -------
        dict
            The figures by name.

        """
        areas = None if self.auc is None else list(map(_told, self.auc))
        return {
            "public": ONLY_PUBLIC, "epsilons": list(self.epsilons), "delta": self.delta,
            "adjacency": self.adjacency, "rows": self.rows, "repeats": self.repeats,
            "accuracy": list(map(_told, self.accuracy)), "auc": areas,
            "without_privacy": {
                "accuracy": _told(self.plain_accuracy),
                "auc": None if self.plain_auc is None else _told(self.plain_auc),
            },
            "majority": {"answer": self.answer, "accuracy": _told(self.majority)},
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Return the figures as lines of text.

        Returns
        -------
        list of str
            For a terminal.

        """
        areas = [None] * len(self.epsilons) if self.auc is None else self.auc
        found = [
            f"{len(self.accuracy)} epsilons, {self.repeats} times each, {self.rows:,} rows to "
            f"train on, delta = {self.delta:g} ({self.adjacency}): mean ± standard deviation",
            f"{'epsilon':<16}{'accuracy':<18}{'AUC' if self.auc is not None else ''}".rstrip(),
        ]
        for epsilon, right, area in zip(self.epsilons, self.accuracy, areas, strict=True):
            gain = right - self.majority  # on the same rows
            sure = gain.mean() > 2.0 * _spread(gain) / math.sqrt(len(gain))
            remark = "" if sure else "not clearly better than the majority"
            found.append(_row(f"{epsilon:g}", right, area, remark))
        found.append(_row("without privacy", self.plain_accuracy, self.plain_auc))
        return [*found, _row(f"always {self.answer!r}"[:15], self.majority, None), ONLY_PUBLIC]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def plot(self) -> Any:
        """Return a figure of accuracy (and AUC) against epsilon; needs matplotlib.

        Returns
        -------
        matplotlib.figure.Figure
            One picture for each score, bands of one standard deviation.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.

        """
        shown = [("accuracy", self.accuracy, self.plain_accuracy, self.majority)]
        if self.auc is not None and self.plain_auc is not None:
            shown.append(("AUC", self.auc, self.plain_auc, np.full(1, 0.5)))
        figure = require_figures()(figsize=(5.4 * len(shown), 4.4), layout="constrained")
        for axes, each in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            _picture(axes, self.epsilons, *each)
            axes.set_xlabel(f"ε at δ = {self.delta:g}, {self.adjacency}")
        figure.suptitle(f"public table, {self.rows:,} rows to train on", fontsize=11)
        return figure


def _told(values: Floats) -> dict[str, float]:
    return {"mean": float(values.mean()), "deviation": _spread(values)}


def _spread(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _row(name: str, right: Floats, area: Floats | None, remark: str = "") -> str:
    line = f"{name:<16}"
    for each in (right, area):
        if each is not None:
            line += f"{f'{each.mean():.3f} ± {_spread(each):.3f}':<18}"
    return (line + remark).rstrip()


def require_figures() -> Any:
    """Return matplotlib's figure; refuse in one sentence where it is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    return Figure


def _picture(
    axes: Any, epsilons: tuple[float, ...], name: str, values: Floats, plain: Floats, least: Floats
) -> None:
    mean, wide = values.mean(axis=1), np.array([_spread(each) for each in values])
    axes.plot(epsilons, mean, "o-", color="#0072B2", lw=2, label="private, mean of repeats")
    axes.fill_between(
        epsilons, mean - wide, mean + wide, color="#0072B2", alpha=0.2, lw=0,
        label="± one standard deviation",
    )  # fmt: skip
    axes.axhline(plain.mean(), color="#009E73", ls="--", label="without privacy")
    chance = "majority answer" if name == "accuracy" else "guessing"
    axes.axhline(least.mean(), color="#B34700", ls=":", label=chance)
    axes.set(xscale="log", ylabel=f"{name} on other rows")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.grid(alpha=0.3, lw=0.5)
    axes.legend(frameon=False, fontsize=8)


def compare_epsilons(
    estimator: Any, X: Any, y: Any, epsilons: Sequence[float] = EPSILONS, *, repeats: int = 5,
    test_share: float = 0.2, rows: int | None = None, persons: Any = None, seed: int = 0,
) -> EpsilonCurve:  # fmt: skip
    """Return how good a private classifier is at each epsilon, on a **public** table.

    Every number is an exact fact about the table, so it must be one that everybody may see: public,
    or synthetic of the same shape. Noise comes from a seed; nothing is charged, and nobody is
    protected. Never pass sensitive rows.

    Parameters
    ----------
    estimator : estimator
        A private classifier of this library; its epsilon is replaced.
    X : array_like or table
        Public rows, as the estimator takes them.
    y : array_like of shape (n,)
        Their labels.
    epsilons : sequence of float, default (0.1, 0.3, 1, 3, 10)
        What to compare.
    repeats : int, default 5
        How often, each time with other rows to test on and other noise.
    test_share : float, default 0.2
        The part of the rows to test on.
    rows : int, optional
        How many rows (persons) to train on: about as many as the sensitive table has. All that
        are not tested on, unless given.
    persons : array_like of shape (n,) or Persons, optional
        Whose row each row is, where ``fit`` will get persons. A schema names them itself.
    seed : int, default 0
        Where rows and noise come from.

    Returns
    -------
    EpsilonCurve
        Means, spreads, the majority answer and a model without privacy; ``plot()`` draws them.

    Raises
    ------
    InvalidParameter
        If the estimator has a ledger, or a parameter is out of range.
    InvalidData
        If X or y has the wrong shape or entries.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression, tuning
    >>> X, y = make_classification(500, 5, random_state=0)
    >>> model = LogisticRegression(norm_bound=3.0, classes=[0, 1])
    >>> tuning.compare_epsilons(model, X, y, [1.0, 9.0], repeats=2, rows=300).rows
    300

    """
    try:
        asked = tuple(sorted({_validate.epsilon(each) for each in epsilons}))
    except TypeError:
        asked = ()
    if not asked:
        raise InvalidParameter("epsilons must be a list of numbers such as [0.3, 1, 3].")
    names = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if not {"epsilon", "adjacency", "random_state"} <= set(names) or not is_classifier(estimator):
        raise InvalidParameter("estimator must be a private classifier of noisette.")
    if names.get("ledger") is not None:
        raise InvalidParameter(
            "the table must be public, so that there is nothing to charge; take the ledger off the "
            "estimator, and never compare epsilons on rows that a ledger protects."
        )
    share = _validate.fraction("test_share", test_share)
    repeats, y = _validate.integer("repeats", repeats), np.asarray(y)
    if hasattr(estimator, "schema"):
        X = Frame.of(X, estimator._read_schema(target=False))
    unit = _unit(X, y, persons)
    randomness = Randomness.from_seed(_validate.integer("seed", seed, least=0))
    features, found = features_of(estimator, X), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)  # the figure shows it
        for _ in range(repeats):
            parts = _divided(unit, share, rows, randomness)
            found.append(
                _once(estimator, (X, y, features), parts, asked, persons, unit, randomness)
            )
    plain = [scores[-1] for scores in found]
    accuracy, plain_accuracy = _values("accuracy", found)
    two = isinstance(plain[0], BinaryScores)
    auc, plain_auc = _values("auc", found) if two else (None, None)
    return EpsilonCurve(
        asked, accuracy, auc, plain_accuracy, plain_auc,
        majority=np.array([each.majority[1].value for each in plain]),
        answer=plain[0].majority[0], rows=parts[2], delta=float(estimator.delta),
        adjacency=str(Adjacency.of(estimator.adjacency)),
    )  # fmt: skip


def _values(name: str, found: list[list[Any]]) -> tuple[Floats, Floats]:
    """Return a row for each epsilon, a column for each repeat, and those without privacy apart."""
    values = np.array([[getattr(each, name).value for each in scores] for scores in found]).T
    return values[:-1], values[-1]


def _unit(X: Any, y: Any, persons: Any) -> Unit:
    """Return whose rows they are, so that nobody is on both sides."""
    if y.ndim != 1 or len(y) < 10:
        raise InvalidData("y must be one label for each row, of at least ten rows.")
    count = X.rows if isinstance(X, Frame) else len(X) if not hasattr(X, "shape") else X.shape[0]
    if count != len(y):
        raise InvalidData(f"X has {count} rows and y has {len(y)} labels.")
    named = X.persons() if isinstance(X, Frame) else None
    if named is not None and persons is not None:
        raise InvalidParameter("the schema names its persons itself; leave out persons.")
    return Unit.of(persons if named is None else named, count)


def _divided(
    unit: Unit, share: float, rows: int | None, randomness: Randomness
) -> tuple[Indices, Indices, int]:
    """Return the rows to train on, those to test on, and how many units train."""
    train, test = divided(unit.count, share, Adjacency.REPLACE_ONE, randomness)
    if rows is not None:
        if _validate.integer("rows", rows, least=2) > len(train):
            raise InvalidParameter(
                f"rows must be at most {len(train)}, what the table has beside the test part; "
                f"got {rows}."
            )
        train = randomness.generator.permutation(train)[:rows]
    return np.sort(unit.rows_of(train)), np.sort(unit.rows_of(test)), len(train)


def _once(
    estimator: Any, data: tuple[Any, Any, Any], parts: tuple[Indices, Indices, int],
    epsilons: tuple[float, ...], persons: Any, unit: Any, randomness: Randomness,
) -> list[Any]:  # fmt: skip
    """Return the scores of one division of the rows, the smallest epsilon first, privacy none last.

    Whose rows they are is told again, by the same rules, where the caller told it.
    """
    (X, y, features), (train, test, units) = data, parts
    if len(np.unique(y[train])) < 2:
        raise InvalidData("the rows to train on have a single class; give more rows.")
    more, scores = {}, []
    if persons is not None:
        more["persons"] = Persons.of(unit.index[train], full=unit.full, max_rows=unit.max_rows)
    X_train, X_test = taken(X, train), taken(X, test)
    for epsilon in epsilons:
        noise = Randomness.from_seed(int(randomness.generator.integers(2**31)))
        model = clone(estimator).set_params(epsilon=epsilon, random_state=noise)
        if "population" in model.get_params() and model.adjacency == "add-remove":
            model.set_params(population=model.population or units)
        scores.append(measure(model.fit(X_train, y[train], **more), X_test, y[test]))
    scaler = StandardScaler(with_mean=not sparse.issparse(features))
    plain = make_pipeline(scaler, LogisticRegression(max_iter=2000))
    return [*scores, measure(plain.fit(features[train], y[train]), features[test], y[test])]


_LEVELS = 100  # of a column: the most common ones


def features_of(estimator: Any, X: Any) -> Any:
    """Return the rows as a matrix of numbers; X has a `Frame` where the estimator takes cells."""
    if not isinstance(X, Frame):
        return X if sparse.issparse(X) else _filled(np.asarray(X, dtype=float).reshape(len(X), -1))
    used = [column for column in estimator._read_schema(target=False).columns if column.used]
    return np.hstack([(_number if c.reading.word else _levels)(X, c.name) for c in used])


def _filled(rows: Floats) -> Floats:
    """Return rows whose missing entries are the mean of their column."""
    lost = ~np.isfinite(rows)
    known = np.maximum((~lost).sum(axis=0), 1)
    return np.where(lost, np.where(lost, 0.0, rows).sum(axis=0) / known, rows)


def _number(frame: Frame, name: str) -> Floats:
    found = frame.numbers(name)[:, None]
    return np.hstack([_filled(found), ~np.isfinite(found)]).astype(float)


def _levels(frame: Frame, name: str) -> Floats:
    codes, _ = frame.codes(name)
    common = np.argsort(-np.bincount(codes[codes >= 0], minlength=1), kind="stable")[:_LEVELS]
    return np.asarray(codes[:, None] == common, dtype=float)
