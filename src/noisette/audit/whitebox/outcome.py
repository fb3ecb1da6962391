"""`Outcome`: what a check collects while it runs, and the `Finding` it becomes."""

from dataclasses import dataclass, field

from noisette.audit.findings import Finding


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

    def fault(self, text: str) -> None:
        """Write down one violation (each text once)."""
        if text not in self.faults:
            self.faults.append(text)

    def ratio(
        self, value: float, bound: float, what: str, slack: float = 1e-9, proof: str = ""
    ) -> None:
        """Compare a measured value with its bound; above it is a fault."""
        self.applies = True
        share = value / bound if bound > 0.0 else float("inf") if value > 0.0 else 0.0
        if proof:
            self.moves[proof] = max(self.moves.get(proof, 0.0), share)
        self.worst = max(self.worst, share)
        if share > 1.0 + slack:
            self.fault(f"{what} is {share:.4g} times its declared bound")

    def at_least(self, epsilon: float) -> None:
        """Raise the lower bound on the true epsilon."""
        self.epsilon_lower = max(epsilon, self.epsilon_lower or 0.0)

    def finding(self) -> Finding:
        """Return the finding; violated if there is a fault."""
        verdict = "violated" if self.faults else "consistent"
        if not self.faults and not self.applies:
            verdict = "not applicable"
        detail = "; ".join(self.faults[:3])
        if len(self.faults) > 3:
            detail += f"; and {len(self.faults) - 3} more"
        if not detail:
            detail = (self.note if self.applies else self.missing) or "nothing to look at"
        return Finding(
            attack=self.attack, claim=self.claim, epsilon_lower=self.epsilon_lower,
            confidence=self.confidence, verdict=verdict,  # type: ignore[arg-type]
            runs=self.runs, detail=detail[0].upper() + detail[1:] + ".",
        )  # fmt: skip
