"""A heat map of a pair of columns, as inline SVG: colours, dots for doubt, the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisette.report.svg import opened, text

__all__ = ["PairEffect", "pair_svg"]

_WIDTH, _LEFT, _TOP, _BOTTOM, _KEY = 640, 120, 12, 44, 98
_TOLD = 6  # of the largest and smallest values, in words
_GREY = "#dcdad4"
_LABEL = 66.0  # a label across takes so much


@dataclass(frozen=True)
class PairEffect:
    """What two columns add together; all of it is released.

    `values` has a row for each label of the first column; `spread` is the deviation of the noise.
    `known` says where enough rows are. Of several outputs the one named in `output` is shown.
    """

    columns: tuple[str, str]
    labels: tuple[Sequence[str], Sequence[str]]
    values: Sequence[Sequence[float]]
    spread: Sequence[Sequence[float]]
    known: Sequence[Sequence[bool]]
    unit: str = "score"
    output: str = ""

    @property
    def name(self) -> str:
        """Both names, and the output."""
        both = " × ".join(self.columns)
        return f"{both} ({self.output})" if self.output else both

    @property
    def words(self) -> str:
        """The same in words: the cells that add most and least beyond their noise."""
        cells = [
            (value, first, second)
            for first, *rows in zip(
                self.labels[0], self.values, self.spread, self.known, strict=True
            )
            for second, value, s, known in zip(self.labels[1], *rows, strict=True)
            if known and abs(value) > 2.0 * s
        ]
        cells.sort()
        shown = cells[::-1][:_TOLD] + cells[: max(min(_TOLD, len(cells) - _TOLD), 0)]
        told = ", ".join(f"{value:+.2g} at {a}, {b}" for value, a, b in shown)
        return (
            f"Added to the {self.unit} by {self.columns[0]} and {self.columns[1]} together: "
            f"{told or 'nothing beyond two deviations of the noise'}."
        )


def pair_svg(effect: PairEffect) -> str:
    """Return the heat map; nothing if it has no cells. A dot marks what may be noise alone."""
    down, across = (len(each) for each in effect.labels)
    if not down or not across:
        return ""
    wide = (_WIDTH - _LEFT - _KEY) / across
    tall = min(max(260.0 / down, 10.0), 28.0)
    height = _TOP + tall * down + _BOTTOM
    each = list(zip(effect.values, effect.spread, effect.known, strict=True))
    most = (
        max(
            (abs(v) for row, _, known in each for v, k in zip(row, known, strict=True) if k),
            default=0.0,
        )
        or 1.0
    )
    parts = opened(height, effect.name, effect.words)
    for i, rows in enumerate(each):
        # Numbers grow upwards, as on a map.
        top = _TOP + tall * (down - 1 - i)
        for j, (value, s, known) in enumerate(zip(*rows, strict=True)):
            left = _LEFT + wide * j
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide + 0.3:.1f}" '
                f'height="{tall + 0.3:.1f}" fill="{_colour(value / most) if known else _GREY}"/>'
            )
            if known and abs(value) <= 2.0 * s:
                x, y = left + wide / 2.0, top + tall / 2.0
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.2" fill="#6b675f"/>')
    parts += _axes(effect, wide, tall)
    return "".join([*parts, *_key(most, tall * down), "</svg>"])


def _axes(effect: PairEffect, wide: float, tall: float) -> list[str]:
    parts, (first, second) = [], effect.labels
    every = max(1, round(12.0 / tall + 0.49))
    for i, words in enumerate(first):
        if i % every == 0:
            short = words if len(words) <= 15 else words[:14] + "…"
            y = _TOP + tall * (len(first) - 1 - i) + tall / 2.0 + 4
            parts.append(text(_LEFT - 8, y, short, "end"))
    taken, foot = -1e9, _TOP + tall * len(first)
    for j, words in enumerate(second):
        x = _LEFT + wide * (j + 0.5)
        if x - taken >= _LABEL:
            short = words if len(words) <= 8 else words[:7] + "…"
            parts.append(text(x, foot + 16, short))
            taken = x
    middle = _LEFT + wide * len(second) / 2.0
    parts.append(text(middle, foot + 36, f"{effect.columns[1]}; up: {effect.columns[0]}"))
    return parts


def _key(most: float, height: float) -> list[str]:
    """Return the scale of colours with its ends and the zero."""
    parts, left, steps = [], _WIDTH - _KEY + 14, 21
    each = height / steps
    for k in range(steps):
        share = 1.0 - 2.0 * k / (steps - 1)
        parts.append(
            f'<rect x="{left}" y="{_TOP + each * k:.1f}" width="10" height="{each + 0.3:.1f}" '
            f'fill="{_colour(share)}"/>'
        )
    for share, words in ((0.0, f"{most:+.2g}"), (0.5, "0"), (1.0, f"{-most:+.2g}")):
        parts.append(text(left + 14, _TOP + 4 + share * height, words, "start"))
    return parts


def _colour(share: float) -> str:
    """Return blue below zero, near white at zero, orange above: told apart by all eyes."""
    share = min(max(share, -1.0), 1.0)
    end = (179, 71, 0) if share > 0.0 else (0, 114, 178)
    mixed = (round(247 + (c - 247) * abs(share)) for c in end)
    return "#" + "".join(f"{each:02x}" for each in mixed)
