"""A verdict speaks of the program under audit, and none is given where nothing was tested.

"violated" must not come from what the audit itself did or misread; "consistent" must not be said of
an attack that could not run. Audits of right mechanisms have confidence 0.999999.
"""

import os
import time
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from noisette import LogisticRegression, SGDClassifier
from noisette.audit import AuditReport, check_estimator, two_worlds
from noisette.audit.canaries import Data, plain_table
from noisette.audit.check import ATTACKS
from noisette.audit.page import html
from noisette.audit.whitebox import repeated as repeated_module
from noisette.audit.whitebox import replay as replay_module
from noisette.audit.whitebox.laws import _tests, recovered
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.worlds import with_fresh_seed
from noisette.errors import InvalidParameter

ONE = (np.array([1.0, 0.0, 0.0]), None)
ZERO = (np.zeros(3), None)
STRICT: dict[str, Any] = {"confidence": 0.999999, "runs": 200}


class Release:
    """A mechanism with fit: releases what a function makes of X."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def fit(self, X: Any, y: Any) -> "Release":
        self.coef_ = self.function(X)
        return self


def first(model: Any) -> float:
    return float(model.coef_[0])


def audit(function: Any, **options: Any) -> Any:
    options = {"claim": 1.0, "statistic": first, **STRICT, **options}
    return two_worlds(lambda: Release(function), ONE, ZERO, **options)


def noisy(seed: int, scale: float = 1.0) -> Any:
    generator = np.random.default_rng(seed)
    return lambda X: X + generator.laplace(0.0, scale, 3)


# --- two worlds ----------------------------------------------------------------------------------


def test_a_fit_that_changes_its_input_does_not_change_the_worlds() -> None:
    """The release is exactly 1-DP; only its input is spoilt afterwards."""
    inner = noisy(0)

    def spoils(X: Any) -> Any:
        out = inner(X)
        X *= 3.0
        return out

    assert audit(spoils).verdict == "consistent"
    assert ONE[0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("epsilon", [60.0, 1000.0])
def test_a_huge_claim_is_no_overflow(epsilon: float) -> None:
    assert audit(lambda X: X, claim=epsilon).verdict == "consistent"
    assert audit(lambda X: X, claim=(epsilon, 1e-6), statistic=None).verdict == "consistent"


def test_releases_of_different_sizes_are_compared() -> None:
    """The size itself is the leak: three numbers with the record, two without, all noise."""
    generator = np.random.default_rng(1)
    found = audit(lambda X: generator.random(2 + int(X[0])), statistic=None)
    assert found.verdict == "violated"
    assert "z2" in found.event
    same = audit(lambda X: generator.random(generator.integers(0, 3)), statistic=None)
    assert same.verdict == "consistent"
    assert audit(lambda X: X[:0], statistic=None).verdict == "consistent"


GENERATORS = {
    "generator": np.random.default_rng(0).laplace,
    "legacy": np.random.RandomState(0).laplace,
    "global": np.random.laplace,
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_that_workers_would_copy_is_refused(name: str) -> None:
    """Each worker would draw the same noise, and the audit would call that a fault of the model."""
    draw = GENERATORS[name]
    with pytest.raises(InvalidParameter, match=r"holds a random generator.*n_jobs=1"):
        audit(lambda X: X + draw(size=3), n_jobs=2)


def test_nothing_to_see_is_said() -> None:
    class Hidden:
        def fit(self, X: Any, y: Any) -> None:
            self.value = X.sum()

    found = two_worlds(Hidden, ONE, ZERO, claim=1.0, statistic=lambda model: 0.0, runs=20)
    assert found.repeated is not None
    assert found.repeated.verdict == "not applicable"
    text = str(AuditReport("hidden", found.findings))
    assert "certain" not in text
    assert "certain" not in html(AuditReport("hidden", (found.repeated,)))


def test_the_seeds_of_nested_parts_are_replaced() -> None:
    def make() -> Any:
        return make_pipeline(Normalizer(), LogisticRegression(1.0, random_state=3, norm_bound=1.0))

    seeds = {with_fresh_seed(make())[-1].random_state for _ in range(9)}
    assert len(seeds) == 9
    assert AuditedEstimator(make(), (1.0, 0.0)).unseeded()[-1].random_state is None


class Steered(ClassifierMixin, BaseEstimator):
    """A sum with noise from a seed; 1-DP under replace-one if the seed is fresh."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "Steered":
        generator = np.random.default_rng(self.random_state)
        self.w_ = np.clip(X, -1.0, 1.0).sum(axis=0) + generator.laplace(0.0, 6.0, X.shape[1])
        return self

    def decision_function(self, X: Any) -> Any:
        return X @ self.w_


