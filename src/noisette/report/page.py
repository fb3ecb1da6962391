"""The page about a model, and the page about a ledger."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from noisette._version import __version__
from noisette.adjacency import Adjacency
from noisette.guarantee import Guarantee
from noisette.privacy import Ledger
from noisette.report import html, svg
from noisette.report.numbers import Noise, attack_power, curve_of, noise_of
from noisette.report.proofs import meaning

__all__ = ["Subject", "ledger_page", "model_page"]

_RELATIONS = {
    Adjacency.REPLACE_ONE: "replace-one: one person's record is exchanged for any other",
    Adjacency.ZERO_OUT: "zero-out: one person's record is blanked out, so that neither its "
    "features nor its label take part",
    Adjacency.ADD_REMOVE: "add-remove: one person's record is added or taken away",
}
_UNITS = {"sums": ("epsilon", "delta"), "renyi": ("Rényi cost", "-"), "gdp": ("mu squared", "-")}


@dataclass(frozen=True)
class Subject:
    """What the page is about; everything in it is public.

    `facts` are (column, kind, facts) of the schema; `records` is None where n is private.
    """

    title: str
    unit: str
    facts: Sequence[tuple[str, str, str]] = ()
    records: int | None = None
    check: str = "noisette inspect FOLDER"


def model_page(guarantee: Guarantee, subject: Subject, ledger: Ledger | None = None) -> str:
    """Return the page about one model; `ledger` is None if the model had a budget of its own."""
    body = [
        html.paragraph("Differential-privacy report", "eyebrow"),
        f"<h1>{html.escape(subject.title)}</h1>",
        _warning(guarantee),
        _lead(guarantee),
        html.cards(_cards(guarantee, subject)),
        f'<p class="statement">{html.escape(guarantee.statement())}</p>',
        _meaning(guarantee),
        _noise(guarantee, subject),
        _claims(guarantee, subject),
        html.section("The ledger", *_ledger(ledger, guarantee)),
        _assumed(guarantee, subject),
        _proofs(guarantee),
        _check(subject),
        _footer(),
    ]
    return html.document(f"Privacy report: {subject.title}", "".join(body))


def ledger_page(ledger: Ledger, title: str) -> str:
    """Return a page about a ledger alone."""
    body = [
        html.paragraph("Privacy ledger", "eyebrow"),
        f"<h1>{html.escape(title)}</h1>",
        *_ledger(ledger, None),
        _footer(),
    ]
    return html.document(f"Privacy ledger: {title}", "".join(body))


def _footer() -> str:
    return (
        f"<footer>Written by noisette {html.escape(__version__)}. This page loads nothing from "
        "anywhere.</footer>"
    )


def _cards(guarantee: Guarantee, subject: Subject) -> list[tuple[str, str]]:
    cards = [
        (f"ε = {guarantee.epsilon:.6g}", "one record changes a probability by at most e^ε"),
        (
            f"δ = {guarantee.delta:g}",
            "is added on top" if guarantee.delta else "pure: no exception",
        ),
        (guarantee.adjacency.value, "what “one record changes” means"),
    ]
    if subject.records is not None:
        cards.append((f"{subject.records:,}", "records, a public number"))
    return cards


def _warning(guarantee: Guarantee) -> str:
    if not guarantee.seeded:
        return ""
    return html.paragraph(
        "Not private: the noise came from a seed. Whoever knows or guesses the seed can subtract "
        "it. This page is for experiments; train again without a seed before anything is released.",
        "void",
    )


def _lead(guarantee: Guarantee) -> str:
    """Return the promise in one sentence; the factor is rounded up."""
    if guarantee.seeded:
        return ""
    factor = "an astronomically large factor"
    if guarantee.epsilon <= 30.0:
        exact = math.exp(guarantee.epsilon)
        places = 2 - math.floor(math.log10(exact))
        rounded = math.ceil(exact * 10.0**places - 1e-9) / 10.0**places
        factor = f"a factor of {rounded:,.{max(0, places)}f}"
    slack = f", plus {guarantee.delta:g}" if guarantee.delta else ""
    return html.paragraph(
        "Were any one record different, the probability of whatever can be concluded from this "
        f"model would change by at most {factor}{slack}.",
        "lead",
    )


def _meaning(guarantee: Guarantee) -> str:
    if guarantee.seeded:
        return ""
    curve = curve_of(guarantee)
    lines = []
    for alarm in (0.01, 0.05, 0.10, 0.25):
        power = math.ceil(1000.0 * attack_power(guarantee, alarm, curve) - 1e-9) / 10.0
        lines.append((f"{alarm:.0%}", f"{alarm:.0%}", f"at most {power:.1f}%"))
    return html.section(
        "What it means for one person",
        html.paragraph(
            "Imagine an attacker who knows every record but one and has this model. From it the "
            "attacker tries to tell which of two data sets it came from, which differ in that "
            f"record only ({_RELATIONS[guarantee.adjacency]})."
        ),
        html.table(
            ("false alarms allowed", "right by pure guessing", "right with the model"),
            lines,
            numeric=2,
        ),
        html.figure(
            svg.curve(curve, (guarantee.delta, guarantee.epsilon)),
            "The same model read at other values of δ. Every point of the curve holds at once; "
            "it is recomputed from the plan, not copied.",
        ),
    )


def _noise(guarantee: Guarantee, subject: Subject) -> str:
    noises = noise_of(guarantee)
    sentences = [_noise_sentence(noise) for noise in noises]
    first = noises[0]
    drawing = ""
    if first.strength is not None:
        bars = [
            ("one record changed, at most", 1.0, False),
            ("the noise, typically", first.strength, True),
        ]
        if subject.records:
            share = subject.records / first.batches
            group = "a batch" if first.batches > 1 else "all records"
            bars += [(f"1% of {group} changed together, at most", share / 100.0, False)]
            bars += [(f"{group} changed together, at most", share, False)]
        drawing = html.figure(
            svg.bars(bars),
            "Strength along one direction, in units of the most that changing one record can do; "
            "logarithmic scale. Computed from public numbers, not measured on the data.",
        )
    return html.section("The noise against the signal", html.items(sentences), drawing)


def _noise_sentence(noise: Noise) -> str:
    if noise.where == "declared":
        return "A part was made elsewhere; its cost was declared and is taken on trust."
    if noise.where == "cover":
        return (
            "A second, far smaller noise covers the certified distance between the computed "
            "optimum and the exact one."
        )
    if noise.strength is None:
        return "Answers or choices were randomised; nothing was added to a number."
    strength = (
        f"Along any direction it is typically {svg.shown(noise.strength)} times the most that "
        "changing one record can do"
    )
    if noise.where == "objective":
        return (
            f"A random pull was added to the training objective, once. {strength}. What few people "
            "have in common drowns in it; what many have in common does not."
        )
    if noise.where == "weights":
        return f"Noise was added to the trained weights, once. {strength} to them."
    if noise.where == "value":
        return f"Noise was added once. {strength}."
    return f"Noise was added in each of {noise.times:,} steps. {strength} to that step."


def _claims(guarantee: Guarantee, subject: Subject) -> str:
    entries = [
        ("Released", guarantee.released),
        ("Promise", f"ε = {guarantee.epsilon:.6g}, δ = {guarantee.delta:g}"),
        ("Neighbours", _RELATIONS[guarantee.adjacency]),
        ("Unit of protection", subject.unit),
        ("Noise source", "a seed that somebody may know: not private" if guarantee.seeded
         else "secure: AES in counter mode, key from the operating system, never stored"),
    ]  # fmt: skip
    plan = html.folded("The plan that was counted", html.code(repr(guarantee.plan)))
    return html.section("The claim, item by item", html.rows(entries), plan)


def _ledger(ledger: Ledger | None, guarantee: Guarantee | None) -> list[str]:
    if ledger is None:
        assert guarantee is not None
        return [
            html.paragraph(
                "No ledger was given: this model had a budget of its own, which it has spent. "
                "Budgets of models trained on the same people add up; a ledger adds them for you "
                "and refuses what is too much."
            ),
            html.table(
                ("charge", "ε", "δ"),
                [("this model", f"{guarantee.epsilon:.6g}", f"{guarantee.delta:g}")],
                numeric=2,
            ),
        ]
    units = _UNITS[ledger.rule]
    spent, left = ledger.spent, ledger.remaining
    entries = [
        ("Total that is never exceeded", f"ε = {ledger.epsilon:g}, δ = {ledger.delta:g}"),
        ("Neighbours", _RELATIONS[ledger.adjacency]),
        (
            "How charges add up",
            f"rule “{ledger.rule}”, valid also for charges chosen later",
        ),
        ("Spent", f"{spent[0]:.6g} {units[0]}, {spent[1]:g} in the second column"),
        (
            "Left when this page was written",
            f"{left[0]:.6g} {units[0]}, {left[1]:g} in the second column",
        ),
    ]
    if ledger.rule == "sums":
        entries[3] = ("Spent", f"ε = {spent[0]:.6g}, δ = {spent[1]:g}")
        entries[4] = ("Left when this page was written", f"ε = {left[0]:.6g}, δ = {left[1]:g}")
    charges = [
        (str(k), charge.title, f"{charge.cost[0]:.6g}", f"{charge.cost[1]:g}")
        for k, charge in enumerate(ledger.charges, start=1)
    ]
    listed = html.table(("", "charge", *units), charges, numeric=2) if charges else ""
    return [html.rows(entries), listed or html.paragraph("Nothing has been charged yet.")]


def _assumed(guarantee: Guarantee, subject: Subject) -> str:
    parts = [
        html.paragraph("The promise protects the rows of the table. It takes as known to all:"),
        html.items(guarantee.public or ("nothing",)),
    ]
    if subject.facts:
        listed = html.table(("column", "kind", "public facts"), subject.facts)
        parts.append(html.folded(f"The schema: {len(subject.facts)} columns", listed))
    notes = [
        *guarantee.notes,
        f"Numbers: {guarantee.numeric_model}.",
        "Not covered: other releases about the same people, records of one person in several rows, "
        "and what is simply true of people in general, which a good model is meant to learn.",
    ]
    return html.section("What was assumed", *parts, html.items(notes))


def _proofs(guarantee: Guarantee) -> str:
    if not guarantee.proofs:
        return ""
    lines = [(name, meaning(name)) for name in guarantee.proofs]
    return html.section(
        "Why it is true",
        html.paragraph(
            "Each step rests on a theorem; docs/theory/theorems.md states it with its conditions "
            "and its source."
        ),
        html.rows(lines),
    )


def _check(subject: Subject) -> str:
    return html.section(
        "How to check it",
        html.paragraph(
            "Do not trust this page: recompute it. The command reads the model file, checks the "
            "promise against the plan that ran, and prints both."
        ),
        html.code(subject.check),
    )
