"""A ledger in memory: for one process, while it lives."""

import os
import threading
from pathlib import Path
from typing import Any, NoReturn

from noisette.core.storage.records import (
    Charge,
    Check,
    CheckDrawn,
    Drawn,
    Draws,
    Receipt,
    Totals,
    is_news,
    no_charge,
    one_unit,
)
from noisette.errors import LedgerError


class MemoryStore:
    """Charges of one process, guarded by a lock; never copied into another process."""

    path = None
    title = "memory"
    lasting = False
    id = ""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._totals = Totals()
        self._notes: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def totals(self) -> Totals:
        """Return the number of charges and their exact sums."""
        return self._totals

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count` of them."""
        return self._charges[first - 1 :][:count]

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Append `charge` if `check` passes; return its number, counted from 1."""
        if draws is not None:
            raise self._cannot_resume()
        if os.getpid() != self._process:
            raise self._not_here()
        with self._lock:
            one_unit(self._charges[-1].unit if self._charges else "", charge)
            check(self._totals)
            self._charges.append(charge)
            self._totals = self._totals.plus(charge.cost)
            return len(self._charges)

    def mark_seeded(self, number: int) -> None:
        """Note that the noise of a charge comes from a seed."""
        with self._lock:
            self._charges[number - 1] = self._charges[number - 1]._replace(seeded=True)

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Refuse: memory does not outlive its process."""
        raise self._cannot_resume()

    def run(self, number: int) -> tuple[Charge, Draws]:
        """Refuse: memory does not outlive its process."""
        raise self._cannot_resume()

    def claim(self, number: int, holder: str, check: CheckDrawn | None = None) -> Drawn:
        """Refuse: memory does not outlive its process."""
        raise self._cannot_resume()

    def collect(self, number: int, digest: str, label: str) -> None:
        """Note the digest of the result that a charge paid for."""
        with self._lock:
            if not 1 <= number <= len(self._charges):
                raise no_charge(self.title, number)
            if is_news(self._charges[number - 1], number, digest):
                self._charges[number - 1] = self._charges[number - 1]._replace(collected=digest)

    def receipt(self, number: int) -> Receipt | None:
        """Return None: what ends with its process can be shown to nobody."""
        return None

    def note(self, node: dict[str, Any]) -> None:
        """Add a record that costs nothing."""
        self._notes.append(node)

    def notes(self) -> list[dict[str, Any]]:
        """Return the records that are about no charge."""
        return list(self._notes)

    def others(self) -> list[str]:
        """Return nothing: other ledgers in memory belong to others."""
        return []

    def copy_to(self, target: Path) -> None:
        """Refuse: there is no file."""
        raise LedgerError("a ledger in memory has no file to copy.")

    def __reduce__(self) -> NoReturn:
        raise self._not_here()  # two copies would allow twice the budget

    @staticmethod
    def _not_here() -> LedgerError:
        return LedgerError(
            "a ledger in memory belongs to one process; use Ledger.open(path) to share one."
        )

    @staticmethod
    def _cannot_resume() -> LedgerError:
        return LedgerError(
            "a run can be resumed only with a ledger in a file; use Ledger.open(path, ...). "
            "Nothing was charged."
        )
