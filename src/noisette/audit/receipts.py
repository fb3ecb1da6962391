"""`check_receipts`: whether a ledger and the results that lie about belong to each other."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from noisette.errors import InvalidParameter, LedgerError
from noisette.privacy import Ledger

__all__ = ["Findings", "check_receipts"]

_RECEIPT = "receipt.json"
_LONGEST = 1 << 20


class Findings(NamedTuple):
    """What does not fit: sentences about files, and numbers of charges."""

    set_back: list[str]
    """Receipts of charges that the ledger does not have, though it gave them."""
    unpaid: list[str]
    """Models without a receipt, and files that are not what their charge paid for."""
    uncollected: list[int]
    """Charges whose result nobody has kept."""
    others: int
    """Receipts of other ledgers."""


def check_receipts(ledger: Ledger, folder: Path) -> Findings:
    """Compare a ledger with the receipts and models in a folder and in all folders below."""
    if not folder.is_dir():
        raise InvalidParameter(f"{folder} is no folder; give the one that holds the models.")
    charges = ledger.charges
    open_ = [number for number, charge in enumerate(charges, 1) if not charge.collected]
    found = Findings([], [], open_, 0)
    shown = set[Path]()
    for file, receipt in _receipts(folder):
        results = [file]
        if file.name == _RECEIPT:
            results = [path for path in sorted(file.parent.iterdir()) if path != file]
            shown |= set(results)
        if receipt.get("ledger") != ledger.id:
            found = found._replace(others=found.others + 1)
        elif not _has(ledger, receipt):
            found.set_back.append(
                f"{file} shows charge {_number(receipt)}, which is not in {ledger.title}"
            )
        else:
            number = int(receipt["charge"])
            digest = charges[number - 1].collected
            if digest not in ("", "unknown") and digest not in map(_digest, results):
                found.unpaid.append(f"{file} lies beside nothing that charge {number} paid for")
    for model in sorted(folder.rglob("*.noisette")):
        if model not in shown:
            found.unpaid.append(f"{model} has no receipt")
    return found


def _receipts(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the receipts: files of that name, and those within files of scores."""
    for file in sorted(folder.rglob("*.json")):
        if not file.is_file() or file.stat().st_size > _LONGEST:
            continue
        try:
            node = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            node = None
        if file.name != _RECEIPT:
            node = node.get("receipt") if isinstance(node, dict) else None
        elif not isinstance(node, dict):
            node = {}  # it says nothing, and nothing beside it is shown to be paid
        if isinstance(node, dict):
            yield file, node


def _number(receipt: dict[str, Any]) -> str:
    number = receipt.get("charge")
    return str(number)[:20] if type(number) is int else "?"


def _has(ledger: Ledger, receipt: dict[str, Any]) -> bool:
    try:
        return ledger.receipt(receipt.get("charge")) == receipt  # type: ignore[arg-type]
    except (LedgerError, InvalidParameter):
        return False


def _digest(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
