"""A ledger in PostgreSQL: a real server, killed clients, a crashing server, a changed past.

`test_ledger.py` has the promises that all kinds of ledgers share.
"""

import gc
import math
import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from helpers import in_fork
from noisette import LogisticRegression
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace
from noisette.core.plans import Repeat, Run
from noisette.core.randomness import Randomness
from noisette.core.storage import database
from noisette.errors import BudgetExceeded, InvalidParameter, LedgerError, MissingExtra, PermitError
from servers import start_postgres

psycopg = pytest.importorskip("psycopg", reason="no driver here: pip install 'noisette[postgres]'")

TENTH = Laplace.calibrated(0.1)
RUN = Repeat(Run(Gaussian(50.0)), 1000)


def sql(address: str, command: str, *given: object) -> list[tuple]:
    with psycopg.connect(address.partition("#")[0], autocommit=True) as connection:
        cursor = connection.execute(command, given)
        return cursor.fetchall() if cursor.description else []


def name_of(address: str) -> str:
    return address.partition("#")[2]


def charge_and_read(ledger: Ledger) -> list:
    ledger.charge(TENTH, label="more")
    return ledger.charges


def draw(permit, times: int) -> None:
    value = Bounded(np.zeros(3), contribution=1.0, adjacency="replace-one", proof="CLIP")
    for _ in range(times):
        release(value, permit, Randomness.secure())


def test_two_names_are_two_budgets_in_one_database(postgres) -> None:
    one, two = postgres(), postgres()
    first, second = Ledger.open(one, 1.0), Ledger.open(two, 2.0, 1e-6, adjacency="zero-out")
    first.charge(TENTH, label="mean age")
    assert Ledger.open(one).spent[0] == pytest.approx(0.1)
    assert Ledger.open(two).spent == (0.0, 0.0)
    assert (second.epsilon, second.adjacency.value, second.path) == (2.0, "zero-out", None)
    with pytest.raises(LedgerError, match=r"has epsilon=1\.0, not 3\.0"):
        Ledger.open(one, 3.0)
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(postgres())


def test_the_books_say_when_who_and_which_table(postgres) -> None:
    address = postgres()
    Ledger.open(address, 1.0, table="patients of 2026").charge(TENTH, label="mean age")
    (charge,) = Ledger.open(address).charges
    assert charge.table == "patients of 2026"
    assert charge.by == sql(address, "SELECT session_user")[0][0]
    assert abs(_seconds(charge.booked) - time.time()) < 2 * 86400


def test_children_and_copies_charge_the_same_ledger(postgres) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    ledger.charge(TENTH, label="parent")
    for i in range(4):
        in_fork(lambda i=i: ledger.charge(TENTH, label=f"child {i}").epsilon)
        ledger.charge(TENTH, label=f"parent {i}")  # its connection outlived the child
    pickle.loads(pickle.dumps(ledger)).charge(TENTH, label="copy")
    assert ledger.count == 10
    with pytest.raises(BudgetExceeded):
        ledger.charge(TENTH, label="too much")


EVERYBODY = """DO $$ DECLARE f regprocedure; BEGIN
FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
EXECUTE '{} EXECUTE ON FUNCTION ' || f || ' {} PUBLIC'; END LOOP; END $$"""


