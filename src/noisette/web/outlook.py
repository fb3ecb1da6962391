"""Step 3: what a budget promises and what it leaves to learn, from public facts alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.cli.outlooks import others
from noisette.cli.plan import table_outlook_of
from noisette.errors import InvalidParameter
from noisette.guarantee import Guarantee
from noisette.pipeline.table_outlook import NAMES
from noisette.report.numbers import attack_power
from noisette.tables import Schema

__all__ = ["MODELS", "RELATIONS", "Budget", "Outlook", "budget_from", "odds", "outlook_of"]

MODELS = {
    "logistic": "a linear score (usually the most accurate)",
    "additive": "one curve for each column (the easiest to explain)",
}
RELATIONS = {
    "replace-one": "one person is exchanged for another; the number of people is public",
    "zero-out": "one person's row is blanked out; the number of rows is public",
    "add-remove": "one person is there or not; the number of people stays secret",
}
_DEFAULT_TEST = 0.2


@dataclass(frozen=True)
class Budget:
    """What step 3 fixes; all of it is public."""

    epsilon: float = 1.0
    delta: float = 1e-6
    rows: int | None = None
    model: str = "logistic"
    adjacency: str = "replace-one"
    test_share: float | None = _DEFAULT_TEST

    @property
    def size_is_public(self) -> bool:
        """Whether the number of rows may be known."""
        return Adjacency.of(self.adjacency).size_is_public


def budget_from(form: Mapping[str, str], schema: Schema) -> Budget:
    """Return what the form of step 3 says; every fault is one sentence."""
    epsilon, delta = (_real(name, form.get(name, "")) for name in ("epsilon", "delta"))
    _validate.epsilon(epsilon)
    _validate.delta(delta)
    text = "".join(form.get("rows", "").split()).replace(",", "")
    if not text.isdecimal() or not 1 < int(text) < 10**12:
        raise InvalidParameter("about how many people are in the table must be a whole number.")
    model = _validate.choice("model", form.get("model", "logistic"), MODELS)
    adjacency = _validate.choice("relation", form.get("adjacency", "replace-one"), RELATIONS)
    _validate.delta_for(delta, int(text), "delta")
    share = None
    if form.get("test") == "yes" and schema.target_bounds is None:
        share = _DEFAULT_TEST
    return Budget(epsilon, delta, int(text), model, adjacency, share)


def _real(name: str, text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidParameter(f"{name} must be a number.") from None


def odds(epsilon: float, delta: float, guarantee: Guarantee | None = None) -> list[tuple[str, str]]:
    """Return how often a guess about one person is right: without the model, and at most with it.

    The guess may be wrong in 1, 5, 10 and 25 of 100 cases in which it should not be made.
    """
    # proof: TEST-POWER
    promised = guarantee or _Promise(epsilon, delta)
    found = []
    for alarm in (0.01, 0.05, 0.10, 0.25):
        power = math.ceil(1000.0 * attack_power(promised, alarm, []) - 1e-9) / 10.0  # type: ignore[arg-type]
        found.append((f"{alarm:.0%}", f"{power:.1f} %"))
    return found


@dataclass(frozen=True)
class _Promise:
    """The two numbers of a guarantee that does not exist yet."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Outlook:
    """What the page shows of a plan."""

    lost: int
    warning: str
    steps: list[tuple[str, str, str]]
    others: list[tuple[str, str]]
    idle: list[tuple[str, str]]
    seconds: float
    factor: str
    odds: list[tuple[str, str]]


def outlook_of(schema: Schema, budget: Budget) -> Outlook:
    """Return what a training with this budget would buy; no row is looked at."""
    rows = budget.rows
    assert rows is not None

    def outlook(**changes: Any) -> Any:
        shared = {
            "epsilon": budget.epsilon, "delta": budget.delta, "adjacency": budget.adjacency,
        }  # fmt: skip
        return table_outlook_of(
            schema, rows, model=budget.model, test_share=budget.test_share, **shared | changes
        )

    asked = outlook()
    found = others(outlook, budget.epsilon, budget.delta, budget.adjacency, rows)
    rate = math.exp(min(budget.epsilon, 50.0))
    return Outlook(
        lost=round(100.0 * asked.lost),
        warning=asked.warning,
        steps=[(f"{100.0 * s.part:.2g} %", NAMES[s.name], s.expected) for s in asked.steps],
        others=[(row["change"], _lost(row)) for row in found],
        idle=[(c.name, c.note) for c in asked.columns if not c.matters and c.kind != "ignore"],
        seconds=asked.seconds,
        factor=f"{rate:.3g}",
        odds=odds(budget.epsilon, budget.delta),
    )


def _lost(row: dict[str, Any]) -> str:
    return "not possible" if "refused" in row else f"{100.0 * row['lost']:.0f} %"
