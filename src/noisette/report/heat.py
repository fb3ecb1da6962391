"""A heat map of a pair of columns, as inline SVG: colours, dots for doubt, the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisette.report.svg import BLUE, ORANGE, WIDTH, opened, short, text

_LEFT, _TOP, _BOTTOM, _KEY = 92, 12, 44, 90
_TOLD = 6  # of the largest and smallest values, in words
_GREY = ("#5A5A5A", 0.3)  # of html.SERIES, as the others are
_LABEL = 62.0  # a label across takes so much


def score_words(unit: str) -> str:
    """Return what is added to: the score, or the prediction in some unit."""
    return f"prediction, {unit}," if unit.startswith("in ") else unit


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
    def most(self) -> float:
        """The largest value, either way, of cells that are known; 1 if there is none."""
        each = zip(self.values, self.known, strict=True)
        sizes = (abs(v) for row, known in each for v, k in zip(row, known, strict=True) if k)
        return max(sizes, default=0.0) or 1.0

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
            f"Added to the {score_words(self.unit).rstrip(',')} by {self.columns[0]} and "
            f"{self.columns[1]} together: "
            f"{told or 'nothing beyond two deviations of the noise'}."
        )


def pair_svg(effect: PairEffect) -> str:
    """Return the heat map; nothing if it has no cells. A dot marks what may be noise alone."""
    down, across = (len(each) for each in effect.labels)
    if not down or not across:
        return ""
    wide = (WIDTH - _LEFT - _KEY) / across
    tall = min(max(220.0 / down, 8.0), 26.0)
    parts = opened(_TOP + tall * down + _BOTTOM, effect.name, effect.words)
    parts.append('<g shape-rendering="crispEdges">')  # else the paper shines through between cells
    most, dots = effect.most, []
    for i, rows in enumerate(zip(effect.values, effect.spread, effect.known, strict=True)):
        # Numbers grow upwards, as on a map.
        top = _TOP + tall * (down - 1 - i)
        for j, (value, s, known) in enumerate(zip(*rows, strict=True)):
            left = _LEFT + wide * j
            parts.append(_cell(left, top, wide, tall, _colour(value / most) if known else _GREY))
            if known and abs(value) <= 2.0 * s:
                x, y = left + wide / 2.0, top + tall / 2.0
                dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.1" class="mark"/>')
    scale, words = _key(most, tall * down)
    return "".join([*parts, *scale, "</g>", *dots, *words, *_axes(effect, wide, tall), "</svg>"])


def _cell(x: float, y: float, wide: float, tall: float, colour: tuple[str, float]) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
        f'fill="{colour[0]}" fill-opacity="{colour[1]:.2f}"/>'
    )


def _axes(effect: PairEffect, wide: float, tall: float) -> list[str]:
    parts, (first, second) = [], effect.labels
    every = max(1, round(13.0 / tall + 0.49))
    for i, words in enumerate(first):
        if i % every == 0:
            y = _TOP + tall * (len(first) - 1 - i) + tall / 2.0 + 4
            parts.append(text(_LEFT - 8, y, short(words, 12), "end"))
    taken, foot = -1e9, _TOP + tall * len(first)
    for j, words in enumerate(second):
        x = _LEFT + wide * (j + 0.5)
        if x - taken >= _LABEL:
            parts.append(text(x, foot + 16, short(words, 8)))
            taken = x
    names = (short(name, 18) for name in effect.columns)
    parts.append(
        text(_LEFT + wide * len(second) / 2.0, foot + 36, "up: {}; across: {}".format(*names))
    )
    return parts


def _key(most: float, height: float) -> tuple[list[str], list[str]]:
    """Return the scale of colours, and its ends and the zero in words."""
    left, steps = WIDTH - _KEY + 12, 21
    each = height / steps
    scale = [
        _cell(left, _TOP + each * k, 10.0, each, _colour(1.0 - 2.0 * k / (steps - 1)))
        for k in range(steps)
    ]
    ends = ((0.0, f"{most:+.3g}"), (0.5, "0"), (1.0, f"{-most:+.3g}"))
    return scale, [text(left + 14, _TOP + 4 + at * height, words, "start") for at, words in ends]


def _colour(share: float) -> tuple[str, float]:
    """Return orange above zero and blue below, the fainter the nearer: told apart by all eyes."""
    return (ORANGE if share > 0.0 else BLUE), min(abs(share), 1.0)
