"""``noisette plan``: what a training would release, cost and learn, before it is paid for."""

import contextlib
import json as json_module
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisette._validate import refuse
from noisette.app.commands.console import (
    busy,
    figure_file,
    print_guarantee,
    print_table,
    reply,
    say,
    write_figure,
)
from noisette.app.commands.train import estimator_of
from noisette.app.job import Job, takes
from noisette.errors import InvalidParameter, NoisetteError

if TYPE_CHECKING:
    from noisette.tables import Schema
    from noisette.tables.pipeline.cell_counts import CellCounts

_DELTA = 1e-6


@partial(takes, Job)
def plan(job: Job) -> None:
    """Show what a model would release, cost and learn, from public facts alone.

    No cell is looked at, unless a part of the budget is spent on it with --counts. Of a PUBLIC or
    synthetic table of the same shape, --public shows accuracy and AUC at each epsilon.

    [bold]Example[/bold]: noisette plan patients.csv --schema patients.toml --epsilon 1, or without
    a table: noisette plan --rows 40000 --features 100 --epsilon 1
    """
    from noisette import _validate
    from noisette.core.adjacency import Adjacency
    from noisette.tables import read_schema

    _check_options(job)
    if job.public:
        _compare(job)
        return
    epsilon = _validate.epsilon(job.epsilon)
    _validate.delta(job.delta)
    Adjacency.of(job.adjacency)
    facts = None if job.schema is None else read_schema(job.schema, job.target, learn=True)
    size, counted = _size(job, facts)
    with busy("planning"):
        asked = forecast(replace(job, rows=size), facts)
        found = others(replace(job, rows=size), lambda changed: forecast(changed, facts))
    with contextlib.ExitStack() as until_printed:
        bought = told = None
        if job.counts is not None and facts is not None:
            bought, told = _count(until_printed, job, facts, size)
        if job.json:
            answer = {**as_row("as asked", asked), "others": found}
            if facts is None:
                answer |= {"notes": list(asked.notes), "unit": asked.unit}
            else:
                answer |= {
                    "rows": asked.rows, "features": asked.features,
                    "warning": asked.warning or None, "steps": list(map(vars, asked.steps)),
                    "columns": list(map(vars, asked.columns)),
                }  # fmt: skip
            print(json_module.dumps(answer | ({"counts": told} if told else {})))
            return
        _show(job, asked, found, facts, counted=counted)
        if bought is not None and job.counts is not None:
            _show_counts(bought, (1.0 - job.counts) * epsilon, (1.0 - job.counts) * job.delta)


def _check_options(job: Job) -> None:
    """Refuse options that mean nothing together."""
    from noisette import _validate

    bare = job.schema is None and not job.public
    refuse(
        (job.table is None and (job.public or job.counts is not None),
         "--public and --counts are about a table; name its file."),
        (job.table is not None and job.schema is None,
         "a table needs --schema, the public facts about its columns."),
        (job.counts is None and job.ledger is not None,
         "--ledger is for --counts; without it nothing is spent."),
        (job.out is not None and not job.public, "--out is for the figure of --public."),
        (bare and job.features is None,
         "give --features, the number after encoding, or --schema."),
        (not bare and not job.public and job.features is not None,
         "the features follow from --schema; leave out --features."),
        (not bare and not job.public and job.persons,
         "a schema names its persons itself; leave out --persons."),
    )  # fmt: skip
    if job.counts is not None:
        _validate.fraction("--counts", job.counts)


def _size(job: Job, facts: "Schema | None") -> tuple[int, bool]:
    """Check that a table's columns are those of the schema; return its units, counted or not.

    Where neighbours have the same number of rows, that number is public and may be counted; where
    persons are identified, it is their number that is public, and rows are not counted.
    """
    from noisette import _validate
    from noisette.tables.encoding import count_units, names_of

    header = not job.no_header
    if job.table is not None and facts is not None:
        names_of(job.table, facts, header=header)
    if job.rows is not None:
        return _validate.integer("--rows", job.rows), False
    if job.table is None or facts is None:
        raise InvalidParameter("give --rows, the number of rows (persons) or a guess of it.")
    refuse(
        (not job.counted,
         f"under add-remove the number of {facts.whose.counted} is private; give --population, a "
         "guess of it made without the table."),
    )  # fmt: skip
    with busy(f"counting {facts.whose.counted}"):
        return count_units(job.table, facts, header=header), True


def forecast(job: Job, facts: "Schema | None") -> Any:
    """Return what a training would release and cost; `facts` are those of its table."""
    model = estimator_of(job, facts)
    if facts is not None:
        return model.plan(job.rows)
    return model.plan(job.rows, job.features, classes=job.classes, persons=job.persons)


def others(job: Job, ask: Callable[[Job], Any]) -> list[dict[str, Any]]:
    """Return what changes with a delta, with the other relations, with half and double epsilon."""
    delta = 0.0 if job.delta > 0.0 else _DELTA
    changes: list[tuple[str, dict[str, Any]]] = [(f"delta = {delta:g}", {"delta": delta})]
    if delta * (job.rows or 0) >= 1.0:
        changes = []
    relations = ("replace-one", "zero-out", "add-remove")
    changes += [(other, {"adjacency": other}) for other in relations if other != job.adjacency]
    both = (job.epsilon / 2.0, 2.0 * job.epsilon)
    changes += [(f"epsilon = {each:g}", {"epsilons": (each,)}) for each in both]
    found = []
    for name, change in changes:
        try:
            found.append(as_row(name, ask(replace(job, **change))))
        except NoisetteError as error:
            found.append({"change": name, "refused": str(error)})
    return found


