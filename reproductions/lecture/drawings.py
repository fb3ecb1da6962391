"""The figures of the lecture's page, each drawn from its own points."""

from typing import Any

from reproductions import figures
from reproductions.base import Figure, Table
from reproductions.lecture.composition import ACCOUNTANTS, RATE
from reproductions.lecture.network import MODULES
from reproductions.lecture.tradeoff import METHODS

__all__ = ["SIZES", "TITLES", "all_figures", "tradeoff_points"]

TITLES = {"adult": "Adult", "kddcup99": "KDD Cup 1999"}
SIZES = {"adult": (1000, 3000, 10_000, 39_074), "kddcup99": (1000, 3000, 10_000, 50_000)}
_REFERENCES = {"non-private": ("without privacy", "-"), "majority": ("largest class", ":")}


def tradeoff_points(table: Table) -> Table:
    """Return mean and deviation of the accuracy for every data set, size, method, epsilon."""
    part = table.where(part="tradeoff")
    names = ["data", "n", "method"]
    private = part.summary("accuracy", [*names, "epsilon"])
    plain = part.where(method=["non-private", "majority"]).summary("accuracy", names)
    return Table([*plain, *private])


def _epsilon_axis(panel: Any, values: list[float], label: str = "epsilon") -> None:
    """Logarithmic, with the budgets that were run as plain numbers."""
    panel.set(xscale="log", xlabel=label)
    panel.set_xticks(values, [f"{value:g}" for value in values])
    panel.minorticks_off()


def draw_epsilon(points: Table) -> Any:
    """Accuracy against epsilon at the largest n."""
    names = points.distinct("data")
    figure, axes = figures.canvas(1, len(names), width=3.5, height=3.0)
    for panel, name in zip(axes[0], names, strict=True):
        part = points.where(data=name)
        for number, (method, label) in enumerate(METHODS.items()):
            figures.errorbars(panel, part.where(method=method), "epsilon", label, number)
        for method, (label, dash) in _REFERENCES.items():
            level = float(part.where(method=method).column("mean")[0])
            panel.axhline(level, color="0.4", lw=1, ls=dash, label=label)
        _epsilon_axis(panel, sorted(points.distinct("epsilon")))
        panel.set_ylabel("test accuracy in %")
        panel.set_title(f"{TITLES[name]}, n = {part.column('n')[0]:,}")
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_sizes(points: Table) -> Any:
    """Accuracy against n, one panel per data set and epsilon."""
    names = points.distinct("data")
    levels = sorted(set(points.where(method="output").column("epsilon")))
    figure, axes = figures.canvas(len(names), len(levels), width=3.1, height=2.4, sharey="row")
    for row, name in zip(axes, names, strict=True):
        for panel, epsilon in zip(row, levels, strict=True):
            part = points.where(data=name)
            for number, (method, label) in enumerate(METHODS.items()):
                chosen = part.where(method=method, epsilon=epsilon)
                figures.errorbars(panel, chosen, "n", label, number)
            for method, (label, dash) in _REFERENCES.items():
                chosen = part.where(method=method)
                look = {"color": "0.4", "lw": 1, "ls": dash, "label": label}
                panel.plot(chosen.column("n"), chosen.column("mean"), **look)
            panel.set(xscale="log", xlabel="n")
            panel.set_title(f"{TITLES[name]}, epsilon = {epsilon:g}")
        row[0].set(ylabel="test accuracy in %", ylim=(45.0, 101.0))
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_directions(points: Table) -> Any:
    """Rms perturbation against the curvature of the loss in that direction."""
    figure, axes = figures.canvas(1, 1, width=5.0, height=3.0)
    panel = axes[0, 0]
    for number, mechanism in enumerate(points.distinct("mechanism")):
        part = points.where(mechanism=mechanism)
        label = f"{mechanism} perturbation"
        figures.line(panel, part, "curvature", "rms", label, number, linestyle="none")
    panel.set(xscale="log", yscale="log")
    panel.set_xlabel("curvature of the loss (eigenvalue of the Hessian)")
    panel.set_ylabel("rms perturbation of the weights")
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_composition(points: Table) -> Any:
    """Epsilon against the number of steps by accountant; right: from 1 to 100."""
    figure, axes = figures.canvas(1, 2, width=3.4, height=3.0)
    for panel, top in zip(axes[0], (None, 40.0), strict=True):
        for number, (name, label) in enumerate(ACCOUNTANTS.items()):
            part = points.where(accountant=name)
            look = {"marker": "+", "linestyle": "none", "markersize": 8} if name == "lower" else {}
            figures.line(panel, part, "steps", "epsilon", label, number, **look)
        panel.set(xscale="log", yscale="log", xlabel="steps T", ylabel="epsilon")
        if top is not None:
            panel.set_ylim(0.1, top)
    axes[0, 0].set_title("all of them")
    axes[0, 1].set_title("the lower part, enlarged")
    figures.legend_below(figure, axes, columns=2)
    return figure