def test_a_pipeline_with_a_fixed_seed_is_no_false_alarm() -> None:
    """Users set no seed; the audit must not blame the one that stands in an example."""
    model = make_pipeline(Normalizer(), Steered(random_state=3))
    report = check_estimator(
        model, epsilon=1.0, attacks=["two-worlds"], confidence=0.9999, runs=100
    )
    assert report.verdict == "consistent", str(report)


# --- strangers -----------------------------------------------------------------------------------


class Other(ClassifierMixin, BaseEstimator):
    """A class of another library that only claims an epsilon."""

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = epsilon


class Constant(Other):
    """Perfectly private: it never looks at the data."""

    def fit(self, X: Any, y: Any) -> "Constant":
        self.coef_, self.intercept_ = np.array([[1.0, 2.0, 3.0]]), np.zeros(1)
        return self


class Choice(Other):
    """One of two models by the exponential mechanism: it repeats, and may."""

    def fit(self, X: Any, y: Any) -> "Choice":
        # the score moves by at most 1, so a Laplace scale of 1 is 1-DP
        score = np.clip(X[:, 0], -0.5, 0.5) @ np.where(np.asarray(y) == 1, 1.0, -1.0)
        sign = np.sign(score + np.random.default_rng().laplace())
        self.coef_, self.intercept_ = np.array([[sign, 0.0, 0.0]]), np.zeros(1)
        return self


class Tiled(Other):
    """The same private row for each of three classes: post-processing, no shared noise."""

    def fit(self, X: Any, y: Any) -> "Tiled":
        row = np.clip(X, -1.0, 1.0).sum(axis=0) + np.random.default_rng().laplace(0.0, 6.0, 3)
        self.coef_, self.intercept_ = np.tile(row, (3, 1)), np.zeros(3)
        return self


@pytest.mark.parametrize("kind", [Constant, Choice, Tiled])
def test_honest_repetitions_of_strangers_are_no_alarm(kind: Any) -> None:
    report = check_estimator(kind(), **STRICT)
    assert report.verdict == "consistent", str(report)


class Seeded(Other):
    """Fixed noise: the difference of two models is the difference of their data."""

    def fit(self, X: Any, y: Any) -> "Seeded":
        self._w = np.clip(X, -1, 1).sum(axis=0) + np.random.default_rng(0).laplace(0.0, 6.0, 3)
        return self

    def decision_function(self, X: Any) -> Any:
        return X @ self._w


class SeededOpen(Seeded):
    def fit(self, X: Any, y: Any) -> "SeededOpen":
        super().fit(X, y)
        self.coef_, self.intercept_ = self._w[None], np.zeros(1)
        return self


@pytest.mark.parametrize("kind", [Seeded, SeededOpen])
def test_a_fixed_seed_of_a_stranger_is_caught(kind: Any) -> None:
    report = check_estimator(kind(), attacks=ATTACKS, **STRICT)
    guilty = {found.attack for found in report.violations}
    assert "two worlds: opposite row/repeated noise" in guilty or (
        "two worlds: opposite row" in guilty
    )
    assert "fitted attributes" in guilty
    assert ("repeated noise" in guilty) == (kind is SeededOpen)


class Forked(Other):
    """A generator made at import time: independent in one process, copied into its children."""

    generator = np.random.default_rng(5)

    def fit(self, X: Any, y: Any) -> "Forked":
        self.coef_ = self.generator.laplace(0.0, 1.0, (1, 3))
        self.intercept_ = np.zeros(1)
        return self


def test_a_generator_copied_by_forks_is_caught() -> None:
    found = check_estimator(Forked(), attacks=["repeated"], confidence=0.999).findings[0]
    assert found.verdict == "violated"
    assert found.detail == "Fits in two processes released identical numbers."
    assert found.confidence == pytest.approx(0.999)


class Silent(Other):
    def fit(self, X: Any, y: Any) -> "Silent":
        return self


def test_a_model_that_shows_nothing_is_not_called_consistent() -> None:
    report = check_estimator(Silent(), runs=8)
    assert report.verdict == "not applicable", str(report)
    assert "shows no coef_" in str(report)


class Words(Other):
    """Says in words whether the first feature sums up to more than 0; not private at all."""

    def __init__(self, epsilon: float = 1.0, classes: Any = ("a", "b")) -> None:
        super().__init__(epsilon)
        self.classes = classes

    def fit(self, X: Any, y: Any) -> "Words":
        self.answer_ = "a" if np.median(X[:, 0]) > 0.1 or X[-1, 0] > 50.0 else "b"
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.answer_)


