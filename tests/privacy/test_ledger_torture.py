"""Many processes, killed anywhere: nothing overspent, nothing lost, the file always opens."""

import io
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from helpers import in_fork
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Laplace
from noisette.core.storage import chain
from noisette.errors import BudgetExceeded, LedgerError

COST = 0.05
NOISE = Laplace.calibrated(COST)


def start(work) -> int:
    """Fork a worker that never returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def charge_for_ever(path: Path, log: Path, total: float) -> None:
    """Charge until nothing is left; write each label, synced, only once its permit is there."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number = 0
    while True:
        label = f"{os.getpid()}-{number}"
        number += 1
        try:
            ledger = Ledger.open(path, total)
            ledger.charge(NOISE, label=label)
        except BudgetExceeded:
            return
        except LedgerError as error:
            os.write(out, f"ERROR {error} {error.__cause__!r}\n".encode())
            continue
        os.write(out, f"{label}\n".encode())
        os.fsync(out)


def check(path: Path, logs: list[Path], total: float) -> list[str]:
    """Return the booked labels after all promises of the ledger were checked."""
    ledger = Ledger.open(path)
    booked = [charge.label for charge in ledger.charges]
    assert len(set(booked)) == len(booked)
    # A killed worker may leave half a line; every whole line is a permit that was given.
    text = [log.read_text() for log in logs if log.exists()]
    lines = [line for t in text for line in t.splitlines(keepends=True) if line.endswith("\n")]
    written = {line.strip() for line in lines if not line.startswith("ERROR")}
    assert written <= set(booked), "a permit was given but its charge is lost"
    assert math.fsum(charge.cost[0] for charge in ledger.charges) <= total
    assert len({charge.cost for charge in ledger.charges}) <= 1
    return booked


def torture(folder: Path, kills: int, seed: int, names: list[Path] | None = None) -> None:
    """8 workers on one file, under one or more names; `kills` times a random one is killed and
    replaced.
    """
    rng = random.Random(seed)
    names = names or [folder / "ledger.db"]
    path, total = names[0], COST * 12 * kills
    workers: dict[int, Path] = {}
    logs: list[Path] = []

    def launch():
        log = folder / f"log-{len(logs)}"
        name = names[len(logs) % len(names)]
        logs.append(log)
        workers[start(lambda: charge_for_ever(name, log, total))] = log

    try:
        for _ in range(8):
            launch()
        for _ in range(kills):
            time.sleep(rng.uniform(0.0, 0.02))
            victim = rng.choice(list(workers))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            del workers[victim]
            launch()
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    before = check(path, logs, total)
    assert len(before) > 20, "the workers hardly ran: the test shows nothing"
    # What is left can still be spent, to the last charge and not beyond.
    last = folder / "log-last"
    in_fork(lambda: charge_for_ever(names[-1], last, total))
    after = check(path, [*logs, last], total)
    assert set(before) <= set(after)
    assert len(after) == round(total / COST)
    assert [Ledger.open(name).spent for name in names] == [Ledger.open(path).spent] * len(names)
    errors = [
        line
        for log in [*logs, last]
        if log.exists()
        for line in log.read_text().splitlines()
        if line.startswith("ERROR")
    ]
    assert errors == []


