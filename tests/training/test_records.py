"""Records: rows are clipped and measured once, and rows that nobody measured are checked."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette import clipping
from noisette.linear import LinearSVC, LogisticRegression
from noisette.losses import Augmented, Logistic, Rows
from noisette.solvers import minimise
from noisette.training import records, with_intercept

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 6)) * 3.0
Y = (X[:, 0] > 0.0).astype(int)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [None, 0.35])
def test_known_norms_are_those_of_the_rows(kind: Any, intercept: float | None) -> None:
    rows, bound = with_intercept(X.astype(kind), 2.0, intercept)
    known = rows.known_squares()
    assert known is not None
    np.testing.assert_allclose(known, Rows(rows[:]).squared_norms(), rtol=1e-14)
    assert Rows(rows).within(bound)
    assert not Rows(rows).within(0.99 * bound)
    np.testing.assert_allclose(
        (rows * np.full((len(X), 1), 0.5)).known_squares(), known / 4.0, rtol=1e-14
    )


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(random_state=0),
        LogisticRegression(random_state=0, mechanism="output"),
        LogisticRegression(random_state=0, fit_intercept=False),
        LinearSVC(random_state=0),
    ],
    ids=str,
)
def test_the_norms_of_dense_rows_are_computed_once_in_a_fit(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were computed three times: by clipping, before the charge and by the solver."""
    calls: list[str] = []
    for place, name in ((records, "row_norms"), (clipping, "row_norms"), (Rows, "squared_norms")):
        real = getattr(place, name)

        def counted(*given: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(place, name, counted)
    model.fit(X, Y)
    assert calls == ["row_norms"]


def test_rows_that_nobody_measured_are_measured() -> None:
    signs = np.where(Y == 1, 1.0, -1.0)
    ones = np.ones(len(X))
    for rows in (X, sparse.csr_matrix(X), Augmented(X, ones, None), Augmented(X, ones, ones)):
        with pytest.raises(ValueError, match="clip first"):
            minimise(Logistic(), rows, signs, regularization=10.0)
    # norms are used with the factor and the column that go with them
    unclipped = Augmented(X, ones, None, clipping.row_norms(X))
    with pytest.raises(ValueError, match="clip first"):
        minimise(Logistic(), unclipped, signs, regularization=10.0)
    missing = Augmented(X, ones, None, np.full(len(X), np.nan))
    assert not Rows(missing).within(1e9)
