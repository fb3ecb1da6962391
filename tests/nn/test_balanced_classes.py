"""Networks whose classes are balanced by noisy counts: one plan, one charge, everybody counted."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from helpers import watching  # noqa: E402
from noisette import Ledger, Persons, PrivateSearch  # noqa: E402
from noisette.core.mechanisms import Gaussian, LaplaceVector  # noqa: E402
from noisette.core.plans import Run, Together  # noqa: E402
from noisette.errors import InvalidParameter, Unproven  # noqa: E402
from noisette.fitting.algorithms.class_weight import balanced  # noqa: E402
from noisette.nn import PrivateClassifier, PrivateTraining  # noqa: E402

torch.set_num_threads(1)

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(1200, 3)).astype(np.float32)
Y = np.where(X[:, 0] + 0.3 * GENERATOR.normal(size=1200) > 1.6, "yes", "no")


class Door:
    """Notes what crosses the door: the value with its bound, the noise, and what came out."""

    def __init__(self) -> None:
        self.crossed: list[Any] = []

    def release(self, real: Any, bounded: Any, permit: Any, *rest: Any, part: int = 0) -> Any:
        answer = real(bounded, permit, *rest, part=part)
        self.crossed.append((bounded, permit.leaf(part).mechanism, answer, part))
        return answer


def network(**options: Any) -> PrivateClassifier:
    settings = {"epochs": 2, "class_weight": "balanced", "random_state": 0} | options
    return PrivateClassifier(lambda: nn.Linear(3, 2), 2.0, 1e-5, **settings)


def watched(model: PrivateClassifier, y: Any = Y, **more: Any) -> list[Any]:
    seen = Door()
    with watching(seen):
        model.fit(X[: len(y)], y, **more)
    return seen.crossed


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_counts_and_steps_are_one_charge(relation: str) -> None:
    ledger = Ledger(2.0, 1e-5, adjacency=relation)
    model = network(adjacency=relation, population=1200, ledger=ledger)
    first, *steps = watched(model)
    bounded, mechanism, _, part = first
    both = 2 if relation == "replace-one" else 1
    assert bounded.value.tolist() == [(Y == "no").sum(), (Y == "yes").sum()]
    assert (bounded.l1, bounded.proof, part) == (both, "HISTOGRAM", 0)
    assert isinstance(mechanism, LaplaceVector)
    assert mechanism.noise_multiplier == pytest.approx(both / (0.05 * 2.0), rel=2e-3)
    assert all(isinstance(noise, Gaussian) and part == 1 for _, noise, _, part in steps)
    assert [charge.plan for charge in ledger.charges] == [model.plan(1200).plan.to_json()]
    assert isinstance(model.plan(1200).plan, Together)
    assert 1.99 < model.plan(1200).epsilon <= 2.0  # what was charged is used up
    promise = model.privacy_
    assert (promise.epsilon, promise.delta) == (2.0, 1e-5)
    assert {"CLASS-WEIGHT", "HISTOGRAM", "PLAN-BEFORE-LOOK"} <= set(promise.proofs)
    assert "noisy counts" in promise.statement()


def test_the_losses_are_weighed_by_what_was_released_and_nothing_of_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    real = PrivateTraining.step

    def step(self: Any, losses: Any, batch: Any) -> None:
        seen.append(losses.__self__._factors.tolist())
        real(self, losses, batch)

    monkeypatch.setattr(PrivateTraining, "step", step)
    model = network()
    _, mechanism, counts, _ = watched(model)[0]
    wanted = balanced(counts, mechanism.noise_multiplier)
    assert seen[0] == pytest.approx(wanted.tolist())
    assert seen[0][0] < 0.2
    assert seen[0][1] == 1.0
    assert model._factors is None


def test_a_person_counts_as_one_whatever_the_rows() -> None:
    """All rows of one person change class: the counts move by their bound of 2, not by 900."""
    ids = np.r_[np.zeros(900, dtype=int), np.arange(1, 301)]
    moved = Y.copy()
    moved[:900] = "no"
    other = moved.copy()
    other[:900] = "yes"
    values = []
    for y in (moved, other):
        model = network()
        bounded, *_ = watched(model, y, persons=Persons.of(ids))[0]
        values.append(bounded.value)
        assert model.privacy_.unit == "person"
        assert bounded.value.sum() == pytest.approx(301.0, abs=1e-2)
    gap = np.abs(values[0] - values[1]).sum()
    assert 1.99 < gap <= bounded.l1 == 2.0


def test_more_of_the_rare_class_is_found() -> None:
    shares = []
    for weight in (None, "balanced"):
        answers = network(class_weight=weight, epochs=4).fit(X, Y).predict(X)
        shares.append(float((answers[Y == "yes"] == "yes").mean()))
    assert shares[1] > shares[0] + 0.1, shares


def test_what_has_no_proof_is_refused_before_the_charge(tmp_path: Any) -> None:
    ledger = Ledger.open(tmp_path / "study.ledger", epsilon=5.0, delta=1e-4, experiment=True)
    with pytest.raises(Unproven, match="balanced classes"):
        network(ledger=ledger, checkpoint=tmp_path / "run.pt").fit(X, Y)
    with pytest.raises(InvalidParameter, match="sample_epsilon or class_weight"):
        network(ledger=ledger).fit(X, Y, sample_epsilon=np.full(1200, 0.5))
    assert len(ledger.charges) == 0
    plan, module = network().plan(1200).plan, nn.Linear(3, 2)
    assert isinstance(plan, Together)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    twice = Together(Run(LaplaceVector(9.0)), Run(LaplaceVector(9.0)), plan.plans[1])
    with pytest.raises(Unproven, match="repeated Sampled"):
        PrivateTraining(module, optimizer, twice, size=1200, delta=1e-5)


def test_a_search_may_try_balanced_classes() -> None:
    ledger = Ledger(3.0, 1e-5)
    grid = {"class_weight": [None, "balanced"]}
    search = PrivateSearch(
        network(classes=["no", "yes"], epochs=1), grid, 3.0, 1e-5, mean=2.0, scoring="auc",
        random_state=0, ledger=ledger,
    ).fit(X, Y)  # fmt: skip
    assert len(ledger.charges) == 1
    assert search.best_estimator_.privacy_.epsilon == 3.0
