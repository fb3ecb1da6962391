"""From curves to the pictures of the report, and to a table of weights."""

from typing import Any

import numpy as np

from noisette.report import Effect, PairEffect
from noisette.tables.folders import TableModel, takes_tables
from noisette.tables.kinds import Numeric
from noisette.tables.pipeline.bars import Bars
from noisette.tables.pipeline.curves import BAND, ColumnCurve, curves_of, score_unit
from noisette.tables.pipeline.surfaces import PairSurface

LINES = "The model has no noise band: it was not released with what such a band needs."


def curves_in(fitted: TableModel) -> tuple[ColumnCurve, ...]:
    """Return the curves of a model that predicts from the cells of a table."""
    model = fitted.model
    if takes_tables(model):
        return model.curves()  # type: ignore[no-any-return]
    scale = fitted.schema.row_norm
    return curves_of(fitted.schema, np.asarray(model.coef_), _bars(fitted), scale)


def _bars(fitted: TableModel) -> dict[str, Bars] | None:
    """Return the noise of the weights by columns, of a model that reads encoded rows."""
    noise = fitted.model.noise_bars().coef
    if noise is None:
        return None
    found, start = {}, 0
    each = np.atleast_2d(noise).max(axis=0) / fitted.schema.row_norm
    for column in fitted.schema.columns:
        if column.features:
            stop = start + len(column.features)
            centre = (0.0,) * np.atleast_2d(noise).shape[0]
            found[column.name] = Bars(centre, tuple(each[start:stop].tolist()), 0.0)
            start = stop
    return found


def note_for(fitted: TableModel) -> str:
    """Return what the bands are, or why there are none."""
    if not takes_tables(fitted.model):
        return str(fitted.model.noise_bars().says)
    return BAND if fitted.model.bars_ is not None else LINES


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
        curve.note,
    )


def column_weights_in(fitted: TableModel) -> list[dict[str, Any]]:
    """Return one entry for each knot, level and missing cell: what it adds, and the noise in it."""
    found: list[dict[str, Any]] = []
    columns = {column.name: column for column in fitted.schema.columns}
    bars = None if takes_tables(fitted.model) else _bars(fitted)
    for curve in curves_in(fitted):
        noise, column = curve.deviation, columns[curve.column]
        if isinstance(column, Numeric) and _is_line(column):
            across = curve.at[-1] - curve.at[0]
            slope = (curve.value[-1] - curve.value[0]) / across
            low, high = column.views[0].span
            each = None if bars is None else bars[curve.column].cells[0] * (high - low) / across
            found.append(_entry(curve.column, "for each 1", slope, each))
            if curve.missing is not None:
                gone = curve.missing, curve.missing_deviation
                found.append(_entry(curve.column, "(missing)", *gone))
            continue
        for k, at in enumerate(curve.labels):
            found.append(
                _entry(curve.column, at, curve.value[k], None if noise is None else noise[k])
            )
        if curve.missing is not None:
            found.append(_entry(curve.column, "(missing)", curve.missing, curve.missing_deviation))
    return found


def weights_in(fitted: TableModel) -> list[dict[str, Any]]:
    """Return the entries of all columns, then one for each cell of a pair that rows fill."""
    found = column_weights_in(fitted)
    for surface in surfaces_in(fitted):
        first, second = surface.labels
        for i, j in np.ndindex(len(first), len(second)):
            if surface.known[i, j]:
                at = f"{first[i]}, {second[j]}"
                noise = surface.deviation[i, j]
                found.append(_entry(surface.name, at, surface.value[i, j], noise))
    return found


def _is_line(column: Numeric) -> bool:
    """Whether one number says all of a column: it enters as it is, between its bounds."""
    return (
        len(column.views) == 1 and column.views[0].curve == "linear" and not column.views[0].square
    )


def named_weights(model: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the weights of a model file by name, and what their noise is."""
    if takes_tables(model):
        fitted = TableModel(model, model.schema_)
        return weights_in(fitted), note_for(fitted)
    curve, bars = weights_curve(model), model.noise_bars()
    spread = [None] * len(curve.at) if curve.deviation is None else curve.deviation.tolist()
    rows = [
        _entry(name, "weight", value, noise)
        for name, value, noise in zip(curve.at, curve.value, spread, strict=True)
    ]
    rest = None if bars.intercept is None else float(np.max(bars.intercept))
    rows.append(_entry("(intercept)", "", _one(np.atleast_1d(model.intercept_)), rest))
    return rows, bars.says


def weights_curve(model: Any) -> ColumnCurve:
    """Return the weights of a model of matrices, one for each feature, as one picture."""
    coef = np.atleast_2d(np.asarray(model.coef_)).T
    names = tuple(str(each) for each in getattr(model, "feature_names_in_", ()))
    names = names or tuple(f"feature {k}" for k in range(len(coef)))
    noise = model.noise_bars().coef
    spread = None if noise is None else np.atleast_2d(noise).max(axis=0)
    value = coef[:, 0] if coef.shape[1] == 1 else coef
    return ColumnCurve("weights", "levels", names, value, spread)


def _one(weights: Any) -> Any:
    return weights[0] if len(weights) == 1 else weights


def _entry(column: str, at: str, value: Any, deviation: Any) -> dict[str, Any]:
    return {
        "column": column,
        "at": at,
        "weight": np.asarray(value).tolist(),
        "deviation": None if deviation is None else float(deviation),
    }
