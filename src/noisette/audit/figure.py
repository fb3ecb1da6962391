"""The figure of an audit: what is claimed, and what the attacks show at least (extra ``plot``)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.errors import MissingExtra
from noisette.guarantee import Guarantee

__all__ = ["svg"]

# Colour-blind safe (Okabe and Ito), with a marker each so that grey prints work too.
_STYLES = {"violated": ("#D55E00", "X"), "consistent": ("#0072B2", "o")}
_CLAIM = "#000000"


def pyplot() -> Any:
    """Return matplotlib's pyplot without a display, or say what to install."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def svg(report: AuditReport, guarantee: Guarantee | None = None) -> str | None:
    """Return the figure as SVG text, or None if no finding has a bound to draw."""
    data = draw(report, guarantee, "svg")
    return None if data is None else data.decode()


def draw(report: AuditReport, guarantee: Guarantee | None, kind: str) -> bytes | None:
    """Return the figure in the format `kind`: bounds on the left, the claimed curve on the right.

    Each attack's confidence interval for epsilon is [lower bound, infinity): an arrow to the right.
    The curve is drawn only if a guarantee with a positive delta says what it is.
    """
    shown = [finding for finding in report.findings if finding.epsilon_lower is not None]
    if not shown:
        return None
    plt = pyplot()
    curve = guarantee is not None and guarantee.delta > 0.0
    height = 1.6 + 0.36 * len(shown)
    figure, axes = plt.subplots(
        1, 2 if curve else 1, figsize=(11 if curve else 8, max(height, 3.4 if curve else 0)),
        layout="constrained", width_ratios=(3, 2) if curve else (1,), squeeze=False,
    )  # fmt: skip
    _bounds(axes[0][0], shown)
    if curve and guarantee is not None:
        _curve(axes[0][1], shown, guarantee)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    plt.close(figure)
    return buffer.getvalue()


def _bounds(axes: Any, findings: Sequence[Finding]) -> None:
    """One line for each attack: the interval that its runs leave for epsilon, and the claim."""
    lowers = [_finite(finding) for finding in findings]
    claims = [finding.claim[0] for finding in findings]
    right = 1.15 * max(*lowers, *claims, 1e-9)
    for i, (finding, lower) in enumerate(zip(findings, lowers, strict=True)):
        colour, marker = _STYLES.get(finding.verdict, ("#999999", "o"))
        axes.annotate(
            "", xy=(right, i), xytext=(lower, i),
            arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.4, "alpha": 0.55},
        )  # fmt: skip
        axes.plot(lower, i, marker, color=colour, ms=8, zorder=3, clip_on=False)
        axes.plot([finding.claim[0]] * 2, [i - 0.38, i + 0.38], color=_CLAIM, lw=2.2, zorder=2)
    axes.plot([], [], color=_CLAIM, lw=2.2, label="claimed ε")
    for verdict, (colour, marker) in _STYLES.items():
        if any(finding.verdict == verdict for finding in findings):
            words = "ε at least (refutes)" if verdict == "violated" else "ε at least (consistent)"
            axes.plot([], [], marker, color=colour, ms=8, ls="", label=words)
    names = [f"{finding.attack}\n{_confidence(finding)}" for finding in findings]
    axes.set_yticks(range(len(findings)), names, fontsize=8)
    axes.set_ylim(len(findings) - 0.4, -0.6)
    axes.set_xlim(0.0, right)
    axes.set_xlabel("ε at the claimed δ: one-sided confidence intervals")
    axes.grid(axis="x", alpha=0.3, lw=0.5)


def _curve(axes: Any, findings: Sequence[Finding], guarantee: Guarantee) -> None:
    """The promised curve epsilon(delta), and the bounds of the attacks at their own delta."""
    tested = [finding for finding in findings if finding.claim[1] > 0.0]
    low = min([guarantee.delta, *(finding.claim[1] for finding in tested)]) / 30.0
    deltas = np.geomspace(low, 0.3, 40)
    axes.plot(deltas, [guarantee.epsilon_at(float(each)) for each in deltas], color=_CLAIM, lw=2)
    axes.plot(guarantee.delta, guarantee.epsilon, "s", color=_CLAIM, ms=6)
    for finding in tested:
        colour, marker = _STYLES.get(finding.verdict, ("#999999", "o"))
        axes.plot(finding.claim[1], _finite(finding), marker, color=colour, ms=8, zorder=3)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("δ")
    axes.set_ylabel("ε")
    axes.set_title("line: promised; a bound above it refutes it", fontsize=9)
    axes.grid(alpha=0.3, lw=0.5)


def _finite(finding: Finding) -> float:
    lower = finding.epsilon_lower or 0.0
    return lower if math.isfinite(lower) else 2.0 * finding.claim[0] + 10.0


def _confidence(finding: Finding) -> str:
    return f"{finding.runs} runs, {sureness(finding)}"
