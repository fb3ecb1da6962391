"""Smooth solvers: right optimum, true certificate, no failure on the cases that hurt."""

import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression, Ridge

from loss_sums import gradient
from noisette.fitting.losses import (
    Huber,
    HuberHinge,
    Logistic,
    Softmax,
    SoftplusHinge,
    Squared,
)
from noisette.fitting.solvers import minimise

sys.path.insert(0, str(Path(__file__).parent))
from solvers_oracle import ExactProblem, clipped_rows

MARGIN = [Logistic(), SoftplusHinge(), SoftplusHinge(30.0), HuberHinge(), HuberHinge(0.01)]
REGRESSION = [Huber(), Huber(0.1), Squared()]


def binary(rng, n, d):
    X = clipped_rows(rng, n, d)
    y = np.where(X @ rng.normal(size=d) * 4 + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def check(loss, X, y, lam, **options):
    """Solve, and compare the claim with the exact gradient and the exact optimum."""
    solution = minimise(loss, X, y, regularization=lam, **options)
    assert solution.reached <= solution.gradient_norm_bound
    assert solution.distance_bound >= solution.gradient_norm_bound / lam
    with mp.workdps(50):
        problem = ExactProblem(loss, X, y, lam, options.get("sample_weight"), options.get("linear"))
        assert problem.gradient_norm(solution.weights) <= solution.reached
        assert problem.distance(solution.weights) <= solution.distance_bound
    return solution


@pytest.mark.parametrize("loss", MARGIN + REGRESSION, ids=repr)
def test_certificate_is_true_in_exact_arithmetic(loss):
    for lam in (1e-3, 1.0, 50.0):
        rng = np.random.default_rng(0)
        X, y = binary(rng, 12, 3)
        if loss.kind == "regression":
            y = rng.uniform(-1, 1, 12)
        check(loss, X, y, lam)
        check(
            loss,
            X,
            y,
            lam,
            linear=rng.normal(size=3),
            sample_weight=rng.random(12),
            tolerance=1e-9 if loss != HuberHinge(0.01) else 1e-6,
        )


def test_agrees_with_scikit_learn_and_scipy():
    rng = np.random.default_rng(1)
    X, y = binary(rng, 3000, 8)
    ours = minimise(Logistic(), X, y, regularization=2.0, tolerance=1e-9)
    theirs = LogisticRegression(
        C=0.5, fit_intercept=False, tol=1e-12, max_iter=10000, solver="newton-cholesky"
    ).fit(X, y)
    np.testing.assert_allclose(ours.weights, theirs.coef_[0], atol=1e-8)
    target = np.clip(X @ rng.normal(size=8), -1, 1)
    ridge = Ridge(alpha=2.0, fit_intercept=False, solver="svd").fit(X, target)
    ours = minimise(Squared(), X, target, regularization=2.0, tolerance=1e-8)
    np.testing.assert_allclose(ours.weights, ridge.coef_, atol=1e-8)
    b = rng.normal(size=8)
    loss = SoftplusHinge()
    reference = optimize.minimize(
        lambda w: np.sum(loss.value(y * (X @ w))) + w @ w + b @ w,
        np.zeros(8),
        jac=lambda w: gradient(loss, X, y, w) + 2 * w + b,
        method="BFGS",
        options={"gtol": 1e-6},
    )
    ours = minimise(loss, X, y, regularization=2.0, linear=b)
    np.testing.assert_allclose(ours.weights, reference.x, atol=1e-5)


@pytest.mark.parametrize("loss", [*MARGIN, Softmax(3)], ids=repr)
def test_input_forms_agree(loss):
    """Dense, Fortran, float32, CSR, CSC, integers: the same optimum to the distance bound."""
    rng = np.random.default_rng(2)
    X = 0.999 * clipped_rows(rng, 400, 6) * (rng.random((400, 6)) < 0.5)
    X = X.astype(np.float32)
    y = rng.integers(0, 3, 400) if loss.kind == "multiclass" else rng.choice([-1, 1], 400)
    forms = [X, X.astype(float), np.asfortranarray(X), sparse.csr_matrix(X), sparse.csc_array(X)]
    solutions = [minimise(loss, form, y, regularization=0.5) for form in forms]
    for solution in solutions[1:]:
        gap = np.linalg.norm(solution.weights - solutions[0].weights)
        assert gap <= solution.distance_bound + solutions[0].distance_bound
    ones = minimise(loss, np.eye(3, dtype=int)[y % 3], y, regularization=0.5)
    assert np.all(np.isfinite(ones.weights))


def test_large_n_path_with_warm_start_and_wide_sparse():
    """n above the sampling threshold; d above the dense Newton limit; both certified."""
    rng = np.random.default_rng(3)
    X, y = binary(rng, 12000, 5)
    solution = minimise(Logistic(), X, y, regularization=1.0)
    g = gradient(Logistic(), X, y, solution.weights) + solution.weights
    assert np.linalg.norm(g) <= solution.reached
    omega = rng.random(12000)
    solution = minimise(Logistic(), X, y, regularization=1.0, sample_weight=omega)
    g = gradient(Logistic(), X, y, solution.weights, omega) + solution.weights
    assert np.linalg.norm(g) <= solution.reached
    S = sparse.random(2000, 1500, 0.01, random_state=0, format="csr")
    S = sparse.csr_matrix(S / sparse.linalg.norm(S, axis=1).max())
    y = rng.choice([-1.0, 1.0], 2000)
    for loss in (Logistic(), HuberHinge()):
        solution = minimise(loss, S, y, regularization=0.01)
        g = gradient(loss, S, y, solution.weights) + 0.01 * solution.weights
        assert np.linalg.norm(g) <= solution.reached


@pytest.mark.parametrize("loss", MARGIN, ids=repr)
def test_neighbours_far_apart_for_a_capped_solver_both_succeed(loss):
    """n = 2228 and 2229 ones: with an iteration cap one failed and the other did not."""
    solutions = [
        minimise(loss, np.ones((n, 1)), np.ones(n), regularization=1.0, tolerance=1e-6)
        for n in (2228, 2229)
    ]
    difference = abs(solutions[0].weights[0] - solutions[1].weights[0])
    assert difference <= 1.0
    if loss == Logistic():
        assert solutions[0].weights[0] == pytest.approx(5.927, abs=1e-3)


@pytest.mark.parametrize("loss", MARGIN, ids=repr)
def test_degenerate_inputs(loss):
    for lam in (1e-5, 1e-3, 1.0, 1e8):
        rng = np.random.default_rng(4)
        X, y = binary(rng, 30, 3)
        some_zero = X.copy()
        some_zero[::3] = 0.0
        cases = [
            (np.zeros((7, 3)), np.ones(7)),  # no information at all
            (X, np.ones(30)),  # one class
            (X, np.sign(X[:, 0])),  # separable
            (X[:1], y[:1]),
            (np.repeat(X[:2], 40, axis=0), np.repeat([1.0, -1.0], 40)),
            (X[:, :1], y),
            (some_zero, y),
        ]
        for rows, labels in cases:
            solution = minimise(loss, rows, labels, regularization=lam)
            g = gradient(loss, rows, labels, solution.weights) + lam * solution.weights
            assert np.linalg.norm(g) <= solution.reached <= solution.gradient_norm_bound


def test_no_rows_gives_the_linear_terms_minimum():
    b = np.array([1.0, -2.0])
    solution = minimise(Logistic(), np.zeros((0, 2)), [], regularization=4.0, linear=b)
    np.testing.assert_allclose(solution.weights, -b / 4, atol=1e-6)


def test_huge_weights():
    rng = np.random.default_rng(5)
    X, y = binary(rng, 12, 3)
    omega = 10.0 ** rng.uniform(-6, 7, 12)
    check(Logistic(), X, y, 1.0, sample_weight=omega, weight_bound=1e7)


def saturated(extra_rows, extra_labels):
    """Signed rows -1e-4 e1 of total weight 1.2e6, and the extra rows of weight 1."""
    X = np.vstack([[[-1e-4, 0.0]], extra_rows])
    omega = np.concatenate([[1.2e6], np.ones(len(extra_rows))])
    return minimise(
        Logistic(),
        X,
        np.concatenate([[1.0], extra_labels]),
        regularization=1.0,
        sample_weight=omega,
        weight_bound=1.2e6,
        tolerance=1e-3,
    ).weights


def test_saturated_push_pairs_attain_the_sensitivity():
    """Section 3: add/remove reaches 0.997 of LR/Lambda, replace-one 1.96 of 2 LR/Lambda."""
    base = saturated(np.zeros((0, 2)), [])
    assert base[0] == pytest.approx(-59.8, abs=0.05)
    added = saturated(np.array([[1.0, 0.0]]), [1.0])
    assert 0.99 <= np.linalg.norm(added - base) <= 1.0
    a = 0.2
    high = np.sqrt(1 - a * a)
    one = saturated(np.array([[a, high]]), [1.0])
    other = saturated(np.array([[a, -high]]), [1.0])
    moved = np.linalg.norm(one - other)
    assert 1.95 <= moved <= 2.0
    assert moved > 1.0  # the lecture's constant LR/Lambda would be violated


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_softmax_agrees_with_scikit_learn(classes):
    rng = np.random.default_rng(6)
    X = clipped_rows(rng, 800, 4)
    y = np.argmax(X @ rng.normal(size=(4, classes)) * 3 + rng.gumbel(size=(800, classes)), axis=1)
    loss = Softmax(classes)
    solution = minimise(loss, X, y, regularization=1.5, tolerance=1e-9)
    W = loss.expand(solution.weights)
    if classes > 2:
        reference = LogisticRegression(C=1 / 1.5, fit_intercept=False, tol=1e-12, max_iter=5000)
        np.testing.assert_allclose(W, reference.fit(X, y).coef_, atol=1e-4)
    full = X @ W.T
    p = np.exp(full) / np.exp(full).sum(axis=1, keepdims=True)
    g = (p - np.eye(classes)[y]).T @ X + 1.5 * W
    assert np.linalg.norm(g) <= solution.gradient_norm_bound + 1e-10


def test_softmax_with_missing_classes_and_linear_term():
    rng = np.random.default_rng(7)
    X = clipped_rows(rng, 60, 3)
    loss = Softmax(5)
    b = rng.normal(size=(4, 3))
    for y in (np.zeros(60, int), rng.integers(1, 3, 60)):
        for linear in (None, b):
            solution = minimise(loss, X, y, regularization=0.1, linear=linear)
            g = gradient(loss, X, y, solution.weights) + 0.1 * solution.weights
            g = g if linear is None else g + b
            assert solution.weights.shape == (4, 3)
            assert np.linalg.norm(g) <= solution.gradient_norm_bound


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    d=st.integers(1, 3),
    log_lam=st.floats(-6, 6),
    scale=st.sampled_from([0.0, 1e-8, 1e-3, 1.0, 30.0]),
    loss=st.sampled_from(MARGIN + REGRESSION),
)
def test_property_the_certificate_holds_and_the_solver_ends(seed, n, d, log_lam, scale, loss):
    rng = np.random.default_rng(seed)
    R = 2.0
    X = clipped_rows(rng, n, d, R) * rng.choice([0.0, 1e-4, 1.0], (n, 1))
    margin = loss.kind == "margin"
    y = rng.choice([-1.0, 1.0], n) if margin else rng.uniform(-1, 1, n)
    omega = rng.choice([0.0, 0.5, 1.0, 1000.0], n)
    lam = float(10.0**log_lam)
    options = {
        "linear": scale * rng.normal(size=d),
        "sample_weight": omega,
        "weight_bound": 1000.0,
        "norm_bound": R,
    }
    solution = minimise(loss, X, y, regularization=lam, **options)
    assert solution.reached <= solution.gradient_norm_bound
    with mp.workdps(50):
        problem = ExactProblem(loss, X, y, lam, omega, options["linear"])
        assert problem.gradient_norm(solution.weights) <= solution.reached


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regularization": 0.0}, "regularization must be"),
        ({"norm_bound": np.inf}, "norm_bound must be"),
        ({"tolerance": -1.0}, "tolerance must be"),
        ({"linear": np.zeros(3)}, "linear must be"),
        ({"sample_weight": [2.0, 0.0]}, "sample_weight must be"),
        ({"max_rows": 1}, "max_rows=1"),
        ({"X": [[2.0, 0.0], [0.0, 1.0]]}, "clip first"),
        ({"X": [[np.nan, 0.0], [0.0, 1.0]]}, "clip first"),
        ({"X": np.array([["a", "b"], ["c", "d"]])}, "real numbers"),
        ({"y": [1, 0]}, "labels -1 and"),
        ({"y": [1]}, "entries"),
    ],
)
def test_refusals_before_the_solve(change, message):
    options = {"X": np.eye(2), "y": [1, -1], "regularization": 1.0} | change
    with pytest.raises(ValueError, match=message):
        minimise(Logistic(), options.pop("X"), options.pop("y"), **options)


def test_early_stopping_mutant_is_caught():
    """A gradient norm that leaves out one tenth of the data is not a certificate."""
    rng = np.random.default_rng(8)
    X, y = binary(rng, 40, 2)
    partial = minimise(Logistic(), X[:36], y[:36], regularization=1.0)
    with mp.workdps(30):
        true = ExactProblem(Logistic(), X, y, 1.0).gradient_norm(partial.weights)
    assert true > 1e3 * partial.gradient_norm_bound


def test_public_bounds_in_the_solution_do_not_depend_on_the_data():
    rng = np.random.default_rng(9)
    seen = set()
    for _ in range(3):
        X, y = binary(rng, 50, 2)
        s = minimise(Logistic(), X, y, regularization=1.0)
        seen.add((s.gradient_norm_bound, s.distance_bound, repr(s).count("reached")))
    assert len(seen) == 1
    assert seen.pop()[2] == 0
