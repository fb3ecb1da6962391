"""The figures of the reproduction, each drawn from the numbers of its CSV file alone."""

from collections.abc import Callable
from typing import Any

from reproductions.base import Figure, Table
from reproductions.figures import band, canvas, errorbars, legend_below, line, log_axis

__all__ = ["FOLLOWED", "NAMES", "figures", "final", "summary"]

FOLLOWED = {"mnist": (1, 10, 50), "kddcup99": (1, 5, 50)}
"""Batch sizes of figure 1: the paper's two, and 50."""

NAMES = {"mnist": "MNIST", "kddcup99": "KDDCup99", "sphere": "synthetic"}
SHOWN = {"1/sqrt(t)": "1/√t", "10/sqrt(t)": "10/√t", "1/(lambda t)": "1/(λt)"}
METHODS = {
    "non-private": "non-private",
    "pure": "pure ε = 1, spherical Laplace",
    "spherical": "δ = 1e-6, spherical Laplace",
    "gaussian": "δ = 1e-6, Gaussian, shuffled",
    "poisson": "δ = 1e-6, Gaussian, Poisson batches",
}
STRATEGIES = {
    "scale": "scale gradients by α_i",
    "batches": "batches of equal α_i",
    "leave out": "leave careful people out",
    "least": "everyone at the least α",
}
_BY = ("data", "features", "d", "alpha", "rate", "batch", "algorithm")


def final(table: Table) -> Table:
    """Return the objective values at the end of a pass."""
    return table.where(part="sgd", last=True)


def summary(table: Table) -> Table:
    """Return mean and deviation at the end of a pass, for every setting."""
    return final(table).summary("objective", by=_BY)


def _central(table: Table) -> Table:
    rows = table.where(part="optimum")
    return Table([{**row, "mean": row["objective"]} for row in rows])


def _with_central(points: Table, table: Table, **equal: Any) -> Table:
    """Add the minimum of the objective as a row of its own, one for each problem."""
    keys = ("data", "features", "d", "algorithm", "mean")
    found = [{k: row[k] for k in keys} for row in _central(table).where(**equal)]
    problems = {(r["data"], r["features"], r["d"]) for r in points}
    kept = [r for r in found if (r["data"], r["features"], r["d"]) in problems]
    return Table([*points.rows, *kept])


def _floor(panels: Any, points: Table, **problem: Any) -> None:
    """Draw the central optimum; last, because nothing can be below it and limits follow it."""
    value = points.mean("mean", algorithm="central", **problem)
    for panel in panels:
        panel.axhline(value, color="#000000", ls=":", lw=1.2, label="central optimum")
    for panel in panels:
        panel.set_ylim(bottom=0.85 * value)


def _both(draw: Callable[..., None], panel: Any, part: Table, x: str) -> None:
    """Draw private over non-private, always in the same looks."""
    draw(panel, part.where(algorithm="private"), x, "private", 1)
    draw(panel, part.where(algorithm="non-private"), x, "non-private", 0)


def _thousands(panel: Any) -> None:
    panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")


def _draw_paths(points: Table) -> Any:
    names = [name for name in FOLLOWED if name in points.distinct("data")]
    figure, axes = canvas(len(names), 3, height=2.5, sharey="row")
    for row, name in enumerate(names):
        for column, batch in enumerate(FOLLOWED[name]):
            panel, part = axes[row, column], points.where(data=name, batch=batch)
            log_axis(panel, "y")
            _both(band, panel, part, "samples")
            panel.set_title(f"{NAMES[name]}, b = {batch}")
            _thousands(panel)
        _floor(axes[row], points, data=name)
        axes[row, 0].set_ylabel("objective")
    for panel in axes[-1]:
        panel.set_xlabel("samples used (single pass)")
    legend_below(figure, axes)
    return figure