def draw_network(points: Table) -> Any:
    """Accuracy of networks against epsilon."""
    figure, axes = figures.canvas(1, 1, width=5.0, height=3.0)
    panel = axes[0, 0]
    for number, (module, label) in enumerate(MODULES.items()):
        part = points.where(module=module)
        private = Table([row for row in part if row["epsilon"] is not None])
        plain = Table([row for row in part if row["epsilon"] is None])
        if not len(private):
            continue
        figures.errorbars(panel, private, "epsilon", f"{label}, private", number)
        if len(plain):
            look = figures.look(number, marker=False) | {"lw": 1}
            panel.axhline(float(plain.column("mean")[0]), label=f"{label}, not private", **look)
    _epsilon_axis(
        panel, sorted(e for e in points.distinct("epsilon") if e), "epsilon at delta = 1e-5"
    )
    panel.set_ylabel("test accuracy in %")
    figures.legend_below(figure, axes, columns=2)
    return figure


def all_figures(table: Table) -> list[Figure]:
    """Return the figures; the network's only if it ran."""
    points = tradeoff_points(table)
    most = {name: max(points.where(data=name).column("n")) for name in points.distinct("data")}
    largest = Table([row for row in points if row["n"] == most[row["data"]]])
    levels = [e for e in (0.1, 1.0) if e in points.distinct("epsilon")]
    chosen = Table([r for r in points if r.get("epsilon") in levels or "epsilon" not in r])
    seeds = len(table.where(part="tradeoff").distinct("seed"))
    spread = f"Mean and one standard deviation over {seeds} random subsets, each with its own noise"
    found = [
        Figure(
            "tradeoff_epsilon",
            "Privacy against accuracy. Test accuracy of logistic regression under replace-one; "
            f"nothing was tuned. {spread}.",
            largest,
            draw_epsilon,
        ),
        Figure(
            "tradeoff_size",
            f"Sample size against accuracy, at two budgets. {spread}; what lies below 45 % is cut "
            "off.",
            chosen,
            draw_sizes,
        ),
        Figure(
            "directions",
            "Objective perturbation spares the steep directions. Rms distance of the private from "
            "the exact weights along each eigenvector of the loss's Hessian, Adult, epsilon = 1, "
            "both methods with the same regularisation; directions in which the loss is flat to "
            "rounding are left out.",
            Table([row for row in table.where(part="directions") if row["curvature"] > 1e-9]),
            draw_directions,
        ),
        Figure(
            "composition",
            "What tighter composition buys. Epsilon at delta = 1e-5 of T Gaussian steps, noise "
            f"multiplier 1, sampling rate {RATE:g}, add-remove. The first curve ignores the "
            "sampling.",
            table.where(part="composition"),
            draw_composition,
        ),
    ]
    networks = table.where(part="network")
    if len(networks):
        found.append(_network_figure(networks))
    return found


def _network_figure(networks: Table) -> Figure:
    points = networks.summary("accuracy", ["module", "epsilon"])
    counts = sorted(set(points.column("count").tolist()))
    seeds = " or ".join(str(count) for count in counts)
    epochs = networks.column("epochs")[0]
    return Figure(
        "network",
        f"Networks on MNIST at 14 x 14, 20,000 images, {epochs} epochs of noisy SGD with every "
        f"default, nothing tuned, zero-out. Mean and one standard deviation over {seeds} seeds: "
        "too few for the deviation itself to be trusted.",
        points,
        draw_network,
    )
