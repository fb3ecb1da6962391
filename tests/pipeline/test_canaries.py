"""The audit's canaries on our own steps: right ones pass, each wrong constant is caught.

Error rate: every audit has confidence 0.999, so a right step fails with probability 0.001.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import noisette.core.summaries as summaries
from noisette import LogisticRegression
from noisette.audit import check_estimator, two_worlds
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import GaussianThreshold
from noisette.tables.pipeline import PrivateBounds, PrivateCategories, PrivateKnots
from step_canaries import partition_canary, quantile_canary

BOTH = ["replace-one", "add-remove"]


def audit(canary: Any, model: Any, claim: Any, runs: int) -> Any:
    return two_worlds(
        lambda: model.__sklearn_clone__(), canary.D, canary.D_prime, claim=claim,
        statistic=canary.statistic, runs=runs, confidence=0.999,
    )  # fmt: skip


def median(model: Any) -> float:
    return float(model.released_[0].median)


def upper(model: Any) -> float:
    return float(model.released_[0].high)


def lower(model: Any) -> float:
    return float(model.released_[0].low)


def quantiles(adjacency: str) -> list[tuple[Any, Any, float]]:
    """Return (canary, step, claim of what is read); a bound is one of two equal choices."""
    common: dict[str, Any] = {"bounds": (0.0, 1.0), "adjacency": adjacency}
    return [
        (quantile_canary(median, adjacency=adjacency), PrivateKnots(1.0, knots=1, **common), 1.0),
        (quantile_canary(upper, quantile=0.9, adjacency=adjacency),
         PrivateBounds(2.0, tail=0.1, **common), 1.0),
        (quantile_canary(lower, quantile=0.2, adjacency=adjacency),
         PrivateBounds(2.0, tail=0.2, **common), 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("case", range(3), ids=["median", "0.9", "0.2"])
def test_right_quantiles_pass(adjacency: str, case: int) -> None:
    canary, model, claim = quantiles(adjacency)[case]
    assert audit(canary, model, claim, 150).verdict == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("case", range(3), ids=["median", "0.9", "0.2"])
def test_right_quantiles_pass_in_many_runs(adjacency: str, case: int) -> None:
    canary, model, claim = quantiles(adjacency)[case]
    assert audit(canary, model, claim, 4000).verdict == "consistent"


def scaled_moves(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real, also = summaries.quantile_move, summaries.median_move
    monkeypatch.setattr(summaries, "quantile_move", lambda q, a: factor * real(q, a))
    monkeypatch.setattr(summaries, "median_move", lambda a: factor * also(a))


@pytest.mark.parametrize(
    ("case", "adjacency"), [(0, BOTH[0]), (1, BOTH[1]), (2, BOTH[0])], ids=["median", "0.9", "0.2"]
)
def test_a_quarter_of_the_move_is_caught(
    adjacency: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled_moves(0.25, monkeypatch)
    canary, model, claim = quantiles(adjacency)[case]
    assert audit(canary, model, claim, 800).verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("case", range(3), ids=["median", "0.9", "0.2"])
def test_half_the_move_is_caught(
    adjacency: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled_moves(0.5, monkeypatch)
    canary, model, claim = quantiles(adjacency)[case]
    assert audit(canary, model, claim, 4000).verdict == "violated"


@pytest.mark.parametrize("adjacency", BOTH)
def test_a_right_bar_passes_and_a_low_one_is_caught(
    adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = partition_canary(lambda model: model.categories_[0], rows=10, adjacency=adjacency)
    model = PrivateCategories(1.0, 0.02, adjacency=adjacency)
    assert audit(canary, model, (1.0, 0.02), 500).verdict == "consistent"
    real = GaussianThreshold.threshold
    monkeypatch.setattr(
        GaussianThreshold, "threshold", lambda self, a: 0.3 * real(self, Adjacency.of(a))
    )
    assert audit(canary, model, (1.0, 0.02), 800).verdict == "violated"


class Remembers(PrivateKnots):
    """A wrong step: it keeps the exact median beside the private one."""

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Any:
        sample = super()._sample(X, y, sample_weight)
        self.exact_ = float(np.median(sample.data[0]))
        return sample


def test_an_exact_number_beside_the_released_ones_is_caught() -> None:
    model = make_pipeline(Remembers(0.5), LogisticRegression(epsilon=0.5, norm_bound=1.0))
    found = check_estimator(model, attacks=["attributes"], epsilon=1.0).findings[0]
    assert found.verdict == "violated"
    assert "exact_" in found.detail
    right = make_pipeline(PrivateKnots(0.5), LogisticRegression(epsilon=0.5, norm_bound=1.0))
    found = check_estimator(right, attacks=["attributes"], epsilon=1.0).findings[0]
    assert found.verdict == "consistent", found
