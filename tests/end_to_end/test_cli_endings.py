"""How commands end: one sentence, the right exit code, nothing lost, and nothing of the data."""

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helpers import run_command
from noisette import Ledger, TableClassifier
from noisette.models import files as model_files

ROOT = Path(__file__).parents[2]
LOANS = ROOT / "examples" / "loans.toml"
WARNED = "noisette: warning: From public facts alone"
DIRECTLY = ("--mechanism", "objective")
"""Rows are encoded by the schema alone: nothing is learnt, and nothing but weights released."""
SECRET = "Smith-4711"


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "model"
    done = train(table, out)
    assert done.returncode == 0, done.stderr
    return out


def train(table, out, *more):
    return run_command("train", table, "--schema", LOANS, "--epsilon", 1, "--out", out, *more)


def one_line(done, code):
    assert done.returncode == code, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith(WARNED)]
    assert len(said) == 1
    assert said[0].startswith("noisette: ")
    return said[0] + "\n"


def test_a_machine_can_read_every_failure(table, tmp_path):
    for arguments in (
        ("inspect", tmp_path / "no", "--json"),
        ("train", table, "--epsilon", 1, "--json"),
        ("train", table, "--schema", LOANS, "--epsilon", "abc", "--json"),
        ("train", "--json"),
        ("ledger", tmp_path / "no", "--json"),
    ):
        done = run_command(*arguments)
        assert done.returncode == 2
        assert set(json.loads(done.stdout)) == {"error"}
    assert run_command("inspect", tmp_path / "no").stdout == ""


def test_an_unforeseen_fault_quotes_no_data_and_says_what_it_cost(table, tmp_path, monkeypatch):
    book = tmp_path / "b.ledger"
    run_command("ledger", book, "--epsilon", 3)
    real = TableClassifier.fit

    def fails(self, X):
        real(self, X)
        raise ValueError(f"could not convert string to float: {SECRET}")

    monkeypatch.setattr(TableClassifier, "fit", fails)
    said = one_line(train(table, tmp_path / "m", "--ledger", book, *DIRECTLY), 70)
    assert SECRET not in said
    assert "ValueError" in said
    assert "was charged and a charge is never returned" in said
    assert Ledger.open(book).spent == (1.0, 0.0)
    assert [path.name for path in tmp_path.iterdir()] == ["b.ledger"]
    monkeypatch.setenv("NOISETTE_DEBUG", "1")
    with pytest.raises(ValueError, match=SECRET):
        train(table, tmp_path / "m", "--ledger", book, *DIRECTLY)


