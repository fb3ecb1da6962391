"""A heat map of a pair of columns, as inline SVG: colours, dots for doubt, the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisette.report.svg import BLUE, ORANGE, WIDTH, opened, rect, short, text

_LEFT, _TOP, _BOTTOM, _KEY = 92, 12, 44, 90
_TOLD = 6  # of the largest and smallest values, in words
_GREY = "#5A5A5A"  # of html.SERIES, as the others are
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
    def words(self) -> str:
        """The same in words: the cells that add most and least beyond their noise."""
        values = np.array(self.values)
        sure = np.array(self.known, bool) & (abs(values) > 2.0 * np.array(self.spread))
        first, second = self.labels
        cells = sorted((values[i, j], first[i], second[j]) for i, j in np.argwhere(sure))
        shown = cells[::-1][:_TOLD] + cells[: max(min(_TOLD, len(cells) - _TOLD), 0)]
        told = ", ".join(f"{value:+.2g} at {a}, {b}" for value, a, b in shown)
        return (
            f"Added to the {score_words(self.unit).rstrip(',')} by {self.columns[0]} and "
            f"{self.columns[1]} together: "
            f"{told or 'nothing beyond two deviations of the noise'}."
        )


def pair_svg(effect: PairEffect) -> str:
    """Return the heat map; nothing if it has no cells. A dot marks what may be noise alone."""
    (first, second), known = effect.labels, np.array(effect.known, bool)
    down, across = len(first), len(second)
    if not down or not across:
        return ""
    most = float(abs(np.array(effect.values))[known].max(initial=0.0)) or 1.0
    wide, tall = (WIDTH - _LEFT - _KEY) / across, min(max(220.0 / down, 8.0), 26.0)
    foot, left = _TOP + tall * down, WIDTH - _KEY + 12
    parts = opened(foot + _BOTTOM, effect.name, effect.words)
    parts.append('<g shape-rendering="crispEdges">')  # else the paper shines through between cells
    dots, taken = [], -1e9
    for (i, j), enough in np.ndenumerate(known):
        # Numbers grow upwards, as on a map.
        x, y, value = _LEFT + wide * j, _TOP + tall * (down - 1 - i), effect.values[i][j]
        parts.append(_cell(x, y, wide, tall, value / most if enough else None))
        if enough and abs(value) <= 2.0 * effect.spread[i][j]:
            x, y = x + wide / 2.0, y + tall / 2.0
            dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.1" class="mark"/>')
    for k, share in enumerate(np.linspace(1.0, -1.0, 21)):  # the scale of colours
        parts.append(_cell(left, _TOP + tall * down / 21 * k, 10.0, tall * down / 21, share))
    parts += ["</g>", *dots]
    for at, words in ((0.0, f"{most:+.3g}"), (0.5, "0"), (1.0, f"{-most:+.3g}")):
        parts.append(text(left + 14, _TOP + 4 + at * tall * down, words, "start"))
    for i in range(0, down, max(1, round(13.0 / tall + 0.49))):
        y = _TOP + tall * (down - 1 - i) + tall / 2.0 + 4
        parts.append(text(_LEFT - 8, y, short(first[i], 12), "end"))
    for j, words in enumerate(second):
        x = _LEFT + wide * (j + 0.5)
        if x - taken >= _LABEL:
            parts.append(text(x, foot + 16, short(words, 8)))
            taken = x
    names = "up: {}; across: {}".format(*(short(name, 18) for name in effect.columns))
    return "".join([*parts, text(_LEFT + wide * across / 2.0, foot + 36, names), "</svg>"])


def _cell(x: float, y: float, wide: float, tall: float, share: float | None) -> str:
    """Return a cell: orange above zero and blue below, fainter the nearer, grey if not known.

    These colours are told apart by all eyes.
    """
    if share is None:
        return rect(x, y, wide, tall, _GREY, "0.30")
    return rect(x, y, wide, tall, ORANGE if share > 0 else BLUE, f"{min(abs(share), 1.0):.2f}")
