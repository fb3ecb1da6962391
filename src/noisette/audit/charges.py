"""`check_charges`: what a ledger booked, computed again from the plans beside it."""

from noisette.core import accounting
from noisette.core.accounting.filters import FILTERS
from noisette.core.ledger import Ledger
from noisette.core.plans import Plan
from noisette.errors import LedgerError, NoisetteError

_ROUNDING = 1e-9


def check_charges(ledger: Ledger) -> None:
    """Raise if a charge costs less than its plan, whatever the file's digests say."""
    known: dict[tuple[str, tuple[float, float]], bool] = {}
    for number, charge in enumerate(ledger.charges, start=1):
        key = charge.plan, charge.cost
        if key not in known:
            known[key] = _is_paid(ledger, *key)
        if not known[key]:
            raise LedgerError(
                f"charge {number} costs less than its plan does, so {ledger.title} is damaged: "
                "somebody changed it, or an older noisette counted too low."
            )


def _is_paid(ledger: Ledger, text: str, cost: tuple[float, float]) -> bool:
    try:
        return _least(ledger, Plan.from_json(text), cost) * (1.0 - _ROUNDING) <= cost[0]
    except (NoisetteError, ArithmeticError, RecursionError):
        return False  # no plan that anybody could have charged


def _least(ledger: Ledger, plan: Plan, cost: tuple[float, float]) -> float:
    """Return the least first cost of a plan beside the second one that was booked."""
    plan = plan.under(ledger.adjacency)
    if ledger.rule != "sums":
        rule = FILTERS[ledger.rule](ledger.epsilon, ledger.delta)
        return rule.cost(plan, cost, ledger.adjacency)[0]
    reached = (
        accounting.delta(plan, epsilon=cost[0], adjacency=ledger.adjacency) if cost[0] else 1.0
    )
    if reached <= cost[1]:
        return cost[0]  # one curve, two readings, each rounded up: either is enough
    return accounting.epsilon(plan, delta=cost[1], adjacency=ledger.adjacency)
