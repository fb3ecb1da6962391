"""`check_receipts` and `check_charges`: do a ledger, its plans and the results belong together?"""

import hashlib
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from noisette import _files
from noisette.core import accounting
from noisette.core.accounting.filters import FILTERS
from noisette.core.ledger import Ledger
from noisette.core.plans import Plan
from noisette.errors import InvalidData, InvalidParameter, LedgerError, NoisetteError
from noisette.models.files import RECEIPT

_LONGEST = 1 << 20
_FIELDS = {"format": int, "ledger": str, "charge": int, "before": str, "after": str}
_DRAFT = ".noisette-draft-"


class Findings(NamedTuple):
    """What does not fit: sentences about files, and numbers of charges."""

    set_back: list[str]
    """Receipts of charges that the ledger does not have, though it gave them."""
    unpaid: list[str]
    """Models without a receipt, and files that are not what their charge paid for."""
    uncollected: list[int]
    """Charges of which nobody has noted a result, and of which none lies here."""
    others: int
    """Receipts of other ledgers."""


def check_receipts(ledger: Ledger, folder: Path) -> Findings:
    """Compare a ledger with the receipts and models in a folder and in all folders below."""
    if not folder.is_dir():
        raise InvalidParameter(f"{folder} is no folder; give the one that holds the models.")
    charges = list(enumerate(ledger.charges, 1))
    paid = {k: charge.collected for k, charge in charges if charge.collected not in ("", "unknown")}
    set_back, unpaid, others, shown = list[str](), list[str](), 0, set[Path]()
    for file in _ordinary(folder, "*.json"):
        try:
            receipt = read_receipt(file)
        except InvalidData as error:
            unpaid.append(str(error))
            continue
        if receipt is None:
            continue
        results = [file] if file.name != RECEIPT else _ordinary(file.parent, "*.noisette", deep=0)
        shown.update(results)
        number = receipt["charge"]
        if receipt["ledger"] != ledger.id:
            others += 1
        elif not _has(ledger, receipt):
            set_back.append(f"{file} shows charge {number}, which is not in {ledger.title}")
        else:
            digests = [hashlib.sha256(result.read_bytes()).hexdigest() for result in results]
            if digests:  # one that the ledger has not noted is the only one, too
                paid.setdefault(number, digests[0])
            if not digests or set(digests) != {paid[number]}:
                unpaid.append(f"{file} lies beside something else than charge {number} paid for")
    unpaid += [
        f"{model} has no receipt" for model in _ordinary(folder, "*.noisette") if model not in shown
    ]
    lost = [k for k, charge in charges if not charge.collected and k not in paid]
    return Findings(set_back, unpaid, lost, others)


def read_receipt(file: Path) -> dict[str, Any] | None:
    """Return the receipt that a file is, or that a file of scores has; None for another file."""
    try:
        node = _files.from_json(_files.read(file, "receipt", _LONGEST))
    except (ValueError, InvalidParameter):
        node = None
    if file.name != RECEIPT:
        node = node.get("receipt") if isinstance(node, dict) else None
        if node is None:
            return None
    if not isinstance(node, dict) or {key: type(node[key]) for key in node} != _FIELDS:
        raise InvalidData(f"{file} is no receipt of noisette.")
    return node


def _ordinary(folder: Path, pattern: str, *, deep: int = 1) -> list[Path]:
    """Return the files of a name in a folder, or also below; what is in a draft has no name yet."""
    found = folder.rglob(pattern) if deep else folder.glob(pattern)
    return sorted(
        file for file in found
        if file.is_file() and not any(_DRAFT in part for part in file.relative_to(folder).parts)
    )  # fmt: skip


def _has(ledger: Ledger, receipt: dict[str, Any]) -> bool:
    try:
        return ledger.receipt(receipt["charge"]) == receipt
    except (LedgerError, InvalidParameter):
        return False


_ROUNDING = 1e-9


def check_charges(ledger: Ledger) -> None:
    """Raise if a charge costs less than its plan, whatever the file's digests say."""
    paid = cache(partial(_is_paid, ledger))
    for number, charge in enumerate(ledger.charges, start=1):
        if not paid(charge.plan, charge.cost):
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