def test_labels_in_words_are_compared() -> None:
    report = check_estimator(Words(), attacks=["two-worlds"], **STRICT)
    assert "two worlds: long row" in {found.attack for found in report.violations}


class Refuses(Constant):
    def fit(self, X: Any, y: Any) -> "Refuses":
        if np.abs(X).max() > 50.0:
            raise ValueError(f"row {X[np.abs(X).max(axis=1) > 50][0]} is too long")
        return super().fit(X, y)


def test_a_stranger_that_refuses_a_canary_is_still_audited() -> None:
    report = check_estimator(Refuses(), runs=60)
    found = {each.attack: each for each in report.findings}
    assert found["two worlds: long row"].verdict == "not applicable"
    assert "fit refuses D with ValueError" in found["two worlds: long row"].detail
    assert "too long" not in str(report)
    assert found["two worlds: opposite row"].verdict == "consistent"


def test_both_classes_are_there_in_each_canary_for_strangers() -> None:
    """Most libraries refuse a table of one class."""
    from noisette.audit.canaries import CANARIES
    from noisette.audit.whitebox.from_outside import STRANGERS

    room = AuditedEstimator(Constant(), (1.0, 0.0)).room()
    for name in STRANGERS:
        pair = CANARIES[name](room)
        assert len(set(pair.first.y)) == len(set(pair.second.y)) == 2, name


class Sum(Other):
    """The sum of clipped rows; the noise is right for one row more or less, not for two."""

    sizes: set[int] = set()  # noqa: RUF012

    def fit(self, X: Any, y: Any) -> "Sum":
        self.sizes.add(len(X))
        X = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        generator = np.random.default_rng()
        g = generator.standard_normal(3)
        noise = generator.gamma(3.0) * g / np.linalg.norm(g) / self.epsilon
        self.coef_, self.intercept_ = (X.sum(axis=0) + noise)[None], np.zeros(1)
        return self


def test_the_relation_of_a_strangers_claim_can_be_said() -> None:
    Sum.sizes.clear()
    report = check_estimator(Sum(), adjacency="add-remove", **STRICT)
    assert report.verdict == "consistent", str(report)
    assert {60, 59} <= Sum.sizes
    assert "neighbours under add-remove" in str(report)
    Sum.sizes.clear()
    default = check_estimator(Sum(), attacks=["two-worlds"], runs=8)
    assert "neighbours under replace-one" in str(default)
    assert 59 not in Sum.sizes


def test_facts_of_a_claim_are_checked() -> None:
    assert AuditedEstimator(Sum(), (1.0, 0.0), bound=3.0).room().norm == 3.0
    with pytest.raises(InvalidParameter, match="set them there"):
        check_estimator(LogisticRegression(norm_bound=1.0), adjacency="add-remove")
    with pytest.raises(InvalidParameter, match="takes no sample_weight"):
        check_estimator(Sum(), adjacency="zero-out")
    with pytest.raises(InvalidParameter, match="norm_bound"):
        check_estimator(Sum(), norm_bound=-1.0)
    with pytest.raises(InvalidParameter, match="adjacency"):
        check_estimator(Sum(), adjacency="neighbours")


def test_an_attack_that_was_asked_for_is_never_left_out_silently() -> None:
    report = check_estimator(Constant(), attacks=["exposed", "repeated"], runs=60)
    assert [found.verdict for found in report.findings] == ["not applicable", "consistent"]
    assert "looks inside estimators of noisette" in report.findings[0].detail


def test_bad_numbers_are_refused_before_any_fit() -> None:
    class Untouchable(LogisticRegression):
        def fit(self, X: Any, y: Any, **options: Any) -> Any:
            raise AssertionError("fitted")

    for given in ({"runs": 3}, {"n_jobs": 0}):
        with pytest.raises(InvalidParameter, match="must be a whole number"):
            check_estimator(Untouchable(norm_bound=1.0), **given)


# --- children ------------------------------------------------------------------------------------


class OnlyHere(Forked):
    """Fails, or sleeps, in any other process than this one."""

    home, sleeps = os.getpid(), False

    def fit(self, X: Any, y: Any) -> "OnlyHere":
        if os.getpid() != self.home:
            if self.sleeps:
                time.sleep(3600)
            raise RuntimeError("not here")
        super().fit(X, y)
        return self


