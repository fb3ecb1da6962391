"""Scores in words: a table for the terminal, and whether a model beats the majority answer."""

from collections.abc import Sequence
from typing import Any

from noisette.scores.score import Score


def versus_majority(
    gain: Score, majority: Any, always: Any = None, *, noisy: bool = False,
    ranks: Score | None = None,
) -> str:  # fmt: skip
    """Return a sentence unless the accuracy is above that of the majority answer by `gain`.

    `always` is the answer that the model gives to everybody, as far as `noisy` counts can tell;
    `ranks` its AUC: a model of a rare label may tell people apart without ever answering it.
    """
    if not gain.trusted:
        return "There are too few rows for this noise to tell whether the model beats the majority."
    if gain.low > 0.0:
        return ""
    if gain.value > 0.0 and always is None:
        return f"It is not certain that the model beats the answer {majority!r} to everybody."
    if always is not None:
        everybody = "to everybody, as far as the noisy counts can tell" if noisy else "to everybody"
        told = f"The model answers {always!r} {everybody}: it is no better than the majority; "
    else:
        told = f"The model is no better than the answer {majority!r} to everybody; "
    if ranks is not None and ranks.trusted and ranks.low > 0.5:
        return (
            f"{told}but it tells people apart (AUC {ranks.value:.3f}): rank them by probability, "
            "or choose another threshold or class weights."
        )
    return f"{told}class weights or another threshold may help."


def versus_mean(r2: Score) -> str:
    """Return a sentence unless a model of numbers is better than their mean, given to everybody."""
    if not r2.trusted:
        return "There are too few rows for this noise to tell whether the model beats the mean."
    if r2.low > 0.0:
        return ""
    if r2.value > 0.0:
        return "It is not certain that the model beats the mean of the targets, given to everybody."
    return "The model is no better than the mean of the targets, given to everybody."


def table_of(classes: Sequence[Any], table: Sequence[Sequence[float]]) -> list[str]:
    """Return a confusion matrix as lines."""
    names = [str(each) for each in classes]
    cells = [[f"{count:.0f}" for count in row] for row in table]
    wide = max(len(text) for row in (names, *cells) for text in row) + 2
    first = max(len(f"true {name}") for name in names)
    head = " " * first + "".join(f"{name:>{wide}}" for name in names) + "  (answered)"
    body = [
        f"{'true ' + name:<{first}}" + "".join(f"{text:>{wide}}" for text in row)
        for name, row in zip(names, cells, strict=True)
    ]
    return [head, *body]
