"""Bounds, noise and levels of the estimators, each against an independent formula.

Error rates: the radius test sums 200 Gamma(6) radii, relative deviation 2.9 %; the band of 15 % is
5 deviations wide (false alarm below 1e-6) and rejects a scale wrong by 1.5 or more.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.models import LinearSVC, LogisticRegression
from noisette.models.linear_model import INTERCEPT

RNG = np.random.default_rng(0)


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
    rows = rows[:].astype(np.float64)
    column = float(np.float32(INTERCEPT * bound))
    used = seen["facts"].norm_bound
    assert used == pytest.approx(math.hypot(bound, column), rel=1e-12)
    assert np.all(rows[:, -1] == column)
    assert np.all(np.linalg.norm(rows, axis=1) <= used)
    weights = seen["trained"].released[0]
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
    model = make(
        mechanism=mechanism, multi_class="ovr", fit_intercept=False, random_state=0, norm_bound=1.0
    )
    noise = model.fit(X, y).coef_
    assert noise.shape == (3, 30)
    correlation = np.abs(np.corrcoef(noise) - np.eye(3)).max()
    assert correlation < 0.75  # deviation 0.18; shared noise would give 1


def test_a_smaller_regularization_is_raised_and_said(seen: dict[str, Any]) -> None:
    X, y = RNG.standard_normal((1000, 2)), np.arange(1000) % 2
    model = LogisticRegression(regularization=1e-9, norm_bound=1.0).fit(X, y)
    assert seen["facts"].regularization > 2.0
    assert "raised" in model.privacy_.statement()
    model = LogisticRegression(regularization=0.5, norm_bound=1.0).fit(X, y)
    assert seen["facts"].regularization == 500.0
    assert "as asked" in model.privacy_.statement()
    LogisticRegression(
        regularization=0.5, adjacency="add-remove", population=2000, norm_bound=1.0
    ).fit(X, y)
    assert seen["facts"].regularization == 1000.0


def test_weights_are_used_as_they_are(seen: dict[str, Any]) -> None:
    X, y = RNG.standard_normal((300, 2)), np.arange(300) % 2
    weights = RNG.uniform(0.0, 4.0, 300)
    model = LogisticRegression(weight_bound=5.0, norm_bound=1.0).fit(X, y, sample_weight=weights)
    assert seen["facts"].weight_bound == 5.0
    assert np.array_equal(seen["sample_weight"], weights)
    assert "cap 5" in model.privacy_.statement()
    LogisticRegression(weight_bound=5.0, norm_bound=1.0).fit(X, y)
    assert seen["facts"].weight_bound == 1.0  # no weights: no price for the cap


# --- per-person epsilon --------------------------------------------------------------------------


def test_the_stated_noise_of_output_perturbation_is_that_of_the_weights() -> None:
    """60 fits x 5 weights on the same rows: 15 % is 3.5 deviations; half the noise is rejected."""
    X = np.random.default_rng(3).standard_normal((300, 5)) / 3.0
    y = (X[:, 0] > 0).astype(int)
    options = {"mechanism": "output", "norm_bound": 1.0, "delta": 1e-6, "fit_intercept": False}
    fits = [LogisticRegression(1.0, **options, random_state=s).fit(X, y) for s in range(60)]
    drawn = np.array([model.coef_[0] for model in fits])
    stated = fits[0].weight_noise_
    assert stated is not None
    assert float(np.std(drawn - drawn.mean(axis=0), ddof=1)) == pytest.approx(stated, rel=0.16)
    assert LogisticRegression(norm_bound=1.0).fit(X, y).weight_noise_ is None
