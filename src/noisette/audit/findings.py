"""What is claimed, what an attack collects, and what an audit says: one finding for each attack.

A finding either refutes a claim (``violated``) or does not (``consistent``). It never proves one:
a claim is proved by a theorem, and refuted by a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Literal, TypeAlias, get_args

from noisette import _validate
from noisette._validate import refuse
from noisette.core.accounting.base import counted, participation
from noisette.core.accounting.sums import GaussianAccountant
from noisette.core.guarantee import Guarantee
from noisette.core.plans import Run, Sampled
from noisette.errors import Unproven

Verdict = Literal["violated", "consistent", "not applicable"]
_APART = {"record": "in one row", "person": "in all rows of one person"}


@dataclass(frozen=True)
class Finding:
    """The result of one attack on one claim.

    Parameters
    ----------
    attack : str
        Its name.
    claim : tuple of float
        The claimed (epsilon, delta).
    epsilon_lower : float or None
        A lower bound on the true epsilon at the claimed delta, right with probability at least
        `confidence`; None when the attack gives no number.
    confidence : float
        In (0, 1]; 1.0 for a deterministic check.
    verdict : {"violated", "consistent", "not applicable"}
        Whether the claim is refuted.
    runs : int
        How many fits were made.
    detail : str
        One plain sentence for a reviewer.

    Raises
    ------
    InvalidParameter
        If the verdict is unknown or a number is out of range.

    Examples
    --------
    >>> from noisette.audit import Finding
    >>> found = Finding("two-worlds", (1.0, 0.0), 1.8, 0.99, "violated", 400, "Above 1.8.")
    >>> found.to_dict()["verdict"]
    'violated'

    """

    attack: str
    claim: tuple[float, float]
    epsilon_lower: float | None
    confidence: float
    verdict: Verdict
    runs: int
    detail: str

    def __post_init__(self) -> None:
        refuse(
            (self.verdict not in get_args(Verdict),
             f"verdict must be one of {get_args(Verdict)}; got {self.verdict!r}."),
            (not 0 < self.confidence <= 1,
             f"confidence must be in (0, 1]; got {self.confidence!r}."),
            (self.epsilon_lower is not None and math.isnan(self.epsilon_lower),
             "epsilon_lower must be a number or None; got nan."),
        )  # fmt: skip

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain JSON values; an infinite bound is the text "inf".

        Returns
        -------
        dict
            One entry for each field.

        Examples
        --------
        >>> from noisette.audit import Finding
        >>> found = Finding("replay", (1.0, 0.0), None, 1.0, "consistent", 2, "No move.")
        >>> found.to_dict()["claim"]
        [1.0, 0.0]

        """
        out = asdict(self)
        out["claim"] = list(self.claim)
        if self.epsilon_lower is not None and math.isinf(self.epsilon_lower):
            out["epsilon_lower"] = "inf"
        return out


