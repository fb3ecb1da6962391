"""From curves to the pictures of the report, and to a table of weights."""

from typing import Any

import numpy as np

from noisette.columns import Column, Numeric
from noisette.pipeline.curves import BAND, ColumnCurve, curves_of, score_unit
from noisette.pipeline.surfaces import PairSurface
from noisette.report import Effect, PairEffect
from noisette.tables import TableModel
from noisette.tables.folders import takes_tables

__all__ = [
    "LINES",
    "curves_in",
    "effects_in",
    "named_weights",
    "note_for",
    "pair_effects_in",
    "surfaces_in",
    "weights_in",
]

_LEVEL = 0.9545  # two standard deviations of a normal law
LINES = "The model has no noise band: it was not released with what such a band needs."


def curves_in(fitted: TableModel) -> tuple[ColumnCurve, ...]:
    """Return the curves of a model that predicts from the cells of a table."""
    model = fitted.model
    if takes_tables(model):
        return model.curves()  # type: ignore[no-any-return]
    scale = fitted.schema.row_norm
    return curves_of(fitted.schema, np.asarray(model.coef_), None, scale)


def note_for(fitted: TableModel) -> str:
    """Return what the bands are, or why there are none."""
    return BAND if getattr(fitted.model, "bars_", None) is not None else LINES


def effects_in(fitted: TableModel) -> list[Effect]:
    """Return one picture for each column."""
    outputs = [str(each) for each in getattr(fitted.model, "classes_", ())]
    return [_effect(curve, outputs, score_unit(fitted.model)) for curve in curves_in(fitted)]


def surfaces_in(fitted: TableModel) -> tuple[PairSurface, ...]:
    """Return what pairs of columns add, for models of raw tables."""
    return fitted.model.surfaces() if takes_tables(fitted.model) else ()


def pair_effects_in(fitted: TableModel) -> list[PairEffect]:
    """Return one heat map for each pair of columns, of several classes one for each of them."""
    outputs = [str(each) for each in getattr(fitted.model, "classes_", ())]
    unit, found = score_unit(fitted.model), []
    for surface in surfaces_in(fitted):
        value = surface.value if surface.value.ndim == 3 else surface.value[:, :, None]
        for k in range(value.shape[2]):
            name = outputs[k] if value.shape[2] > 1 else ""
            cells = value[:, :, k].tolist(), surface.deviation.tolist(), surface.known.tolist()
            found.append(PairEffect(surface.columns, surface.labels, *cells, unit, name))
    return found


def _effect(curve: ColumnCurve, outputs: list[str], unit: str) -> Effect:
    value = curve.value if curve.value.ndim == 2 else curve.value[:, None]
    missing = None if curve.missing is None else np.atleast_1d(curve.missing).tolist()
    return Effect(
        curve.column,
        curve.labels,
        value.T.tolist(),
        () if curve.kind == "levels" else curve.at,
        None if curve.deviation is None else curve.deviation.tolist(),
        missing,
        curve.missing_deviation,
        outputs if value.shape[1] > 1 else (),
        unit,
    )


def weights_in(fitted: TableModel) -> list[dict[str, Any]]:
    """Return one entry for each knot, level and missing cell: what it adds, and the noise in it."""
    found: list[dict[str, Any]] = []
    columns = {column.name: column for column in fitted.schema.columns}
    for curve in curves_in(fitted):
        noise = curve.deviation
        if _is_line(columns[curve.column]):
            slope = (curve.value[-1] - curve.value[0]) / (curve.at[-1] - curve.at[0])
            found.append(_entry(curve.column, "for each 1", slope, None))
            continue
        for k, at in enumerate(curve.labels):
            found.append(
                _entry(curve.column, at, curve.value[k], None if noise is None else noise[k])
            )
        if curve.missing is not None:
            found.append(_entry(curve.column, "(missing)", curve.missing, curve.missing_deviation))
    for surface in surfaces_in(fitted):
        first, second = surface.labels
        for i, j in np.ndindex(len(first), len(second)):
            if surface.known[i, j]:
                at = f"{first[i]}, {second[j]}"
                noise = surface.deviation[i, j]
                found.append(_entry(surface.name, at, surface.value[i, j], noise))
    return found


def _is_line(column: Column) -> bool:
    """Whether one number says all of a column: it enters as it is, between its bounds."""
    if not isinstance(column, Numeric) or len(column.views) > 1:
        return False
    return column.views[0].curve == "linear" and not column.views[0].square


def named_weights(model: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the weights of a model file by name, and what their noise is."""
    if takes_tables(model):
        fitted = TableModel(model, model.schema_)
        return weights_in(fitted), note_for(fitted)
    coef = np.atleast_2d(np.asarray(model.coef_)).T
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    names = names or [f"feature {k}" for k in range(len(coef))]
    spread = [None] * len(coef)
    note = LINES
    if hasattr(model, "coef_intervals"):
        low, high = np.asarray(model.coef_intervals(_LEVEL)).T
        spread = ((high - low) / 4.0)[: len(coef)].tolist()
        note = "The noise is half of a 95 % interval, model-based: sampling is in it too."
    rows = [_entry(n, "weight", _one(w), s) for n, w, s in zip(names, coef, spread, strict=True)]
    return rows, note


def _one(weights: Any) -> Any:
    return weights[0] if len(weights) == 1 else weights


def _entry(column: str, at: str, value: Any, deviation: Any) -> dict[str, Any]:
    return {
        "column": column,
        "at": at,
        "weight": np.asarray(value).tolist(),
        "deviation": None if deviation is None else float(deviation),
    }
