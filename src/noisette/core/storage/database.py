"""One connection of each process to a PostgreSQL server; transactions that survive its loss."""

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from noisette.core.storage import chain
from noisette.core.storage.counting import FUNCTION
from noisette.core.storage.stores import T, advice_on
from noisette.errors import LedgerError, MissingExtra, NoisetteError

WAIT_SECONDS = 60
_CONNECT_SECONDS = 20
# A network that swallows everything is noticed too; the address may say otherwise.
_PATIENCE = {
    "connect_timeout": _CONNECT_SECONDS, "application_name": "noisette", "keepalives_idle": 15,
    "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000,
}  # fmt: skip
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_LOCK = (
    "SELECT set_config('synchronous_commit', 'off', true), "
    f"set_config('lock_timeout', '{WAIT_SECONDS}s', true), pg_advisory_xact_lock(%s)"
)
# Something must be written, or its commit would not wait for the disk.
_FLUSH = (
    "SELECT set_config('synchronous_commit', 'on', true), "
    "pg_logical_emit_message(true, 'noisette', '')"
)

_OTHER_TABLES = "has tables of another version of noisette; use that version, or a new database"
_ADVICE = {
    "InsufficientPrivilege": "cannot be used by this database user, who needs SELECT on "
    f"noisette_ledgers and noisette_records and EXECUTE on {FUNCTION}; only their owner starts a "
    "ledger",
    "UndefinedFunction": "has tables of an earlier noisette and can only be read; let their owner "
    "open it once: noisette ledger ADDRESS",
    "LockNotAvailable": f"was busy for {WAIT_SECONDS} seconds; try again when others have finished",
    "UndefinedColumn": _OTHER_TABLES,
    "UndefinedTable": _OTHER_TABLES,
    "ReadOnlySqlTransaction": "can only be read on this server, a standby perhaps; charge the main "
    "server",
}
_SILENT = {  # when no server has answered
    "OperationalError": "cannot be opened; check user, password and the name of the database",
    "ProgrammingError": "is no address of a database; write postgresql://user@host/database#name",
}

# What a server answers that says no: trying again would not help.
_REFUSED = "authentication", "does not exist", "no pg_hba.conf"
_inherited: list[Any] = []  # connections of a parent: closing one here would end it there


class _LostAnswer(Exception):
    """The connection broke; what was sent may have been done."""