def test_nobody_needs_to_change_or_delete(postgres) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    role = f"clerk_{name_of(address)}"
    sql(address, f"CREATE ROLE {role} LOGIN")
    clerk = address.replace("postgres:@", f"{role}@") + ""
    if clerk == address:
        pytest.skip("this server's address names no user to replace")
    with pytest.raises(LedgerError, match="needs SELECT on"):
        Ledger.open(clerk)
    sql(address, f"GRANT SELECT ON noisette_ledgers, noisette_records TO {role}")
    assert Ledger.open(clerk).count == 0
    with pytest.raises(LedgerError, match=r"EXECUTE on noisette_add_3.*Nothing was charged\.$"):
        Ledger.open(clerk).charge(TENTH, label="by a reader")
    assert ledger.count == 0
    sql(address, f"GRANT EXECUTE ON FUNCTION noisette_add_3 TO {role}")
    Ledger.open(clerk).charge(TENTH, label="by the clerk")
    assert ledger.charges[0].by == role
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        sql(clerk, "DELETE FROM noisette_records")
    assert ledger.count == 1
    sql(address, EVERYBODY.format("REVOKE", "FROM"))
    try:  # booked, but nobody can wait for the disk: then there is no permit
        with pytest.raises(LedgerError, match=r"It may have been charged\.$"):
            Ledger.open(clerk).charge(TENTH, label="by the clerk again")
    finally:
        sql(address, EVERYBODY.format("GRANT", "TO"))
    assert ledger.count == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE noisette_records SET line = replace(line, '0.1', '0.0') WHERE ledger = %s",
        "DELETE FROM noisette_records WHERE ledger = %s AND number = 2",
        "DELETE FROM noisette_records WHERE ledger = %s AND number = 3",
        "UPDATE noisette_records SET number = number + 7 WHERE ledger = %s AND number = 3",
    ],
)
def test_a_past_that_changed_is_seen(postgres, change: str) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    for i in range(3):
        ledger.charge(TENTH, label=f"{i}")
    sql(address, change, name_of(address))
    with pytest.raises(LedgerError, match=r"damaged|lacks charges"):
        charge_and_read(ledger)


def test_a_ledger_that_was_started_again_is_not_the_same(postgres) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    sql(address, "DELETE FROM noisette_ledgers WHERE name = %s", name_of(address))
    with pytest.raises(LedgerError, match="is gone"):
        ledger.charge(TENTH, label="into nothing")
    Ledger.open(address, 1.0)
    with pytest.raises(LedgerError, match="no longer the ledger that was opened"):
        ledger.charge(TENTH, label="into another")
    assert Ledger.open(address).count == 0


def test_a_newer_format_is_refused(postgres, monkeypatch) -> None:
    from noisette.core.storage import postgres as store

    address = postgres()
    monkeypatch.setattr(store, "FORMAT", 4)
    Ledger.open(address, 1.0)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match=r"newer noisette \(format 4, this one reads 3\)"):
        Ledger.open(address)


@pytest.fixture
def fresh(postgres):
    """The address of a ledger in a database of its own, which may be spoilt."""
    address = postgres()
    name = f"spoilt_{name_of(address)}"
    sql(address, f"CREATE DATABASE {name}")
    head, _, rest = address.partition("?")
    yield f"{head.rpartition('/')[0]}/{name}{'?' * bool(rest)}{rest}"
    sql(address, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    "spoilt", ["noisette_ledgers DROP COLUMN line", "noisette_records DROP token"]
)
def test_tables_of_another_version_are_refused(fresh, spoilt: str) -> None:
    ledger = Ledger.open(fresh, 1.0)
    ledger.charge(TENTH, label="in time")
    sql(fresh, f"ALTER TABLE {spoilt}")
    with pytest.raises(LedgerError, match=r"tables of another version.*Nothing was charged"):
        ledger.charge(TENTH, label="too late")
    if "records" not in spoilt:
        with pytest.raises(LedgerError, match="tables of another version"):
            Ledger.open(fresh, 1.0)


def test_a_table_that_is_gone_is_no_empty_ledger(fresh) -> None:
    ledger = Ledger.open(fresh, 1.0)
    sql(fresh, "DROP TABLE noisette_records")
    with pytest.raises(LedgerError, match="tables of another version"):
        ledger.charge(TENTH, label="into nothing")


def test_a_database_that_is_not_there(postgres) -> None:
    address = postgres()
    head, _, rest = address.partition("?")
    gone = f"{head.rpartition('/')[0]}/nowhere{'?' * bool(rest)}{rest}"
    began = time.monotonic()
    with pytest.raises(LedgerError, match="check user, password and the name of the database"):
        Ledger.open(gone, 1.0)
    assert time.monotonic() - began < 5.0  # the server has answered: there is nothing to wait for


def test_a_server_that_goes_down_and_comes_back(postgres, monkeypatch) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    ledger.charge(TENTH, label="before")
    server = ledger._store._database  # type: ignore[attr-defined]
    here = server.address
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    server._drop()
    server.address = "postgresql://127.0.0.1:1/people"
    with pytest.raises(LedgerError, match=r"did not answer.*Nothing was charged\.$"):
        ledger.charge(TENTH, label="while it was down")
    server.address = here
    ledger.charge(TENTH, label="after")
    assert [charge.label for charge in ledger.charges] == ["before", "after"]


