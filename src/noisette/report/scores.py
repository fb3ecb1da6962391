"""How good the model is, on other people: numbers, the ROC curve and the calibration."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from noisette.report import svg
from noisette.scores import BinaryScores, MulticlassScores, RegressionScores
from noisette.scores.binary import Calibration

Scores = BinaryScores | MulticlassScores | RegressionScores

_SIDE, _LEFT, _TOP, _FOOT = 330.0, 60.0, 30.0, 52.0
_Z = 1.96


def measured(found: Scores) -> dict[str, Any]:
    """Return what a page tells of the scores on test people: at first sight, and in detail.

    `cards` are (number, what it is), `lines` the table of all of them.
    """
    scope, counted = "", "labels and scores"
    if isinstance(found, RegressionScores):
        scope, counted = found.scope, "targets and residuals"
        entries = [("R²: 1 explains all, 0 nothing", found.r2), ("mean absolute error", found.mae),
                   ("root mean square error", found.rmse)]  # fmt: skip
        first = [name for name, _ in entries]
    else:
        answer, share = found.majority
        entries = [("accuracy", found.accuracy), (f"always answering “{answer}”", share)]
        first = ["accuracy", f"always “{answer}” instead"]
    if isinstance(found, BinaryScores):
        at, name = found.confusion(), found.classes[1]
        entries = [("AUC", found.auc), *entries, (f"precision of “{name}”", at.precision),
                   (f"recall of “{name}”", at.recall)]  # fmt: skip
        first.insert(0, "AUC: 1 ranks everybody right, 0.5 is chance")
    lines = []
    for name, score in entries:
        shown = score.shown(score.possible), score.shown(score.error)
        interval = f"{score.shown(score.low)} to {score.shown(score.high)}"
        lines.append((name, *(shown if score.trusted else ("cannot tell", "-")), interval))
    big = [value if error == "-" else f"{value} ± {error}" for _, value, error, _ in lines]
    trusted = [row for row in getattr(found, "calibration", ()) if row.observed.trusted]
    return {
        "cards": list(zip(big, first, strict=False)),
        "counted": counted, "lines": lines, "verdict": found.verdict(), "scope": scope,
        "calibration": _calibration(trusted),
        "roc": _roc(found) if isinstance(found, BinaryScores) else "",
    }  # fmt: skip


_across = partial(svg.placed, ends=(0.0, 1.0), span=(_LEFT, _LEFT + _SIDE))
_up = partial(svg.placed, ends=(0.0, 1.0), span=(_TOP + _SIDE, _TOP))


def _square(title: str, words: str, below: str, beside: str) -> list[str]:
    """Return the axes of a unit square with its diagonal."""
    parts = svg.opened(_TOP + _SIDE + _FOOT, title, words)
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _across(tick), _up(tick)
        parts += [
            svg.line(_across(0), y, _across(1), y, "grid"),
            svg.line(x, _up(0), x, _up(1), "grid"),
            svg.text(_across(0) - 8, y + 4, f"{tick:g}", "end"),
            svg.text(x, _up(0) + 20, f"{tick:g}"),
        ]
    return [
        *parts,
        svg.line(_across(0), _up(0), _across(1), _up(1), "axis"),
        svg.text(_across(0.5), _up(0) + 42, below),
        svg.text(_LEFT - 36, _up(1) - 14, beside, "start"),
    ]


def _roc(found: BinaryScores) -> str:
    area, x, y = found.auc, found.roc.false_positive, found.roc.true_positive
    if not np.isfinite([x, y]).all() or not area.trusted:
        return ""
    wide = _Z * found.roc.true_error
    parts = _square(
        "ROC curve",
        f"The area under it is {area.value:.3f}, between {area.low:.3f} and {area.high:.3f}.",
        f"share of “{svg.short(str(found.classes[0]), 24)}” above the threshold",
        f"share of “{svg.short(str(found.classes[1]), 24)}” above it",
    )
    around, ends = np.concatenate([y + wide, (y - wide)[::-1]]), np.concatenate([x, x[::-1]])
    parts.append(svg.path(_across(ends), _up(around), svg.BLUE, band=True))
    return "".join([*parts, svg.path(_across(x), _up(y), svg.BLUE), "</svg>"])


def _calibration(rows: Sequence[Calibration]) -> str:
    if not rows:
        return ""
    words = ", ".join(f"{row.predicted:.2f}: {row.observed.value:.2f}" for row in rows)
    parts = _square("Calibration", f"Predicted: observed. {words}.", "predicted", "observed")
    for row in rows:
        x, seen = _across(row.predicted), row.observed
        parts.append(
            f'<line x1="{x:.1f}" y1="{_up(seen.low):.1f}" x2="{x:.1f}" '
            f'y2="{_up(seen.high):.1f}" stroke="{svg.BLUE}" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{_up(seen.value):.1f}" r="4.5" fill="{svg.BLUE}"/>'
        )
    return "".join([*parts, "</svg>"])
