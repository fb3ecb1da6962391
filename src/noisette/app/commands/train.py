"""``noisette schema`` and ``noisette train``: from a table to a model."""

import inspect
import json as json_module
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.app.commands.clusters import cluster_for, in_parts, parts_of, rows_in, waiting
from noisette.app.commands.console import (
    busy,
    readable,
    telling,
    warn,
    warn_of_large,
    warning_aloud,
    write_text,
)
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
    write_text(out, text, force=force)
    what, more = 'every "?" from what you know', ""
    if learn:
        what, more = "every kind, the classes and the unit", " --delta 1e-6 --learn"
    words = f"Wrote {out}. Fill in {what}, then: noisette train {table} "
    typer.echo(visible(f"{words}--schema {out} --epsilon 1{more}"))


@takes(Job)
def train(job: Job) -> None:
    """Train a private model on a table; write the model, its guarantee and a report.

    [bold]Example[/bold]: noisette train patients.csv --target ill --schema patients.toml
    --epsilon 1 --out model
    """
    from noisette import _validate
    from noisette.app.commands.watched import spending
    from noisette.core.adjacency import Adjacency
    from noisette.tables.folders import check_folder, draft_of, prepare

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
    facts = _facts(job)
    check_folder(job.out, force=job.force)
    warn_of_large(epsilon)
    parts = in_parts(job.table, job.cluster, job.workers)
    with (
        cluster_for(job.cluster, job.workers),
        spending(job.ledger, epsilon, delta, relation, job.table.name) as budget,
        draft_of(job.out) as draft,
    ):
        budget.tell, budget.draft = telling(job.progress), draft
        budget.about(facts.kinds, job.same_people)
        prepare(draft, facts)
        estimator = estimator_of(job, facts, random_state=job.seed, ledger=budget)
        work = _Work(job, job.table, estimator, facts, budget.tell)
        records = work.fit_parts() if parts else work.fit_rows()
        fitted, place = _keep(estimator, facts, budget, force=job.force)
        _add_page(fitted, place, job.table.name, records, None if job.ledger is None else budget)
        if place != draft.target:  # said loudly, for programs look for it there
            raise NoisetteError(
                f"somebody else wrote {job.out} while this model was trained, so nothing was "
                "replaced"
            )
        budget.printing = True
        _report_training(fitted, job.out, job.ledger, budget, as_json=job.json)


def _facts(job: Job) -> "Schema":
    """Return the schema of a training, with every fact that is not to be bought."""
    from noisette.tables import read_schema

    if job.schema is None:
        hint = f" --target {job.target}" if job.target else ""
        raise InvalidParameter(
            "a schema with the public facts is needed, for none is read off the rows; start one "
            f"with: noisette schema {job.table}{hint} --out schema.toml."
        )
    facts = read_schema(job.schema, job.target, learn=job.learn)
    wishes_for(job, facts)
    if not job.learn and None in (facts.target_bounds or ()):
        raise InvalidParameter(
            "low or high of [target] is still to be filled in; write what is known without the "
            "rows, or pass --learn to buy it."
        )
    return facts


class _Work(NamedTuple):
    """What is trained on what; both ways return the number of rows where it is public."""

    job: Job
    table: Path
    estimator: Any
    facts: "Schema"
    say: Callable[[str], None]

    def fit_rows(self) -> int | None:
        """Train on one file, read here."""
        from noisette.fitting.units import Unit
        from noisette.tables.frame import Frame

        self.say("reading")
        with busy("reading the table"):  # and how far it is would tell the number of rows
            frame = Frame.read(self.table, self.facts, target=True, header=not self.job.no_header)
            count = Unit.of(frame.persons(), frame.rows).count
        records = count if self.job.counted else None
        self._check_size(records)
        self.say("training")
        with busy("training"), warning_aloud():
            self.estimator.fit(frame)
        return records

    def fit_parts(self) -> int | None:
        """Train on files that workers read."""
        self.say("reading")
        whole = parts_of(self.table, self.facts)
        records = None  # of persons the rows are private, and the training counts persons itself
        if self.job.counted and self.facts.persons is None:
            with waiting("counting rows"):
                records = rows_in(whole)
            self._check_size(records)
        self.say("training")
        with waiting("training"), warning_aloud():
            self.estimator.fit(whole)
        return records

    def _check_size(self, records: int | None) -> None:
        """Refuse a table of one row or person, and a delta that allows what nobody wants."""
        from noisette import _validate

        if records == 1:
            raise InvalidData(f"{self.table} has {self.facts.whose.alone}; a model needs more.")
        _validate.delta_for(self.job.delta, records or self.job.rows, "--delta")


