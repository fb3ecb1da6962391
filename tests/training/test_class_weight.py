"""Class weights: the ratio that was asked for, never above the cap, and paid for where bought."""

from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import (
    Ledger,
    LinearSVC,
    LogisticRegression,
    Persons,
    SGDClassifier,
    TableClassifier,
    load,
    save,
)
from noisette.audit import check_estimator
from noisette.core.mechanisms import LaplaceVector
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.class_weight import balanced, public_weights

MODELS = [
    (LogisticRegression, {}),
    (LogisticRegression, {"mechanism": "output"}),
    (LogisticRegression, {"whiten": True, "delta": 1e-6}),
    (LinearSVC, {}),
    (SGDClassifier, {}),
    (SGDClassifier, {"delta": 1e-6, "sampling": "poisson"}),
]
NAMES = [f"{kind.__name__} {options}" for kind, options in MODELS]


def rows(n: int = 4000, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3)) / 2
    y = np.where(generator.random(n) < 1 / (1 + np.exp(3.0 - 4 * X[:, 0])), "yes", "no")
    return X, y


class Weights:
    """Notes the weights that reach a solver, and what crosses the door first."""

    def __init__(self) -> None:
        self.solved: list[Any] = []
        self.released: list[Any] = []

    def release(self, real: Any, bounded: Any, permit: Any, *rest: Any, part: int = 0) -> Any:
        answer = real(bounded, permit, *rest, part=part)
        self.released.append((bounded, permit.leaf(part).mechanism, answer))
        return answer

    def minimise(self, real: Any, *given: Any, **options: Any) -> Any:
        self.solved.append((options["sample_weight"], options["weight_bound"]))
        return real(*given, **options)


def watched(model: Any, *data: Any, **more: Any) -> Weights:
    seen = Weights()
    with watching(seen):
        model.fit(*data, **more)
    return seen


def recall(model: Any, X: Any, y: Any) -> float:
    return float((model.predict(X)[y == "yes"] == "yes").mean())


@pytest.mark.parametrize(("kind", "options"), MODELS, ids=NAMES)
def test_weights_find_more_of_the_rare_class_within_the_same_epsilon(
    kind: Any, options: dict[str, Any], tmp_path: Any
) -> None:
    X, y = rows()
    found = {}
    for name, weight in (("none", None), ("public", {"yes": 6.0}), ("bought", "balanced")):
        ledger = Ledger(2.0, 1e-5)
        model = kind(
            2.0, norm_bound=2.0, class_weight=weight, random_state=1, ledger=ledger, **options
        ).fit(X, y)
        assert model.privacy_.epsilon == 2.0
        assert ledger.spent[0] <= 2.0
        assert ("CLASS-WEIGHT" in model.privacy_.proofs) == (weight is not None)
        assert model.plan(4000, 3).epsilon <= 2.0
        save(model, tmp_path / "m.noisette")
        assert load(tmp_path / "m.noisette").class_weight == weight
        found[name] = recall(model, X, y)
    assert min(found["public"], found["bought"]) > found["none"] + 0.1, found


def test_public_weights_reach_the_solver_scaled_to_the_cap() -> None:
    X, y = rows(400)
    model = LogisticRegression(
        1.0, norm_bound=1.0, class_weight={"yes": 8.0, "no": 2.0}, weight_bound=3.0, random_state=0
    )
    ((weights, cap),) = watched(model, X, y).solved
    assert cap == 1.0  # without sample weights there is no other cap
    assert set(np.unique(weights)) == {0.25, 1.0}
    assert np.array_equal(weights == 1.0, y == "yes")
    own = np.linspace(0.0, 3.0, 400)
    ((weights, cap),) = watched(model, X, y, sample_weight=own).solved
    assert cap == 3.0
    assert np.allclose(weights, own * np.where(y == "yes", 1.0, 0.25))


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_balancing_releases_counts_with_the_bound_and_the_noise_of_its_share(relation: str) -> None:
    X, y = rows(2000)
    model = LogisticRegression(
        2.0, norm_bound=1.0, class_weight="balanced", random_state=0, adjacency=relation,
        weight_bound=2.0, population=2000,
    )  # fmt: skip
    own = np.where(np.arange(2000) < 500, 0.0, 2.0)
    seen = watched(model, X, y, sample_weight=own)
    bounded, mechanism, counts = seen.released[0]
    both = 2 if relation == "replace-one" else 1
    kept = y[500:]
    assert bounded.value.tolist() == [(kept == "no").sum(), (kept == "yes").sum()]  # blank: nowhere
    assert (bounded.l1, bounded.proof) == (both, "HISTOGRAM")
    assert isinstance(mechanism, LaplaceVector)
    assert mechanism.noise_multiplier == pytest.approx(both / (0.05 * 2.0), rel=2e-3)
    ((weights, cap),) = seen.solved
    ratio = weights[500:][kept == "no"][0] / weights[500:][kept == "yes"][0]
    assert ratio == pytest.approx(counts[1] / counts[0])
    assert weights.max() <= cap == 2.0
    assert (weights[:500] == 0.0).all()


