"""`make demo` runs, explains itself, and its commands and files are real."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import run_command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py"), "--out", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_it_says_what_a_newcomer_needs(demo):
    for words in (
        "Differential privacy", "no privacy", "what your reviewer gets", "differentially private",
        "nothing was charged", "Try next",
    ):  # fmt: skip
        assert words in " ".join(demo[1].replace("│", " ").split()), words


def test_privacy_costs_what_it_should(demo):
    def accuracy(row):
        return float(re.search(rf"{row}\s+│\s+([\d.]+)%", demo[1])[1])

    plain, usual = accuracy(r"no privacy \(scikit-learn\)"), accuracy("usual answer")
    tight, middle, loose = (accuracy(f"epsilon = {e}") for e in ("0.1", "1", "8"))
    assert usual < tight < middle <= plain + 0.3  # means of ten: standard errors below 0.4
    assert plain - loose < 0.5
    assert plain - middle < 1.5


def test_its_files_are_there(demo):
    for name in (
        "loans.csv",
        "new_loans.csv",
        "accuracy.png",
        "people.ledger",
        "model/report.html",
    ):
        assert (demo[0] / name).stat().st_size > 500, name
    assert (demo[0] / ".gitignore").read_text() == "*\n"
    assert not (demo[0] / "second").exists()


def test_the_commands_that_it_proposes_run(demo, monkeypatch):
    monkeypatch.chdir(ROOT)
    proposed = re.findall(r"^ +\S*noisette ((?:inspect|predict|ledger) .*)$", demo[1], flags=re.M)
    assert len(proposed) == 3
    for line in proposed:
        done = run_command(*line.split())
        assert done.returncode == 0, done.stderr
