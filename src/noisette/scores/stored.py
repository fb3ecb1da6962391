"""Scores in a model file: the counts as JSON, and back; everything else follows from them."""

from typing import Any

import numpy as np

from noisette.core.guarantee import Guarantee
from noisette.scores.binary import BinaryScores
from noisette.scores.measure import AnyScores
from noisette.scores.multiclass import MulticlassScores
from noisette.scores.regression import RegressionScores

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
