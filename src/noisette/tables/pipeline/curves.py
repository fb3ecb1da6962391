"""`ColumnCurve`: what one column adds to the score, in the column's own units, with its noise band.

A linear model of hats, levels and missing cells is additive: the score of a row is the score of an
average row plus what each column adds. All of it is post-processing of released values.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noisette._typing import Floats
from noisette.errors import MissingExtra
from noisette.tables import Schema
from noisette.tables.kinds import Column, day_text
from noisette.tables.kinds.rows import slices
from noisette.tables.pipeline.bars import Bars

if TYPE_CHECKING:
    from noisette.tables.pipeline.pairs import PairSurface

LABELS: dict[str, Callable[[Any], str]] = {
    "levels": str, "number": "{:.6g}".format, "date": day_text,
}  # fmt: skip
"""How the points of each form are written."""
BAND = (
    "The band is two standard deviations of the noise that was added for privacy: its law is "
    "public, the curvature is estimated from released counts (model-based). It does not say how "
    "the curve would change with other people. Zero is an average row."
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
    weights, known = np.atleast_2d(coef) / scale, bars or {}
    return tuple(
        _curve(column, weights[:, part].T, known.get(column.name))
        for column, part in slices(schema.columns)
    )


def _curve(column: Column, weights: Floats, bars: Bars | None) -> ColumnCurve:
    form, at, rows = column.points
    centre = np.zeros(weights.shape[1]) if bars is None else np.array(bars.centre)
    value, deviation = rows @ weights - centre, None
    if bars is not None:  # the noise of the cell, or of what is made of several features
        deviation = np.sqrt((rows**2) @ np.array(bars.cells) ** 2)
        deviation[~rows.any(axis=1)] = bars.nothing
    missing = missing_deviation = None
    if len(at) < len(rows):
        missing = _plain(value[-1:])[0]
        missing_deviation = None if bars is None else bars.cells[-1]
        value, deviation = value[:-1], None if deviation is None else deviation[:-1]
    return ColumnCurve(column.name, form, at, _plain(value), deviation, missing, missing_deviation)


def _plain(value: Floats) -> Floats:
    return value[:, 0] if value.shape[1] == 1 else value


def score_unit(model: Any) -> str:
    """Return what the values of curves are."""
    if not hasattr(model, "classes_"):
        return "in the unit of the target"
    logistic = hasattr(model, "predict_proba")
    label = f" of {model.classes_[1]}" if len(model.classes_) == 2 else ""
    return f"log-odds{label}" if logistic and label else f"score{label}"


# --- pictures with matplotlib (extra ``plot``) --------------------------------------------------

_ACROSS = 3
_COLOURS = ("#0072B2", "#B34700", "#009E73", "#CC79A7", "#56B4E9")
_NAMED = 24  # levels of one picture


def plotted(
    curves: Sequence[ColumnCurve], unit: str, surfaces: Sequence["PairSurface"] = ()
) -> Any:
    """Return a figure with one picture for each curve, then one for each pair of columns."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    surfaces = [surface for surface in surfaces if surface.value.size]
    count = len(curves) + len(surfaces)
    down = max(-(-count // _ACROSS), 1)
    figure = Figure(figsize=(4.2 * _ACROSS, 3.2 * down), layout="constrained")
    pictures = figure.subplots(down, _ACROSS, squeeze=False).ravel()
    for axes in pictures[count:]:
        axes.set_axis_off()
    for axes, curve in zip(pictures, curves, strict=False):
        _draw(axes, curve)
        axes.set_title(curve.column, fontsize=10)
        if curve.note:
            axes.text(0.5, 0.5, "nearly no cell could be read", transform=axes.transAxes,
                      ha="center", fontsize=8)  # fmt: skip
        axes.grid(alpha=0.3, lw=0.5)
    for axes, surface in zip(pictures[len(curves) :], surfaces, strict=False):
        # a heat map; of several classes, of the last one; a dot is no more than noise
        value = surface.value if surface.value.ndim == 2 else surface.value[:, :, -1]
        value = np.where(surface.known, value, np.nan)
        most = float(np.nanmax(np.abs(value))) if surface.known.any() else 1.0
        shown = axes.imshow(
            value, origin="lower", aspect="auto", cmap="PuOr_r", vmin=-most, vmax=most
        )
        axes.set_facecolor("#dcdad4")  # too few rows
        doubt = np.argwhere(np.abs(value) <= 2.0 * surface.deviation)
        axes.plot(doubt[:, 1], doubt[:, 0], ".", color="#6b675f", ms=1.5)
        for axis, labels in zip((axes.yaxis, axes.xaxis), surface.labels, strict=True):
            places = np.linspace(0, len(labels) - 1, min(len(labels), 6)).round().astype(int)
            places = np.unique(places)
            axis.set_ticks(places, [labels[k] for k in places], fontsize=7)
        axes.set_ylabel(surface.columns[0], fontsize=8)
        axes.set_xlabel(surface.columns[1], fontsize=8)
        axes.set_title(surface.name, fontsize=10)
        figure.colorbar(shown, ax=axes, label=unit)
    for row in range(-(-len(curves) // _ACROSS)):
        pictures[row * _ACROSS].set_ylabel(unit)
    return figure


def _draw(axes: Any, curve: ColumnCurve) -> None:
    """Draw bars of levels, or a line with its band; of several classes, one for each."""
    value = curve.value if curve.value.ndim == 2 else curve.value[:, None]
    noise = None if curve.deviation is None else 2.0 * curve.deviation
    drawn = list(zip(value.T, itertools.cycle(_COLOURS), strict=False))
    if curve.kind != "levels":
        at = np.array(curve.at, dtype=np.float64)
        at = at.astype("datetime64[D]") if curve.kind == "date" else at
        for each, colour in drawn:
            axes.plot(at, each, color=colour, lw=1.8)
            if noise is not None:
                axes.fill_between(at, each - noise, each + noise, color=colour, alpha=0.2, lw=0)
        axes.axhline(0.0, color="#666666", lw=0.7)
        return
    places, height = np.arange(len(curve.at[:_NAMED])), 0.8 / max(len(drawn), 1)
    noise = None if noise is None else noise[:_NAMED]
    for k, (each, colour) in enumerate(drawn):
        axes.barh(places + k * height, each[:_NAMED], height, xerr=noise, color=colour, alpha=0.8)
    axes.set_yticks(places, curve.labels[:_NAMED], fontsize=7)
    axes.invert_yaxis()
