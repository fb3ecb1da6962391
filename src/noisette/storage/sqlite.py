"""A ledger in one SQLite file, shared by many processes.

A charge is one transaction: read what is spent, check, insert, commit. SQLite's write lock makes
the check and the insert one step for all processes; ``synchronous=FULL`` makes a committed charge
survive a kill and a power cut. Each operation opens its own connection, so nothing is shared
across a fork and a killed process leaves nothing half-done.
"""

import contextlib
import math
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from noisette.errors import LedgerError
from noisette.storage.records import Charge, Check, CheckDrawn, Drawn, Draws, Header

__all__ = ["SqliteStore"]

SCHEMA = 1
APPLICATION_ID = 0x6E6F6973  # "nois": tells a ledger from any other SQLite file
_WAIT_SECONDS = 60.0


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[Callable[[Path, Path], None]]:
    """Let one process at a time start a ledger in `folder`; yield how to give it its name.

    Between looking at an empty file and taking its place somebody else could start a ledger there
    and charge it. The folder is locked, not the file: closing a file ends SQLite's locks on it.
    """
    try:
        import fcntl
    except ImportError:  # Windows, where renaming never takes another file's place
        yield os.rename
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield os.replace
    finally:
        os.close(handle)


class SqliteStore:
    """Charges in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header: Header | None = None
        self._seen: tuple[tuple[float, float], ...] = ()
        """The costs that this process has read or booked: none of them can go away."""

    def create_or_read(self, header: Header | None) -> Header:
        """Write `header` into a new file, or return the header that the file already has."""
        if not self.path.exists() and header is None:
            raise LedgerError(
                f"there is no ledger at {self.path}; open it with epsilon=... to start one."
            )
        if self.path.exists() and not self.path.is_file():  # a device would be replaced by a file
            raise LedgerError(f"{self.path} is not an ordinary file; nothing was written.")
        if not self.path.parent.is_dir():
            raise LedgerError(f"the folder {self.path.parent} does not exist; nothing was written.")
        if header is not None and (not self.path.exists() or self.path.stat().st_size == 0):
            self._create(header)
        with self._transaction(write=False) as connection:
            self._header = self._read_header(connection)
        return self._header

    def _create(self, header: Header) -> None:
        """Make a complete ledger under another name, then give it its own in one step.

        So nobody ever sees half a ledger, and of many processes that start one at once exactly
        one wins; a kill leaves at most a stray temporary file.
        """
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        except OSError as error:
            raise LedgerError(
                f"{self.path} cannot be written; make its folder writable. Nothing was charged."
            ) from error
        os.close(handle)
        draft = Path(name)
        try:
            self._fill(draft, header)
            with _alone_in(self.path.parent) as put:
                # An empty file is nobody's ledger. Renamed, not linked: one file, one name.
                if not self.path.exists() or self.path.stat().st_size == 0:
                    put(draft, self.path)
        except FileExistsError:
            pass  # somebody else has started it
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(self._explain(error)) from error
        finally:
            draft.unlink(missing_ok=True)

    @staticmethod
    def _fill(draft: Path, header: Header) -> None:
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # kept in the file for good
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            connection.execute(
                "CREATE TABLE header (epsilon REAL, delta REAL, adjacency TEXT, rule TEXT)"
            )
            connection.execute(
                "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, "
                "plan TEXT NOT NULL, first REAL NOT NULL, second REAL NOT NULL, "
                "booked TEXT DEFAULT CURRENT_TIMESTAMP)"
            )
            connection.execute("INSERT INTO header VALUES (?, ?, ?, ?)", header)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")

    def charges(self) -> list[Charge]:
        """Return all charges in the order of booking."""
        seen = self._seen  # before the transaction: all of it was committed earlier
        with self._transaction(write=False) as connection:
            charges = self._all(connection, seen)
        self._remember(charges)
        return charges

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Insert `charge` if `check` passes, in one transaction; return its number."""
        seen = self._seen
        with self._transaction(write=True) as connection:
            self._check_header(connection)
            known = self._all(connection, seen)
            check([old.cost for old in known])
            added = connection.execute(
                "INSERT INTO charges (label, plan, first, second) VALUES (?, ?, ?, ?)",
                (charge.label, charge.plan, *charge.cost),
            )
            number = int(added.lastrowid or 0)
            if draws is not None:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS draws (charge INTEGER PRIMARY KEY, epsilon REAL, "
                    "delta REAL, holder TEXT, drawn TEXT)"
                )
                row = (number, draws.epsilon, draws.delta, draws.holder, draws.drawn.to_text())
                connection.execute("INSERT INTO draws VALUES (?, ?, ?, ?, ?)", row)
        self._remember([*known, charge])
        return number

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Write down, before it happens, what `holder` may have drawn under a charge."""
        with self._transaction(write=True) as connection:
            self._check_header(connection)
            changed = connection.execute(
                "UPDATE draws SET drawn = ? WHERE charge = ? AND holder = ?",
                (drawn.to_text(), number, holder),
            )
            if changed.rowcount != 1:
                raise LedgerError(
                    "this run was resumed elsewhere, so it may draw no more noise here; stop it."
                )

    def claim(
        self, number: int, holder: str, check: CheckDrawn | None = None
    ) -> tuple[Charge, Draws]:
        """Make `holder` the only one who may go on drawing under a charge, if `check` passes."""
        with self._transaction(write=True) as connection:
            self._check_header(connection)
            row = None
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'draws'").fetchone():
                row = connection.execute(
                    "SELECT label, plan, first, second, epsilon, delta, holder, drawn FROM draws "
                    "JOIN charges ON charges.id = draws.charge WHERE draws.charge = ?",
                    (number,),
                ).fetchone()
            if row is None:
                raise LedgerError(f"{self.path} has no run with number {number} to be resumed.")
            connection.execute("UPDATE draws SET holder = ? WHERE charge = ?", (holder, number))
            label, plan, first, second, epsilon, delta, before, text = row
            try:
                drawn = Drawn.from_text(text)
            except (TypeError, ValueError):
                raise self._damaged() from None
            if check is not None:
                check(drawn)  # what it raises undoes the claim
            return Charge(label, plan, (first, second)), Draws(epsilon, delta, before, drawn)

    def _all(
        self, connection: sqlite3.Connection, seen: tuple[tuple[float, float], ...]
    ) -> list[Charge]:
        """Return all charges; refuse a file from which a charge is missing."""
        rows = connection.execute(
            "SELECT id, label, plan, first, second FROM charges ORDER BY id"
        ).fetchall()
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charges'")
        if [row[0] for row in rows] != list(range(1, (last.fetchone() or (0,))[0] + 1)):
            raise self._damaged()
        charges = [Charge(label, plan, (first, second)) for _, label, plan, first, second in rows]
        for charge in charges:
            if not all(isinstance(part, float) and 0.0 <= part < math.inf for part in charge.cost):
                raise self._damaged()
        if tuple(charge.cost for charge in charges[: len(seen)]) != seen:
            raise LedgerError(
                f"{self.path} lacks charges that it had before, so it was replaced by an older "
                "or another file; put the right one back. Nothing was charged."
            )
        return charges

    def _remember(self, charges: list[Charge]) -> None:
        if len(charges) > len(self._seen):
            self._seen = tuple(charge.cost for charge in charges)

    def _check_header(self, connection: sqlite3.Connection) -> None:
        if self._read_header(connection) != self._header:
            raise LedgerError(
                f"{self.path} is no longer the ledger that was opened; open it again. "
                "Nothing was charged."
            )

    def _read_header(self, connection: sqlite3.Connection) -> Header:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise LedgerError(f"{self.path} is a database, but not a noisette ledger.")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise LedgerError(
                f"{self.path} was written by a newer noisette (schema {version}, this one reads "
                f"{SCHEMA}); upgrade noisette."
            )
        rows = connection.execute("SELECT epsilon, delta, adjacency, rule FROM header").fetchall()
        if len(rows) != 1 or [type(value) for value in rows[0]] != [float, float, str, str]:
            raise self._damaged()
        return Header(*rows[0])

    @contextlib.contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.as_uri()}?mode=rw"  # never create a file by looking at it
        if write and self.path.exists() and self.path.stat().st_nlink > 1:
            # SQLite keeps its locks beside each name: through two names two may write at once.
            raise LedgerError(
                f"{self.path} has a second name (a hard link), through which it could be charged "
                "unseen; remove one of them. Nothing was charged."
            )
        try:
            with contextlib.closing(
                sqlite3.connect(address, timeout=_WAIT_SECONDS, isolation_level=None, uri=True)
            ) as connection:
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

    def _damaged(self) -> LedgerError:
        return LedgerError(self._explain(sqlite3.DatabaseError("damaged")))

    def _explain(self, error: Exception) -> str:
        text = str(error).lower()
        advice = "is damaged or is not a noisette ledger; restore it from a backup"
        if "locked" in text or "busy" in text:
            advice = (
                f"was busy for {_WAIT_SECONDS:.0f} seconds; try again when others have finished"
            )
        elif not self.path.exists():
            advice = "is gone; restore it from a backup"
        elif "readonly" in text or "read-only" in text or "unable to open" in text:
            advice = "cannot be written; make the file and its folder writable"
        elif "full" in text or "i/o" in text or isinstance(error, OSError):
            advice = "could not be written; the disk is full or failing"
        return f"{self.path} {advice}. Nothing was charged."
