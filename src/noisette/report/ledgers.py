"""The budget: the section of a report about a ledger, and the page about a ledger alone."""

from noisette._package import __version__
from noisette.core.guarantee import Guarantee, rounded_up
from noisette.core.ledger import Ledger
from noisette.core.storage import Charge
from noisette.errors import NoisetteError
from noisette.report import html, svg
from noisette.report.decision import delta_words, factor_words, neighbours_of, were_changed

_UNITS = {"sums": ("ε", "δ"), "renyi": ("Rényi cost", ""), "gdp": ("μ²", "")}
_RULES = {
    "sums": "ε and δ are added",
    "renyi": "Rényi costs are added, and ε follows from their sum",
    "gdp": "μ², the cost of Gaussian noise, is added, and ε follows from the sum",
}
_SHOWN = 500  # charges in the table of a page; all of them are counted


def ledger_section(ledger: Ledger | None, guarantee: Guarantee) -> str:
    """Return the part of a model's report about its ledger, or about having none."""
    if ledger is None:
        return html.section(
            "The ledger",
            html.paragraph(
                "No ledger was given: this model had a budget of its own, which it has spent. "
                "Budgets of models trained on the same people add up; a ledger adds them for you "
                "and refuses what is too much."
            ),
            html.table(
                ("charge", "ε", "δ"),
                [("this model", rounded_up(guarantee.epsilon), delta_words(guarantee.delta))],
                numeric=2,
            ),
        )
    try:
        people = "".join(html.paragraph(f"{words}.") for words in ledger.people_words)
        return html.section("The ledger", _balance(ledger), people, _books(ledger, ledger.charges))
    except (NoisetteError, OSError):
        unread = (
            "The ledger could not be read when this page was written; `noisette ledger` shows it."
        )
    return html.section("The ledger", html.prose(unread))


def ledger_page(ledger: Ledger, title: str, date: str = "") -> str:
    """Return a page about a ledger alone: what was spent when on what, and what is left."""
    charges = ledger.charges
    unit = charges[-1].unit if charges else "record"
    slack = f", plus {delta_words(ledger.delta)}" if ledger.delta else ""
    known = [
        ("Charges", f"{len(charges):,}"),
        ("First", charges[0].booked[:10] if charges else ""),
        ("Last", charges[-1].booked[:10] if charges else ""),
        ("As of", date),
        ("Program", f"noisette {__version__}"),
    ]
    body = [
        html.title("Privacy ledger", title),
        html.facts([(name, text) for name, text in known if text]),
        _seeds(ledger, charges),
        html.promise(
            f"ε = {rounded_up(ledger.epsilon)}",
            f"δ = {delta_words(ledger.delta)}",
            f"in total, for each {unit}",
            f"{were_changed(ledger.adjacency, unit)}, the probability of whatever can be concluded "
            "from all releases under this ledger together, past and future, would change by at "
            f"most {factor_words(ledger.epsilon)}{slack}.",
        ),
        html.section("What is left", _balance(ledger)),
        html.section("By table", _by_table(ledger, charges)),
        html.section("What was spent, when, on what", _books(ledger, charges)),
        html.section("Settings", html.rows([
            ("Neighbours", neighbours_of(ledger.adjacency, unit)),
            ("How charges add up", f"rule “{ledger.rule}”: {_RULES[ledger.rule]}; valid also for "
             "charges that are chosen after seeing earlier results"),
            ("How it is kept", "a charge is booked before any noise is drawn, and never returned"),
            *(("Table", f"{name or '(not named)'}: {', '.join(kinds)}")
              for name, kinds in ledger.tables),
            *(("People", words) for words in ledger.people_words),
        ])),
    ]  # fmt: skip
    return html.document(f"Privacy ledger: {title}", "".join(body))


def _seeds(ledger: Ledger, charges: list[Charge]) -> str:
    if not ledger.experiment or not any(charge.seeded for charge in charges):
        return ""
    return html.paragraph(
        "A ledger for experiments: charges marked “from a seed” hide nobody.", "void"
    )


def _cost(ledger: Ledger, cost: tuple[float, float]) -> str:
    first, second = _UNITS[ledger.rule]
    if not second:
        return f"{first} = {cost[0]:.6g}"
    return f"{first} = {cost[0]:.6g}, {second} = {delta_words(cost[1])}"


def _balance(ledger: Ledger) -> str:
    """Return spent and left: in numbers, and as a bar."""
    spent, left = ledger.spent, ledger.remaining
    total = f"ε = {ledger.epsilon:g}, δ = {delta_words(ledger.delta)}"
    entries = [
        ("Never exceeded", total),
        ("Spent", _cost(ledger, spent)),
        ("Left", _cost(ledger, left)),
    ]
    bars = [
        (name, used, used + rest)
        for name, used, rest in zip(_UNITS[ledger.rule], spent, left, strict=True)
        if name and used + rest > 0.0
    ]
    drawing = svg.shares(
        "Spent of the total", [(f"{name} spent", used / whole) for name, used, whole in bars]
    )
    return html.halves(
        html.rows(entries), html.figure(drawing, "", "How much of the total is spent")
    )


def _by_table(ledger: Ledger, charges: list[Charge]) -> str:
    """Return the sum of costs for each table, where there are several."""
    sums: dict[str, tuple[int, float, float]] = {}
    for charge in charges:
        number, first, second = sums.get(charge.table, (0, 0.0, 0.0))
        sums[charge.table] = number + 1, first + charge.cost[0], second + charge.cost[1]
    if len(sums) < 2:
        return ""
    lines = [
        (name or "(not named)", str(number), *_numbers(ledger, (first, second)))
        for name, (number, first, second) in sums.items()
    ]
    return html.table(("table", "charges", *_heads(ledger)), lines, numeric=len(lines[0]) - 1)


def _heads(ledger: Ledger) -> tuple[str, ...]:
    return tuple(filter(None, _UNITS[ledger.rule]))


def _numbers(ledger: Ledger, cost: tuple[float, float]) -> tuple[str, ...]:
    return (f"{cost[0]:.6g}", delta_words(cost[1]))[: len(_heads(ledger))]


def _books(ledger: Ledger, charges: list[Charge]) -> str:
    """Return the charges, the latest of very many."""
    if not charges:
        return html.paragraph("Nothing has been charged yet.")
    first = max(0, len(charges) - _SHOWN)
    shown = charges[first:]
    more = [name for name in ("model", "table", "by") if any(getattr(each, name) for each in shown)]
    lines = [
        (
            str(number),
            charge.booked[:10],
            charge.title,
            *(getattr(charge, name) for name in more),
            *_numbers(ledger, charge.cost),
        )
        for number, charge in enumerate(shown, start=first + 1)
    ]
    heads = ("no.", "day (UTC)", "charge", *more, *_heads(ledger))
    listed = html.table(heads, lines, numeric=len(_heads(ledger)))
    if first:
        listed += html.prose(
            f"The latest {_SHOWN} of {len(charges):,} charges; `noisette ledger --export` writes "
            "all of them."
        )
    return listed
