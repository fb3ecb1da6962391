"""The attack on fitted attributes: exact steps are refuted, right estimators are left alone.

Error rate: the attack errs with probability 1e-6 at most; screening and decision use fresh noise
from the operating system in every run.
"""

import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest
from audit_registry import LONG, name
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

from noisette import Ledger, LogisticRegression
from noisette.audit import Finding, check_estimator
from noisette.audit.fitted_state import fitted_state
from noisette.audit.whitebox.attributes import _design, least_epsilon, likelihood
from noisette.core.randomness import Randomness


def attack(step: Any, **options: Any) -> Finding:
    model = make_pipeline(step, LogisticRegression(epsilon=1.0, norm_bound=1.0))
    return check_estimator(model, attacks=["attributes"], **options).findings[0]


LEAKS: list[tuple[Any, str]] = [
    (MinMaxScaler(), "minmaxscaler.data_max_"),
    (StandardScaler(), "standardscaler.mean_"),
    (SimpleImputer(), "simpleimputer.statistics_"),
    (OneHotEncoder(handle_unknown="ignore"), "onehotencoder.categories_"),
    (SelectKBest(k=2), "selectkbest.scores_"),
    (PCA(2), "pca.components_"),
    (CountVectorizer(), "countvectorizer.vocabulary_"),
    (make_union(SimpleImputer(), MissingIndicator()), "missingindicator.features_"),
    (
        make_column_transformer((StandardScaler(), ["age", "pay"]), ("passthrough", ["size"])),
        "columntransformer.standardscaler.mean_",
    ),
]
ALIKE: list[tuple[Any, str]] = [  # by `make slow`: the same kinds of attributes again
    (SimpleImputer(strategy="median"), "simpleimputer.statistics_"),
    (OrdinalEncoder(), "ordinalencoder.categories_"),
    (SelectKBest(chi2, k=2), "selectkbest.scores_"),
    (PCA(10), "pca.components_"),
    (TargetEncoder(), "targetencoder.categories_"),
    (RobustScaler(), "robustscaler.center_"),
    (KBinsDiscretizer(), "kbinsdiscretizer.bin_edges_"),
    (VarianceThreshold(), "variancethreshold.variances_"),
    (make_union(Normalizer(), MinMaxScaler()), "featureunion.minmaxscaler.data_max_"),
]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        pytest.param(*each, id=f"{each[1]}-{k}", marks=[pytest.mark.slow] * (each in ALIKE))
        for k, each in enumerate(LEAKS + ALIKE)
    ],
)
def test_a_step_that_is_fitted_on_the_records_is_refuted_and_named(step: Any, path: str) -> None:
    found = attack(step)
    assert found.verdict == "violated", found
    assert path in found.detail
    assert found.epsilon_lower is not None
    assert found.epsilon_lower > 1.0
    assert found.confidence >= 1.0 - 1e-6
    # no value is printed: extremes of the made-up rows are 100 and more, words are word0, ...
    assert not re.search(r"\d\d\d|word\d", found.detail)


def test_the_whole_battery_stops_at_an_exact_attribute() -> None:
    report = check_estimator(
        make_pipeline(MinMaxScaler(), LogisticRegression(epsilon=1.0, norm_bound=1.0))
    )
    assert report.verdict == "violated"
    assert [found.attack for found in report.findings] == ["fitted attributes"]
    assert report.findings[0].claim == (1.0, 0.0)  # of the one private step


@pytest.mark.parametrize("epsilon", [3.0, 6.0])
def test_a_weak_claim_is_refuted_as_well(epsilon: float) -> None:
    model = make_pipeline(MinMaxScaler(), LogisticRegression(epsilon=epsilon, norm_bound=1.0))
    found = check_estimator(model, attacks=["attributes"]).findings[0]
    assert found.verdict == "violated"
    assert found.epsilon_lower is not None
    assert found.epsilon_lower > epsilon


# --- right ones ----------------------------------------------------------------------------------


class Hashed(BaseEstimator):
    """Hashes the rounded entries of a row into a few columns; nothing is fitted."""

    def fit(self, X: Any, y: Any = None) -> "Hashed":
        return self

    def transform(self, X: Any) -> Any:
        rows = [{f"{i}={round(v, 1)}": 1.0 for i, v in enumerate(row)} for row in np.asarray(X)]
        return FeatureHasher(16).transform(rows).toarray()


