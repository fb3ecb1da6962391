"""Where a ledger keeps its charges: in memory, or in one file shared by many processes."""

from noisette.storage.file import FileStore
from noisette.storage.memory import MemoryStore
from noisette.storage.records import Charge, Drawn, Draws, Header, Store, Totals

__all__ = ["Charge", "Drawn", "Draws", "FileStore", "Header", "MemoryStore", "Store", "Totals"]
