"""`measure`: the scores of rows that may be counted. They cost nothing, and nothing covers them.

Scores in a model file (`stored`, `restored`) are the counts as JSON; all else follows from them.
"""

from dataclasses import fields
from typing import Any, cast

import numpy as np

from noisette.core.guarantee import Guarantee
from noisette.scores.binary import BinaryScores
from noisette.scores.layouts import BinaryLayout, layout_for, numbers_of, places_of, second_of
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
    y, fine = np.asarray(y), tuple[Any, ...]()
    if not hasattr(model, "classes_"):
        target = y.astype(float)
        if target_bounds is None:
            target_bounds = float(np.nanmin(target)), float(np.nanmax(target)) + 1e-12
        fine = (_FINE, target_bounds)
    layout = layout_for(model, *fine)
    if isinstance(layout, BinaryLayout):
        scores = second_of(model, X, len(y))
        return BinaryScores.of(
            layout.classes, np.where(np.isnan(scores), 0.0, scores), numbers_of(layout.classes, y),
            weights=sample_weight, probabilities=layout.probabilities,
        )  # fmt: skip
    sums = []
    for codes, size in zip(layout.codes(model, X, y), layout.sizes, strict=True):
        rows, cells, shares = places_of(codes)
        if sample_weight is not None:
            shares = shares * np.asarray(sample_weight, dtype=float)[rows]
        sums.append(np.bincount(cells, shares, minlength=size).astype(np.float64))
    return layout.scores(sums)


_KINDS: dict[str, Any] = {
    "binary": BinaryScores, "multiclass": MulticlassScores, "regression": RegressionScores,
}  # fmt: skip
_BESIDE = {"residuals": "knots", "targets": "target_knots"}  # counts, and where they were counted
_OF_MODEL = ("classes", "notes", "privacy_")


def stored(scores: AnyScores) -> dict[str, Any]:
    """Return the counts as JSON can hold them; labels and guarantee are those of the model."""
    (name,) = [key for key, value in _KINDS.items() if value is type(scores)]
    return {"kind": name, "notes": list(scores.notes)} | {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in vars(scores).items()
        if key not in _OF_MODEL
    }


def restored(node: dict[str, Any], classes: list[Any] | None, guarantee: Guarantee) -> AnyScores:
    """Return the scores of a model file; ValueError or TypeError if they do not fit together.

    `classes` is None for a model of numbers.
    """
    kind = _KINDS[node["kind"]]
    if (kind is RegressionScores) != (classes is None):
        raise ValueError
    K = len(classes or ())
    rows = {"counts": (2,), "confidence": (2,), "table": (K,)}
    made: dict[str, Any] = {"notes": tuple(map(str, node["notes"])), "privacy_": guarantee}
    for field in fields(kind):
        key = field.name
        if key in _OF_MODEL:
            continue
        to: Any = field.type
        if to in (float, bool):
            made[key] = to(node[key])
            continue
        beside = _BESIDE.get(key, key) if classes is None else "highs"
        size = K if key == "table" else len(node[beside])
        made[key] = np.asarray(node[key], dtype=np.float64).reshape(*rows.get(key, ()), size)
        rising = size > 1 and (made[key][..., 1:] > made[key][..., :-1]).all()
        if not np.isfinite(made[key]).all() or (key in _BESIDE.values() and not rising):
            raise ValueError
    return cast(AnyScores, kind(*(() if classes is None else (classes,)), **made))
