"""Every loss in the registry keeps its promises: derivatives, constants, types, domains.

Each bound is tested from both sides where the theory says it is attained, and a mutant
constant, 10 % too small, must be rejected by the same check.
"""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from scipy import sparse

from loss_sums import gradient, hessian_vector_product, loss_sum
from new_entries import SmoothHinge
from noisette.fitting.losses import LOSSES, Loss, Softmax
from noisette.fitting.losses.base import MarginLoss, ScalarLoss

EXAMPLES = [loss for cls in LOSSES.values() for loss in cls.examples()]
SCALAR = [loss for loss in EXAMPLES if isinstance(loss, ScalarLoss)]
GRID = np.concatenate(
    [np.linspace(-40, 40, 8001), np.linspace(0.4, 1.6, 4001), [-1e4, -800.0, 800.0, 1e4]]
)


def targets_for(loss: Loss, n: int, rng: np.random.Generator) -> np.ndarray:
    if loss.kind == "margin":
        return rng.choice([-1.0, 1.0], n)
    if loss.kind == "multiclass":
        return rng.integers(0, loss.classes, n)
    return rng.uniform(-loss.target_bound, loss.target_bound, n)


def kink_free(loss: Loss, t: np.ndarray, gap: float) -> np.ndarray:
    keep = np.ones(len(t), bool)
    for kink in loss.kinks:
        keep &= np.abs(t - kink) > 2 * gap
    return t[keep]


def exceeded(bound: float, values: np.ndarray) -> bool:
    """The check that tests and mutants share; 1e-12 relative for rounding."""
    return bool(np.max(values) > bound * (1 + 1e-12))


@pytest.mark.parametrize("name", LOSSES)
def test_registry_entries(name):
    cls = LOSSES[name]
    assert cls.name == name
    assert issubclass(cls, Loss)
    assert cls.examples()
    assert cls.proofs
    assert all(isinstance(proof, str) for proof in cls.proofs)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_frozen_equal_and_convex(loss):
    for field in fields(loss):
        with pytest.raises(FrozenInstanceError):
            setattr(loss, field.name, 1.0)
    assert loss == type(loss)(**{f.name: getattr(loss, f.name) for f in fields(loss)})
    assert loss.convex


def rounded_beyond(loss: ScalarLoss) -> bool:
    """Whether the derivative errs by more than `rounding` allows, measured in float32.

    The same operations run in both types, so the constant counts units of 2^-24 there, and float64
    is the exact answer.
    """
    rng = np.random.default_rng(8)
    t = np.concatenate([rng.normal(size=50_000) * 3, rng.uniform(-0.1, 2.1, 50_000)])
    t = t.astype(np.float32)
    error = np.abs(loss.derivative(t) - loss.derivative(t.astype(np.float64))) * 2.0**24
    allowed = np.array([loss.rounding(edge) for edge in np.arange(1, 20)])
    return bool(np.any(error > allowed[np.abs(t).astype(int)]))


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_the_rounding_constant_covers_the_derivative(loss):
    assert not rounded_beyond(loss)


