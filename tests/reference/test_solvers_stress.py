"""Random extremes: every loss, Lambda and R over many orders, weights, duplicates, tight goals.

The solver must end, and its certificate must agree with a recomputed gradient; or the problem is
refused for its public facts, before its rows are read.
"""

import numpy as np
import pytest
from scipy import sparse

from loss_sums import gradient
from noisette.errors import InvalidParameter
from noisette.fitting.losses import (
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Softmax,
    SoftplusHinge,
    Squared,
)
from noisette.fitting.losses.rows import Rows
from noisette.fitting.solvers import PublicFacts, attainable_tolerance, check_ends, minimise

LOSSES = [
    Logistic(),
    SoftplusHinge(),
    SoftplusHinge(30.0),
    HuberHinge(),
    HuberHinge(0.01),
    Hinge(),
    Softmax(3),
    Softmax(6),
    Huber(),
    Huber(0.1),
    Squared(),
]


def extreme_problem(loss, rng):
    n, d = int(10 ** rng.uniform(0, 3)), int(10 ** rng.uniform(0, 1.5))
    lam, R = float(10 ** rng.uniform(-7, 8)), float(10 ** rng.uniform(-2, 2))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 0, d)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X *= R / np.maximum(norms, 1e-300) * rng.choice([1, 1e-4, 0], (n, 1), p=[0.8, 0.1, 0.1])
    if rng.random() < 0.3:
        X = X[rng.integers(0, min(n, 3), n)]  # many copies of three rows
    score = X @ rng.normal(size=d) / R * 10 ** rng.uniform(-1, 2)
    if loss.kind == "margin":
        y = np.where(score + rng.choice([0, 1]) * rng.logistic(size=n) >= 0, 1.0, -1.0)
    elif loss.kind == "regression":
        y = np.clip(score, -1, 1)
    else:
        y = rng.integers(0, rng.integers(1, loss.classes + 1), n)
    options = {"regularization": lam, "norm_bound": R}
    if rng.random() < 0.4:
        top = float(10 ** rng.uniform(0, 5))
        options |= {"weight_bound": top, "sample_weight": top * 10 ** rng.uniform(-8, 0, n)}
    if rng.random() < 0.4:
        options["linear"] = rng.normal(size=loss.parameter_shape(d)) * 10 ** rng.uniform(-3, 4)
    if rng.random() < 0.4:
        size = float(np.linalg.norm(options.get("linear", 0.0)))
        facts = PublicFacts(n, d, R, options.get("weight_bound", 1.0), lam, size)
        options["tolerance"] = attainable_tolerance(loss, facts) * (1 + 1e-6)
    return (sparse.csr_array(X) if rng.random() < 0.2 else X), y, options


def refused(loss, X, options):
    """Whether the public facts alone are refused; the rows are replaced by nothing at all."""
    public = PublicFacts(
        *X.shape,
        options["norm_bound"],
        options.get("weight_bound", 1.0),
        options["regularization"],
        float(np.linalg.norm(options.get("linear", 0.0))),
    )
    try:
        check_ends(loss, public, options.get("tolerance"))
    except InvalidParameter:
        return True
    return False


def run(seed):
    """1 if the problem was solved, 0 if it was refused."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[seed % len(LOSSES)]
    X, y, options = extreme_problem(loss, rng)
    if refused(loss, X, options):
        with pytest.raises(InvalidParameter, match=r"(Lambda|regularization)=.* too small"):
            minimise(loss, X, y, **options)
        return 0
    with np.errstate(all="raise", under="ignore"):
        solution = minimise(loss, X, y, **options)
    assert solution.reached <= solution.gradient_norm_bound
    if np.isfinite(loss.smoothness):
        w = solution.weights
        g = gradient(loss, X, y, w, options.get("sample_weight")) + options["regularization"] * w
        g = g + options.get("linear", 0.0)
        # the recomputation has its own rounding error, at most the certificate's allowance
        assert np.linalg.norm(g) <= 2.0 * solution.gradient_norm_bound
    return 1


def test_extremes():
    # a search that refuses most of what it draws would show little
    assert sum(run(seed) for seed in range(360)) > 240


@pytest.mark.slow
def test_many_extremes():
    for seed in range(1000, 11000):
        run(seed)


def test_duplicate_stored_entries_cannot_hide_a_long_row():
    """Two stored halves of one entry: the norm is that of their sum."""
    X = sparse.csr_array((np.array([0.8, 0.8]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    with pytest.raises(ValueError, match="clip first"):
        minimise(Logistic(), X, [1.0], regularization=1.0)
    assert X.nnz == 2  # the caller's matrix is left as it was
    rng = np.random.default_rng(0)
    for _ in range(50):
        indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 6))])
        columns = rng.integers(0, 5, indptr[-1])
        M = sparse.csr_array((rng.normal(size=len(columns)), columns, indptr), shape=(6, 5))
        want = np.sum(M.toarray() ** 2, axis=1)
        np.testing.assert_allclose(Rows(M).squared_norms(), want, rtol=1e-12, atol=1e-300)
