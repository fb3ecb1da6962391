"""``noisette inspect``: read a promise."""

import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette import _files
from noisette.app.commands import options as opt
from noisette.app.commands.console import print_guarantee, print_table, say
from noisette.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
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
    proofs = {name: meaning(name) for name in guarantee.proofs}
    if json:
        answer: dict[str, Any] = {
            "guarantee": guarantee.to_dict(),
            "checked": {"epsilon": guarantee.epsilon, "delta_of_the_plan": reached},
            "pure_epsilon": pure if math.isfinite(pure) else None,
            "curve": [{"delta": d, "epsilon": e} for d, e in curve],
            "proofs": proofs,
            "schema": [dict(zip(("column", "kind", "facts"), row, strict=True)) for row in facts],
        }
        print(json_module.dumps(answer))
        return
    print_guarantee(guarantee)
    say(
        f"checked: the plan has delta = {reached:.3g} at epsilon = {guarantee.epsilon:g}; "
        f"{guarantee.delta:g} is promised",
        f"plan: {plan}",
    )
    heads = ("delta", "epsilon")
    rows = [("0", f"{pure:.5g}" if math.isfinite(pure) else "no bound")]
    rows += [(f"{delta:g}", f"{epsilon:.5g}") for delta, epsilon in curve]
    print_table("The same release at other deltas", heads, rows, heads)
    if guarantee.public:
        say("treated as public:", *(f"  - {fact}" for fact in guarantee.public))
    if facts:
        print_table("The schema", ("column", "kind", "public facts"), facts)
    title = "Why it is true (docs/theory/theorems.md)"
    print_table(title, ("theorem", "what it says"), proofs.items())


def _read(path: Path) -> "tuple[Guarantee, list[tuple[str, str, str]]]":
    from noisette.tables import read_model
    from noisette.tables.folders import GUARANTEE, load_model
    from noisette.tables.pipeline.table_page import facts_of

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
    return load_model(path).privacy_, []


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
