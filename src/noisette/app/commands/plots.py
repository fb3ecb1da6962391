"""Figures of the command line (extra ``plot``)."""

from pathlib import Path
from typing import Any

import numpy as np

from noisette import _files
from noisette.app.commands.options import Description, required
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.sampling import SAMPLERS
from noisette.errors import InvalidParameter, MissingExtra, Unproven

# Colour-blind safe (Okabe and Ito), with a marker each so that grey prints work too.
_STYLES = {
    "linear": ("#999999", ":", "linear composition"),
    "moments": ("#E69F00", "--", "moments accountant (lecture)"),
    "renyi": ("#56B4E9", "-.", "sharp Rényi conversion"),
    "gdp": ("#CC79A7", ":", "Gaussian composition, no amplification"),
}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def figure_file(option: str, path: str | Path) -> Path:
    """Return where a figure will be; refuse what it cannot be, before any work."""
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParameter(f"{option} must end in .png, .svg or .pdf; got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InvalidParameter(f"the folder {target.parent} does not exist.")
    return target


def write_figure(figure: Any, target: Path) -> None:
    """Write a whole figure or nothing."""
    with _files.written(target) as file:
        figure.savefig(file, dpi=150, format=target.suffix[1:].lower())


def epsilon_against_steps(
    described: Description, delta: float, relation: Adjacency, path: str
) -> None:
    """Write epsilon against the number of steps, by theorem, with the certified bracket."""
    target = figure_file("--plot", path)
    pyplot = _pyplot()
    last = max(described.times, 2)
    counts = np.unique(np.geomspace(1, last, min(last, 16)).round().astype(int))
    plans = [described.with_times(int(count)).plan() for count in counts]
    brackets = np.array(
        [accounting.bracket(plan, delta=delta, adjacency=relation) for plan in plans]
    )
    figure, axes = pyplot.subplots(figsize=(7, 5.2), layout="constrained")
    top = brackets[:, 1][np.isfinite(brackets[:, 1])].max(initial=1e-9)
    for name, (colour, line, label) in _STYLES.items():
        kind = accounting.ACCOUNTANTS[name]
        try:
            values = [kind().epsilon(p, delta=delta, adjacency=relation) for p in plans]
        except Unproven:
            continue
        kept = np.isfinite(values) & (np.asarray(values) <= 20.0 * top)
        if kept.sum() > 1:
            axes.plot(counts[kept], np.asarray(values)[kept], line, color=colour, label=label)
    axes.plot(counts, brackets[:, 1], "-", color="#0072B2", lw=2, label="certified upper bound")
    axes.fill_between(
        counts, brackets[:, 0], brackets[:, 1], color="#0072B2", alpha=0.2, lw=0,
        label="certified bracket",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("epochs" if described.sweeps else "steps")
    axes.set_ylabel(f"ε at δ = {delta:g}, {relation}")
    axes.grid(alpha=0.3, which="both", lw=0.5)
    # Outside the axes: no curve can run through it, whatever the run.
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    axes.set_title(_title(described), fontsize=11)
    write_figure(figure, target)
    pyplot.close(figure)


def _title(described: Description) -> str:
    noise = f"{described.mechanism} noise"
    if described.noise_multiplier is not None:
        noise += f", multiplier {described.noise_multiplier:g}"
    needed = required(SAMPLERS[described.sampling])
    detail = getattr(described, needed[0]) if needed else None
    return f"{noise}; {described.sampling}" + (f" ({detail:g})" if detail is not None else "")