def as_row(name: str, shown: Any) -> dict[str, Any]:
    """Return the figures of one forecast."""
    names = ("algorithm", "epsilon", "delta", "adjacency", "weight_noise", "typical_weight",
             "memory", "seconds")  # fmt: skip
    found = {"change": name} | {key: getattr(shown, key) for key in names}
    return found if shown.lost is None else found | {"lost": shown.lost}


def _show(
    job: Job, asked: Any, found: list[dict[str, Any]], facts: "Schema | None", *, counted: bool
) -> None:
    from rich.console import Console

    from noisette.core.guarantee import too_large

    console, lines = Console(soft_wrap=True, highlight=False), [str(asked), too_large(job.epsilon)]
    if job.table is not None and facts is not None:
        number = f"of the {facts.whose.counted} only their number, which is public, was counted"
        how = number if counted else "no row was looked at"
        lines.insert(0, f"From public facts alone: {how}.")
    say(*filter(None, lines))
    if job.table is not None:
        columns = [
            (each.name, each.kind, each.features,
             each.note if each.matters or not each.used else f"IN VAIN: {each.note}")
            for each in asked.columns
        ]  # fmt: skip
        named = ("column", "kind", "features", "what is bought, and what is worth knowing")
        print_table("What becomes of each column", named, columns, ("features",), console)
    rows = [as_row("as asked", asked), *found]
    heads: tuple[str, ...] = ("", "signal lost")
    if asked.algorithm == "table":  # there a change also decides which features are left
        cells: list[Any] = [(row["change"], lost_words(row)) for row in rows]
    else:
        heads, cells = ("", "noise in a weight", "against as asked"), []
        for row in rows:
            noise, words = row.get("weight_noise"), ("depends on the data", "")
            if "refused" in row:
                words = "not possible", ""
            elif noise is not None and asked.weight_noise:
                words = f"{noise:.2g}", f"x {noise / asked.weight_noise:.2g}"
            cells.append((row["change"], *words))
    print_table("The same with one thing changed", heads, cells, heads[1:], console)


def lost_words(row: dict[str, Any]) -> str:
    """Return how much of the signal a change leaves in the noise."""
    return "not possible" if "refused" in row else f"{100.0 * row['lost']:.0f} %"


# --- noisy counts of odd cells ------------------------------------------------


def _count(
    until_printed: contextlib.ExitStack, job: Job, facts: "Schema", size: int
) -> tuple["CellCounts", dict[str, Any]]:
    """Buy the counts and keep them; return them, and what machines are told."""
    from noisette.app.commands.watched import keeping, spending
    from noisette.core.adjacency import Adjacency
    from noisette.core.randomness import Randomness
    from noisette.tables.pipeline.cell_counts import count_cells

    assert job.table is not None
    assert job.counts is not None
    epsilon, delta = job.counts * job.epsilon, job.counts * job.delta
    relation = Adjacency.of(job.adjacency)
    charged = until_printed.enter_context(
        spending(job.ledger, epsilon, delta, relation, job.table.name)
    )
    keep = until_printed.enter_context(keeping(charged, None, "noisette-counts"))
    with busy("counting cells"):
        bought = count_cells(
            job.table, facts, epsilon=epsilon, delta=delta, population=size, ledger=charged,
            randomness=Randomness.secure(), header=not job.no_header,
        )  # fmt: skip
    told = {
        "columns": bought.counts, "deviation": bought.deviation,
        "guarantee": bought.guarantee.to_dict(),
    }  # fmt: skip
    keep(told)
    return bought, told


def _show_counts(bought: "CellCounts", epsilon: float, delta: float) -> None:
    from noisette.tables.pipeline.cell_counts import STATES

    print_guarantee(bought.guarantee, "the guarantee of the counts")
    title = f"Cells, counted with noise: each about ± {2.0 * bought.deviation:.3g} (two deviations)"
    rows = [
        (name, *(f"{found[state]:,.0f}" if state in found else "" for state in STATES))
        for name, found in bought.counts.items()
    ]
    print_table(title, ("column", *STATES), rows, STATES)
    left = f"--epsilon {_down(epsilon)}" + (f" --delta {_down(delta)}" if delta else "")
    say(
        f"epsilon {bought.guarantee.epsilon:g} was spent on these counts; with train {left} both "
        "together cost what was planned"
    )


def _down(value: float) -> str:
    """Return a number in a few digits, never more than it is."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit + 1e-9) * unit:.4g}"


# --- accuracy against epsilon, on a table that everybody may see ----------------


def _compare(job: Job) -> None:
    """Train on a public table at each epsilon; what is shown are exact facts about that table."""
    from noisette import tuning
    from noisette.tables import read_schema
    from noisette.tables.folders import TableModel

    assert job.table is not None
    assert job.schema is not None
    if job.out is not None:
        figure_file("--out", job.out, force=job.force)
        tuning.choosing.require_figures()
    facts = read_schema(job.schema, job.target, learn=True)
    if facts.target_bounds is not None:
        raise InvalidParameter("the target is a number; epsilons are compared for classes only.")
    estimator = estimator_of(replace(job, epsilons=job.epsilons[:1], rows=None), facts)
    with busy("reading the table"):
        read = TableModel(estimator, facts).read(
            Path(job.table), target=True, header=not job.no_header
        )
    with busy("training, again and again"):
        found = tuning.compare_epsilons(
            estimator, read.X, read.y, job.epsilons, repeats=job.repeats, rows=job.rows
        )
    if job.out is not None:
        write_figure(found.plot(), job.out)
    lines = [*found.lines(), *[f"wrote {job.out}"] * (job.out is not None)]
    reply(found.to_dict(), *lines, as_json=job.json)
