"""The budget: what a report tells of a ledger, and the page about a ledger alone."""

from collections.abc import Sequence
from typing import Any

from noisette._package import __version__
from noisette.core.ledger import Ledger
from noisette.core.storage import Charge
from noisette.errors import NoisetteError
from noisette.report import html, svg
from noisette.report.numbers import delta_words, promised

_UNITS = {"sums": ("ε", "δ"), "renyi": ("Rényi cost",), "gdp": ("μ²",)}
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
    spent, left, units = ledger.spent, ledger.remaining, _UNITS[ledger.rule]
    first = max(0, len(charges) - _SHOWN)
    shown = charges[first:]
    more = [name for name in ("model", "table", "by") if any(getattr(each, name) for each in shown)]
    lines, sums = [], dict[str, list[Any]]()
    for k, each in enumerate(shown, start=first + 1):
        named = (getattr(each, name) for name in more)
        lines.append((str(k), each.booked[:10], each.title, *named, *_numbers(each.cost, units)))
    bars = [
        (f"{name} spent", used / (used + rest))
        for name, used, rest in zip(units, spent, left, strict=False)
        if used + rest > 0.0
    ]
    for charge in charges:
        of = sums.setdefault(charge.table, [0, 0.0, 0.0])
        of[:] = of[0] + 1, of[1] + charge.cost[0], of[2] + charge.cost[1]
    return {
        "refused": False, "people": ledger.people_words,
        "balance": [
            ("Never exceeded", f"ε = {ledger.epsilon:g}, δ = {delta_words(ledger.delta)}"),
            ("Spent", ", ".join(map("{} = {}".format, units, _numbers(spent, units)))),
            ("Left", ", ".join(map("{} = {}".format, units, _numbers(left, units)))),
        ],
        "bars": svg.shares("Spent of the total", bars), "lines": lines, "count": len(charges),
        "heads": ("no.", "day (UTC)", "charge", *more, *units), "numeric": len(units),
        "epsilon": ledger.epsilon, "delta": ledger.delta,
        "table_heads": ("table", "charges", *units),
        "by_table": [
            (name or "(not named)", str(number), *_numbers(cost, units))
            for name, (number, *cost) in sums.items()
        ],
    }  # fmt: skip


def ledger_page(ledger: Ledger, title: str, date: str = "") -> str:
    """Return a page about a ledger alone: what was spent when on what, and what is left."""
    charges = ledger.charges
    unit = charges[-1].unit if charges else "record"
    words = promised(ledger, unit)
    facts = [
        ("Charges", f"{len(charges):,}"),
        ("First", charges[0].booked[:10] if charges else ""),
        ("Last", charges[-1].booked[:10] if charges else ""),
        ("As of", date), ("Program", f"noisette {__version__}"),
    ]  # fmt: skip
    settings = [
        ("Neighbours", words["neighbours"]),
        ("How charges add up", f"rule “{ledger.rule}”: {_RULES[ledger.rule]}; valid also for "
         "charges that are chosen after seeing earlier results"),
        ("How it is kept", "a charge is booked before any noise is drawn, and never returned"),
        *(("Table", f"{name or '(not named)'}: {', '.join(kinds)}")
          for name, kinds in ledger.tables),
        *(("People", each) for each in ledger.people_words),
    ]  # fmt: skip
    return html.render(
        "ledger.html", title=title, facts=facts, settings=settings, unit=unit,
        ledger=_told(ledger, charges), **words,
        seeds=ledger.experiment and any(charge.seeded for charge in charges),
    )  # fmt: skip


def _numbers(cost: Sequence[float], units: tuple[str, ...]) -> tuple[str, ...]:
    return (f"{cost[0]:.6g}", delta_words(cost[1]))[: len(units)]
