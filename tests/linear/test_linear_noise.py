"""Bounds, noise and levels of the estimators, each against an independent formula.

Error rates: the radius test sums 200 Gamma(6) radii, relative deviation 2.9 %; the band of 15 % is
5 deviations wide (false alarm below 1e-6) and rejects a scale wrong by 1.5 or more.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette.adjacency import Adjacency
from noisette.errors import InvalidData
from noisette.estimators.linear_model import INTERCEPT
from noisette.linear import LinearSVC, LogisticRegression, one_shot
from noisette.losses import Hinge, Logistic
from noisette.mechanisms import spherical_laplace_curve as curve
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.solvers import PublicFacts, default_tolerance, minimise
from noisette.training import Public
from noisette.training.levels import Levels, weights_of_levels

RNG = np.random.default_rng(0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record what the estimator hands to the training."""
    found: dict[str, Any] = {}
    original = one_shot.train

    def spy(algorithm: Any, facts: Any, records: Any, **options: Any) -> Any:
        found.update(facts=facts, loss=facts.loss, rows=records.rows, targets=records.targets)
        found["sample_weight"] = records.weights
        found["trained"] = original(algorithm, facts, records, **options)
        return found["trained"]

    monkeypatch.setattr(one_shot, "train", spy)
    return found


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
def test_the_intercept_is_inside_the_row_bound(
    seen: dict[str, Any], bound: float, kind: str
) -> None:
    """A mutant with an unregularised intercept has norm_bound = R instead of hypot(R, s0)."""
    X = RNG.standard_normal((200, 4)) * 5.0
    table = {"dense": X, "float32": X.astype(np.float32), "sparse": sparse.csr_array(X)}[kind]
    model = LogisticRegression(norm_bound=bound).fit(table, np.arange(200) % 2)
    rows = seen["rows"].toarray() if kind == "sparse" else seen["rows"]
    rows = rows.astype(np.float64)
    column = float(np.float32(INTERCEPT * bound))
    used = seen["facts"].norm_bound
    assert used == pytest.approx(math.hypot(bound, column), rel=1e-12)
    assert np.all(rows[:, -1] == column)
    assert np.all(np.linalg.norm(rows, axis=1) <= used)
    weights = seen["trained"].weights[0]
    assert np.array_equal(model.intercept_, [column * weights[-1]])
    assert np.array_equal(model.coef_, weights[None, :-1])


def test_no_intercept(seen: dict[str, Any]) -> None:
    X = RNG.standard_normal((100, 4))
    model = LogisticRegression(fit_intercept=False, norm_bound=2.0).fit(X, np.arange(100) % 2)
    assert seen["facts"].norm_bound == 2.0
    assert seen["rows"].shape == (100, 4)
    assert np.array_equal(model.intercept_, [0.0])


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
def test_regularization_grows_with_the_square_of_the_bound(
    seen: dict[str, Any], bound: float, adjacency: str
) -> None:
    """A mutant with c R instead of c R^2 fails for every bound but 1."""
    contributions = Adjacency.of(adjacency).contributions
    X, y = RNG.standard_normal((10**5, 2)), np.arange(10**5) % 2
    model = LogisticRegression(
        norm_bound=bound, fit_intercept=False, adjacency=adjacency, population=10**5
    ).fit(X, y)
    least = contributions * bound**2 / (1.0 - 1e-3)
    assert seen["facts"].regularization == pytest.approx(least, rel=1e-8)
    assert model.regularization_ == pytest.approx(least / 10**5, rel=1e-8)


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("mechanism", ["output", "objective"])
def test_the_noise_has_the_stated_scale(mechanism: str, bound: float) -> None:
    """On blank rows the optimum is 0, so the released weights are the noise itself."""
    X, y = np.zeros((50, 6)), np.arange(50) % 2
    model = LogisticRegression(
        2.0, mechanism=mechanism, norm_bound=bound, fit_intercept=False, adjacency="zero-out",
        random_state=Randomness.from_seed(0),
    )  # fmt: skip
    radii = [float(np.linalg.norm(model.fit(X, y).coef_)) for _ in range(200)]
    regularization = model.regularization_ * 50
    expected = 6.0 * (bound / 2.0) / regularization
    assert np.mean(radii) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("mechanism", ["output", "objective"])
def test_classes_do_not_share_noise(make: Any, mechanism: str) -> None:
    X, y = np.zeros((60, 30)), np.arange(60) % 3
    model = make(mechanism=mechanism, multi_class="ovr", fit_intercept=False, random_state=0)
    noise = model.fit(X, y).coef_
    assert noise.shape == (3, 30)
    correlation = np.abs(np.corrcoef(noise) - np.eye(3)).max()
    assert correlation < 0.75  # deviation 0.18; shared noise would give 1


def test_a_smaller_regularization_is_raised_and_said(seen: dict[str, Any]) -> None:
    X, y = RNG.standard_normal((1000, 2)), np.arange(1000) % 2
    model = LogisticRegression(regularization=1e-9).fit(X, y)
    assert seen["facts"].regularization > 2.0
    assert "raised" in model.privacy_.statement()
    model = LogisticRegression(regularization=0.5).fit(X, y)
    assert seen["facts"].regularization == 500.0
    assert "as asked" in model.privacy_.statement()
    LogisticRegression(regularization=0.5, adjacency="add-remove", population=2000).fit(X, y)
    assert seen["facts"].regularization == 1000.0


