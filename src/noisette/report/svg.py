"""Small figures drawn as inline SVG: a curve, bars, intervals. No library, no script."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from noisette._validate import visible
from noisette.report.html import escape

__all__ = [
    "BLUE", "ORANGE", "WIDTH", "bars", "curve", "intervals", "line", "opened", "path", "placed",
    "rect", "round_step", "shares", "short", "shown", "text",
]  # fmt: skip

WIDTH = 460
"""Of every drawing, in pixels: half a page, or a telephone, so that letters keep their size."""
_HEIGHT = 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 36, 54
BLUE, ORANGE = "#0072B2", "#B34700"  # of html.SERIES


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Return a text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """Return a line of a class."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{name}"/>'


def rect(x: float, y: float, wide: float, tall: float, colour: str, opacity: str) -> str:
    """Return a filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
        f'fill="{colour}" fill-opacity="{opacity}"/>'
    )


def path(x: Iterable[float], y: Iterable[float], colour: str, *, band: bool = False) -> str:
    """Return a line through points, or the faint area that they surround."""
    points = " ".join(map("{:.1f},{:.1f}".format, x, y))
    drawn = f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    return f'<polygon points="{points}" fill="{colour}" fill-opacity=".18"/>' if band else drawn


def short(name: str, most: int) -> str:
    """Return a name that fits into a drawing; the words beside it have the whole of it."""
    name = visible(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def round_step(raw: float) -> float:
    """Return the next round number, for steps between ticks."""
    steps = 10.0 ** math.floor(math.log10(raw)) * np.array([1.0, 2.0, 5.0, 10.0])
    return float(steps[np.searchsorted(steps, raw)])


def _ticks(top: float) -> Any:
    """Return round steps from 0 to above `top`."""
    step = round_step(top / 4.0)
    return step * np.arange(math.ceil(top / step - 1e-9) + 1)


def placed(values: Any, ends: Any, span: Sequence[float]) -> Any:
    """Return where values lie on an axis whose `ends` are drawn at `span`; those beyond at them."""
    part = (np.clip(values, ends[0], ends[1]) - ends[0]) / max(ends[1] - ends[0], 1e-300)
    return span[0] + part * (span[1] - span[0])


def opened(height: float, title: str, description: str) -> list[str]:
    """Return the start of a drawing, with what it shows in words."""
    return [
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
    ]


def _mark(x: float, y: float, refutes: bool) -> str:
    """Return a blue disc, or an orange cross: no reader needs the colour."""
    if not refutes:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{BLUE}"/>'
    return (
        f'<path d="M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12" fill="none" stroke="{ORANGE}" '
        'stroke-width="3.5"/>'
    )


def curve(
    points: Sequence[tuple[float, float]],
    promise: tuple[float, float],
    marks: Sequence[tuple[float, float, bool]] = (),
) -> str:
    """Return epsilon against delta on a logarithmic axis; `promise` is (delta, epsilon).

    `marks` are lower bounds (delta, epsilon, whether it refutes the promise) on the same axes.
    """
    if len(points) < 2:
        return ""
    deltas, epsilons = np.array(points).T
    low, high = np.log10(deltas[[0, -1]])
    at, least, refutes = np.array(marks).reshape(-1, 3).T
    inside = (deltas[0] <= at) & (at <= deltas[-1])
    ticks = _ticks(max(1e-3, promise[1], *epsilons, *least[inside]))
    foot, end = _HEIGHT - _BOTTOM, WIDTH - _RIGHT
    across = partial(placed, ends=(low, high), span=(_LEFT, end))
    up = partial(placed, ends=(0.0, ticks[-1]), span=(foot, _TOP))
    words = ", ".join(map("{:.3g} at delta {:.0e}".format, epsilons, deltas))
    parts = opened(_HEIGHT, "Epsilon against delta", f"Epsilon is {words}.")
    for tick, y in zip(ticks, up(ticks), strict=True):
        parts += [line(_LEFT, y, end, y, "grid"), text(_LEFT - 8, y + 4, f"{tick:g}", "end")]
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, 2):
        x = across(power)
        parts += [
            line(x, foot, x, foot + 5, "axis"),
            f'<text x="{x:.1f}" y="{foot + 25}" text-anchor="middle">10'
            f'<tspan dy="-5" font-size=".75em">{power:+d}</tspan></text>'.replace("+0", "0"),
        ]
    parts += [
        line(_LEFT, foot, end, foot, "axis"),
        path(across(np.log10(deltas)), up(epsilons), BLUE),
    ]
    name, x, y, anchor = "the promise, with delta = 0", end - 4, up(promise[1]), "end"
    if promise[0] > 0.0:
        x = across(math.log10(promise[0]))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{ORANGE}"/>')
        left = x + 10 > WIDTH - 120
        name, x, anchor = "the promise", x - 10 if left else x + 10, "end" if left else "start"
    else:
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{end}" '
            f'y2="{y:.1f}" stroke="{ORANGE}" stroke-width="2" stroke-dasharray="7 5"/>'
        )
    parts.append(text(x, y - 8, name, anchor, f' fill="{ORANGE}" class="name"'))
    parts += map(_mark, across(np.log10(at[inside])), up(least[inside]), refutes[inside])
    parts.append(text((_LEFT + end) / 2, _HEIGHT - 8, "δ", "middle", ' class="name"'))
    return "".join([*parts, text(_LEFT - 8, 16, "ε", "end", ' class="name"'), "</svg>"])


def bars(entries: Sequence[tuple[str, float, bool]]) -> str:
    """Return bars on a logarithmic scale: (label, value, whether it is the noise)."""
    labels, values, _ = zip(*entries, strict=True)
    least = min(1.0, *values) / 1.6
    words = ", ".join(map("{} {:.3g}".format, labels, values))
    parts = opened(
        12 + 58 * len(entries), "Noise against signal", f"On a logarithmic scale: {words}."
    )
    for k, (label, value, noisy) in enumerate(entries):
        y, colour = 6 + 58 * k, ORANGE if noisy else BLUE
        length = math.log(value / least) / math.log(max(max(values) / least, 1.1))
        length = max(4.0, length * (WIDTH - 80))
        parts += [
            text(0, y + 16, label, "start", ' class="name"'),
            f'<rect x="0" y="{y + 25}" width="{length:.1f}" height="16" rx="2" fill="{colour}"/>',
            text(length + 8, y + 39, shown(value), "start"),
        ]
    return "".join([*parts, "</svg>"])


def shares(title: str, entries: Sequence[tuple[str, float]]) -> str:
    """Return a bar for each (label, part of the whole), each in a frame that is the whole."""
    if not entries:
        return ""
    wide, said, parts = WIDTH - 70, [], list[str]()
    for k, (label, part) in enumerate(entries):
        y, length = 44 * k, min(max(part, 0.0), 1.0) * wide
        percent = f"{100.0 * part:.3g} %" if part < 0.9995 else "100 %"
        said.append(f"{label} {percent}")
        parts += [
            text(0, y + 14, short(label, 56), "start"),
            f'<rect x="0.5" y="{y + 21}.5" width="{wide}" height="13" class="frame"/>'
            f'<rect x="0.5" y="{y + 21}.5" width="{length:.1f}" height="13" fill="{BLUE}"/>',
            text(WIDTH, y + 33, percent, "end", ' class="name"'),
        ]
    head = opened(44 * len(entries) + 4, title, ", ".join(said) + ".")
    return "".join([*head, *parts, "</svg>"])


def intervals(entries: Sequence[tuple[str, float, float, bool]]) -> str:
    """Return an arrow for each (label, claim, at least, whether that refutes), a bar at the claim.

    The arrow is the one-sided interval from the lower bound on, which has no right end.
    """
    labels, claims, bounds, _ = zip(*entries, strict=True)
    foot = 6 + 52 * len(entries)
    ticks = _ticks(1.1 * max(1e-9, *claims, *bounds))
    across = partial(placed, ends=(0.0, ticks[-1]), span=(8, WIDTH - 20))
    told = map("{}: at least {:.3g}, claimed {:.3g}".format, labels, bounds, claims)
    parts = opened(foot + 50, "Lower bounds on epsilon against the claim", f"{'; '.join(told)}.")
    for tick, x in zip(ticks, across(ticks), strict=True):
        parts += [line(x, 6, x, foot, "grid"), text(x, foot + 20, f"{tick:g}")]
    for k, (label, claim, least, refutes) in enumerate(entries):
        y, x, end = 40 + 52 * k, across(least), across(ticks[-1])
        parts += [
            text(8, y - 18, short(label, 64), "start", ' class="name"'),
            f'<path d="M{x:.1f} {y}H{end:.1f}m-7 -5l7 5l-7 5" fill="none" '
            f'stroke="{ORANGE if refutes else BLUE}" stroke-width="1.6"/>',
            f'<rect x="{across(claim) - 1.5:.1f}" y="{y - 11}" width="3" height="22" '
            'class="mark"/>',
            _mark(x, y, refutes),
        ]
    parts.append(line(8, foot, WIDTH - 20, foot, "axis"))
    return "".join([*parts, text(WIDTH / 2, foot + 42, "ε at the claimed δ"), "</svg>"])


def shown(value: float) -> str:
    """Return a number for people: thousands with commas, small ones with two digits."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"