def test_a_rounding_constant_that_is_too_small_is_found(monkeypatch):
    # 1 - m with m in (0, 1/2) is off by up to half a unit; nothing measured this for a new loss
    for allowed, found in ((0.45, True), (0.5, False)):
        monkeypatch.setattr(SmoothHinge, "rounding", lambda self, score, allowed=allowed: allowed)
        assert rounded_beyond(SmoothHinge()) is found


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_derivatives_by_differences(loss):
    step = 1e-5
    t = kink_free(loss, np.linspace(-6, 6, 1201), step)
    slope = (loss.value(t + step) - loss.value(t - step)) / (2 * step)
    np.testing.assert_allclose(loss.derivative(t), slope, atol=2e-9 * max(1, loss.value(-6.0)))
    bend = (loss.derivative(t + step) - loss.derivative(t - step)) / (2 * step)
    np.testing.assert_allclose(loss.second_derivative(t), bend, atol=1e-6)
    value, derivative = loss.value_and_derivative(t)
    np.testing.assert_allclose(value, loss.value(t), rtol=1e-15, atol=1e-300)
    np.testing.assert_allclose(derivative, loss.derivative(t), rtol=1e-15)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_constants_hold_are_tight_and_reject_mutants(loss):
    slopes, bends = np.abs(loss.derivative(GRID)), loss.second_derivative(GRID)
    assert np.all(bends >= 0)
    if np.isfinite(loss.lipschitz):
        assert not exceeded(loss.lipschitz, slopes)
        assert slopes.max() >= loss.lipschitz * (1 - 1e-3)
        assert exceeded(0.9 * loss.lipschitz, slopes)
    else:
        assert slopes.max() >= 1e4 - loss.target_bound
    if np.isfinite(loss.smoothness):
        assert not exceeded(loss.smoothness, bends)
        assert bends.max() >= loss.smoothness * (1 - 1e-3)
        assert exceeded(0.9 * loss.smoothness, bends)
    else:
        jump = loss.derivative(1 + 1e-9) - loss.derivative(1 - 1e-9)
        assert jump / 2e-9 > 1e8


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_sign_and_self_bounds(loss):
    slopes, bends = loss.derivative(GRID), loss.second_derivative(GRID)
    assert loss.decreasing == bool(np.all(slopes <= 0))
    assert loss.decreasing == isinstance(loss, MarginLoss)
    if loss.self_bounded is not None:
        # 1-g loses its relative accuracy near g=1, so compare away from saturation
        g = np.abs(slopes)
        inside = (g > 1e-6) & (g < 1 - 1e-6)
        ratio = bends[inside] / (g * (1 - g))[inside]
        assert ratio.max() <= loss.self_bounded * (1 + 1e-9)
        assert ratio.max() > 0.9 * loss.self_bounded
    if loss.self_concordance is not None:
        t, step = np.linspace(-8, 8, 2001), 1e-4
        third = (loss.second_derivative(t + step) - loss.second_derivative(t - step)) / (2 * step)
        bound = loss.self_concordance * loss.second_derivative(t)
        # the difference quotient errs by step^2/6 |l'''''| <= 1e-8 s^4/6 l''-like
        slack = 1e-7 * max(1.0, loss.smoothness) ** 4 * loss.second_derivative(t) + 1e-9
        assert np.all(np.abs(third) <= bound + slack)
        if loss.self_concordance > 0:
            assert np.any(np.abs(third) > 0.9 * bound + slack)