def test_a_server_that_is_gone_for_good_after_a_commit(postgres, monkeypatch) -> None:
    """Nobody can say any more whether it was booked, so nobody says that it was not."""
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    ledger.charge(TENTH, label="before")
    server = ledger._store._database  # type: ignore[attr-defined]
    server._connection = Torn(server._connection, "after")
    server.address = "postgresql://127.0.0.1:1/people"
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    with pytest.raises(LedgerError, match=r"It may have been charged\.$"):
        ledger.charge(TENTH, label="torn")
    assert [charge.label for charge in Ledger.open(address).charges] == ["before", "torn"]


def test_the_clocks_of_clients_do_not_matter(postgres) -> None:
    address, code = postgres(), CLOCK
    Ledger.open(address, 1.0)
    for years in ("-30", "+30"):
        subprocess.run([sys.executable, "-c", code, address, years], check=True)
    Ledger.open(address).charge(TENTH, label="right")
    charges = Ledger.open(address).charges
    assert [charge.label for charge in charges] == ["-30", "+30", "right"]
    moments = [charge.booked for charge in charges]
    assert moments == sorted(moments)
    assert all(abs(_seconds(moment) - time.time()) < 2 * 86400 for moment in moments)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


CLOCK = """
import sys, time
real, off = time.time, float(sys.argv[2]) * 365 * 86400
time.time = lambda: real() + off
from noisette.core.mechanisms import Laplace
from noisette.core.ledger import Ledger
Ledger.open(sys.argv[1]).charge(Laplace.calibrated(0.1), label=sys.argv[2])
"""


def test_a_run_goes_on_elsewhere_and_only_there(postgres) -> None:
    address = postgres()
    first = Ledger.open(address, 6.0, 1e-5).charge(RUN, label="run", delta=1e-5, resumable=True)
    draw(first, 321)
    assert first.number is not None
    second = Ledger.open(address).resume(first.number)
    assert 321 <= second.drawn() <= 321 + 1 + RUN.draws // 100
    with pytest.raises((LedgerError, PermitError), match="resumed elsewhere"):
        draw(first, RUN.draws // 50)
    assert Ledger.open(address).count == 1
    with pytest.raises(LedgerError, match="no run with number 2"):
        Ledger.open(address).resume(2)


def test_seeded_noise_is_refused_as_in_a_file(postgres, rng) -> None:
    address = postgres()
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    ledger = Ledger.open(address, 2.0)
    with pytest.raises(InvalidParameter, match="hides nobody"):
        LogisticRegression(1.0, norm_bound=1.0, ledger=ledger, random_state=0).fit(X, y)
    model = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger).fit(X, y)
    assert ledger.count == 1
    assert pickle.loads(pickle.dumps(model)).ledger.count == 1


def test_no_password_is_ever_shown(postgres) -> None:
    address = "postgresql://nina:sesame@127.0.0.1:1/people#study"
    store_title = "postgresql://127.0.0.1/people#study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "WAIT_SECONDS", 0.2)
        with pytest.raises(LedgerError) as caught:
            Ledger.open(address, 1.0)
    assert store_title in str(caught.value)
    assert "sesame" not in str(caught.value)
    assert "Nothing was charged" in str(caught.value)