def test_weights_are_used_as_they_are(seen: dict[str, Any]) -> None:
    X, y = RNG.standard_normal((300, 2)), np.arange(300) % 2
    weights = RNG.uniform(0.0, 4.0, 300)
    model = LogisticRegression(weight_bound=5.0).fit(X, y, sample_weight=weights)
    assert seen["facts"].weight_bound == 5.0
    assert np.array_equal(seen["sample_weight"], weights)
    assert "cap 5" in model.privacy_.statement()
    LogisticRegression(weight_bound=5.0).fit(X, y)
    assert seen["facts"].weight_bound == 1.0  # no weights: no price for the cap


# --- per-person epsilon --------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_everyone_gets_the_own_epsilon(
    seen: dict[str, Any], make: Any, delta: float, adjacency: str
) -> None:
    options = {"loss": "hinge"} if make is LinearSVC else {}
    X, y = RNG.standard_normal((300, 3)), np.arange(300) % 2
    levels = np.where(np.arange(300) < 100, 0.3, np.where(np.arange(300) < 200, 1.0, 1.5))
    model = make(1.5, delta, adjacency=adjacency, population=300, **options)
    model.fit(X, y, sample_epsilon=levels)
    facts, weights = seen["facts"], seen["sample_weight"]
    contributions = Adjacency.of(adjacency).contributions
    public = PublicFacts(facts.most, 4, facts.norm_bound, 1.0, facts.regularization, 0.0)
    distance = default_tolerance(seen["loss"], public) / facts.regularization
    full = contributions * facts.norm_bound / facts.regularization + 2.0 * distance
    moved = contributions * weights * facts.norm_bound / facts.regularization + 2.0 * distance
    strength = curve.largest_shift(1.5, delta, 4) if delta else 1.5
    for level in (0.3, 1.0, 1.5):
        shift = strength * float(moved[levels == level].max()) / full
        reached = curve.delta(level, shift, 4) if delta else max(0.0, shift - level * (1 + 1e-9))
        assert reached <= delta * (1.0 + 1e-6)
        # and no noise is wasted: a little more weight would break the level
        assert shift >= 0.99 * (curve.largest_shift(level, delta, 4) if delta else level)
    assert weights[levels == 1.5] == pytest.approx(1.0, abs=1e-9)
    text = model.privacy_.statement()
    # under add-remove the list would show who is there
    assert ("own epsilon (0.3, 1, 1.5)" in text) == (adjacency != "add-remove")
    assert ("public by declaration" in text) == (adjacency != "add-remove")


def test_a_weight_bounds_how_far_the_optimum_moves() -> None:
    """The hinge on one row, all others blank, attains omega C / Lambda exactly."""
    rows = np.zeros((5, 2))
    rows[0] = [1.0, 0.0]
    weights = np.array([0.3, 1.0, 1.0, 1.0, 1.0])
    with_row = minimise(Hinge(), rows, np.ones(5), regularization=2.0, sample_weight=weights)
    without = minimise(
        Hinge(), rows, np.ones(5), regularization=2.0, sample_weight=weights * [0, 1, 1, 1, 1]
    )
    moved = float(np.linalg.norm(with_row.weights - without.weights))
    assert moved == pytest.approx(0.3 / 2.0, abs=2 * with_row.distance_bound)


def test_levels_too_small_for_the_solver_are_left_out(seen: dict[str, Any]) -> None:
    X, y = RNG.standard_normal((50, 2)), np.arange(50) % 2
    levels = np.full(50, 1.0)
    levels[:5] = 1e-9
    for rows in (X, sparse.csr_array(X)):
        LogisticRegression(1.0).fit(rows, y, sample_epsilon=levels)
        assert np.all(seen["sample_weight"] > 0.99)
        assert seen["rows"].shape[0] == 45
        assert np.array_equal(seen["targets"][0], np.where(y[5:] == 1, 1.0, -1.0))
        assert seen["facts"].size == seen["facts"].most == 50


@pytest.mark.parametrize("bad", [0.0, -1.0, 1.5, np.nan])
def test_levels_outside_the_budget_are_refused(bad: float) -> None:
    X, y = RNG.standard_normal((50, 2)), np.arange(50) % 2
    levels = np.full(50, 0.5)
    levels[7] = bad
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match="sample_epsilon must"):
        LogisticRegression(ledger=ledger).fit(X, y, sample_epsilon=levels)
    with pytest.raises(InvalidData, match="not both"):
        LogisticRegression(ledger=ledger).fit(
            X, y, sample_weight=np.ones(50), sample_epsilon=np.ones(50)
        )
    assert ledger.spent == (0.0, 0.0)


def test_weights_of_levels_grow_with_the_level() -> None:
    facts = Public(1.0, 1e-6, Adjacency.REPLACE_ONE, Logistic(), 4, 1.0, 100, 100, 5.0)
    weights = weights_of_levels(Levels(np.linspace(0.01, 1.0, 30)), facts)
    assert np.all(np.diff(weights) > 0.0)
    assert weights[-1] == pytest.approx(1.0, abs=1e-9)
