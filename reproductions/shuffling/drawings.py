"""The figures of the poster's page, each drawn from its own points."""

from typing import Any

import numpy as np

from reproductions import figures
from reproductions.base import Figure, Table
from reproductions.shuffling.costs import BATCHES, NAMES
from reproductions.shuffling.runs import SCHEDULES

__all__ = ["all_figures", "best_steps"]

_PRIVATE = {
    "poisson": "Poisson", "random-allocation": "random allocation",
    "plain": "without replacement", "shuffle last": "reshuffled, last iterate",
    "cyclic last": "cyclic, last iterate", "partial-shuffle": "Algorithm 1, tau = 0.1",
    "shuffle": "reshuffled, all iterates",
}  # fmt: skip
_NOISE = {"none": "no noise", "fixed": "noise sigma = 4 L", "equal": "noise for epsilon = 1"}


def best_steps(table: Table, by: list[str]) -> Table:
    """Return the summary of `gap` at the constant step with the least mean, for each group."""
    rows = []
    for _, part in table.summary("gap", [*by, "step"]).groups(*by):
        rows.append(min(part, key=lambda row: float(row["mean"])))
    return Table(rows)


def _log_log(panel: Any, x: str, y: str) -> None:
    panel.set(xscale="log", yscale="log", xlabel=x)
    if y:
        panel.set_ylabel(y)


def draw_convergence(points: Table) -> Any:
    """Gap against epochs, one panel per noise level."""
    levels = points.distinct("multiplier")
    figure, axes = figures.canvas(1, len(levels), width=2.9, sharey=True)
    for panel, level in zip(axes[0], levels, strict=True):
        for number, (name, label) in enumerate(SCHEDULES.items()):
            part = points.where(multiplier=level, schedule=name)
            figures.errorbars(panel, part, "epochs", label, number)
        epochs = points.column("epochs").astype(float)
        ends = np.array([epochs.min(), epochs.max()])
        start = 2.0 * max(points.where(multiplier=level, epochs=int(ends[0])).column("mean"))
        for power, dash in ((1, ":"), (2, (0, (1, 3)))):
            slope = start * (ends / ends[0]) ** -power
            panel.plot(ends, slope, color="0.5", lw=1, ls=dash, label=f"slope -{power}")
        _log_log(panel, "epochs", "objective minus optimum" if level == levels[0] else "")
        panel.set_title("no noise" if level == 0 else f"noise sigma = {level:g} L")
    means = points.column("mean").astype(float)
    axes[0, 0].set_ylim(means.min() / 4.0, means.max() * 8.0)
    figures.legend_below(figure, axes, columns=5)
    return figure


def draw_two_losses(points: Table) -> Any:
    """Law of the released value for both data sets, with and without replacement."""
    figure, axes = figures.canvas(1, 2, width=2.9, sharey=True)
    for panel, sampler in zip(axes[0], points.distinct("sampler"), strict=True):
        for number, data in enumerate(points.distinct("data")):
            part = points.where(sampler=sampler, data=data)
            at = part.column("value").astype(float) + (number - 0.5) * 0.7
            look = {"color": figures.COLOURS[number], "hatch": ("", "///")[number]}
            heights = part.column("probability")
            panel.bar(at, heights, width=0.65, label=f"data {data}", edgecolor="white", **look)
        ratio = float(part.column("worst_ratio")[0])
        panel.set_title(f"{sampler}: worst ratio {ratio:g}")
        panel.set(xlabel="released value", xticks=[-2, 0, 2])
    axes[0, 0].set_ylabel("probability")
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_fractions(points: Table) -> Any:
    """Algorithm 1: epsilon and gap against tau."""
    figure, axes = figures.canvas(1, 2, width=3.3)
    left, right = axes[0]
    costs = points.where(kind="cost")
    for number, level in enumerate(costs.distinct("multiplier")):
        part = costs.where(multiplier=level)
        figures.line(left, part, "fraction", "epsilon", f"cost at sigma = {level:g} L", number)
    _log_log(left, "tau: used fraction of each shuffle", "epsilon at delta = 1e-5")
    gaps = points.where(kind="gap")
    for number, (name, label) in enumerate(_NOISE.items(), start=4):
        figures.errorbars(right, gaps.where(noise=name), "fraction", label, number)
    _log_log(right, "tau: used fraction of each shuffle", "objective minus optimum")
    figures.legend_below(figure, axes, columns=3)
    return figure