def test_the_driver_is_asked_for_in_one_sentence(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'noisette\[postgres\]'"):
        Ledger.open("postgresql://localhost/people", 1.0)


def test_an_address_that_cannot_be_read() -> None:
    with pytest.raises(LedgerError, match=r"is no address of a database; write") as caught:
        Ledger.open("postgresql://nina:sesame@/people?colour=red", 1.0)
    assert "sesame" not in str(caught.value)


# ---- when a charge is on the disk ----


class Told:
    """A connection that remembers what it was told."""

    def __init__(self, connection: object) -> None:
        self._connection, self.statements = connection, list[str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, text: str, *given: object) -> object:
        self.statements.append(text)
        return self._connection.execute(text, *given)  # type: ignore[attr-defined]


def test_a_charge_is_eight_statements_and_one_question(postgres) -> None:
    """However many others have charged in between; only the last record is waited for."""
    address = postgres()
    first, second = Ledger.open(address, 1.0), Ledger.open(address)
    first.charge(TENTH, label="first")
    second.charge(TENTH, label="second")
    server = first._store._database  # type: ignore[attr-defined]
    server._connection = told = Told(server._connection)
    first.charge(TENTH, label="third")
    begin, lock, last, add, commit, begin_again, flush, commit_again = told.statements
    assert begin == begin_again == "BEGIN ISOLATION LEVEL READ COMMITTED"
    assert commit == commit_again == "COMMIT"
    assert "'synchronous_commit', 'off'" in lock
    assert "pg_advisory_xact_lock" in lock
    assert "noisette_add_3" in add
    assert "'synchronous_commit', 'on'" in flush
    assert "pg_logical_emit_message" in flush
    assert "fsync" in last


@pytest.fixture(scope="module")
def own_server() -> str:
    """The address of a server whose settings may be changed."""
    return start_postgres().get_uri()  # type: ignore[attr-defined,no-any-return]


@contextmanager
def setting(address: str, name: str, value: str) -> Iterator[None]:
    """Change a setting of a whole server for a while."""
    before = sql(address, f"SHOW {name}")[0][0]
    sql(address, f"ALTER SYSTEM SET {name} = {value}")
    reloaded(address, name, before, changed=True)
    try:
        yield
    finally:
        sql(address, f"ALTER SYSTEM RESET {name}")
        reloaded(address, name, before, changed=False)


def reloaded(address: str, name: str, before: str, *, changed: bool) -> None:
    sql(address, "SELECT pg_reload_conf()")
    wait_until(lambda: (sql(address, f"SHOW {name}")[0][0] != before) is changed)


def wait_until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.05)


def waiting(address: str) -> set[int]:
    """The connections that wait for the disk of a standby."""
    rows = sql(address, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    return {pid for (pid,) in rows}


def test_no_permit_before_the_standby_has_it_even_if_the_wait_is_cancelled(own_server) -> None:
    """Nobody is the standby, so nothing returns; and others may charge meanwhile."""
    address = f"{own_server}#standby"
    ledgers = [Ledger.open(address, 1.0), Ledger.open(address)]
    permits: list[object] = []
    threads = [
        Thread(target=lambda one=one: permits.append(one.charge(TENTH, label="waits")), daemon=True)
        for one in ledgers
    ]
    with setting(address, "synchronous_standby_names", "'nobody'"):
        time.sleep(0.5)  # for the process that tells the others of it
        for thread in threads:
            thread.start()
        wait_until(lambda: len(waiting(address)) == 2)  # so neither waits for the other's lock
        assert Ledger.open(address).count == 2
        cancelled = waiting(address)
        for pid in cancelled:
            sql(address, "SELECT pg_cancel_backend(%s)", pid)
        wait_until(lambda: len(waiting(address) - cancelled) == 2)
        assert permits == []
    for thread in threads:
        thread.join(30.0)
    assert len(permits) == 2
    assert Ledger.open(address).count == 2  # booked once each


def test_a_server_that_may_forget_is_refused_at_every_charge(own_server) -> None:
    address = f"{own_server}#forgets"
    ledger = Ledger.open(address, 1.0)
    with setting(address, "fsync", "off"):
        for spend in (lambda: ledger.charge(TENTH, label="x"), lambda: Ledger.open(address, 1.0)):
            with pytest.raises(LedgerError, match=r"has fsync off.*Nothing was charged\.$"):
                spend()
    ledger.charge(TENTH, label="after")
    assert ledger.count == 1


def test_a_server_that_can_only_be_read(own_server) -> None:
    address = f"{own_server}#read"
    ledger = Ledger.open(address, 1.0)
    with setting(address, "default_transaction_read_only", "on"):
        ledger._store._database._drop()  # type: ignore[attr-defined]
        with pytest.raises(LedgerError, match=r"can only be read.*Nothing was charged\.$"):
            ledger.charge(TENTH, label="x")
    assert ledger.count == 0


# ---- what gets lost on the way ----


class Torn:
    """A connection that breaks around the n-th commit, before or after the server has done it."""

    def __init__(self, connection: object, when: str) -> None:
        self._connection, self._when = connection, when

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, text: str, *given: object) -> object:
        real, flush = self._connection, "pg_logical_emit_message" in text
        if text == "COMMIT" and self._when == "after":
            real.execute(text)  # type: ignore[attr-defined]
            real._pipeline.sync()  # type: ignore[attr-defined]
        if text == "COMMIT" and self._when == "Ctrl-C":
            real.execute(text)  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        if text == "COMMIT" if self._when != "at the disk" else flush:
            real.close()  # type: ignore[attr-defined]
            raise psycopg.OperationalError("the connection is lost")
        return real.execute(text, *given)  # type: ignore[attr-defined]


