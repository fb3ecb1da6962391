"""How good is it: free scores, private scores, and scores on other people, by commands."""

import json

import numpy as np
import pytest

from helpers import run_command
from noisette import Ledger, load
from noisette.scores import measure

SCHEMA = """
target = "back"
classes = ["no", "yes"]
unit = "one row is one patient"
[columns.age]
kind = "numeric"
[columns.smokes]
kind = "categorical"
categories = ["yes", "no"]
"""


def run(*arguments, code=0):
    done = run_command(*arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def patients(path, n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    age, smokes = rng.integers(18, 95, n), np.where(rng.random(n) < 0.3, "yes", "no")
    odds = 0.08 * (age - 60) + 1.5 * (smokes == "yes") + shift
    back = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")
    lines = [f"{a},{s},{b}" for a, s, b in zip(age, smokes, back, strict=True)]
    path.write_text("\n".join(["age,smokes,back", *lines]) + "\n")
    return {"age": age, "smokes": smokes}, back


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    place = tmp_path_factory.mktemp("scores")
    (place / "schema.toml").write_text(SCHEMA)
    patients(place / "train.csv", 5000, 0)
    patients(place / "other.csv", 3000, 1)
    train(place, place / "model", "--test-share", 0.2)
    return place


def train(home, out, *more, table="train.csv", code=0):
    return run("train", home / table, "--schema", home / "schema.toml", "--epsilon", 1, "--delta",
               1e-6, "--learn", "--out", out, *more, code=code)  # fmt: skip


def test_training_prints_a_score_that_may_be_published(home, tmp_path):
    shown = train(home, tmp_path / "model", "--test-share", 0.2, "--class-weight", "balanced")
    (line,) = [line for line in shown.splitlines() if line.startswith("AUC ")]
    assert line.endswith("on other people, part of the guarantee")
    assert 0.7 < float(line.split()[1]) < 0.95
    model = load(tmp_path / "model")
    assert line.startswith(f"AUC {model.test_.auc} ")
    assert model.class_weight == "balanced"
    page = (tmp_path / "model" / "report.html").read_text()
    assert "How good it is, on other people" in page
    assert "<polygon" in page
    assert f"{model.test_.auc.low:.3f} to {model.test_.auc.high:.3f}" in page
    assert "its scores on other people" in model.privacy_.released
    assert json.loads(run("inspect", tmp_path / "model", "--json"))["guarantee"]["epsilon"] == 1.0


def test_free_scores_are_those_of_the_rows(home):
    told = json.loads(
        run("predict", home / "model", home / "other.csv", "--score", "--threshold", 0.3, "--json")
    )
    table, back = patients(home / "again.csv", 3000, 1)
    exact = measure(load(home / "model"), table, back)
    assert told["rows"] == 3000
    assert told["scores"]["auc"]["value"] == pytest.approx(exact.auc.value)
    assert told["accuracy"] == pytest.approx(exact.confusion(0.3).accuracy.value)
    shown = run("predict", home / "model", home / "other.csv", "--score")
    assert shown.startswith("scores on 3000 rows (facts about them: not private)\n")
    for word in ("accuracy", "majority", "AUC", "precision", "recall", "log loss", "true no"):
        assert f"\n{word}" in shown


def test_a_model_that_says_no_to_everybody_is_told_so(home, tmp_path):
    patients(tmp_path / "rare.csv", 4000, 2, shift=-5.5)
    told = train(home, tmp_path / "model", table=tmp_path / "rare.csv")
    assert "--class-weight balanced" in told.rpartition("╯")[2]
    shown = run("predict", tmp_path / "model", tmp_path / "rare.csv", "--score")
    last = shown.strip().splitlines()[-1]
    assert last.startswith("The model answers 'no' to everybody: it is no better than the majority")


def test_private_scores_are_charged_and_near_the_free_ones(home, tmp_path):
    book = tmp_path / "ledger"
    run("ledger", book, "--epsilon", 1.5)
    told = json.loads(
        run("evaluate", home / "model", home / "other.csv", "--epsilon", 1, "--ledger", book,
            "--json")
    )  # fmt: skip
    free = json.loads(run("predict", home / "model", home / "other.csv", "--score", "--json"))
    auc = told["scores"]["auc"]
    assert abs(auc["value"] - free["scores"]["auc"]["value"]) < 5 * auc["noise"] + 0.002
    assert told["guarantee"]["epsilon"] == 1.0
    assert Ledger.open(book, adjacency="replace-one").spent[0] == pytest.approx(1.0)
    said = run("evaluate", home / "model", home / "other.csv", "--epsilon", 1, "--ledger", book,
               code=2)  # fmt: skip
    assert "0.5 is left" in said
    shown = run("evaluate", home / "model", home / "other.csv", "--epsilon", 1)
    assert "differentially private with epsilon = 1 (pure, delta = 0)" in shown
    assert "3000" not in shown.replace("the number of records, 3000", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", "0.3,1,3"), "of the same people, which together cost epsilon = 4.3"),
        (("--epsilon", "1", "--test-share", "1.5"), "test_share must be a number in (0, 1)"),
        (("--epsilon", "1", "--class-weight", "yes"), "--class-weight must be balanced, or"),
        (("--epsilon", "1", "--class-weight", "maybe=2"), "none of the classes"),
    ],
    ids=["epsilons", "share", "no weight", "no class"],
)  # fmt: skip
def test_mistakes_cost_nothing(home, tmp_path, arguments, words):
    facts, book = home / "schema.toml", tmp_path / "ledger"
    run("ledger", book, "--epsilon", 2, "--delta", 1e-5)
    said = run("train", home / "train.csv", "--schema", facts, "--learn", "--delta", 1e-6,
               "--ledger", book, "--out", tmp_path / "m", *arguments, code=2)  # fmt: skip
    assert words in said
    assert said.strip().count("\n") == 0
    assert len(Ledger.open(book, adjacency="replace-one").charges) == 0
    assert not (tmp_path / "m").exists()


def test_models_of_numbers_are_scored_within_their_own_bounds(home, tmp_path):
    lines = [f"{age},{age / 2}" for age in range(20, 90) for _ in range(30)]
    (tmp_path / "costs.csv").write_text("\n".join(["age,cost", *lines]) + "\n")
    (tmp_path / "costs.toml").write_text(
        'unit = "one row is one patient"\n[columns.age]\nkind = "numeric"\nlow = 0\nhigh = 100\n'
        '[target]\nname = "cost"\nkind = "numeric"\nlow = 0\nhigh = 50\n'
    )
    table = tmp_path / "costs.csv"
    run("train", table, "--schema", tmp_path / "costs.toml", "--epsilon", 5, "--delta", 1e-6,
        "--out", tmp_path / "model")  # fmt: skip
    shown = run("evaluate", tmp_path / "model", table, "--epsilon", 2)
    assert "Targets were cut to [0, 50]" in shown
    assert "mean absolute error" in shown


def test_thresholds_are_checked_before_the_charge(home, tmp_path):
    book = tmp_path / "ledger"
    run("ledger", book, "--epsilon", 2)
    said = run("evaluate", home / "model", home / "other.csv", "--epsilon", 1, "--threshold", 2,
               "--ledger", book, code=2)  # fmt: skip
    assert "--threshold must lie in [0, 1]" in said
    assert len(Ledger.open(book, adjacency="replace-one").charges) == 0
    assert "--threshold is for --score" in run(
        "predict", home / "model", home / "other.csv", "--threshold", 0.3, code=2
    )