def _draw_batches(points: Table) -> Any:
    names, rates = points.distinct("data"), points.distinct("rate")
    rates = [rate for rate in SHOWN if rate in rates]
    figure, axes = canvas(len(names), len(rates), height=2.4, sharex=True)
    for row, name in enumerate(names):
        for column, rate in enumerate(rates):
            panel, part = axes[row, column], points.where(data=name, rate=rate)
            log_axis(panel, "x", (1.0,))
            log_axis(panel, "y")
            _both(errorbars, panel, part, "batch")
            _floor([panel], points, data=name)
            panel.set_title(f"{NAMES[name]}, η = {SHOWN[rate]}")
        axes[row, 0].set_ylabel("objective")
    for panel in axes[-1]:
        panel.set_xlabel("batch size b")
    legend_below(figure, axes)
    return figure


def _draw_rates(points: Table) -> Any:
    figure, axes = canvas(1, 2, width=3.6, sharey=True)
    for panel, rate in zip(axes[0], ("1/sqrt(t)", "1/(lambda t)"), strict=True):
        part = points.where(rate=rate)
        log_axis(panel, "y", (1.0, 3.0))
        _both(band, panel, part, "samples")
        panel.set_title(f"synthetic, b = 5, η = {SHOWN[rate]}")
        panel.set_xlabel("samples used (single pass)")
        _thousands(panel)
    _floor(axes[0], points)
    axes[0, 0].set_ylabel("objective")
    legend_below(figure, axes)
    return figure


def _draw_influence(points: Table) -> Any:
    figure, axes = canvas(1, 2, width=3.8, height=3.2, sharey=True)
    curves = {
        "fixed": ("private, b = 10, η = 1/√t", 1),
        "private": ("private, best b and η", 4),
        "same": ("non-private, same b and η", 5),
        "non-private": ("non-private, best b and η", 0),
    }
    shown = {"d": "dimension d (α = 1)", "alpha": "privacy α (d = 15)"}
    for panel, (axis, label) in zip(axes[0], shown.items(), strict=True):
        part = points.where(axis=axis)
        for curve, (name, number) in curves.items():
            line(panel, part.where(curve=curve), axis, "excess", name, number)
        log_axis(panel, "x")
        log_axis(panel, "y", (1.0,))
        panel.set_xlabel(label)
        for row in part.where(curve="private"):
            panel.text(
                row[axis], 0.02, row["batch"], transform=panel.get_xaxis_transform(), fontsize=7,
                ha="center",
            )  # fmt: skip
    axes[0, 0].set_ylim(bottom=2e-5)
    axes[0, 0].set_ylabel("objective above the optimum")
    legend_below(figure, axes, columns=2)
    return figure


def _draw_levels(points: Table) -> Any:
    figure, axes = canvas(1, 1, width=5.2, height=3.0)
    for number, (strategy, label) in enumerate(STRATEGIES.items()):
        errorbars(axes[0, 0], points.where(strategy=strategy), "share", label, number)
    axes[0, 0].set_xlabel("share of people with α_i = 0.2 (the others: α_i = 1)")
    axes[0, 0].set_ylabel("objective on MNIST")
    legend_below(figure, axes, columns=2)
    return figure


def _draw_passes(points: Table) -> Any:
    figure, axes = canvas(1, 2, width=3.8, height=3.0, sharey=True)
    for panel, batch in zip(axes[0], (200, 1000), strict=True):
        part = points.where(batch=batch)
        for number, (method, label) in enumerate(METHODS.items()):
            line(panel, part.where(method=method), "passes", "excess", label, number)
        log_axis(panel, "x")
        log_axis(panel, "y", (1.0, 3.0))
        panel.set_title(f"MNIST, b = {batch}, η = 10/√t")
        panel.set_xlabel("passes over the data")
    axes[0, 0].set_ylabel("objective above the optimum")
    legend_below(figure, axes, columns=2)
    return figure


def passes(table: Table) -> Table:
    """Return mean, deviation and distance to the optimum for many passes on MNIST."""
    low = _central(table).mean("objective", data="mnist", features="scaled", d=15)
    points = table.where(part="passes").summary("objective", by=["batch", "method", "passes"])
    return Table([{**row, "excess": row["mean"] - low} for row in points])