def public_scaler() -> Any:
    return FrozenEstimator(MinMaxScaler().fit(np.arange(20.0).reshape(4, 5)))


RIGHT = [
    FunctionTransformer(np.tanh),
    Normalizer(),
    Hashed(),
    HashingVectorizer(n_features=16),
    OneHotEncoder(categories=[[0.0, 1.0]] * 3, handle_unknown="ignore"),
    OneHotEncoder(categories=[[0.0, 1.0]] * 3),
    public_scaler(),
    make_union(Normalizer(), FunctionTransformer(np.tanh)),
]


@pytest.mark.parametrize("step", RIGHT, ids=[type(step).__name__ for step in RIGHT])
def test_steps_that_learn_nothing_are_no_alarm(step: Any) -> None:
    found = attack(step)
    assert found.verdict == "consistent", found


@pytest.mark.slow
@pytest.mark.parametrize("estimator", LONG, ids=name)
def test_none_of_our_estimators_is_an_alarm(estimator: Any) -> None:
    """The short list is attacked in test_check_estimator.py, by the whole battery."""
    found = check_estimator(estimator, attacks=["attributes"]).findings[0]
    assert found.verdict == "consistent", found


class Noisy(ClassifierMixin, BaseEstimator):
    """Noise of epsilon 1 on a clipped sum; `more` is stored beside it, on purpose or not."""

    def __init__(self, more: str = "", epsilon: float = 1.0) -> None:
        self.more = more
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any) -> "Noisy":
        rng = np.random.default_rng()
        total = np.clip(X, -1.0, 1.0).sum(axis=0)
        self.coef_ = total + rng.laplace(0.0, 2.0 * X.shape[1] / self.epsilon, X.shape[1])
        extreme = bool(np.max(X) > 50.0)
        if self.more == "size":
            self.n_samples_seen_ = len(X)
        elif self.more == "answer":  # randomised response: epsilon-DP, and often the same
            keep = rng.random() < 1.0 / (1.0 + math.exp(-self.epsilon))
            self.answer_ = extreme == keep
        elif self.more == "shape":
            self.coef_ = self.coef_[: 2 + extreme]
        elif self.more == "type":
            self.coef_ = self.coef_ if extreme else self.coef_.astype(np.float32)
        elif self.more == "absent" and extreme:
            self._seen = rng.random()
        elif self.more == "part":
            self.coef_ = np.append(self.coef_, float(np.max(X)))
        elif self.more == "set":  # random, but never the same in both worlds
            self.choice_ = int(rng.integers(2)) + 2 * extreme
        elif self.more == "deep":
            box: dict[str, Any] = {"rows": [csr_matrix(np.atleast_2d(np.max(X, axis=0)))]}
            box["itself"] = box
            self._box = (box, {1, 2}, np.array([None, "text"], dtype=object), len, rng)
        return self


@pytest.mark.parametrize("more", ["shape", "type", "absent", "part", "set", "deep"])
def test_exact_parts_are_found_wherever_they_are(more: str) -> None:
    found = check_estimator(Noisy(more), attacks=["attributes"]).findings[0]
    assert found.verdict == "violated", found


@pytest.mark.parametrize("more", ["", "answer"])
def test_private_parts_are_no_alarm(more: str) -> None:
    """At epsilon 3 the private answer is right in 95 of 100 fits: a suspect, but not exact."""
    for _ in range(4):
        found = check_estimator(Noisy(more, 3.0), attacks=["attributes"]).findings[0]
        assert found.verdict == "consistent", found


def test_the_number_of_records_is_public_under_replace_one_only() -> None:
    def verdict(adjacency: str) -> str:
        report = check_estimator(Noisy("size"), attacks=["attributes"], adjacency=adjacency)
        return report.verdict

    assert verdict("replace-one") == "consistent"
    assert verdict("add-remove") == "violated"
    private = LogisticRegression(
        epsilon=1.0, adjacency="add-remove", population=600, norm_bound=1.0
    )
    scaled = make_pipeline(StandardScaler(), private)  # the relation is that of the private step
    found = check_estimator(scaled, attacks=["attributes"]).findings[0]
    assert "standardscaler.n_samples_seen_" in found.detail


