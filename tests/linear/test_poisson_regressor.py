"""Counts: a loss with bounded slopes, its guarantee, what it learns, and its file."""

from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor as Reference
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from test_regressors import AGAINST_PRIVACY

from helpers import watching
from noisette import PoissonRegressor, load, save
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.errors import InvalidParameter
from noisette.fitting.losses import LOSSES, PoissonCounts


def data(n: int = 6000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    return X, rng.poisson(np.exp(0.7 + X @ [0.8, -0.5, 0.0]))


def made(epsilon: float = 2.0, delta: float = 1e-6, **options: Any) -> Any:
    given = {"most_count": 20, "norm_bound": 1.8, "random_state": 0, **options}
    return PoissonRegressor(epsilon, delta, **given)


def test_the_loss_is_convex_with_slopes_and_curvatures_up_to_one() -> None:
    """LOSS-POISSON: both constants are reached, and the slope is the derivative of the value."""
    loss, s = PoissonCounts(), np.linspace(-8.0, 8.0, 4001)
    slopes = []
    for y in (0.0, 0.3, 1.0):
        target = np.full(len(s), y)
        value, slope = loss.at_scores(s, target)
        assert np.all(np.diff(slope) >= 0.0)
        middle = (slope[1:] + slope[:-1]) / 2.0
        assert np.diff(value) / np.diff(s) == pytest.approx(middle, abs=1e-5)
        bend = loss.curvature(s, target, np.ones(len(s)))
        inside = np.abs(s[1:-1]) > 0.01
        found = (slope[2:] - slope[:-2]) / (s[2:] - s[:-2])
        assert found[inside] == pytest.approx(bend[1:-1][inside], abs=1e-4)
        assert bend.max() <= loss.smoothness
        slopes.append(slope)
    assert np.abs(slopes).max() == loss.lipschitz
    assert loss.name not in LOSSES, "no solver is proven to end for it"
    with pytest.raises(InvalidParameter):
        loss.targets([1.5])


class Keep:
    """Keeps what goes to the door, and hands back the answers of an earlier run."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[Any] = []
        self.out: list[Any] = []
        self._answers = answers

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        result = real(bounded, *given, **options)
        if self._answers is not None:
            result = self._answers[len(self.seen)]
        self.seen.append(bounded)
        self.out.append(result)
        return result


@pytest.mark.parametrize("clip", [0.25, 1.0])
def test_one_record_moves_a_gradient_sum_by_no_more_than_is_stated(clip: float) -> None:
    """The longest row, a count of 0 against one beyond the limit.

    Both slopes cannot be largest at one score: half of the bound is reached, three quarters if cut.
    """
    X, y = data(400)
    watches: list[Keep] = []
    for row, count in (([0.0, 0.0, 1e6], 0.0), ([0.0, 0.0, 1e6], 1e9)):
        X[0], y[0] = row, count
        watch = Keep(watches[0].out if watches else None)
        model = made(4.0, clip=clip)
        with watching(watch):
            model.fit(X, y)
        watches.append(watch)
    ratios = [float(np.linalg.norm(one.value - two.value)) / one.l2
              for one, two in zip(watches[0].seen, watches[1].seen, strict=True)]  # fmt: skip
    assert max(ratios) <= 1.0
    assert max(ratios) > (0.6 if clip < 1.0 else 0.45)


def test_it_learns_what_the_reference_learns() -> None:
    X, y = data(20_000)
    Xt, yt = data(20_000, 1)
    best = d2_tweedie_score(yt, Reference(alpha=1e-6).fit(X, y).predict(Xt), power=1)
    model = made(1.0).fit(X, y)
    assert d2_tweedie_score(yt, model.predict(Xt), power=1) > best - 0.01
    assert model.coef_ == pytest.approx([0.8, -0.5, 0.0], abs=0.15)
    assert model.intercept_ == pytest.approx(0.7, abs=0.1)
    assert model.predict(100.0 * Xt).max() <= 20.0


@pytest.mark.parametrize("adjacency", [relation.value for relation in Adjacency])
def test_the_guarantee_and_the_file(adjacency: str, tmp_path: Path) -> None:
    X, y = data(900)
    model = made(0.7, adjacency=adjacency, population=900).fit(X, y)
    assert model.privacy_.epsilon == 0.7
    assert "the bounds 0 and 20 of the target" in model.privacy_.statement()
    assert "LOSS-POISSON" in model.privacy_.proofs
    save(model, tmp_path / "m.noisette")
    again = load(tmp_path / "m.noisette")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.most_count == 20
    persons = made(2.0, adjacency=adjacency, population=450).fit(X, y, persons=np.arange(900) // 2)
    assert persons.privacy_.unit == "person"


def test_streams_and_pure_privacy() -> None:
    X, y = data(20_000)
    ledger = Ledger(4.0)
    model = made(4.0, 0.0, ledger=ledger, population=20_000)
    for k in range(4):
        model.partial_fit(X[5000 * k : 5000 * (k + 1)], y[5000 * k : 5000 * (k + 1)])
    assert len(ledger.charges) == 1
    assert d2_tweedie_score(y, model.predict(X), power=1) > 0.2


def test_what_is_refused_charges_nothing() -> None:
    X, y = data(300)
    ledger = Ledger(2.0, 1e-6)
    for options in ({"most_count": None}, {"most_count": -1}, {"clip": 0.0}, {"clip": 2.0},
                    {"norm_bound": None}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            made(ledger=ledger, **options).fit(X, y)
    assert ledger.charges == []


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract() -> None:
    failed: dict[str, Exception] = {}
    model = PoissonRegressor(10.0, norm_bound=1.0, most_count=300)
    for instance, check in estimator_checks_generator(model, legacy=True):
        name = getattr(check, "func", check).__name__
        try:
            check(clone(instance))
        except SkipTest:
            continue
        except Exception as error:
            failed[name] = error
    assert not failed.keys() - AGAINST_PRIVACY.keys(), failed
