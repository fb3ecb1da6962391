"""What a training would release and cost, shown: shared by ``plan`` and ``check``."""

from collections.abc import Callable
from typing import Any

from noisette.errors import NoisetteError

_DELTA = 1e-6


def others(
    outlook: Callable[..., Any], epsilon: float, delta: float, adjacency: str, rows: int
) -> list[dict[str, Any]]:
    """Return what changes with a delta, with the other relations, with half and double epsilon."""
    changes: list[tuple[str, dict[str, Any]]] = []
    if delta == 0.0 and _DELTA * rows < 1.0:
        changes.append((f"delta = {_DELTA:g}", {"delta": _DELTA}))
    elif delta > 0.0:
        changes.append(("delta = 0", {"delta": 0.0}))
    for other in ("replace-one", "zero-out", "add-remove"):
        if other != adjacency:
            changes.append((other, {"adjacency": other}))
    changes.append((f"epsilon = {epsilon / 2.0:g}", {"epsilon": epsilon / 2.0}))
    changes.append((f"epsilon = {2.0 * epsilon:g}", {"epsilon": 2.0 * epsilon}))
    found = []
    for name, change in changes:
        try:
            found.append(as_row(name, outlook(**change)))
        except NoisetteError as error:
            found.append({"change": name, "refused": str(error)})
    return found


def as_row(name: str, shown: Any) -> dict[str, Any]:
    """Return the figures of one outlook."""
    lost = {"lost": shown.lost} if hasattr(shown, "lost") else {}
    return {
        **lost,
        "change": name, "algorithm": shown.algorithm, "epsilon": shown.epsilon,
        "delta": shown.delta, "adjacency": shown.adjacency, "weight_noise": shown.weight_noise,
        "typical_weight": shown.typical_weight, "memory": shown.memory, "seconds": shown.seconds,
    }  # fmt: skip


def table_json(shown: Any) -> dict[str, Any]:
    """Return what an outlook of a table has beside the figures of all outlooks."""
    return {
        "rows": shown.rows,
        "features": shown.features,
        "warning": shown.warning or None,
        "steps": [vars(step) for step in shown.steps],
        "columns": [vars(column) for column in shown.columns],
    }


def show_others(console: Any, asked: Any, found: list[dict[str, Any]]) -> None:
    """Print the table of what changes."""
    from rich.table import Table

    of_table = asked.algorithm == "table"  # there a change also decides which features are left
    heads = ("", "signal lost" if of_table else "noise in a weight")
    table = Table(title="The same with one thing changed", title_justify="left")
    for name in heads if of_table else (*heads, "against as asked"):
        table.add_column(name, justify="right" if name else "left")
    for row in [as_row("as asked", asked), *found]:
        table.add_row(row["change"], *(_part(row) if of_table else _cells(row, asked)))
    console.print(table)


def _part(row: dict[str, Any]) -> tuple[str]:
    return ("not possible" if "refused" in row else f"{100.0 * row['lost']:.0f} %",)


def _cells(row: dict[str, Any], asked: Any) -> tuple[str, str]:
    if "refused" in row:
        return "not possible", ""
    noise = row["weight_noise"]
    if noise is None or not asked.weight_noise:
        return "depends on the data", ""
    return f"{noise:.2g}", f"x {noise / asked.weight_noise:.2g}"
