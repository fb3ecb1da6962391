"""What was paid for is kept before anything that can fail, and tells no hour."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from noisette.pipeline import TableClassifier

from helpers import forked, run
from noisette import Ledger, PrivateSearch, _files
from noisette.app.commands.watched import WatchedLedger, outcome
from noisette.core.mechanisms import Laplace
from noisette.core.storage import database
from noisette.errors import LedgerError
from noisette.models import LogisticRegression
from noisette.tables import read_model
from noisette.tables.drafts import Draft, draft_of
from servers import start_postgres

LOANS = Path(__file__).parents[2] / "examples" / "loans.toml"
DIRECTLY = ("--mechanism", "objective")
FILES = {"model.noisette", "schema.toml", "guarantee.json", "report.html", "receipt.json"}


def train(table, out, *more, code=0):
    return run("train", table, "--schema", LOANS, "--epsilon", 1, "--out", out, *more, code=code)


@pytest.fixture
def book(tmp_path):
    run("ledger", tmp_path / "b.ledger", "--epsilon", 3)
    return tmp_path / "b.ledger"


def after_the_charge(monkeypatch, action):
    """Do something when a training has been charged and has drawn."""
    real = TableClassifier.fit

    def fit(self, *data, **more):
        real(self, *data, **more)
        action()
        return self

    monkeypatch.setattr(TableClassifier, "fit", fit)


def test_a_ledger_that_is_gone_after_the_charge_loses_no_model(table, tmp_path, book, monkeypatch):
    """The page opened it four times before the model was written."""
    away = tmp_path / "away"
    after_the_charge(monkeypatch, lambda: book.rename(away))
    out, err = train(table, tmp_path / "m", "--ledger", book, *DIRECTLY)
    assert "could not note that the result was collected" in err
    assert "charged" not in err
    assert "see noisette ledger for what is left" in out
    assert {path.name for path in (tmp_path / "m").iterdir()} == FILES
    assert "could not be read" in (tmp_path / "m" / "report.html").read_text()
    assert len(Ledger.open(away).uncollected()) == 1
    monkeypatch.undo()
    train(table, tmp_path / "n", "--ledger", away, *DIRECTLY)
    assert [each.collected != "" for each in Ledger.open(away).charges] == [False, True]


def test_a_server_that_is_stopped_after_the_charge_loses_no_model(table, tmp_path, monkeypatch):
    pytest.importorskip("psycopg", reason="no driver here: pip install 'noisette[postgres]'")
    server = start_postgres()
    address = f"{server.get_uri()}#stopped"
    Ledger.open(address, 3.0)
    mark = Path(server._postmaster_info.pgdata) / "postmaster.pid"

    def stop() -> None:
        os.kill(server.get_pid(), signal.SIGQUIT)
        while mark.exists():
            time.sleep(0.05)

    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    after_the_charge(monkeypatch, stop)
    out, err = train(table, tmp_path / "m", "--ledger", address)
    assert "could not note that the result was collected" in err
    assert "see noisette ledger for what is left" in out
    assert {path.name for path in (tmp_path / "m").iterdir()} == FILES
    read_model(tmp_path / "m")
    server.ensure_postgres_running()
    assert len(Ledger.open(address).uncollected()) == 1
    said = run("ledger", address, "--against", tmp_path)[0]
    assert "checked" in said, said


@pytest.mark.parametrize("part", ["page", "picture", "disk"])
def test_a_page_that_fails_leaves_a_sentence(table, tmp_path, monkeypatch, part):
    def fails(*_, **__):
        raise OSError(28, "No space left on device") if part == "disk" else MemoryError

    places = {"page": "pipeline.table_page.model_page", "picture": "report.effects.effect_svg",
              "disk": "tables.folders.add_page"}  # fmt: skip
    monkeypatch.setattr(f"noisette.{places[part]}", fails)
    err = train(table, tmp_path / "m", *DIRECTLY)[1]
    page = (tmp_path / "m" / "report.html").read_text()
    if part == "picture":
        assert "The pictures could not be drawn" in page
        assert "What you must check yourself" in page
    else:
        assert "This page could not be made" in page
        assert "noisette: warning: the report could not be made" in err
    assert read_model(tmp_path / "m").guarantee.epsilon == 1.0


def test_a_disk_too_small_is_told_before_the_charge(table, tmp_path, book, monkeypatch):
    """A model had room and its report had not: 11 KB and 58 KB."""
    real = _files.write

    def small(path, content):
        if len(content) > 50_000:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(_files, "write", small)
    err = train(table, tmp_path / "m", "--ledger", book, *DIRECTLY, code=2)[1]
    assert "No space left on device" in err
    assert "nothing was written and nothing was charged" in err
    assert Ledger.open(book).count == 0
    assert [path.name for path in tmp_path.iterdir()] == ["b.ledger"]


def test_folders_are_put_on_the_disk_too(table, tmp_path, monkeypatch):
    """There was no fsync of a folder after five renames."""
    real, seen = os.fsync, []

    def fsync(handle):
        seen.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    train(table, tmp_path / "m", *DIRECTLY)
    assert str(tmp_path) in seen
    assert any(path.endswith("/new") for path in seen)


def test_ctrl_c_once_the_model_stands(table, tmp_path, book, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("noisette.tables.pipeline.table_page.page_of", stop)
    err = train(table, tmp_path / "m", "--ledger", book, *DIRECTLY, code=3)[1]
    said = f"stopped; the result is whole, in {tmp_path / 'm'}, and {book} was charged for it."
    assert said in err
    assert {path.name for path in (tmp_path / "m").iterdir()} == FILES


def test_a_claim_of_another_sentence_is_not_repeated(table, tmp_path, book, monkeypatch):
    """ "Nothing was charged; nothing was written, but b.ledger was charged." """

    def fails():
        raise LedgerError("the file is gone; restore it from a backup. Nothing was charged.")

    after_the_charge(monkeypatch, fails)
    err = train(table, tmp_path / "m", "--ledger", book, *DIRECTLY, code=2)[1]
    assert "gone; restore it from a backup; nothing was written, but" in err
    assert "othing was charged" not in err
    assert "lists it as paid, not collected" in err


STATES = [
    # asked, booked, whole, printed; what is said, and the code
    (False, None, False, False, "nothing was written and nothing was charged", None),
    (True, None, False, False, "nothing was written, but b may have been charged", None),
    (True, 1, False, False, "nothing was written, but b was charged and a charge is never", None),
    (True, 1, True, False, "and b was charged for it", 3),
    (True, 1, False, True, "the answer was printed, and b was charged for it", 3),
]


@pytest.mark.parametrize(("asked", "booked", "whole", "printed", "said", "code"), STATES)
def test_every_state_has_its_sentence(tmp_path, asked, booked, whole, printed, said, code):
    ledger = WatchedLedger(1.0)
    ledger.asked, ledger.last_charge, ledger.printed = asked, booked, printed
    with draft_of(tmp_path / "m") as ledger.draft:
        if whole:
            _files.write(ledger.draft.new, "{}")
            assert "gives it a name" in outcome("b", ledger)[0]
    words, found = outcome("b", ledger)
    assert said in words
    assert found == code
    assert (str(tmp_path / "m") in words) is whole
    assert ("b" in outcome(None, ledger)[0].split()) is False


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "m"
    train(table, out)
    return out


def test_scores_are_kept(table, tmp_path, model, book, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ("evaluate", model, table, "--epsilon", 0.5, "--ledger", book)
    shown = json.loads(run(*common, "--out", "s.json", "--json")[0])
    kept = json.loads((tmp_path / "s.json").read_text())
    assert kept["scores"] == shown["scores"]
    assert kept["receipt"]["charge"] == 1
    assert "exists" in run(*common, "--out", "s.json", code=2)[1]
    run(*common, "--out", "s.json", "--force")
    assert json.loads((tmp_path / "s.json").read_text()) != kept
    run(*common)  # printed, so nothing stays
    assert sorted(os.listdir(tmp_path)) == ["b.ledger", "s.json"]
    assert Ledger.open(book).count == 3
    assert Ledger.open(book).uncollected() == []


@pytest.mark.parametrize("command", ["evaluate", pytest.param("plan", marks=pytest.mark.slow)])
def test_what_cannot_be_printed_is_kept(table, tmp_path, model, book, command):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this machine has no /dev/full")
    words = {"evaluate": [model, table], "plan": [table, "--schema", LOANS, "--counts", 0.5]}
    arguments = [command, *words[command], "--epsilon", 1, "--ledger", book]
    with full.open("w") as nowhere:
        done = subprocess.run(
            [sys.executable, "-m", "noisette", *map(str, arguments)], stdout=nowhere,
            stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    (kept,) = tmp_path.glob("noisette-*.json")
    assert f"the result is whole, in {kept}" in done.stderr
    assert json.loads(kept.read_text())["guarantee"]["epsilon"] in (0.5, 1.0)


def test_the_winner_of_a_search_outlives_a_fault(monkeypatch):
    X, y = np.eye(40)[:, :3], np.arange(40) % 2
    model = LogisticRegression(norm_bound=1.0, classes=[0, 1])
    search = PrivateSearch(model, {"regularization": [0.1, 1.0]}, 4.0, mean=2.0).fit(X, y)

    before, real = search.best_estimator_, LogisticRegression.set_params

    def fails(self, **given):  # the winner is given the ledger of the search
        if "ledger" in given:
            raise MemoryError
        return real(self, **given)

    monkeypatch.setattr(LogisticRegression, "set_params", fails)
    with pytest.raises(MemoryError):
        search.fit(X, y)
    assert search.best_estimator_ is not before
    assert search.best_estimator_.coef_.shape == (1, 3)
    # never with the guarantee of one run, nor of the search before
    assert not hasattr(search.best_estimator_, "privacy_")
    assert not hasattr(search, "privacy_")


def folder_at(table, folder, monkeypatch, moment):
    """Train with a seed at a moment of this day; return names, bytes and times of the files."""
    noon = time.time() // 86_400 * 86_400 + 43_200
    real = time.gmtime
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: noon + moment)
        patch.setattr(time, "gmtime", lambda at=None: real(noon + moment if at is None else at))
        train(table, folder / "m", "--seed", 1)
    out = folder / "m"
    found = {path.name: (path.read_bytes(), path.stat().st_mtime) for path in out.iterdir()}
    return found | {"": (b"", out.stat().st_mtime)}


def test_equal_releases_are_equal_bytes_an_hour_apart(table, tmp_path, monkeypatch):
    """The second in model.noisette, minus that in the ledger, was the time of a search."""
    first = folder_at(table, tmp_path / "a", monkeypatch, 0)
    second = folder_at(table, tmp_path / "b", monkeypatch, 3607)
    assert first == second
    assert {time % 86_400 for _, time in first.values()} == {0.0}
    assert set(first) - {""} == FILES - {"receipt.json"}


def test_without_locks_a_draft_that_is_named_is_recovered(model, tmp_path, monkeypatch):
    """On Windows what a killed run had paid for could not be had by any command."""
    with draft_of(tmp_path / "m") as draft:
        place = draft.path
    shutil.copytree(model, place / "new")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert "no locks here" in run("recover", tmp_path)[0]
    assert place.exists()
    assert "whole, and now" in run("recover", place)[0]
    read_model(tmp_path / "m")


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_killed_command_is_finished_and_noted_in_its_ledger(
    table, tmp_path, model, book, command
):
    words = {
        "train": ("train", table, "--schema", LOANS, "--out", tmp_path / "m", *DIRECTLY),
        "evaluate": ("evaluate", model, table, "--out", tmp_path / "s.json"),
    }[command]

    def killed() -> None:
        def kill(*_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        with mock.patch.object(Draft, "give_name", kill):
            run(*words, "--epsilon", 1, "--ledger", book)

    process = forked(killed)
    process.join()
    assert len(Ledger.open(book).uncollected()) == 1
    assert "noisette recover" in run(*words, "--epsilon", 1, "--ledger", book, code=2)[1]
    assert Ledger.open(book).count == 1
    if command == "train":  # a charge of the same number in another ledger paid for something else
        other = Ledger.open(tmp_path / "other.ledger", 1.0)
        other.charge(Laplace(20.0), label="x")
        shutil.copytree(tmp_path, copy := tmp_path.with_name("copy"))
        assert "no charge for it" in run("recover", copy, "--ledger", copy / "other.ledger")[0]
        assert Ledger.open(copy / "other.ledger").charges[0].collected == "unknown"
    said = run("recover", tmp_path, "--ledger", book)[0]
    assert "whole, and now" in said
    assert "notes that it was collected" in said
    assert Ledger.open(book).uncollected() == []
    assert "checked" in run("ledger", book, "--against", tmp_path)[0]
