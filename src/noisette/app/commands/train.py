"""``noisette schema`` and ``noisette train``: from a table to a model."""

import contextlib
import inspect
import json as json_module
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._validate import refuse, visible
from noisette.app.commands import console
from noisette.app.commands import options as opt
from noisette.app.commands.clusters import cluster_for, parts_of, waiting
from noisette.app.job import ADDITIVE, CHOICES, MODELS, Job, takes
from noisette.errors import InvalidData, InvalidParameter, NoisetteError

if TYPE_CHECKING:
    from noisette.app.commands.watched import WatchedLedger
    from noisette.tables import Schema
    from noisette.tables.folders import TableModel


def schema(
    table: opt.TableArgument,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to the screen.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the CSV file has a header line."),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the CSV file.")] = "utf-8",
    learn: Annotated[
        bool, typer.Option("--learn", help='For a training that learns bounds and levels ("?").')
    ] = False,
    force: opt.ForceOption = False,
) -> None:
    """Write a template of public facts for a table, without looking at its rows.

    [bold]Example[/bold]: noisette schema patients.csv --target ill --out patients.toml
    """
    from noisette.tables import template

    text = template(table, target, header=header, encoding=encoding, learn=learn)
    if out is None:
        sys.stdout.write(text)
        return
    console.write_text(out, text, force=force)
    what, more = 'every "?" from what you know', ""
    if learn:
        what, more = "every kind, the classes and the unit", " --delta 1e-6 --learn"
    words = f"Wrote {out}. Fill in {what}, then: noisette train {table} "
    typer.echo(visible(f"{words}--schema {out} --epsilon 1{more}"))


@partial(takes, Job)
def train(job: Job) -> None:
    """Train a private model on a table; write the model, its guarantee and a report.

    [bold]Example[/bold]: noisette train patients.csv --target ill --schema patients.toml
    --epsilon 1 --out model
    """
    from noisette import _validate
    from noisette.app.commands.watched import spending
    from noisette.core.adjacency import Adjacency
    from noisette.core.guarantee import too_large
    from noisette.tables import read_schema
    from noisette.tables.drafts import draft_of
    from noisette.tables.folders import check_folder, prepare

    assert job.table is not None
    assert job.out is not None
    epsilon, delta = _validate.epsilon(job.epsilon), _validate.delta(job.delta)
    _validate.choice("--model", job.model, CHOICES)
    relation = Adjacency.of(job.adjacency)
    if job.seed is not None and job.ledger is not None:
        raise InvalidParameter(
            "a model with --seed hides nobody, so no ledger may book it as if it did; leave out "
            "--seed or --ledger."
        )
    if job.schema is None:
        hint = f" --target {job.target}" if job.target else ""
        raise InvalidParameter(
            "a schema with the public facts is needed, for none is read off the rows; start one "
            f"with: noisette schema {job.table}{hint} --out schema.toml."
        )
    facts = read_schema(job.schema, job.target, learn=job.learn)
    if not job.learn and None in (facts.target_bounds or ()):
        raise InvalidParameter(
            "low or high of [target] is still to be filled in; write what is known without the "
            "rows, or pass --learn to buy it."
        )
    estimator = estimator_of(job, facts, random_state=job.seed)
    check_folder(job.out, force=job.force)
    console.warn(too_large(epsilon))
    with (
        cluster_for(job.table, job.cluster, job.workers) as parts,
        spending(job.ledger, epsilon, delta, relation, job.table.name) as budget,
        draft_of(job.out) as draft,
    ):
        budget.telling, budget.draft = job.progress, draft
        budget.about(facts.kinds, job.same_people)
        prepare(draft, facts)
        estimator.ledger = budget
        records = _fit(job, job.table, estimator, facts, budget, parts=parts)
        fitted, place = _keep(estimator, budget, job, records)
        if place != draft.target:  # said loudly, for programs look for it there
            raise NoisetteError(
                f"somebody else wrote {job.out} while this model was trained, so nothing was "
                "replaced"
            )
        budget.printing = True
        _report_training(fitted, job.out, job.ledger, budget, as_json=job.json)


