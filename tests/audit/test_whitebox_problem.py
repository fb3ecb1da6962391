"""The auditor's own losses and solver against finite differences, the library and brute force."""

from typing import Any

import numpy as np
import pytest

from noisette.audit.whitebox.theory import Problem, constants
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge
from noisette.fitting.solvers import minimise

SMOOTH = [Logistic(), HuberHinge(), HuberHinge(0.1), SoftplusHinge(), SoftplusHinge(9.0)]


def table(loss: Any, n: int = 50, d: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d)) / np.sqrt(d)
    if loss.kind == "multiclass":
        return X, rng.integers(loss.classes, size=n)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize("loss", [*SMOOTH, Softmax(3), Softmax(5)], ids=str)
def test_the_hessian_is_the_derivative_of_the_gradient(loss: Any) -> None:
    X, y = table(loss)
    problem = Problem(loss, X, y, 2.0, np.linspace(0.1, 1.0, len(y)))
    w = 0.3 * np.arange(np.prod(problem.shape)).reshape(problem.shape)
    H, h = problem.hessian(w), 1e-6
    for k in range(w.size):
        e = np.zeros(w.size)
        e[k] = h
        e = e.reshape(w.shape)
        slope = (problem.gradient(w + e) - problem.gradient(w - e)).ravel() / (2.0 * h)
        assert slope == pytest.approx(H[k], abs=1e-4)


@pytest.mark.parametrize("loss", [*SMOOTH, Softmax(3), Hinge()], ids=str)
@pytest.mark.parametrize("linear", [False, True])
def test_the_optimum_is_the_library_s(loss: Any, linear: bool) -> None:
    X, y = table(loss)
    problem = Problem(loss, X, y, 0.7)
    b = None
    if linear:
        b = np.linspace(-1.0, 1.0, int(np.prod(problem.shape))).reshape(problem.shape)
    mine, error = problem.solve(b)
    theirs = minimise(loss, X, y, regularization=0.7, linear=b)
    away = float(np.linalg.norm(mine - theirs.weights))
    assert away <= theirs.distance_bound + error
    assert error < (1e-12 if loss.name != "hinge" else 1e-4)


@pytest.mark.parametrize("loss", [*SMOOTH, Hinge(), Softmax(4)], ids=str)
def test_the_constants_are_the_library_s(loss: Any) -> None:
    L, c = constants(loss)
    assert pytest.approx(loss.lipschitz) == L
    assert pytest.approx(loss.smoothness) == c
