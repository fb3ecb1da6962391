"""The report of an audit as one HTML file: no script, no network, readable when printed."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

from noisette import _files
from noisette._package import __version__
from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidParameter
from noisette.report import html as kit
from noisette.report import svg
from noisette.report.decision import delta_words
from noisette.report.numbers import DELTAS, curve_of
from noisette.report.proofs import appendix

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
    proofs = () if guarantee is None else guarantee.proofs
    stated = () if guarantee is None else guarantee.paragraphs()
    stated = stated[:-1] if proofs else stated  # the last are the proofs, listed below
    body = [
        kit.title("Differential-privacy audit", report.subject),
        kit.facts(_facts(report)),
        _verdict(report),
        _bounds(report),
        kit.section(
            "Attacks", kit.table(_HEAD, [_row(each) for each in report.findings], numeric=3)
        ),
        kit.section(
            "What each attack saw",
            kit.rows([(each.attack, each.detail) for each in report.findings]),
        ),
        kit.section("How to read this", kit.paragraph(_READING.format(report.neighbours))),
        kit.section(
            "The promise", *map(kit.paragraph, stated), _curve(report, guarantee),
        ),
        appendix(proofs),
    ]  # fmt: skip
    return kit.document(title, "".join(body))


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


def _verdict(report: AuditReport) -> str:
    """Return the verdict in large type beside the claim and what was seen at least."""
    kind = {"violated": "void", "consistent": "good"}.get(report.verdict, "warn")
    claims = dict.fromkeys(_claim(each) for each in report.findings)
    seen = [each.epsilon_lower for each in report.findings if each.epsilon_lower is not None]
    most = "no attack gives a number"
    if seen:
        finite = math.isfinite(max(seen))
        most = f"shown ε ≥ {max(seen):.3f}" if finite else "no finite ε is left"
    return kit.promise(
        report.verdict.capitalize(), "", f"claimed {'; '.join(claims) or 'nothing'}; {most}",
        _VERDICTS[report.verdict], name=kind,
    )  # fmt: skip


_HEAD = ("attack", "claim", "verdict", "ε at least", "confidence", "runs")


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
    return kit.figure(
        svg.intervals(entries) if entries else "",
        "Upright bars: claimed ε. Arrows: the one-sided confidence interval that each attack "
        "leaves for the true ε; a cross refutes the claim.",
        "What the attacks show at least",
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
        "The promise at every δ",
    )
