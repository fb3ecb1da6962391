"""``noisette evaluate``: how good a model is, on people who are to be protected."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.app.commands.console import busy, warn_of_large, warning_aloud
from noisette.app.commands.predict import (
    ModelArgument,
    ThresholdOption,
    at_threshold,
    check_threshold,
    visible_lines,
)
from noisette.app.commands.train import ForceOption, NoHeaderOption, TableArgument
from noisette.errors import InvalidParameter


def evaluate(
    model: ModelArgument,
    table: TableArgument,
    epsilon: Annotated[float, typer.Option(help="The budget of the scores; smaller: safer.")],
    delta: Annotated[float, typer.Option(help="0 is pure privacy, and usually as good.")] = 0.0,
    threshold: ThresholdOption = 0.5,
    adjacency: opt.AdjacencyOption = "replace-one",
    population: Annotated[
        int | None, typer.Option(help="A guess of the number of rows (persons), for add-remove.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Charge this ledger; `noisette ledger` starts one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answer of --json to this file, too.")
    ] = None,
    no_header: NoHeaderOption = False,
    force: ForceOption = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, for experiments: NOT PRIVATE.")
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Score a model on a table privately: accuracy, AUC, calibration, with error bars.

    One noisy table of labels and score bins pays for all of it. If the model was trained on the
    same people, both costs add up: charge both to one ledger.

    [bold]Example[/bold]: noisette evaluate model other_patients.csv --epsilon 1
    """
    from noisette import _validate
    from noisette import evaluate as evaluated
    from noisette.app.commands.watched import keeping, spending
    from noisette.core.adjacency import Adjacency
    from noisette.tables import read_model

    _validate.epsilon(epsilon)
    _validate.delta(delta)
    relation = Adjacency.of(adjacency)
    if seed is not None and ledger is not None:
        raise InvalidParameter(
            "scores with --seed hide nobody, so no ledger may book them as if they did; leave out "
            "--seed or --ledger."
        )
    warn_of_large(epsilon)
    fitted = read_model(model)
    check_threshold(threshold, fitted.model)
    with (
        spending(ledger, epsilon, delta, relation, table.name) as budget,
        keeping(budget, out, "noisette-scores", force=force) as keep,
    ):
        with busy("reading the table"):
            rows = fitted.read(table, target=True, header=not no_header)
        with warning_aloud():
            found: Any = evaluated(
                fitted.model, rows.X, rows.y, epsilon=epsilon, delta=delta, adjacency=adjacency,
                population=population, ledger=budget, persons=rows.persons, random_state=seed,
            )  # fmt: skip
        told, lines = at_threshold(found, threshold)
        answer = {"scores": told, "guarantee": found.privacy_.to_dict()}
        keep(answer)
        if json:
            print(json_module.dumps(answer))
        else:
            print(visible(found.privacy_.statement()))
            print()
            print(visible_lines(lines))
