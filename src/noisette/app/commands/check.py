"""``noisette check``: what a training on a table can be expected to do, before it is paid for."""

import contextlib
import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._text import visible
from noisette.app.commands import options as opt
from noisette.app.commands.console import busy
from noisette.app.commands.outlooks import as_row, others, show_others, table_json
from noisette.app.commands.plan import table_outlook_of
from noisette.app.commands.train import NoHeaderOption, TableArgument
from noisette.errors import InvalidParameter

if TYPE_CHECKING:
    from noisette.core.adjacency import Adjacency
    from noisette.tables import Schema
    from noisette.tables.pipeline.cell_counts import CellCounts


def check(
    table: TableArgument,
    schema: Annotated[
        Path, typer.Option(help="The schema; bounds and categories may be left open.")
    ],
    epsilon: Annotated[float, typer.Option(help="The budget of the model to come.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    delta: Annotated[
        float, typer.Option(help="0 is pure privacy; else far below 1/n, such as 1e-6.")
    ] = 0.0,
    adjacency: opt.AdjacencyOption = "replace-one",
    population: Annotated[
        int | None, typer.Option(help="A guess of the number of rows (persons), for add-remove.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="The number of rows (persons); else counted, where it is public."),
    ] = None,
    counts: Annotated[
        float | None,
        typer.Option(help="Spend this part of epsilon (and delta) on noisy counts of odd cells."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Charge the counts to this ledger.", show_default=False)
    ] = None,
    no_header: NoHeaderOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Say what a model of a table can be expected to learn, from public facts alone.

    No cell is looked at, unless a part of the budget is spent on it with --counts.

    [bold]Example[/bold]: noisette check patients.csv --schema patients.toml --epsilon 1
    --delta 1e-6 --counts 0.05
    """
    from noisette import _validate
    from noisette.core.adjacency import Adjacency
    from noisette.tables import read_schema

    _validate.epsilon(epsilon)
    _validate.delta(delta)
    relation = Adjacency.of(adjacency)
    if counts is not None:
        _validate.fraction("--counts", counts)
    elif ledger is not None:
        raise InvalidParameter("--ledger is for --counts; without it nothing is spent.")
    facts = read_schema(schema, target, learn=True)
    size, counted = _rows(table, facts, relation, rows, population, header=not no_header)

    def outlook(**changes: Any) -> Any:
        shared = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, **changes}
        return table_outlook_of(facts, size, **shared)

    with busy("planning"):
        asked = outlook()
        found = others(outlook, epsilon, delta, adjacency, size)
    bought = None
    with contextlib.ExitStack() as until_printed:
        if counts is not None:
            budget = counts * epsilon, counts * delta, relation
            bought = _count(until_printed, table, facts, budget, size, ledger, header=not no_header)
        if json:
            answer = {**as_row("as asked", asked), **table_json(asked), "others": found}
            if bought is not None:
                answer["counts"] = _told(bought)
            print(json_module.dumps(answer))
            return
        _show(asked, found, facts, counted=counted)
        if bought is not None and counts is not None:
            _show_counts(bought, (1.0 - counts) * epsilon, (1.0 - counts) * delta)


def _told(bought: "CellCounts") -> dict[str, Any]:
    return {
        "columns": bought.counts, "deviation": bought.deviation,
        "guarantee": bought.guarantee.to_dict(),
    }  # fmt: skip


def _rows(
    table: Path, facts: "Schema", relation: "Adjacency", stated: int | None, guess: int | None, *,
    header: bool,
) -> tuple[int, bool]:  # fmt: skip
    """Check that the columns are those of the schema; return the number of units, counted or not.

    Where neighbours have the same number of rows, that number is public and may be counted; where
    persons are identified, it is their number that is public, and rows are not counted.
    """
    from noisette import _validate
    from noisette.tables.counting import count_units
    from noisette.tables.encoding import check_columns, names_of

    names, _ = names_of(table, facts, target=False, header=header)
    check_columns(table, names, facts, target=False)
    for option, number in (("--rows", stated), ("--population", guess)):
        if number is not None:
            return _validate.integer(option, number), False
    if not relation.size_is_public:
        raise InvalidParameter(
            f"under add-remove the number of {_units(facts)} is private; give --population, a "
            "guess of it made without the table."
        )
    with busy(f"counting {_units(facts)}"):
        return count_units(table, facts, header=header), True


def _units(facts: "Schema") -> str:
    return "rows" if facts.persons is None else "persons"


def _count(
    until_printed: contextlib.ExitStack, table: Path, facts: "Schema",
    budget: "tuple[float, float, Adjacency]", size: int, ledger: str | None, *, header: bool,
) -> "CellCounts":  # fmt: skip
    from noisette.app.commands.watched import keeping, spending
    from noisette.core.randomness import Randomness
    from noisette.tables.pipeline.cell_counts import count_cells

    epsilon, delta, relation = budget
    charged = until_printed.enter_context(spending(ledger, epsilon, delta, relation, table.name))
    keep = until_printed.enter_context(keeping(charged, None, "noisette-counts"))
    with busy("counting cells"):
        bought = count_cells(
            table, facts, epsilon=epsilon, delta=delta, population=size, ledger=charged,
            randomness=Randomness.secure(), header=header,
        )  # fmt: skip
    keep(_told(bought))
    return bought


def _show(asked: Any, found: list[dict[str, Any]], facts: "Schema", *, counted: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    how = "no row was looked at"
    if counted:
        how = f"of the {_units(facts)} only their number, which is public, was counted"
    console.print(f"From public facts alone: {how}.", markup=False)
    console.print(visible(str(asked)), markup=False)
    table = Table(title="What becomes of each column", title_justify="left")
    for name in ("column", "kind", "features", "what is bought, and what is worth knowing"):
        table.add_column(name, justify="right" if name == "features" else "left")
    for column in asked.columns:
        note = column.note if column.matters or not column.used else f"IN VAIN: {column.note}"
        cells = column.name, column.kind, str(column.features), note
        table.add_row(*(Text(visible(cell)) for cell in cells))
    console.print(table)
    show_others(console, asked, found)


def _show_counts(bought: "CellCounts", epsilon: float, delta: float) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from noisette.tables.pipeline.cell_counts import STATES

    console = Console()
    statement = Text(visible(bought.guarantee.statement()))
    console.print(Panel(statement, title="the guarantee of the counts", border_style="green"))
    title = f"Cells, counted with noise: each about ± {2.0 * bought.deviation:.3g} (two deviations)"
    table = Table(title=title, title_justify="left")
    table.add_column("column")
    for state in STATES:
        table.add_column(state, justify="right")
    for name, found in bought.counts.items():
        shown = (f"{found[state]:,.0f}" if state in found else "" for state in STATES)
        table.add_row(Text(visible(name)), *shown)
    console.print(table)
    left = f"--epsilon {_down(epsilon)}" + (f" --delta {_down(delta)}" if delta else "")
    console.print(
        f"epsilon {bought.guarantee.epsilon:g} was spent on these counts; with train {left} both "
        "together cost what was planned",
        highlight=False, soft_wrap=True, markup=False,
    )  # fmt: skip


def _down(value: float) -> str:
    """Return a number in a few digits, never more than it is."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit + 1e-9) * unit:.4g}"
