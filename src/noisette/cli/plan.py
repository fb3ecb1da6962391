"""``noisette plan``: what a training would release and cost, before any data exist."""

import json as json_module
from typing import Annotated, Any

import typer

from noisette.cli import options as opt
from noisette.cli.train import MODELS, check_sgd, estimator_of
from noisette.errors import NoisetteError

__all__ = ["plan"]

_DELTA = 1e-6


def plan(
    rows: Annotated[int, typer.Option(help="The number of rows, or a guess of it.")],
    features: Annotated[int, typer.Option(help="The number of features after encoding.")],
    epsilon: Annotated[float, typer.Option(help="The budget; smaller: safer.")],
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    model: Annotated[str, typer.Option(help="One of: " + ", ".join(MODELS) + ".")] = "logistic",
    mechanism: Annotated[str, typer.Option(help=opt.mechanism_help())] = "auto",
    loss: Annotated[str | None, typer.Option(help=opt.loss_help())] = None,
    sampling: Annotated[str | None, typer.Option(help=opt.sampling_help())] = None,
    classes: Annotated[int, typer.Option(help="How many labels there are.")] = 2,
    adjacency: opt.AdjacencyOption = "replace-one",
    json: opt.JsonOption = False,
) -> None:
    """Show what a model would release and cost, from public facts alone; no data are read.

    [bold]Example[/bold]: noisette plan --rows 40000 --features 100 --epsilon 1
    """
    wishes = {"mechanism": mechanism, "loss": loss, "sampling": sampling}

    def outlook(**changes: Any) -> Any:
        shared = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, **changes}
        if model == "sgd":
            check_sgd(shared["adjacency"], shared["delta"], rows)
        private = shared["adjacency"] == "add-remove"
        shared["population"] = rows if private else None
        return estimator_of(model, wishes, **shared).plan(rows, features, classes=classes)

    asked = outlook()
    others = _others(outlook, epsilon, delta, adjacency, rows)
    if json:
        answer = {**_row("as asked", asked), "notes": list(asked.notes), "others": others}
        print(json_module.dumps(answer))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False)
    console.print(str(asked), markup=False)
    table = Table(title="The same with one thing changed", title_justify="left")
    for name, side in (("", "left"), ("noise in a weight", "right"), ("against as asked", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for row in [_row("as asked", asked), *others]:
        table.add_row(row["change"], *_cells(row, asked))
    console.print(table)


def _others(
    outlook: Any, epsilon: float, delta: float, adjacency: str, rows: int
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
            found.append(_row(name, outlook(**change)))
        except NoisetteError as error:
            found.append({"change": name, "refused": str(error)})
    return found


def _row(name: str, shown: Any) -> dict[str, Any]:
    return {
        "change": name, "algorithm": shown.algorithm, "epsilon": shown.epsilon,
        "delta": shown.delta, "adjacency": shown.adjacency, "weight_noise": shown.weight_noise,
        "typical_weight": shown.typical_weight, "memory": shown.memory, "seconds": shown.seconds,
    }  # fmt: skip


def _cells(row: dict[str, Any], asked: Any) -> tuple[str, str]:
    if "refused" in row:
        return "not possible", ""
    noise = row["weight_noise"]
    if noise is None or not asked.weight_noise:
        return "depends on the data", ""
    return f"{noise:.2g}", f"x {noise / asked.weight_noise:.2g}"
