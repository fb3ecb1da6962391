"""The first screen of a report, for a decision: what, how private, how good, what to check."""

import contextlib
import math
from typing import TYPE_CHECKING

from noisette._package import __version__
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee, rounded_up, too_large
from noisette.core.ledger import Ledger
from noisette.errors import NoisetteError
from noisette.report import html
from noisette.report.numbers import Curve, attack_power
from noisette.report.scores import headline

if TYPE_CHECKING:
    from noisette.report.page import Subject

_RELATIONS = {
    Adjacency.REPLACE_ONE: "replace-one: one person's record is exchanged for any other",
    Adjacency.ZERO_OUT: "zero-out: one person's record is blanked out, so that neither its "
    "features nor its label take part",
    Adjacency.ADD_REMOVE: "add-remove: one person's record is added or taken away",
}
_PERSONS = {
    Adjacency.REPLACE_ONE: "replace-one: all rows of one person are exchanged for any others",
    Adjacency.ZERO_OUT: "zero-out: all rows of one person are blanked out, so that neither their "
    "features nor their labels take part",
    Adjacency.ADD_REMOVE: "add-remove: all rows of one person are added or taken away",
}
# What the promise speaks of: under zero-out and add-remove it says nothing about another record.
_CHANGES = {
    Adjacency.REPLACE_ONE: ("{} different", "two candidates for {} apart"),
    Adjacency.ZERO_OUT: ("{} blanked out", "whether {} took part or was blanked out"),
    Adjacency.ADD_REMOVE: ("{} missing, or one more there", "whether {} took part at all"),
}
_ALARMS = (0.01, 0.05, 0.10, 0.25)
_PERCENT = "\N{NO-BREAK SPACE}%"
_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def decision(guarantee: Guarantee, subject: "Subject", curve: Curve, ledger: Ledger | None) -> str:
    """Return everything that a reviewer needs to say yes or no."""
    return "".join([
        html.facts(_facts(subject, guarantee.unit)),
        _warning(guarantee),
        _promise(guarantee, subject),
        html.halves(attacker(guarantee, curve), _quality(subject)),
        "" if guarantee.seeded else _checks(guarantee, subject, ledger),
    ])  # fmt: skip


def neighbours_of(adjacency: Adjacency, unit: str) -> str:
    """Return who may differ, in words."""
    return (_PERSONS if unit == "person" else _RELATIONS)[adjacency]


def were_changed(adjacency: Adjacency, unit: str) -> str:
    """Return the condition of the promise, for the start of a sentence."""
    who = "any one record" if unit == "record" else "all rows of any one person"
    return "Were " + _CHANGES[adjacency][0].format(who)


def delta_words(delta: float) -> str:
    """Return delta as people write it, never less than it is."""
    if delta == 0.0:
        return "0"
    digits, power = f"{float(rounded_up(delta, digits=3)):.2e}".split("e")
    if int(power) >= -3:
        return rounded_up(delta, digits=3)
    ten = "10" + str(int(power)).translate(_UP)
    return ten if float(digits) == 1.0 else f"{float(digits):g} × {ten}"


def factor_words(epsilon: float) -> str:
    """Return e^epsilon in three digits, rounded up."""
    if epsilon > 30.0:
        return "an astronomically large factor"
    return f"a factor of {_up(math.exp(epsilon))}"


def _facts(subject: "Subject", unit: str) -> list[tuple[str, str]]:
    """Return what was trained on what. There is no digest of the table: it would tell on it."""
    count = "not public" if subject.records is None else f"{subject.records:,}"
    named = [
        ("Table", subject.table),
        ("Schema", subject.schema),
        ("Rows" if unit == "record" else "Persons", count),
        ("Trained", subject.date),
        ("Program", f"noisette {__version__}"),
    ]
    return [(name, text) for name, text in named if text]


def _warning(guarantee: Guarantee) -> str:
    if not guarantee.seeded:
        return html.paragraph(said, "warn") if (said := too_large(guarantee.epsilon)) else ""
    return html.paragraph(
        "Not private: the noise came from a seed. Whoever knows or guesses the seed can subtract "
        "it. This page is for experiments; train again without a seed before anything is released.",
        "void",
    )


def _promise(guarantee: Guarantee, subject: "Subject") -> str:
    """Return the promise in one sentence beside its two numbers; the factor is rounded up."""
    if guarantee.seeded:
        return ""
    slack = f", plus {delta_words(guarantee.delta)}" if guarantee.delta else ""
    return html.promise(
        f"ε = {rounded_up(guarantee.epsilon)}",
        f"δ = {delta_words(guarantee.delta)}",
        f"for each record: {subject.unit}" if guarantee.unit == "record" else f"for {subject.unit}",
        f"{were_changed(guarantee.adjacency, guarantee.unit)}, the probability of whatever can be "
        "concluded from this model would change by at most "
        f"{factor_words(guarantee.epsilon)}{slack}.",
    )


