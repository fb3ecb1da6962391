"""Scores of models of numbers: no bias from knots, and intervals that cover.

300 intervals of 95 % cover 91 % with an error rate below 1e-3 on either side.
"""

from typing import Any

import numpy as np
import pytest

from noisette import evaluate
from noisette.scores import RegressionScores, measure
from noisette.scores.layouts import RegressionLayout, places_of


class Echo:
    def predict(self, X: Any) -> Any:
        return np.asarray(X, dtype=float)[:, 0]


def rows(n: int, deviation: float, generator: np.random.Generator) -> tuple[Any, Any]:
    x = generator.uniform(0.0, 10.0, n)
    return x[:, None], np.clip(x + generator.normal(0.0, deviation, n), 0.0, 10.0)


def scored(layout: RegressionLayout, X: Any, y: Any) -> RegressionScores:
    """Return the scores of exact sums over the knots of a purchase."""
    sums = []
    for codes, size in zip(layout.codes(Echo(), X, y), layout.sizes, strict=True):
        _, cells, shares = places_of(codes)
        sums.append(np.bincount(cells, shares, minlength=size))
    return layout.scores(sums)


@pytest.mark.parametrize("deviation", [0.01, 0.1, 1.0, 5.0])
def test_knots_add_no_error_to_the_mean_and_the_interval_counts_the_rest(deviation: float) -> None:
    X, y = rows(20_000, deviation, np.random.default_rng(0))
    off = y - X[:, 0]
    found = scored(RegressionLayout(0.0, 10.0), X, y)
    assert found.mae.value == pytest.approx(np.abs(off).mean(), rel=1e-9)
    assert found.rmse.low <= np.sqrt(np.mean(off**2)) <= found.rmse.high
    assert found.r2.low <= 1.0 - np.mean(off**2) / y.var() <= found.r2.high
    if deviation >= 1.0:
        assert found.rmse.value == pytest.approx(np.sqrt(np.mean(off**2)), rel=0.01)
        assert found.quantile(0.9) == pytest.approx(np.quantile(off, 0.9), abs=0.15)


@pytest.mark.parametrize("bins", [2, 5, 20])
def test_zero_is_a_knot_and_shares_of_a_row_add_up_to_one(bins: int) -> None:
    layout = RegressionLayout(-3.0, 4.0, bins)
    assert 0.0 in layout.knots
    X, y = np.array([[0.0], [1e9], [-1e9], [np.nan], [0.3]]), np.array([0.1, 2, 3, 1, np.nan])
    for codes, size in zip(layout.codes(Echo(), X, y), layout.sizes, strict=True):
        taken, cells, shares = places_of(codes)
        assert np.bincount(taken, shares, minlength=5) == pytest.approx([1, 1, 1, 1, 0])
        assert 0 <= cells.min() <= cells.max() < size


def test_a_perfect_model_has_finite_scores() -> None:
    X = np.linspace(0.0, 10.0, 5000)[:, None]
    for seed in range(5):
        found = evaluate(Echo(), X, X[:, 0], epsilon=1.0, target_bounds=(0, 10), random_state=seed)
        assert isinstance(found, RegressionScores)
        assert found.mae.low == 0.0
        assert 0.0 < found.r2.error < 0.1
        assert found.r2.low < 1.0 == found.r2.high
    assert measure(Echo(), X, X[:, 0]).mae.value == 0.0  # type: ignore[union-attr]


def test_intervals_cover_with_noise() -> None:
    generator = np.random.default_rng(1)
    X, y = rows(1_000_000, 1.0, generator)
    truth = float(np.abs(y - X[:, 0]).mean())
    hits = 0
    for seed in range(300):
        X, y = rows(4000, 1.0, generator)
        found = evaluate(Echo(), X, y, epsilon=1.0, target_bounds=(0, 10), random_state=seed)
        assert isinstance(found, RegressionScores)
        hits += found.mae.low <= truth <= found.mae.high
    assert 273 <= hits <= 296


def test_a_model_no_better_than_the_mean_is_told_so() -> None:
    knots = np.linspace(-2.0, 2.0, 5)
    wide, tight = np.array([300.0, 0, 0, 0, 300]), np.array([0.0, 0, 600, 0, 0])
    targets = np.array([150.0, 0, 300, 0, 150])
    bad = RegressionScores(knots, wide, knots, targets)
    assert (
        bad.verdict() == "The model is no better than the mean of the targets, given to everybody."
    )
    assert bad.lines()[-1] == bad.verdict()
    assert "targets cut to [-2, 2]" in bad.lines()[3]  # errors beyond are in no figure
    good = RegressionScores(knots, tight, knots, targets)
    assert good.verdict() == ""
    noisy = RegressionScores(knots, wide, knots, targets, deviation=500.0)
    assert noisy.verdict().startswith("There are too few rows")
