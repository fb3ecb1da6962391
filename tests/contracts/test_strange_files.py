"""Files from strangers: a result or one short sentence, in bounded time and memory."""

import json
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import strangers

from helpers import assert_one_sentence, run_command
from noisette import Ledger, LogisticRegression, _files, load, save
from noisette.core import mechanisms, plans, sampling
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.models import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    PoissonRegressor,
    SGDClassifier,
    SGDRegressor,
)
from noisette.tables import read_schema

SPHERICAL = plans.Run(mechanisms.SphericalLaplace(9.0, 5)).under("replace-one")


def fuzzed(count: int, seed: int, *readers: str) -> str:
    script = Path(strangers.__file__)
    command = [sys.executable, str(script), str(count), str(seed), *readers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_damaged_files_get_one_sentence() -> None:
    readers = [name for name in strangers.READERS if name != "checkpoint"]
    assert fuzzed(200, 1, *readers) == ""


def test_damaged_checkpoints_get_one_sentence() -> None:
    pytest.importorskip("torch")
    assert fuzzed(200, 1, "checkpoint") == ""


@pytest.mark.slow
@pytest.mark.parametrize("reader", strangers.READERS)
def test_thousands_of_damaged_files(reader: str) -> None:
    if reader == "checkpoint":
        pytest.importorskip("torch")
    assert "".join(fuzzed(2500, seed, reader) for seed in (2, 3)) == ""


# --- kept: what once hung, filled memory or raised something of a library ------------------------


def promise(**fields: object) -> str:
    node = Guarantee(1.0, 0.0, SPHERICAL, "a count").to_dict()
    node["plan"]["mechanism"] |= fields
    return json.dumps(node)


def nested(depth: int) -> str:
    return json.dumps({"noisette_plan": 1, "plan": "run"})[:-1] + ', "x": ' + "[" * depth


KEPT: dict[str, str] = {
    "dimension 2^70 took 7 GB": promise(dimension=2**70),
    "dimension 2^62": promise(dimension=2**62),
    "dimension of 5000 digits": promise().replace('"dimension": 5', '"dimension": ' + "9" * 5000),
    "noise of 1e-300": promise(noise_multiplier=1e-300),
    "noise of 1e300": promise(noise_multiplier=1e300),
    "noise not finite": promise().replace("9.0", "1e999"),
    "noise not a number": promise().replace("9.0", "NaN"),
    "key twice": promise().replace('"dimension": 5', '"dimension": 5, "dimension": 5'),
    "deep": nested(100_000),
    "deep and whole": nested(5000) + "]" * 5000 + "}",
    "long value": promise(dimension="x" * 10**5),
    "not text": "\udcff",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_hostile_guarantee_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "guarantee.json"
    path.write_bytes(KEPT[name].encode("utf-8", "surrogateescape"))
    done = run_command("inspect", path)
    assert done.returncode == 2
    assert len(done.stderr.replace(str(path), "")) < 300
    assert done.stderr.count("\n") == 1


def bombs() -> dict[str, Callable[[], plans.Plan]]:
    run = {"plan": "run", "mechanism": {"name": "laplace", "noise_multiplier": 30.0}}
    two = {"plan": "together", "of": [{"plan": "parallel", "of": [run, run]}] * 60}
    law = {"name": "logarithmic", "mean": 4.0}
    last = {
        "plan": "last-iterate", "mechanism": {"name": "gaussian", "noise_multiplier": 2.0},
        "sampler": {"name": "shuffle", "batches": 10**9, "batch_size": None}, "epochs": 3,
        "loss": "logistic", "learning_rate": 0.1,
    }  # fmt: skip
    often = run
    for _ in range(9):
        often = {"plan": "repeat", "of": often, "times": 2**40}
    nodes = {
        "2^60 groups": two,
        "2^60 groups in a search": {"plan": "selected", "of": [two], "law": law},
        "2^360 times": often,
        "too many parts": {"plan": "together", "of": [run] * 20_000},
        "10^9 steps": last,
        "2^70 times": {"plan": "repeat", "of": run, "times": 2**70},
    }
    return {name: lambda node=node: plans.Plan.from_dict(node) for name, node in nodes.items()}


@pytest.mark.parametrize("name", bombs())
def test_a_plan_that_nobody_can_count_is_refused_before_it_is_counted(name: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        bombs()[name]()
    assert_one_sentence(caught.value)


def test_what_cannot_be_read_again_is_not_charged() -> None:
    ledger = Ledger(1e300)
    for plan in (
        mechanisms.SphericalLaplace(1.0, 2**41),
        mechanisms.Laplace(1e-19),
        plans.Repeat(mechanisms.Laplace(1e9), 2**54),
    ):
        with pytest.raises(InvalidParameter, match="plan"):
            ledger.charge(plan, label="x")
    assert not ledger.charges


def test_honest_extremes_are_read_again() -> None:
    for plan in (
        plans.Run(mechanisms.SphericalLaplace(1e-9, 10**9)),
        plans.Repeat(plans.Sampled(mechanisms.Gaussian(1e15), sampling.Poisson(1e-9)), 10**9),
        plans.Sampled(mechanisms.Gaussian(1.0), sampling.Disjoint(10**9)),
        plans.Parallel(*(mechanisms.Laplace(3.0) for _ in range(500))),
    ):
        assert plans.Plan.from_json(plan.to_json()) == plan


# --- what is no ordinary file ---------------------------------------------------------------------


def reads(path: Path) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {
        "model": lambda: load(path),
        "guarantee": lambda: strangers.read_guarantee(path),
        "schema": lambda: read_schema(path),
        "ledger": lambda: Ledger.open(path),
    }
    try:
        from noisette.nn import checkpoint
    except ImportError:
        return found
    return found | {"checkpoint": lambda: checkpoint.read(path)}


@pytest.mark.parametrize("reader", reads(Path()))
@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "/dev/null", "folder"])
def test_only_ordinary_files_are_read(reader: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file" if kind in ("fifo", "folder") else Path(kind)
    if kind == "fifo":
        os.mkfifo(path)
    if kind == "folder":
        path.mkdir()
    with pytest.raises(NoisetteError) as caught:
        reads(path)[reader]()
    assert_one_sentence(caught.value)


def test_a_file_above_its_limit_is_not_read(tmp_path: Path) -> None:
    for name in ("guarantee", "schema", "model"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(1 << 40)  # takes no room on the disk
        with pytest.raises(InvalidParameter, match="too large"):
            reads(path)[name]()


def test_an_array_that_swells_or_has_another_kind_is_refused(tmp_path: Path) -> None:
    X = np.eye(4)
    model = LogisticRegression(1.0, norm_bound=1.0, random_state=0).fit(X, [0, 1, 0, 1])
    save(model, good := tmp_path / "good")
    with zipfile.ZipFile(good) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head = parts["coef.npy"]
    for changed in (
        head.replace(b"<f8", b"|O8"),
        head.replace(b"<f8", b"<f4"),
        head.replace(b"(1, 4)", b"(1, 9)").replace(b"(4,)", b"(9,)"),
        head.replace(b"}", b" ", 1),  # a TokenError of Python's own tokenizer
        head[:8] + b"\xff\xff" + head[10:],
        b"\x93NUMPY\x02\x00" + head[8:],
    ):
        with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
            for name, part in (parts | {"coef.npy": changed}).items():
                archive.writestr(name, part)
        with pytest.raises(InvalidData, match="not a model file"):
            load(tmp_path / "bad")


@pytest.mark.parametrize(
    "text", ["[" * 101 + "]" * 101, "1e999", "NaN", "-Infinity", "9" * 20, '{"a": 1, "a": 1}', ""]
)
def test_json_that_no_honest_file_has(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own, or ours without words
        _files.from_json(text)
    assert _files.from_json("[" * 99 + "9" * 19 + "]" * 99) is not None


# --- the same for parameters, and for an answer that nobody reads ---------------------------------

EXTREME = (5e-324, 1e-300, 1e-9, 1e4, 1e9, 1e300, 2**63, 10**400)


@pytest.mark.parametrize(
    "kind",
    [
        HuberRegressor, LinearRegression, LinearSVC, LogisticRegression, PoissonRegressor,
        SGDClassifier, SGDRegressor,
    ],
)  # fmt: skip
def test_extreme_parameters_give_a_model_or_one_sentence(kind: type) -> None:
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 3))
    known = kind().get_params()
    numbers = "target_bounds" in known
    y = X[:, 0] + 0.5 if numbers else (X[:, 0] > 0) * 1
    bounds = {"target_bounds": (0.0, 1.0)} if numbers else {}
    names = {"epsilon", "delta", "norm_bound", "regularization", "clip_norm"}
    for name in sorted(names & known.keys()):
        for value in EXTREME:
            facts = {"epsilon": 1.0, "norm_bound": 1.0, **bounds, name: value}
            try:
                fitted = kind(**facts, random_state=0).fit(X, y)
            except NoisetteError as error:
                said = str(error)
            else:
                said = ""
                assert math.isfinite(fitted.privacy_.epsilon)
            assert len(said) < 400
    assert HuberRegressor(1e4, **facts_of_huber()).fit(X, X[:, 0] + 0.5).privacy_.epsilon == 1e4


def facts_of_huber() -> dict[str, object]:
    return {"norm_bound": 1.0, "target_bounds": (0.0, 1.0), "random_state": 0}


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_a_closed_stream_is_no_fault(closed: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "guarantee.json"
    path.write_text(promise())
    command = [sys.executable, "-m", "noisette", "inspect", str(path)]
    shell = " ".join(f"{each}>&-" for each in closed)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {shell}', "sh", *command], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_long_refusal_is_cut() -> None:
    with pytest.raises(InvalidParameter) as caught, _files.understood("no", InvalidData):
        raise InvalidParameter(f"the key {'x' * 9000!r} is unknown.")
    assert len(str(caught.value)) == 400