@dataclass(frozen=True)
class Result(Finding):
    """A finding and the numbers behind it; `repeated`, where there is one, is about noise."""

    @property
    def finding(self) -> Finding:
        """The same without the numbers, for an `AuditReport`."""
        return Finding(*(getattr(self, each.name) for each in fields(Finding)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, for an `AuditReport`."""
        repeated = getattr(self, "repeated", None)
        return (self.finding,) if repeated is None else (self.finding, repeated)

    def __str__(self) -> str:
        return "\n".join(f"{each.verdict}: {each.detail}" for each in self.findings)


@dataclass(frozen=True)
class AuditReport:
    """All findings about one subject (an estimator, a model file, a mechanism).

    Parameters
    ----------
    subject : str
        What was audited.
    findings : tuple of Finding
        One for each attack.
    unit : {"record", "person"}, default "record"
        Whose data the claim protects together: one row, or all rows of one person.

    Examples
    --------
    >>> from noisette.audit import AuditReport, Finding
    >>> found = Finding("two-worlds", (1.0, 0.0), 0.4, 0.99, "consistent", 400, "No more was seen.")
    >>> report = AuditReport("a model", ()).joined([found])
    >>> report.verdict, report.violations, report.to_dict()["subject"]
    ('consistent', (), 'a model')
    >>> report.to_json()[:1]
    '{'

    """

    subject: str
    findings: tuple[Finding, ...]
    unit: str = "record"

    @property
    def neighbours(self) -> str:
        """The data sets that the claim is about, in words."""
        return f"any two data sets that differ {_APART[self.unit]}"

    @property
    def verdict(self) -> Verdict:
        """``violated`` if any attack succeeded, ``consistent`` if some ran and none did."""
        verdicts = {finding.verdict for finding in self.findings}
        ranked: tuple[Verdict, ...] = get_args(Verdict)
        return next((each for each in ranked if each in verdicts), "not applicable")

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that refute a claim."""
        return tuple(found for found in self.findings if found.verdict == "violated")

    def joined(self, more: Iterable[Finding]) -> AuditReport:
        """Return this report with more findings at its end.

        Parameters
        ----------
        more : iterable of Finding
            What to add.

        Returns
        -------
        AuditReport
            Another report; this one is not changed.

        """
        return replace(self, findings=(*self.findings, *more))

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain JSON values.

        Returns
        -------
        dict
            Subject, unit, verdict and findings.

        """
        return {
            "subject": self.subject,
            "unit": self.unit,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self) -> str:
        """Return the report as JSON text.

        Returns
        -------
        str
            What `to_dict` returns, as text.

        """
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def __str__(self) -> str:
        head = ("attack", "claim", "epsilon at least", "confidence", "runs", "verdict")
        rows = [head] + [_row(finding) for finding in self.findings]
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        lines = [
            f"audit of {self.subject}: {self.verdict}",
            f"  the claim is one for {self.neighbours}",
        ]
        for row, detail in zip(rows, ["", *(each.detail for each in self.findings)], strict=True):
            line = "  ".join(map(str.ljust, row, widths))
            lines += [f"  {line.rstrip()}", *[f"      {detail}"] * bool(detail)]
        return "\n".join(lines)


def _row(finding: Finding) -> tuple[str, ...]:
    epsilon, delta = finding.claim
    claim = f"{epsilon:.4g}" if delta == 0 else f"({epsilon:.4g}, {delta:.2g})"
    lower = "-" if finding.epsilon_lower is None else f"{finding.epsilon_lower:.3f}"
    return finding.attack, claim, lower, sureness(finding), str(finding.runs), finding.verdict


def sureness(finding: Finding) -> str:
    """The confidence in words; none for an attack that could not be run."""
    if finding.verdict == "not applicable":
        return "-"
    if finding.confidence == 1:
        return "certain"
    short = f"{100 * finding.confidence:.6g} %"
    return short if short != "100 %" else f"{100 * finding.confidence:.10g} %"


ClaimLike: TypeAlias = "float | tuple[float, float] | Guarantee"

# A guarantee promises its whole curve; these shares of its epsilon are tried by the pilot.
_SHARES = (0.05, 0.25, 0.5, 0.75)


def pairs_of(claim: ClaimLike) -> list[tuple[float, float]]:
    """Return the (epsilon, delta) that a number, a pair or a `Guarantee` claims, first of all.

    Pairs lower on a guarantee's curve follow: promised just as much, and often easier to refute.
    """
    if isinstance(claim, Guarantee):
        lower = [(each, claim.delta_at(each)) for each in (s * claim.epsilon for s in _SHARES)]
        return [(claim.epsilon, claim.delta), *(pair for pair in lower if pair[1] < 0.5)]
    pair = tuple(claim) if isinstance(claim, tuple | list) else (claim, 0.0)
    refuse((len(pair) != 2, "claim must be epsilon, (epsilon, delta) or a Guarantee."))
    return [(_validate.epsilon(pair[0]), _validate.delta(pair[1]))]


def gaussian_mu(guarantee: Guarantee) -> float:
    """Return mu if the guarantee's plan is a composition of unsampled Gaussians, else refuse.

    Only there is the promise itself a Gaussian curve. A correct objective perturbation, for
    instance, lies 17 % above the curve of its noise at small epsilon, so testing it against a
    Gaussian curve would raise false alarms.
    """
    # proof: AUDIT-GDP
    worst = 0.0
    for plan in guarantee.plan.alternatives():
        plain = all(
            isinstance(leaf, Run | Sampled)
            and participation(leaf, guarantee.adjacency).kind == "once"
            for leaf, _ in counted(plan, guarantee.adjacency)
        )
        total = GaussianAccountant().total(plan, guarantee.adjacency) if plain else math.inf
        worst = max(worst, math.sqrt(total))
    refuse(
        (not math.isfinite(worst),
         "this guarantee is not a Gaussian curve (its plan is not made of unsampled Gaussian "
         "noise), so the GDP audit could raise false alarms; use two_worlds."),
        kind=Unproven,
    )  # fmt: skip
    return worst


@dataclass
class Tally:
    """Counts fits, keeps the first few faults and the largest measured ratio to a bound."""

    attack: str
    claim: tuple[float, float]
    runs: int = 0
    faults: list[str] = field(default_factory=list)
    worst: float = 0.0
    epsilon_lower: float | None = None
    confidence: float = 1.0
    applies: bool = False
    note: str = ""
    moves: dict[str, float] = field(default_factory=dict)
    """The largest ratio of each theorem's bound."""
    refused: list[str] = field(default_factory=list)
    """Neighbours that the fit refused with a stated error, which are not compared."""
    unstated: list[str] = field(default_factory=list)
    """Neighbours that ended in an error without a sentence of ours."""
    missing: str = ""
    """Why the check does not apply, if it does not."""

    def fault(self, text: str, wrong: object = True) -> None:
        """Write down one violation (each text once), if it is `wrong`."""
        if wrong and text not in self.faults:
            self.faults.append(text)

    def check(self, *wrongs: tuple[object, str]) -> None:
        """Write down the sentences of all that is wrong."""
        for wrong, text in wrongs:
            self.fault(text, wrong)

    def ratio(
        self, value: float, bound: float, what: str, slack: float = 1e-9, proof: str = ""
    ) -> float:
        """Compare a measured value with its bound; above it is a fault. Return their ratio."""
        self.applies = True
        share = value / bound if bound > 0.0 else float("inf") if value > 0.0 else 0.0
        if proof:
            self.moves[proof] = max(self.moves.get(proof, 0.0), share)
        self.worst = max(self.worst, share)
        self.fault(f"{what} is {share:.4g} times its declared bound", share > 1.0 + slack)
        return share

    def at_least(self, epsilon: float) -> None:
        """Raise the lower bound on the true epsilon."""
        self.epsilon_lower = max(epsilon, self.epsilon_lower or 0.0)

    def finding(self) -> Finding:
        """Return the finding; violated if there is a fault."""
        verdict: Verdict = "consistent" if self.applies else "not applicable"
        detail = (self.note if self.applies else self.missing) or "nothing to look at"
        if self.faults:
            more = len(self.faults) - 3
            verdict = "violated"
            detail = "; ".join(self.faults[:3]) + (f"; and {more} more" if more > 0 else "")
        return Finding(
            self.attack, self.claim, self.epsilon_lower, self.confidence, verdict, self.runs,
            detail[0].upper() + detail[1:] + ".",
        )  # fmt: skip
