"""``noisette predict``: use a model."""

import csv
import io
import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from noisette._text import visible
from noisette.cli import options as opt
from noisette.cli.console import busy, write_text
from noisette.cli.train import ForceOption, NoHeaderOption, TableArgument
from noisette.errors import InvalidParameter

__all__ = ["predict"]

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="The folder that `noisette train` wrote.", show_default=False
    ),
]


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

    if score and (proba or out is not None):
        raise InvalidParameter("--score prints the accuracy only; leave out --out and --proba.")
    fitted = read_model(model)
    if proba and not hasattr(fitted.model, "predict_proba"):
        raise InvalidParameter(
            f"{type(fitted.model).__name__} gives labels, not probabilities; leave out --proba."
        )
    with busy("reading the table"):
        rows = encode(table, fitted.schema, target=score, header=not no_header)
    if score:
        accuracy = float((fitted.model.predict(rows.X) == rows.y).mean())
        answer = {"accuracy": accuracy, "rows": len(rows.X)}
        words = f"accuracy {accuracy:.4f} on {len(rows.X)} rows (a fact about them: not private)"
        print(json_module.dumps(answer) if json else words)
        return
    names: list[str] = [f"predicted {fitted.schema.target}"]
    columns: list[list[Any]] = [fitted.model.predict(rows.X).tolist()]
    if proba:
        names += [f"probability of {label}" for label in fitted.model.classes_]
        columns += fitted.model.predict_proba(rows.X).T.tolist()
    if json:
        shown = dict(zip(names, columns, strict=True))
        text = json_module.dumps(shown) + "\n"
    else:
        text = _csv_text(names, columns)
    if out is None:
        sys.stdout.write(text)
        return
    write_text(out, text, force=force)
    typer.echo(visible(f"wrote {len(rows.X)} predictions to {out}"), err=True)


def _csv_text(names: list[str], columns: list[list[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    shown = [columns[0], *([f"{p:.6f}" for p in column] for column in columns[1:])]
    writer.writerows(zip(*shown, strict=True))
    return buffer.getvalue()
