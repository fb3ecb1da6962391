"""How good the model is, on other people: numbers, the ROC curve and the calibration."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisette.report import svg
from noisette.scores import BinaryScores, MulticlassScores, RegressionScores, Score
from noisette.scores.binary import Calibration

Scores = BinaryScores | MulticlassScores | RegressionScores

_SIDE, _LEFT, _TOP, _FOOT = 330.0, 60.0, 30.0, 52.0
_Z = 1.96


def headline(found: Scores | None) -> tuple[list[tuple[str, str]], str]:
    """Return the scores for a first look, (number, what it is), and a sentence about them."""
    if found is None:
        return [], ""
    words = "Bought privately, on people who took no part in the training; ± one standard error."
    if isinstance(found, RegressionScores):
        numbers = [(_big(score), name) for name, score in _entries(found)]
        return numbers, f"{words} {found.scope} {found.verdict()}".strip()
    answer, share = found.majority
    numbers = [(_big(found.accuracy), "accuracy"), (_big(share), f"always “{answer}” instead")]
    if isinstance(found, BinaryScores):
        numbers.insert(0, (_big(found.auc), "AUC: 1 ranks everybody right, 0.5 is chance"))
    return numbers, f"{words} {found.verdict()}".strip()


def _big(score: Score) -> str:
    shown = f"{score.shown(score.possible)} ± {score.shown(score.error)}"
    return shown if score.trusted else "cannot tell"


def _entries(found: Scores) -> list[tuple[str, Score]]:
    """Return the scores by name."""
    if isinstance(found, RegressionScores):
        return [("R²: 1 explains all, 0 nothing", found.r2), ("mean absolute error", found.mae),
                ("root mean square error", found.rmse)]  # fmt: skip
    answer, share = found.majority
    entries = [("accuracy", found.accuracy), (f"always answering “{answer}”", share)]
    if isinstance(found, BinaryScores):
        at = found.confusion()
        entries = [
            ("AUC", found.auc), *entries, (f"precision of “{found.classes[1]}”", at.precision),
            (f"recall of “{found.classes[1]}”", at.recall),
        ]  # fmt: skip
    return entries


def in_detail(found: Scores | None) -> dict[str, Any]:
    """Return what the section about the scores on test people shows."""
    if found is None:
        return {}
    numbers = isinstance(found, RegressionScores)
    rows = [row for row in getattr(found, "calibration", ()) if row.observed.trusted]
    return {
        "counted": "targets and residuals" if numbers else "labels and scores",
        "lines": _lines(_entries(found)), "verdict": found.verdict(),
        "scope": getattr(found, "scope", ""), "calibration": _calibration(rows),
        "roc": _roc(found) if isinstance(found, BinaryScores) else "",
    }  # fmt: skip


def _lines(entries: Sequence[tuple[str, Score]]) -> list[tuple[str, str, str, str]]:
    return [
        (
            name,
            score.shown(score.possible) if score.trusted else "cannot tell",
            score.shown(score.error) if score.trusted else "-",
            f"{score.shown(score.low)} to {score.shown(score.high)}",
        )
        for name, score in entries
    ]


def _across(x: float) -> float:
    return _LEFT + min(max(x, 0.0), 1.0) * _SIDE


def _up(y: float) -> float:
    return _TOP + (1.0 - min(max(y, 0.0), 1.0)) * _SIDE


def _square(title: str, words: str, below: str, beside: str) -> list[str]:
    """Return the axes of a unit square with its diagonal."""
    parts = svg.opened(_TOP + _SIDE + _FOOT, title, words)
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(svg.line(_across(0), _up(tick), _across(1), _up(tick), "grid"))
        parts.append(svg.line(_across(tick), _up(0), _across(tick), _up(1), "grid"))
        parts.append(svg.text(_across(0) - 8, _up(tick) + 4, f"{tick:g}", "end"))
        parts.append(svg.text(_across(tick), _up(0) + 20, f"{tick:g}"))
    parts.append(svg.line(_across(0), _up(0), _across(1), _up(1), "axis"))
    parts.append(svg.text(_across(0.5), _up(0) + 42, below))
    parts.append(svg.text(_LEFT - 36, _up(1) - 14, beside, "start"))
    return parts


def _points(x: Sequence[float], y: Sequence[float]) -> str:
    return " ".join(f"{_across(a):.1f},{_up(b):.1f}" for a, b in zip(x, y, strict=True))


def _roc(found: BinaryScores) -> str:
    curve, area = found.roc, found.auc
    x, y = curve.false_positive.tolist(), curve.true_positive.tolist()
    if not np.isfinite([*x, *y]).all() or not area.trusted:
        return ""
    wide = _Z * curve.true_error
    top, bottom = (curve.true_positive + wide).tolist(), (curve.true_positive - wide).tolist()
    parts = _square(
        "ROC curve",
        f"The area under it is {area.value:.3f}, between {area.low:.3f} and {area.high:.3f}.",
        f"share of “{svg.short(str(found.classes[0]), 24)}” above the threshold",
        f"share of “{svg.short(str(found.classes[1]), 24)}” above it",
    )
    band = _points([*x, *x[::-1]], [*top, *bottom[::-1]])
    parts.append(f'<polygon points="{band}" fill="{svg.BLUE}" fill-opacity=".18"/>')
    parts.append(
        f'<polyline points="{_points(x, y)}" fill="none" stroke="{svg.BLUE}" stroke-width="2.5"/>'
    )
    return "".join([*parts, "</svg>"])


def _calibration(rows: Sequence[Calibration]) -> str:
    if not rows:
        return ""
    words = ", ".join(f"{row.predicted:.2f}: {row.observed.value:.2f}" for row in rows)
    parts = _square("Calibration", f"Predicted: observed. {words}.", "predicted", "observed")
    for row in rows:
        x = _across(row.predicted)
        parts.append(
            f'<line x1="{x:.1f}" y1="{_up(row.observed.low):.1f}" x2="{x:.1f}" '
            f'y2="{_up(row.observed.high):.1f}" stroke="{svg.BLUE}" stroke-width="2"/>'
        )
        y = _up(row.observed.value)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{svg.BLUE}"/>')
    return "".join([*parts, "</svg>"])
