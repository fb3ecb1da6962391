"""``noisette train`` on a pattern of Parquet files: the model of the whole table, or a sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers import run_command
from noisette.models.files import load

SCHEMA = """
target = "ill"
classes = ["no", "yes"]
unit = "one row is one patient"
[columns.age]
kind = "numeric"
low = 0
high = 100
[columns.ward]
kind = "categorical"
categories = ["a", "b", "c"]
[columns.note]
kind = "ignore"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, 900), "ward": rng.choice(list("abc"), 900)})
    table["ill"] = np.where(rng.random(900) < table.age / 100, "yes", "no")
    table["note"] = "private"
    table.to_parquet(tmp_path / "whole.parquet")
    for k in range(3):
        table[k * 300 : (k + 1) * 300].to_parquet(tmp_path / f"part-{k}.parquet")
    (tmp_path / "facts.toml").write_text(SCHEMA)
    return tmp_path


def train(folder: Path, table: str, *more: str) -> tuple[int, str]:
    done = run_command(
        "train", str(folder / table), "--schema", str(folder / "facts.toml"), "--epsilon", "2",
        "--delta", "1e-5", "--force", *more,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_parts_give_the_model_of_the_whole_table(folder: Path) -> None:
    models = []
    for table in ("whole.parquet", "part-*.parquet"):
        out = folder / f"model-{len(models)}"
        code, text = train(folder, table, "--seed", "1", "--out", str(out))
        assert code == 0, text
        models.append(load(out / "model.noisette"))
    assert np.abs(models[0].coef_ - models[1].coef_).max() < 1e-8


@pytest.mark.parametrize(
    ("table", "more", "words"),
    [
        ("absent-*.parquet", (), "no file has a name like"),
        ("*.toml", (), "must be Parquet files"),
        ("part-*.parquet", ("--cluster", "tcp://x:1", "--workers", "2"), "not both"),
        ("part-*.parquet", ("--workers", "0"), "--workers must be"),
        ("part-*.parquet", ("--model", "sgd", "--sampling", "disjoint"), "takes batches"),
    ],
)
def test_bad_wishes_are_refused_in_one_sentence(
    folder: Path, table: str, more: tuple[str, ...], words: str
) -> None:
    code, text = train(folder, table, "--out", str(folder / "model"), *more)
    assert code != 0
    assert words in " ".join(text.split())
    assert not (folder / "model").exists()


def test_persons_and_scores_on_others_from_parts(folder: Path) -> None:
    code, text = train(folder, "part-*.parquet", "--test-share", "0.2", "--out", str(folder / "a"))
    assert code == 0, text
    facts = folder / "facts.toml"
    facts.write_text(
        'person = "age"\n'
        + SCHEMA.replace('kind = "numeric"\nlow = 0\nhigh = 100', 'kind = "ignore"')
    )
    models = []
    for table in ("whole.parquet", "part-*.parquet"):
        out = folder / f"model-{len(models)}"
        code, text = train(folder, table, "--seed", "1", "--out", str(out))
        assert code == 0, text
        assert "900" not in text  # of persons the number of rows is private
        models.append(load(out / "model.noisette"))
    assert np.abs(models[0].coef_ - models[1].coef_).max() < 1e-8
    assert models[1].privacy_.unit == "person"


@pytest.mark.slow
def test_workers_of_this_machine(folder: Path) -> None:
    code, text = train(folder, "part-*.parquet", "--workers", "2", "--out", str(folder / "model"))
    assert code == 0, text