class Database:
    """The server at one address. `name` is for messages only."""

    def __init__(self, address: str, name: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra(
                "a ledger in PostgreSQL needs psycopg; pip install 'noisette[postgres]'."
            ) from None
        self._psycopg: Any = psycopg
        parts = urlsplit(address)
        self.address = address
        self.title = f"postgresql://{parts.hostname or 'localhost'}{parts.path}#{name}"
        """The address for people: without user and password."""
        self._lock = threading.RLock()
        self._connection: Any = None
        self._heard: list[str] = []
        self._process = os.getpid()

    def __del__(self) -> None:
        if getattr(self, "_process", None) == os.getpid():
            self._drop()

    def transaction(self, work: Callable[[Any], T], lock: str | None = None) -> T:
        """Do `work` in one transaction, again if the connection breaks or somebody was faster.

        `lock` names what nobody else may do at the same time; then `work` must see by itself that
        it was done before, and what it wrote is on the server's disk when this returns. The wait
        for the disk comes after the lock is free, so many who charge at once wait together: the
        server writes its log in order, so a commit that waits has written all earlier ones.
        """
        started, sent = time.monotonic(), False
        while True:
            commits: list[Any] = []
            try:
                if self._process != os.getpid():
                    # A forked connection would mix two conversations; and a child has a lock of its
                    # own, for a thread of the parent may hold ours.
                    _inherited.append(self._connection)
                    self._connection, self._process = None, os.getpid()
                    self._lock = threading.RLock()
                with self._lock:
                    return self._attempt(work, lock, commits)
            except _LostAnswer as error:
                sent = sent or error.args[1]
                if time.monotonic() - started > WAIT_SECONDS:
                    raise LedgerError(
                        f"the server of {self.title} did not answer for {WAIT_SECONDS} seconds; "
                        f"see that it runs and can be reached{_state(sent)}"
                    ) from None
                time.sleep(0.05)
            except self._psycopg.errors.UniqueViolation:
                continue  # somebody without the lock was faster; look again
            except NoisetteError:
                raise
            except (self._psycopg.Error, chain.Newer, *chain.WRONG) as error:
                # What the driver says of an address may quote its password.
                quiet = isinstance(error, self._psycopg.Error) and error.sqlstate is None
                done = lock is not None and _done(commits)  # who only reads charges nothing
                raise LedgerError(self._explain(error) + _state(sent or done)) from (
                    None if quiet else error
                )

    def _attempt(self, work: Callable[[Any], T], lock: str | None, commits: list[Any]) -> T:
        connection = self._connected()
        self._heard.clear()
        try:
            answer = self._pipelined(connection, work, lock, commits)
            if "WARNING" in self._heard and lock is not None:
                # An administrator can end the wait for a standby's disk; the commit then succeeds
                # with a warning. Asked again, as after a lost answer, it is waited for again.
                raise self._psycopg.OperationalError("the server may not have waited for its disk")
            return answer
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            leaving = (error.sqlstate or "").startswith(("08", "57P"))
            broken = connection.closed or connection.broken or leaving
            if not broken and not _done(commits):
                self._roll_back(connection)
                raise
            self._drop()
            raise _LostAnswer(error, bool(commits) and lock is not None) from error
        except (NoisetteError, self._psycopg.Error, chain.Newer, *chain.WRONG):
            self._roll_back(connection)
            raise
        except BaseException:  # Ctrl-C, say: there may be answers on the way to nobody
            self._drop()
            raise

    def _roll_back(self, connection: Any) -> None:
        with contextlib.suppress(self._psycopg.Error):
            connection.execute("ROLLBACK")
        if connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
            self._drop()

    def _pipelined(
        self, connection: Any, work: Callable[[Any], T], lock: str | None, commits: list[Any]
    ) -> T:
        """Send statements without waiting for the answers, until `work` reads one or it ends.

        So a charge waits twice for the server: for the last record under the lock, and for the
        disk. An error leaves out all statements behind it.
        """
        failure: BaseException | None = None
        try:
            with connection.pipeline():
                try:
                    connection.execute(_BEGIN)
                    if lock is not None:  # a statement of its own: the next sees what is there
                        digest = hashlib.sha256(lock.encode()).digest()
                        key = int.from_bytes(digest[:8], "big", signed=True)
                        connection.execute(_LOCK, (key,))
                    answer = work(connection)
                    _commit(connection, commits)
                    if lock is not None:
                        connection.execute(_BEGIN)
                        connection.execute(_FLUSH)
                        _commit(connection, commits)
                except BaseException as error:
                    failure = error  # raised below: the pipeline would log a second one
        except self._psycopg.Error as error:
            failure = failure or error
        try:
            if failure is not None:
                raise failure
        finally:
            failure = None  # or it and this frame would keep each other, and the connection, alive
        if any(commit.statusmessage != "COMMIT" for commit in commits):
            raise self._psycopg.OperationalError("the server did not commit")
        return answer

    def _connected(self) -> Any:
        """Return this process's own connection."""
        if self._connection is None:
            try:
                given = self._psycopg.conninfo.conninfo_to_dict(self.address)
                self._connection = self._psycopg.connect(**_PATIENCE | given, autocommit=True)
                heard = self._heard  # and not the `Database`, which closes it at its own end
                self._connection.add_notice_handler(
                    lambda notice: heard.append(notice.severity_nonlocalized)
                )
            except self._psycopg.OperationalError as error:
                if any(words in str(error) for words in _REFUSED):
                    raise
                raise _LostAnswer(error, False) from None
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _explain(self, error: Exception) -> str:
        kinds = self._psycopg.errors
        if not isinstance(error, kinds.Error):
            return f"{self.title} {advice_on(error)}"
        if isinstance(error, kinds.RaiseException):
            return f"{self.title} refused the record: {error.diag.message_primary}"
        known = _SILENT if error.sqlstate is None else _ADVICE
        found = (words for name, words in known.items() if isinstance(error, getattr(kinds, name)))
        return f"{self.title} {next(found, f'could not be written ({type(error).__name__})')}"


def _state(sent: bool) -> str:
    """Say what is known after a failure: a commit that was sent once may have been done."""
    return ". It may have been charged." if sent else ". Nothing was charged."


def _commit(connection: Any, commits: list[Any]) -> None:
    commits.append(None)  # before it is sent: whatever happens now, it may have been done
    commits[-1] = connection.execute("COMMIT")


def _done(commits: list[Any]) -> bool:
    """Whether the server has answered the first commit."""
    return bool(commits) and getattr(commits[0], "statusmessage", None) == "COMMIT"
