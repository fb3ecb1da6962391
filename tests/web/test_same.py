"""The commands and the Python that the page shows really do the same."""

import html
import os
import re
import shlex
import subprocess

import pytest
from visitors import Person, write_patients

from helpers import run
from noisette import Ledger
from noisette.app.job import quoted
from noisette.tables import read_model

EVIL = ["plain", "with blank", "it's", 'a"b', "$HOME`id`", "\u202eright", "new\nline", "-x", "",
        "back\\slash\u202e'", "سن👩‍⚕️", "\U000e0041tag"]  # fmt: skip


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
def test_a_word_of_a_command_is_that_word_and_shows_what_it_is(name):
    line, place = f"printf %s {quoted(name)}", {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
    words = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env=place)
    assert words.stdout.decode() == name
    assert "\u202e" not in quoted(name)
    assert "\n" not in quoted(name)


def blocks(text):
    """Return the texts to copy on a page: (command lines, Python)."""
    shell = re.search(r'id="same-shell"[^>]*>(.*?)</code>', text, re.S)
    python = re.search(r'id="same-python"[^>]*>(.*?)</code>', text, re.S)
    return html.unescape(shell[1]), html.unescape(python[1])


def do(line):
    words = shlex.split(line)
    assert words[0] == "noisette"
    return run(*words[1:])[0]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("it's here")
    person = Person(folder).come_in()
    person.walk_to_training(write_patients(folder / "my patients.csv"))
    yield person
    person.runs.close()


def test_the_header_and_the_forecast(walked, capsys):
    header = next(text for text in walked.seen if "What is public about" in text)
    shell, python = blocks(header)
    shown = do(shell)
    exec(python, {})
    assert capsys.readouterr().out.strip() == shown.strip()
    assert "[columns.age]" in shown
    walked.get(f"w/{walked.walk}/budget")
    shell, python = blocks(walked.page.text)
    planned = do(shell)
    exec(python, {})
    said = capsys.readouterr().out
    assert said in planned
    lost = re.search(r"About (\d+) %", said)[1]
    assert f"{lost} % is lost" in walked.page.text


def test_the_training(walked, capsys):
    """The commands of step 5 train the model that the page would have trained."""
    page = walked.get(f"w/{walked.walk}/train").text
    shell, python = blocks(page)
    for line in shell.splitlines():
        do(line)
    made = re.search(r"--out (.+)$", shell)[1]
    fitted = read_model(shlex.split(made)[0])
    assert fitted.guarantee.epsilon == 2.0
    place = next(walked.folder.glob("*.ledger"))
    assert Ledger.open(place).count == 1
    place.unlink()
    for mark in walked.folder.glob(f"{place.name}*"):
        mark.unlink()
    exec(python, {})  # starts the ledger again, charges it and trains
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "(2.0, 1e-06)"
    assert "differentially private with epsilon = 2" in said
    assert Ledger.open(place).count == 1
    assert walked.runs.running is None


def test_the_model(walked, capsys):
    from noisette.app.studio import pages

    out = walked.folder / "my-patients-model"
    new = write_patients(walked.folder / "new.csv", n=30, seed=2)
    shell, python = pages.for_model(out, proba=False)
    for line in shell.replace("TABLE", shlex.quote(str(new))).splitlines():
        do(line)
    exec(python.replace("'TABLE'", repr(str(new))), {})
    assert capsys.readouterr().out.strip().endswith("30")
    assert (walked.folder / "my-patients-model-card.json").is_file()
    assert len((walked.folder / "my-patients-model-predictions.csv").read_text().split()) > 30
