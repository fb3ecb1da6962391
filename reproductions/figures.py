"""One style for all figures: colour-blind safe, readable in grey, small files.

Colours are those of Okabe and Ito; each goes with its own marker and line, so that no reader needs
the colour. Legends stand below the axes, where no curve can run through them. matplotlib is
imported when the first figure is drawn (extra ``plot``).
"""

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _files
from noisette.errors import MissingExtra
from reproductions.base import Figure, Table

__all__ = [
    "COLOURS",
    "band",
    "canvas",
    "errorbars",
    "legend_below",
    "line",
    "log_axis",
    "look",
    "require_matplotlib",
    "write",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Blue, vermilion, green, purple, orange, sky, black (Okabe and Ito)."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES: tuple[Any, ...] = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 1)), ":", "-")

_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "svg.fonttype": "none",  # text stays text: smaller, and found by a search
    "svg.hashsalt": "noisette",  # the same picture gives the same file
}

_DPI = 110


def require_matplotlib() -> Any:
    """Return matplotlib, or say in one sentence how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    return matplotlib


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw inside this; settings of the caller's own figures stay as they are."""
    with require_matplotlib().rc_context(_STYLE):
        yield


def look(number: int, *, marker: bool = True) -> dict[str, Any]:
    """Return colour, line and marker of curve `number`, as keywords of ``axes.plot``."""
    chosen = {"color": COLOURS[number % 7], "linestyle": _LINES[number % 7]}
    return {**chosen, "marker": _MARKERS[number % 7]} if marker else chosen


def canvas(
    rows: int = 1, columns: int = 1, *, width: float = 3.4, height: float = 2.7, **shared: Any
) -> tuple[Any, NDArray[Any]]:
    """Return a figure and its (rows, columns) array of axes; sizes are inches per panel."""
    require_matplotlib()
    from matplotlib.figure import Figure as Canvas

    size = (max(width * columns, 4.6), height * rows + 0.5)
    figure = Canvas(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def _xy(points: Table, *names: str) -> list[NDArray[np.float64]]:
    return [points.column(name).astype(float) for name in names]


def line(axes: Any, points: Table, x: str, y: str, label: str, number: int, **more: Any) -> None:
    """Draw a curve through `points` in look `number`."""
    axes.plot(*_xy(points, x, y), label=label, **{**look(number), **more})


def errorbars(
    axes: Any, points: Table, x: str, label: str, number: int, y: str = "mean", sd: str = "sd",
    **more: Any,
) -> None:  # fmt: skip
    """Draw means with error bars of one standard deviation (columns of `Table.summary`)."""
    at, mean, spread = _xy(points, x, y, sd)
    axes.errorbar(at, mean, yerr=spread, label=label, **{**look(number), **more})


def band(
    axes: Any, points: Table, x: str, label: str, number: int, y: str = "mean", sd: str = "sd",
    **more: Any,
) -> None:  # fmt: skip
    """Draw means as a line inside a band of one standard deviation, for dense curves."""
    at, mean, spread = _xy(points, x, y, sd)
    axes.plot(at, mean, label=label, **{**look(number, marker=False), **more})
    low = mean - spread
    if axes.get_yscale() == "log":
        low = np.where(low > 0.0, low, mean * 1e-3)  # a band that goes below 0 leaves the panel
    axes.fill_between(at, low, mean + spread, color=COLOURS[number % 7], alpha=0.2, lw=0)


def log_axis(axes: Any, which: str, steps: Sequence[float] = (1.0, 2.0, 5.0)) -> None:
    """Make "x" or "y" logarithmic with plain numbers at `steps` times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def legend_below(figure: Any, axes: NDArray[Any], columns: int = 3) -> None:
    """Put one legend for all panels under them; a label that several panels use stands once."""
    found: dict[str, Any] = {}
    for panel in np.asarray(axes).ravel():
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _write_csv(points: Table, path: Path) -> None:
    names: Sequence[str] = list(dict.fromkeys(name for row in points for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name, "")) for name in names] for row in points)
    _files.write(path, text.getvalue())


def _slim(svg: str) -> str:
    """Return the picture in half the size: hundredths of a point, no names that nobody uses."""

    def tag(found: re.Match[str]) -> str:
        text = re.sub(r"(\.\d\d)\d+", r"\1", found.group()).replace("; ", ";").replace(": ", ":")
        return re.sub(r'^<g id="[^"]*"', "<g", text)

    svg = re.sub(r"<[^<>]*>", tag, re.sub(r"<!--.*?-->", "", svg, flags=re.S))  # never the labels
    return re.sub(r"\s*\n\s*", "\n", svg)


def write(figure: Figure, folder: Path) -> None:
    """Write ``name.png``, ``name.svg`` and ``name.csv`` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        drawn = figure.draw(figure.points)
        drawn.savefig(folder / f"{figure.name}.png", dpi=_DPI)
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None})
    _files.write(folder / f"{figure.name}.svg", _slim(text.getvalue()))
    _write_csv(figure.points, folder / f"{figure.name}.csv")
