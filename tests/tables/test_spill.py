"""Arrays in a file without a name: nobody else can open it, and a full disk is one sentence."""

import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from noisette.errors import InvalidData
from noisette.tables import Schema
from noisette.tables import spill as _spill
from noisette.tables.frame import Frame
from noisette.tables.spill import Spill, Spilled, Spilling

FACTS = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "ward": {"kind": "categorical", "categories": ["A", "B"]},
        "seen": {"kind": "date", "low": "2000-01-01", "high": "2030-01-01"},
    },
}


def write(path, rows=3000):
    lines = [
        f"{i % 97}{'.5' * (i % 3 == 0)},{'ABC'[i % 3]},20{i % 24 + 10}-0{i % 9 + 1}-11,"
        + ("yes" if i % 5 else "no")
        for i in range(rows)
    ]
    path.write_text("\n".join(["age,ward,seen,ill", *lines]) + "\n")
    return path


def test_the_file_has_no_name_and_one_reader():
    held = Spill()
    held.append(np.arange(10.0))
    found = os.fstat(held._file.fileno())
    assert (found.st_nlink, stat.S_IMODE(found.st_mode)) == (0, 0o600)
    assert held.read(16, 3, np.float64).tolist() == [2.0, 3.0, 4.0]
    assert "0." not in repr(held)


def test_it_lies_where_the_system_says(tmp_path, monkeypatch):
    monkeypatch.setattr(_spill.tempfile, "tempdir", str(tmp_path))
    held = Spill()
    assert os.readlink(f"/proc/self/fd/{held._file.fileno()}").startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_nothing_behind(tmp_path):
    code = (
        "import numpy as np, time; from noisette.tables.spill import Spill\n"
        "held = Spill(); held.append(np.zeros(1 << 16)); print('there', flush=True); time.sleep(60)"
    )
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=here)
    assert child.stdout.readline() == b"there\n"
    assert list(tmp_path.iterdir()) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
def test_slices_are_those_of_the_whole(limit, rng):
    store = Spilling(limit)
    vector, other = Spilled(store, np.float64), Spilled(store, np.int32)
    parts = [rng.normal(size=n) for n in (3, 0, 7, 1, 20)]
    for part in parts:
        vector.append(part)
        other.append(np.arange(len(part), dtype=np.int8))
    whole = np.concatenate(parts)
    assert len(vector) == len(whole)
    for start in range(0, 33, 2):
        for stop in (start, start + 1, start + 9, 100):
            np.testing.assert_array_equal(vector[start:stop], whole[start:stop])
    assert other[:].dtype == np.int32
    assert other[3:10].tolist() == list(range(7))


def test_a_frame_in_a_file_is_the_frame_in_memory(tmp_path, monkeypatch, rng):
    path, schema = write(tmp_path / "t.csv"), Schema.from_dict(FACTS)
    near = Frame.read(path, schema, target=True)
    monkeypatch.setattr(_spill, "IN_MEMORY", 100)
    far = Frame.read(path, schema, target=True)
    assert far.columns["age"].given.values.store.file is not None
    assert near.columns["age"].given.values.store.file is None
    rows = np.flatnonzero(rng.random(near.rows) < 0.3)
    for pick in (lambda f: f, lambda f: f.take(rows), lambda f: f.take(rows[::-1])):
        a, b = pick(near), pick(far)
        for name in ("age", "seen"):
            np.testing.assert_array_equal(a.numbers(name), b.numbers(name))
        for name in ("ward", "ill"):
            assert list(a.cells(name).texts()) == list(b.cells(name).texts())
            assert a.codes(name)[1] == b.codes(name)[1]
            np.testing.assert_array_equal(a.codes(name)[0], b.codes(name)[0])
        np.testing.assert_array_equal(a.encode(), b.encode())
        assert a.labels().tolist() == b.labels().tolist()
        blocks = [block.encode() for _, block in b.blocks(700)]
        np.testing.assert_array_equal(np.concatenate(blocks), a.encode())


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    path, schema = write(tmp_path / "t.csv"), Schema.from_dict(FACTS)

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_spill, "IN_MEMORY", 100)
    monkeypatch.setattr(_spill.os, "pwrite", full)
    with pytest.raises(InvalidData, match=r"needs room in .*No space left.*set TMPDIR") as error:
        Frame.read(path, schema, target=True)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_a_part_that_is_gone_is_no_number():
    held = Spill()
    held.append(np.arange(4.0))
    os.ftruncate(held._file.fileno(), 8)
    began = time.monotonic()
    with pytest.raises(InvalidData, match="ends too early"):
        held.read(0, 4, np.float64)
    assert time.monotonic() - began < 5.0
