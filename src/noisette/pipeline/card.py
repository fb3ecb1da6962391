"""`card_of`: a model of raw tables as a scoring card, which twenty lines of Python evaluate.

The card is plain JSON: an intercept, and for each column what a cell adds. For a number these are
the weights at its knots, with a straight line between two of them; for a category one weight for
each level. Everything in it was released. ``docs/additive.md`` has the twenty lines.
"""

from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.columns import Categorical, Column, Dates, Hashed, Hats, Ignored
from noisette.errors import InvalidParameter

__all__ = ["CARD", "card_of"]

CARD = 1
"""The format of scoring cards."""


def card_of(model: Any) -> dict[str, Any]:
    """Return the card of a fitted model of raw tables; refuse what has no such form."""
    if not hasattr(model, "schema_"):
        raise InvalidParameter(
            "only a model of raw tables can be exported, such as `noisette train` makes without "
            "--mechanism, --loss and row_norm: of others, rows are cut to a norm as a whole."
        )
    if model.pairs_:
        raise InvalidParameter(
            "a model with pairs of columns has no place on a scoring card, where every cell counts "
            "by itself; train without pairs to export."
        )
    columns, start = [], 0
    weights = np.atleast_2d(np.asarray(model.coef_)).T
    for column in model.schema_.columns:
        if isinstance(column, Ignored) or not column.features:
            continue
        stop = start + len(column.features)
        columns.append({"name": column.name, **_column(column, weights[start:stop])})
        start = stop
    node: dict[str, Any] = {
        "noisette_card": CARD,
        "target": model.schema_.target,
        "kind": "classifier" if hasattr(model, "classes_") else "regressor",
        "intercept": np.atleast_1d(np.asarray(model.intercept_)).tolist(),
        "columns": columns,
        "guarantee": model.privacy_.statement(),
    }
    if node["kind"] == "regressor":
        return node | {"bounds": list(map(float, model.target_bounds_))}
    probabilities = hasattr(model, "predict_proba")
    return node | {"classes": model.classes_.tolist(), "probabilities": probabilities}


def _column(column: Column, weights: Floats) -> dict[str, Any]:
    inner = column.column if isinstance(column, Dates) else column
    if isinstance(inner, Hats):
        return _number(inner, weights) | ({"days": True} if isinstance(column, Dates) else {})
    if isinstance(inner, Categorical):
        return _levels(inner, weights)
    assert isinstance(inner, Hashed)
    raise InvalidParameter(
        f"column {inner.name!r} is hashed, which has no place on a scoring card; list its levels, "
        "or learn them with a delta."
    )


def _number(column: Hats, weights: Floats) -> dict[str, Any]:
    knots = column.knots if len(column.knots) > 1 else (0.0, 1.0)  # one knot has no feature
    at = weights[: len(knots)] if len(column.knots) > 1 else np.zeros((2, weights.shape[1]))
    middle = column.knots[len(column.knots) // 2] if column.center is None else column.center
    missing = np.array([np.interp(middle, knots, each) for each in at.T])
    if column.missing_slot:
        missing = missing + weights[-1]
    return {
        "knots": list(knots), "weights": at.tolist(), "missing": missing.tolist(),
        "codes": list(column.missing),
    }  # fmt: skip


def _levels(column: Categorical, weights: Floats) -> dict[str, Any]:
    if column.patterns:
        raise InvalidParameter(
            f"column {column.name!r} has ranges or prefixes of codes, which have no place on a "
            "scoring card; list its levels."
        )
    rows = iter((weights * column.weight).tolist())
    nothing = [0.0] * weights.shape[1]
    levels: dict[str, list[float]] = {}
    for group, members in column.groups:
        row = nothing if group == column.reference else next(rows)
        levels |= dict.fromkeys(members, row)
    other = next(rows) if column.other else nothing
    missing = next(rows) if column.missing_slot else other
    return {"levels": dict.fromkeys(("", *column.missing), missing) | levels, "other": other}
