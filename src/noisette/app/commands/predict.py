"""``noisette predict`` and ``noisette evaluate``: use a model, and say how good it is."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from noisette._validate import refuse, visible
from noisette.app.commands import options as opt
from noisette.app.commands.console import busy, csv_text, reply, warn, warning_aloud, write_text
from noisette.errors import InvalidParameter

ThresholdOption = Annotated[
    float, typer.Option(help="Answer with the second class above this probability.")
]


def predict(
    model: opt.ModelArgument,
    table: opt.TableArgument,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to the screen.")] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of each class.")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Print how good it is; TABLE needs the target.")
    ] = False,
    threshold: ThresholdOption = 0.5,
    no_header: opt.NoHeaderOption = False,
    force: opt.ForceOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Predict the labels of a table as CSV, one line for each row.

    Using a private model costs nothing more for the people it was trained on. Scores of --score
    are facts about the rows of TABLE, which no guarantee covers; `noisette evaluate` buys private
    ones.

    [bold]Example[/bold]: noisette predict model patients.csv --out predictions.csv --proba
    """
    from noisette.tables import read_model

    refuse(
        (score and (proba or out is not None),
         "--score prints scores only; leave out --out and --proba."),
        (not score and threshold != 0.5,
         "--threshold is for --score; predictions go by the likelier label."),
    )  # fmt: skip
    fitted = read_model(model)
    if proba and not hasattr(fitted.model, "predict_proba"):
        raise InvalidParameter(
            f"{type(fitted.model).__name__} gives no probabilities; leave out --proba."
        )
    _check_threshold(threshold, fitted.model)
    with busy("reading the table"):
        rows = fitted.read(table, target=score, header=not no_header)
    if score:
        _show_scores(fitted, rows, threshold, as_json=json)
        return
    names: list[str] = [f"predicted {fitted.schema.target}"]
    columns: list[list[Any]] = [fitted.model.predict(rows.X).tolist()]
    if proba:
        names += [f"probability of {label}" for label in fitted.model.classes_]
        columns += fitted.model.predict_proba(rows.X).T.tolist()
    if json:
        text = json_module.dumps(dict(zip(names, columns, strict=True))) + "\n"
    else:
        shown = [columns[0], *([f"{p:.6f}" for p in column] for column in columns[1:])]
        text = csv_text(names, zip(*shown, strict=True))
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, force=force)
        typer.echo(visible(f"wrote {rows.count} predictions to {out}"), err=True)


def evaluate(
    model: opt.ModelArgument,
    table: opt.TableArgument,
    epsilon: Annotated[float, typer.Option(help="The budget of the scores; smaller: safer.")],
    delta: Annotated[float, typer.Option(help="0 is pure privacy, and usually as good.")] = 0.0,
    threshold: ThresholdOption = 0.5,
    adjacency: Annotated[
        str, typer.Option(help="replace-one, zero-out or add-remove.")
    ] = "replace-one",
    population: Annotated[
        int | None, typer.Option(help="A guess of the number of rows (persons), for add-remove.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Charge this ledger; `noisette ledger` starts one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answer of --json to this file, too.")
    ] = None,
    no_header: opt.NoHeaderOption = False,
    force: opt.ForceOption = False,
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
    from noisette.core.guarantee import too_large
    from noisette.tables import read_model

    _validate.epsilon(epsilon)
    _validate.delta(delta)
    if seed is not None and ledger is not None:
        raise InvalidParameter(
            "scores with --seed hide nobody, so no ledger may book them as if they did; leave out "
            "--seed or --ledger."
        )
    warn(too_large(epsilon))
    fitted = read_model(model)
    _check_threshold(threshold, fitted.model)
    with (
        spending(ledger, epsilon, delta, Adjacency.of(adjacency), table.name) as budget,
        keeping(budget, out, "noisette-scores", force=force) as keep,
    ):
        with busy("reading the table"):
            rows = fitted.read(table, target=True, header=not no_header)
        with warning_aloud():
            found: Any = evaluated(
                fitted.model, rows.X, rows.y, epsilon=epsilon, delta=delta, adjacency=adjacency,
                population=population, ledger=budget, persons=rows.persons, random_state=seed,
            )  # fmt: skip
        scores, lines = _at_threshold(found, threshold)
        told = {"scores": scores, "guarantee": found.privacy_.to_dict()}
        keep(told)
        reply(told, found.privacy_.statement(), "", *lines, as_json=json)


def _show_scores(fitted: Any, rows: Any, threshold: float, *, as_json: bool) -> None:
    """Print how good the model is on rows whose target is known."""
    if fitted.schema.target_bounds is not None:
        limits = getattr(fitted.model, "target_bounds_", None) or fitted.schema.target_bounds
        told, lines = _off(fitted.model.predict(rows.X), rows.y, limits)
    else:
        from noisette.scores import measure

        scores, lines = _at_threshold(measure(fitted.model, rows.X, rows.y), threshold)
        count = int(rows.X.shape[0])
        told = {"accuracy": scores["accuracy"]["value"], "rows": count, "scores": scores}
        lines = [f"scores on {count} rows (facts about them: not private)", *lines]
    reply(told, *lines, as_json=as_json)


def _off(predicted: Any, truth: Any, limits: Any) -> tuple[dict[str, Any], list[str]]:
    """Return how far predicted numbers are off, for JSON and as lines."""
    errors, away = predicted - truth, truth - truth.mean()
    spread, square = float((away**2).mean()), float((errors**2).mean())
    absolute, r2 = float(abs(errors).mean()), 1.0 - square / spread if spread > 0.0 else 0.0
    usual, (low, high) = float(abs(away).mean()), limits
    beyond = float(((truth < low) | (truth > high)).mean())
    lines = [
        f"MAE {absolute:.5g}, RMSE {square**0.5:.5g}, R2 {r2:.4f} on {len(truth)} rows (a fact "
        "about them: not private)",
        f"their mean, given to everybody: MAE {usual:.5g}, RMSE {spread**0.5:.5g}, R2 0",
    ]
    if beyond > 0.0:
        lines.append(
            f"{beyond:.1%} of these targets lie beyond the limits of the model, {low:g} and "
            f"{high:g}, which no prediction leaves"
        )
    if r2 <= 0.0:
        lines.append("The model is no better than the mean of the targets, given to everybody.")
    return {"MAE": absolute, "RMSE": square**0.5, "R2": r2, "rows": len(truth)}, lines


def _check_threshold(threshold: float, model: Any) -> None:
    """Refuse what cannot be a threshold of this model, before anything is read or charged."""
    refuse(
        (not 0.0 <= threshold <= 1.0, f"--threshold must lie in [0, 1]; got {threshold!r}."),
        (threshold != 0.5 and len(getattr(model, "classes_", ())) != 2,
         "--threshold is for models of two classes."),
    )  # fmt: skip


def _at_threshold(found: Any, threshold: float) -> tuple[dict[str, Any], list[str]]:
    """Return scores for JSON and as lines."""
    from noisette.scores import BinaryScores

    given = (threshold,) if isinstance(found, BinaryScores) else ()
    return found.to_dict(*given), found.lines(*given)
