"""Drafts: a killed run's is finished or cleared away, a living run's is left alone."""

import json
import multiprocessing
import os
import time
from dataclasses import replace

import numpy as np
import pytest

from helpers import forked, run
from noisette import LogisticRegression
from noisette.errors import InvalidParameter
from noisette.tables import Schema, drafts, read_model, write_model
from noisette.tables.drafts import Draft, clear_away, draft_of, left_behind
from noisette.tables.folders import TableModel, check_folder, fill, prepare

FACTS = {
    "target": "ill", "classes": ["no", "yes"], "unit": "one row is one person",
    "columns": {"age": {"kind": "numeric", "low": 0, "high": 100}},
}  # fmt: skip


def fitted(epsilon=1.0):
    schema = Schema.from_dict(FACTS)
    X, y = np.zeros((100, len(schema.features))), np.repeat(["no", "yes"], 50)
    model = LogisticRegression(epsilon=epsilon, norm_bound=1.0, classes=["no", "yes"]).fit(X, y)
    promise = model.privacy_
    model.privacy_ = replace(promise, public=(*promise.public, *schema.public))
    return TableModel(model, schema)


def hold(folder, told, whole, replacing):
    """Hold a draft of the folder until somebody kills this process."""
    with draft_of(folder) as draft:
        prepare(draft, Schema.from_dict(FACTS))
        if whole:
            fill(draft, fitted())
        if replacing:
            folder.rename(draft.path / "old")
        told.send(draft.path)
        time.sleep(600)


@pytest.fixture
def holder():
    """Start processes that hold a draft; none outlives the test."""
    running = []

    def start(folder, *, whole=False, replacing=False):
        heard, told = multiprocessing.Pipe(duplex=False)
        process = forked(hold, folder, told, whole, replacing)
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


def test_an_unfinished_draft_of_a_killed_run_is_cleared_away_and_no_other(tmp_path, holder):
    killed, left = holder(tmp_path / "m")
    _, other = holder(tmp_path / "n")
    strange = [tmp_path / ".m.abcd1234", tmp_path / ".m.noisette-draft-0123abcd-1"]
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


def test_a_whole_draft_of_a_killed_run_is_offered_and_brought_back(tmp_path, holder):
    """It was deleted: by the next training, which charged again."""
    killed, left = holder(tmp_path / "m", whole=True)
    assert "in use" in run("recover", tmp_path)[0]
    end(killed)
    for force in (False, True):
        with pytest.raises(InvalidParameter, match="noisette recover"):
            check_folder(tmp_path / "m", force=force)
    assert read_model(left / "new").guarantee.epsilon == 1.0
    told = json.loads(run("recover", tmp_path / "m", "--json")[0])["drafts"]
    assert [each["place"] for each in told] == [str(tmp_path / "m")]
    assert read_model(tmp_path / "m").guarantee.epsilon == 1.0
    assert "could not be made" in (tmp_path / "m" / "report.html").read_text()
    assert hidden(tmp_path) == []
    assert "nothing to recover" in run("recover", tmp_path)[0]


def test_a_kill_between_the_two_renames_of_force_loses_nothing(tmp_path, holder):
    """The old model was put back and the new one, just paid for, deleted."""
    model = tmp_path / "m"
    write_model(model, fitted(epsilon=9.0), "<html>")
    process, _ = holder(model, whole=True, replacing=True)
    assert not model.exists()
    end(process)
    run("recover", model)
    assert read_model(model).guarantee.epsilon == 1.0
    assert hidden(tmp_path) == []


def test_a_model_that_an_unfinished_run_took_away_is_put_back(tmp_path, holder):
    model = tmp_path / "m"
    model.mkdir()
    (model / "model.noisette").write_bytes(b"years of work")
    process, _ = holder(model, replacing=True)
    end(process)
    with pytest.raises(InvalidParameter, match="exists and is not empty"):
        check_folder(model, force=False)
    assert (model / "model.noisette").read_bytes() == b"years of work"
    assert hidden(tmp_path) == []


def test_recover_takes_nobodys_place_and_says_what_it_does_not_bring_back(tmp_path, holder):
    killed = [holder(tmp_path / name, whole=name == "m.v1")[0] for name in ("m.v1", "n")]
    for process in killed:
        end(process)
    write_model(tmp_path / "m.v1", fitted(epsilon=9.0), "<html>")
    foreign = tmp_path / ".k.noisette-draft-0123abcd-x"
    with draft_of(tmp_path / "k") as draft:
        prepare(draft, Schema.from_dict(FACTS))
        fill(draft, fitted())
        draft.path.rename(foreign)
    said = run("recover", tmp_path)[0]
    assert "not finished" in said
    assert "another machine" in said
    assert read_model(tmp_path / "m.v1").guarantee.epsilon == 9.0
    assert read_model(tmp_path / "m-2.v1").guarantee.epsilon == 1.0
    run("recover", foreign)  # named, so wanted
    assert read_model(tmp_path / "k").guarantee.epsilon == 1.0
    assert hidden(tmp_path) == []
    assert "there is no folder" in run("recover", tmp_path / "none", code=2)[1]


def test_a_damaged_draft_is_left_as_it_is(tmp_path, holder):
    killed, left = holder(tmp_path / "m", whole=True)
    end(killed)
    (left / "new" / "model.noisette").write_bytes(b"half")
    assert "damaged" in run("recover", tmp_path)[0]
    assert (left / "new" / "model.noisette").exists()


def test_an_error_of_the_disk_is_not_taken_for_an_empty_draft(tmp_path, monkeypatch):
    with draft_of(tmp_path / "m") as draft:
        prepare(draft, Schema.from_dict(FACTS))
        fill(draft, fitted())

        def fails(path):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("os.listdir", fails)
            draft.end()
        assert draft.path.is_dir()
    assert read_model(tmp_path / "m").guarantee.epsilon == 1.0


def test_a_draft_that_is_cleared_away_before_its_lock_is_made_again(tmp_path, monkeypatch):
    real, tries = Draft.lock, []

    def late(draft, *, wait=False):
        if wait:
            tries.append(draft.path)
        if len(tries) == 1 and wait:
            clear_away(tmp_path / "m")  # another run, between making and locking
        return real(draft, wait=wait)

    monkeypatch.setattr(Draft, "lock", late)
    with draft_of(tmp_path / "m") as draft:
        assert draft.path.is_dir()
        assert draft.path != tries[0]
    assert hidden(tmp_path) == []


def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / f".m.noisette-draft-{drafts._MACHINE}-x").symlink_to(precious)
    assert left_behind(tmp_path) == []
    clear_away(tmp_path / "m")
    assert precious.is_dir()


def test_two_living_runs_do_not_write_one_folder(tmp_path, holder):
    """The second would take the first one's model away, although both were charged."""
    _, kept = holder(tmp_path / "m")
    with (
        pytest.raises(InvalidParameter, match="another training is about to write"),
        draft_of(tmp_path / "m"),
    ):
        pass
    assert hidden(tmp_path) == [kept.name]
    with draft_of(tmp_path / "n") as draft:
        assert draft.path.is_dir()


def test_the_model_file_is_written_last(tmp_path, monkeypatch):
    """It alone says that a draft is whole."""
    seen = []

    def save(model, path):
        seen.extend(sorted(os.listdir(path.parent)))
        raise KeyboardInterrupt

    monkeypatch.setattr("noisette.models.files.save", save)
    with pytest.raises(KeyboardInterrupt):
        write_model(tmp_path / "m", fitted(), "<html>")
    assert seen == ["guarantee.json", "report.html", "schema.toml"]
    assert os.listdir(tmp_path) == []