def _fit(
    job: Job, table: Path, estimator: Any, facts: "Schema", budget: "WatchedLedger", *, parts: bool
) -> int | None:
    """Train on one file, read here, or on files that workers read.

    Returns the number of rows (persons) where it is public.
    """
    from noisette import _validate
    from noisette.fitting.units import Unit
    from noisette.tables.frame import Frame

    budget.tell("reading")
    data: Any
    records = None
    if parts:
        data = parts_of(table, facts)
        # of persons the rows are private, and the training counts persons itself
        if job.counted and facts.persons is None:
            from noisette.core.parts import summed
            from noisette.fitting.partitions import parted

            with waiting("counting rows"):
                records = int(summed(len, *parted(data)))
    else:
        with console.busy("reading the table"):  # and how far it is would tell the number of rows
            data = Frame.read(table, facts, target=True, header=not job.no_header)
            count = Unit.of(data.persons(), data.rows).count
        records = count if job.counted else None
    if records == 1:
        raise InvalidData(f"{table} has {facts.whose.alone}; a model needs more.")
    _validate.delta_for(job.delta, records or job.rows, "--delta")
    budget.tell("training")
    with waiting("training") if parts else console.busy("training"), console.warning_aloud():
        estimator.fit(data)
    return records


def _label_weights(text: str) -> Any:
    """Return what ``--class-weight`` says: "balanced", or a weight for each label named."""
    if text == "balanced":
        return text
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        return {label.strip(): float(weight) for label, weight in pairs}
    except ValueError:
        raise InvalidParameter(
            "--class-weight must be balanced, or weights by label such as no=1,yes=5; got "
            f"{text!r}."
        ) from None


def _named_pairs(text: str, model: str, facts: "Schema") -> tuple[tuple[str, str], ...]:
    """Return what ``--pairs`` says: columns that an additive model may look at together."""
    from noisette.tables.pipeline.pairs import checked_pairs

    found = [[name.strip() for name in part.split(":")] for part in text.split(",")]
    refuse(
        (model != ADDITIVE, "--pairs is for --model additive."),
        (not all(len(names) == 2 and all(names) for names in found),
         "--pairs must name columns such as day:month,latitude:longitude (in Python, `pairs` takes "
         f"names with a colon or a comma too); got {text!r}."),
    )  # fmt: skip
    return checked_pairs(found, facts)


_OTHERS = {"classes", "ledger", "model", "schema"}  # of a job: not the parameters of these names


def estimator_of(job: Job, facts: "Schema | None" = None, **more: Any) -> Any:
    """Return the model that a job asks for; `facts` are those of its table, where there is one.

    Options are handed to the constructor by their names; those of other models are refused.
    """
    from noisette.tables.pipeline import (
        AdditiveClassifier,
        AdditiveRegressor,
        TableClassifier,
        TableRegressor,
    )

    given: dict[str, Any] = {
        "epsilon": job.epsilon, "delta": job.delta, "adjacency": job.adjacency,
        "population": job.population, **more,
    }  # fmt: skip
    if job.class_weight is not None:
        given["class_weight"] = _label_weights(job.class_weight)
    if job.pairs is not None and facts is not None:
        given["pairs"] = _named_pairs(job.pairs, job.model, facts)
    curves, number = job.model == ADDITIVE, facts is not None and facts.target_bounds is not None
    refuse(
        (number and job.class_weight is not None,
         "--class-weight is for labels, and the target is a number."),
        (number and job.model not in ("logistic", ADDITIVE),
         "the target is a number, which has one way of training here; leave out --model "
         f"{job.model}."),
        (job.model == "sgd" and not job.counted and job.delta == 0.0,
         "--model sgd without --delta cuts the table into batches, which has no proof under "
         "add-remove; give a --delta such as 1e-6, or use --model logistic or svm."),
        (job.model == "sgd" and not job.counted and job.rows is None,
         "--model sgd under add-remove needs --population, a guess of the row count made "
         "without the data."),
    )  # fmt: skip
    if facts is None:
        from noisette import _validate, linear

        kind = getattr(linear, MODELS[_validate.choice("--model", job.model, MODELS)])
        given["norm_bound"] = 1.0
    elif facts.target_bounds is not None:
        kind, given["schema"] = AdditiveRegressor if curves else TableRegressor, facts
        given["target_bounds"] = "learn" if None in facts.target_bounds else None
    else:
        kind, given["schema"] = AdditiveClassifier if curves else TableClassifier, facts
        if not curves:
            given["model"] = job.model
        if "row_norm" in facts.source:
            console.warn(
                "row_norm of the schema is not used: the scale of rows is learnt with the model."
            )
    tables = (AdditiveClassifier, AdditiveRegressor, TableClassifier, TableRegressor)
    options = set().union(*(inspect.signature(each).parameters for each in tables)) - _OTHERS
    for each in fields(job):
        value = getattr(job, each.name)
        if each.name in options and value not in (each.default, "auto"):
            given.setdefault(each.name, value)
    for name in sorted(given.keys() - inspect.signature(kind).parameters.keys()):
        where = " where the target is a number" if number else " without --schema" * (facts is None)
        raise InvalidParameter(f"--{name.replace('_', '-')} is not for --model {job.model}{where}.")
    return kind(**given)