def _up(value: float) -> str:
    """Return a number in three digits, rounded up."""
    places = 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10.0**places - 1e-9) / 10.0**places:,.{max(0, places)}f}"


def attacker(guarantee: Guarantee, curve: Curve) -> str:
    """Return how much more often an attacker is right with the model than without."""
    if guarantee.seeded:
        return ""
    lines = []
    for alarm in _ALARMS:
        power = attack_power(guarantee, alarm, curve)
        shares = f"{100 * alarm:g}{_PERCENT}", f"at most {_up(100 * power)}{_PERCENT}"
        lines.append((*shares, _up(power / alarm)))
    known, differ = "every record but one", "that record"
    if guarantee.unit == "person":
        known, differ = "all rows of everybody but one person", "that person"
    wanted = _CHANGES[guarantee.adjacency][1].format(differ)
    return html.section(
        "What an attacker gains",
        html.paragraph(
            f"Imagine an attacker who knows {known}, has this model, and wants to tell {wanted}. "
            "Guessing is right as often as false alarms are allowed; the model helps by this much:"
        ),
        html.table(("right by guessing", "right with the model", "times"), lines, numeric=2),
        html.paragraph(_reconciled(guarantee, curve), "small"),
    )


def _reconciled(guarantee: Guarantee, curve: Curve) -> str:
    """Return how the factor of the promise and the first line of the table go together."""
    power = attack_power(guarantee, 0.01, curve)
    shown = f"1{_PERCENT} becomes at most {_up(100 * power)}{_PERCENT}"
    if guarantee.epsilon > 30.0 or power >= 0.9:
        return f"The promise is too weak to limit such an attacker: {shown}."
    factor = factor_words(guarantee.epsilon).removeprefix("a factor of ")
    if power >= 0.98 * 0.01 * math.exp(guarantee.epsilon):
        return f"This is the factor of the promise at work, {factor} times: {shown}."
    return (
        f"The {factor} times of the promise is the most for any conclusion whatever; only those "
        f"that are rarer than 1{_PERCENT} can come near it, so {shown}, "
        f"which is {_up(100 * power)} times."
    )


def _quality(subject: "Subject") -> str:
    """Return how good the model is, if somebody paid to know."""
    numbers, words = headline(subject.scores)
    shown = html.cards(numbers) + html.paragraph(words, "small")
    if not numbers:
        shown = html.prose(
            "Not measured on these people: how often the model is right is one more fact about "
            "them, and nobody has paid for it. `noisette evaluate` buys it on other people's rows, "
            "and where labels are predicted `noisette train --test-share 0.2` on a part of the "
            "table that is kept out of the training."
        )
    return html.section("How good the model is", shown)


def _checks(guarantee: Guarantee, subject: "Subject", ledger: Ledger | None) -> str:
    """Return what no program can know, as a list to tick off."""
    k_rows = "k times ε" + (" and more than k times δ" if guarantee.delta else "")
    unit = f"{subject.unit}. A person who is in the table with k rows has {k_rows}."
    if guarantee.unit == "person":
        unit = f"{subject.unit}. A person who goes by several identifiers is protected for each."
    listed = "in the schema (listed under “Settings”)" if subject.facts else "under “The statement”"
    bounds = (
        f"Bounds, categories and labels stated {listed} come from documents or general knowledge, "
        "and so does whatever was done to the table before: filters, joins, a choice of columns."
    )
    if subject.learnt:
        bounds += " What the training learnt by itself is paid for and needs no check."
    others = (
        "Every other release about the same people costs its own ε on top of this one. No ledger "
        "was given, so nobody but you adds them up."
    )
    if ledger is not None:
        known = ""
        with contextlib.suppress(NoisetteError, OSError):  # the section below says so
            count = ledger.count
            known = f", {count:,} charge{'s' * (count != 1)} so far"
        others = (
            "Everything else that was released about the same people is in the ledger (below"
            f"{known}); what is not in it costs its own ε on top."
        )
    return html.boxes(
        "What you must check yourself",
        "No program can know these. Ticks and names are not stored: print the page, or save it as "
        "PDF.",
        [("The unit is right:", unit), ("Nothing was read off the data:", bounds),
         ("Other releases are counted:", others)],
        ("The model may be released", "The model may not be released"),
    )  # fmt: skip