def wishes_for(job: Job, facts: "Schema | None") -> dict[str, Any]:
    """Return what a job says beside budget and algorithm, as parameters of an estimator."""
    found: dict[str, Any] = {}
    if job.test_share is not None:
        found["test_share"] = job.test_share
    if job.class_weight is not None:
        found["class_weight"] = _label_weights(job.class_weight)
    if job.pairs is not None and facts is not None:
        found["pairs"] = _named_pairs(job.pairs, job.model, facts)
    return found


def _label_weights(text: str) -> Any:
    """Return what ``--class-weight`` says: "balanced", or a weight for each label named."""
    if text == "balanced":
        return text
    found = {}
    for part in text.split(","):
        label, sign, weight = part.rpartition("=")
        try:
            found[label.strip()] = float(weight)
        except ValueError:
            sign = ""
        if not sign:
            raise InvalidParameter(
                "--class-weight must be balanced, or weights by label such as no=1,yes=5; got "
                f"{text!r}."
            )
    return found


def _named_pairs(text: str, model: str, facts: "Schema") -> tuple[tuple[str, str], ...]:
    """Return what ``--pairs`` says: columns that an additive model may look at together."""
    from noisette.tables.pipeline.pairs import checked_pairs

    if model != ADDITIVE:
        raise InvalidParameter("--pairs is for --model additive.")
    found = [[name.strip() for name in part.split(":")] for part in text.split(",")]
    if not all(len(names) == 2 and all(names) for names in found):
        raise InvalidParameter(
            "--pairs must name columns such as day:month,latitude:longitude (in Python, `pairs` "
            f"takes names with a colon or a comma too); got {text!r}."
        )
    return checked_pairs(found, facts)


def estimator_of(job: Job, facts: "Schema | None" = None, **more: Any) -> Any:
    """Return the model that a job asks for; `facts` are those of its table, where there is one."""
    shared = {
        "epsilon": job.epsilon, "delta": job.delta, "adjacency": job.adjacency,
        "population": job.population, **wishes_for(job, facts), **more,
    }  # fmt: skip
    if facts is not None and facts.target_bounds is not None:
        return _regressor(job, facts, shared)
    if job.model == "sgd":
        _check_sgd(job)
    if facts is None:
        return _linear(job, shared)
    from noisette.tables.pipeline import AdditiveClassifier, TableClassifier

    if "row_norm" in facts.source:
        warn("row_norm of the schema is not used: the scale of rows is learnt with the model.")
    if job.model != ADDITIVE:
        return TableClassifier(model=job.model, schema=facts, **(shared | job.wishes))
    for name in job.wishes:
        raise InvalidParameter(f"--model additive has a training of its own; leave out --{name}.")
    return AdditiveClassifier(schema=facts, **shared)


def _regressor(job: Job, facts: "Schema", shared: dict[str, Any]) -> Any:
    """Return the model of a target that the schema calls numeric."""
    from noisette.tables.pipeline import AdditiveRegressor, TableRegressor

    if "class_weight" in shared:  # not dropped in silence
        raise InvalidParameter("--class-weight is for labels, and the target is a number.")
    chosen = [f"--{name}" for name in job.wishes]
    chosen += [f"--model {job.model}"] * (job.model not in ("logistic", ADDITIVE))
    if chosen:
        raise InvalidParameter(
            f"the target is a number, which has one way of training here; leave out {chosen[0]}."
        )
    bought = "learn" if None in (facts.target_bounds or ()) else None
    kind = AdditiveRegressor if job.model == ADDITIVE else TableRegressor
    return kind(schema=facts, target_bounds=bought, **shared)


def _check_sgd(job: Job) -> None:
    """Refuse what has no proof for SGD under add-remove, in the words of the command line."""
    if job.counted:
        return
    if job.delta == 0.0:
        raise InvalidParameter(
            "--model sgd without --delta cuts the table into batches, which has no proof under "
            "add-remove; give a --delta such as 1e-6, or use --model logistic or svm."
        )
    if job.rows is None:
        raise InvalidParameter(
            "--model sgd under add-remove needs --population, a guess of the row count made "
            "without the data."
        )


def _linear(job: Job, shared: dict[str, Any]) -> Any:
    """Return an estimator of rows; refuse a wish that it has no parameter for."""
    from noisette import _validate, linear

    kind = getattr(linear, MODELS[_validate.choice("--model", job.model, MODELS)])
    known = inspect.signature(kind).parameters
    for option, value in job.wishes.items():
        if option not in known:
            raise InvalidParameter(f"--{option} {value} is not for --model {job.model}.")
    return kind(norm_bound=1.0, **shared, **job.wishes)


