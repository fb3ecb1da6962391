"""Where a ledger keeps its charges: in memory, in one file, or in a database."""

from noisette.core.storage.books import LedgerBooks, is_text
from noisette.core.storage.file import FileStore
from noisette.core.storage.memory import MemoryStore
from noisette.core.storage.opening import open_store
from noisette.core.storage.postgres import PostgresStore, is_address, ledgers_at
from noisette.core.storage.records import Charge, Drawn, Draws, Header, Receipt, Store, Totals

__all__ = [
    "Charge",
    "Drawn",
    "Draws",
    "FileStore",
    "Header",
    "LedgerBooks",
    "MemoryStore",
    "PostgresStore",
    "Receipt",
    "Store",
    "Totals",
    "is_address",
    "is_text",
    "ledgers_at",
    "open_store",
]
