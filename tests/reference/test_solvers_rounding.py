"""The rounding bound against exact sums, and the public tolerance."""

import sys
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge, Squared
from noisette.fitting.losses.blocks import Scaled
from noisette.fitting.losses.rows import Augmented, Rows
from noisette.fitting.solvers import PublicFacts, attainable_tolerance, default_tolerance, minimise
from noisette.fitting.solvers.objective import Objective, Preconditioner, _split
from noisette.fitting.solvers.rounding import EXACT_ROWS, gradient_error

sys.path.insert(0, str(Path(__file__).parent))
from solvers_oracle import ExactProblem, clipped_rows


def facts(**change):
    base = {
        "rows": 1000,
        "features": 20,
        "norm_bound": 1.0,
        "weight_bound": 1.0,
        "regularization": 1.0,
        "linear_norm": 0.0,
    }
    return PublicFacts(**(base | change))


@pytest.mark.parametrize("loss", [Logistic(), SoftplusHinge(), HuberHinge(), Squared()], ids=repr)
def test_gradient_error_bounds_the_true_error(loss):
    for form in (np.asarray, sparse.csr_array):
        for size in (1.0, 1e3):
            for exact in (False, True):
                rng = np.random.default_rng(0)
                X = clipped_rows(rng, 200, 4)
                y = rng.choice([-1.0, 1.0], 200)
                w = size * rng.normal(size=4)
                public = facts(rows=200, features=4)
                objective = Objective(loss, Rows(form(X)), y, None, None, public)
                objective.exact = exact
                point = objective.at(w)
                with mp.workdps(60):
                    true = ExactProblem(loss, X, y, 1.0).gradient([mp.mpf(v) for v in w])
                    error = mp.norm(true - mp.matrix([mp.mpf(v) for v in point.gradient]))
                    norm = mp.norm(true)
                rows = objective.rows
                terms = rows.block_rows + -(-rows.n // rows.block_rows)
                bound = gradient_error(loss, public, float(np.linalg.norm(w)), 200.0, exact, terms)
                assert error <= bound
                assert norm <= point.norm_bound
                # not idle: the true error is within four orders of the worst case, so a bound in
                # units of u^2 (a mutant) would be caught
                assert error > bound * 1e-16


def test_exact_products_beat_plain_ones_where_it_matters():
    """Wide cancelling rows: the plain sum's error is visible, the exact sum's is not."""
    rng = np.random.default_rng(1)
    n, d = 4000, 3
    X = clipped_rows(rng, n, d)
    X[n // 2 :] = X[: n // 2]  # opposite labels: the exact sum cancels to a small remainder
    y = np.concatenate([np.ones(n // 2), -np.ones(n // 2)])
    w = np.zeros(d)
    w[0] = 1e-9
    objective = Objective(Squared(), Rows(X), y, None, None, facts(rows=n, features=d))
    objective.exact = True
    got = objective.at(w).gradient
    fraction = [Fraction(float(v)) for v in w]
    total = fraction.copy()
    for row, label in zip(X, y, strict=True):
        x = [Fraction(float(v)) for v in row]
        # float residual, as the solver takes it, then exact sums
        r = Fraction(
            float(np.float64(float(sum(a * b for a, b in zip(x, fraction, strict=True)))) - label)
        )
        total = [t + r * v for t, v in zip(total, x, strict=True)]
    error = max(abs(float(Fraction(float(g)) - t)) for g, t in zip(got, total, strict=True))
    assert error < 1e-13


def test_split_is_exact_and_leading_products_are_order_free():
    rng = np.random.default_rng(2)
    block = clipped_rows(rng, EXACT_ROWS, 5)
    lead, rest = _split(block, 1.0, 20)
    assert np.array_equal(lead + rest, block)
    r = _split(rng.uniform(-1, 1, EXACT_ROWS), 1.0, 20)[0]
    forward, backward = r @ lead, r[::-1] @ lead[::-1]
    assert np.array_equal(forward, backward)
    exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(r, lead[:, 0], strict=True))
    assert Fraction(float(forward[0])) == exact
    thin = sparse.csr_array(block * (rng.random(block.shape) < 0.3))
    lead, rest = _split(thin, 1.0, 25)
    assert np.array_equal((lead + rest).toarray(), thin.toarray())


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Softmax(3), SoftplusHinge()], ids=repr)
def test_optimum_norm_is_a_bound(loss):
    rng = np.random.default_rng(3)
    X = np.tile(clipped_rows(rng, 1, 2), (50, 1))
    y = np.zeros(50, int) if loss.kind == "multiclass" else np.ones(50)
    for lam in (1e-3, 1.0, 1e3):
        solution = minimise(loss, X, y, regularization=lam)
        public = facts(rows=50, features=2, regularization=lam)
        assert np.linalg.norm(solution.weights) <= public.optimum_norm(loss) * (1 + 1e-6)


def test_default_tolerance_is_one_millionth_for_ordinary_problems():
    for n in (100, 10_000, 1_000_000):
        assert default_tolerance(Logistic(), facts(rows=n, features=100)) == pytest.approx(1e-6)
    assert default_tolerance(Softmax(10), facts()) == pytest.approx(1e-6 * np.sqrt(2))
    assert default_tolerance(Logistic(), facts(norm_bound=3.0)) == pytest.approx(3e-6)
    assert default_tolerance(Hinge(), facts(rows=100)) == pytest.approx(1e-4)
    # relative to one record's gradient, whose norm is at most weight_bound L R
    for cap in (1e-6, 1e6):
        weighted = facts(rows=100, weight_bound=cap, regularization=cap)
        assert default_tolerance(Logistic(), weighted) == pytest.approx(1e-6 * cap)
        assert default_tolerance(Hinge(), weighted) == pytest.approx(1e-4 * cap)
    many = facts(rows=24_000, regularization=150.0)
    assert default_tolerance(Hinge(), many) == pytest.approx(0.0104, rel=0.01)
    huge = facts(rows=10**9, features=100)
    assert default_tolerance(Logistic(), huge) == attainable_tolerance(Logistic(), huge) > 1e-6


def test_refusal_depends_on_public_facts_only():
    """The same sentence for every data set with the same public facts, before y is read."""
    messages = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        with pytest.raises(ValueError, match="cannot be certified in float64") as error:
            minimise(
                Logistic(),
                clipped_rows(rng, 20, 2),
                ["not", "even", "labels"],
                regularization=1.0,
                tolerance=1e-15,
            )
        messages.add(str(error.value))
    assert len(messages) == 1


def test_max_rows_makes_the_tolerance_independent_of_n():
    rng = np.random.default_rng(4)
    bounds = set()
    for n in (20, 21):
        X, y = clipped_rows(rng, n, 2), rng.choice([-1, 1], n)
        bounds.add(
            minimise(Logistic(), X, y, regularization=9.0, max_rows=10**9).gradient_norm_bound
        )
    assert len(bounds) == 1
    assert bounds.pop() > 1e-6


def test_attainable_tolerance_is_attained():
    """At the smallest promised tolerance the solver still ends (exact products at work)."""
    rng = np.random.default_rng(5)
    for loss in (Logistic(), SoftplusHinge(), HuberHinge(), Hinge()):
        for n, d, lam in ((3000, 40, 1.0), (500, 3, 1e-4), (500, 3, 1e4)):
            X, y = clipped_rows(rng, n, d), rng.choice([-1.0, 1.0], n)
            public = facts(rows=n, features=d, regularization=lam)
            tolerance = attainable_tolerance(loss, public) * (1 + 1e-9)
            solution = minimise(loss, X, y, regularization=lam, tolerance=tolerance)
            assert solution.reached <= tolerance


@pytest.mark.slow
def test_a_million_rows():
    rng = np.random.default_rng(6)
    X = clipped_rows(rng, 1_000_000, 10)
    y = np.where(X @ rng.normal(size=10) * 4 + rng.logistic(size=1_000_000) > 0, 1.0, -1.0)
    for lam in (1.0, 1e6):
        solution = minimise(Logistic(), X, y, regularization=lam)
        assert solution.gradient_norm_bound == pytest.approx(1e-6)


def augmented(rng, n, d, longest=9.0):
    """Rows beyond the bound, with factors and a constant column, and the rows they stand for."""
    X = longest * rng.normal(size=(n, d))
    norms = np.linalg.norm(X, axis=1)
    factor = np.minimum(1.0, 0.8 / norms)
    rows = Augmented(X, factor, np.full(n, 0.6), norms)
    return rows, rows[:]


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Squared(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("constant", [True, False])
def test_products_without_forming_rows_are_those_of_the_formed_rows(loss, constant):
    rng = np.random.default_rng(5)
    rows, formed = augmented(rng, 300, 4)
    if not constant:
        rows, formed = Augmented(rows.matrix, rows.factor, None, rows.norms), formed[:, :-1]
    d = formed.shape[1]
    y = rng.integers(0, 3, 300) if loss.kind == "multiclass" else rng.choice([-1.0, 1.0], 300)
    omega = rng.uniform(0.0, 1.0, 300)
    w = rng.normal(size=loss.parameter_shape(d))
    public = facts(rows=300, features=d)
    mine, plain = (
        Objective(loss, Rows(X, block_rows=64), y, omega, None, public) for X in (rows, formed)
    )
    assert all(isinstance(block, Scaled) for _, block in mine.rows.blocks(formed=False))
    assert mine.at(w).value == pytest.approx(plain.at(w).value, rel=1e-12)
    for form in ("hessian", "hessian_product"):
        given = (w,) if form == "hessian" else (w, w)
        assert getattr(mine, form)(*given) == pytest.approx(
            getattr(plain, form)(*given), rel=1e-11, abs=1e-12
        )
    assert mine.at(w).gradient == pytest.approx(plain.at(w).gradient, rel=1e-11, abs=1e-12)
    models = [Preconditioner.of(each, at=w).solve(w) for each in (mine, plain)]
    assert models[0] == pytest.approx(models[1], rel=1e-10)
    mine.exact = plain.exact = True  # error-free products take the formed rows, to the bit
    assert np.array_equal(mine.at(w).gradient, plain.at(w).gradient)


@pytest.mark.parametrize("loss", [Logistic(), SoftplusHinge(), Squared()], ids=repr)
def test_gradient_error_covers_rows_that_are_not_formed(loss):
    """Against the exact gradient of the formed rows, which the objective is defined by."""
    for seed, size, longest in ((0, 1.0, 1.0), (1, 1e3, 1e8), (2, 1.0, 1e25)):
        rng = np.random.default_rng(seed)
        rows, formed = augmented(rng, 150, 4, longest)
        y = rng.choice([-1.0, 1.0], 150)
        w = size * rng.normal(size=5)
        objective = Objective(loss, Rows(rows), y, None, None, facts(rows=150, features=5))
        point = objective.at(w)
        with mp.workdps(60):
            true = ExactProblem(loss, formed, y, 1.0).gradient([mp.mpf(v) for v in w])
            error = mp.norm(true - mp.matrix([mp.mpf(v) for v in point.gradient]))
            assert error <= point.norm_bound - point.norm
            assert mp.norm(true) <= point.norm_bound


def test_rows_of_huge_norm_are_formed():
    rng = np.random.default_rng(6)
    rows, _ = augmented(rng, 10, 2, longest=1e31)
    assert all(isinstance(block, np.ndarray) for _, block in Rows(rows).blocks(formed=False))
    unknown = Augmented(rows.matrix, rows.factor, rows.extra)
    assert all(isinstance(block, np.ndarray) for _, block in Rows(unknown).blocks(formed=False))


def worst_sum(scaled):
    """(error, bound) of a gradient whose additions lose all that they can: 1, then crumbs.

    Rows of one entry 1, at w = 0, and weights 1, then less than half of the last bit of 1/2. In a
    fifth column BLAS adds one by one (0.9 of the bound), elsewhere eight at a time (0.1).
    """
    n = 2048
    omega = np.full(n, 0.9 * 2.0**-53)
    omega[0] = 1.0
    X = np.zeros((n, 5))
    X[:, -1] = 1.0
    rows = Augmented(X, np.ones(n), None, np.ones(n)) if scaled else X
    public = facts(rows=n, features=5, regularization=1e-3)
    objective = Objective(Logistic(), Rows(rows), -np.ones(n), omega, None, public)
    point = objective.at(np.zeros(5))
    exact = sum((Fraction(float(v)) for v in omega), Fraction(0)) / 2
    return float(abs(exact - Fraction(float(point.gradient[-1])))), point.norm_bound - point.norm


@pytest.mark.parametrize("scaled", [False, True])
def test_the_bound_of_a_sum_is_nearly_reached(scaled):
    """So a sum of derivatives that is counted too small, or not at all, is found out."""
    error, bound = worst_sum(scaled)
    assert error <= bound
    assert error > 0.05 * bound


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_a_bound_without_the_sum_of_derivatives_is_found_out(monkeypatch, share):
    def too_small(*given):
        return gradient_error(*given[:-1], None if given[-1] is None else share * given[-1])

    monkeypatch.setattr("noisette.fitting.solvers.objective.gradient_error", too_small)
    error, bound = worst_sum(True)
    assert error > bound


def test_the_sum_of_derivatives_never_worsens_a_bound():
    public = facts(rows=100)
    worst = gradient_error(Logistic(), public, 1.0, 100.0, False, 64)
    assert gradient_error(Logistic(), public, 1.0, 100.0, False, 64, 1e9) == worst
    assert gradient_error(Logistic(), public, 1.0, 100.0, False, 64, 20.0) < 0.5 * worst
    # error-free sums do not use it: what is attainable stays a function of public facts
    exact = gradient_error(Logistic(), public, 1.0, 100.0, True, 0)
    assert gradient_error(Logistic(), public, 1.0, 100.0, True, 0, 0.0) == exact
