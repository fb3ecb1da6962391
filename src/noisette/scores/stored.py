"""Scores in a model file: the counts as JSON, and back; everything else follows from them."""

from typing import Any

import numpy as np

from noisette.guarantee import Guarantee
from noisette.scores.binary import BinaryScores
from noisette.scores.multiclass import MulticlassScores

__all__ = ["restored", "stored"]

_LISTS = {
    BinaryScores: ("highs", "centres", "counts"),
    MulticlassScores: ("table", "highs", "confidence"),
}
_PLAIN: dict[type, dict[str, type]] = {
    BinaryScores: {"deviation": float, "binned": bool, "probabilities": bool},
    MulticlassScores: {"deviation": float},
}
_KINDS: dict[str, Any] = {"binary": BinaryScores, "multiclass": MulticlassScores}


def stored(scores: BinaryScores | MulticlassScores) -> dict[str, Any]:
    """Return the counts as JSON can hold them; labels and guarantee are those of the model."""
    kind = type(scores)
    (name,) = [key for key, value in _KINDS.items() if value is kind]
    node: dict[str, Any] = {"kind": name, "notes": list(scores.notes)}
    node |= {key: getattr(scores, key).tolist() for key in _LISTS[kind]}
    return node | {key: getattr(scores, key) for key in _PLAIN[kind]}


def restored(
    node: dict[str, Any], classes: list[Any], guarantee: Guarantee
) -> BinaryScores | MulticlassScores:
    """Return the scores of a model file; ValueError or TypeError if they do not fit together."""
    kind = _KINDS[node["kind"]]
    fields: dict[str, Any] = {
        key: np.asarray(node[key], dtype=np.float64).reshape(_shape(key, node, classes))
        for key in _LISTS[kind]
    }
    if not all(bool(np.isfinite(value).all()) for value in fields.values()):
        raise ValueError
    notes = tuple(map(str, node["notes"]))
    fields |= {key: to(node[key]) for key, to in _PLAIN[kind].items()}
    found: BinaryScores | MulticlassScores = kind(
        classes, notes=notes, privacy_=guarantee, **fields
    )
    return found


def _shape(key: str, node: dict[str, Any], classes: list[Any]) -> tuple[int, ...]:
    bins = len(node["highs"])
    rows = {"counts": 2, "confidence": 2, "table": len(classes)}
    return (rows[key], len(classes) if key == "table" else bins) if key in rows else (bins,)
