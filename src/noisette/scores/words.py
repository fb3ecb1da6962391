"""Scores in words: a table for the terminal, and whether a model beats the majority answer."""

from collections.abc import Sequence
from typing import Any

from noisette.scores.score import Score

__all__ = ["table_of", "versus_majority"]


def versus_majority(gain: Score, majority: Any, always: Any = None) -> str:
    """Return a sentence unless the accuracy is above that of the majority answer by `gain`.

    `always` is the answer that the model gives to everybody, as far as can be told.
    """
    if not gain.trusted:
        return "There are too few rows for this noise to tell whether the model beats the majority."
    if gain.low > 0.0:
        return ""
    if gain.value > 0.0:
        return f"It is not certain that the model beats the answer {majority!r} to everybody."
    if always is not None:
        return (
            f"The model answers {always!r} to everybody: it is no better than the majority; class "
            "weights or another threshold may help."
        )
    return f"The model is no better than the answer {majority!r} to everybody."


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