def test_huber_hinge_is_not_self_bounded():
    """Why Theorem 4.3 does not cover it: l'' stays 1/(2h) while g(1-g) -> 0."""
    loss = LOSSES["huber_hinge"]()
    g = -float(loss.derivative(1 + loss.width - 1e-6))
    assert loss.self_bounded is None
    assert loss.second_derivative(1 + loss.width - 1e-6) / (g * (1 - g)) > 1e5


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_stable_and_keeps_the_type(loss):
    for dtype in (np.float32, np.float64):
        t = np.array([-1e4, -750, -100, -1, -0.0, 0, 1, 100, 750, 1e4], dtype=dtype)
        with np.errstate(all="raise", under="ignore"):
            for method in (loss.value, loss.derivative, loss.second_derivative):
                out = method(t)
                assert out.dtype == dtype
                assert np.all(np.isfinite(out))
                assert out.shape == t.shape
            value = loss.value(t)
        double = loss.value(t.astype(np.float64))
        np.testing.assert_allclose(value, double, rtol=50 * np.finfo(dtype).eps, atol=1e-30)
        assert loss.derivative(3).dtype == np.float64  # integers become float64
        assert loss.value(np.zeros((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_scores_interface_by_differences(loss):
    rng = np.random.default_rng(1)
    n, shape = 40, loss.parameter_shape(1)[:-1]
    y = loss.targets(targets_for(loss, n, rng))
    scores, move = rng.normal(size=(n, *shape)), rng.normal(size=(n, *shape))
    step = 1e-6
    value, slopes = loss.at_scores(scores, y)
    assert value.shape == (n,)
    assert slopes.shape == scores.shape
    up, slope_up = loss.at_scores(scores + step * move, y)
    down, slope_down = loss.at_scores(scores - step * move, y)
    along = slopes * move if slopes.ndim == 1 else np.sum(slopes * move, axis=1)
    np.testing.assert_allclose((up - down) / (2 * step), along, atol=2e-5)
    if np.isfinite(loss.smoothness):
        bent = loss.curvature(scores, y, move)
        difference = (slope_up - slope_down) / (2 * step)
        # a row within one step of a kink of the Huber losses may miss
        good = np.abs(difference - bent) < 1e-5
        assert np.mean(good) > 0.95
    assert np.max(value) < np.inf
    zero, _ = loss.at_scores(np.zeros((n, *shape)), y)
    assert np.max(zero) <= loss.value_at_zero * (1 + 1e-12)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_one_row_bounds_by_random_search(loss):
    """||gradient|| <= L R and Hessian <= c R^2 in parameter space, rows of norm R = 3."""
    rng = np.random.default_rng(2)
    R, d, worst_slope, worst_bend = 3.0, 2, 0.0, 0.0
    for scale in np.logspace(-2, 2, 60):
        x = rng.normal(size=(1, d))
        x *= R / np.linalg.norm(x)
        y = targets_for(loss, 1, rng)
        w = scale * rng.normal(size=loss.parameter_shape(d))
        worst_slope = max(worst_slope, np.linalg.norm(gradient(loss, x, y, w)))
        v = rng.normal(size=w.shape)
        v /= np.linalg.norm(v)
        bend = hessian_vector_product(loss, x, y, w, v)
        worst_bend = max(worst_bend, np.linalg.norm(bend))
    assert worst_slope <= loss.lipschitz * R * (1 + 1e-12)
    assert worst_bend <= loss.smoothness * R**2 * (1 + 1e-12)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_linear_helpers_dense_sparse_float32_weights(loss):
    rng = np.random.default_rng(3)
    n, d = 300, 7
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    X = X.astype(np.float32).astype(np.float64)
    y, omega = targets_for(loss, n, rng), rng.random(n)
    w, v = rng.normal(size=loss.parameter_shape(d)), rng.normal(size=loss.parameter_shape(d))
    scores, moves = X @ w.T, X @ v.T
    target = loss.targets(y)
    value, slopes = loss.at_scores(scores, target)
    bent = loss.curvature(scores, target, moves)
    factor = omega if slopes.ndim == 1 else omega[:, None]
    forms = [
        X,
        np.asfortranarray(X),
        X.astype(np.float32),
        sparse.csr_matrix(X),
        sparse.csc_array(X),
    ]
    for form in forms:
        assert loss_sum(loss, form, y, w, omega) == pytest.approx(np.sum(omega * value), rel=1e-12)
        np.testing.assert_allclose(
            gradient(loss, form, y, w, omega), (slopes * factor).T @ X, rtol=1e-10, atol=1e-11
        )
        np.testing.assert_allclose(
            hessian_vector_product(loss, form, y, w, v, omega),
            (bent * factor).T @ X,
            rtol=1e-10,
            atol=1e-11,
        )
    np.testing.assert_allclose(gradient(loss, X, y, w), slopes.T @ X, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_targets_are_checked_without_naming_a_value(loss):
    bad = {"margin": [1, -1, 7654321], "multiclass": [0, 1, 7654321]}.get(
        loss.kind, [0.0, 7654321.0]
    )
    with pytest.raises(ValueError, match="y must be a vector") as error:
        loss.targets(bad)
    assert "7654321" not in str(error.value)
    with pytest.raises(ValueError, match="y must be a vector"):
        loss.targets(np.full(3, np.nan) if loss.kind != "multiclass" else [0.5])
    assert len(loss.targets([])) == 0


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("huber_hinge", {"width": 0.0}),
        ("softplus_hinge", {"temperature": -1.0}),
        ("softmax", {"classes": 1}),
        ("huber", {"threshold": np.inf}),
        ("squared", {"target_bound": np.nan}),
    ],
)
def test_parameters_are_checked_in_one_sentence_with_the_value(name, parameters):
    with pytest.raises(ValueError, match=r"must be .*; got .*\."):
        LOSSES[name](**parameters)


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
def test_softmax_constants_are_tight_and_reject_mutants(classes):
    """sqrt(2) and 1/2 and 1-1/K, searched over p; each attained to 1e-3."""
    loss = Softmax(classes)
    rng = np.random.default_rng(4)
    candidates = [np.full(classes, 1 / classes)]
    pair = np.full(classes, 1e-12)
    pair[:2] = 0.5
    vertex = np.full(classes, 1e-12)
    vertex[1] = 1.0
    candidates += [pair, vertex, *rng.dirichlet(np.full(classes, 0.3), 500)]
    P = np.array(candidates)
    P /= P.sum(axis=1, keepdims=True)
    scores = np.log(np.maximum(P, 1e-300)) @ loss.basis
    _, slopes = loss.at_scores(scores, np.zeros(len(P), np.intp))
    norms = np.linalg.norm(slopes, axis=1)
    eye = np.eye(classes - 1)
    columns = [
        loss.curvature(scores, np.zeros(len(P), np.intp), np.tile(e, (len(P), 1))) for e in eye
    ]
    hessians = np.stack(columns, axis=2)
    eigen = np.linalg.eigvalsh(hessians)[:, -1]
    traces = np.trace(hessians, axis1=1, axis2=2)
    for bound, values in (
        (loss.lipschitz, norms),
        (loss.smoothness, eigen),
        (loss.trace, traces),
    ):
        assert not exceeded(bound, values)
        assert values.max() >= bound * (1 - 1e-3)
        assert exceeded(0.9 * bound, values)
    assert loss.lipschitz == pytest.approx(np.sqrt(2))
    assert loss.trace == pytest.approx(1 - 1 / classes)


def test_softmax_coordinates_are_an_isometry_of_the_sum_zero_subspace():
    loss = Softmax(4)
    rng = np.random.default_rng(5)
    V = rng.normal(size=(3, 6))
    W = loss.expand(V)
    assert W.shape == (4, 6)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-14)
    assert np.linalg.norm(W) == pytest.approx(np.linalg.norm(V))
    np.testing.assert_allclose(loss.contract(W), V, atol=1e-14)
    np.testing.assert_allclose(loss.contract(W + 5.0), V, atol=1e-13)
    x = rng.normal(size=(2, 6))
    full = x @ W.T
    p = np.exp(full) / np.exp(full).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(loss.probabilities(x @ V.T), p, rtol=1e-12)


def test_softmax_with_two_classes_is_logistic():
    rng = np.random.default_rng(6)
    X, w = rng.normal(size=(20, 3)), rng.normal(size=3)
    y = rng.integers(0, 2, 20)
    loss = Softmax(2)
    # w_1 - w_0 = w, so V = Q'W with W = (-w/2, w/2)
    V = loss.contract(np.stack([-w / 2, w / 2]))
    assert loss_sum(loss, X, y, V) == pytest.approx(
        loss_sum(LOSSES["logistic"](), X, 2 * y - 1, w), rel=1e-12
    )


def test_softmax_is_stable_for_huge_scores():
    loss = Softmax(3)
    with np.errstate(all="raise", under="ignore"):
        value, slopes = loss.at_scores(np.array([[1e4, -1e4], [0.0, 1e4]]), np.array([0, 2]))
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slopes))
    assert np.all(np.linalg.norm(slopes, axis=1) <= loss.lipschitz * (1 + 1e-12))
