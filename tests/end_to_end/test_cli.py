"""The command line, run as a new user would."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import run_command
from noisette.core.sampling import SAMPLERS


def run(*arguments, check=True):
    done = run_command(*arguments)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def test_the_installed_command_and_the_module_run():
    command = Path(sys.executable).with_name("noisette")
    for call in ([str(command)], [sys.executable, "-m", "noisette"]):
        if not Path(call[0]).exists():
            continue
        done = subprocess.run([*call, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("noisette 0")


POISSON = "--mechanism gaussian --noise-multiplier 1 --sampling poisson --rate 0.01 --steps 1000"


def test_the_example_of_the_issue():
    done = run(
        "account", *POISSON.split(), "--delta", "1e-5", "--adjacency", "add-remove", "--json"
    )
    answer = json.loads(done.stdout)
    assert answer["lower"] <= 1.8282367 <= answer["upper"] == answer["epsilon"]
    assert answer["upper"] / answer["lower"] < 1.001
    assert answer["accountants"]["renyi"] > answer["upper"]
    assert answer["accountants"]["moments"] > answer["accountants"]["renyi"]


@pytest.mark.parametrize(
    "options",
    [
        "--sampling full --noise-multiplier 2 --steps 3",
        "--sampling disjoint --mechanism spherical-laplace --dimension 5 --noise-multiplier 2 "
        "--delta 0",
        "--sampling without-replacement --batch-size 10 --size 1000 --noise-multiplier 2 "
        "--steps 100",
        "--sampling shuffle --batches 10 --epochs 2 --noise-multiplier 2",
        "--sampling cyclic --batches 10 --epochs 2 --noise-multiplier 2 --released last "
        "--learning-rate 4",
        "--sampling random-allocation --batches 10 --epochs 2 --noise-multiplier 2 "
        "--adjacency zero-out",
        "--sampling poisson --mechanism laplace --rate 0.1 --steps 5 --noise-multiplier 4",
        "--mechanism randomized-response --step-epsilon 0.5 --steps 4",
        "--mechanism exponential --step-epsilon 0.5 --steps 4",
        "--sampling full --size 1000 --steps 50 --noise-multiplier 20 --released last "
        "--learning-rate 4 --regularization 0.01 --adjacency add-remove",
    ],
)
def test_every_sampling_and_mechanism(options):
    answer = json.loads(run("account", *options.split(), "--json").stdout)
    assert 0 < answer["epsilon"] < 100
    assert answer["lower"] <= answer["upper"]


def test_every_sampler_is_reachable():
    from noisette.app.commands.account import described

    # The poster's partial shuffle is made by reproductions.shuffling.poster.
    assert set(described(SAMPLERS)) == set(SAMPLERS) - {"partial-shuffle"}


def test_tables_for_people():
    shown = run("account", *POISSON.split(), "--delta", "1e-5", "--adjacency", "add-remove").stdout
    for word in ("epsilon", "1.829", "moments", "renyi", "numerical", "add-remove"):
        assert word in shown


@pytest.mark.parametrize(("suffix", "mechanism"), [("png", "gaussian"), ("svg", "laplace")])
def test_plot(tmp_path, suffix, mechanism):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"epsilon.{suffix}"
    law = ("--mechanism", mechanism, "--noise-multiplier", "4")
    run("account", *law, "--delta", "1e-5", "--plot", str(path))
    assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    ("find", "options", "key"),
    [
        ("noise", "--sampling poisson --rate 0.01 --steps 100", "noise_multiplier"),
        ("steps", "--sampling poisson --rate 0.01 --noise-multiplier 1", "steps"),
        ("rate", "--sampling poisson --steps 100 --noise-multiplier 1", "rate"),
        ("epochs", "--sampling shuffle --batches 10 --noise-multiplier 20", "epochs"),
    ],
)
def test_calibrate(find, options, key):
    command = ["account", "--epsilon", "1", "--delta", "1e-5", "--find", find, *options.split()]
    answer = json.loads(run(*command, "--json").stdout)
    assert answer["epsilon"] <= 1.0
    assert answer[key] > 0
    assert key in run(*command).stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--noise-multiplier -1", "noise_multiplier must be a positive"),
        ("--noise-multiplier 1 --delta 1", "delta must be a number in [0, 1)"),
        ("--noise-multiplier 1 --sampling poisson", "poisson sampling needs --rate"),
        ("--noise-multiplier 1 --sampling poisson --rate 1.5", "rate must be a sampling rate"),
        ("--noise-multiplier 1 --sampling luck", "--sampling must be one of"),
        ("--mechanism luck", "--mechanism must be one of"),
        ("", "gaussian noise needs --noise-multiplier"),
        ("--noise-multiplier 1 --adjacency bounded", "adjacency must be one of"),
        ("--noise-multiplier 1 --sampling shuffle --batches 5 --steps 3", "use --epochs"),
        ("--noise-multiplier 1 --epochs 3", "use --steps"),
        (
            "--noise-multiplier 1 --sampling shuffle --batches 5 --adjacency add-remove",
            "use random-allocation or poisson",
        ),
        ("--noise-multiplier 1 --released some", "--released must be"),
        ("--noise-multiplier 1 --released last", "needs --learning-rate"),
        ("--noise-multiplier 1 --find steps", "--find steps needs --epsilon"),
        ("--noise-multiplier 1 --plot figure.gif", "must end in .png"),
        ("--noise-multiplier 1 --plot nowhere/figure.png", "does not exist"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(options, words):
    done = run("account", *options.split(), check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert done.stdout == ""


@pytest.mark.parametrize("word", ["check", "compare-epsilons", "coefficients", "calibrate"])
def test_a_retired_command_names_the_one_that_does_its_work(word):
    done = run(word, "--epsilon", "1", check=False)
    assert done.returncode == 2
    new = re.search(rf"`noisette {word}` is now `noisette ([a-z]+)", done.stderr)[1]
    assert new in run("--help").stdout
    assert f" {word} " not in run("--help").stdout
    assert done.stderr.strip().count("\n") == 0


def test_the_retired_reproduce_names_the_checkout():
    done = run("reproduce", "song2013", check=False)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "`python -m reproductions`" in done.stderr


def test_help_has_an_example_for_every_command():
    shown = run("account", "--help").stdout
    assert "Example" in shown
    assert "noisette account" in shown
    assert "noisette 0" in run("--version").stdout
