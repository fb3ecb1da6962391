"""``noisette inspect``: read a promise."""

import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette import _files
from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from rich.text import Text

    from noisette.core.guarantee import Guarantee

DELTAS = (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def inspect(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A model folder, a model file or a guarantee.json.",
            show_default=False,
        ),
    ],
    json: opt.JsonOption = False,
) -> None:
    """Check a model's guarantee against the plan that ran, and show it.

    [bold]Example[/bold]: noisette inspect noisette-model
    """
    from noisette.core.accounting import delta as delta_of
    from noisette.report import curve_of, meaning

    guarantee, facts = _read(model)
    plan, relation = guarantee.plan, guarantee.adjacency
    reached = delta_of(plan, epsilon=guarantee.epsilon, adjacency=relation)
    pure = guarantee.epsilon_at(0.0)
    curve = curve_of(guarantee, DELTAS)
    if json:
        answer: dict[str, Any] = {
            "guarantee": guarantee.to_dict(),
            "checked": {"epsilon": guarantee.epsilon, "delta_of_the_plan": reached},
            "pure_epsilon": pure if math.isfinite(pure) else None,
            "curve": [{"delta": d, "epsilon": e} for d, e in curve],
            "proofs": {name: meaning(name) for name in guarantee.proofs},
            "schema": [dict(zip(("column", "kind", "facts"), row, strict=True)) for row in facts],
        }
        print(json_module.dumps(answer))
        return
    _show(guarantee, facts, curve, reached, pure)


def _read(path: Path) -> "tuple[Guarantee, list[tuple[str, str, str]]]":
    from noisette.core.guarantee import Guarantee
    from noisette.tables import read_model
    from noisette.tables.describe import facts_of
    from noisette.tables.folders import GUARANTEE, load_model

    if path.is_dir():
        fitted = read_model(path)
        beside = path / GUARANTEE
        if beside.exists() and _guarantee_in(beside) != fitted.guarantee:
            raise InvalidData(f"{beside} is not the guarantee of the model; it was changed.")
        return fitted.guarantee, facts_of(fitted.schema)
    if not path.exists():
        raise InvalidParameter(f"there is no model {path}; `noisette train` makes one.")
    if path.suffix == ".json":
        return _guarantee_in(path), []
    loaded: Guarantee = load_model(path).privacy_
    return loaded, []


def _guarantee_in(path: Path) -> "Guarantee":
    from noisette.core.guarantee import Guarantee

    wrong = f"{path} is not the JSON text of a guarantee, or it was changed."
    with _files.understood(wrong, InvalidParameter):
        node = _files.from_json(_files.read(path, "guarantee"))
    found = Guarantee.from_dict(node)
    # A person reads the file's sentences, not our objects: all of it must follow from the plan.
    if node != found.to_dict():
        raise InvalidData(
            f"the words in {path} do not follow from its numbers; it was changed, or written by "
            "another version of noisette."
        )
    return found


def _visible(words: str) -> "Text":
    """Return text for a terminal: a file from elsewhere must not steer it."""
    from rich.text import Text

    return Text(visible(words))


def _show(
    guarantee: "Guarantee",
    facts: list[tuple[str, str, str]],
    curve: list[tuple[float, float]],
    reached: float,
    pure: float,
) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    from noisette.report import meaning

    console = Console()
    style = "red" if guarantee.seeded else "green"
    shown = _visible(guarantee.statement())
    console.print(Panel(shown, title="the guarantee", border_style=style))
    console.print(
        f"checked: the plan has delta = {reached:.3g} at epsilon = {guarantee.epsilon:g}; "
        f"{guarantee.delta:g} is promised",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(_visible(f"plan: {guarantee.plan}"), soft_wrap=True)
    table = Table(title="The same release at other deltas", title_justify="left")
    table.add_column("delta", justify="right")
    table.add_column("epsilon", justify="right")
    table.add_row("0", f"{pure:.5g}" if math.isfinite(pure) else "no bound")
    for delta, epsilon in curve:
        table.add_row(f"{delta:g}", f"{epsilon:.5g}")
    console.print(table)
    if guarantee.public:
        console.print("treated as public:", highlight=False)
        for fact in guarantee.public:
            console.print(_visible(f"  - {fact}"))
    if facts:
        table = Table(title="The schema", title_justify="left")
        for name in ("column", "kind", "public facts"):
            table.add_column(name)
        for row in facts:
            table.add_row(*map(_visible, row))
        console.print(table)
    table = Table(title="Why it is true (docs/theory/theorems.md)", title_justify="left")
    table.add_column("theorem")
    table.add_column("what it says")
    for name in guarantee.proofs:
        table.add_row(_visible(name), meaning(name))
    console.print(table)
