"""Step 3: what a budget promises and what it leaves to learn, from public facts alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.tables import Schema

if TYPE_CHECKING:
    from noisette.core.guarantee import Guarantee

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
    share = _DEFAULT_TEST if form.get("test") == "yes" else None
    return Budget(epsilon, delta, int(text), model, adjacency, share)


def _real(name: str, text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidParameter(f"{name} must be a number.") from None


@dataclass(frozen=True)
class Forecast:
    """What the page shows of a plan; `gain` is the table of the report about an attacker."""

    lost: int
    weak: str
    warning: str
    steps: list[tuple[str, str, str]]
    others: list[tuple[str, str]]
    idle: list[tuple[str, str]]
    seconds: float
    promise: str
    gain: Markup


_REMEMBERED: dict[tuple[str, Budget], Forecast] = {}
_MOST = 200


def forecast_of(schema: Schema, budget: Budget) -> Forecast:
    """Return what a training with this budget would buy; no row is looked at.

    Asked again, it is not computed again.
    """
    key = schema.fingerprint, budget
    if key not in _REMEMBERED:
        if len(_REMEMBERED) >= _MOST:
            _REMEMBERED.clear()
        _REMEMBERED[key] = _forecast_of(schema, budget)
    return _REMEMBERED[key]


def _forecast_of(schema: Schema, budget: Budget) -> Forecast:
    # imported late: the first pages need none of it, and it takes a second
    from noisette.app.commands.outlooks import others
    from noisette.app.commands.plan import table_outlook_of
    from noisette.core.guarantee import Guarantee, too_large
    from noisette.report.decision import attacker
    from noisette.report.numbers import curve_of
    from noisette.tables.pipeline.table_outlook import NAMES

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
    persons = schema.persons
    promised = Guarantee(
        budget.epsilon, budget.delta, asked.plan.under(Adjacency.of(budget.adjacency)), "a model",
        unit="record" if persons is None else "person",
        max_rows=None if persons is None else persons.max_rows,
    )  # fmt: skip
    return Forecast(
        lost=round(100.0 * asked.lost),
        weak=too_large(budget.epsilon),
        warning=asked.warning.replace('(kind = "ignore")', "(“leave it out” in step 2)"),
        steps=[(f"{100.0 * s.part:.2g} %", NAMES[s.name], s.expected) for s in asked.steps],
        others=[(_words(row["change"]), _lost(row)) for row in found],
        idle=[(c.name, c.note) for c in asked.columns if c.used and not c.matters],
        seconds=asked.seconds,
        promise=_promise(promised),
        gain=Markup(attacker(promised, curve_of(promised))),  # escaped by the kit of the report
    )


def _promise(guarantee: "Guarantee") -> str:
    """Return the promise in the words of the report."""
    from noisette.report.decision import delta_words, factor_words, were_changed

    condition = were_changed(guarantee.adjacency, guarantee.unit)
    more = f", plus {delta_words(guarantee.delta)}" if guarantee.delta else ""
    return (
        f"{condition}, the probability of whatever can be concluded from the model would change "
        f"by at most {factor_words(guarantee.epsilon)}{more}."
    )


def _words(change: str) -> str:
    """Return a change in the signs of the page."""
    change = change.replace("epsilon", "ε").replace("delta", "δ").replace("e-0", "e-")
    return f"relation {change}" if change in RELATIONS else change


def _lost(row: dict[str, Any]) -> str:
    return "not possible" if "refused" in row else f"{100.0 * row['lost']:.0f} %"