def draw_samplers(points: Table) -> Any:
    """Epsilon against epochs, one panel per relation."""
    figure, axes = figures.canvas(1, 2, width=3.4, sharey=True)
    names = [name for name in NAMES if name != "disjoint"]
    for panel, relation in zip(axes[0], points.distinct("adjacency"), strict=True):
        for number, name in enumerate(names):
            part = points.where(adjacency=relation, sampler=name)
            if len(part):
                more = {"marker": "*", "color": "0.45"} if number > 6 else {}
                figures.line(panel, part, "epochs", "epsilon", NAMES[name], number, **more)
        _log_log(panel, "epochs", "epsilon at delta = 1e-5" if relation == "zero-out" else "")
        panel.set_title(f"{relation}, {BATCHES} batches, sigma = L")
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_equal_privacy(points: Table) -> Any:
    """Gap against epochs when every sampler pays the same epsilon."""
    figure, axes = figures.canvas(1, 1, width=5.4, height=3.2)
    panel = axes[0, 0]
    for number, (name, label) in enumerate(_PRIVATE.items()):
        part = points.where(sampler=name)
        if len(part):
            figures.errorbars(panel, part, "epochs", label, number)
    _log_log(panel, "epochs (n = 2,000, batches of 20)", "objective minus optimum")
    panel.set_title("every sampler at epsilon = 1, delta = 1e-5, replace-one")
    figures.legend_below(figure, axes, columns=2)
    return figure


def _fraction_points(table: Table) -> Table:
    costs = [
        {"kind": "cost", "fraction": r["fraction"], "multiplier": r["multiplier"],
         "epsilon": r["epsilon"]}
        for r in table.where(part="fraction-cost")
    ]  # fmt: skip
    gaps = best_steps(table.where(part="algorithm1"), ["noise", "fraction"])
    return Table([*costs, *({"kind": "gap", **row} for row in gaps)])


def _sampler_points(table: Table) -> Table:
    rows = []
    for row in table.where(part="cost"):
        lower_bound = row["sampler"] == "shuffle-lower"
        if row["sampler"] != "disjoint" and row["proven"]:
            shown = row["lower"] if lower_bound else row["upper"]
            rows.append(
                {key: row[key] for key in ("adjacency", "sampler", "epochs")} | {"epsilon": shown}
            )
    return Table(rows)


def all_figures(table: Table) -> list[Figure]:
    """Return the five figures."""
    runs = table.where(part="trajectory")
    seeds = len(runs.distinct("seed"))
    private = [row for row in table.where(part="equal") if row["sampler"] in _PRIVATE]
    return [
        Figure(
            "convergence",
            "Shuffling is faster without noise, and not faster with it. Objective minus "
            "optimum after so many epochs, one record per step, each point at the best of 14 "
            f"constant step sizes; mean and one standard deviation over {seeds} runs. Ridge "
            "logistic regression, n = 200, d = 5. L = 1 bounds the gradients.",
            best_steps(runs, ["multiplier", "schedule", "epochs"]),
            draw_convergence,
        ),
        Figure(
            "two_losses",
            "The two-loss example, exactly. Two steps from 1, then with probability 1/2 a "
            "uniform value: the law of what is released for the data {1, 2} and {1, 1}.",
            table.where(part="two-losses"),
            draw_two_losses,
        ),
        Figure(
            "algorithm1",
            "Algorithm 1: shuffle, use a fraction tau, shuffle again. Left: its epsilon for "
            "five epochs of gradients (n = 1,000, one record per step, replace-one). Right: "
            "objective minus optimum after the same work, best constant step, mean and one "
            "standard deviation; the third curve spends the same epsilon at every tau.",
            _fraction_points(table),
            draw_fractions,
        ),
        Figure(
            "samplers",
            "What each sampler costs. Epsilon at delta = 1e-5 with noise sigma = L (the "
            "clipping norm): 100 batches an epoch. Reshuffled batches with all iterates released "
            "cost between their lower bound and the cyclic curve. The last-iterate curves are for "
            "logistic loss, step 4, ridge 0.001. Without replacement and Algorithm 1 are proven "
            "under replace-one only.",
            _sampler_points(table),
            draw_samplers,
        ),
        Figure(
            "equal_privacy",
            "The same epsilon for everybody. Objective minus optimum when the noise of each "
            "sampler is the least for epsilon = 1, delta = 1e-5 under replace-one; best constant "
            "step, mean and one standard deviation. Here the sampler's theorem, not its "
            "convergence without noise, decides.",
            best_steps(Table(private), ["sampler", "epochs"]),
            draw_equal_privacy,
        ),
    ]
