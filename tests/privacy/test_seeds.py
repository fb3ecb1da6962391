"""A ledger knows which charges were seeded, before any of their noise exists."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from noisette import Ledger, LinearSVC, LogisticRegression, SGDClassifier
from noisette.app.commands.app import app
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.mechanisms import Laplace
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, LedgerError
from noisette.report import ledger_page

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
VALUE = Bounded(np.zeros(1), contribution=1.0, adjacency=Adjacency.REPLACE_ONE, proof="CLIP")


def sgd(**options: Any) -> SGDClassifier:
    return SGDClassifier(3.0, 1e-5, classes=[0, 1], norm_bound=2.0, **options)


def regression(**options: Any) -> LogisticRegression:
    return LogisticRegression(3.0, classes=[0, 1], norm_bound=2.0, **options)


def network(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateClassifier

    module = torch.nn.Linear(3, 2)
    return PrivateClassifier(module, 3.0, 1e-5, classes=[0, 1], epochs=1, **options)


def step_by_step(**options: Any) -> Any:
    class Stream:
        def fit(self, rows: Any, labels: Any) -> None:
            sgd(**options).partial_fit(rows, labels, classes=[0, 1])

    return Stream()


MODELS: dict[str, Callable[..., Any]] = {
    "objective": regression,
    "output": lambda **options: regression(mechanism="output", **options),
    "whitening": lambda **options: LogisticRegression(
        3.0, 1e-5, classes=[0, 1], norm_bound=2.0, whiten=0.3, **options
    ),
    "hinge": lambda **options: LinearSVC(3.0, classes=[0, 1], norm_bound=2.0, **options),
    "single pass": lambda **options: sgd(sampling="disjoint", **options),
    "noisy sgd": lambda **options: sgd(sampling="poisson", **options),
    "gradient descent": lambda **options: sgd(sampling="full", **options),
    "stream": step_by_step,
    "network": network,
}


def fit(name: str, ledger: Ledger, seed: int | None) -> None:
    MODELS[name](ledger=ledger, random_state=seed).fit(
        X.astype(np.float32) if name == "network" else X, Y
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_in_a_file_takes_no_seed(tmp_path: Path, name: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger", 9.0, 1e-4)
    before = (tmp_path / "ledger").read_bytes()
    with pytest.raises(InvalidParameter, match=r"random_state.*Nothing was charged"):
        fit(name, ledger, 1)
    assert (tmp_path / "ledger").read_bytes() == before
    fit(name, ledger, None)
    assert [charge.seeded for charge in ledger.charges] == [False]


@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_for_experiments_and_one_in_memory_mark_it(tmp_path: Path, name: str) -> None:
    for ledger in (
        Ledger.open(tmp_path / "ledger", 9.0, 1e-4, experiment=True),
        Ledger(9.0, 1e-4),
    ):
        fit(name, ledger, 1)
        fit(name, ledger, None)
        assert [charge.seeded for charge in ledger.charges] == [True, False]
    assert [charge.seeded for charge in Ledger.open(tmp_path / "ledger").charges] == [True, False]


def test_a_checkpoint_with_a_seed_needs_a_ledger_for_experiments(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger", 9.0, 1e-4)
    model = network(ledger=ledger, random_state=1, checkpoint=tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="Nothing was charged"):
        model.fit(X.astype(np.float32), Y)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger"]
    assert ledger.charges == []


def test_a_charge_for_secret_noise_is_marked_or_refuses_at_the_door(tmp_path: Path) -> None:
    memory = Ledger(1.0)
    permit = memory.charge(Laplace(4.0), label="x")
    assert not memory.charges[0].seeded
    release(VALUE, permit, Randomness.from_seed(1))
    assert memory.charges[0].seeded
    file = Ledger.open(tmp_path / "ledger", 1.0, experiment=True)
    permit = file.charge(Laplace(4.0), label="x")
    with pytest.raises(LedgerError, match=r"secret noise.*Nothing was drawn"):
        release(VALUE, permit, Randomness.from_seed(1))
    assert permit.draws_left() == 1
    release(VALUE, permit, Randomness.secure())
    assert not permit.guarantee("a mean").seeded


@pytest.mark.parametrize("value", [1, "yes", None])
def test_only_a_plain_yes_is_a_seed(value: Any) -> None:
    ledger = Ledger(1.0)
    with pytest.raises(InvalidParameter, match="seeded must be True or False"):
        ledger.charge(Laplace(4.0), label="x", seeded=value)
    assert ledger.charges == []


def test_a_ledger_stays_what_it_was_started_as(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "real", 1.0)
    with pytest.raises(LedgerError, match="experiment"):
        Ledger.open(tmp_path / "real", experiment=True)
    Ledger.open(tmp_path / "trial", 1.0, experiment=True)
    with pytest.raises(LedgerError, match="experiment"):
        Ledger.open(tmp_path / "trial", 1.0, experiment=False)
    assert Ledger.open(tmp_path / "trial").experiment


def test_command_line_and_report_show_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, 1.0, experiment=True)
    ledger.charge(Laplace(8.0), label="one", seeded=True)
    ledger.charge(Laplace(8.0), label="two")
    shown = CliRunner().invoke(app, ["ledger", str(path)], env={"COLUMNS": "200"}).stdout
    assert "one (from a seed: hides nobody)" in shown
    assert "two (from" not in shown
    assert "for experiments" in shown
    answer = json.loads(CliRunner().invoke(app, ["ledger", str(path), "--json"]).stdout)
    assert answer["experiment"] is True
    assert [charge["seeded"] for charge in answer["charges"]] == [True, False]
    assert "one (from a seed: hides nobody)" in ledger_page(ledger, "ledger")
