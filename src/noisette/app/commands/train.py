"""``noisette schema`` and ``noisette train``: from a table to a model."""

import inspect
import json as json_module
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.app.commands.clusters import (
    ClusterOption,
    WorkersOption,
    cluster_for,
    in_parts,
    parts_of,
    rows_in,
    waiting,
)
from noisette.app.commands.console import (
    busy,
    readable,
    telling,
    warn,
    warn_of_large,
    warning_aloud,
    write_text,
)
from noisette.errors import InvalidData, InvalidParameter, NoisetteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from noisette.app.commands.watched import WatchedLedger
    from noisette.core.adjacency import Adjacency
    from noisette.tables import Schema
    from noisette.tables.folders import TableModel

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
ADDITIVE = "additive"
CHOICES = (*MODELS, ADDITIVE)


def schema(
    table: TableArgument,
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
    force: ForceOption = False,
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


def one_epsilon(text: str) -> float:
    """Return the one epsilon of one model; say what a list of them would cost."""
    parts = str(text).split(",")
    each = [float(part) for part in parts]
    if len(each) > 1:
        # Not an InvalidParameter: typer would put its own words in the place of a ValueError's.
        raise NoisetteError(
            f"--epsilon {text} asks for {len(each)} models of the same people, which together cost "
            f"epsilon = {math.fsum(each):.6g} and {len(each)} times delta; train one, and compare "
            "epsilons with `noisette plan`, or with `noisette compare-epsilons` on a public table."
        )
    return each[0]


def label_weights(text: str) -> Any:
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


def named_pairs(text: str, model: str, facts: "Schema") -> tuple[tuple[str, str], ...]:
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


def train(
    table: TableArgument,
    epsilon: Annotated[
        float,
        typer.Option(
            help="The budget of this model; smaller: safer.", parser=one_epsilon, metavar="<float>"
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The filled schema; `noisette schema TABLE` starts one.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    learn: Annotated[
        bool, typer.Option("--learn", help='Learn facts that the schema leaves open ("?").')
    ] = False,
    model: Annotated[str, typer.Option(help="One of: " + ", ".join(CHOICES) + ".")] = "logistic",
    pairs: Annotated[
        str | None,
        typer.Option(help="For additive: columns to look at together, such as day:month,lat:long."),
    ] = None,
    mechanism: Annotated[str, typer.Option(help=opt.mechanism_help())] = "auto",
    loss: Annotated[str | None, typer.Option(help=opt.loss_help())] = None,
    sampling: Annotated[str | None, typer.Option(help=opt.sampling_help())] = None,
    adjacency: opt.AdjacencyOption = "replace-one",
    population: Annotated[
        int | None, typer.Option(help="A guess of the number of rows (persons), for add-remove.")
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(help='"balanced", or weights by label: no=1,yes=5.')
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(help="Score on this part of the people instead; 0.2 is common."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Charge this ledger; `noisette ledger` starts one.")
    ] = None,
    same_people: Annotated[
        bool | None,
        typer.Option(
            "--same-people/--other-people",
            help="Whether another ledger for such a table is about the same people.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the model.")] = Path("noisette-model"),
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    no_header: NoHeaderOption = False,
    force: ForceOption = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, for experiments: NOT PRIVATE.")
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Say each step in a line on stderr, for programs.")
    ] = False,
    json: opt.JsonOption = False,
) -> None:
    """Train a private model on a table; write the model, its guarantee and a report.

    [bold]Example[/bold]: noisette train patients.csv --target ill --schema patients.toml
    --epsilon 1 --out model
    """
    from noisette import _validate
    from noisette.app.commands.watched import spending
    from noisette.core.adjacency import Adjacency
    from noisette.tables import read_schema
    from noisette.tables.folders import check_folder, draft_of, prepare

    _validate.epsilon(epsilon)
    _validate.delta(delta)
    _validate.choice("--model", model, CHOICES)
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
    extras: dict[str, Any] = {} if test_share is None else {"test_share": test_share}
    if class_weight is not None:
        extras["class_weight"] = label_weights(class_weight)
    facts = read_schema(schema, target, learn=learn)
    if pairs is not None:
        extras["pairs"] = named_pairs(pairs, model, facts)
    if not learn and None in (facts.target_bounds or ()):
        raise InvalidParameter(
            "low or high of [target] is still to be filled in; write what is known without the "
            "rows, or pass --learn to buy it."
        )
    check_folder(out, force=force)
    warn_of_large(epsilon)
    parts = in_parts(table, cluster, workers)
    with (
        cluster_for(cluster, workers),
        spending(ledger, epsilon, delta, relation, table.name) as budget,
        draft_of(out) as draft,
    ):
        budget.tell, budget.draft = telling(progress), draft
        budget.about(facts.kinds, same_people)
        prepare(draft, facts)
        wishes = {"mechanism": mechanism, "loss": loss, "sampling": sampling}
        estimator = _estimator(
            model, wishes, facts, epsilon, delta, adjacency, population, seed, budget, extras
        )
        work = _Work(estimator, table, facts, relation, delta, population, budget.tell)
        records = work.fit_parts() if parts else work.fit_rows(header=not no_header)
        fitted, place = _keep(estimator, facts, budget, force=force)
        _add_page(fitted, place, table.name, records, None if ledger is None else budget)
        if place != draft.target:  # said loudly, for programs look for it there
            raise NoisetteError(
                f"somebody else wrote {out} while this model was trained, so nothing was replaced"
            )
        budget.printing = True
        _report_training(fitted, out, ledger, budget, as_json=json)


class _Work(NamedTuple):
    """What is trained on what; both ways return the number of rows where it is public."""

    estimator: Any
    table: Path
    facts: "Schema"
    relation: "Adjacency"
    delta: float
    population: int | None
    say: "Callable[[str], None]"

    def fit_rows(self, *, header: bool) -> int | None:
        """Train on one file, read here."""
        from noisette.tables.folders import TableModel, takes_tables

        self.say("reading")
        with busy("reading the table"):  # and how far it is would tell the number of rows
            whole = TableModel(self.estimator, self.facts)
            rows = whole.read(
                self.table, target=True, header=header, in_file=self._by_passes(),
                counted=self.relation.size_is_public,
            )  # fmt: skip
        records = rows.count if self.relation.size_is_public else None
        _check_size(self.table, records, records or self.population, self.delta, self.facts)
        self.say("training")
        with busy("training"), warning_aloud():
            # a model that takes cells finds the column of persons by itself
            more = {} if takes_tables(self.estimator) else {"persons": rows.persons}
            self.estimator.fit(rows.X, rows.y, **more)
        return records

    def _by_passes(self) -> bool:
        """Whether the training goes over all rows in turn, so that they may stay in a file."""
        from noisette.fitting.losses import classifier_loss
        from noisette.tables.folders import takes_tables

        model = self.estimator
        if takes_tables(model) or self.facts.persons is not None:
            return False
        if not math.isfinite(classifier_loss(getattr(model, "loss", "logistic"), 2).smoothness):
            return False
        if not hasattr(model, "sampling"):
            return True
        # the noise of steps pays for the rounding of a public number of rows
        return model.sampling == "auto" and self.delta > 0.0 and self.relation.size_is_public

    def fit_parts(self) -> int | None:
        """Train on files that workers read."""
        self.say("reading")
        whole = parts_of(self.table, self.facts, self.estimator)
        records = None  # of persons the rows are private, and the training counts persons itself
        if self.relation.size_is_public and self.facts.persons is None:
            with waiting("counting rows"):
                records = rows_in(whole)
            _check_size(self.table, records, records, self.delta, self.facts)
        self.say("training")
        with waiting("training"), warning_aloud():
            self.estimator.fit(whole)
        return records


def _check_size(
    table: Path, records: int | None, guess: int | None, delta: float, facts: "Schema"
) -> None:
    """Refuse a table of one row or person, and a delta that allows what nobody wants."""
    from noisette import _validate

    if records == 1:
        alone = "a single row" if facts.persons is None else "rows of a single person"
        raise InvalidData(f"{table} has {alone}; a model needs more.")
    _validate.delta_for(delta, guess, "--delta")


def _estimator(
    model: str, wishes: dict[str, str | None], facts: "Schema", epsilon: float, delta: float,
    adjacency: str, population: int | None, seed: int | None, ledger: "WatchedLedger",
    extras: dict[str, Any],
) -> Any:  # fmt: skip
    if facts.target_bounds is not None:
        if "class_weight" in extras:  # not dropped in silence
            raise InvalidParameter("--class-weight is for labels, and the target is a number.")
        return table_regressor(model, wishes, facts, epsilon, delta=delta, adjacency=adjacency,
                               population=population, random_state=seed, ledger=ledger,
                               **extras)  # fmt: skip
    if model == "sgd":
        check_sgd(adjacency, delta, population)
    if learns(model, wishes, facts):
        return table_classifier(
            model, epsilon=epsilon, delta=delta, schema=facts, adjacency=adjacency,
            population=population, random_state=seed, ledger=ledger, **extras,
        )  # fmt: skip
    if "test_share" in extras:
        raise InvalidParameter(
            "--test-share is for the default training of a table; without it, train on one part of "
            "the people and use `noisette evaluate` on the other."
        )
    return estimator_of(
        model,
        wishes,
        **extras,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        classes=list(facts.classes),
        population=population,
        random_state=seed,
        ledger=ledger,
    )


def table_regressor(
    model: str, wishes: dict[str, str | None], facts: "Schema", epsilon: float, **shared: Any
) -> Any:
    """Return the model of a target that the schema calls numeric."""
    from noisette.tables.pipeline import AdditiveRegressor, TableRegressor

    chosen = [f"--{key}" for key, value in wishes.items() if value not in (None, "auto")]
    chosen += [f"--model {model}"] * (model not in ("logistic", ADDITIVE))
    if chosen:
        raise InvalidParameter(
            f"the target is a number, which has one way of training here; leave out {chosen[0]}."
        )
    bought = "learn" if None in (facts.target_bounds or ()) else None
    kind = AdditiveRegressor if model == ADDITIVE else TableRegressor
    return kind(epsilon, schema=facts, target_bounds=bought, **shared)


def table_classifier(model: str, **shared: Any) -> Any:
    """Return the classifier of raw tables that ``--model`` names."""
    from noisette.tables.pipeline import AdditiveClassifier, TableClassifier

    if model == ADDITIVE:
        return AdditiveClassifier(**shared)
    return TableClassifier(model=model, **shared)


def learns(model: str, wishes: dict[str, str | None], facts: "Schema") -> bool:
    """Whether the model finds centres, scales and open facts by itself.

    Not where the user chose an algorithm, or stated the scale of rows and with it the encoding.
    """
    chosen = [f"--{key}" for key, value in wishes.items() if value not in (None, "auto")]
    chosen += ["--model sgd"] * (model == "sgd") + ["row_norm"] * ("row_norm" in facts.source)
    if chosen and model == ADDITIVE:
        raise InvalidParameter(
            f"--model additive has a training of its own; leave out {chosen[0]}."
        )
    if chosen and facts.open:
        raise InvalidParameter(
            f"open facts are learnt together with the default training only; leave out {chosen[0]} "
            "or fill them in."
        )
    return not chosen


def check_sgd(adjacency: str, delta: float, population: int | None) -> None:
    """Refuse what has no proof for SGD under add-remove, in the words of the command line."""
    from noisette.core.adjacency import Adjacency

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
    return kind(norm_bound=1.0, **shared)  # to which the schema's encoder scales rows


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


def _tested_lines(model: Any) -> list[str]:
    """Return the scores on test people in a few lines; without them, what speaks against it."""
    from noisette.tables.pipeline.cut_targets import LIMITS

    found = getattr(model, "test_", None)
    cut = [note for note in model.privacy_.notes if LIMITS in note]
    if found is None:
        rare = [note for note in model.privacy_.notes if "have the rarer label" in note]
        hint = (
            "a training with --class-weight balanced lets it count as much as the other, one with "
            "--test-share 0.2 is scored on other people; each costs its own epsilon"
        )
        return [*rare, *([hint] * len(rare)), *cut]
    more = cut
    if hasattr(found, "r2"):
        shown = [f"R2 {found.r2}", f"mean absolute error {found.mae}"]
        more = [found.scope, *cut]
    else:
        shown = [f"AUC {found.auc}"] if hasattr(found, "auc") else []
        shown.append(f"accuracy {found.accuracy}")
        answer, share = found.majority
        more = [f"the answer {answer!r} to everybody would have accuracy {share}"]
    lines = [f"{line} on other people, part of the guarantee" for line in shown]
    return [*lines, *more, *filter(None, [found.verdict()])]


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
