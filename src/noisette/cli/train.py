"""``noisette schema`` and ``noisette train``: from a table to a model."""

import inspect
import json as json_module
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._text import visible
from noisette.cli import options as opt
from noisette.cli.console import busy, readable, write_text
from noisette.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from noisette.cli.watched import WatchedLedger
    from noisette.tables import Schema, TableModel

__all__ = [
    "MODELS",
    "ForceOption",
    "NoHeaderOption",
    "TableArgument",
    "check_sgd",
    "estimator_of",
    "schema",
    "train",
]

TableArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A CSV file (.gz too) or a Parquet file.", show_default=False
    ),
]
NoHeaderOption = Annotated[
    bool,
    typer.Option("--no-header", help="The CSV file has no header line; names from the schema."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]

MODELS = {"logistic": "LogisticRegression", "svm": "LinearSVC", "sgd": "SGDClassifier"}
"""What ``--model`` says -> the class in `noisette.linear`."""


def schema(
    table: TableArgument,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to the screen.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the CSV file has a header line."),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the CSV file.")] = "utf-8",
    force: ForceOption = False,
) -> None:
    """Write a template of public facts for a table, without looking at its rows.

    [bold]Example[/bold]: noisette schema patients.csv --target ill --out patients.toml
    """
    from noisette.tables import template

    text = template(table, target, header=header, encoding=encoding)
    if out is None:
        sys.stdout.write(text)
        return
    write_text(out, text, force=force)
    words = f'Wrote {out}. Fill in every "?" from what you know, then: noisette train {table} '
    typer.echo(visible(f"{words}--schema {out} --epsilon 1"))