def test_a_claim_too_weak_for_the_fits_is_said() -> None:
    found = check_estimator(
        Noisy("size", epsilon=12.0), attacks=["attributes"], adjacency="add-remove"
    ).findings[0]
    assert found.verdict == "consistent"
    assert "cannot refute so weak a claim: n_samples_seen_" in found.detail


def test_the_ledgers_of_the_parts_are_left_alone() -> None:
    ledger = Ledger(1.0)
    model = make_pipeline(
        Normalizer(), LogisticRegression(epsilon=1.0, ledger=ledger, norm_bound=1.0)
    )
    assert check_estimator(model, attacks=["attributes"]).verdict == "consistent"
    assert ledger.spent == (0.0, 0.0)


# --- the parts -----------------------------------------------------------------------------------


def test_everything_but_functions_ledgers_and_randomness_is_noted() -> None:
    class Holder:
        __slots__ = ("inner", "named")

    holder = Holder()
    holder.named, holder.inner = [("first", MinMaxScaler().fit([[0.0], [1.0]]))], [holder]
    notes = fitted_state(holder)
    assert "first.data_max_" in {note.label for note in notes.values()}
    skipped = [
        len, np.tanh, Ledger(1.0), Randomness.from_seed(1), np.random.default_rng(1),
        random.Random(1), Holder, np,
    ]  # fmt: skip
    for value in skipped:
        assert fitted_state(value) == {}, value
    different = [
        1, 1.0, True, None, "1", b"1", 2 + 0j, np.float32(1), np.array([1.0]), np.array([[1.0]]),
        np.array([1], dtype=object), [1], (1,), {1}, {1: 1}, {"1": 1}, csr_matrix([[1.0]]),
    ]  # fmt: skip
    whole = [frozenset((p, n.digest) for p, n in fitted_state(each).items()) for each in different]
    assert len(set(whole)) == len(whole)
    assert fitted_state({3, 1, 2}) == fitted_state({2, 3, 1})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_bound_on_disjoint_answers_is_attained(k: int, epsilon: float, delta: float) -> None:
    """Randomised response over k answers, with probability delta the plain truth, attains it."""
    right = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    table = np.full((k, k), (1.0 - right) / (k - 1))
    np.fill_diagonal(table, right)
    table = (1.0 - delta) * table + delta * np.eye(k)
    mean = float(np.mean(np.diag(table)))
    for i, j in itertools.permutations(range(k), 2):  # it is (epsilon, delta)-DP
        gap = np.maximum(table[i] - math.exp(epsilon) * table[j], 0.0).sum()
        assert gap <= delta + 1e-12
    assert likelihood(k, (epsilon, delta)) == pytest.approx(mean, rel=1e-12)


def test_the_least_epsilon_is_where_the_fits_would_just_do() -> None:
    for apart in (1, 2):
        found = least_epsilon(7, 21, (1.0, 1e-5), apart, 1e-6)
        pair = (found, 1e-5) if apart == 1 else (2.0 * found, 1e-5 * (1.0 + math.exp(found)))
        assert likelihood(7, pair) ** 21 == pytest.approx(1e-6, rel=1e-6)
    assert least_epsilon(7, 21, (1.0, 0.0), 1, 1e-6) == pytest.approx(
        2.0 * least_epsilon(7, 21, (1.0, 0.0), 2, 1e-6)
    )


def test_honest_answers_rarely_meet_a_prediction() -> None:
    """The level, measured: k = 3 answers by randomised response, 4 fits on each, 20,000 times."""
    k, rounds, epsilon = 3, 4, 1.0
    rng = np.random.default_rng(7)
    right = likelihood(k, (epsilon, 0.0))
    hits = np.mean(np.all(rng.random((20_000, k * rounds)) < right, axis=1))
    level = right ** (k * rounds)
    assert hits <= level + 4.0 * math.sqrt(level / 20_000)


def test_fits_that_all_fail_leave_nothing_to_test() -> None:
    """A step may refuse every neighbour, as a pipeline does whose step released no column."""
    assert _design({}, (1, 1), (1.0, 0.0), 1e-8) is None
