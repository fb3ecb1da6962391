"""``noisette plan``: what a training would release and cost, before any data exist."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.app.commands.outlooks import as_row, others, show_others, table_json
from noisette.app.commands.train import (
    CHOICES,
    check_sgd,
    estimator_of,
    learns,
    table_classifier,
    table_regressor,
)
from noisette.errors import InvalidParameter

if TYPE_CHECKING:
    from noisette.tables import Schema


def plan(
    rows: Annotated[
        int,
        typer.Option(help="The number of rows (persons), or a guess of it."),
    ],
    epsilon: Annotated[float, typer.Option(help="The budget; smaller: safer.")],
    features: Annotated[
        int | None, typer.Option(help="The number of features after encoding, without --schema.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A schema, with open facts or without: plan its training.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    model: Annotated[str, typer.Option(help="One of: " + ", ".join(CHOICES) + ".")] = "logistic",
    mechanism: Annotated[str, typer.Option(help=opt.mechanism_help())] = "auto",
    loss: Annotated[str | None, typer.Option(help=opt.loss_help())] = None,
    sampling: Annotated[str | None, typer.Option(help=opt.sampling_help())] = None,
    classes: Annotated[int, typer.Option(help="How many labels there are.")] = 2,
    persons: Annotated[
        bool, typer.Option("--persons", help="Protect persons with all their rows.")
    ] = False,
    adjacency: opt.AdjacencyOption = "replace-one",
    test_share: Annotated[
        float | None, typer.Option(help="With --schema: score on this part of the people instead.")
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Show what a model would release and cost, from public facts alone; no data are read.

    [bold]Example[/bold]: noisette plan --rows 40000 --features 100 --epsilon 1
    """
    wishes = {"mechanism": mechanism, "loss": loss, "sampling": sampling}
    facts = None if schema is None else _facts(schema, features, model, wishes)
    if facts is None and features is None:
        raise InvalidParameter("give --features, the number after encoding, or --schema.")
    if facts is not None and persons:
        raise InvalidParameter("a schema names its persons itself; leave out --persons.")
    if facts is None and test_share is not None:
        raise InvalidParameter("--test-share is for the training of a table; give --schema.")

    def outlook(**changes: Any) -> Any:
        shared = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, **changes}
        if facts is not None:
            return table_outlook_of(facts, rows, model=model, test_share=test_share, **shared)
        if model == "sgd":
            check_sgd(shared["adjacency"], shared["delta"], rows)
        private = shared["adjacency"] == "add-remove"
        shared["population"] = rows if private else None
        asked = estimator_of(model, wishes, **shared)
        return asked.plan(rows, features, classes=classes, persons=persons)

    asked = outlook()
    found = others(outlook, epsilon, delta, adjacency, rows)
    if json:
        answer = {**as_row("as asked", asked), "others": found}
        known = {"notes": list(asked.notes), "unit": asked.unit} if schema is None else None
        answer |= known or table_json(asked)
        print(json_module.dumps(answer))
        return
    from rich.console import Console

    from noisette.core.guarantee import too_large

    console = Console(soft_wrap=True, highlight=False)
    console.print(visible(str(asked)), markup=False)
    if large := too_large(epsilon):
        console.print(large)
    show_others(console, asked, found)


def _facts(
    schema: Path, features: int | None, model: str, wishes: dict[str, str | None]
) -> "Schema":
    """Return the schema of a training that encodes the table by itself."""
    from noisette.tables import read_schema

    if features is not None:
        raise InvalidParameter("the features follow from --schema; leave out --features.")
    facts = read_schema(schema, learn=True)
    if not learns(model, wishes, facts):
        raise InvalidParameter(
            "--schema is for the default training; with --mechanism, --loss, --sampling, --model "
            "sgd or a stated row_norm give --features, the number after encoding."
        )
    return facts


def table_outlook_of(
    facts: "Schema", rows: int, *, model: str = "logistic", test_share: float | None = None,
    **shared: Any,
) -> Any:  # fmt: skip
    """Return what the default training on a table of these facts would release and cost."""
    private = shared["adjacency"] == "add-remove"
    shared["population"] = rows if private else None
    if facts.target_bounds is not None:
        epsilon = shared.pop("epsilon")
        return table_regressor(model, {}, facts, epsilon, test_share=test_share, **shared).plan(
            rows
        )
    return table_classifier(model, schema=facts, test_share=test_share, **shared).plan(rows)