def test_too_little_noise_on_the_counts_is_refused_by_the_accountant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant: counts bought with a tenth more than their share."""
    import noisette.fitting.algorithms.class_weight as module

    X, y = rows(1000)
    model = LogisticRegression(1.0, norm_bound=1.0, class_weight="balanced", random_state=0)
    model.fit(X, y)
    monkeypatch.setattr(module, "_SLACK", -0.1)
    with pytest.raises(InvalidParameter, match="epsilon"):
        model.fit(X, y)


def test_persons_share_one_weight_also_when_classes_are_weighed() -> None:
    X, y = rows(1200)
    people = Persons.of(np.arange(1200) // 3)
    for weight in ({"yes": 5.0}, "balanced"):
        model = LogisticRegression(1.0, norm_bound=1.0, class_weight=weight, random_state=0)
        seen = watched(model, X, y, persons=people)
        ((weights, cap),) = seen.solved
        each = np.bincount(people.index, weights)
        assert each.max() <= cap == 1.0
        assert model.privacy_.unit == "person"
        if weight == "balanced":
            assert 399.0 < seen.released[0][0].value.sum() <= 400.0


def test_weights_of_released_counts_stay_in_a_public_range() -> None:
    assert balanced(np.array([900.0, 100.0]), 5.0).tolist() == pytest.approx([1 / 9, 1.0])
    assert balanced(np.array([1e6, -3.0]), 5.0).tolist() == pytest.approx([1 / 50, 1.0])
    assert balanced(np.array([-8.0, -9.0]), 5.0).tolist() == [1.0, 1.0]
    assert public_weights({"b": 4.0}, ["a", "b"]).tolist() == [0.25, 1.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong", ["even", {"yes": -1.0}, {"yes": 0.0, "no": 0.0}, {"maybe": 1.0}, 3, {}, {"yes": "x"}],
    ids=str,
)  # fmt: skip
def test_what_is_no_weight_is_refused_and_costs_nothing(wrong: Any) -> None:
    X, y = rows(100)
    kinds = {"a": "numeric", "b": "numeric", "c": "numeric"}
    ledger = Ledger(5.0, 1e-6)
    for model, data in (
        (LogisticRegression(1.0, norm_bound=1.0, class_weight=wrong, ledger=ledger), X),
        (SGDClassifier(1.0, norm_bound=1.0, class_weight=wrong, ledger=ledger), X),
        (TableClassifier(1.0, 1e-6, schema=kinds, class_weight=wrong, ledger=ledger),
         dict(zip("abc", X.T, strict=True))),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="class_weight"):
            model.fit(data, y)
    assert len(ledger.charges) == 0


def test_levels_and_streams_do_not_take_class_weights() -> None:
    X, y = rows(100)
    own = np.full(100, 0.5)
    for model in (
        LogisticRegression(1.0, norm_bound=1.0, class_weight={"yes": 2.0}, mechanism="output"),
        SGDClassifier(1.0, norm_bound=1.0, class_weight="balanced"),
    ):
        with pytest.raises(InvalidParameter, match="sample_epsilon or class_weight"):
            model.fit(X, y, sample_epsilon=own)
    stream = SGDClassifier(1.0, norm_bound=1.0, class_weight="balanced", classes=["no", "yes"])
    with pytest.raises(InvalidParameter, match="not offered for streams"):
        stream.fit(iter([(X, y)]))
    with pytest.raises(InvalidParameter, match="not offered for streams"):
        stream.partial_fit(X, y)


def test_the_auditor_finds_nothing_against_balanced_classes() -> None:
    model = LogisticRegression(1.0, norm_bound=1.0, class_weight="balanced", classes=[0, 1])
    report = check_estimator(model, attacks=["attributes", "exposed", "replay"])
    assert [found.verdict for found in report.findings] == ["consistent"] * 3


@pytest.mark.slow
def test_the_auditor_sees_counts_with_too_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LaplaceVector.apply

    def less(self: Any, bounded: Any, unit: float, generator: Any) -> Any:
        noisy = real(self, bounded, unit, generator)
        return bounded.value + 0.8 * (noisy - bounded.value)

    monkeypatch.setattr(LaplaceVector, "apply", less)
    model = LogisticRegression(1.0, norm_bound=1.0, class_weight="balanced", classes=[0, 1])
    (found,) = check_estimator(model, attacks=["noise-law"]).findings
    assert found.verdict == "violated"
    assert "counts noise" in found.detail
