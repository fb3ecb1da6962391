"""Where a ledger keeps its charges: in memory, in one file, or in a database."""

from noisette.core.storage.books import LedgerBooks, is_text, store_at
from noisette.core.storage.postgres import is_address, ledgers_at
from noisette.core.storage.records import RESTORE, Charge, Drawn, Draws, Header, Totals
from noisette.core.storage.stores import MemoryStore

__all__ = [
    "RESTORE", "Charge", "Drawn", "Draws", "Header", "LedgerBooks", "MemoryStore", "Totals",
    "is_address", "is_text", "ledgers_at", "store_at",
]  # fmt: skip
