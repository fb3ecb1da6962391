"""Records: rows are clipped and measured once, and rows that nobody measured are checked."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette.fitting import clipping
from noisette.fitting.algorithms import records, with_intercept
from noisette.fitting.losses import Logistic
from noisette.fitting.losses.rows import Augmented, Measured, Rows
from noisette.fitting.solvers import minimise
from noisette.models import LinearSVC, LogisticRegression

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


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [None, 0.35])
def test_known_norms_are_those_of_sparse_rows(kind: Any, intercept: float | None) -> None:
    doubled = sparse.csr_matrix(  # every entry is stored in two halves
        (np.repeat(X.astype(kind).ravel() / 2.0, 2), np.repeat(np.tile(np.arange(6), len(X)), 2),
         np.arange(0, 12 * len(X) + 1, 12)), shape=X.shape,
    )  # fmt: skip
    for given in (sparse.csr_array(X.astype(kind)), doubled):
        rows, bound = with_intercept(given, 2.0, intercept)
        close = 1e-14 if kind is np.float64 else 1e-6
        np.testing.assert_allclose(
            rows.known_squares(), Rows(sparse.csr_array(rows)).squared_norms(), rtol=close
        )
        assert Rows(rows).within(bound)
        assert not Rows(rows).within(0.99 * bound)
        for derived in (
            rows[:5],
            rows.copy(),
            rows * 2.0,
            rows.astype(np.float64) @ np.eye(6 + (intercept is not None)),
        ):
            assert getattr(derived, "squares", None) is None
        assert not Rows(rows * 2.0).within(bound)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(random_state=0, norm_bound=1.0),
        LogisticRegression(random_state=0, mechanism="output", norm_bound=1.0),
        LogisticRegression(random_state=0, fit_intercept=False, norm_bound=1.0),
        LinearSVC(random_state=0, norm_bound=1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_the_norms_of_rows_are_computed_once_in_a_fit(
    model: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were computed three times: by clipping, before the charge and by the solver."""
    calls: list[str] = []
    for place, name in ((records, "row_norms"), (clipping, "row_norms"), (Rows, "squared_norms")):
        real = getattr(place, name)

        def counted(*given: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(place, name, counted)
    model.fit(kind(X), Y)
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
    assert not Rows(Measured(sparse.csr_array(X), squares=np.full(len(X), np.nan))).within(1e9)
