"""One connection of each process to a PostgreSQL server; transactions that survive its loss."""

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from noisette.errors import LedgerError, MissingExtra, NoisetteError
from noisette.storage import chain

__all__ = ["FORMAT", "Database"]

FORMAT = 1
WAIT_SECONDS = 60
_CONNECT_SECONDS = 20
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_LOCKED = (
    f"{_BEGIN}; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"
)
# Something must be written, or its commit would not wait for the disk.
_FLUSH = (
    f"{_BEGIN}; SET LOCAL synchronous_commit = on; "
    "SELECT pg_logical_emit_message(true, 'noisette', ''); COMMIT"
)
_WRONG = (chain.Damaged, KeyError, TypeError, ValueError, OverflowError, AttributeError)

T = TypeVar("T")
_inherited: list[Any] = []  # connections of a parent: closing one here would end it there


class _LostAnswer(Exception):
    """The connection broke; what was sent may have been done."""


class Database:
    """The server at one address. `name` is for messages only."""

    def __init__(self, address: str, name: str) -> None:
        self._psycopg = _driver()
        self.address, self.name = address, name
        self._lock = threading.RLock()
        self._connection: Any = None
        self._process = os.getpid()

    @property
    def title(self) -> str:
        """The address for people: without user and password."""
        parts = urlsplit(self.address)
        return f"postgresql://{parts.hostname or 'localhost'}{parts.path}#{self.name}"

    def __del__(self) -> None:
        if getattr(self, "_process", None) == os.getpid():
            self._drop()

    def transaction(self, work: Callable[[Any], T], lock: str | None = None) -> T:
        """Do `work` in one transaction, again if the connection breaks or somebody was faster.

        `lock` names what nobody else may do at the same time; then `work` must see by itself that
        it was done before, and what it wrote is on the server's disk when this returns. The wait
        for the disk comes after the lock is free, so many who charge at once wait together: a
        commit that waits has written everything that was committed before it.
        """
        started, sent = time.monotonic(), False
        while True:
            try:
                with self._lock:
                    return self._attempt(work, lock)
            except _LostAnswer as error:
                sent = sent or error.args[1]
                if time.monotonic() - started > WAIT_SECONDS:
                    raise self._unreachable(error.args[0], sent=sent) from None
                time.sleep(0.05)
            except self._psycopg.errors.UniqueViolation:
                continue  # somebody without the lock was faster; look again
            except NoisetteError:
                raise
            except (self._psycopg.Error, chain.Newer, *_WRONG) as error:
                raise LedgerError(self._explain(error)) from error

    def _attempt(self, work: Callable[[Any], T], lock: str | None) -> T:
        connection, sent = self._connected(), False
        try:
            with connection.cursor() as cursor:
                cursor.execute(_BEGIN if lock is None else _BEGIN_LOCKED)
                try:
                    if lock is not None:  # a statement of its own: the next one sees what is there
                        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_key(lock),))
                    answer = work(cursor)
                    sent = True
                    cursor.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(self._psycopg.Error):
                        cursor.execute("ROLLBACK")
                    raise
                if lock is not None:
                    cursor.execute(_FLUSH)
                return answer
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            if not _broken(connection, error):
                raise
            self._drop()
            raise _LostAnswer(error, sent) from error
        except BaseException:
            if connection.closed:
                self._drop()
            raise

    def _connected(self) -> Any:
        """Return this process's own connection."""
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            try:
                self._connection = self._psycopg.connect(
                    self.address, autocommit=True, connect_timeout=_CONNECT_SECONDS,
                    application_name="noisette",
                )  # fmt: skip
            except self._psycopg.OperationalError as error:
                if _refused(error):
                    raise LedgerError(self._explain(error)) from None
                raise _LostAnswer(error, False) from None
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _unreachable(self, error: Exception, *, sent: bool) -> LedgerError:
        state = "It may have been charged" if sent else "Nothing was charged"
        return LedgerError(
            f"the server of {self.title} did not answer for {WAIT_SECONDS} seconds; see that it "
            f"runs and can be reached. {state}."
        )

    def _explain(self, error: Exception) -> str:
        errors, title = self._psycopg.errors, self.title
        advice = "is damaged or is not a noisette ledger; restore it from a backup"
        if isinstance(error, chain.Newer):
            advice = (
                f"was written by a newer noisette (format {error}, this one reads {FORMAT}); "
                "upgrade noisette"
            )
        elif isinstance(error, errors.InsufficientPrivilege):
            advice = (
                "cannot be used by this database user, who needs SELECT and INSERT on "
                "noisette_ledgers and noisette_records, and CREATE on the schema to start the first"
            )
        elif isinstance(error, errors.LockNotAvailable):
            advice = f"was busy for {WAIT_SECONDS} seconds; try again when others have finished"
        elif isinstance(error, errors.UndefinedColumn | errors.UndefinedTable):
            advice = (
                "has tables of another version of noisette; use that version, or a new database"
            )
        elif isinstance(error, self._psycopg.OperationalError):
            advice = "cannot be opened; check user, password and the name of the database"
        elif isinstance(error, self._psycopg.Error):
            advice = f"could not be written ({type(error).__name__})"
        return f"{title} {advice}. Nothing was charged."


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra(
            "a ledger in PostgreSQL needs psycopg; pip install 'noisette[postgres]'."
        ) from None
    return psycopg


def _key(text: str) -> int:
    """Return the number of an advisory lock: 64 bits with a sign."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _broken(connection: Any, error: Any) -> bool:
    """Whether the connection is gone, or the server says that it is going."""
    return bool(connection.closed or connection.broken) or (error.sqlstate or "").startswith(
        ("08", "57P")
    )


def _refused(error: Any) -> bool:
    """Whether the server answered, and said no: trying again would not help."""
    text = str(error)
    return any(word in text for word in ("authentication", "does not exist", "no pg_hba.conf"))
