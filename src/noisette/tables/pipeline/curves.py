"""`ColumnCurve`: what one column adds to the score, in the column's own units, with its noise band.

A linear model of hats, levels and missing cells is additive: the score of a row is the score of an
average row plus what each column adds. All of it is post-processing of released values.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.tables import Schema
from noisette.tables.kinds import Column, day_text
from noisette.tables.pipeline.bars import Bars

LABELS: dict[str, Callable[[Any], str]] = {
    "levels": str, "number": "{:.6g}".format, "date": day_text,
}  # fmt: skip
"""How the points of each form are written."""
BAND = (
    "The band is two standard deviations of the noise that was added for privacy: its law is "
    "public, the curvature is estimated from released counts (model-based). It does not say how "
    "the curve would change with other people."
)


@dataclass(frozen=True)
class ColumnCurve:
    """What the cells of one column add to the score of an average row.

    Parameters
    ----------
    column : str
        The name of the column.
    kind : str
        "number", "date" (days since 1970) or "levels".
    at : tuple
        The knots, or the levels; between two knots the curve is a straight line, and beyond the
        outer ones it is level. "(other)" and "(missing)" stand for all other cells.
    value : ndarray of shape (points,) or (points, K)
        What is added at each of them; for K > 2 classes, to each of their scores.
    deviation : ndarray of shape (points,) or None
        The standard deviation of the noise in it, model-based; None where it is not known.
    missing : float, ndarray or None
        What a missing number adds, where missing cells have a slot.
    missing_deviation : float or None
        The noise in that.
    note : str
        Why there is nothing to show: by the released counts nearly no cell was read.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import AdditiveClassifier
    >>> age = np.arange(4000) % 80
    >>> model = AdditiveClassifier(2.0, 1e-6, schema={"age": "numeric"}, random_state=0)
    >>> (curve,) = model.fit({"age": age}, age > 40).curves()
    >>> curve.column, bool(curve.value[-1] > curve.value[0])
    ('age', True)
    >>> curve.labels[0] == f"{curve.at[0]:.6g}"
    True
    >>> curve.to_dict()["kind"]
    'number'

    """

    column: str
    kind: str
    at: tuple[Any, ...]
    value: Floats
    deviation: Floats | None = None
    missing: Any = None
    missing_deviation: float | None = None
    note: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The points as texts, days as dates."""
        return tuple(map(LABELS[self.kind], self.at))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts, for JSON.

        Returns
        -------
        dict
            The fields by name.

        """
        node: dict[str, Any] = {
            "column": self.column, "kind": self.kind, "at": list(self.at),
            "value": self.value.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }  # fmt: skip
        if self.missing is not None:
            node["missing"] = np.asarray(self.missing).tolist()
            node["missing_deviation"] = self.missing_deviation
        if self.note:
            node["note"] = self.note
        return node


def blank(curve: ColumnCurve, note: str) -> ColumnCurve:
    """Return it without points: what they add is noise, and a flat line would say otherwise."""
    kept = [k for k, at in enumerate(curve.at) if at in ("(other)", "(missing)")]
    noise = None if curve.deviation is None else curve.deviation[kept]
    at = tuple(curve.at[k] for k in kept)
    return replace(curve, at=at, value=curve.value[kept], deviation=noise, note=note)


def curves_of(
    schema: Schema, coef: Floats, bars: dict[str, Bars] | None = None, scale: float = 1.0
) -> tuple[ColumnCurve, ...]:
    """Return the curve of every column with features; features are divided by `scale`."""
    found, start = [], 0
    weights = np.atleast_2d(coef) / scale
    for column in schema.columns:
        if not column.features:
            continue
        stop = start + len(column.features)
        noise = None if bars is None else bars.get(column.name)
        found.append(_curve(column, weights[:, start:stop].T, noise))
        start = stop
    return tuple(found)


def _curve(column: Column, weights: Floats, bars: Bars | None) -> ColumnCurve:
    form, at, rows = column.points
    centre = np.zeros(weights.shape[1]) if bars is None else np.array(bars.centre)
    value = rows @ weights - centre
    deviation = None if bars is None else _deviation(rows, bars)
    missing = missing_deviation = None
    if len(at) < len(rows):
        missing = _plain(value[-1:])[0]
        missing_deviation = None if bars is None else bars.cells[-1]
        value, deviation = value[:-1], None if deviation is None else deviation[:-1]
    return ColumnCurve(column.name, form, at, _plain(value), deviation, missing, missing_deviation)


def _plain(value: Floats) -> Floats:
    return value[:, 0] if value.shape[1] == 1 else value


def _deviation(rows: Floats, bars: Bars) -> Floats:
    """Return the noise at every point: that of the cell, or of what is made of several features."""
    spread = np.sqrt((rows**2) @ np.array(bars.cells) ** 2)
    spread[~rows.any(axis=1)] = bars.nothing
    return np.asarray(spread)


def score_unit(model: Any) -> str:
    """Return what the values of curves are."""
    if not hasattr(model, "classes_"):
        return "in the unit of the target"
    logistic = hasattr(model, "predict_proba")
    label = f" of {model.classes_[1]}" if len(model.classes_) == 2 else ""
    return f"log-odds{label}" if logistic and label else f"score{label}"
