"""The section about the noise: in words, and against what people can change together."""

from noisette.core.guarantee import Guarantee
from noisette.report import html, svg
from noisette.report.numbers import Noise, noise_of


def noise_section(guarantee: Guarantee, records: int | None) -> str:
    """Return what noise was added, and how it compares with changed records."""
    noises = noise_of(guarantee)
    sentences = list(dict.fromkeys(map(_sentence, noises)))
    first = next((noise for noise in noises if noise.where == "objective"), noises[0])
    drawing = ""
    if first.strength is not None:
        bars = [
            (f"one {guarantee.unit} changed, at most", 1.0, False),
            ("the noise, typically", first.strength, True),
        ]
        if records:
            share = records / first.batches
            group = "a batch" if first.batches > 1 else f"all {guarantee.unit}s"
            bars += [(f"1 % of {group} changed together, at most", share / 100.0, False)]
            bars += [(f"{group} changed together, at most", share, False)]
        drawing = html.figure(
            svg.bars(bars),
            "Strength along one direction, in units of the most that changing one "
            f"{guarantee.unit} can do; logarithmic scale. Computed from public numbers, not "
            "measured on the data.",
            "The noise against what people can change",
        )
    return html.section("The noise against the signal", html.items(sentences), drawing)


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

_COUNTED = {
    "counts": "the counts of rows at each knot, level and label",
    "scores": "the table of labels and scores of the test people",
}


def _sentence(noise: Noise) -> str:
    if noise.where in _FIXED:
        return _FIXED[noise.where]
    strength = "" if noise.strength is None else (
        f"Along any direction it is typically {svg.shown(noise.strength)} times the most that "
        "changing one record can do"
    )  # fmt: skip
    if noise.where in _COUNTED:
        return f"Noise was added to {_COUNTED[noise.where]}." + f" {strength}." * bool(strength)
    if not strength:
        return "Answers or choices were randomised; nothing was added to a number."
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
