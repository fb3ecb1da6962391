"""`measure`: the scores of rows that may be counted. They cost nothing, and nothing covers them.

Scores in a model file (`stored`, `restored`) are the counts as JSON; all else follows from them.
"""

from typing import Any

import numpy as np

from noisette.core.guarantee import Guarantee
from noisette.scores.binary import BinaryScores
from noisette.scores.layouts import (
    BinaryLayout,
    Layout,
    answers_of,
    layout_for,
    numbers_of,
    places_of,
    second_of,
)
from noisette.scores.multiclass import MulticlassScores
from noisette.scores.regression import RegressionScores

AnyScores = BinaryScores | MulticlassScores | RegressionScores
"""What a model of two classes, of several, or of numbers gets."""

_FINE = 400


def measure(
    model: Any, X: Any, y: Any, *, sample_weight: Any = None, target_bounds: Any = None
) -> AnyScores:
    """Return exact scores of a model: facts about these rows, which are not private.

    Use `noisette.evaluate` for rows of people who are to be protected.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``predict_proba`` or ``decision_function``, or a model of numbers
        with ``predict``.
    X : array_like or table
        What the model takes.
    y : array_like of shape (n,)
        The truth; a label that the model does not know counts nowhere.
    sample_weight : array_like of shape (n,), optional
        How much each row counts.
    target_bounds : tuple of float, optional
        For models of numbers: the bounds to which targets are cut; those of y unless given.

    Returns
    -------
    BinaryScores, MulticlassScores or RegressionScores
        With error bars of the sample alone.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import LogisticRegression
    >>> from noisette.scores import measure
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression(epsilon=5.0, norm_bound=1.0, random_state=0).fit(X, y)
    >>> measure(model, X, y).auc.value
    1.0

    """
    y = np.asarray(y)
    if not hasattr(model, "classes_"):
        target = y.astype(float)
        if target_bounds is None:
            target_bounds = float(np.nanmin(target)), float(np.nanmax(target)) + 1e-12
        return _counted(layout_for(model, _FINE, target_bounds), model, X, y, sample_weight)
    layout = layout_for(model)
    if isinstance(layout, BinaryLayout):
        scores = second_of(answers_of(model, X), len(y))
        return BinaryScores.of(
            layout.classes, np.where(np.isnan(scores), 0.0, scores), numbers_of(layout.classes, y),
            weights=sample_weight, probabilities=layout.probabilities,
        )  # fmt: skip
    return _counted(layout, model, X, y, sample_weight)


def _counted(layout: Layout, model: Any, X: Any, y: Any, weights: Any) -> AnyScores:
    sums = []
    for codes, size in zip(layout.codes(model, X, y), layout.sizes, strict=True):
        rows, cells, shares = places_of(codes)
        w = shares if weights is None else shares * np.asarray(weights, dtype=float)[rows]
        sums.append(np.bincount(cells, w, minlength=size).astype(np.float64))
    return layout.scores(sums)


_LISTS = {
    BinaryScores: ("highs", "centres", "counts"),
    MulticlassScores: ("table", "highs", "confidence"),
    RegressionScores: ("knots", "residuals", "target_knots", "targets"),
}
_PLAIN: dict[type, dict[str, type]] = {
    BinaryScores: {"deviation": float, "binned": bool, "probabilities": bool},
    MulticlassScores: {"deviation": float},
    RegressionScores: {"deviation": float},
}
_KINDS: dict[str, Any] = {
    "binary": BinaryScores, "multiclass": MulticlassScores, "regression": RegressionScores,
}  # fmt: skip
_BESIDE = {"residuals": "knots", "targets": "target_knots"}  # counts, and where they were counted


def stored(scores: AnyScores) -> dict[str, Any]:
    """Return the counts as JSON can hold them; labels and guarantee are those of the model."""
    kind = type(scores)
    (name,) = [key for key, value in _KINDS.items() if value is kind]
    node: dict[str, Any] = {"kind": name, "notes": list(scores.notes)}
    node |= {key: getattr(scores, key).tolist() for key in _LISTS[kind]}
    return node | {key: getattr(scores, key) for key in _PLAIN[kind]}


def restored(node: dict[str, Any], classes: list[Any] | None, guarantee: Guarantee) -> AnyScores:
    """Return the scores of a model file; ValueError or TypeError if they do not fit together.

    `classes` is None for a model of numbers.
    """
    kind = _KINDS[node["kind"]]
    if (kind is RegressionScores) != (classes is None):
        raise ValueError
    fields: dict[str, Any] = {
        key: np.asarray(node[key], dtype=np.float64).reshape(_shape(key, node, classes or []))
        for key in _LISTS[kind]
    }
    if not all(bool(np.isfinite(value).all()) for value in fields.values()):
        raise ValueError
    places = [fields[key] for key in _BESIDE.values() if key in fields]
    if not all(len(each) > 1 and bool((np.diff(each) > 0.0).all()) for each in places):
        raise ValueError
    notes = tuple(map(str, node["notes"]))
    fields |= {key: to(node[key]) for key, to in _PLAIN[kind].items()}
    labels = () if classes is None else (classes,)
    found: AnyScores = kind(*labels, notes=notes, privacy_=guarantee, **fields)
    return found


def _shape(key: str, node: dict[str, Any], classes: list[Any]) -> tuple[int, ...]:
    if node["kind"] == "regression":
        return (len(node[_BESIDE.get(key, key)]),)
    bins = len(node["highs"])
    rows = {"counts": 2, "confidence": 2, "table": len(classes)}
    return (rows[key], len(classes) if key == "table" else bins) if key in rows else (bins,)
