"""Pictures of curves with matplotlib (extra ``plot``)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisette.errors import MissingExtra
from noisette.tables.pipeline.curves import ColumnCurve
from noisette.tables.pipeline.pairs import PairSurface

_ACROSS = 3
_COLOURS = ("#0072B2", "#B34700", "#009E73", "#CC79A7", "#56B4E9")
_NAMED = 24  # levels of one picture


def plotted(curves: Sequence[ColumnCurve], unit: str, surfaces: Sequence[PairSurface] = ()) -> Any:
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
        if curve.kind == "levels":
            _levels(axes, curve)
        else:
            _line(axes, curve)
        axes.set_title(curve.column, fontsize=10)
        if curve.note:
            axes.text(0.5, 0.5, "nearly no cell could be read", transform=axes.transAxes,
                      ha="center", fontsize=8)  # fmt: skip
        axes.grid(alpha=0.3, lw=0.5)
    for axes, surface in zip(pictures[len(curves) :], surfaces, strict=False):
        _map(figure, axes, surface, unit)
    for row in range(-(-len(curves) // _ACROSS)):
        pictures[row * _ACROSS].set_ylabel(unit)
    return figure


def _map(figure: Any, axes: Any, surface: PairSurface, unit: str) -> None:
    """Draw a heat map; of several classes, of the last one. A dot is no more than noise."""
    value = surface.value if surface.value.ndim == 2 else surface.value[:, :, -1]
    value = np.where(surface.known, value, np.nan)
    most = float(np.nanmax(np.abs(value))) if surface.known.any() else 1.0
    shown = axes.imshow(value, origin="lower", aspect="auto", cmap="PuOr_r", vmin=-most, vmax=most)
    axes.set_facecolor("#dcdad4")  # too few rows
    doubt = np.argwhere(np.abs(value) <= 2.0 * surface.deviation)
    axes.plot(doubt[:, 1], doubt[:, 0], ".", color="#6b675f", ms=1.5)
    for axis, labels in zip((axes.yaxis, axes.xaxis), surface.labels, strict=True):
        places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), 6)).round().astype(int))
        axis.set_ticks(places, [labels[k] for k in places], fontsize=7)
    axes.set_ylabel(surface.columns[0], fontsize=8)
    axes.set_xlabel(surface.columns[1], fontsize=8)
    axes.set_title(surface.name, fontsize=10)
    figure.colorbar(shown, ax=axes, label=unit)


def _each(curve: ColumnCurve) -> list[Any]:
    value = curve.value if curve.value.ndim == 2 else curve.value[:, None]
    return list(zip(value.T, _COLOURS * (1 + value.shape[1] // len(_COLOURS)), strict=False))


def _line(axes: Any, curve: ColumnCurve) -> None:
    at = np.array(curve.at, dtype=np.float64)
    if curve.kind == "date":
        at = at.astype("datetime64[D]")
    for value, colour in _each(curve):
        axes.plot(at, value, color=colour, lw=1.8)
        if curve.deviation is not None:
            spread = 2.0 * curve.deviation
            axes.fill_between(at, value - spread, value + spread, color=colour, alpha=0.2, lw=0)
    axes.axhline(0.0, color="#666666", lw=0.7)


def _levels(axes: Any, curve: ColumnCurve) -> None:
    labels, places = curve.labels[:_NAMED], np.arange(len(curve.at[:_NAMED]))
    each = _each(curve)
    height = 0.8 / max(len(each), 1)
    for k, (value, colour) in enumerate(each):
        spread = None if curve.deviation is None else 2.0 * curve.deviation[:_NAMED]
        axes.barh(places + k * height, value[:_NAMED], height, xerr=spread, color=colour, alpha=0.8)
    axes.set_yticks(places, labels, fontsize=7)
    axes.invert_yaxis()