def _keep(
    estimator: Any, facts: "Schema", budget: "WatchedLedger", *, force: bool
) -> tuple["TableModel", Path]:
    """Put on the disk what was paid for, before anything else."""
    from noisette.tables.folders import MODEL, TableModel, fill, stated, takes_tables

    assert budget.draft is not None
    learnt = takes_tables(estimator)
    facts = estimator.schema_ if learnt else facts
    estimator.privacy_ = stated(estimator.privacy_, facts, learnt=learnt)
    fitted = TableModel(estimator, facts)
    try:
        fill(budget.draft, fitted)
    except OSError:  # some faults of a disk pass, and nobody can buy the same again
        fill(budget.draft, fitted)
    budget.tell("writing")
    place = budget.draft.give_name(force=force)
    budget.note_kept(place / MODEL)
    return fitted, place


def _add_page(
    fitted: "TableModel", place: Path, table: str, records: int | None, ledger: Any
) -> None:
    """Write the report of a model that stands; if that fails, a sentence stays in its place."""
    from noisette.tables.folders import add_page
    from noisette.tables.pipeline.table_page import page_of

    try:
        page = page_of(fitted, readable(table), records, ledger, readable(place.name))
        add_page(place, page)
    except Exception as error:
        warn(f"the report could not be made ({type(error).__name__}); the model is not touched.")


def scores_of(model: Any) -> list[tuple[str, Any]]:
    """Return the private scores on test people by name, with error bars; nothing without them."""
    found = getattr(model, "test_", None)
    if found is None:
        return []
    if hasattr(found, "r2"):
        return [("R2", found.r2), ("mean absolute error", found.mae)]
    answer, share = found.majority
    scores = [("AUC", found.auc)] if hasattr(found, "auc") else []
    everybody = f"accuracy of answering {str(answer)!r} to everybody"
    return [*scores, ("accuracy", found.accuracy), (everybody, share)]


def doubts_of(model: Any) -> tuple[list[str], list[str]]:
    """Return what the statement says of a rare label, and of targets beyond their limits."""
    from noisette.tables.pipeline.cut_targets import LIMITS

    notes = model.privacy_.notes
    rare = [note for note in notes if "have the rarer label" in note]
    return rare, [note for note in notes if LIMITS in note]


def _tested_lines(model: Any) -> list[str]:
    """Return the scores on test people in a few lines; without them, what speaks against it."""
    rare, cut = doubts_of(model)
    found = getattr(model, "test_", None)
    if found is None:
        hint = (
            "a training with --class-weight balanced lets it count as much as the other, one with "
            "--test-share 0.2 is scored on other people; each costs its own epsilon"
        )
        return [*rare, *([hint] * len(rare)), *cut]
    lines = [
        f"{name} {score} on other people, part of the guarantee" for name, score in scores_of(model)
    ]
    return [*lines, *filter(None, [getattr(found, "scope", ""), *cut, found.verdict()])]


def _balance(budget: "WatchedLedger") -> dict[str, Any]:
    """Return what is spent and left, or None where the ledger cannot be read any more."""
    try:
        return {"spent": budget.spent, "remaining": budget.remaining}
    except (NoisetteError, OSError):
        return {"spent": None, "remaining": None}


def _report_training(
    fitted: "TableModel", out: Path, ledger: str | None, budget: Any, *, as_json: bool
) -> None:
    from noisette.app.commands.watched import shown_place
    from noisette.tables.folders import takes_tables
    from noisette.tables.pipeline.table_words import cost_rows, done

    guarantee = fitted.guarantee
    learnt = takes_tables(fitted.model)
    if as_json:
        answer: dict[str, Any] = {
            "folder": str(out),
            "model": type(fitted.model).__name__,
            "features": len(fitted.schema.features),
            "guarantee": guarantee.to_dict(),
        }
        if learnt:
            names = ("step", "released", "part", "epsilon_alone")
            rows = cost_rows(fitted.model)
            answer["steps"] = [dict(zip(names, row, strict=True)) for row in rows]
        if hasattr(fitted.model, "test_"):
            answer["test"] = fitted.model.test_.to_dict()
        if ledger is not None:
            answer["ledger"] = {"file": shown_place(ledger, budget), **_balance(budget)}
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
    if learnt:
        console.print(visible(done(fitted.model)), highlight=False, soft_wrap=True, markup=False)
    for line in _tested_lines(fitted.model):
        console.print(visible(line), highlight=False, soft_wrap=True, markup=False)
    if ledger is not None:
        left, name = _balance(budget)["remaining"], shown_place(ledger, budget)
        words = f"ledger {name}: see noisette ledger for what is left"
        if budget.rule == "sums" and left is not None:
            words = f"ledger {name}: epsilon {left[0]:.6g} and delta {left[1]:g} are left"
        console.print(visible(words), highlight=False, soft_wrap=True, markup=False)
    folder = readable(str(out))
    for line in (
        f"wrote {folder}/model.noisette, schema.toml, guarantee.json and report.html",
        f"next: open {folder}/report.html in a browser, or",
        f"      noisette predict {folder} TABLE --out predictions.csv",
    ):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