@pytest.mark.parametrize("sleeps", [False, True])
def test_a_child_that_fails_or_hangs_is_said(
    sleeps: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OnlyHere, "sleeps", sleeps)
    monkeypatch.setattr(repeated_module, "LEAST_PATIENCE", 0.5)
    found = check_estimator(OnlyHere(), attacks=["repeated"]).findings[0]
    assert found.verdict == "consistent"
    assert "no child process gave a fit to compare" in found.detail
    assert capfd.readouterr().err == ""


# --- white box -----------------------------------------------------------------------------------


def test_another_point_of_the_promised_curve_is_no_violation() -> None:
    model = LogisticRegression(epsilon=1.0, delta=1e-6, mechanism="output", norm_bound=1.0)
    attacks = ["exposed", "replay"]
    report = check_estimator(model, epsilon=3.0, delta=1e-9, attacks=attacks)
    assert report.verdict == "consistent", str(report)
    false = check_estimator(model, epsilon=0.9, delta=1e-7, attacks=attacks)
    assert "weaker than the claim" in str(false)


def test_projected_steps_do_not_spoil_the_law_of_the_noise() -> None:
    """Half of these steps end on the ball; to drop them would keep the small noise only."""
    subject = AuditedEstimator(
        SGDClassifier(epsilon=0.05, regularization=1.0, norm_bound=1.0), (0.05, 0.0)
    )
    data = plain_table(subject.room(1), rows=600)
    _, trace = subject.fit(Data(data.X, data.y))
    radii = [np.linalg.norm(step.after) for step in trace.steps]
    assert any(r > 0.999 * trace.steps[0].update.radius for r in radii)
    (_, _, noise), *_ = recovered(trace, subject)
    assert len(noise) == len(trace.steps)
    report = check_estimator(subject.estimator, attacks=["noise-law"])
    assert report.verdict == "consistent", str(report)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dimension", [1, 4])
def test_noise_that_is_no_number_is_a_fault(bad: float, dimension: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(20, dimension))
    vectors[3] = bad
    assert min(p for p, _ in _tests("gaussian", [vectors])) == 0.0


def test_missing_noise_is_a_fault() -> None:
    found = list(_tests("gaussian", [np.zeros((1, 3))] * 40))
    assert min(p for p, _ in found) < 1e-12


@pytest.mark.parametrize("sampling", ["random-allocation", "full"])
def test_a_replay_under_zero_out_compares_blank_records(sampling: str) -> None:
    model = SGDClassifier(
        adjacency="zero-out", batch_size=60, delta=1e-5, sampling=sampling, norm_bound=1.0
    )
    found = check_estimator(model, attacks=["replay"]).findings[0]
    assert "everything else is identical" in found.detail


class _WithoutWeights(SGDClassifier):
    """An estimator whose fit has no way to blank a record where levels are unproven."""

    def fit(self, X: Any, y: Any = None, sample_epsilon: Any = None) -> "_WithoutWeights":  # type: ignore[override]
        super().fit(X, y, sample_epsilon)
        return self


def test_a_replay_without_neighbours_says_so() -> None:
    model = _WithoutWeights(
        adjacency="zero-out",
        batch_size=60,
        delta=1e-5,
        sampling="random-allocation",
        norm_bound=1.0,
    )
    found = check_estimator(model, attacks=["replay"]).findings[0]
    assert "no neighbour was compared" in found.detail


def test_a_replay_in_which_nothing_moved_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One canary, in a batch of one on average: some seeds never draw it."""
    only = {"opposite row": replay_module.CANARIES["opposite row"]}
    monkeypatch.setattr(replay_module, "CANARIES", only)
    model = SGDClassifier(sampling="poisson", batch_size=1, delta=1e-5, norm_bound=1.0)
    found = [
        check_estimator(model, attacks=["replay"], seed=seed).findings[0] for seed in range(12)
    ]
    assert {each.verdict for each in found} == {"consistent", "not applicable"}
    silent = next(each for each in found if each.verdict == "not applicable")
    assert silent.detail == "No canary moved anything that was released."


def test_a_class_is_no_estimator() -> None:
    with pytest.raises(InvalidParameter, match=r"write LogisticRegression\(\.\.\.\)"):
        check_estimator(LogisticRegression)


def test_a_replay_bounds_epsilon_where_the_noise_is_pure() -> None:
    """The ratio of densities at delta = 0 is no bound at a larger delta."""
    pure = LogisticRegression(epsilon=1.0, mechanism="output", norm_bound=1.0)
    found = check_estimator(pure, attacks=["replay"]).findings[0]
    assert found.epsilon_lower is not None
    assert 0.8 < found.epsilon_lower <= 1.0
    assert check_estimator(pure, delta=1e-6, attacks=["replay"]).findings[0].epsilon_lower is None
