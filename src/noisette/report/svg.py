"""Two small figures drawn as inline SVG: a curve and a row of bars. No library, no script."""

import math
from collections.abc import Sequence

from noisette.report.html import escape

__all__ = ["bars", "curve"]

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 30, 36, 60
_BLUE, _ORANGE = "#0072B2", "#B34700"


def _text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{name}"/>'


def _ticks(top: float) -> list[float]:
    """Return round steps from 0 to above `top`."""
    raw = top / 4.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1.0, 2.0, 5.0, 10.0) if unit * k >= raw)
    return [step * k for k in range(math.ceil(top / step - 1e-9) + 1)]


def _open(height: float, title: str, description: str) -> list[str]:
    return [
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">',
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
    ]


def curve(points: Sequence[tuple[float, float]], promise: tuple[float, float]) -> str:
    """Return epsilon against delta on a logarithmic axis; `promise` is (delta, epsilon)."""
    if len(points) < 2:
        return ""
    low, high = math.log10(points[0][0]), math.log10(points[-1][0])
    ticks = _ticks(max(1e-3, promise[1], *(epsilon for _, epsilon in points)))

    def across(delta: float) -> float:
        return _LEFT + (math.log10(delta) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def up(epsilon: float) -> float:
        return _HEIGHT - _BOTTOM - epsilon / ticks[-1] * (_HEIGHT - _TOP - _BOTTOM)

    words = ", ".join(f"{epsilon:.3g} at delta {delta:.0e}" for delta, epsilon in points)
    parts = _open(_HEIGHT, "Epsilon against delta", f"Epsilon is {words}.")
    for tick in ticks:
        parts.append(_line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "grid"))
        parts.append(_text(_LEFT - 8, up(tick) + 4, f"{tick:g}", "end"))
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, 2):
        x = across(10.0**power)
        parts.append(_line(x, _HEIGHT - _BOTTOM, x, _HEIGHT - _BOTTOM + 5, "axis"))
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 25}" text-anchor="middle">10'
            f'<tspan dy="-5" font-size=".75em">{power:+d}</tspan></text>'.replace("+0", "0")
        )
    parts.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    path = " ".join(f"{across(d):.1f},{up(e):.1f}" for d, e in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_BLUE}" stroke-width="2.5"/>')
    delta, epsilon = promise
    if delta > 0.0:
        parts.append(
            f'<circle cx="{across(delta):.1f}" cy="{up(epsilon):.1f}" r="5.5" fill="{_ORANGE}"/>'
        )
        name, x, anchor = "the promise", across(delta) + 10, "start"
        if x > _WIDTH - 120:
            x, anchor = across(delta) - 10, "end"
    else:
        parts.append(
            f'<line x1="{_LEFT}" y1="{up(epsilon):.1f}" x2="{_WIDTH - _RIGHT}" '
            f'y2="{up(epsilon):.1f}" stroke="{_ORANGE}" stroke-width="2" stroke-dasharray="7 5"/>'
        )
        name, x, anchor = "the promise, with delta = 0", _WIDTH - _RIGHT - 4, "end"
    parts.append(_text(x, up(epsilon) - 8, name, anchor, f' fill="{_ORANGE}" class="name"'))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "delta"))
    parts.append(_text(_LEFT - 8, 16, "ε", "end", ' class="name"'))
    return "".join([*parts, "</svg>"])


def bars(entries: Sequence[tuple[str, float, bool]]) -> str:
    """Return bars on a logarithmic scale: (label, value, whether it is the noise)."""
    row, top = 58, 6
    height = top + row * len(entries) + 6
    least = min(1.0, *(value for _, value, _ in entries)) / 1.6
    largest = max(value for _, value, _ in entries)
    words = ", ".join(f"{label} {value:.3g}" for label, value, _ in entries)
    parts = _open(height, "Noise against signal", f"On a logarithmic scale: {words}.")
    for k, (label, value, noisy) in enumerate(entries):
        y = top + k * row
        length = math.log(value / least) / math.log(max(largest / least, 1.1))
        length = max(4.0, length * (_WIDTH - 110))
        colour = _ORANGE if noisy else _BLUE
        parts.append(_text(0, y + 16, label, "start", ' class="name"'))
        parts.append(
            f'<rect x="0" y="{y + 25}" width="{length:.1f}" height="16" rx="2" fill="{colour}"/>'
        )
        parts.append(_text(length + 8, y + 39, shown(value), "start"))
    return "".join([*parts, "</svg>"])


def shown(value: float) -> str:
    """Return a number for people: thousands with commas, small ones with two digits."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"
