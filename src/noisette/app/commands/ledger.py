"""``noisette ledger``: read a budget, start one, export its books."""

import datetime
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._validate import refuse, visible
from noisette.app.commands import console
from noisette.app.commands import options as opt
from noisette.errors import InvalidParameter, LedgerError

if TYPE_CHECKING:
    from noisette.core.ledger import Ledger

PAGE = 50
"""Charges of a ledger that are shown at once."""


def ledger(
    place: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER",
            help="The ledger file, or postgresql://user@host/database#name; without #name, the "
            "ledgers of a database are listed.",
            show_default=False,
        ),
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="Start a ledger with this total if there is none.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Total delta of a new ledger.")] = None,
    adjacency: Annotated[
        str | None, typer.Option(help="Relation of a new ledger; replace-one if not given.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="How charges add up: sums (default), renyi or gdp.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", "--report", help="Write an HTML page to this file.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all charges to this .csv or .json file.")
    ] = None,
    page: Annotated[
        int | None, typer.Option(help=f"Which {PAGE} charges to show; the last ones if not given.")
    ] = None,
    copy: Annotated[
        Path | None, typer.Option(help="Write a backup of the ledger to this new file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Recompute every cost from the plan beside it.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(help="Compare with the receipts beside the models in this folder."),
    ] = None,
    same_people: Annotated[
        str | None,
        typer.Option(help="Note that another ledger beside it is about the same people."),
    ] = None,
    other_people: Annotated[
        str | None, typer.Option(help="Note that another ledger beside it is about other people.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an older page.")] = False,
    json: opt.JsonOption = False,
) -> None:
    """Show what a ledger holds, or start one with --epsilon.

    [bold]Example[/bold]: noisette ledger patients.ledger --epsilon 3 --delta 1e-6
    """
    from noisette.app.commands.watched import shown_place
    from noisette.core.ledger import Ledger
    from noisette.core.storage import is_address, ledgers_at

    if is_address(place) and "#" not in place and epsilon is None:
        refuse((html is not None, "a page is about one ledger; end the address with #NAME."))
        _list(place, ledgers_at(place), as_json=json)
        return
    if not is_address(place):
        _check_places(Path(place), epsilon, (html, export))
    opened = Ledger.open(place, epsilon, delta, adjacency=adjacency, rule=rule)
    for title, same in ((same_people, True), (other_people, False)):
        if title is not None:
            opened.answer(title, same=same)
    if check:
        from noisette.audit.receipts import check_charges

        check_charges(opened)
    if copy is not None:
        opened.copy_to(copy)
    if html is not None:  # its title is the name of the file, or the address without a password
        from noisette.report import ledger_page

        title = opened.title if is_address(place) else console.readable(Path(opened.title).name)
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        console.write_text(html, ledger_page(opened, title, today), force=force)
    if export is not None:
        console.write_text(export, _exported(opened, export), force=force)
    if against is not None:
        _compare(opened, against, as_json=json)
        return
    if json:
        print(json_module.dumps(_as_json(opened)))
        return
    _show_ledger(opened, shown_place(place, opened), page)
    advice = "say whether it has the same people, with --same-people or --other-people and its name"
    lines = [
        *(f"table: {name or '(not named)'}, {len(kinds)} columns" for name, kinds in opened.tables),
        *opened.people_words,
        *(
            f"{other} is about a table with the same columns; {advice}"
            for other in opened.matching()
        ),
        *_open_charges([k for k, c in enumerate(opened.charges, 1) if not c.collected]),
        *["checked: no charge costs less than its plan"] * check,
        *(f"wrote {written}" for written in (html, export, copy) if written is not None),
    ]
    if lines:
        console.say(*lines)


def _compare(opened: "Ledger", folder: Path, *, as_json: bool) -> None:
    """Show whether ledger and models belong to each other; exit with 1 if they do not."""
    from noisette.audit.receipts import check_receipts

    found = check_receipts(opened, folder)
    console.reply(
        found._asdict(),
        *(f"the ledger was set back: {file}; charge it by hand" for file in found.set_back),
        *(f"nobody paid for it: {file}" for file in found.unpaid),
        *_open_charges(found.uncollected),
        *[f"{found.others} receipts are of other ledgers"] * bool(found.others),
        *["checked: every receipt is of a charge, every model of a receipt"] * (not any(found)),
        as_json=as_json,
    )
    if found.set_back or found.unpaid:
        raise typer.Exit(1)


def _open_charges(numbers: list[int]) -> list[str]:
    shown = ", ".join(map(str, numbers[-20:]))
    return [f"paid, not collected: charge {'... ' * (len(numbers) > 20)}{shown}"] * bool(numbers)


def _check_places(file: Path, epsilon: float | None, written: tuple[Path | None, ...]) -> None:
    """Refuse a file that is no ledger, and pages that would replace it."""
    from noisette._validate import real_path as real

    refuse(
        (file.is_dir(), f"{file} is a folder; give the name of a ledger file."),
        # starting a ledger there would replace the device
        (file.exists() and not file.is_file(),
         f"{file} is not an ordinary file; give the name of a ledger file."),
        (any(path is not None and real(path) == real(file) for path in written),
         "the page must not replace the ledger; give it another name."),
        (epsilon is None and not file.exists(),
         f"there is no ledger {file}; start one with: noisette ledger {file} --epsilon TOTAL."),
    )  # fmt: skip


def _list(place: str, names: list[str], *, as_json: bool) -> None:
    """Show the ledgers of a database, with what is left of each; one that is damaged hides none."""
    from noisette.core.ledger import Ledger

    read: dict[str, dict[str, Any]] = {}
    rows, refused = [], {}
    for name in names:
        try:
            one = Ledger.open(f"{place}#{name}")
            count, left = one.count, one.remaining
            read[name] = {"spent": list(one.spent), "remaining": list(left)}
            shown = f"{left[0]:.6g}, {left[1]:g}" if one.rule == "sums" else one.rule
            rows.append((name, f"{one.epsilon:g}", f"{one.delta:g}", one.adjacency, count, shown))
        except LedgerError as error:
            refused[name] = {"refused": str(error)}
    if as_json:
        print(json_module.dumps({"ledgers": read | refused}))
    elif not names:
        console.say(
            "there is no ledger yet; start one with: noisette ledger ADDRESS#NAME --epsilon TOTAL"
        )
    else:
        console.print_table(
            "Ledgers", ("name", "epsilon", "delta", "relation", "charges", "left"), rows
        )
        for each in refused.values():
            typer.echo(visible(each["refused"]), err=True)


def _exported(ledger: "Ledger", file: Path) -> str:
    """Return the books for an auditor, in the form that the file's ending names."""
    if file.suffix not in (".csv", ".json"):
        raise InvalidParameter(f"{file} must end in .csv or .json, which says what to write.")
    if file.suffix == ".json":
        return json_module.dumps(_as_json(ledger), indent=2) + "\n"
    unit = {"sums": "epsilon", "renyi": "renyi", "gdp": "mu_squared"}[ledger.rule]
    named = ("booked", "by", "label", "model", "table")
    rows = (
        (number, *(_harmless(getattr(charge, name)) for name in named), *map(repr, charge.cost),
         charge.seeded, charge.plan)
        for number, charge in enumerate(ledger.charges, start=1)
    )  # fmt: skip
    return console.csv_text(("number", *named, unit, "delta", "seeded", "plan"), rows)


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text


def _as_json(ledger: "Ledger") -> dict[str, Any]:
    charges = ledger.charges
    plans = {text: _plan(text) for text in {charge.plan for charge in charges}}
    return {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "adjacency": ledger.adjacency.value,
        "rule": ledger.rule,
        "experiment": ledger.experiment,
        "spent": list(ledger.spent),
        "remaining": list(ledger.remaining),
        "tables": [{"name": name, "columns": kinds} for name, kinds in ledger.tables],
        "people": ledger.people,
        "charges": [
            {
                "number": k, "booked": c.booked, "by": c.by, "label": c.label, "model": c.model,
                "table": c.table, "epsilon": c.cost[0], "delta": c.cost[1], "seeded": c.seeded,
                "collected": c.collected, "cost": list(c.cost), "plan": plans[c.plan],
            }
            for k, c in enumerate(charges, start=1)
        ],
    }  # fmt: skip


def _plan(text: str) -> Any:
    """Return a plan; as it stands if it is none, which `--check` says."""
    try:
        return json_module.loads(text)
    except (ValueError, RecursionError):
        return text


def _show_ledger(ledger: "Ledger", name: str, page: int | None) -> None:
    units = {"sums": ("epsilon", "delta"), "renyi": ("Renyi cost", ""), "gdp": ("mu squared", "")}
    first, second = units[ledger.rule]
    pages = max(1, -(-ledger.count // PAGE))
    shown = pages if page is None else page
    if not 1 <= shown <= pages:
        raise InvalidParameter(f"the last page of charges is {pages}; there is no page {page}.")
    console.say(
        f"total: epsilon {ledger.epsilon:g}, delta {ledger.delta:g}, {ledger.adjacency} "
        f"(rule {ledger.rule})",
        *["for experiments: noise from a seed is allowed, and hides nobody"] * ledger.experiment,
    )
    title = f"Charges in {name}" + (f", page {shown} of {pages}" if pages > 1 else "")
    first_number = (shown - 1) * PAGE + 1
    left, charges = ledger.remaining, ledger.page(first_number, PAGE)
    more = [name for name in ("model", "table", "by") if any(getattr(c, name) for c in charges)]
    rows = [
        (k, charge.booked[:10], charge.title, *(getattr(charge, name) for name in more),
         f"{charge.cost[0]:.6g}", f"{charge.cost[1]:g}" if second else "")
        for k, charge in enumerate(charges, start=first_number)
    ]  # fmt: skip
    console.print_table(
        console.as_text(title), ("", "date", "charge", *more, first, second), rows,
        (first, second) if second else (first,),
        foot=("", "", "left", *[""] * len(more), f"{left[0]:.6g}", f"{left[1]:g}" * bool(second)),
    )  # fmt: skip
