"""The page about a model: a first screen for a decision, then what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisette.core.guarantee import Guarantee, rounded_up
from noisette.core.ledger import Ledger
from noisette.report import html, svg
from noisette.report.decision import decision, delta_words, neighbours_of
from noisette.report.effects import Effect, effects_section
from noisette.report.heat import PairEffect
from noisette.report.ledgers import ledger_section
from noisette.report.noise_words import noise_section
from noisette.report.numbers import Curve, curve_of
from noisette.report.proofs import appendix, links
from noisette.report.scores import Scores, scores_section


@dataclass(frozen=True)
class Subject:
    """What the page is about; everything in it is public.

    `facts` are (column, kind, facts) of the schema; `records` is None where n is private. Where
    facts were learnt, `steps` are (step, what it released, part of the budget, epsilon alone) and
    `learnt` are (column, kind, what was released about it). `scores` are those on test people,
    `effects` the pictures of columns, `weights` their table: (column, cell, adds, noise), and
    `pair_effects` the pictures of pairs.
    `table` is what the user calls the table, `schema` the schema's digest; there is none of the
    table, which would tell two neighbours apart. `date` is when the model was trained.
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
    scores: Scores | None = None
    weights: Sequence[tuple[str, str, str, str]] = ()
    table: str = ""
    schema: str = ""
    date: str = ""


def model_page(guarantee: Guarantee, subject: Subject, ledger: Ledger | None = None) -> str:
    """Return the page about one model; `ledger` is None if the model had a budget of its own."""
    curve = [] if guarantee.seeded else curve_of(guarantee)
    body = [
        html.title("Differential-privacy report", subject.title),
        decision(guarantee, subject, curve, ledger),
        scores_section(subject.scores),
        effects_section(
            subject.effects, subject.effects_note, _weights(subject), subject.pair_effects
        ),
        _steps(guarantee, subject),
        noise_section(guarantee, subject.records),
        ledger_section(ledger, guarantee),
        _statement(guarantee, curve),
        _settings(guarantee, subject),
        _check(subject),
        appendix(guarantee.proofs),
    ]
    return html.document(f"Privacy report: {subject.title}", "".join(body))


def _weights(subject: Subject) -> str:
    if not subject.weights:
        return ""
    listed = html.table(("column", "cell", "adds", "± noise"), subject.weights, numeric=2)
    return html.folded(f"The same in numbers: {len(subject.weights)} coefficients", listed)


def _steps(guarantee: Guarantee, subject: Subject) -> str:
    """Return what each step of a table's training released and cost."""
    if not subject.steps:
        return ""
    unit = "μ², the unit in which such costs add up" if guarantee.delta else "ε"
    at = f" at the same δ = {delta_words(guarantee.delta)}" if guarantee.delta else ""
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
            "one. These do not add up to the promise, which counts all steps together.",
            "small",
        ),
    ]  # fmt: skip
    if subject.learnt:
        listed = html.table(("column", "kind", "what was released about it"), subject.learnt)
        parts.append(html.folded(f"What was learnt about {len(subject.learnt)} columns", listed))
    return html.section("The budget, step by step", *parts)


def _statement(guarantee: Guarantee, curve: Curve) -> str:
    """Return the guarantee's own words, one thought a paragraph, the theorems as links."""
    promise, *rest = guarantee.paragraphs()
    if guarantee.public:  # the same words as a list
        rest = rest[1:]
    if guarantee.proofs:
        rest = rest[:-1]
    several = "" if guarantee.unit == "person" else "records of one person in several rows, "
    cited = f'<p class="ids">{links(guarantee.proofs)}</p>' if guarantee.proofs else ""
    return html.section(
        "The statement",
        html.paragraph(promise),
        _curve(guarantee, curve),
        html.subsection("Treated as public, and not protected",
                        html.items(guarantee.public or ("nothing",))),
        html.subsection("What else to know", *map(html.paragraph, rest)),
        html.subsection("Not covered", html.paragraph(
            f"Other releases about the same people, {several}and what is simply true of people in "
            "general, which a good model is meant to learn."
        )),
        html.subsection("Proofs", cited),
    )  # fmt: skip


def _curve(guarantee: Guarantee, curve: Curve) -> str:
    drawing = svg.curve(curve, (guarantee.delta, guarantee.epsilon)) if curve else ""
    return html.figure(
        drawing,
        "The same model read at other values of δ. Every point of the curve holds at once; it is "
        "recomputed from the plan, not copied.",
        "The promise at every δ",
    )


def _settings(guarantee: Guarantee, subject: Subject) -> str:
    entries = [
        ("Released", guarantee.released),
        ("Promise", f"ε = {rounded_up(guarantee.epsilon)}, δ = {delta_words(guarantee.delta)}"),
        ("Neighbours", neighbours_of(guarantee.adjacency, guarantee.unit)),
        ("Unit of protection", subject.unit),
        ("Noise source", "a seed that somebody may know: not private" if guarantee.seeded
         else "secure: AES in counter mode, key from the operating system, never stored"),
    ]  # fmt: skip
    schema = ""
    if subject.facts:
        listed = html.table(("column", "kind", "public facts"), subject.facts)
        schema = html.subsection(f"The schema: {len(subject.facts)} columns", listed)
    plan = html.folded("The plan that was counted", html.code(repr(guarantee.plan)))
    return html.section("Settings", html.rows(entries), schema, plan)


def _check(subject: Subject) -> str:
    return html.section(
        "How to check it",
        html.paragraph(
            "Do not trust this page: recompute it. The command reads the model file, checks the "
            "promise against the plan that ran, and prints both."
        ),
        html.code(subject.check),
    )
