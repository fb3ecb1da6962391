"""Drafts of model folders: a killed run's are cleared away, a living run's are left alone."""

import multiprocessing
import os
import time

import pytest

from helpers import forked
from noisette.errors import InvalidParameter
from noisette.tables import drafts
from noisette.tables.folders import check_folder, draft_folder


def hold(folder, told, replace):
    """Hold a draft of the folder until somebody kills this process."""
    with draft_folder(folder) as draft:
        (draft / "new").mkdir()
        if replace:
            folder.rename(draft / "old")
        told.send(draft)
        time.sleep(600)


@pytest.fixture
def holder():
    """Start processes that hold a draft; none outlives the test."""
    running = []

    def start(folder, *, replace=False):
        heard, told = multiprocessing.Pipe(duplex=False)
        process = forked(hold, folder, told, replace)
        running.append(process)
        told.close()
        with heard:
            return process, heard.recv()

    yield start
    for process in running:
        end(process)


def end(process):
    process.kill()
    process.join()


def hidden(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def test_a_draft_of_a_killed_run_is_cleared_away_and_no_other(tmp_path, holder):
    killed, left = holder(tmp_path / "m")
    _, other = holder(tmp_path / "n")
    strange = [tmp_path / ".m.abcd1234", tmp_path / ".m.noisette-draft-elsewhere-1"]
    for path in strange:
        path.mkdir()
    end(killed)
    assert left.is_dir()
    alive, kept = holder(tmp_path / "m")
    check_folder(tmp_path / "m", force=False)
    assert not left.exists()
    assert (kept / "new").is_dir()
    assert alive.is_alive()
    assert hidden(tmp_path) == sorted(path.name for path in (kept, other, *strange))


def test_a_model_that_a_killed_run_took_away_is_put_back(tmp_path, holder):
    model = tmp_path / "m"
    model.mkdir()
    (model / "model.noisette").write_bytes(b"years of work")
    process, _ = holder(model, replace=True)
    assert not model.exists()
    end(process)
    with pytest.raises(
        InvalidParameter, match="exists and is not empty"
    ):  # put back, so no --force
        check_folder(model, force=False)
    assert (model / "model.noisette").read_bytes() == b"years of work"
    assert hidden(tmp_path) == []


def test_a_draft_that_is_cleared_away_before_its_lock_is_made_again(tmp_path, monkeypatch):
    real, tries = drafts._lock, []

    def late(draft, *, wait):
        tries.append(draft)
        if len(tries) == 1:
            drafts.clear_away(tmp_path / "m")  # another run, between making and locking
        return real(draft, wait=wait)

    monkeypatch.setattr(drafts, "_lock", late)
    with draft_folder(tmp_path / "m") as draft:
        assert draft.is_dir()
        assert draft != tries[0]
    assert hidden(tmp_path) == []


def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / f"{drafts._prefix(tmp_path / 'm')}x"
    link.symlink_to(precious)
    drafts.clear_away(tmp_path / "m")
    assert precious.is_dir()


def test_two_living_runs_do_not_write_one_folder(tmp_path, holder):
    """The second would take the first one's model away, although both were charged."""
    _, kept = holder(tmp_path / "m")
    with (
        pytest.raises(InvalidParameter, match="another training is about to write"),
        draft_folder(tmp_path / "m"),
    ):
        pass
    assert hidden(tmp_path) == [kept.name]
    with draft_folder(tmp_path / "n") as draft:
        assert draft.is_dir()
