"""`check_charges`: what a ledger booked, computed again from the plans beside it."""

from noisette import accounting
from noisette.accounting.filters import FILTERS
from noisette.errors import LedgerError, NoisetteError
from noisette.plans import Plan
from noisette.privacy import Ledger

__all__ = ["check_charges"]

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
                f"charge {number} costs less than its plan does; somebody changed the ledger, or "
                "an older noisette counted it too low."
            )


def _is_paid(ledger: Ledger, text: str, cost: tuple[float, float]) -> bool:
    try:
        plan = Plan.from_json(text).under(ledger.adjacency)
    except NoisetteError:
        return False
    if ledger.rule != "sums":
        rule = FILTERS[ledger.rule](ledger.epsilon, ledger.delta)
        least = rule.cost(plan, cost, ledger.adjacency)[0]
    elif cost[0] > 0.0 and _delta_of(plan, cost[0], ledger) <= cost[1]:
        return True  # one curve, two readings, each rounded up: either is enough
    else:
        least = accounting.epsilon(plan, delta=cost[1], adjacency=ledger.adjacency)
    return least * (1.0 - _ROUNDING) <= cost[0]


def _delta_of(plan: Plan, epsilon: float, ledger: Ledger) -> float:
    return accounting.delta(plan, epsilon=epsilon, adjacency=ledger.adjacency)
