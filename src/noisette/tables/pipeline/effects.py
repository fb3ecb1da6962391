"""From curves to the pictures of the report, and to a table of weights."""

from typing import Any

import numpy as np

from noisette.report import Effect, PairEffect
from noisette.tables.folders import TableModel, takes_tables
from noisette.tables.kinds.rows import slices
from noisette.tables.pipeline.bars import Bars
from noisette.tables.pipeline.curves import BAND, ColumnCurve, curves_of, score_unit
from noisette.tables.pipeline.pairs import PairSurface

LINES = (
    "The model has no noise band: it was not released with what such a band needs. Only "
    "differences within a column count: zero is no average row."
)


def curves_in(fitted: TableModel) -> tuple[ColumnCurve, ...]:
    """Return the curves of a model that predicts from the cells of a table."""
    model, schema = fitted.model, fitted.schema
    if takes_tables(model):
        return model.curves()  # type: ignore[no-any-return]
    return curves_of(schema, np.asarray(model.coef_), _bars(fitted), schema.row_norm)


def _bars(fitted: TableModel) -> dict[str, Bars] | None:
    """Return the noise of the weights by columns, of a model that reads encoded rows."""
    noise = fitted.model.noise_bars().coef
    if noise is None:
        return None
    each = np.atleast_2d(noise).max(axis=0) / fitted.schema.row_norm
    centre = (0.0,) * np.atleast_2d(noise).shape[0]
    return {
        column.name: Bars(centre, tuple(each[part].tolist()), 0.0)
        for column, part in slices(fitted.schema.columns)
    }


def note_for(fitted: TableModel) -> str:
    """Return what the bands are, or why there are none."""
    if not takes_tables(fitted.model):
        return str(fitted.model.noise_bars().says)
    return BAND if fitted.model.bars_ is not None else LINES


def effects_in(fitted: TableModel) -> list[Effect]:
    """Return one picture for each column."""
    outputs, found = list(map(str, getattr(fitted.model, "classes_", ()))), []
    for curve in curves_in(fitted):
        value = curve.value if curve.value.ndim == 2 else curve.value[:, None]
        found.append(
            Effect(
                curve.column, curve.labels, value.T.tolist(),
                () if curve.kind == "levels" else curve.at,
                None if curve.deviation is None else curve.deviation.tolist(),
                None if curve.missing is None else np.atleast_1d(curve.missing).tolist(),
                curve.missing_deviation, outputs if value.shape[1] > 1 else (),
                score_unit(fitted.model), curve.note,
            )
        )  # fmt: skip
    return found


def surfaces_in(fitted: TableModel) -> tuple[PairSurface, ...]:
    """Return what pairs of columns add, for models of raw tables."""
    return fitted.model.surfaces() if takes_tables(fitted.model) else ()


def pair_effects_in(fitted: TableModel) -> list[PairEffect]:
    """Return one heat map for each pair of columns, of several classes one for each of them."""
    outputs = list(map(str, getattr(fitted.model, "classes_", ())))
    unit, found = score_unit(fitted.model), []
    for surface in surfaces_in(fitted):
        value = surface.value if surface.value.ndim == 3 else surface.value[:, :, None]
        names = outputs if value.shape[2] > 1 else [""]
        for name, own in zip(names, np.moveaxis(value, 2, 0), strict=True):
            cells = own.tolist(), surface.deviation.tolist(), surface.known.tolist()
            found.append(PairEffect(surface.columns, surface.labels, *cells, unit, name))
    return found


def column_weights_in(fitted: TableModel) -> list[dict[str, Any]]:
    """Return one entry for each knot, level and missing cell: what it adds, and the noise in it."""
    found: list[dict[str, Any]] = []
    columns = fitted.schema.by_name
    bars = None if takes_tables(fitted.model) else _bars(fitted)
    for curve in curves_in(fitted):
        noise, column = curve.deviation, columns[curve.column]
        if column.line is not None:
            across = curve.at[-1] - curve.at[0]
            slope = (curve.value[-1] - curve.value[0]) / across
            low, high = column.line
            each = None if bars is None else bars[curve.column].cells[0] * (high - low) / across
            found.append(_entry(curve.column, "for each 1", slope, each))
        for k, at in enumerate(curve.labels if column.line is None else ()):
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
        found += [
            _entry(
                surface.name, f"{first[i]}, {second[j]}", surface.value[i, j],
                surface.deviation[i, j],
            )
            for i, j in np.argwhere(surface.known)
        ]  # fmt: skip
    return found


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
    start = np.asarray(model.intercept_)
    rows.append(_entry("(intercept)", "", start.item() if start.size == 1 else start, rest))
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


def _entry(column: str, at: str, value: Any, deviation: Any) -> dict[str, Any]:
    return {
        "column": column,
        "at": at,
        "weight": np.asarray(value).tolist(),
        "deviation": None if deviation is None else float(deviation),
    }
