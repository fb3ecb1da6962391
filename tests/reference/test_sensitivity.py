"""Iterate-adaptive sensitivity of the logistic gradient: tables, brute force, mutants."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from noisette.core.accounting.sensitivity import logistic_gradient_sensitivity as sensitivity

RADII = np.array([0.0, 0.01, 0.3, 1.0, 2.0, 4.0, 8.0, 30.0, 300.0])


def test_table():
    values = sensitivity([0, 1, 2, 4, 8], "replace-one")
    np.testing.assert_allclose(values, [1.000, 1.099, 1.270, 1.533, 1.767], atol=6e-4)
    np.testing.assert_allclose(sensitivity(RADII, "zero-out"), expit(RADII), rtol=2e-12)
    np.testing.assert_array_equal(sensitivity(RADII, "add-remove"), sensitivity(RADII, "zero-out"))


def brute_force(radius: float, bound: float, seed: int, starts: int = 12) -> float:
    """Maximise |g(v) - g(v')| over free v, v' in the B-ball of R^3 by Nelder-Mead."""
    rng = np.random.default_rng(seed)
    w = radius * np.array([1.0, 0.0, 0.0])

    def inside(u):
        norm = np.linalg.norm(u)
        return bound * u * (1.0 if norm <= 1 else 1.0 / norm)

    def distance(both):
        v, other = inside(both[:3]), inside(both[3:])
        return -np.linalg.norm(expit(w @ v) * v - expit(w @ other) * other)

    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 3000, "maxfev": 3000}
    return max(
        -minimize(distance, rng.normal(size=6), method="Nelder-Mead", options=options).fun
        for _ in range(starts)
    )


@pytest.mark.parametrize(("radius", "bound"), [(0.5, 1.0), (3.0, 1.0), (20.0, 1.0), (2.0, 2.5)])
def test_brute_force_in_three_dimensions(radius, bound):
    found = brute_force(radius, bound, seed=int(10 * radius))
    claimed = sensitivity(radius, "replace-one", bound)
    assert found <= claimed * (1 + 1e-14)
    assert found >= claimed * (1 - 1e-6)


def test_never_below_a_dense_grid():
    angles = np.linspace(0, np.pi, 200_001)
    for radius in RADII:
        grid = np.max(2 * expit(radius * np.cos(angles)) * np.sin(angles))
        assert grid <= sensitivity(radius, "replace-one") <= grid * (1 + 1e-7)


def test_every_gradient_lies_in_the_ball_of_the_proof():
    """The set {sigmoid(R v1) v} is inside a ball of radius Delta/2: so is its diameter."""
    rng = np.random.default_rng(7)
    v = rng.normal(size=(200_000, 3))
    v *= (rng.random(len(v)) ** (1 / 6) / np.linalg.norm(v, axis=1))[:, None]
    for radius in (0.1, 1.0, 5.0, 50.0):
        xs = np.linspace(0, 1, 400_001)
        star = xs[np.argmax(expit(radius * xs) * np.sqrt(1 - xs**2))]
        centre = np.array([expit(radius * star) * star, 0, 0])
        far = np.linalg.norm(expit(radius * v[:, :1]) * v - centre, axis=1).max()
        assert far <= sensitivity(radius, "replace-one") / 2 * (1 + 1e-6)


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_row_bound_scales_iterate_and_value(adjacency):
    direct = sensitivity(RADII, adjacency, 3.0)
    np.testing.assert_allclose(direct, 3.0 * sensitivity(3.0 * RADII, adjacency), rtol=1e-12)
    # Mutant: scaling only the value (forgetting B inside the sigmoid) is too small.
    assert (direct[1:7] > 3.0 * sensitivity(RADII[1:7], adjacency)).all()


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_shape_monotone_and_limits(adjacency):
    top = 2.0 if adjacency == "replace-one" else 1.0
    radii = np.linspace(0, 40, 4001).reshape(1, -1)
    values = sensitivity(radii, adjacency)
    assert values.shape == radii.shape
    assert (np.diff(values[0]) >= -1e-15).all()
    assert values[0, 0] == pytest.approx(top / 2, rel=2e-12)
    assert values[0, 0] >= top / 2  # rounded up
    for huge in (1e9, 1e300, math.inf):
        assert top * (1 - 1e-6) <= sensitivity(huge, adjacency) <= top
    assert isinstance(sensitivity(1.0, adjacency), float)


def test_refusals():
    with pytest.raises(ValueError, match="iterate_norm"):
        sensitivity(-1.0, "zero-out")
    with pytest.raises(ValueError, match="iterate_norm"):
        sensitivity(math.nan, "zero-out")
    with pytest.raises(ValueError, match="row_bound"):
        sensitivity(1.0, "zero-out", 0.0)
    with pytest.raises(ValueError, match="adjacency"):
        sensitivity(1.0, "bounded")
