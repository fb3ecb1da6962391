"""The file of a ledger: whatever happens to its bytes, no charge changes or vanishes unseen."""

import errno
import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from noisette.audit.receipts import check_charges
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace
from noisette.core.plans import Repeat, Run
from noisette.core.storage import chain
from noisette.errors import BudgetExceeded, LedgerError

TENTH = Laplace.calibrated(0.1)
PAGE = 4096


def made(path: Path, charges: int = 6, total: float = 1000.0) -> Ledger:
    ledger = Ledger.open(path, total)
    for i in range(charges):
        ledger.charge(TENTH, label=f"charge {i}")
    return ledger


def lines(content: bytes) -> list[bytes]:
    return content[3 * PAGE :].splitlines(keepends=True)


def refused(path: Path, match: str = "backup") -> None:
    """Every way to use the file gets one clear sentence and changes no byte of it."""
    before = path.read_bytes()
    for use in (
        lambda: Ledger.open(path).spent,
        lambda: Ledger.open(path, 1000.0).charge(TENTH, label="x"),
    ):
        with pytest.raises(LedgerError, match=match) as caught:
            use()
        assert str(path) in str(caught.value)
        assert str(caught.value).endswith(".")
        assert path.read_bytes() == before


# ---- what was there before ----


def test_a_new_ledger_has_one_name_and_no_litter(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.db", 1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]
    assert (tmp_path / "ledger.db").stat().st_nlink == 1


@pytest.mark.parametrize("number", [b"4", b"17"])
def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, number: bytes) -> None:
    path = tmp_path / "ledger"
    made(path)
    path.write_bytes(path.read_bytes().replace(b"noisette ledger 3", b"noisette ledger " + number))
    refused(path, "newer noisette .*upgrade")


def test_an_existing_empty_file_is_refused(tmp_path: Path) -> None:
    """A ledger cut to 0 bytes used to start again with a full budget."""
    path = tmp_path / "ledger"
    made(path)
    path.write_bytes(b"")
    refused(path, "is empty: its charges are lost")


