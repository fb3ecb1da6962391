"""A ledger in memory: for one process, while it lives."""

import os
import threading

from noisette.errors import LedgerError
from noisette.storage.records import Charge, Check, CheckDrawn, Drawn, Draws

__all__ = ["MemoryStore"]


class MemoryStore:
    """Charges of one process, guarded by a lock; never copied into another process."""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def charges(self) -> list[Charge]:
        """Return all charges in the order of booking."""
        return list(self._charges)

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Append `charge` if `check` passes; return its number, counted from 1."""
        if draws is not None:
            raise self._cannot_resume()
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory belongs to one process; use Ledger.open(path) to share one."
            )
        with self._lock:
            check([known.cost for known in self._charges])
            self._charges.append(charge)
            return len(self._charges)

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Refuse: memory does not outlive its process."""
        raise self._cannot_resume()

    def claim(
        self, number: int, holder: str, check: CheckDrawn | None = None
    ) -> tuple[Charge, Draws]:
        """Refuse: memory does not outlive its process."""
        raise self._cannot_resume()

    @staticmethod
    def _cannot_resume() -> LedgerError:
        return LedgerError(
            "a run can be resumed only with a ledger in a file; use Ledger.open(path, ...). "
            "Nothing was charged."
        )
