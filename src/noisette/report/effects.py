"""One picture for each column of a model: a curve with its band, or bars, as inline SVG."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noisette.report import html, svg
from noisette.report.heat import PairEffect, pair_svg, score_words
from noisette.report.html import SERIES
from noisette.report.svg import opened, text

_WIDTH, _HEIGHT = svg.WIDTH, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 28, 14, 40
_COLOURS = tuple(SERIES)
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
    def score(self) -> str:
        """What is added to: the score, or the prediction in some unit."""
        return score_words(self.unit)

    @property
    def crowded(self) -> bool:
        """Whether half of the places share a sliver of the axis, as after knots far out."""
        gaps = sorted(b - a for a, b in itertools.pairwise(self.places))
        return len(gaps) > 1 and sum(gaps[: len(gaps) // 2]) < _SLIVER * sum(gaps)

    @property
    def missing_words(self) -> str:
        """What a missing cell adds."""
        noise = "" if self.missing_spread is None else f" (± {2.0 * self.missing_spread:.2g})"
        return "a missing cell adds " + ", ".join(f"{v:+.2g}" for v in self.missing or ()) + noise

    @property
    def words(self) -> str:
        """The same in words: for whoever does not see the picture."""
        named = self.outputs if len(self.lines) > 1 else [""] * len(self.lines)
        parts = []
        for name, line in zip(named, self.lines, strict=True):
            points = zip(self.labels, line, strict=True)
            said = ", ".join(f"{value:+.2g} at {at}" for at, value in points)
            parts.append(f"{name}: {said}" if name else said)
        if self.missing is not None:
            parts.append(self.missing_words)
        text = "; ".join(parts)
        noise = ""
        if self.spread is not None and len(self.spread):
            noise = f" The noise has deviations up to {max(self.spread):.2g}."
        return f"Added to the {self.score.rstrip(',')}: {text}.{noise}"


def effect_svg(effect: Effect) -> str:
    """Return the picture of one column; nothing if it has no points."""
    if not effect.labels or not effect.lines:
        return ""
    return _curve(effect) if len(effect.places) else _levels(effect)


def drawn(
    effects: Sequence[Effect], note: str, pairs: Sequence[PairEffect] = (),
    weights: Sequence[tuple[str, str, str, str]] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return what a page shows of the columns: a picture each, heat maps of pairs, the numbers."""
    pictures = []
    for effect in effects:
        words = ["Drawn at equal distances, since some places lie far out."] * effect.crowded
        words += [] if effect.missing is None else [f"Here {effect.missing_words}."]
        pictures.append((effect_svg(effect), " ".join(words), effect.column))
    return {
        "undrawn": note == UNDRAWN, "note": note, "weights": weights,
        "score": effects[0].score if effects else "",
        "notes": [effect.note for effect in effects if effect.note],
        "drawn": [each for each in pictures if each[0]],
        "pairs": [(found, each.name) for each in pairs if (found := pair_svg(each))],
    }  # fmt: skip


def effects_page(
    title: str, effects: Sequence[Effect], note: str, pairs: Sequence[PairEffect] = ()
) -> str:
    """Return a page of its own about the columns."""
    return html.page("curves.html", title, effects=drawn(effects, note, pairs))


