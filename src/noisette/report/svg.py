"""Small figures drawn as inline SVG: a curve, bars, intervals. No library, no script."""

import math
from collections.abc import Sequence

from noisette._validate import visible
from noisette.report.html import escape

__all__ = [
    "BLUE", "ORANGE", "WIDTH", "bars", "curve", "intervals", "line", "opened", "shares", "short",
    "shown", "text",
]  # fmt: skip

WIDTH = 460
"""Of every drawing, in pixels: half a page, or a telephone, so that letters keep their size."""
_WIDTH, _HEIGHT = WIDTH, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 36, 54
BLUE, ORANGE = "#0072B2", "#B34700"  # of html.SERIES


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Return a text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """Return a line of a class."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{name}"/>'


def short(name: str, most: int) -> str:
    """Return a name that fits into a drawing; the words beside it have the whole of it."""
    name = visible(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _ticks(top: float) -> list[float]:
    """Return round steps from 0 to above `top`."""
    raw = top / 4.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1.0, 2.0, 5.0, 10.0) if unit * k >= raw)
    return [step * k for k in range(math.ceil(top / step - 1e-9) + 1)]


def opened(height: float, title: str, description: str) -> list[str]:
    """Return the start of a drawing, with what it shows in words."""
    return [
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">',
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
    ]


def _mark(x: float, y: float, refutes: bool) -> str:
    """Return a blue disc, or an orange cross: no reader needs the colour."""
    if not refutes:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{BLUE}"/>'
    cross = f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"
    return f'<path d="{cross}" fill="none" stroke="{ORANGE}" stroke-width="3.5"/>'


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
    marks = [mark for mark in marks if points[0][0] <= mark[0] <= points[-1][0]]
    low, high = math.log10(points[0][0]), math.log10(points[-1][0])
    heights = [epsilon for _, epsilon in points] + [epsilon for _, epsilon, _ in marks]
    ticks = _ticks(max(1e-3, promise[1], *heights))

    def across(delta: float) -> float:
        return _LEFT + (math.log10(delta) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def up(epsilon: float) -> float:
        return _HEIGHT - _BOTTOM - epsilon / ticks[-1] * (_HEIGHT - _TOP - _BOTTOM)

    words = ", ".join(f"{epsilon:.3g} at delta {delta:.0e}" for delta, epsilon in points)
    parts = opened(_HEIGHT, "Epsilon against delta", f"Epsilon is {words}.")
    for tick in ticks:
        parts.append(line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "grid"))
        parts.append(text(_LEFT - 8, up(tick) + 4, f"{tick:g}", "end"))
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, 2):
        x = across(10.0**power)
        parts.append(line(x, _HEIGHT - _BOTTOM, x, _HEIGHT - _BOTTOM + 5, "axis"))
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 25}" text-anchor="middle">10'
            f'<tspan dy="-5" font-size=".75em">{power:+d}</tspan></text>'.replace("+0", "0")
        )
    parts.append(line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    path = " ".join(f"{across(d):.1f},{up(e):.1f}" for d, e in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>')
    delta, epsilon = promise
    if delta > 0.0:
        parts.append(
            f'<circle cx="{across(delta):.1f}" cy="{up(epsilon):.1f}" r="5.5" fill="{ORANGE}"/>'
        )
        name, x, anchor = "the promise", across(delta) + 10, "start"
        if x > _WIDTH - 120:
            x, anchor = across(delta) - 10, "end"
    else:
        parts.append(
            f'<line x1="{_LEFT}" y1="{up(epsilon):.1f}" x2="{_WIDTH - _RIGHT}" '
            f'y2="{up(epsilon):.1f}" stroke="{ORANGE}" stroke-width="2" stroke-dasharray="7 5"/>'
        )
        name, x, anchor = "the promise, with delta = 0", _WIDTH - _RIGHT - 4, "end"
    parts.append(text(x, up(epsilon) - 8, name, anchor, f' fill="{ORANGE}" class="name"'))
    parts += [_mark(across(at), up(least), refutes) for at, least, refutes in marks]
    parts.append(text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "δ", "middle", ' class="name"'))
    parts.append(text(_LEFT - 8, 16, "ε", "end", ' class="name"'))
    return "".join([*parts, "</svg>"])


def bars(entries: Sequence[tuple[str, float, bool]]) -> str:
    """Return bars on a logarithmic scale: (label, value, whether it is the noise)."""
    row, top = 58, 6
    height = top + row * len(entries) + 6
    least = min(1.0, *(value for _, value, _ in entries)) / 1.6
    largest = max(value for _, value, _ in entries)
    words = ", ".join(f"{label} {value:.3g}" for label, value, _ in entries)
    parts = opened(height, "Noise against signal", f"On a logarithmic scale: {words}.")
    for k, (label, value, noisy) in enumerate(entries):
        y = top + k * row
        length = math.log(value / least) / math.log(max(largest / least, 1.1))
        length = max(4.0, length * (_WIDTH - 80))
        colour = ORANGE if noisy else BLUE
        parts.append(text(0, y + 16, label, "start", ' class="name"'))
        parts.append(
            f'<rect x="0" y="{y + 25}" width="{length:.1f}" height="16" rx="2" fill="{colour}"/>'
        )
        parts.append(text(length + 8, y + 39, shown(value), "start"))
    return "".join([*parts, "</svg>"])


def shares(title: str, entries: Sequence[tuple[str, float]]) -> str:
    """Return a bar for each (label, part of the whole), each in a frame that is the whole."""
    if not entries:
        return ""
    row, wide = 44, _WIDTH - 70
    said = [f"{label} {_percent(part)}" for label, part in entries]
    parts = opened(row * len(entries) + 4, title, ", ".join(said) + ".")
    for k, (label, part) in enumerate(entries):
        y, length = k * row, min(max(part, 0.0), 1.0) * wide
        parts.append(text(0, y + 14, short(label, 56), "start"))
        parts.append(
            f'<rect x="0.5" y="{y + 21}.5" width="{wide}" height="13" class="frame"/>'
            f'<rect x="0.5" y="{y + 21}.5" width="{length:.1f}" height="13" fill="{BLUE}"/>'
        )
        parts.append(text(_WIDTH, y + 33, _percent(part), "end", ' class="name"'))
    return "".join([*parts, "</svg>"])


def _percent(part: float) -> str:
    return f"{100.0 * part:.3g} %" if part < 0.9995 else "100 %"


def intervals(entries: Sequence[tuple[str, float, float, bool]]) -> str:
    """Return an arrow for each (label, claim, at least, whether that refutes), a bar at the claim.

    The arrow is the one-sided interval from the lower bound on, which has no right end.
    """
    row, top = 52, 6
    foot = top + row * len(entries)
    ticks = _ticks(1.1 * max(1e-9, *(max(claim, least) for _, claim, least, _ in entries)))

    def across(epsilon: float) -> float:
        return 8 + epsilon / ticks[-1] * (_WIDTH - 28)

    words = "; ".join(
        f"{label}: at least {least:.3g}, claimed {claim:.3g}" for label, claim, least, _ in entries
    )
    parts = opened(foot + 50, "Lower bounds on epsilon against the claim", f"{words}.")
    for tick in ticks:
        parts.append(line(across(tick), top, across(tick), foot, "grid"))
        parts.append(text(across(tick), foot + 20, f"{tick:g}"))
    for k, (label, claim, least, refutes) in enumerate(entries):
        y, x, end = top + k * row + 34, across(least), across(ticks[-1])
        colour = ORANGE if refutes else BLUE
        parts.append(text(8, y - 18, short(label, 64), "start", ' class="name"'))
        parts.append(
            f'<path d="M{x:.1f} {y}H{end:.1f}m-7 -5l7 5l-7 5" fill="none" stroke="{colour}" '
            'stroke-width="1.6"/>'
        )
        parts.append(
            f'<rect x="{across(claim) - 1.5:.1f}" y="{y - 11}" width="3" height="22" class="mark"/>'
        )
        parts.append(_mark(x, y, refutes))
    parts.append(line(8, foot, _WIDTH - 20, foot, "axis"))
    parts.append(text(_WIDTH / 2, foot + 42, "ε at the claimed δ"))
    return "".join([*parts, "</svg>"])


def shown(value: float) -> str:
    """Return a number for people: thousands with commas, small ones with two digits."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"
