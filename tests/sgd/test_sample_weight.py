"""Weights in [0, 1] shrink a record's gradient; weight 0 is the blank record of zero-out."""

from typing import Any

import numpy as np
import pytest
from iterative import gradient_descent, single_pass

from noisette.audit import check_estimator
from noisette.core.accounting.sensitivity import logistic_gradient_sensitivity
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.losses import Logistic
from noisette.models import SGDClassifier

RNG = np.random.default_rng(0)
N = 120
X, Y = RNG.normal(size=(N, 3)), np.arange(N) % 2
METHODS: dict[str, dict[str, Any]] = {
    "pass": {},
    "descent": {"delta": 1e-4},
    "descent of a hinge": {"delta": 1e-4, "loss": "huber"},
    "poisson": {"delta": 1e-4, "sampling": "poisson", "batch_size": 30, "epochs": 5},
    "last": {"delta": 1e-4, "released": "last", "batch_size": 30},
}


def model(**options: Any) -> SGDClassifier:
    return SGDClassifier(**{"norm_bound": 1.0, "classes": [0, 1], "random_state": 5, **options})


@pytest.mark.parametrize("method", METHODS)
def test_ones_change_nothing_and_a_blank_record_says_nothing(method: str) -> None:
    options = METHODS[method]
    plain = model(**options).fit(X, Y)
    ones = model(**options).fit(X, Y, sample_weight=np.ones(N))
    assert np.array_equal(plain.coef_, ones.coef_)
    assert "SAMPLE-WEIGHT" in ones.privacy_.proofs
    blank = np.ones(N)
    blank[7] = 0.0
    first = model(**options).fit(X, Y, sample_weight=blank)
    other, label = X.copy(), Y.copy()
    other[7], label[7] = [9.0, -9.0, 9.0], 1 - Y[7]
    second = model(**options).fit(other, label, sample_weight=blank)
    assert np.array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.coef_, plain.coef_)


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.8, 1.0])
def test_a_record_moves_the_first_step_by_its_weight(weight: float) -> None:
    """One step from w = 0: the gradient of the only record of weight omega is omega y x / 2."""
    weights = np.zeros(N)
    weights[0] = weight
    options = {"batch_size": N, "learning_rate": ("constant", 1.0), "released": ("all", "last"),
               "regularization": 0.0, "norm_bound": 10.0, "fit_intercept": False}  # fmt: skip
    nobody = model(**options).fit(X, Y, sample_weight=np.zeros(N))
    moved = model(**options).fit(X, Y, sample_weight=weights).coef_ - nobody.coef_
    expected = weight * (2 * Y[0] - 1) * X[0] / 2.0 / N
    assert np.allclose(moved, expected, atol=1e-5)


def test_weights_never_move_a_logistic_gradient_more_than_two_records_do() -> None:
    """The corner of SAMPLE-WEIGHT: one record against none is within the replace-one bound."""
    for norm in np.geomspace(1e-3, 1e3, 60):
        alone = logistic_gradient_sensitivity(norm, "zero-out")
        assert alone <= logistic_gradient_sensitivity(norm, "replace-one")


def test_bad_weights_charge_nothing() -> None:
    ledger = Ledger(5.0)
    made = SGDClassifier(classes=[0, 1], ledger=ledger, norm_bound=1.0)
    for bad in (np.full(N, 1.1), np.full(N, -0.1), np.full(N, np.nan), np.ones(3), "x"):
        with pytest.raises(InvalidData, match="sample_weight must"):
            made.fit(X, Y, sample_weight=bad)
    with pytest.raises(InvalidData, match="not both"):
        made.fit(X, Y, np.full(N, 0.5), np.ones(N))
    with pytest.raises(InvalidParameter, match="not offered for streams"):
        made.fit(iter([(X, Y)]), sample_weight=np.ones(N))
    assert ledger.charges == []


@pytest.mark.parametrize("weight", [-0.1, 1.1, np.nan])
def test_the_algorithms_themselves_refuse_weights_beyond_their_theorem(weight: float) -> None:
    update, targets = Update(Logistic()), np.where(Y == 1, 1.0, -1.0)
    ledger, randomness = Ledger(5.0, 1e-3), Randomness.from_seed(1)
    given = {"ledger": ledger, "epsilon": 1.0, "sample_weight": np.full(N, weight)}
    for run in (
        lambda: single_pass(X, targets, update, randomness, batch_size=30, **given),
        lambda: gradient_descent(X, targets, update, randomness, delta=1e-4, **given),
    ):
        with pytest.raises(InvalidData, match=r"one entry in \[0, 1\]"):
            run()
    assert ledger.charges == []


def test_zero_out_is_audited_with_any_sampling() -> None:
    """Without weights no data set could hold a blank record where personal levels are unproven."""
    made = SGDClassifier(
        1.0, 1e-4, adjacency="zero-out", sampling="poisson", batch_size=60, norm_bound=1.0
    )
    report = check_estimator(made, attacks=["replay"], runs=4)
    assert report.verdict == "consistent", str(report)
    assert "cannot be told" not in str(report)