def _limits(effect: Effect) -> tuple[float, float]:
    """Return the range of a picture; a band that is wider than all values is cut at its edge."""
    values = [v for line in effect.lines[:_LINES] for v in line]
    most = max(values) - min(values)
    spread = [min(s, most) for s in effect.spread or [0.0] * len(effect.labels)]
    ends = [0.0]
    for line in effect.lines[:_LINES]:
        ends += [v - 2.0 * s for v, s in zip(line, spread, strict=True)]
        ends += [v + 2.0 * s for v, s in zip(line, spread, strict=True)]
    low, high = min(ends), max(ends)
    return (low, high) if high - low > 1e-12 else (low - 1.0, high + 1.0)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two others, about five."""
    raw = (high - low) / 5.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1.0, 2.0, 5.0, 10.0) if unit * k >= raw)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _curve(effect: Effect) -> str:
    low, high = _limits(effect)
    head = _head(effect)
    places = range(len(effect.places)) if effect.crowded else effect.places
    first, last = places[0], places[-1]

    def across(x: float) -> float:
        return _LEFT + (x - first) / max(last - first, 1e-300) * (_WIDTH - _LEFT - _RIGHT)

    def up(v: float) -> float:
        v = min(max(v, low), high)
        return head + _HEIGHT - _BOTTOM - (v - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = opened(head + _HEIGHT, effect.column, effect.words)
    for tick in _ticks(low, high):
        parts.append(
            svg.line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "axis" if not tick else "grid")
        )
        parts.append(text(_LEFT - 8, up(tick) + 4, f"{tick:.3g}", "end"))
    for line, colour in zip(effect.lines, _COLOURS, strict=False):
        if effect.spread is not None:
            upper = [
                (across(x), up(v + 2.0 * s))
                for x, v, s in zip(places, line, effect.spread, strict=True)
            ]
            lower = [
                (across(x), up(v - 2.0 * s))
                for x, v, s in zip(places, line, effect.spread, strict=True)
            ]
            shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower[::-1]])
            parts.append(f'<polygon points="{shape}" fill="{colour}" fill-opacity=".18"/>')
        path = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in zip(places, line, strict=True))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
    foot, taken = head + _HEIGHT - _BOTTOM + 20, -math.inf
    for x, words in zip(places, effect.labels, strict=True):
        parts.append(svg.line(across(x), foot - 20, across(x), foot - 15, "axis"))
        if across(x) - taken > 60.0:  # a label of eight signs; knots may lie close together
            parts.append(text(across(x), foot, svg.short(words, 12)))
            taken = across(x)
    return "".join([*parts, *_legend(effect), "</svg>"])


def _head(effect: Effect) -> int:
    """Return the height above a picture that the names of its colours need."""
    return 6 + 15 * min(len(effect.lines), _LINES) if len(effect.lines) > 1 else 0


def _legend(effect: Effect) -> list[str]:
    if len(effect.lines) < 2:
        return []
    words = zip(effect.outputs, _COLOURS, strict=False)
    return [
        text(_LEFT, 14 + 15 * k, svg.short(name, 40), "start",
             f' fill="{colour}" class="name"')
        for k, (name, colour) in enumerate(words)
    ]  # fmt: skip


def _levels(effect: Effect) -> str:
    low, high = _limits(effect)
    names, outputs = effect.labels[:_BARS], effect.lines[:_LINES]
    head = _head(effect)
    left, height = 150, head + 26 + _ROW * len(names)

    def across(v: float) -> float:
        v = min(max(v, low), high)
        return left + (v - low) / (high - low) * (_WIDTH - left - _RIGHT)

    parts = opened(height, effect.column, effect.words)
    for tick in _ticks(low, high):
        parts.append(
            svg.line(
                across(tick), head + 4, across(tick), height - 22, "axis" if not tick else "grid"
            )
        )
        parts.append(text(across(tick), height - 6, f"{tick:.3g}"))
    thick = (_ROW - 6) / len(outputs)
    for k, name in enumerate(names):
        y = head + 6 + k * _ROW
        parts.append(text(left - 8, y + 12, svg.short(name, 20), "end"))
        for j, (line, colour) in enumerate(zip(outputs, _COLOURS, strict=False)):
            a, b = sorted((across(0.0), across(line[k])))
            top = y + j * thick
            parts.append(
                f'<rect x="{a:.1f}" y="{top:.1f}" width="{b - a:.1f}" height="{thick:.1f}" '
                f'fill="{colour}" fill-opacity=".75"/>'
            )
            if effect.spread is not None:
                s = 2.0 * effect.spread[k]
                middle = top + thick / 2.0
                ends = across(line[k] - s), across(line[k] + s)
                parts.append(svg.line(ends[0], middle, ends[1], middle, "axis"))
    return "".join([*parts, *_legend(effect), "</svg>"])