@pytest.mark.parametrize("when", ["before", "after", "at the disk"])
def test_a_lost_answer_is_asked_for_again_and_booked_once(postgres, when: str) -> None:
    ledger = Ledger.open(postgres(), 1.0)
    server = ledger._store._database  # type: ignore[attr-defined]
    ledger.charge(TENTH, label="connected")
    server._connection = Torn(server._connection, when)
    permit = ledger.charge(TENTH, label="torn")
    assert permit.epsilon <= 0.1
    assert [charge.label for charge in ledger.charges] == ["connected", "torn"]
    ledger.charge(TENTH, label="after")
    assert ledger.count == 3


def test_a_lost_answer_and_then_a_refusal_do_not_say_that_nothing_was_charged(postgres) -> None:
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    server = ledger._store._database  # type: ignore[attr-defined]
    here = server.address
    server._connection = Torn(server._connection, "after")
    server.address = here.replace("/postgres?", "/nowhere?")
    with pytest.raises(LedgerError, match=r"check user, password.*Nothing was charged\.$"):
        _ = ledger.count  # whoever reads charges nothing
    server.address = here
    assert ledger.count == 0
    server._connection = Torn(server._connection, "after")
    server.address = here.replace("/postgres?", "/nowhere?")
    with pytest.raises(LedgerError, match=r"check user, password.*It may have been charged\.$"):
        ledger.charge(TENTH, label="torn")
    assert Ledger.open(address).count == 1


def test_after_a_ctrl_c_nobody_reads_the_answers_of_another_charge(postgres) -> None:
    ledger = Ledger.open(postgres(), 1.0)
    server = ledger._store._database  # type: ignore[attr-defined]
    ledger.charge(TENTH, label="connected")
    server._connection = Torn(server._connection, "Ctrl-C")
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(TENTH, label="interrupted")
    ledger.charge(TENTH, label="after")
    labels = [charge.label for charge in ledger.charges]
    assert labels in (["connected", "after"], ["connected", "interrupted", "after"])


def test_a_refusal_keeps_no_connection_alive(postgres) -> None:
    """Closed when the ledger goes, not when the collector comes by and the driver complains."""
    ledger = Ledger.open(postgres(), 0.15)
    ledger.charge(TENTH, label="fits")
    with pytest.raises(BudgetExceeded):
        ledger.charge(TENTH, label="too much")
    connection = weakref.ref(ledger._store._database._connection)  # type: ignore[attr-defined]
    gc.disable()
    try:
        del ledger
        assert connection() is None
    finally:
        gc.enable()


def test_two_who_write_the_same_number_do_not_both(postgres, monkeypatch) -> None:
    """Without the lock, the primary key decides."""
    address = postgres()
    first, second = Ledger.open(address, 0.2), Ledger.open(address)
    real = second._store._end  # type: ignore[attr-defined]
    done = []

    def slow(cursor):
        found = real(cursor)
        if not done:
            done.append(True)
            first._store._database.transaction = lockless  # type: ignore[attr-defined]
            first.charge(TENTH, label="faster")
        return found

    def lockless(work, lock=None):
        return database.Database.transaction(first._store._database, work)  # type: ignore[attr-defined]

    monkeypatch.setattr(second._store, "_end", slow)
    second.charge(TENTH, label="slower")
    assert [charge.label for charge in second.charges] == ["faster", "slower"]
    with pytest.raises(BudgetExceeded):
        first.charge(TENTH, label="too much")


# ---- torture ----

