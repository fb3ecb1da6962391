"""``noisette schema``, ``noisette train`` and ``noisette predict``: from a table to a model."""

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette.cli import options as opt
from noisette.errors import InvalidParameter

if TYPE_CHECKING:
    from noisette.cli.watched import WatchedLedger
    from noisette.tables import Schema, TableModel

__all__ = ["predict", "schema", "train"]

TableArgument = Annotated[
    Path, typer.Argument(help="A CSV file (.gz too) or a Parquet file.", show_default=False)
]
ModelArgument = Annotated[
    Path, typer.Argument(help="The folder that `noisette train` wrote.", show_default=False)
]
NoHeaderOption = Annotated[
    bool,
    typer.Option("--no-header", help="The CSV file has no header line; names from the schema."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]

MODELS = ("logistic", "svm", "sgd")


def schema(
    table: TableArgument,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to the screen.")] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The CSV file has no header line.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of the CSV file.")] = "utf-8",
    force: ForceOption = False,
) -> None:
    """Write a template of public facts for a table, without looking at its rows.

    [bold]Example[/bold]: noisette schema patients.csv --target ill --out patients.toml
    """
    from noisette.tables import template

    text = template(table, target, header=not no_header, encoding=encoding)
    if out is None:
        sys.stdout.write(text)
        return
    _write_text(out, text, force=force)
    typer.echo(f"Wrote {out}. Fill in every \"?\" from what you know, then: noisette train {table} "
               f"--schema {out} --epsilon 1")  # fmt: skip


def _write_text(path: Path, text: str, *, force: bool) -> None:
    """Write a whole file or nothing."""
    import os
    import tempfile

    if path.is_dir():
        raise InvalidParameter(f"{path} is a folder; give the name of a file.")
    if path.exists() and not force:
        raise InvalidParameter(f"{path} exists; give another --out, or --force to replace it.")
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(draft).chmod(0o666 & ~mask)
        os.replace(draft, path)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be written ({error.strerror}).") from None
    finally:
        Path(draft).unlink(missing_ok=True)


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
    mechanism: Annotated[
        str, typer.Option(help="auto, objective or output (logistic and svm).")
    ] = "auto",
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
    if schema is None:
        hint = f" --target {target}" if target else ""
        raise InvalidParameter(
            "a schema with the public facts is needed, for none is read off the rows; start one "
            f"with: noisette schema {table}{hint} --out schema.toml."
        )
    facts = read_schema(schema, target)
    check_folder(out, force=force)
    with spending(ledger, epsilon, delta, relation) as budget, draft_folder(out) as draft:
        estimator = _estimator(
            model, mechanism, facts, epsilon, delta, adjacency, population, seed, budget
        )
        with _busy("reading the table"):  # and how far it is would tell the number of rows
            rows = encode(table, facts, target=True, header=not no_header)
        with _busy("training"):
            estimator.fit(rows.X, rows.y)
        records = len(rows.X) if relation.size_is_public else None
        fitted = _finish(estimator, facts, draft, out, records, None if ledger is None else budget)
    _report_training(fitted, out, ledger, budget, as_json=json)


def _busy(what: str) -> Any:
    """Show on a terminal that something is going on; nothing in a file or a pipe."""
    from rich.console import Console

    return Console(stderr=True).status(what)


def _estimator(
    model: str, mechanism: str, facts: "Schema", epsilon: float, delta: float, adjacency: str,
    population: int | None, seed: int | None, ledger: "WatchedLedger",
) -> Any:  # fmt: skip
    from noisette.linear import LinearSVC, LogisticRegression, SGDClassifier

    kinds = {"logistic": LogisticRegression, "svm": LinearSVC, "sgd": SGDClassifier}
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "classes": list(facts.classes),
        "population": population,
        "random_state": seed,
        "ledger": ledger,
        "norm_bound": 1.0,
    }
    if model == "sgd":
        if mechanism != "auto":
            raise InvalidParameter(f"--mechanism {mechanism} is for logistic and svm, not for sgd.")
        return SGDClassifier(**shared)
    return kinds[model](mechanism=mechanism, **shared)


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
        check=f"noisette inspect {out.name}",
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
    console.print(Panel(Text(guarantee.statement()), title="the guarantee", border_style=style))
    if ledger is not None:
        left = budget.remaining
        words = f"ledger {ledger}: epsilon {left[0]:.6g} and delta {left[1]:g} are left"
        if budget.rule != "sums":
            words = f"ledger {ledger}: see noisette ledger {ledger} for what is left"
        console.print(words, highlight=False, soft_wrap=True, markup=False)
    for line in (
        f"wrote {out / 'model.noisette'}, schema.toml, guarantee.json and report.html",
        f"next: open {out / 'report.html'} in a browser, or",
        f"      noisette predict {out} TABLE --out predictions.csv",
    ):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def predict(
    model: ModelArgument,
    table: TableArgument,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to the screen.")] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of each class.")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Print the accuracy only; TABLE needs the labels.")
    ] = False,
    no_header: NoHeaderOption = False,
    force: ForceOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Predict the labels of a table as CSV, one line for each row.

    Using a private model costs nothing more for the people it was trained on. The accuracy of
    --score is a fact about the rows of TABLE, which no guarantee covers.

    [bold]Example[/bold]: noisette predict model patients.csv --out predictions.csv --proba
    """
    from noisette.tables import encode, read_model

    fitted = read_model(model)
    if proba and not hasattr(fitted.model, "predict_proba"):
        raise InvalidParameter(
            f"{type(fitted.model).__name__} gives labels, not probabilities; leave out --proba."
        )
    with _busy("reading the table"):
        rows = encode(table, fitted.schema, target=score, header=not no_header)
    if score:
        accuracy = float((fitted.model.predict(rows.X) == rows.y).mean())
        answer = {"accuracy": accuracy, "rows": len(rows.X)}
        words = f"accuracy {accuracy:.4f} on {len(rows.X)} rows (a fact about them: not private)"
        print(json_module.dumps(answer) if json else words)
        return
    names, columns = [f"predicted {fitted.schema.target}"], [fitted.model.predict(rows.X).tolist()]
    if proba:
        names += [f"probability of {label}" for label in fitted.model.classes_]
        columns += [[f"{p:.6f}" for p in column] for column in fitted.model.predict_proba(rows.X).T]
    if json:
        shown = dict(zip(names, columns, strict=True))
        text = json_module.dumps(shown) + "\n"
    else:
        text = _csv_text(names, columns)
    if out is None:
        sys.stdout.write(text)
        return
    _write_text(out, text, force=force)
    typer.echo(f"wrote {len(rows.X)} predictions to {out}", err=True)


def _csv_text(names: list[str], columns: list[list[str]]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return buffer.getvalue()
