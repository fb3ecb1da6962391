"""Per-person epsilon of the one-shot models: weights, their proof, and who is not counted."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import spherical_laplace_curve as curve
from noisette.errors import InvalidData
from noisette.fitting.algorithms import Public
from noisette.fitting.algorithms.levels import Levels, weights_of_levels
from noisette.fitting.losses import Hinge, Logistic
from noisette.fitting.solvers import PublicFacts, default_tolerance, minimise
from noisette.models import LinearSVC, LogisticRegression

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_everyone_gets_the_own_epsilon(
    seen: dict[str, Any], make: Any, delta: float, adjacency: str
) -> None:
    options = {"loss": "hinge"} if make is LinearSVC else {}
    X, y = RNG.standard_normal((300, 3)), np.arange(300) % 2
    levels = np.where(np.arange(300) < 100, 0.3, np.where(np.arange(300) < 200, 1.0, 1.5))
    model = make(1.5, delta, adjacency=adjacency, population=300, **options, norm_bound=1.0)
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
        LogisticRegression(1.0, norm_bound=1.0).fit(rows, y, sample_epsilon=levels)
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
        LogisticRegression(ledger=ledger, norm_bound=1.0).fit(X, y, sample_epsilon=levels)
    with pytest.raises(InvalidData, match="not both"):
        LogisticRegression(ledger=ledger, norm_bound=1.0).fit(
            X, y, sample_weight=np.ones(50), sample_epsilon=np.ones(50)
        )
    assert ledger.spent == (0.0, 0.0)


def test_weights_of_levels_grow_with_the_level() -> None:
    facts = Public(
        epsilon=1.0, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, size=100, most=100,
        loss=Logistic(), features=4, norm_bound=1.0, regularization=5.0,
    )  # fmt: skip
    weights = weights_of_levels(Levels(np.linspace(0.01, 1.0, 30)), facts)
    assert np.all(np.diff(weights) > 0.0)
    assert weights[-1] == pytest.approx(1.0, abs=1e-9)


N = 60


X = RNG.standard_normal((N, 3))


Y = np.arange(N) % 2


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
def test_who_has_no_weight_is_not_even_counted(seen: dict[str, Any], store: Any) -> None:
    """A level below the solver's error buys weight 0; a blank row still moved its path by n + 1."""
    levels = np.full(N, 0.5)
    levels[7] = 1e-9
    others = np.delete(np.arange(N), 7)
    solved, released = [], []
    for kept in (np.arange(N), others):
        model = LogisticRegression(
            1.0,
            adjacency="add-remove",
            population=N,
            classes=[0, 1],
            random_state=0,
            norm_bound=1.0,
        )
        released.append(model.fit(store(X)[kept], Y[kept], sample_epsilon=levels[kept]).coef_)
        assert seen["algorithm"] == "output"
        rows = sparse.csr_matrix(seen["rows"]).toarray()
        solved.append((rows, seen["targets"][0], seen["sample_weight"]))
    for one, two in zip(*solved, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("loss", ["softplus", "hinge"])
def test_if_nobody_has_weight_the_solution_is_zero(loss) -> None:
    """The noise alone is 1e-4 here, and half of these weights would be 1e-1."""
    made = LinearSVC(
        1e12, loss=loss, mechanism="output", classes=[0, 1], random_state=0, norm_bound=1.0
    )
    fitted = made.fit(X, Y, sample_epsilon=np.full(N, 1e-9))
    assert np.abs(fitted.coef_).max() < 1e-3


def test_levels_are_not_listed_where_the_people_are_private() -> None:
    levels = np.append(np.full(N - 1, 0.5), 0.123)
    for adjacency, listed in (("replace-one", True), ("add-remove", False)):
        model = LogisticRegression(
            1.0, adjacency=adjacency, population=N, classes=[0, 1], norm_bound=1.0
        )
        text = model.fit(X, Y, sample_epsilon=levels).privacy_.statement()
        assert ("0.123" in text) == listed