CLIENT = """
import os, sys
from noisette.errors import BudgetExceeded, LedgerError
from noisette.core.mechanisms import Laplace
from noisette.core.ledger import Ledger
address, log, cost = sys.argv[1], sys.argv[2], float(sys.argv[3])
out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
noise, number = Laplace.calibrated(cost), 0
ledger = None
while True:
    label = f"{os.getpid()}-{number}"
    number += 1
    try:
        ledger = ledger or Ledger.open(address)
        permit = ledger.charge(noise, label=label)
    except BudgetExceeded:
        break
    except LedgerError as error:
        os.write(out, f"ERROR {error}\\n".encode())
        continue
    os.write(out, f"{label}\\n".encode())
"""


def torture(folder: Path, *, clients: int, charges: int, kills: int, crashes: int) -> None:
    """Clients charge until nothing is left; all along, some are killed and the server crashes."""
    server = start_postgres()
    address = f"{server.get_uri()}#torture"  # type: ignore[attr-defined]
    total = 1.0
    cost = total / charges
    ledger = Ledger.open(address, total)
    rng = np.random.default_rng(7)
    logs = [folder / f"log{i}" for i in range(clients + kills)]

    def start(log: Path) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-c", CLIENT, address, str(log), str(cost)])

    running = {start(log): log for log in logs[:clients]}
    spare = logs[clients:]
    events = rng.permutation([True] * kills + [False] * crashes)
    control = Path(server._postmaster_info.pgdata)  # type: ignore[attr-defined]
    began = time.monotonic()
    try:
        for number, kill in enumerate(events):
            while ledger.count < 0.9 * charges * number / len(events):
                time.sleep(0.1)
            time.sleep(float(rng.uniform(0.1, 0.6)))
            if kill:
                victim = list(running)[int(rng.integers(len(running)))]
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                del running[victim]
                log = spare.pop()
                running[start(log)] = log
            else:
                crash(server, control)
        for client in running:
            assert client.wait(timeout=600 + charges / 50) == 0
    finally:
        for client in running:
            client.kill()
    seconds = time.monotonic() - began
    errors = check(address, logs, total, charges)
    print(
        f"{charges} charges in {seconds:.0f} s, {kills} kills, {crashes} crashes, {errors} "
        "refusals because the server was away: nothing lost"
    )


def crash(server: object, folder: Path) -> None:
    """Stop the server as a power cut would, without writing anything down, and start it again."""
    os.kill(server.get_pid(), signal.SIGQUIT)  # type: ignore[attr-defined]
    while (folder / "postmaster.pid").exists():
        time.sleep(0.05)
    server.ensure_postgres_running()  # type: ignore[attr-defined]


def check(address: str, logs: list[Path], total: float, charges: int) -> int:
    ledger = Ledger.open(address)
    booked, costs = list[str](), list[float]()
    for first in range(1, ledger.count + 1, 20_000):  # all at once would fill the memory
        page = ledger.page(first, 20_000)
        booked += [charge.label for charge in page]
        costs += [charge.cost[0] for charge in page]
    lines = [
        line
        for log in logs
        if log.exists()
        for line in log.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
    permits = [line.strip() for line in lines if not line.startswith("ERROR")]
    assert len(set(permits)) == len(permits)
    assert len(set(booked)) == len(booked), "a charge was booked twice"
    assert set(permits) <= set(booked), "a permit was given but its charge is lost"
    assert math.fsum(costs) <= total * (1 + 1e-12)
    assert charges - 1 <= len(booked) <= charges + 1
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace.calibrated(2.0 * total / charges), label="more")
    return len(lines) - len(permits)


@pytest.mark.skipif("NOISETTE_POSTGRES" in os.environ, reason="the server is not ours to crash")
def test_killed_clients_and_a_crashing_server_lose_nothing(tmp_path: Path) -> None:
    torture(tmp_path, clients=3, charges=300, kills=3, crashes=1)


@pytest.mark.slow
@pytest.mark.skipif("NOISETTE_POSTGRES" in os.environ, reason="the server is not ours to crash")
def test_a_long_torture(tmp_path: Path) -> None:
    charges = int(os.environ.get("NOISETTE_TORTURE", "100000"))
    torture(tmp_path, clients=64, charges=charges, kills=200, crashes=20)