def influence(table: Table) -> Table:
    """Return, for each d and each alpha on MNIST, the best private and non-private settings.

    "Best" is the least mean objective over batch sizes and the two rates: a choice that looks at
    the data, made by the experimenter and not private.
    """
    all_of, optima = summary(table).where(data="mnist", features="scaled"), _central(table)
    rates = ["1/sqrt(t)", "10/sqrt(t)"]
    rows = []
    for axis, fixed in (("d", {"alpha": 1.0}), ("alpha", {"d": 15})):
        for value in sorted(all_of.where(**fixed).distinct(axis)):
            here = all_of.where(**fixed, **{axis: value}, rate=rates)
            ours, plain = here.where(algorithm="private"), here.where(algorithm="non-private")
            best = min(ours, key=_mean)
            same = plain.where(batch=best["batch"], rate=best["rate"]).rows[0]
            named = {
                "fixed": ours.where(batch=10, rate="1/sqrt(t)").rows[0],
                "private": best,
                "same": same,
                "non-private": min(plain, key=_mean),
            }
            d = value if axis == "d" else 15
            low = optima.mean("objective", data="mnist", features="scaled", d=d)
            for curve, row in named.items():
                kept = {k: row[k] for k in ("batch", "rate", "mean", "sd")}
                kept["excess"] = row["mean"] - low
                rows.append({"axis": axis, axis: value, "curve": curve, **kept})
    return Table(rows)


def _mean(row: dict[str, Any]) -> float:
    return float(row["mean"])


_READING = {
    "scaled": "Features scaled by public limits",
    "standardised": "Features standardised by their mean and deviation in the data",
}


def figures(table: Table) -> list[Figure]:
    """Return the figures in the order of the page."""
    paths = table.where(part="sgd", points=40).summary("objective", by=[*_BY, "samples"])
    ends = summary(table).where(alpha=1.0)
    drawn: list[Figure] = []

    def add(name: str, caption: str, points: Table, draw: Callable[[Table], Any]) -> None:
        drawn.append(Figure(name, caption, points, draw))

    for suffix, features in (("", "scaled"), ("b", "standardised")):
        points = paths.where(features=features)
        add(
            f"figure1{suffix}",
            f"**Figure 1{suffix}** (the paper's figure 1). Objective against samples used, "
            "η = 1/√t, α = 1. Lines are means over the random orders, bands one standard "
            f"deviation. {_READING[features]}.",
            _with_central(points, table, features=features),
            _draw_paths,
        )
    for suffix, wanted in (("", ["scaled", "sphere"]), ("b", ["standardised"])):
        points = ends.where(features=wanted)
        problems = [("mnist", 15), ("kddcup99", 9), ("sphere", 5)]
        points = Table([row for row in points if (row["data"], row["d"]) in problems])
        add(
            f"figure2{suffix}",
            f"**Figure 2{suffix}** (the paper's figure 2, with a third learning rate and larger "
            "batches). Objective after one pass against the batch size; error bars are one "
            f"standard deviation. {_READING[wanted[0]]}.",
            _with_central(points, table),
            _draw_batches,
        )
    add(
        "figure3",
        "**Figure 3** (the paper's figure 3). Synthetic data, b = 5: a learning rate that falls "
        "fast helps the non-private algorithm and ruins the private one.",
        _with_central(paths.where(data="sphere"), table),
        _draw_rates,
    )
    add(
        "figure4",
        "**Figure 4** (open question: dimension and α). MNIST, features scaled by public limits. "
        "Means; the numbers at the bottom are the best private batch size. The best of 10 batch "
        "sizes and the rates 1/√t and 10/√t was chosen by looking at the results.",
        influence(table),
        _draw_influence,
    )
    add(
        "figure5",
        "**Figure 5** (open question: everyone's own α_i). MNIST, b = 200, η = 10/√t. What a "
        "share of careful people costs, by strategy; error bars are one standard deviation.",
        table.where(part="levels").summary("objective", by=["share", "strategy"]),
        _draw_levels,
    )
    add(
        "figure6",
        "**Figure 6** (open question: many passes). One budget of ε = 1 for all passes: pure "
        "composition divides it by their number, δ = 1e-6 pays about the square root, Poisson "
        "batches are amplified. Means over the repetitions.",
        passes(table),
        _draw_passes,
    )
    return drawn
