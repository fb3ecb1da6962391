"""docs/command_line.md, followed word by word."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from noisette.app.commands import main

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.S)


def run(line):
    out = io.StringIO()
    argv = mock.patch.object(sys, "argv", shlex.split(line.replace("\\\n", " ")))
    said = contextlib.redirect_stdout(out), contextlib.redirect_stderr(out)
    with argv, said[0], said[1], contextlib.suppress(SystemExit):
        main()
    return out.getvalue()


def without_noise(text):
    """Drop blanks at line ends, the accuracy (new in every run), the last digits and the day."""
    text = re.sub(r"\b\d{4}-\d{2}-\d{2}\b", "2026-11-16", text)
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    text = re.sub(r"accuracy 0\.\d+", "accuracy 0.", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    followed, shown = 0, ""
    for kind, text in BLOCKS:
        if kind == "python":
            subprocess.run([sys.executable, "-c", text], check=True)
        elif kind == "toml":
            Path("patients.toml").write_text(text)
        elif kind == "sh" and "adult" not in text:
            shown = run(text.strip())
            followed += 1
        elif kind == "text":
            wanted = without_noise(text)
            found = without_noise(shown)
            if text.startswith("scores on"):  # the page leaves out the calibration
                wanted, found = ([re.sub(r"[ \d]+", "0", line) for line in lines]
                                 for lines in (wanted, found[: len(wanted)]))  # fmt: skip
            if "checked:" in text:  # the page leaves out what stands before
                found = found[found.index(wanted[0]) :][: len(wanted)]
            assert found == wanted
    assert followed == 9
    assert sorted(os.listdir()) == [
        "model", "new_patients.csv", "patients.csv", "patients.ledger", "patients.toml",
        "predictions.csv",
    ]  # fmt: skip


@pytest.mark.parametrize("option", re.findall(r"^\| `(--[a-z-]+)`", PAGE, flags=re.M))
def test_every_option_of_the_page_exists(option):
    assert option in re.sub(r"\s+", " ", run("noisette train --help"))
