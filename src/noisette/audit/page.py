"""The report of an audit as one HTML file: no script, no network, readable when printed."""

from __future__ import annotations

import datetime
import math
import os
from pathlib import Path

from noisette import _files
from noisette._package import __version__
from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidParameter
from noisette.report import html as kit
from noisette.report import svg
from noisette.report.numbers import DELTAS, curve_of, delta_words

_VERDICTS = {
    "violated": "The claim is refuted: at least one attack shows a larger epsilon, or a fault that "
    "no private program has.",
    "consistent": "No attack refuted the claim. This is no proof that it is true: a proof is, and "
    "a stronger attack or more runs might still refute it.",
    "not applicable": "No attack could be run on this subject, so the audit says nothing about it.",
}


def check_target(path: str) -> Path:
    """Return where the report will be written, or refuse before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter(f"--report must end in .html; got {path!r}.")
    if not target.parent.is_dir():
        raise InvalidParameter(f"the folder {target.parent} does not exist.")
    if not os.access(target.parent, os.W_OK):
        raise InvalidParameter(f"{path} cannot be written (Permission denied).")
    return target


def write(report: AuditReport, target: Path, guarantee: Guarantee | None = None) -> None:
    """Write the page; the file appears whole or not at all."""
    _files.write(target, html(report, guarantee))


def html(report: AuditReport, guarantee: Guarantee | None = None) -> str:
    """Return the whole page."""
    proofs = () if guarantee is None else guarantee.proofs
    stated = () if guarantee is None else guarantee.paragraphs()
    claims = dict.fromkeys(_claim(each) for each in report.findings)
    return kit.render(
        "audit.html", title=report.subject, report=report, facts=_facts(report), proofs=proofs,
        verdict=_VERDICTS[report.verdict], claims="; ".join(claims) or "nothing",
        most=_most(report), rows=[_row(each) for each in report.findings],
        bounds=_bounds(report), curve=_curve(report, guarantee),
        # the last are the proofs, listed below
        stated=stated[:-1] if proofs else stated,
    )  # fmt: skip


def _facts(report: AuditReport) -> list[tuple[str, str]]:
    ran = [each for each in report.findings if each.verdict != "not applicable"]
    fits = sum(each.runs for each in ran)
    return [
        ("Attacks", f"{len(ran)} of {len(report.findings)} could run"),
        ("Fits", f"{fits:,}"),
        ("Unit", f"one {report.unit}"),
        ("Audited", datetime.datetime.now(datetime.UTC).date().isoformat()),
        ("Program", f"noisette {__version__}"),
    ]


def _most(report: AuditReport) -> str:
    """Return what was seen at least."""
    seen = [each.epsilon_lower for each in report.findings if each.epsilon_lower is not None]
    if not seen:
        return "no attack gives a number"
    finite = math.isfinite(max(seen))
    return f"shown ε ≥ {max(seen):.3f}" if finite else "no finite ε is left"


def _claim(finding: Finding) -> str:
    epsilon, delta = finding.claim
    return f"ε = {epsilon:.4g}" + (f", δ = {delta_words(delta)}" if delta else "")


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.3f}"


def _row(finding: Finding) -> tuple[str, ...]:
    lower = finding.epsilon_lower
    return (
        finding.attack,
        _claim(finding),
        finding.verdict,
        "–" if lower is None else _number(lower),
        sureness(finding).replace("-", "–"),
        f"{finding.runs:,}",
    )


def _drawn(finding: Finding) -> float:
    """Return the lower bound, an infinite one as a number far beyond the claim."""
    lower = finding.epsilon_lower or 0.0
    return lower if math.isfinite(lower) else 2.0 * finding.claim[0] + 10.0


def _bounded(report: AuditReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.epsilon_lower is not None]


def _bounds(report: AuditReport) -> str:
    """Return the figure of all lower bounds; nothing if no attack gives one."""
    entries = [
        (
            f"{each.attack} ({each.runs} runs, {sureness(each)})",
            each.claim[0],
            _drawn(each),
            each.verdict == "violated",
        )
        for each in _bounded(report)
    ]
    return svg.intervals(entries) if entries else ""


def _curve(report: AuditReport, guarantee: Guarantee | None) -> str:
    """Return the promised curve with the bounds of the attacks at their own delta."""
    if guarantee is None or guarantee.delta == 0.0:
        return ""
    marks = [
        (each.claim[1], _drawn(each), each.verdict == "violated")
        for each in _bounded(report)
        if each.claim[1] > 0.0
    ]
    points = curve_of(guarantee, (*DELTAS, *(delta for delta, _, _ in marks)))
    return svg.curve(points, (guarantee.delta, guarantee.epsilon), marks)
