"""The budget: what a report tells of a ledger, and the page about a ledger alone."""

from typing import Any

from noisette._package import __version__
from noisette.core.ledger import Ledger
from noisette.core.storage import Charge
from noisette.errors import NoisetteError
from noisette.report import html, svg
from noisette.report.numbers import delta_words, factor_words, neighbours_of, were_changed

_UNITS = {"sums": ("ε", "δ"), "renyi": ("Rényi cost", ""), "gdp": ("μ²", "")}
_RULES = {
    "sums": "ε and δ are added",
    "renyi": "Rényi costs are added, and ε follows from their sum",
    "gdp": "μ², the cost of Gaussian noise, is added, and ε follows from the sum",
}
_SHOWN = 500  # charges in the table of a page; all of them are counted


def told_of(ledger: Ledger) -> dict[str, Any]:
    """Return what a report tells of its ledger: balance, whose people, the charges."""
    try:
        return _told(ledger, ledger.charges)
    except (NoisetteError, OSError):
        return {"refused": True}


def _told(ledger: Ledger, charges: list[Charge]) -> dict[str, Any]:
    spent, left, units = ledger.spent, ledger.remaining, _units(ledger)
    first = max(0, len(charges) - _SHOWN)
    shown = charges[first:]
    more = [name for name in ("model", "table", "by") if any(getattr(each, name) for each in shown)]
    lines = [
        (str(number), charge.booked[:10], charge.title, *(getattr(charge, name) for name in more),
         *_numbers(ledger, charge.cost))
        for number, charge in enumerate(shown, start=first + 1)
    ]  # fmt: skip
    bars = [
        (f"{name} spent", used / (used + rest))
        for name, used, rest in zip(units, spent, left, strict=False)
        if used + rest > 0.0
    ]
    balance = [
        ("Never exceeded", f"ε = {ledger.epsilon:g}, δ = {delta_words(ledger.delta)}"),
        ("Spent", _cost(ledger, spent)),
        ("Left", _cost(ledger, left)),
    ]
    return {
        "refused": False, "people": ledger.people_words, "balance": balance,
        "bars": svg.shares("Spent of the total", bars), "lines": lines, "count": len(charges),
        "heads": ("no.", "day (UTC)", "charge", *more, *units), "numeric": len(units),
        "epsilon": ledger.epsilon, "delta": ledger.delta,
    }  # fmt: skip


def ledger_page(ledger: Ledger, title: str, date: str = "") -> str:
    """Return a page about a ledger alone: what was spent when on what, and what is left."""
    charges = ledger.charges
    unit = charges[-1].unit if charges else "record"
    facts = [
        ("Charges", f"{len(charges):,}"),
        ("First", charges[0].booked[:10] if charges else ""),
        ("Last", charges[-1].booked[:10] if charges else ""),
        ("As of", date),
        ("Program", f"noisette {__version__}"),
    ]
    settings = [
        ("Neighbours", neighbours_of(ledger.adjacency, unit)),
        ("How charges add up", f"rule “{ledger.rule}”: {_RULES[ledger.rule]}; valid also for "
         "charges that are chosen after seeing earlier results"),
        ("How it is kept", "a charge is booked before any noise is drawn, and never returned"),
        *(("Table", f"{name or '(not named)'}: {', '.join(kinds)}")
          for name, kinds in ledger.tables),
        *(("People", words) for words in ledger.people_words),
    ]  # fmt: skip
    return html.page(
        "ledger.html", title, facts=facts, settings=settings, unit=unit,
        ledger=_told(ledger, charges), changed=were_changed(ledger.adjacency, unit),
        seeds=ledger.experiment and any(charge.seeded for charge in charges),
        factor=factor_words(ledger.epsilon),
        slack=f", plus {delta_words(ledger.delta)}" if ledger.delta else "",
        by_table=_by_table(ledger, charges), by_table_heads=("table", "charges", *_units(ledger)),
    )  # fmt: skip


def _by_table(ledger: Ledger, charges: list[Charge]) -> list[tuple[str, ...]]:
    """Return the sum of costs for each table, where there are several."""
    sums: dict[str, tuple[int, float, float]] = {}
    for charge in charges:
        number, first, second = sums.get(charge.table, (0, 0.0, 0.0))
        sums[charge.table] = number + 1, first + charge.cost[0], second + charge.cost[1]
    if len(sums) < 2:
        return []
    return [
        (name or "(not named)", str(number), *_numbers(ledger, (first, second)))
        for name, (number, first, second) in sums.items()
    ]


def _units(ledger: Ledger) -> tuple[str, ...]:
    return tuple(filter(None, _UNITS[ledger.rule]))


def _numbers(ledger: Ledger, cost: tuple[float, float]) -> tuple[str, ...]:
    return (f"{cost[0]:.6g}", delta_words(cost[1]))[: len(_units(ledger))]


def _cost(ledger: Ledger, cost: tuple[float, float]) -> str:
    named = zip(_units(ledger), _numbers(ledger, cost), strict=True)
    return ", ".join(f"{name} = {number}" for name, number in named)