def test_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Also the ledgers of noisette before its first release."""
    path = tmp_path / "ledger"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE charges (cost REAL)")
    connection.close()
    refused(path, "not a noisette ledger of this version, but a database")


FOREIGN = {
    "random": np.random.default_rng(1).bytes(5000),
    "text": b"epsilon,delta\n1.0,0.0\n" * 50,
    "the first word and noise": b"noisette ledger 3\n" + np.random.default_rng(2).bytes(20000),
    "the first word alone": b"noisette ledger 3\n",
    "zeros": bytes(20000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(FOREIGN[kind])
    refused(path)


# ---- damage ----


def test_a_flipped_bit_never_leaves_more_budget(tmp_path: Path) -> None:
    """Of 8,360 flips in the former file 62 left more budget and 101 raised UnicodeDecodeError."""
    path = tmp_path / "ledger"
    ledger = made(path)
    truth, spent, whole = ledger.charges, ledger.spent, path.read_bytes()
    written = [i for i, byte in enumerate(whole) if byte]  # not the padding of the pages
    places = np.random.default_rng(3).choice(written, 1500, replace=False)
    seen = 0
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 1 << int(place) % 8
        path.write_bytes(broken)
        for read, right in (
            (lambda: Ledger.open(path).spent, spent),
            (lambda: Ledger.open(path).charges, truth),
        ):
            try:
                found = read()
            except LedgerError:
                seen += 1
                continue
            assert found == right
    assert seen > 1500  # one flip in the later mark is repaired from the record behind the other


def test_a_torn_mark_is_repaired_from_the_record_that_it_was_about(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for charges in (5, 6):
        path.unlink(missing_ok=True)
        ledger = made(path, charges)
        later = 1 + charges % 2
        broken = bytearray(path.read_bytes())
        broken[later * PAGE + 100 : later * PAGE + 120] = bytes(20)
        path.write_bytes(broken)
        assert len(Ledger.open(path).charges) == charges
        ledger.charge(TENTH, label="more")
        assert [c.label for c in ledger.charges][-2:] == [f"charge {charges - 1}", "more"]
        path.write_bytes(broken[: -len(lines(bytes(broken))[-1])])
        refused(path)  # the mark and its record: nobody can say what was there


@pytest.mark.parametrize("step", [1, 97])
def test_a_cut_file_is_refused(tmp_path: Path, step: int) -> None:
    path = tmp_path / "ledger"
    made(path, 2)
    whole = path.read_bytes()
    lengths = range(len(whole) - 60, len(whole)) if step == 1 else range(1, len(whole), step)
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError):
            Ledger.open(path).charge(TENTH, label="x")
    ends = [3 * PAGE, 3 * PAGE + len(lines(whole)[0])]
    for length in ends:  # between two records, too
        path.write_bytes(whole[:length])
        refused(path)


def without(rows: list[bytes]) -> list[bytes]:
    return [rows[0], *rows[2:]]


def swapped(rows: list[bytes]) -> list[bytes]:
    return [rows[1], rows[0], *rows[2:]]


def free(rows: list[bytes]) -> list[bytes]:
    return [rows[0].replace(b'"cost": [0.1, 0.0]', b'"cost": [0.0, 0.0]'), *rows[1:]]


def free_and_sealed(rows: list[bytes]) -> list[bytes]:
    node = json.loads(rows[0][65:])
    return [chain.seal({**node, "cost": [0.0, 0.0]}), *rows[1:]]


def relabelled_and_sealed(rows: list[bytes]) -> list[bytes]:
    node = json.loads(rows[0][65:])
    return [chain.seal({**node, "label": "charge 9"}), *rows[1:]]


@pytest.mark.parametrize("change", [without, swapped, free, free_and_sealed, relabelled_and_sealed])
def test_a_record_changed_by_hand_is_seen(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    path = tmp_path / "ledger"
    made(path)
    whole = path.read_bytes()
    rows = change(lines(whole))
    assert rows != lines(whole)
    path.write_bytes(whole[: 3 * PAGE] + b"".join(rows))
    with pytest.raises(LedgerError, match="backup"):
        _ = Ledger.open(path).charges


@pytest.mark.parametrize("rule", ["sums", "renyi", "gdp"])
def test_a_cost_below_its_plan_is_found_even_in_a_sound_chain(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, 1.0, 1e-5, rule=rule)
    for _ in range(2):
        ledger.charge(Gaussian(40.0), label="x", delta=1e-6)
    check_charges(ledger)
    real = ledger.charges[0]
    cheap = real._replace(cost=(real.cost[0] * 0.9, real.cost[1]))
    ledger._store.book(cheap, lambda spent: None)
    assert len(ledger.charges) == 3
    with pytest.raises(LedgerError, match="charge 3 costs less than its plan"):
        check_charges(ledger)


def test_a_run_is_checked_against_its_plan_before_it_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, 6.0, 1e-5)
    permit = ledger.charge(Repeat(Run(Gaussian(50.0)), 9), label="x", delta=1e-6, resumable=True)
    whole = path.read_bytes()
    node = json.loads(lines(whole)[0][65:])
    node["run"][0] /= 2.0
    forged = chain.seal(node)
    mark = chain.Mark(1, 3 * PAGE, 3 * PAGE + len(forged), forged[:64].decode())
    path.write_bytes(whole[: 2 * PAGE] + chain._sealed_mark(mark).ljust(PAGE, b"\0") + forged)
    with pytest.raises(Exception, match="nothing was charged"):
        Ledger.open(path).resume(permit.number)


@pytest.mark.parametrize(
    "header",
    [
        {"epsilon": None}, {"epsilon": -1.0}, {"rule": "future"}, {"adjacency": "nobody"},
        {"delta": 2.0}, {"experiment": 0}, {"epsilon": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_no_ledger_has_is_refused(tmp_path: Path, header: dict[str, object]) -> None:
    path = tmp_path / "ledger"
    good = {"id": "", "epsilon": 1.0, "delta": 0.0, "adjacency": "replace-one", "rule": "sums"}
    path.write_bytes(chain.first_pages({**good, "experiment": False}))
    assert Ledger.open(path).charges == []
    path.write_bytes(chain.first_pages({**good, "experiment": False, **header}))
    with pytest.raises(LedgerError, match=r"damaged.*backup"):
        Ledger.open(path)


# ---- copies, pages, totals ----


def test_a_copy_is_a_whole_ledger_and_never_replaces_a_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    ledger = made(path)
    ledger.copy_to(copy)
    assert Ledger.open(copy).charges == ledger.charges
    with pytest.raises(LedgerError, match="exists, so nothing was written"):
        ledger.copy_to(copy)
    with pytest.raises(LedgerError, match="exists"):
        ledger.copy_to(path)
    with pytest.raises(LedgerError, match="memory"):
        Ledger(1.0).copy_to(tmp_path / "other")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "ledger"]


def test_a_damaged_ledger_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = made(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: 3 * PAGE] + b"".join(free(lines(whole))))
    with pytest.raises(LedgerError, match="damaged"):
        ledger.copy_to(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_an_older_copy_with_other_charges_since_is_refused(tmp_path: Path) -> None:
    """As many charges as before, but not the same ones."""
    path = tmp_path / "ledger"
    ledger = made(path, 2)
    ledger.copy_to(tmp_path / "copy")
    ledger.charge(TENTH, label="lost")
    shutil.copy(tmp_path / "copy", path)
    other = Ledger.open(path)
    for label in ("instead", "and one more"):
        other.charge(TENTH, label=label)
        with pytest.raises(LedgerError, match="lacks charges"):
            ledger.charge(TENTH, label="x")


def test_an_older_copy_put_in_place_while_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    book = Ledger.open(path, 1.0)
    book.charge(Laplace(4.0), label="first")
    shutil.copy(path, tmp_path / "backup.db")
    book.charge(Laplace(4.0), label="second")
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(LedgerError, match="lacks charges"):
        book.charge(Laplace(4.0), label="third")
    with pytest.raises(LedgerError, match="lacks charges"):
        _ = book.remaining
    assert len(Ledger.open(path).charges) == 1  # nothing was booked in the wrong file


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_pages_are_the_list_in_parts(tmp_path: Path, kind: str) -> None:
    ledger = made(tmp_path / "ledger", 0) if kind == "file" else Ledger(1000.0)
    for i in range(23):
        ledger.charge(TENTH, label=f"{i}", resumable=kind == "file" and i % 5 == 0)
    assert ledger.count == 23
    pages = [charge for first in range(1, 24, 5) for charge in ledger.page(first, 5)]
    assert pages == ledger.charges
    assert ledger.page(22, 5) == ledger.charges[21:]
    assert ledger.page(24, 5) == []


def test_totals_are_exact(tmp_path: Path) -> None:
    """Summed one by one in floats, ten tenths are less than 1, and 1e16 swallows a 1."""
    ledger = Ledger.open(tmp_path / "ledger", 1e17, 0.5)
    costs = [1e16, 1.0, 1e-300, 0.1, 5e-324, 3.0]
    for cost in costs:
        ledger._store.book(ledger_charge(cost), lambda spent: None)
    totals = ledger._store.totals()
    assert totals.rounded()[0] == 1e16 + 4.0
    for cost in costs:
        totals = totals.plus((-cost, 0.0))
    assert totals.first == 0


def ledger_charge(cost: float):
    from noisette.core.storage import Charge

    return Charge("x", "{}", (cost, 0.0))


def test_a_charge_reads_no_more_of_a_long_ledger(tmp_path: Path, monkeypatch) -> None:
    """Counted in bytes, so that it does not depend on the machine."""
    read = [0]
    real = chain._read

    def counting(file, start, stop):
        content = real(file, start, stop)
        read[0] += len(content)
        return content

    monkeypatch.setattr(chain, "_read", counting)
    monkeypatch.setattr(chain.os, "fsync", lambda handle: None)
    path, used = tmp_path / "ledger", []
    for charges in (10, 1000):
        ledger = made(path, charges)
        for action in (
            lambda ledger=ledger: ledger.charge(TENTH, label="one more"),
            lambda: Ledger.open(path).charge(TENTH, label="one more"),
            lambda ledger=ledger: Ledger.open(path).page(ledger.count - 3, 4),
        ):
            read[0] = 0
            action()
            used.append(read[0])
    assert max(used) < 12 * PAGE
    assert used[3:] == pytest.approx(used[:3], rel=0.05)


# ---- what the system refuses ----


def failing(monkeypatch, where: str, number: int) -> None:
    """Let the n-th fsync, or the opening, fail."""
    count = iter(range(100))

    def fsync(handle: int) -> None:
        if next(count) == int(where):
            raise OSError(number, os.strerror(number))

    def cannot(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    if where == "open":
        monkeypatch.setattr(chain, "opened", cannot)
    else:
        monkeypatch.setattr(chain.os, "fsync", fsync)


@pytest.mark.parametrize(
    ("where", "number", "advice"),
    [
        ("open", errno.EACCES, "writable"),
        ("open", errno.EROFS, "writable"),
        ("open", errno.EIO, "disk is full or failing"),
        ("0", errno.ENOSPC, "disk is full or failing"),
        ("0", errno.EIO, "disk is full or failing"),
    ],
)
def test_a_refusing_disk_gets_one_clear_error_and_books_nothing(
    tmp_path: Path, monkeypatch, where: str, number: int, advice: str
) -> None:
    ledger = made(tmp_path / "ledger", 3)
    with monkeypatch.context() as patch:
        failing(patch, where, number)
        with pytest.raises(LedgerError, match=f"ledger .*{advice}.*Nothing was charged"):
            ledger.charge(TENTH, label="x")
    assert len(ledger.charges) == 3
    ledger.charge(TENTH, label="works again")


def test_a_disk_that_fails_at_the_last_step_leaves_the_charge_in_doubt(
    tmp_path: Path, monkeypatch
) -> None:
    ledger = made(tmp_path / "ledger", 3)
    with monkeypatch.context() as patch:
        failing(patch, "1", errno.EIO)
        with pytest.raises(LedgerError, match="may have been charged"):
            ledger.charge(TENTH, label="x")
    assert len(ledger.charges) == 4  # on the safe side


def test_a_busy_ledger_says_so(tmp_path: Path, monkeypatch) -> None:
    ledger = made(tmp_path / "ledger", 3)
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0.05)
    busy = pytest.raises(LedgerError, match=r"was busy .*try again.*Nothing was charged")
    with chain.locked(tmp_path / "ledger", write=True), busy:
        ledger.charge(TENTH, label="x")
    ledger.charge(TENTH, label="works again")


# ---- other processes ----


def test_a_pickled_ledger_goes_on_with_the_same_file_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = made(path, 2, total=0.35)
    packed = pickle.dumps(ledger)
    pickle.loads(packed).charge(TENTH, label="third")
    with pytest.raises(BudgetExceeded):
        ledger.charge(TENTH, label="fourth")
    path.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        pickle.loads(packed).charge(TENTH, label="x")
    made(path, 0, total=0.35)  # the same terms, another ledger
    with pytest.raises(LedgerError, match="no longer the ledger"):
        pickle.loads(packed).charge(TENTH, label="x")
    with pytest.raises(LedgerError, match="belongs to one process"):
        pickle.dumps(Ledger(1.0))
