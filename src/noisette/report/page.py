"""The page about a model: a first screen for a decision, then what it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from noisette._package import __version__
from noisette.core.adjacency import UNITS
from noisette.core.guarantee import Guarantee, too_large
from noisette.core.ledger import Ledger
from noisette.report import html, numbers, svg
from noisette.report.effects import Effect, drawn
from noisette.report.heat import PairEffect
from noisette.report.ledgers import told_of
from noisette.report.scores import Scores, measured

_ALARMS = (0.01, 0.05, 0.10, 0.25)
_PERCENT = "\N{NO-BREAK SPACE}%"


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
    curve = [] if guarantee.seeded else numbers.curve_of(guarantee)
    noises = numbers.noise_of(guarantee)
    # What was trained on what. There is no digest of the table: it would tell on it.
    counted = "not public" if subject.records is None else f"{subject.records:,}"
    facts = [
        ("Table", subject.table), ("Schema", subject.schema),
        (UNITS[guarantee.unit].counted.capitalize(), counted), ("Trained", subject.date),
        ("Program", f"noisette {__version__}"),
    ]  # fmt: skip
    # The guarantee's own words, one thought a paragraph, without what is listed anyway.
    promise, *rest = guarantee.paragraphs()
    rest = rest[1:] if guarantee.public else rest
    return html.render(
        "model.html", title=subject.title, guarantee=guarantee, subject=subject, facts=facts,
        large=too_large(guarantee.epsilon), **numbers.promised(guarantee, guarantee.unit),
        attacker=attacker(guarantee, curve),
        scores=None if subject.scores is None else measured(subject.scores),
        effects=drawn(subject.effects, subject.effects_note, subject.pair_effects, subject.weights),
        noises=list(dict.fromkeys(map(_sentence, noises))),
        bars=_bars(noises, guarantee.unit, subject.records),
        ledger=None if ledger is None else told_of(ledger),
        statement=[promise, *(rest[:-1] if guarantee.proofs else rest)],
        curve=svg.curve(curve, (guarantee.delta, guarantee.epsilon)) if curve else "",
        plan=repr(guarantee.plan),
    )  # fmt: skip


def attacker(guarantee: Guarantee, curve: numbers.Curve) -> str:
    """Return how much more often an attacker is right with the model than without."""
    if guarantee.seeded:
        return ""
    lines = []
    for alarm in _ALARMS:
        power = numbers.attack_power(guarantee, alarm, curve)
        at_most = f"at most {numbers.in_three(100 * power)}{_PERCENT}"
        lines.append((f"{100 * alarm:g}{_PERCENT}", at_most, numbers.in_three(power / alarm)))
    # How the factor of the promise and the first line of the table go together.
    power = numbers.attack_power(guarantee, 0.01, curve)
    shown = f"1{_PERCENT} becomes {lines[0][1]}"
    factor = numbers.factor_words(guarantee.epsilon).removeprefix("a factor of ")
    if guarantee.epsilon > 30.0 or power >= 0.9:
        reconciled = f"The promise is too weak to limit such an attacker: {shown}."
    elif power >= 0.98 * 0.01 * math.exp(guarantee.epsilon):
        reconciled = f"This is the factor of the promise at work, {factor} times: {shown}."
    else:
        reconciled = (
            f"The {factor} times of the promise is the most for any conclusion whatever; only "
            f"those that are rarer than 1{_PERCENT} can come near it, so {shown}, "
            f"which is {numbers.in_three(100 * power)} times."
        )
    unit = UNITS[guarantee.unit]
    return html.render(
        "attacker.html", known=unit.others, lines=lines, reconciled=reconciled,
        wanted=numbers.CHANGES[guarantee.adjacency][1].format(unit.this),
    )  # fmt: skip


def _bars(noises: list[numbers.Noise], unit: str, records: int | None) -> str:
    """Return the noise against what people can change together, as a drawing."""
    first = next((noise for noise in noises if noise.where == "objective"), noises[0])
    if first.strength is None:
        return ""
    share = (records or 0) / first.batches
    group = "a batch" if first.batches > 1 else f"all {unit}s"
    bars = [
        (f"one {unit} changed, at most", 1.0, False),
        ("the noise, typically", first.strength, True),
        (f"1 % of {group} changed together, at most", share / 100.0, False),
        (f"{group} changed together, at most", share, False),
    ]
    return svg.bars(bars if records else bars[:2])


_FIXED = {
    "declared": "A part was made elsewhere; its cost was declared and is taken on trust.",
    "search": "The model is the best of a secret, random number of runs; each run had noise of its "
    "own in the model and in its score, and all others were forgotten.",
    "cover": "A second, far smaller noise covers the certified distance between the computed "
    "optimum and the exact one.",
    "choices": "Knots were chosen at random, by probabilities that one record hardly changes.",
    "levels": "Noise was added to the count of every level, and levels with a low noisy count were "
    "not shown: what one person alone has stays hidden but for a part of δ.",
}

_UNKNOWN = "Answers or choices were randomised; nothing was added to a number."
_ADDED = {
    "counts": "Noise was added to the counts of rows at each knot, level and label. {0}.",
    "scores": "Noise was added to the table of labels and scores of the test people. {0}.",
    "objective": "A random pull was added to the training objective, once. {0}. What few people "
    "have in common drowns in it; what many have in common does not.",
    "weights": "Noise was added to the trained weights, once. {0} to them.",
    "value": "Noise was added once. {0}.",
    "steps": "Noise was added in each of {1:,} steps. {0} to that step.",
}


def _sentence(noise: numbers.Noise) -> str:
    if noise.where in _FIXED:
        return _FIXED[noise.where]
    if noise.strength is None:
        counted = noise.where in ("counts", "scores")
        return _ADDED[noise.where].removesuffix(" {0}.") if counted else _UNKNOWN
    strength = (
        f"Along any direction it is typically {svg.shown(noise.strength)} times the most that "
        "changing one record can do"
    )
    return _ADDED[noise.where].format(strength, noise.times)
