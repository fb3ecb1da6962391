"""One picture for each column of a model: a curve with its band, or bars, as inline SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from noisette.report import html
from noisette.report.heat import PairEffect, pair_svg, score_words
from noisette.report.svg import WIDTH, line, opened, path, placed, rect, round_step, short, text

_HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 28, 14, 40
_COLOURS = tuple(html.SERIES)
_LINES, _BARS = 5, 30  # outputs and levels in one picture
_ROW = 22
_SLIVER = 0.01  # of the axis: places in it could not be told apart
UNDRAWN = "undrawn"
"""The note of pictures that failed: a page never fails because of them."""


@dataclass(frozen=True)
class Effect:
    """What one column adds to the score; all of it is released.

    `places` are positions on an axis, empty for levels; `lines` has one list of values for each
    output (score), named by `outputs`; `spread` is the deviation of the noise; `missing` is what a
    missing cell adds to each output, with its own noise; `note` says why there is no curve.
    """

    column: str
    labels: Sequence[str]
    lines: Sequence[Sequence[float]]
    places: Sequence[float] = ()
    spread: Sequence[float] | None = None
    missing: Sequence[float] | None = None
    missing_spread: float | None = None
    outputs: Sequence[str] = ()
    unit: str = "score"
    note: str = ""

    @property
    def crowded(self) -> bool:
        """Whether half of the places share a sliver of the axis, as after knots far out."""
        gaps = np.sort(np.diff(self.places))
        return len(gaps) > 1 and bool(gaps[: len(gaps) // 2].sum() < _SLIVER * gaps.sum())

    @property
    def missing_words(self) -> str:
        """What a missing cell adds."""
        noise = "" if self.missing_spread is None else f" (± {2.0 * self.missing_spread:.2g})"
        return "a missing cell adds " + ", ".join(map("{:+.2g}".format, self.missing or ())) + noise

    @property
    def words(self) -> str:
        """The same in words: for whoever does not see the picture."""
        parts = []
        for number, values in enumerate(self.lines):
            said = ", ".join(map("{:+.2g} at {}".format, values, self.labels))
            parts.append(f"{self.outputs[number]}: {said}" if len(self.lines) > 1 else said)
        if self.missing is not None:
            parts.append(self.missing_words)
        told = f"Added to the {score_words(self.unit).rstrip(',')}: {'; '.join(parts)}."
        if self.spread is None or not len(self.spread):
            return told
        return f"{told} The noise has deviations up to {max(self.spread):.2g}."


def effect_svg(effect: Effect) -> str:
    """Return the picture of one column; nothing if it has no points."""
    if not effect.labels or not effect.lines:
        return ""
    values = np.array(effect.lines[:_LINES])
    # A band that is wider than all values is cut at its edge.
    band = 2.0 * np.minimum(effect.spread or 0.0, np.ptp(values))
    low, high = min(0.0, (values - band).min()), max(0.0, (values + band).max())
    if high - low <= 1e-12:
        low, high = low - 1.0, high + 1.0
    step = round_step((high - low) / 5.0)
    ticks = step * np.arange(math.ceil(low / step), math.floor(high / step) + 1)
    names = effect.outputs[:_LINES] if len(values) > 1 else ()
    draw = _curve if len(effect.places) else _levels
    # Above the picture stand the names of its colours.
    parts = draw(effect, (low, high), ticks, 6 + 15 * len(values) if len(values) > 1 else 0)
    for k, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        extra = f' fill="{colour}" class="name"'
        parts.append(text(_LEFT, 14 + 15 * k, short(name, 40), "start", extra))
    return "".join([*parts, "</svg>"])


def drawn(
    effects: Sequence[Effect], note: str, pairs: Sequence[PairEffect] = (),
    weights: Sequence[tuple[str, str, str, str]] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return what a page shows of the columns: a picture each, heat maps of pairs, the numbers."""
    shown = []
    for effect in effects:
        words = ["Drawn at equal distances, since some places lie far out."] * effect.crowded
        words += [] if effect.missing is None else [f"Here {effect.missing_words}."]
        if picture := effect_svg(effect):
            shown.append((picture, " ".join(words), effect.column))
    return {
        "drawn": shown, "notes": list(filter(None, map(attrgetter("note"), effects))),
        "pairs": [(picture, pair.name) for pair in pairs if (picture := pair_svg(pair))],
        "weights": weights, "undrawn": note == UNDRAWN, "note": note,
        "score": score_words(effects[0].unit) if effects else "",
    }  # fmt: skip


def effects_page(
    title: str, effects: Sequence[Effect], note: str, pairs: Sequence[PairEffect] = ()
) -> str:
    """Return a page of its own about the columns."""
    return html.render("curves.html", title=title, effects=drawn(effects, note, pairs))


def _curve(effect: Effect, ends: tuple[float, float], ticks: Any, head: int) -> list[str]:
    end, foot = WIDTH - _RIGHT, head + _HEIGHT - _BOTTOM
    places = np.arange(len(effect.places)) if effect.crowded else np.array(effect.places)
    xs, tall = placed(places, places[[0, -1]], (_LEFT, end)), (foot, head + _TOP)
    parts = opened(head + _HEIGHT, effect.column, effect.words)
    for tick, y in zip(ticks, placed(ticks, ends, tall), strict=True):
        parts += [line(_LEFT, y, end, y, "grid" if tick else "axis"),
                  text(_LEFT - 8, y + 4, f"{tick:.3g}", "end")]  # fmt: skip
    for values, colour in zip(np.array(effect.lines), _COLOURS, strict=False):
        if effect.spread is not None:
            band = 2.0 * np.array(effect.spread)
            around = np.concatenate([values + band, (values - band)[::-1]])
            parts.append(path([*xs, *xs[::-1]], placed(around, ends, tall), colour, band=True))
        parts.append(path(xs, placed(values, ends, tall), colour))
    taken = -math.inf
    for x, words in zip(xs, effect.labels, strict=True):
        parts.append(line(x, foot, x, foot + 5, "axis"))
        if x - taken > 60.0:  # a label of eight signs; knots may lie close together
            parts.append(text(x, foot + 20, short(words, 12)))
            taken = x
    return parts


def _levels(effect: Effect, ends: tuple[float, float], ticks: Any, head: int) -> list[str]:
    names, outputs = effect.labels[:_BARS], effect.lines[:_LINES]
    left, foot, thick = 150, head + 4 + _ROW * len(names), (_ROW - 6) / len(outputs)
    span = left, WIDTH - _RIGHT
    parts = opened(foot + 22, effect.column, effect.words)
    for tick, x in zip(ticks, placed(ticks, ends, span), strict=True):
        parts += [line(x, head + 4, x, foot, "grid" if tick else "axis"),
                  text(x, foot + 16, f"{tick:.3g}")]  # fmt: skip
    for k, name in enumerate(names):
        y = head + 6 + k * _ROW
        parts.append(text(left - 8, y + 12, short(name, 20), "end"))
        for j, (values, colour) in enumerate(zip(outputs, _COLOURS, strict=False)):
            a, b = sorted(placed([0.0, values[k]], ends, span))
            top = y + j * thick
            parts.append(rect(a, top, b - a, thick, colour, ".75"))
            if effect.spread is not None:
                s, middle = 2.0 * effect.spread[k], top + thick / 2.0
                a, b = placed([values[k] - s, values[k] + s], ends, span)
                parts.append(line(a, middle, b, middle, "axis"))
    return parts
