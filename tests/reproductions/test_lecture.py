"""``python -m reproductions lecture``: exact constants, small fits, and verdicts that can fail."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.real import VARIABLE, Dataset, sphere
from reproductions import runner
from reproductions.base import Table, Task
from reproductions.lecture import Lecture, composition, constants, network, tradeoff
from reproductions.lecture.verdicts import claims
from reproductions.page import publish


def test_the_pair_moves_the_minimiser_by_almost_two() -> None:
    """An independent minimiser (scipy) finds the same shift."""
    found = constants.output_pair(1.0)
    weights = []
    for signed in constants.neighbours():
        assert np.linalg.norm(signed, axis=1).max() <= 1.0 + 1e-12
        start = np.array([-60.0, 0.0])

        def objective(w: np.ndarray, signed: np.ndarray = signed) -> tuple[float, np.ndarray]:
            m = signed @ w
            g = 1.0 / (1.0 + np.exp(m))
            value = np.logaddexp(0.0, -m).sum() + constants.LAMBDA / 2.0 * w @ w
            return float(value), constants.LAMBDA * w - signed.T @ g

        weights.append(minimize(objective, start, jac=True, method="BFGS").x)
    shift = float(np.linalg.norm(weights[0] - weights[1])) * constants.LAMBDA
    assert found["shift"] == pytest.approx(shift, abs=1e-3)
    assert 1.95 < found["shift"] <= 2.0
    assert found["printed_loss"] > 1.9, "the printed algorithm breaks its promise"
    assert found["library_loss"] <= 1.0, "ours does not"


def test_objective_pair_breaks_the_printed_theorem_and_not_the_right_one() -> None:
    for epsilon in (0.5, 1.0, 4.0):
        found = constants.objective_pair(epsilon)
        assert found["printed_bound"] < found["worst_loss"] <= found["right_bound"]


def test_goldens_of_the_maths_reference() -> None:
    assert constants.subsampling(0.1, 1.0)["tight"] == pytest.approx(0.158565, abs=1e-6)
    tail = constants.loss_tail(1.0)
    assert tail["delta"] == pytest.approx(0.126937, abs=1e-6)
    assert tail["exceeds"] == pytest.approx(0.308538, abs=1e-6)
    for steps, values in ((1, (5.2985, 4.7285, 4.3772)), (16, (27.1941, 25.9195, 24.3816))):
        found = constants.conversions(steps, 1e-5)
        for name, value in zip(("lecture", "sharp", "exact"), values, strict=True):
            assert found[name] == pytest.approx(value, abs=2e-4)
        assert found["delta_at_exact"] == pytest.approx(1e-5, rel=1e-6)


def test_composition_is_ordered() -> None:
    for steps in (1, 1000):
        cost = {row["accountant"]: row["epsilon"] for row in composition.costs(steps)}
        assert cost["lower"] <= cost["upper"] <= cost["renyi"] <= cost["moments"]
        # one step: both are exact, the certified bound up to its rounding
        assert cost["upper"] <= cost["linear-sampled"] * (1.0 + 1e-4) < cost["linear"]
    assert cost["upper"] == pytest.approx(1.829, abs=2e-3)


def test_output_noise_has_the_stated_law() -> None:
    """Distance^2 has mean d (d + 1) (2 / (eps lambda n))^2; 400 draws: within 5 standard errors."""
    d, n, epsilon, lam = 5, 2000, 1.0, 0.1
    found = tradeoff.output_noise(n, d, epsilon, lam, range(400))["distance"]
    wanted = math.sqrt(d * (d + 1)) * 2.0 / (epsilon * lam * n)
    # r^2 for r ~ Gamma(5): relative standard deviation sqrt(d+2)(d+3).../... is below 0.95.
    assert abs(found**2 / wanted**2 - 1.0) < 5.0 * 0.95 / 20.0
    # The printed noise (half of it) must be told apart.
    assert abs(found**2 / (wanted / 2.0) ** 2 - 1.0) > 5.0 * 0.95 / 20.0


def test_the_hinge_is_refused() -> None:
    assert tradeoff.hinge_is_refused()


class Small(Lecture):
    """All parts on invented data, few settings."""

    needs = ()

    def prepare(self) -> None:
        pass

    def tasks(self, quick: bool) -> list[Task]:
        found = []
        for task in super().tasks(quick=True):
            if task["part"] == "network":
                continue
            if task["part"] == "tradeoff" and (task["n"] == 3000 or task["seed"] > 0):
                continue
            if task["part"] in ("directions", "output-noise"):
                task = {**task, "seeds": 20}
            found.append(task)
        return found


def invented(name: str) -> Dataset:
    """Twelve features of very different size, so that there are steep and flat directions."""
    data = sphere(20_000, 20, margin=0.01, seed=len(name), n_test=2000)
    scale = np.geomspace(1.0, 0.05, 20)
    return Dataset(
        **{**vars(data), "X": data.X * scale, "X_test": data.X_test * scale, "name": name}
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tradeoff, "_data", invented)
        file = tmp_path_factory.mktemp("small") / "results.jsonl"
        return runner.collect(Small(), file, jobs=1)[0]


def verdicts(table: Table) -> dict[str, bool]:
    return {f"{claim.where}: {claim.statement[:24]}": claim.holds for claim in claims(table)}


def test_page_figures_and_verdicts(table: Table, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = publish(Small(), table, tmp_path, quick=True, tasks=1, seconds=1.0).read_text()
    assert "it forgets the 2 of its own Theorem 1" in written
    assert "The network was skipped, because PyTorch is not installed" in written
    for name in ("tradeoff_epsilon", "tradeoff_size", "directions", "composition"):
        for ending in ("png", "svg", "csv"):
            assert (tmp_path / "lecture" / f"{name}.{ending}").stat().st_size > 100
    assert not (tmp_path / "lecture" / "network.png").exists()


def test_verdicts_follow_the_numbers(table: Table) -> None:
    before = verdicts(table)
    for wrong in (
        "Algorithm 1: Adding Z / (lambda n) wi",
        "Theorem 2: With b of density exp(-e",
        "2.3: If A is (epsilon, delta)",
    ):
        assert not before[wrong]
    assert sum(before.values()) >= len(before) - 4

    def changed(part: str, **new: Any) -> list[str]:
        rows = [{**row, **new} if row["part"] == part else row for row in table]
        after = verdicts(Table(rows))
        return [name for name in after if after[name] != before[name]]

    assert changed("output-pair", shift=2.1, printed_loss=0.9) == [
        "Theorem 1: The minimiser moves by a",
        "Algorithm 1: Adding Z / (lambda n) wi",
    ]
    assert changed("objective-pair", worst_loss=1.0) == ["Theorem 2: With b of density exp(-e"]
    assert changed("hinge", refused=False) == ["1.3: Objective perturbation d"]
    assert changed("one-pass", pass_epsilon=2.0) == ["2.1: Disjoint batches, one pa"]
    assert changed("subsampling", tight=0.3) == ["Theorem 3: On a random fraction gam"]
    assert changed("loss-tail", exceeds=0.1) == ["2.3: If A is (epsilon, delta)"]
    assert changed("directions", rms=1.0) == ["1.3: Objective perturbation p"]
    assert "introduction: The challenge is the pri" in changed("tradeoff", accuracy=80.0)
    assert len(changed("composition", epsilon=1.0)) == 2
    assert len(changed("conversions", lecture=1.0)) == 2


def test_network_claim_and_figure(table: Table) -> None:
    pytest.importorskip("matplotlib")
    reached = {"linear": {1.0: 88, 8.0: 89, None: 90}, "mlp": {1.0: 85, 8.0: 90, None: 95}}
    rows = [
        {"part": "network", "module": m, "epsilon": e, "epochs": 7, "seed": k, "accuracy": a + k}
        for m, levels in reached.items()
        for e, a in levels.items()
        for k in (0, 1)
    ]
    both = Table([*table, *rows])
    claim = claims(both)[-1]
    assert claim.holds
    assert "loses 10.0 points" in claim.measured
    figure = Lecture().figures(both)[-1]
    assert figure.name == "network"
    assert "7 epochs" in figure.caption
    assert "over 2 seeds" in figure.caption
    assert figure.draw(figure.points) is not None


@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"real data: set {VARIABLE}")
def test_a_small_network_trains() -> None:
    pytest.importorskip("torch")
    assert network.available()
    private = network.network_accuracy("linear", 8.0, 2000, 2, 0)["accuracy"]
    plain = network.network_accuracy("linear", None, 2000, 2, 0)["accuracy"]
    assert 50.0 < private <= plain + 5.0
    assert plain > 75.0


def test_network_tasks_need_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "available", lambda: False)
    assert not any(task["part"] == "network" for task in Lecture().tasks(quick=False))
