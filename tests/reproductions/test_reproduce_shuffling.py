"""``python -m reproductions shuffling``: the runs, the costs, and verdicts that can fail."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisette.core import accounting, mechanisms, plans, sampling
from reproductions import runner
from reproductions.base import Table, Task
from reproductions.page import publish
from reproductions.shuffling import Shuffling, costs, runs
from reproductions.shuffling.verdicts import claims


class Small(Shuffling):
    """All parts, few settings: some seconds."""

    def tasks(self, quick: bool) -> list[Task]:
        found: list[Task] = []
        for task in super().tasks(quick=True):
            if task["part"] == "trajectory":
                if task["seed"] < 2:
                    found.append({**task, "up_to": 16})
            elif task["part"] == "equal":
                if task["sampler"] in ("poisson", "shuffle last") and task["epochs"] == 1:
                    found.append({**task, "seeds": 1})
            elif task["part"] == "algorithm1":
                found.append({**task, "seeds": 1})
            elif task["part"] != "cost" or task["epochs"] in (1, 10):
                found.append(task)
        return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    file = tmp_path_factory.mktemp("small") / "results.jsonl"
    return runner.collect(Small(), file, jobs=1)[0]


def verdicts(table: Table) -> dict[str, bool]:
    return {claim.statement[:40]: claim.holds for claim in claims(table)}


def test_the_optimum_is_the_optimum(rng: np.random.Generator) -> None:
    data = runs.problem(200)
    for _ in range(50):
        assert data.gap(rng.normal(size=runs.DIMENSION)) > 0.0
    # Gradient descent from 0 comes as near as rounding allows, and not below.
    w = np.zeros(runs.DIMENSION)
    for _ in range(3000):
        s = 1.0 / (1.0 + np.exp(data.y * (data.X @ w)))
        w -= 2.0 * (runs.RIDGE * w - data.X.T @ (data.y * s) / 200)
    assert -1e-15 < data.gap(w) < 1e-14
    assert 0.05 < np.mean(data.y != np.sign(data.X @ w)) < 0.2  # one label in ten is flipped


def test_trajectories_without_noise() -> None:
    ask = (16, [0.125, 0.03125], 200)
    cyclic = [list(runs.trajectory("cyclic", 0.0, *ask, seed)) for seed in (0, 1)]
    assert cyclic[0] == cyclic[1], "the fixed order has nothing random"
    assert [row["epochs"] for row in cyclic[0][:5]] == [1, 2, 4, 8, 16]
    plain = [list(runs.trajectory("plain", 0.0, *ask, seed)) for seed in (0, 1)]
    assert plain[0] != plain[1]
    assert all(row["gap"] > 0.0 for row in plain[0] + cyclic[0])


def test_noisy_trajectories_pay_for_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = []

    def release(bounded: Any, permit: Any, randomness: Any) -> Any:
        paid.append(permit.plan)
        return original(bounded, permit, randomness)

    original = runs.release
    monkeypatch.setattr(runs, "release", release)
    quiet = list(runs.trajectory("shuffle", 0.0, 2, [0.01], 50, 0))
    assert paid == []
    noisy = list(runs.trajectory("shuffle", 2.0, 2, [0.01], 50, 0))
    assert [plan.draws for plan in paid] == [100]
    assert quiet[-1]["gap"] != noisy[-1]["gap"]


def test_equal_privacy_is_equal() -> None:
    for name, last in (("poisson", ""), ("cyclic", "last")):
        sampler: sampling.Sampler = (
            sampling.Poisson(0.01) if name == "poisson" else sampling.Cyclic.of_size(2000, 20)
        )
        uses = 100 if name == "poisson" else 5
        z = runs._noise(sampler, uses, 1.0, 0.5, last, 2000)
        gaussian = mechanisms.Gaussian(z)
        plan: plans.Plan = plans.Repeat(plans.Sampled(gaussian, sampler), uses)
        if last:
            plan = plans.LastIterate(
                gaussian, sampler, epochs=uses, loss="logistic", learning_rate=0.5,
                regularization=runs.RIDGE, size=2000,
            )  # fmt: skip
        assert 0.99 < accounting.epsilon(plan, delta=runs.DELTA) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("name", "side", "value"),
    [
        ("cyclic", "upper", 4.377),
        ("shuffle-lower", "lower", 4.063),
        ("shuffle last", "upper", 3.140),
        ("poisson", "upper", 0.718),
        ("random-allocation", "upper", 0.621),
        ("disjoint", "upper", 4.377),
    ],
)
def test_costs_are_the_ones_of_the_maths_reference(name: str, side: str, value: float) -> None:
    found = costs.cost(name, 1, 1.0, "zero-out")
    assert found is not None
    assert found[side] == pytest.approx(value, abs=1.5e-3)


def test_unproven_costs_are_said() -> None:
    assert costs.cost("without-replacement", 1, 1.0, "zero-out") is None
    assert costs.cost("disjoint", 2, 1.0, "zero-out") is None


@pytest.mark.parametrize("multiplier", [2.0, 4.0])
def test_the_rule_of_rho_squared_against_a_closed_form(multiplier: float) -> None:
    """Order 2: the pair (1-q) N(0) + q N(s) and N(0) has divergence log(1 + q^2 (e^x - 1))."""
    x, q = 4.0 / multiplier**2, 1e-3
    found = costs.renyi_rules(multiplier, 2.0, 1000)
    assert found["lower_ratio"] == pytest.approx(
        math.log1p(q * q * math.expm1(x)) / (q * q * x), rel=1e-6
    )
    assert found["upper_ratio"] > found["lower_ratio"] > 1.0
    assert found["gaussian_ratio"] == pytest.approx(1.0, rel=1e-9)


def test_page_figures_and_verdicts(table: Table, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = publish(Small(), table, tmp_path, quick=True, tasks=1, seconds=1.0).read_text()
    assert written.count("**holds**") + written.count("**does not hold**") == 9
    for name in ("convergence", "two_losses", "algorithm1", "samplers", "equal_privacy"):
        for ending in ("png", "svg", "csv"):
            assert (tmp_path / "shuffling" / f"{name}.{ending}").stat().st_size > 100


def test_verdicts_follow_the_numbers(table: Table) -> None:
    """Each changed number must turn its verdict: a verdict that cannot change says nothing."""
    before = verdicts(table)
    assert before["Two losses, two steps: with replacement "]
    assert not before["Subsampling shrinks epsilon quadraticall"]

    def changed(part: str, **new: Any) -> dict[str, bool]:
        rows = [{**row, **new} if row["part"] == part else row for row in table]
        after = verdicts(Table(rows))
        return {name: holds for name, holds in after.items() if holds != before[name]}

    assert list(changed("two-losses", worst_ratio=3.0)) == [
        "Two losses, two steps: with replacement ",
        "Choosing twice the same data point prese",
    ]
    assert changed("run-cost", cyclic=1.0) == {"Gradient-perturbed cyclic SGD is not fas": False}
    assert changed("renyi", lower_ratio=0.9) == {"Subsampling shrinks epsilon quadraticall": True}
    assert changed("fraction-cost", epsilon=1.0) == {
        "Stopping each shuffle after a fraction t": False
    }


def with_powers(table: Table, power: dict[tuple[float, str], float]) -> Table:
    """Return the table with gaps epochs^-power for each (noise, schedule)."""
    return Table([
        {**row, "gap": row["epochs"] ** -power[row["multiplier"], row["schedule"]]}
        if row["part"] == "trajectory" else row
        for row in table
    ])  # fmt: skip


def test_speed_verdicts_follow_the_slopes(table: Table) -> None:
    faster, private = (
        "Shuffling converges at O(1/T^2) against ",
        '"Private" cyclic SGD is not faster.',
    )
    names = ("plain", "cyclic", "shuffle")
    slow = {(z, s): 1.0 for z in (0.0, 0.5, 2.0) for s in names}
    found = verdicts(with_powers(table, slow))
    assert (found[faster], found[private]) == (False, True)
    found = verdicts(with_powers(table, slow | {(0.0, "cyclic"): 2.0, (0.0, "shuffle"): 2.0}))
    assert (found[faster], found[private]) == (True, True)
    found = verdicts(with_powers(table, slow | {(2.0, "cyclic"): 2.0}))
    assert (found[faster], found[private]) == (False, False)
