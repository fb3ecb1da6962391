"""No warning, error or NaN tells of a row, whatever the global switches say."""

import math
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from small_table import X, Y, model

from noisette import Ledger
from noisette.errors import InvalidData
from noisette.models import LinearSVC, LogisticRegression


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber", "softplus", "softmax"])
def test_scores_that_overflow_do_not_carry_nan_through_the_noise(loss) -> None:
    classes = [0, 1, 2] if loss == "softmax" else [0, 1]
    rows = np.array([[1.0, -1.0], [1.0, 1.0]] * 50) * 1e90
    wild = model(
        loss=loss, classes=classes, norm_bound=None, clip_norm=1.0, batch_size=10,
        learning_rate=("constant", 1e300), regularization=0.0, released=("all", "last"),
    )  # fmt: skip
    assert np.isfinite(wild.fit(rows, np.arange(100) % 2).coef_).all()


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_warning_tells_that_somebody_has_a_huge_row(store, loss, delta) -> None:
    rows = X.copy()
    rows[3] = [1.7e308, -1.7e308, 1.7e308]
    classes = [0, 1, 2] if loss == "softmax" else [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model(1.0, delta, loss=loss, classes=classes).fit(store(rows), Y)
    assert np.isfinite(fitted.coef_).all()


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_trusting_scikit_learn_does_not_let_nan_through_the_noise(store, bad) -> None:
    """With assume_finite the released weight of that column was NaN: no noise hides that."""
    rows, ledger = X.copy(), Ledger(1.0, 1e-6)
    rows[7, 1] = bad
    with sklearn.config_context(assume_finite=True):
        for made in (
            model(ledger=ledger),
            LogisticRegression(ledger=ledger, classes=[0, 1], norm_bound=1.0),
        ):
            with pytest.raises(InvalidData, match="contains NaN or infinity"):
                made.fit(store(rows), Y)
        online = model().partial_fit(store(X), Y)
        with pytest.raises(InvalidData, match="contains NaN or infinity"):
            online.partial_fit(store(rows), Y)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_floating_point_error_tells_of_a_row(store, delta) -> None:
    """Under np.seterr(all="raise") one short row ended the fit, with or without a charge."""
    rows = X.copy()
    rows[7], rows[8] = 1e-200, [900.0, 0.0, 0.0]
    made = [model(1.0, delta), LogisticRegression(1.0, delta, classes=[0, 1], norm_bound=1.0)]
    made += [LinearSVC(1.0, delta, loss="hinge", classes=[0, 1], norm_bound=1.0)]
    if delta:
        made += [LogisticRegression(1.0, delta, whiten=0.2, classes=[0, 1], norm_bound=1.0)]
    with np.errstate(all="raise"):
        for each in made:
            each.fit(store(rows), Y)
        model().partial_fit(store(rows), Y)
