"""The report of an audit as one HTML file: no script, no network, readable when printed."""

from __future__ import annotations

import math
from pathlib import Path

from noisette import _files
from noisette._version import __version__
from noisette.audit.figure import pyplot, svg
from noisette.audit.findings import AuditReport, Finding, sureness
from noisette.errors import InvalidParameter
from noisette.guarantee import Guarantee
from noisette.report.html import POLICY, escape

__all__ = ["check_target", "html", "write"]

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111;
background:#fff}
h1{font-size:1.5rem}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #ccc;vertical-align:top}
td.c,td.n{white-space:nowrap}td.n{text-align:right}.detail{color:#444;font-size:.85rem}
.violated{color:#b34000;font-weight:700}.consistent{color:#005a92;font-weight:700}
.box{border-left:5px solid #005a92;padding:.4rem 1rem;background:#f4f7fa}
.box.bad{border-color:#b34000;background:#fdf3ee}svg{max-width:100%;height:auto}
figure{margin:1rem 0}figcaption{font-size:.85rem;color:#444}
"""

_VERDICTS = {
    "violated": "The claim is refuted: at least one attack shows a larger epsilon, or a fault that "
    "no private program has.",
    "consistent": "No attack refuted the claim. This is no proof that it is true: a proof is, and "
    "a stronger attack or more runs might still refute it.",
    "not applicable": "No attack could be run on this subject, so the audit says nothing about it.",
}

_READING = (
    "Each attack tries to tell two data sets that differ in one person apart by looking at what "
    "was released. How often it succeeds gives a lower bound on epsilon, right with the stated "
    "confidence. A bound above the claim refutes the claim; a bound below it says only that this "
    "attack, with so many runs, saw no more. Deterministic checks look inside one run and have no "
    "chance in them."
)


def check_target(path: str) -> Path:
    """Return where the report will be written, or refuse before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter(f"--report must end in .html; got {path!r}.")
    if not target.parent.is_dir():
        raise InvalidParameter(f"the folder {target.parent} does not exist.")
    pyplot()
    return target


def write(report: AuditReport, target: Path, guarantee: Guarantee | None = None) -> None:
    """Write the page; the file appears whole or not at all."""
    _files.write(target, html(report, guarantee))


def html(report: AuditReport, guarantee: Guarantee | None = None) -> str:
    """Return the whole page."""
    picture = svg(report, guarantee)
    figure = ""
    if picture is not None:
        picture = picture[picture.index("<svg") :]  # without the XML head, to stand inside HTML
        figure = (
            f"<figure>{picture}<figcaption>Black bars: claimed ε. Arrows: the one-sided confidence "
            "interval that each attack leaves for the true ε.</figcaption></figure>"
        )
    promise = "" if guarantee is None else f"<h2>The promise</h2><p>{escape(guarantee.statement())}"
    rows = "".join(_row(finding) for finding in report.findings)
    verdict = escape(report.verdict)
    bad = " bad" if report.verdict == "violated" else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>Privacy audit of {escape(report.subject)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>Privacy audit of {escape(report.subject)}</h1>"
        f'<p class="box{bad}"><span class="{verdict}">{verdict}</span>'
        f". {_VERDICTS[report.verdict]}</p>{figure}"
        "<h2>Attacks</h2><table><thead><tr><th>attack</th><th>claim</th><th>ε at least</th>"
        f"<th>confidence</th><th>runs</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<h2>How to read this</h2><p>{_READING}</p>{promise}"
        f'<p class="detail">noisette {__version__}</p></body></html>\n'
    )


def _row(finding: Finding) -> str:
    epsilon, delta = finding.claim
    claim = f"ε = {epsilon:.4g}" + (f"<br>δ = {delta:.2g}" if delta else "")
    lower = finding.epsilon_lower
    sure = sureness(finding).replace("-", "–")
    bound = "–" if lower is None else "∞" if math.isinf(lower) else f"{lower:.3f}"
    return (
        f"<tr><td>{escape(finding.attack)}<div class='detail'>{escape(finding.detail)}</div></td>"
        f"<td class='c'>{claim}</td><td class='n'>{bound}</td><td class='n'>{sure}</td>"
        f"<td class='n'>{finding.runs}</td>"
        f"<td class='{escape(finding.verdict)}'>{escape(finding.verdict)}</td></tr>"
    )
