"""The report of an audit as one HTML file: no script, no network, readable when printed."""

from __future__ import annotations

import math
from pathlib import Path

from noisette import _files
from noisette._version import __version__
from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.errors import InvalidParameter
from noisette.guarantee import Guarantee
from noisette.report import html as kit
from noisette.report import svg
from noisette.report.numbers import DELTAS, curve_of

__all__ = ["check_target", "html", "write"]

_VERDICTS = {
    "violated": "The claim is refuted: at least one attack shows a larger epsilon, or a fault that "
    "no private program has.",
    "consistent": "No attack refuted the claim. This is no proof that it is true: a proof is, and "
    "a stronger attack or more runs might still refute it.",
    "not applicable": "No attack could be run on this subject, so the audit says nothing about it.",
}

_READING = (
    "The claim is one for {}. Each attack tries to tell two such data sets apart by looking at "
    "what was released. How often it succeeds gives a lower bound on epsilon, right with the "
    "stated confidence. A bound above the claim refutes the claim; a bound below it says only that "
    "this attack, with so many runs, saw no more. Deterministic checks look inside one run and "
    "have no chance in them."
)


def check_target(path: str) -> Path:
    """Return where the report will be written, or refuse before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter(f"--report must end in .html; got {path!r}.")
    if not target.parent.is_dir():
        raise InvalidParameter(f"the folder {target.parent} does not exist.")
    return target


def write(report: AuditReport, target: Path, guarantee: Guarantee | None = None) -> None:
    """Write the page; the file appears whole or not at all."""
    _files.write(target, html(report, guarantee))


def html(report: AuditReport, guarantee: Guarantee | None = None) -> str:
    """Return the whole page."""
    title = f"Privacy audit of {report.subject}"
    promise = "" if guarantee is None else kit.paragraph(guarantee.statement(), "statement")
    body = [
        kit.paragraph("Differential-privacy audit", "eyebrow"),
        f"<h1>{kit.escape(title)}</h1>",
        kit.paragraph(
            f"{report.verdict}. {_VERDICTS[report.verdict]}",
            "void" if report.verdict == "violated" else "statement",
        ),
        _bounds(report),
        kit.section("Attacks", kit.table(_HEAD, [_row(each) for each in report.findings])),
        kit.section(
            "What each attack saw",
            kit.rows([(each.attack, each.detail) for each in report.findings]),
        ),
        kit.section("How to read this", kit.paragraph(_READING.format(report.neighbours))),
        kit.section("The promise", promise, _curve(report, guarantee)),
        f"<footer>noisette {__version__}</footer>",
    ]
    return kit.document(title, "".join(body))


_HEAD = ("attack", "claim", "ε at least", "confidence", "runs", "verdict")


def _row(finding: Finding) -> tuple[str, ...]:
    epsilon, delta = finding.claim
    lower = finding.epsilon_lower
    return (
        finding.attack,
        f"ε = {epsilon:.4g}" + (f", δ = {delta:.2g}" if delta else ""),
        "–" if lower is None else "∞" if math.isinf(lower) else f"{lower:.3f}",
        sureness(finding).replace("-", "–"),
        str(finding.runs),
        finding.verdict,
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
    return kit.figure(
        svg.intervals(entries) if entries else "",
        "Black bars: claimed ε. Arrows: the one-sided confidence interval that each attack leaves "
        "for the true ε; a cross refutes the claim.",
    )


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
    return kit.figure(
        svg.curve(points, (guarantee.delta, guarantee.epsilon), marks),
        "Line: promised. Marks: what the attacks show at least; one above the line refutes it.",
    )
