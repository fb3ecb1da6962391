"""Where a ledger keeps its charges: in memory, or in one SQLite file shared by many processes.

A charge is one transaction: read what is spent, check, insert, commit. SQLite's write lock makes
the check and the insert one step for all processes; ``synchronous=FULL`` makes a committed charge
survive a kill and a power cut. Each operation opens its own connection, so nothing is shared
across a fork and a killed process leaves nothing half-done.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from noisette.errors import LedgerError

__all__ = ["Charge", "Header", "MemoryStore", "SqliteStore", "Store"]

SCHEMA = 1
APPLICATION_ID = 0x6E6F6973  # "nois": tells a ledger from any other SQLite file
_WAIT_SECONDS = 60.0


class Header(NamedTuple):
    """What is fixed when a ledger is opened for the first time."""

    epsilon: float
    delta: float
    adjacency: str
    rule: str


class Charge(NamedTuple):
    """One booked charge."""

    label: str
    plan: str
    cost: tuple[float, float]


Check = Callable[[list[tuple[float, float]]], None]


class Store(Protocol):
    """Reads all charges; books one after `check` has passed on everything spent so far."""

    def charges(self) -> list[Charge]: ...  # noqa: D102
    def book(self, charge: Charge, check: Check) -> None: ...  # noqa: D102


class MemoryStore:
    """Charges of one process, guarded by a lock; never copied into another process."""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def charges(self) -> list[Charge]:
        """Return all charges in the order of booking."""
        return list(self._charges)

    def book(self, charge: Charge, check: Check) -> None:
        """Append `charge` if `check` passes."""
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory belongs to one process; use Ledger.open(path) to share one."
            )
        with self._lock:
            check([known.cost for known in self._charges])
            self._charges.append(charge)


class SqliteStore:
    """Charges in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create_or_read(self, header: Header | None) -> Header:
        """Write `header` into a new file, or return the header that the file already has."""
        exists = self.path.exists()
        if not exists and header is None:
            raise LedgerError(
                f"there is no ledger at {self.path}; open it with epsilon=... to start one."
            )
        if not exists and not self.path.parent.is_dir():
            raise LedgerError(f"the folder {self.path.parent} does not exist; nothing was written.")
        with self._transaction(write=header is not None) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version == 0 and tables == 0 and header is not None:
                # A fresh file, or one whose first opening was killed before it could commit.
                connection.execute(
                    "CREATE TABLE header (epsilon REAL, delta REAL, adjacency TEXT, rule TEXT)"
                )
                connection.execute(
                    "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT, "
                    "plan TEXT, first REAL, second REAL, booked TEXT DEFAULT CURRENT_TIMESTAMP)"
                )
                connection.execute("INSERT INTO header VALUES (?, ?, ?, ?)", header)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                return header
            self._require_ours(connection, version)
            return Header(*connection.execute("SELECT * FROM header").fetchone())

    def charges(self) -> list[Charge]:
        """Return all charges in the order of booking."""
        with self._transaction(write=False) as connection:
            return self._all(connection)

    def book(self, charge: Charge, check: Check) -> None:
        """Insert `charge` if `check` passes, in one transaction."""
        with self._transaction(write=True) as connection:
            check([known.cost for known in self._all(connection)])
            connection.execute(
                "INSERT INTO charges (label, plan, first, second) VALUES (?, ?, ?, ?)",
                (charge.label, charge.plan, *charge.cost),
            )

    @staticmethod
    def _all(connection: sqlite3.Connection) -> list[Charge]:
        rows = connection.execute("SELECT label, plan, first, second FROM charges ORDER BY id")
        return [Charge(label, plan, (first, second)) for label, plan, first, second in rows]

    def _require_ours(self, connection: sqlite3.Connection, version: int) -> None:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise LedgerError(f"{self.path} is a database, but not a noisette ledger.")
        if version > SCHEMA:
            raise LedgerError(
                f"{self.path} was written by a newer noisette (schema {version}, this one reads "
                f"{SCHEMA}); upgrade noisette."
            )

    @contextlib.contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(
                sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            ) as connection:
                if write:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(self._explain(error)) from error

    def _explain(self, error: sqlite3.Error) -> str:
        text = str(error)
        if "locked" in text or "busy" in text:
            return (
                f"{self.path} was busy for {_WAIT_SECONDS:.0f} seconds; try again when other "
                "processes have finished. Nothing was charged."
            )
        if "readonly" in text or "read-only" in text or "unable to open" in text:
            return (
                f"{self.path} cannot be written; make the file and its folder writable. "
                "Nothing was charged."
            )
        return (
            f"{self.path} is damaged or is not a noisette ledger; restore it from a backup. "
            "Nothing was charged."
        )