def _keep(
    estimator: Any, budget: "WatchedLedger", job: Job, records: int | None
) -> tuple["TableModel", Path]:
    """Put on the disk what was paid for, before anything else; then the report."""
    from noisette.tables.folders import MODEL, TableModel, add_page, fill, stated
    from noisette.tables.pipeline.table_page import page_of

    assert job.table is not None
    assert budget.draft is not None
    estimator.privacy_ = stated(estimator.privacy_, estimator.schema_, learnt=True)
    fitted = TableModel(estimator, estimator.schema_)
    try:
        fill(budget.draft, fitted)
    except OSError:  # some faults of a disk pass, and nobody can buy the same again
        fill(budget.draft, fitted)
    budget.tell("writing")
    place = budget.draft.give_name(force=job.force)
    budget.note_kept(place / MODEL)
    ledger = None if job.ledger is None else budget
    try:
        table, model = console.readable(job.table.name), console.readable(place.name)
        add_page(place, page_of(fitted, table, records, ledger, model))
    except Exception as error:
        console.warn(
            f"the report could not be made ({type(error).__name__}); the model is not touched."
        )
    return fitted, place


def scores_of(model: Any) -> list[tuple[str, Any]]:
    """Return the private scores on test people by name, with error bars; nothing without them."""
    found = getattr(model, "test_", None)
    if found is None:
        return []
    if hasattr(found, "r2"):
        return [("R2", found.r2), ("mean absolute error", found.mae)]
    answer, share = found.majority
    return [
        *([("AUC", found.auc)] if hasattr(found, "auc") else []),
        ("accuracy", found.accuracy),
        (f"accuracy of answering {str(answer)!r} to everybody", share),
    ]


def doubts_of(model: Any) -> tuple[list[str], list[str]]:
    """Return what the statement says of a rare label, and of targets beyond their limits."""
    from noisette.tables.pipeline.target import LIMITS

    notes = model.privacy_.notes
    return [n for n in notes if "have the rarer label" in n], [n for n in notes if LIMITS in n]


_HINT = (
    "a training with --class-weight balanced lets it count as much as the other, one with "
    "--test-share 0.2 is scored on other people; each costs its own epsilon"
)


def _report_training(
    fitted: "TableModel", out: Path, ledger: str | None, budget: Any, *, as_json: bool
) -> None:
    from noisette.app.commands.watched import shown_place
    from noisette.tables.pipeline.table_words import cost_rows, done

    spent = left = None
    name = "" if ledger is None else shown_place(ledger, budget)
    if name:
        with contextlib.suppress(NoisetteError, OSError):  # it cannot be read any more
            spent, left = budget.spent, budget.remaining
    if as_json:
        names = ("step", "released", "part", "epsilon_alone")
        answer: dict[str, Any] = {
            "folder": str(out),
            "model": type(fitted.model).__name__,
            "features": len(fitted.schema.features),
            "guarantee": fitted.guarantee.to_dict(),
            "steps": [dict(zip(names, row, strict=True)) for row in cost_rows(fitted.model)],
        }
        if hasattr(fitted.model, "test_"):
            answer["test"] = fitted.model.test_.to_dict()
        if name:
            answer["ledger"] = {"file": name, "spent": spent, "remaining": left}
        print(json_module.dumps(answer))
        return
    scores, (rare, cut) = scores_of(fitted.model), doubts_of(fitted.model)
    lines = [
        done(fitted.model),
        *(f"{what} {score} on other people, part of the guarantee" for what, score in scores),
    ]
    if scores:
        tested = fitted.model.test_
        lines += filter(None, [getattr(tested, "scope", ""), *cut, tested.verdict()])
    else:  # what speaks against it
        lines += [*rare, *[_HINT] * len(rare), *cut]
    if name and budget.rule == "sums" and left is not None:
        lines.append(f"ledger {name}: epsilon {left[0]:.6g} and delta {left[1]:g} are left")
    elif name:
        lines.append(f"ledger {name}: see noisette ledger for what is left")
    folder = console.readable(str(out))
    console.print_guarantee(fitted.guarantee)
    console.say(
        *lines,
        f"wrote {folder}/model.noisette, schema.toml, guarantee.json and report.html",
        f"next: open {folder}/report.html in a browser, or",
        f"      noisette predict {folder} TABLE --out predictions.csv",
    )
