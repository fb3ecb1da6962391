"""Where a ledger keeps its charges: in memory, in one file, or in a database."""

from noisette.core.storage.postgres import is_address, ledgers_at
from noisette.core.storage.records import Charge, Drawn

__all__ = ["Charge", "Drawn", "is_address", "ledgers_at"]
