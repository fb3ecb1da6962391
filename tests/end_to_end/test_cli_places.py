"""Places where nothing can be written, and names that try to turn what a reader sees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import noisette
from helpers import run_command
from noisette import Ledger

ROOT = Path(__file__).parents[2]
LOANS = ROOT / "examples" / "loans.toml"
MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def one_line(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("noisette: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_links_that_lead_in_a_circle(table, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(loop)
    book = tmp_path / "b.ledger"
    run_command("ledger", book, "--epsilon", 3)
    train = ("train", table, "--schema", LOANS, "--epsilon", 1)
    for arguments in (
        ("ledger", loop, "--epsilon", 1),
        ("ledger", loop),
        ("ledger", book, "--report", loop),
        ("schema", table, "--out", loop),
        ("schema", loop),
        (*train, "--out", loop),
        (*train, "--out", loop / "m"),
        (*train, "--out", loop, "--ledger", book, "--force"),
        (*train, "--out", tmp_path / "m", "--ledger", loop),
        ("train", loop, "--schema", LOANS, "--epsilon", 1, "--out", tmp_path / "m"),
        ("train", table, "--schema", loop, "--epsilon", 1, "--out", tmp_path / "m"),
        ("inspect", loop),
        ("predict", loop, table),
    ):
        one_line(run_command(*arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.ledger", "back", "loop"]
    assert Ledger.open(book).spent == (0.0, 0.0)


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["noisette", "ledger", sys.argv[2], "--epsilon", "3"]
from noisette.app.commands import main
main()
"""


@pytest.mark.parametrize("room", [0, 100, 4096, 8192])
def test_a_disk_that_fills_while_a_ledger_is_made(tmp_path, room):
    """A limit on the size of files stands in for the full disk."""
    pytest.importorskip("resource")
    book = tmp_path / "b.ledger"
    command = [sys.executable, "-B", "-c", FULL, str(room), str(book)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        "cannot be written; make its folder writable and see that the disk is not full"
        in one_line(done)
    )
    assert os.listdir(tmp_path) == []


def test_a_codec_that_is_not_for_tables(table, tmp_path):
    for encoding in ("punycode", "idna"):
        said = one_line(run_command("schema", table, "--encoding", encoding))
        assert "encoding must be a name" in said


def test_a_trained_folder_is_loaded(table, tmp_path):
    out = tmp_path / "m"
    assert run_command(
        "train", table, "--schema", LOANS, "--epsilon", 1, "--out", out
    ).returncode == 0  # fmt: skip
    model = noisette.load(out)
    assert model.privacy_ == noisette.load(out / "model.noisette").privacy_
    assert model.epsilon == 1.0


def test_direction_marks_in_names_are_written_out(tmp_path):
    """Screen, schema, page and guarantee show the marks of a name; the files keep the name."""
    column, label = f"age{MARKS}", f"ill{MARKS}"
    path, schema, out = tmp_path / "t.csv", tmp_path / "t.toml", tmp_path / "m"
    rows = "".join(f"{j % 90},{label if j % 2 else 'well'}\n" for j in range(60))
    path.write_text(f"{column},state\n{rows}", encoding="utf-8")
    seen = [run_command("schema", path).stdout]
    schema.write_text(
        f'target = "state"\nclasses = ["{label}", "well"]\nunit = "one row{MARKS}"\n'
        f'[columns."{column}"]\nkind = "numeric"\nlow = 0\nhigh = 110\n',
        encoding="utf-8",
    )
    done = run_command("train", path, "--schema", schema, "--epsilon", 30, "--out", out)
    assert done.returncode == 0, done.stderr
    seen += [done.stdout, run_command("inspect", out).stdout]
    seen += [(out / name).read_text() for name in ("report.html", "schema.toml", "guarantee.json")]
    wrong = tmp_path / f"no{MARKS}"
    seen.append(one_line(run_command("schema", wrong)))
    seen.append(one_line(run_command("train", wrong, "--schema", schema, "--epsilon", 1)))
    for text in seen:
        assert not set(text) & set(MARKS)
        assert "\\u202e" in text
    assert set(run_command("predict", out, path).stdout.splitlines()[1:]) <= {label, "well"}


def test_letters_from_right_to_left_stay_in_their_place_of_the_page(tmp_path):
    path, schema, out = tmp_path / "t.csv", tmp_path / "t.toml", tmp_path / "m"
    path.write_text("גיל,מצב\n" + "1,חולה\n2,בריא\n" * 20, encoding="utf-8")
    schema.write_text(
        'target = "מצב"\nclasses = ["חולה", "בריא"]\nunit = "one row is one person"\n'
        '[columns."גיל"]\nkind = "numeric"\nlow = 0\nhigh = 110\n',
        encoding="utf-8",
    )
    done = run_command("train", path, "--schema", schema, "--epsilon", 30, "--out", out)
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    assert "<td><bdi>גיל</bdi></td>" in page
    assert "<td><bdi>מצב</bdi></td>" in page
