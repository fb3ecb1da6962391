"""Where a ledger keeps its charges: in memory, in one file, or in a database."""

from noisette.core.storage.books import LedgerBooks, Store, is_text, open_store
from noisette.core.storage.postgres import is_address, ledgers_at
from noisette.core.storage.records import Charge, Drawn, Draws, Header, Totals
from noisette.core.storage.stores import MemoryStore

__all__ = [
    "Charge", "Drawn", "Draws", "Header", "LedgerBooks", "MemoryStore", "Store", "Totals",
    "is_address", "is_text", "ledgers_at", "open_store",
]  # fmt: skip
