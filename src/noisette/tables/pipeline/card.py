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
from noisette.tables.kinds import Categorical, Column, Dates, Hashed, Hats, Ignored, Numeric, View
from noisette.tables.kinds.numeric import CURVES

CARD = 2
"""The format of scoring cards."""

Pairs = list[list[Any]]


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
        if isinstance(column, Ignored) or not column.features:
            continue
        stop = start + len(column.features)
        columns.append({"name": column.name, **_column(column, weights[start:stop])})
        start = stop
    return columns


def _column(column: Column, weights: Floats) -> dict[str, Any]:
    inner = column.column if isinstance(column, Dates) else column
    dated = {"days": True} if isinstance(column, Dates) else {}
    if isinstance(inner, Hats):
        return _hats(inner, weights) | dated
    if isinstance(inner, Numeric):
        return _views(inner, weights) | dated
    if isinstance(inner, Categorical):
        return _levels(inner, weights)
    assert isinstance(inner, Hashed)
    return _slots(inner, weights)


def _hats(column: Hats, weights: Floats) -> dict[str, Any]:
    knots, at = column.knots, weights[: len(column.knots)].tolist()
    if len(knots) < 2:  # one knot has no feature
        knots, at = (0.0, 1.0), np.zeros((2, weights.shape[1])).tolist()
    middle = column.knots[len(column.knots) // 2] if column.center is None else column.center
    left = min(max(int(np.searchsorted(knots, middle, side="right")) - 1, 0), len(knots) - 2)
    share = float(np.clip((middle - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0))
    missing = [[1.0 - share, at[left]], [share, at[left + 1]]]
    if column.missing_slot:
        missing.append([1.0, weights[-1].tolist()])
    return {
        "knots": list(knots), "weights": at, "missing": missing, "codes": list(column.missing),
    }  # fmt: skip


def _views(column: Numeric, weights: Floats) -> dict[str, Any]:
    missing = [[1.0, weights[-1].tolist()]] if column.missing_slot else []
    return {
        "views": [_view(view) for view in column.views],
        "weights": weights[: len(column.views)].tolist(),
        "missing": missing,
        "codes": list(column.missing),
    }


def _view(view: View) -> dict[str, Any]:
    """Return (curve(t) - zero) * scale, squared if asked, for t between low and high."""
    curve = CURVES[view.curve]
    low, high = curve(np.array([view.low, view.high]))
    zero = (low + high) / 2.0
    if view.center is not None:
        zero = curve(np.array([view.center]))[0]
    return {
        "low": view.low, "high": view.high, "curve": view.curve, "zero": float(zero),
        "scale": float(view.width / (high - low)), "power": 2 if view.square else 1,
    }  # fmt: skip


def _levels(column: Categorical, weights: Floats) -> dict[str, Any]:
    if column.patterns:
        raise InvalidParameter(
            f"column {column.name!r} has ranges or prefixes of codes, which have no place on a "
            "scoring card; list its levels."
        )
    rows = iter(weights.tolist())
    levels: dict[str, Pairs] = {}
    for group, members in column.groups:
        pairs = [] if group == column.reference else [[column.weight, next(rows)]]
        levels |= dict.fromkeys(members, pairs)
    other = [[column.weight, next(rows)]] if column.other else []
    missing = [[column.weight, next(rows)]] if column.missing_slot else other
    return {"levels": dict.fromkeys(("", *column.missing), missing) | levels, "other": other}


def _slots(column: Hashed, weights: Floats) -> dict[str, Any]:
    missing = [[column.weight, weights[-1].tolist()]] if column.missing_slot else []
    return {
        "slots": [[[column.weight, row]] for row in weights[: column.buckets].tolist()],
        "levels": dict.fromkeys(("", *column.missing), missing),
    }