def test_eight_processes_killed_at_random(tmp_path):
    torture(tmp_path, kills=50, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_eight_processes_killed_at_random_for_long(tmp_path, seed):
    torture(tmp_path, kills=300, seed=seed)


# ---- one file under two names ----


def test_eight_processes_killed_under_two_hard_links(tmp_path):
    names = [tmp_path / "one" / "ledger.db", tmp_path / "other" / "ledger.db"]
    for name in names:
        name.parent.mkdir()
    Ledger.open(names[0], COST * 12 * 20)
    os.link(*names)
    torture(tmp_path, kills=20, seed=2, names=names)


IN_TWO_MOUNTS = """
import subprocess, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import test_ledger_torture as t
folder = Path({folder!r})
names = [folder / "host" / "ledger.db", folder / "container" / "ledger.db"]
t.Ledger.open(names[0], t.COST * 12 * {kills})
names[1].touch()
subprocess.run(["mount", "--bind", *map(str, names)], check=True)
t.torture(folder, kills={kills}, seed=3, names=names)
left = sorted(entry.name for name in names for entry in name.parent.iterdir())
assert left == ["ledger.db"] * 2, left
print("survived")
"""


def in_own_mounts(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose mounts nobody else sees."""
    everything = ["unshare", "--map-root-user", "--mount", *command]
    return subprocess.run(everything, capture_output=True, text=True, check=False, timeout=300)


def test_eight_processes_killed_under_two_mounts(tmp_path):
    """As with ``docker -v file:file``: in the former format each name had the whole budget."""
    for name in ("host", "container"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trial").touch()
    trial = [str(tmp_path / name / "trial") for name in ("host", "container")]
    if not shutil.which("unshare") or in_own_mounts("mount", "--bind", *trial).returncode:
        pytest.skip("this system lets no process have mounts of its own (unshare --mount)")
    for name in trial:
        os.unlink(name)
    code = IN_TWO_MOUNTS.format(paths=sys.path, folder=str(tmp_path), kills=20)
    done = in_own_mounts(sys.executable, "-c", code)
    assert done.stdout.strip() == "survived", done.stderr


# ---- death at every step ----


class Mortal(io.FileIO):
    """A file whose process dies before, in the middle of, or after its n-th operation."""

    at, when, seen = 0, "before", 0

    @classmethod
    def step(cls, action: Callable[[], object], half: Callable[[], object] | None = None) -> object:
        mine = cls.seen == cls.at
        cls.seen += 1
        if mine and cls.when == "middle" and half is not None:
            half()
        if mine and cls.when != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        result = action()
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def read(self, size=-1):
        return Mortal.step(lambda: io.FileIO.read(self, size))

    def truncate(self, size=None):
        return Mortal.step(lambda: io.FileIO.truncate(self, size))

    def write(self, content):
        half = content[: len(content) // 2] if len(content) < 4096 else content[:150]
        return Mortal.step(
            lambda: io.FileIO.write(self, content), lambda: io.FileIO.write(self, half)
        )


def die_at(at: int, when: str, action) -> bool:
    """Run `action` in a child that dies at the given operation; return whether it died."""

    def work():
        Mortal.at, Mortal.when, Mortal.seen = at, when, 0
        real, replace = os.fsync, os.replace
        chain.opened = lambda path, mode: Mortal(path, mode.replace("b", ""))
        os.fsync = lambda handle: Mortal.step(lambda: real(handle))
        os.replace = lambda *names: Mortal.step(lambda: replace(*names))
        action()

    _, status = os.waitpid(start(work), 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_death_at_every_step_of_a_charge(tmp_path, when):
    """Either the charge is whole or it is not there; it is there once the mark is on the disk."""
    path = tmp_path / "ledger.db"
    Ledger.open(path, 1000.0)
    deaths, outcomes = 0, []
    for at in range(60):
        ledger = Ledger.open(path)
        count = len(ledger.charges)
        died = die_at(at, when, lambda ledger=ledger, at=at: ledger.charge(NOISE, label=f"{at}"))
        booked = len(Ledger.open(path).charges) - count
        assert booked in (0, 1)
        outcomes.append(booked)
        if not died:
            assert booked == 1
            break
        deaths += 1
        ledger.charge(NOISE, label=f"after {at}")  # nobody is left waiting for a dead lock
    else:
        pytest.fail("the charge never completed")
    assert deaths >= 8
    assert outcomes == sorted(outcomes)  # once booked at some point, booked at all later points
    assert outcomes[0] == 0
    assert outcomes[-2] == 1  # killed after the last write
    check(path, [], 1000.0)


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_death_at_every_step_of_the_first_opening(tmp_path, when):
    """The file opens again with the same total, or as a new one; never as half a ledger."""
    for at in range(60):
        path = tmp_path / f"{at}.db"
        died = die_at(at, when, lambda path=path: Ledger.open(path, 1.0))
        ledger = Ledger.open(path, 1.0)
        ledger.charge(NOISE, label="x")
        assert json.loads(Ledger.open(path).charges[0].plan)["plan"] == "run"
        check(path, [], 1.0)
        if not died:
            return
    pytest.fail("the opening never completed")


# ---- a power cut: what was not yet on the disk may be there, or in part, or not ----


class Recorded(io.FileIO):
    """Writes down what happens to the file."""

    events: ClassVar[list[tuple]] = []

    def truncate(self, size=None):
        Recorded.events.append(("cut", size))
        return super().truncate(size)

    def write(self, content):
        Recorded.events.append(("write", self.tell(), content))
        return super().write(content)


def applied(disk: bytes, event: tuple, *, part: float = 1.0, junk: bool = False) -> bytes:
    if event[0] == "cut":
        return disk[: event[1]]
    _, place, content = event
    kept = content[: int(len(content) * part)]
    if junk:  # the file has grown, but its new blocks were never written
        kept += bytes(len(content) - len(kept))
    return disk[:place].ljust(place, b"\0") + kept + disk[place + len(kept) :]


def power_cuts(path: Path, monkeypatch, label: str) -> tuple[list[str], list[bytes]]:
    """Charge once; return what was done to the file, and all that a disk may hold on the way."""
    Recorded.events = []
    synced, possible, pending = path.read_bytes(), [], []
    with monkeypatch.context() as patch:
        patch.setattr(
            chain, "opened", lambda p, mode: Recorded(p, mode.replace("b", ""))
        )  # fmt: skip
        patch.setattr(chain.os, "fsync", lambda handle: Recorded.events.append(("fsync",)))
        Ledger.open(path).charge(NOISE, label=label)
    for event in Recorded.events:
        if event[0] == "fsync":
            for one in pending:
                synced = applied(synced, one)
            pending = []
            possible.append(synced)
            continue
        before = synced
        for one in pending:
            before = applied(before, one)
        pending.append(event)
        for part in (0.0, 0.01, 0.3, 0.99, 1.0):
            for junk in (False, True):
                possible.append(applied(before, event, part=part, junk=junk))
    return [event[0] for event in Recorded.events], list(dict.fromkeys(possible))


def survived(path: Path, disk: bytes, before: list[str], label: str) -> bool:
    """Check what a power cut left behind; return whether the last charge is booked."""
    path.write_bytes(disk)
    known = [charge.label for charge in Ledger.open(path).charges]
    assert known in (before, [*before, label])
    Ledger.open(path).charge(NOISE, label="next")
    assert [charge.label for charge in Ledger.open(path).charges] == [*known, "next"]
    return known != before


@pytest.mark.parametrize("charges", [0, 1, 2, 5])
def test_a_power_cut_at_every_step_of_a_charge(tmp_path, monkeypatch, charges):
    path, labels = tmp_path / "ledger.db", [f"{i}" for i in range(charges)]
    ledger = Ledger.open(path, 1000.0)
    for label in labels:
        ledger.charge(NOISE, label=label)
    done, disks = power_cuts(path, monkeypatch, "last")
    assert done == ["cut", "write", "fsync", "write", "fsync"]
    outcomes = [survived(path, disk, labels, "last") for disk in disks]
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert outcomes[-1]  # the permit was given only after the last fsync


def test_a_second_power_cut_while_the_first_is_repaired(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 1000.0)
    for label in "ab":
        ledger.charge(NOISE, label=label)
    _, disks = power_cuts(path, monkeypatch, "c")
    repaired = 0
    for disk in disks:
        path.write_bytes(disk)
        known = [charge.label for charge in Ledger.open(path).charges]
        done, later = power_cuts(path, monkeypatch, "d")
        repaired += len(done) > 5  # first the torn mark, so that one mark is whole at any time
        outcomes = [survived(path, again, known, "d") for again in later]
        assert outcomes[-1]
    assert repaired >= 3


def test_eight_processes_open_a_new_file_at_once(tmp_path):
    for number in range(5):
        path, log = tmp_path / f"{number}.db", tmp_path / f"{number}.log"
        read, write = os.pipe()

        def work(path=path, log=log, read=read):
            os.read(read, 1)  # all start together
            line = "ok\n"
            try:
                Ledger.open(path, 1.0)
            except LedgerError as error:
                line = f"{error}\n"
            out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(out, line.encode())

        pids = [start(work) for _ in range(8)]
        os.write(write, b"x" * 8)
        for pid in pids:
            os.waitpid(pid, 0)
        os.close(read)
        os.close(write)
        assert log.read_text().splitlines() == ["ok"] * 8


def test_a_charge_waits_for_another_process_that_writes(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 1.0)
    holding, go = threading.Event(), threading.Event()

    def hold():
        with chain.locked(path, write=True):
            holding.set()
            go.wait(5.0)

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait(5.0)
    timer = threading.Timer(0.4, go.set)
    timer.start()
    began = time.monotonic()
    ledger.charge(NOISE, label="x")
    assert time.monotonic() - began > 0.3
    holder.join()
    assert len(Ledger.open(path).charges) == 1


def test_a_child_forked_during_a_charge_does_not_keep_the_lock(tmp_path):
    """It has the open file too; its lock must end with the process that took it."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 1.0)
    read, write = os.pipe()

    def parent():
        with chain.locked(path, write=True):
            child = start(lambda: time.sleep(30))
            os.write(write, f"{child}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(start(parent), 0)
    child = int(os.read(read, 100))
    try:
        began = time.monotonic()
        ledger.charge(NOISE, label="x")
        assert time.monotonic() - began < 10.0
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(read)
        os.close(write)
