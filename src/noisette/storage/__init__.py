"""Where a ledger keeps its charges: in memory, or in one SQLite file shared by many processes."""

from noisette.storage.memory import MemoryStore
from noisette.storage.records import Charge, Drawn, Draws, Header, Store
from noisette.storage.sqlite import SqliteStore

__all__ = ["Charge", "Drawn", "Draws", "Header", "MemoryStore", "SqliteStore", "Store"]
