"""The page about a model, and the page about a ledger."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from noisette._version import __version__
from noisette.adjacency import Adjacency
from noisette.guarantee import Guarantee
from noisette.privacy import Ledger
from noisette.report import html, svg
from noisette.report.effects import Effect, effects_section
from noisette.report.heat import PairEffect
from noisette.report.numbers import Noise, attack_power, curve_of, noise_of
from noisette.report.proofs import meaning
from noisette.report.scores import scores_section
from noisette.scores import BinaryScores, MulticlassScores

__all__ = ["Subject", "ledger_page", "model_page"]

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
_UNITS = {"sums": ("epsilon", "delta"), "renyi": ("Rényi cost", "-"), "gdp": ("mu squared", "-")}


@dataclass(frozen=True)
class Subject:
    """What the page is about; everything in it is public.

    `facts` are (column, kind, facts) of the schema; `records` is None where n is private. Where
    facts were learnt, `steps` are (step, what it released, part of the budget, epsilon alone) and
    `learnt` are (column, kind, what was released about it). `scores` are those on test people, and
    `effects` the pictures of columns, `pair_effects` those of pairs.
    """

    title: str
    unit: str
    facts: Sequence[tuple[str, str, str]] = ()
    records: int | None = None
    check: str = "noisette inspect FOLDER"
    steps: Sequence[tuple[str, str, str, str]] = ()
    learnt: Sequence[tuple[str, str, str]] = ()
    effects: Sequence[Effect] = ()
    effects_note: str = ""
    pair_effects: Sequence[PairEffect] = ()
    scores: BinaryScores | MulticlassScores | None = None


def model_page(guarantee: Guarantee, subject: Subject, ledger: Ledger | None = None) -> str:
    """Return the page about one model; `ledger` is None if the model had a budget of its own."""
    body = [
        html.paragraph("Differential-privacy report", "eyebrow"),
        f"<h1>{html.escape(subject.title)}</h1>",
        _warning(guarantee),
        _lead(guarantee),
        html.cards(_cards(guarantee, subject)),
        f'<p class="statement">{html.escape(guarantee.statement())}</p>',
        scores_section(subject.scores),
        _meaning(guarantee),
        effects_section(subject.effects, subject.effects_note, subject.pair_effects),
        _steps(guarantee, subject),
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
        (
            f"ε = {guarantee.epsilon:.6g}",
            f"one {guarantee.unit} changes a probability by at most e^ε",
        ),
        (
            f"δ = {guarantee.delta:g}",
            "is added on top" if guarantee.delta else "pure: no exception",
        ),
        (guarantee.adjacency.value, "what “one record changes” means"),
    ]
    if subject.records is not None:
        cards.append((f"{subject.records:,}", f"{guarantee.unit}s, a public number"))
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


def _neighbours(guarantee: Guarantee) -> str:
    return (_PERSONS if guarantee.unit == "person" else _RELATIONS)[guarantee.adjacency]


def _meaning(guarantee: Guarantee) -> str:
    if guarantee.seeded:
        return ""
    curve = curve_of(guarantee)
    lines = []
    known, differ = "every record but one", "that record"
    if guarantee.unit == "person":
        known, differ = "all rows of everybody but one person", "that person's rows"
    for alarm in (0.01, 0.05, 0.10, 0.25):
        power = math.ceil(1000.0 * attack_power(guarantee, alarm, curve) - 1e-9) / 10.0
        lines.append((f"{alarm:.0%}", f"{alarm:.0%}", f"at most {power:.1f}%"))
    return html.section(
        "What it means for one person",
        html.paragraph(
            f"Imagine an attacker who knows {known} and has this model. From it the "
            "attacker tries to tell which of two data sets it came from, which differ in "
            f"{differ} only ({_neighbours(guarantee)})."
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


def _steps(guarantee: Guarantee, subject: Subject) -> str:
    """Return what each step of a table's training released and cost."""
    if not subject.steps:
        return ""
    unit = "mu squared, the unit in which such costs add up" if guarantee.delta else "epsilon"
    at = f" at the same δ = {guarantee.delta:g}" if guarantee.delta else ""
    parts = [
        html.paragraph(
            "What the training had to know of the columns was bought from the same budget as the "
            "model. One plan with all steps was charged before the first look at the rows, so the "
            "promise above covers everything in this table together."
        ),
        html.table(("step", "what it released", "part of the budget", "ε alone"),
                   subject.steps, numeric=2),
        html.paragraph(
            f"Parts are of {unit}. “ε alone” is what the step would cost{at} if it were the only "
            "one. These do not add up to the promise, which counts all steps together."
        ),
    ]  # fmt: skip
    if subject.learnt:
        listed = html.table(("column", "kind", "what was released about it"), subject.learnt)
        parts.append(html.folded(f"What was learnt about {len(subject.learnt)} columns", listed))
    return html.section("What each step released and cost", *parts)


def _noise(guarantee: Guarantee, subject: Subject) -> str:
    noises = noise_of(guarantee)
    sentences = list(dict.fromkeys(map(_noise_sentence, noises)))
    first = next((noise for noise in noises if noise.where == "objective"), noises[0])
    drawing = ""
    if first.strength is not None:
        bars = [
            (f"one {guarantee.unit} changed, at most", 1.0, False),
            ("the noise, typically", first.strength, True),
        ]
        if subject.records:
            share = subject.records / first.batches
            group = "a batch" if first.batches > 1 else f"all {guarantee.unit}s"
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
    if noise.where == "search":
        return (
            "The model is the best of a secret, random number of runs; each run had noise of its "
            "own in the model and in its score, and all others were forgotten."
        )
    if noise.where == "cover":
        return (
            "A second, far smaller noise covers the certified distance between the computed "
            "optimum and the exact one."
        )
    if noise.where == "choices":
        return "Knots were chosen at random, by probabilities that one record hardly changes."
    if noise.where == "levels":
        return (
            "Noise was added to the count of every level, and levels with a low noisy count were "
            "not shown: what one person alone has stays hidden but for a part of δ."
        )
    if noise.where == "counts":
        return (
            "Noise was added to the counts of rows at each knot, level and label. Along any "
            f"direction it is typically {svg.shown(noise.strength or 0.0)} times the most that "
            "changing one record can do."
        )
    if noise.where == "scores":
        return (
            "Noise was added to the table of labels and scores of the test people. Along any "
            f"direction it is typically {svg.shown(noise.strength or 0.0)} times the most that "
            "changing one record can do."
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
        ("Neighbours", _neighbours(guarantee)),
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
        (
            str(k),
            charge.booked[:10],
            charge.title,
            charge.table,
            f"{charge.cost[0]:.6g}",
            f"{charge.cost[1]:g}",
        )
        for k, charge in enumerate(ledger.charges, start=1)
    ]
    listed = (
        html.table(("", "date", "charge", "table", *units), charges, numeric=2) if charges else ""
    )
    return [html.rows(entries), listed or html.paragraph("Nothing has been charged yet.")]


def _assumed(guarantee: Guarantee, subject: Subject) -> str:
    parts = [
        html.paragraph("The promise protects the rows of the table. It takes as known to all:"),
        html.items(guarantee.public or ("nothing",)),
    ]
    if subject.facts:
        listed = html.table(("column", "kind", "public facts"), subject.facts)
        parts.append(html.folded(f"The schema: {len(subject.facts)} columns", listed))
    several = "" if guarantee.unit == "person" else "records of one person in several rows, "
    notes = [
        *guarantee.notes,
        f"Numbers: {guarantee.numeric_model}.",
        f"Not covered: other releases about the same people, {several}"
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
