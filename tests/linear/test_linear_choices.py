"""Choices depend on public facts only; accuracy on real data is what docs/linear.md promises."""

import os

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from benchmarks import real as datasets
from noisette.models import LinearSVC, LogisticRegression

RNG = np.random.default_rng(1)
needs_data = pytest.mark.skipif(not os.environ.get("NOISETTE_DATA"), reason="no NOISETTE_DATA")


def blank(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.uniform(-0.1, 0.1, (n, d)), np.arange(n) % 2


def test_whitening_is_chosen_from_public_facts() -> None:
    small, large = blank(300, 5), blank(5000, 5)
    auto = LogisticRegression(delta=1e-6, whiten="auto", norm_bound=1.0)
    assert "Whitening: none, because n <" in auto.fit(*small).privacy_.statement()
    assert "Whitening: 0.1 of the budget" in auto.fit(*large).privacy_.statement()
    assert auto.regularization_ is None
    same = LogisticRegression(delta=1e-6, whiten=True, random_state=3, norm_bound=1.0).fit(*large)
    auto = auto.set_params(random_state=3).fit(*large)
    assert np.array_equal(same.coef_, auto.coef_)
    assert same.privacy_.notes == auto.privacy_.notes
    for options, why in (
        ({"delta": 0.0}, "delta > 0"),
        ({"mechanism": "output"}, "objective"),
        ({"adjacency": "add-remove"}, "no public guess"),
    ):
        model = LogisticRegression(
            **{"norm_bound": 1.0, "delta": 1e-6, "whiten": "auto", **options}
        )  # type: ignore[arg-type]
        if options.get("mechanism") == "output":
            model.set_params(whiten="auto")
        assert why in model.fit(*large).privacy_.statement()


def test_regularization_follows_the_noise() -> None:
    """Less data or less epsilon: more regularization; its notes say where it came from."""
    found = [
        LogisticRegression(epsilon, mechanism=mechanism, norm_bound=1.0).fit(*blank(n, 20))
        for mechanism in ("objective", "output")
        for n, epsilon in ((2000, 1.0), (2000, 0.1), (8000, 0.1))
    ]
    for first in (0, 3):
        rich, poor, more = (model.regularization_ for model in found[first : first + 3])
        assert rich < poor
        assert more < poor
    assert "estimated excess risk" in found[1].privacy_.statement()


def test_add_remove_never_reads_the_size() -> None:
    facts = []
    for n in (900, 901, 1500):
        model = LogisticRegression(
            adjacency="add-remove", population=1000, random_state=0, norm_bound=1.0
        )
        model.fit(*blank(n, 3))
        facts.append((model.regularization_, model.privacy_))
    assert facts[0] == facts[1] == facts[2]


@needs_data
@pytest.mark.parametrize("name", [pytest.param("adult", marks=pytest.mark.slow), "bank"])
def test_accuracy_at_epsilon_one_is_within_a_point(name: str) -> None:
    data = datasets.load(name)
    plain = Plain(C=1e6 / len(data.y), max_iter=1000).fit(data.X, data.y)
    target = 100.0 * plain.score(data.X_test, data.y_test)
    for options in ({}, {"adjacency": "zero-out"}, {"delta": 1e-6}):
        scores = [
            LogisticRegression(1.0, random_state=seed, norm_bound=1.0, **options)  # type: ignore[arg-type]
            .fit(data.X, data.y)
            .score(data.X_test, data.y_test)
            for seed in range(3)
        ]
        assert 100.0 * np.mean(scores) > target - 1.0, options


@needs_data
@pytest.mark.slow
def test_the_defaults_are_near_the_best_of_a_grid() -> None:
    """Within 0.6 points of the best Lambda on a grid, for both mechanisms (Adult, epsilon 0.1)."""
    data = datasets.load("adult")
    n = len(data.y)

    def score(mechanism: str, regularization: float | str) -> float:
        model = LogisticRegression(
            0.1, mechanism=mechanism, regularization=regularization, norm_bound=1.0
        )
        scores = [
            model.set_params(random_state=seed).fit(data.X, data.y).score(data.X_test, data.y_test)
            for seed in range(4)
        ]
        return 100.0 * float(np.mean(scores))

    for mechanism in ("objective", "output"):
        default = score(mechanism, "auto")
        best = max(score(mechanism, value / n) for value in (50.0, 100.0, 200.0, 400.0, 800.0))
        assert default > best - 0.6, mechanism


@needs_data
def test_the_svm_learns_too() -> None:
    data = datasets.load("adult")
    for loss, least in (("softplus", 0.845), ("huber", 0.84), ("hinge", 0.82)):
        model = LinearSVC(1.0, loss=loss, random_state=0, norm_bound=1.0).fit(data.X, data.y)
        assert model.score(data.X_test, data.y_test) > least, loss


@pytest.mark.parametrize("mechanism", ["output", "objective"])
def test_automatic_regularization_is_never_one_that_the_solver_refuses(mechanism: str) -> None:
    """At a huge epsilon the least risk asks for almost none; the choice stops where solves end."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    for epsilon in (1e6, 1e12):
        model = LinearSVC(
            epsilon,
            loss="softplus",
            mechanism=mechanism,
            classes=[0, 1],
            random_state=0,
            norm_bound=1.0,
        )
        assert np.all(np.isfinite(model.fit(X, y).coef_))
