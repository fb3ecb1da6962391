"""The report of an audit as one HTML file: no script, no network, readable when printed."""

from __future__ import annotations

import datetime
import math

from noisette._package import __version__
from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.core.guarantee import Guarantee
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


def html(report: AuditReport, guarantee: Guarantee | None = None) -> str:
    """Return the whole page."""
    proofs = () if guarantee is None else guarantee.proofs
    stated = () if guarantee is None else guarantee.paragraphs()
    claims = dict.fromkeys(map(_claim, report.findings))
    ran = [each for each in report.findings if each.verdict != "not applicable"]
    bounded = [each for each in report.findings if each.epsilon_lower is not None]
    seen = max((each.epsilon_lower or 0.0 for each in bounded), default=None)
    most = "no attack gives a number"
    if seen is not None:
        most = f"shown ε ≥ {seen:.3f}" if math.isfinite(seen) else "no finite ε is left"
    facts = [
        ("Attacks", f"{len(ran)} of {len(report.findings)} could run"),
        ("Fits", f"{sum(each.runs for each in ran):,}"),
        ("Unit", f"one {report.unit}"),
        ("Audited", datetime.datetime.now(datetime.UTC).date().isoformat()),
        ("Program", f"noisette {__version__}"),
    ]
    intervals = [
        (f"{each.attack} ({each.runs} runs, {sureness(each)})", each.claim[0], _drawn(each),
         each.verdict == "violated")
        for each in bounded
    ]  # fmt: skip
    return kit.render(
        "audit.html", title=report.subject, report=report, facts=facts, proofs=proofs, most=most,
        verdict=_VERDICTS[report.verdict], claims="; ".join(claims) or "nothing",
        rows=[_row(each) for each in report.findings],
        bounds=svg.intervals(intervals) if intervals else "", curve=_curve(bounded, guarantee),
        # the last are the proofs, listed below
        stated=stated[:-1] if proofs else stated,
    )  # fmt: skip


def _claim(finding: Finding) -> str:
    epsilon, delta = finding.claim
    return f"ε = {epsilon:.4g}" + (f", δ = {delta_words(delta)}" if delta else "")


def _row(finding: Finding) -> tuple[str, ...]:
    lower = "–"
    if finding.epsilon_lower is not None:
        lower = "∞" if math.isinf(finding.epsilon_lower) else f"{finding.epsilon_lower:.3f}"
    sure = sureness(finding).replace("-", "–")
    return finding.attack, _claim(finding), finding.verdict, lower, sure, f"{finding.runs:,}"


def _drawn(finding: Finding) -> float:
    """Return the lower bound, an infinite one as a number far beyond the claim."""
    lower = finding.epsilon_lower or 0.0
    return lower if math.isfinite(lower) else 2.0 * finding.claim[0] + 10.0


def _curve(bounded: list[Finding], guarantee: Guarantee | None) -> str:
    """Return the promised curve with the bounds of the attacks at their own delta."""
    if guarantee is None or guarantee.delta == 0.0:
        return ""
    marks = [
        (each.claim[1], _drawn(each), each.verdict == "violated")
        for each in bounded
        if each.claim[1] > 0.0
    ]
    points = curve_of(guarantee, (*DELTAS, *(delta for delta, _, _ in marks)))
    return svg.curve(points, (guarantee.delta, guarantee.epsilon), marks)