def train(
    table: TableArgument,
    epsilon: Annotated[float, typer.Option(help="The budget of this model; smaller: safer.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The filled schema; `noisette schema TABLE` starts one.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    model: Annotated[str, typer.Option(help="One of: " + ", ".join(MODELS) + ".")] = "logistic",
    mechanism: Annotated[str, typer.Option(help=opt.mechanism_help())] = "auto",
    loss: Annotated[str | None, typer.Option(help=opt.loss_help())] = None,
    sampling: Annotated[str | None, typer.Option(help=opt.sampling_help())] = None,
    adjacency: opt.AdjacencyOption = "replace-one",
    population: Annotated[
        int | None, typer.Option(help="A guess of the row count, for add-remove.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Charge this ledger; `noisette ledger` starts one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the model.")] = Path("noisette-model"),
    no_header: NoHeaderOption = False,
    force: ForceOption = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, for experiments: NOT PRIVATE.")
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Train a private model on a table; write the model, its guarantee and a report.

    [bold]Example[/bold]: noisette train patients.csv --target ill --schema patients.toml
    --epsilon 1 --out model
    """
    from noisette import _validate
    from noisette.adjacency import Adjacency
    from noisette.cli.watched import spending
    from noisette.tables import encode, read_schema
    from noisette.tables.folders import check_folder, draft_folder

    _validate.epsilon(epsilon)
    _validate.delta(delta)
    _validate.choice("--model", model, MODELS)
    relation = Adjacency.of(adjacency)
    if seed is not None and ledger is not None:
        raise InvalidParameter(
            "a model with --seed hides nobody, so no ledger may book it as if it did; leave out "
            "--seed or --ledger."
        )
    if schema is None:
        hint = f" --target {target}" if target else ""
        raise InvalidParameter(
            "a schema with the public facts is needed, for none is read off the rows; start one "
            f"with: noisette schema {table}{hint} --out schema.toml."
        )
    facts = read_schema(schema, target)
    check_folder(out, force=force)
    with spending(ledger, epsilon, delta, relation) as budget, draft_folder(out) as draft:
        wishes = {"mechanism": mechanism, "loss": loss, "sampling": sampling}
        estimator = _estimator(
            model, wishes, facts, epsilon, delta, adjacency, population, seed, budget
        )
        with busy("reading the table"):  # and how far it is would tell the number of rows
            rows = encode(table, facts, target=True, header=not no_header)
        records = len(rows.X) if relation.size_is_public else None
        _check_size(table, records, records or population, delta)
        with busy("training"):
            estimator.fit(rows.X, rows.y)
        fitted = _finish(estimator, facts, draft, out, records, None if ledger is None else budget)
        budget.written = True
    _report_training(fitted, out, ledger, budget, as_json=json)


def _check_size(table: Path, records: int | None, guess: int | None, delta: float) -> None:
    """Refuse a table of one row, and a delta that allows what nobody wants."""
    from noisette import _validate

    if records == 1:
        raise InvalidData(f"{table} has a single row; a model needs more.")
    _validate.delta_for(delta, guess, "--delta")


def _estimator(
    model: str, wishes: dict[str, str | None], facts: "Schema", epsilon: float, delta: float,
    adjacency: str, population: int | None, seed: int | None, ledger: "WatchedLedger",
) -> Any:  # fmt: skip
    if model == "sgd":
        check_sgd(adjacency, delta, population)
    return estimator_of(
        model,
        wishes,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        classes=list(facts.classes),
        population=population,
        random_state=seed,
        ledger=ledger,
        norm_bound=1.0,
    )


def check_sgd(adjacency: str, delta: float, population: int | None) -> None:
    """Refuse what has no proof for SGD under add-remove, in the words of the command line."""
    from noisette.adjacency import Adjacency

    if Adjacency.of(adjacency) is not Adjacency.ADD_REMOVE:
        return
    if delta == 0.0:
        raise InvalidParameter(
            "--model sgd without --delta cuts the table into batches, which has no proof under "
            "add-remove; give a --delta such as 1e-6, or use --model logistic or svm."
        )
    if population is None:
        raise InvalidParameter(
            "--model sgd under add-remove needs --population, a guess of the row count made "
            "without the data."
        )


def estimator_of(model: str, wishes: dict[str, str | None], **shared: Any) -> Any:
    """Return the estimator that ``--model`` names; refuse a wish that it has no parameter for."""
    from noisette import _validate, linear

    kind = getattr(linear, MODELS[_validate.choice("--model", model, MODELS)])
    known = inspect.signature(kind).parameters
    for option, value in wishes.items():
        if value in (None, "auto"):
            continue
        if option not in known:
            raise InvalidParameter(f"--{option} {value} is not for --model {model}.")
        shared[option] = value
    return kind(**shared)


def _finish(
    estimator: Any, facts: "Schema", draft: Path, out: Path, records: int | None, ledger: Any
) -> "TableModel":
    from noisette.report import Subject, model_page
    from noisette.tables import TableModel, write_model
    from noisette.tables.describe import facts_of
    from noisette.tables.folders import stated

    estimator.privacy_ = stated(estimator.privacy_, facts)
    subject = Subject(
        title=f"A model that predicts “{facts.target}”",
        unit=facts.unit,
        facts=facts_of(facts),
        records=records,
        check=f"noisette inspect {readable(os.path.basename(os.path.realpath(out)))}",
    )
    fitted = TableModel(estimator, facts)
    write_model(draft, out, fitted, model_page(estimator.privacy_, subject, ledger))
    return fitted


def _report_training(
    fitted: "TableModel", out: Path, ledger: Path | None, budget: Any, *, as_json: bool
) -> None:
    guarantee = fitted.guarantee
    if as_json:
        answer: dict[str, Any] = {
            "folder": str(out),
            "model": type(fitted.model).__name__,
            "features": len(fitted.schema.features),
            "guarantee": guarantee.to_dict(),
        }
        if ledger is not None:
            answer["ledger"] = {
                "file": str(ledger), "spent": budget.spent, "remaining": budget.remaining,
            }  # fmt: skip
        print(json_module.dumps(answer))
        return
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    console = Console()
    style = "red" if guarantee.seeded else "green"
    console.print(
        Panel(Text(visible(guarantee.statement())), title="the guarantee", border_style=style)
    )
    if ledger is not None:
        left = budget.remaining
        words = f"ledger {ledger}: epsilon {left[0]:.6g} and delta {left[1]:g} are left"
        if budget.rule != "sums":
            words = f"ledger {ledger}: see noisette ledger {ledger} for what is left"
        console.print(visible(words), highlight=False, soft_wrap=True, markup=False)
    folder = readable(str(out))
    for line in (
        f"wrote {folder}/model.noisette, schema.toml, guarantee.json and report.html",
        f"next: open {folder}/report.html in a browser, or",
        f"      noisette predict {folder} TABLE --out predictions.csv",
    ):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
