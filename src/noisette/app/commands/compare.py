"""``noisette compare-epsilons``: accuracy against epsilon, on a table that everybody may see."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.app.commands.console import busy
from noisette.app.commands.plots import figure_file, write_figure
from noisette.app.commands.predict import visible_lines
from noisette.app.commands.train import (
    CHOICES,
    ForceOption,
    NoHeaderOption,
    estimator_of,
    learns,
    table_classifier,
)
from noisette.errors import InvalidParameter


def compare_epsilons(
    table: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file that is PUBLIC, or synthetic.")
    ],
    schema: Annotated[Path, typer.Option(help="The schema of the sensitive table.")],
    public: Annotated[
        bool, typer.Option("--public", help="Yes, everybody may see this table.")
    ] = False,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    epsilons: Annotated[str, typer.Option(help="What to compare.")] = "0.1,0.3,1,3,10",
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    model: Annotated[str, typer.Option(help="One of: " + ", ".join(CHOICES) + ".")] = "logistic",
    adjacency: opt.AdjacencyOption = "replace-one",
    rows: Annotated[
        int | None, typer.Option(help="Train on so many rows (persons), as many as you will have.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often, with other rows and noise.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write the figure here: .svg, .png or .pdf.")
    ] = None,
    force: ForceOption = False,
    no_header: NoHeaderOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Show accuracy and AUC against epsilon on a PUBLIC or synthetic table of the same shape.

    What is shown are exact facts about that table; nothing is charged. Never use the sensitive one.

    [bold]Example[/bold]: noisette compare-epsilons synthetic.csv --schema patients.toml --public
    """
    from noisette import tuning
    from noisette.tables import read_schema
    from noisette.tables.folders import TableModel

    if not public:
        raise InvalidParameter(
            f"{table} would be shown as it is, without any protection; if it is public or "
            "synthetic, say so with --public, and never do so for the sensitive table."
        )
    if out is not None:
        figure_file("--out", out)
        tuning.choosing.require_figures()
        if out.exists() and not force:
            raise InvalidParameter(f"{out} exists; give another name, or --force to replace it.")
    facts = read_schema(schema, target, learn=True)
    if facts.target_bounds is not None:
        raise InvalidParameter("the target is a number; epsilons are compared for classes only.")
    if learns(model, {}, facts):
        estimator = table_classifier(model, delta=delta, schema=facts, adjacency=adjacency)
    else:
        estimator = estimator_of(
            model, {}, delta=delta, adjacency=adjacency, classes=list(facts.classes)
        )
    with busy("reading the table"):
        read = TableModel(estimator, facts).read(table, target=True, header=not no_header)
    own = hasattr(estimator, "schema")  # then the column of persons is found by itself
    with busy("training, again and again"):
        found = tuning.compare_epsilons(
            estimator, read.X, read.y, _numbers(epsilons), repeats=repeats, rows=rows,
            persons=None if own else read.persons,
        )  # fmt: skip
    if out is not None:
        write_figure(found.plot(), out)
    if json:
        print(json_module.dumps(found.to_dict()))
        return
    print(visible_lines(found.lines()))
    if out is not None:
        print(visible(f"wrote {out}"))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(
            f"--epsilons must be numbers such as 0.3,1,3; got {text!r}."
        ) from None