def test_ctrl_c_outside_of_training(monkeypatch):
    def stopped(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("noisette.tables.read_model", stopped)
    assert one_line(run_command("predict", "m", "t.csv"), 130) == "noisette: stopped.\n"


def test_ctrl_c_during_the_imports():
    code = """
import sys
import noisette.app.commands
class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "noisette.app.commands.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Impatient())
noisette.app.commands.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "noisette: stopped.\n")


def test_the_new_model_survives_ctrl_c_between_the_renames(table, tmp_path, monkeypatch):
    """The one that was just paid for; the old one was to be replaced."""
    out = tmp_path / "m"
    train(table, out, *DIRECTLY)
    before = (out / "model.noisette").read_bytes()
    real, calls = os.rename, []

    def rename(source, target):
        real(source, target)
        calls.append(target)
        if len(calls) == 1:  # the old one has been moved away
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", rename)
        said = one_line(train(table, out, "--force", *DIRECTLY), 3)
    assert f"stopped; the result is whole, in {out}." in said
    assert (out / "model.noisette").read_bytes() != before
    assert run_command("inspect", out).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def new_process(*arguments, **options):
    command = [sys.executable, "-m", "noisette", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


def test_an_answer_that_cannot_be_printed(table, model, tmp_path):
    full = Path("/dev/full")
    if not (full.exists() and stat.S_ISCHR(full.stat().st_mode)):
        pytest.skip("this machine has no /dev/full")
    arguments = (
        "train",
        table,
        "--schema",
        LOANS,
        "--epsilon",
        1,
        "--out",
        tmp_path / "m",
        *DIRECTLY,
    )
    for each in (arguments, ("inspect", model, "--json")):
        with full.open("w") as nowhere:
            done = new_process(*each, stdout=nowhere)
        assert "files that the command writes are complete" in one_line(done, 74)
    assert run_command("inspect", tmp_path / "m").returncode == 0  # the model is there


def test_a_terminal_without_the_letters(tmp_path):
    names = tmp_path / "t.csv"
    names.write_text("größe,ill\n1,no\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = new_process("schema", names, env=environment, stdout=subprocess.DEVNULL)
    assert "PYTHONIOENCODING=utf-8" in one_line(done, 74)


def test_pipes_and_devices_are_left_alone(table, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in (
        ("ledger", pipe, "--epsilon", 1),
        ("schema", table, "--out", pipe, "--force"),
        ("schema", pipe),
        ("train", pipe, "--schema", LOANS, "--epsilon", 1, "--out", tmp_path / "m"),
    ):
        assert "is not an ordinary file" in one_line(run_command(*arguments), 2)
        assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_page_replaces_neither_the_ledger_nor_anything_else(table, tmp_path):
    book, page = tmp_path / "b.ledger", tmp_path / "b.html"
    run_command("ledger", book, "--epsilon", 3)
    before = book.read_bytes()
    said = one_line(run_command("ledger", book, "--report", book, "--force"), 2)
    assert "must not replace the ledger" in said
    assert book.read_bytes() == before
    page.write_text("years of work")
    assert "exists" in one_line(run_command("ledger", book, "--report", page), 2)
    assert page.read_text() == "years of work"
    assert run_command("ledger", book, "--report", page, "--force").returncode == 0
    assert "Privacy ledger" in page.read_text()


@pytest.mark.parametrize("how", ["statement", "extra key", "key twice"])
def test_edited_words_of_a_guarantee_are_refused(model, how):
    path = model / "guarantee.json"
    text = path.read_text()
    node = json.loads(text)
    if how == "statement":
        node["statement"] = node["statement"].replace("epsilon = 1 ", "epsilon = 0.1 ")
        assert node["statement"] != json.loads(text)["statement"]
    changed = json.dumps(node | ({"approved": "by the board"} if how == "extra key" else {}))
    if how == "key twice":  # a person reads the first, a program the last
        changed = changed.replace('"epsilon": 1.0', '"epsilon": 0.1, "epsilon": 1.0', 1)
        assert changed.count('"epsilon"') == text.count('"epsilon"') + 1
    try:
        path.write_text(changed)
        for target in (model, path):
            said = one_line(run_command("inspect", target), 2)
            assert ("was changed" if how == "key twice" else "do not follow from its num") in said
        path.write_text(json.dumps(json.loads(text)))  # the same in one line is the same
        assert run_command("inspect", model).returncode == 0
    finally:
        path.write_text(text)


def test_a_foreign_model_does_not_steer_the_terminal(model, tmp_path):
    foreign, arrays = tmp_path / "foreign.noisette", model_files._read(model / "model.noisette")[1]
    with zipfile.ZipFile(model / "model.noisette") as old, zipfile.ZipFile(foreign, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                node = json.loads(content)
                node["guarantee"]["notes"].append("\x1b[2Jcleared")
                node["guarantee"]["public"].append("\x1b]0;title\x07")
                node["seal"] = model_files._seal(node, arrays)  # forged: it holds no secret
                content = json.dumps(node).encode()
            new.writestr(name, content)
    shown = run_command("inspect", foreign)
    assert shown.returncode == 0
    assert "cleared" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_a_first_line_that_may_be_a_row_is_not_shown(table, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text(f"{SECRET},41,{SECRET}\n" * 3)
    said = one_line(train(bare, tmp_path / "m"), 2)
    assert "names none of the columns" in said
    assert SECRET not in said
    done = run_command("schema", bare)
    assert "--no-header" in one_line(done, 2)
    assert SECRET not in done.stdout + done.stderr
    assert SECRET not in run_command("schema", bare, "--no-header").stdout
    years = tmp_path / "years.csv"
    years.write_text("name,2019,2020\nx,1,2\n")
    assert run_command("schema", years, "--header").returncode == 0


def test_an_enormous_epsilon_is_no_fault(table, tmp_path):
    done = run_command("train", table, "--schema", LOANS, "--epsilon", 1e6, "--out", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert run_command("inspect", tmp_path / "m").returncode == 0


def test_a_single_row_and_a_score_into_a_file(table, model, tmp_path):
    short = tmp_path / "short.csv"
    short.write_text("\n".join(table.read_text().splitlines()[:2]))
    assert "has a single row" in one_line(train(short, tmp_path / "m"), 2)
    done = run_command("predict", model, table, "--score", "--out", tmp_path / "p.csv")
    assert "leave out --out" in one_line(done, 2)


def test_probabilities_are_numbers_for_machines(table, model):
    answer = json.loads(run_command("predict", model, table, "--proba", "--json").stdout)
    assert all(isinstance(p, float) and 0 < p < 1 for p in answer["probability of yes"])


def test_what_several_rows_of_a_person_cost_is_stated(table, tmp_path, model):
    pure = json.loads((model / "guarantee.json").read_text())["statement"]
    assert "a person with k rows has k times epsilon." in pure
    done = train(table, tmp_path / "m", "--delta", 1e-5, "--mechanism", "output", "--json")
    said = json.loads(done.stdout)["guarantee"]
    if said["delta"]:
        assert "k times epsilon and more than k times delta." in said["statement"]


def test_a_folder_whose_name_is_no_text(table, tmp_path):
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff"))
    try:
        done = train(table, out)
    except OSError:
        pytest.skip("this file system takes no such names")
    assert done.returncode == 0, done.stderr
    assert "noisette inspect m?" in (out / "report.html").read_text()


def everything_but_the_weights(table, folder, options):
    """Train; return all that a reader of screen, model folder and ledger could see."""
    book, out = folder / "b.ledger", folder / "m"
    relation = "add-remove" if "add-remove" in options else "replace-one"
    run_command("ledger", book, "--epsilon", 3, "--delta", 1e-4, "--adjacency", relation)
    done = train(table, out, "--ledger", book, *options)
    assert done.returncode == 0, done.stderr
    seen = [done.stdout, done.stderr, run_command("ledger", book, "--json").stdout]
    seen.append(run_command("inspect", out, "--json").stdout)
    seen += [(out / name).read_text() for name in ("schema.toml", "guarantee.json", "report.html")]
    with zipfile.ZipFile(out / "model.noisette") as archive:
        stored = json.loads(archive.read("model.json"))
        stored.pop("seal")  # a digest of what is stored, the released weights included
        stored.pop("bars", None)  # the noise of weights, from released shares and weights
        seen.append(json.dumps(stored))
        others = [each for each in archive.infolist() if each.filename != "model.json"]
        seen.append(str([(each.filename, each.file_size) for each in others]))
    # The pictures of columns show the released weights, and nothing else.
    weights = r"<section[^>]*><h2[^>]*>What the model says of each column.*?</section>"
    seen = [re.sub(weights, "", text, flags=re.DOTALL) for text in seen]
    when = re.compile(r"20\d\d-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")  # that of the command, not of a row
    paid = re.compile(r'(?<="collected": ")[0-9a-f]{64}')  # a digest of the released weights
    return [paid.sub("", when.sub("now", text.replace(str(folder), ""))) for text in seen]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model", "svm", "--loss", "hinge"),
        ("--model", "sgd"),
        ("--adjacency", "add-remove"),
        ("--adjacency", "add-remove", "--population", 700, "--mechanism", "output"),
    ],
)
def test_nothing_but_the_weights_depends_on_the_rows(table, tmp_path, options):
    """Rows exchanged for odd ones, and under add-remove also taken away, change no other byte."""
    head, *lines = table.read_text().splitlines()
    odd = [head, *lines[:300], *([head.count(",") * "," + "no"] * 300)]
    assert head.split(",")[-1] == "repaid"
    files = {"a": [head, *lines], "b": odd}
    if "add-remove" in options:
        files["c"] = [head, *lines[:-1]]
    seen = []
    for name, text in files.items():
        (tmp_path / name).mkdir()
        rows = tmp_path / name / "people.csv"  # the table's name is in the books
        rows.write_text("\n".join(text))
        seen.append(everything_but_the_weights(rows, tmp_path / name, options))
    for others in seen[1:]:
        assert others == seen[0]


def test_help_begins_with_the_way_of_a_table():
    shown = run_command("--help").stdout
    places = [shown.index(f"│ {name} ") for name in ("schema", "train", "predict", "audit")]
    assert places == sorted(places)
    assert "Example" in shown
