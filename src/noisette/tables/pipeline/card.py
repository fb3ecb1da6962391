"""`card_of`: a fitted linear model as a scoring card, which a few lines of Python evaluate.

The card is plain JSON: an intercept, and for each column how a cell becomes pairs of a value and
its weights. A number is a point between two knots, goes through views (a curve, moved and scaled),
or stands as it is; a category is a level, or a slot by a public hash. The score is the intercept
and all values times weights, after the row was cut to the length ``cut``, where there is one.
Everything on the card was released. ``docs/additive.md`` has the lines that evaluate it.
"""

from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.models import PoissonRegressor
from noisette.tables import Schema

CARD = 2
"""The format of scoring cards."""


def card_of(model: Any, schema: Schema | None = None) -> dict[str, Any]:
    """Return the card of a fitted model; refuse what has no such form.

    `schema` is that of a model of matrices which reads tables through it.
    """
    if not hasattr(model, "privacy_"):
        raise InvalidParameter("only a fitted model can be exported.")
    if getattr(model, "pairs_", ()):
        raise InvalidParameter(
            "a model with pairs of columns cannot be exported, since each cell of a card or graph "
            "counts by itself; train without pairs to export."
        )
    facts = getattr(model, "schema_", schema)
    weights = np.atleast_2d(np.asarray(model.coef_)).T
    scale = 1.0
    if facts is None:
        columns = _features(model, weights)
    else:
        scale = 1.0 if hasattr(model, "schema_") else facts.row_norm
        columns = _columns(facts, weights / scale)
    node: dict[str, Any] = {
        "noisette_card": CARD,
        "target": None if facts is None else facts.target,
        "kind": "classifier" if hasattr(model, "classes_") else "regressor",
        "intercept": np.atleast_1d(np.asarray(model.intercept_)).tolist(),
        "cut": _cut(model, facts, scale),
        "columns": columns,
        "guarantee": model.privacy_.statement(),
    }
    if node["kind"] == "regressor":
        counts = isinstance(model, PoissonRegressor)
        limits = getattr(model, "target_bounds_", None) if hasattr(model, "schema_") else None
        limits = model.target_bounds if counts else limits
        link = "log" if counts else "identity"
        return node | {"link": link, "bounds": None if limits is None else list(map(float, limits))}
    probabilities = hasattr(model, "predict_proba")
    return node | {"classes": model.classes_.tolist(), "probabilities": probabilities}


def _cut(model: Any, schema: Schema | None, scale: float) -> float | None:
    """Return the length to which rows are cut before they are scored, None for none."""
    if hasattr(model, "schema_"):
        return None
    lengths = [] if schema is None else [scale]
    if not hasattr(model, "classes_") and model.norm_bound is not None:
        lengths.append(float(model.norm_bound) * scale)  # regressors predict of cut rows
    return min(lengths, default=None)


def _features(model: Any, weights: Floats) -> list[dict[str, Any]]:
    """Return the columns of a matrix: each number counts as it is."""
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    names = names or [f"feature {k}" for k in range(len(weights))]
    return [
        {"name": name, "slope": row.tolist(), "missing": [], "codes": []}
        for name, row in zip(names, weights, strict=True)
    ]


def _columns(schema: Schema, weights: Floats) -> list[dict[str, Any]]:
    columns, start = [], 0
    for column in schema.columns:
        stop = start + len(column.features)
        if stop > start:
            columns.append({"name": column.name, **column.card(weights[start:stop])})
        start = stop
    return columns
