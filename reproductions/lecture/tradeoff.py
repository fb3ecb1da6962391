"""Fits behind the lecture's trade-off, and the directions in which each method perturbs."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks import real as datasets
from benchmarks.real import Dataset
from noisette._typing import Floats
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import Unproven
from noisette.fitting.algorithms import (
    ObjectivePerturbation,
    OutputPerturbation,
    Public,
    Records,
    train,
)
from noisette.fitting.losses import Logistic
from noisette.fitting.solvers import minimise
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier

__all__ = ["DELTA", "METHODS", "accuracies", "directions", "hinge_is_refused", "output_noise"]


DELTA = 1e-6
METHODS = {
    "objective-delta": "objective perturbation, delta = 1e-6",
    "sgd-delta": "noisy SGD (Poisson, 5 epochs), delta = 1e-6",
    "objective": "objective perturbation",
    "output": "output perturbation",
    "one-pass": "SGD, one pass (2013)",
}
"""Name -> label; the last three are purely private."""


@lru_cache(maxsize=1)
def _data(name: str) -> Dataset:
    return datasets.load(name)


def _model(method: str, epsilon: float, seed: int) -> Any:
    known: dict[str, Any] = {"norm_bound": 1.0, "classes": [0, 1], "random_state": seed}
    if method == "output":
        return LogisticRegression(epsilon, mechanism="output", **known)
    if method == "objective":
        return LogisticRegression(epsilon, mechanism="objective", **known)
    if method == "objective-delta":
        return LogisticRegression(epsilon, DELTA, mechanism="objective", **known)
    if method == "one-pass":
        return SGDClassifier(epsilon, **known)
    return SGDClassifier(epsilon, DELTA, sampling="poisson", epochs=5, **known)


def accuracies(name: str, n: int, epsilons: list[float], seed: int) -> list[dict[str, Any]]:
    """Return the test accuracy (per cent) of every method on a random n of the training rows.

    The subset and all noise come from `seed`; the test set is the same for all.
    """
    from sklearn.linear_model import LogisticRegression as Plain

    data = _data(name)
    chosen = Randomness.from_seed(seed).generator.permutation(len(data.y))[:n]
    X, y = data.X[chosen], data.y[chosen]

    def score(model: Any) -> float:
        return 100.0 * float(model.fit(X, y).score(data.X_test, data.y_test))

    # lambda = 1e-5 on the mean loss: regularised just enough for the solver to end.
    rows: list[dict[str, Any]] = [
        {"method": "non-private", "accuracy": score(Plain(C=1e5 / len(y), max_iter=2000))}
    ]
    most = float(np.bincount(data.y_test).max() / len(data.y_test))
    rows.append({"method": "majority", "accuracy": 100.0 * most})
    for epsilon in epsilons:
        for method in METHODS:
            accuracy = score(_model(method, epsilon, seed))
            rows.append({"method": method, "epsilon": epsilon, "accuracy": accuracy})
    return rows


def _with_optimum(
    rows: Floats, bound: float, y: Floats, epsilon: float, Lambda: float, mechanism: str, seed: int
) -> tuple[Floats, Floats]:
    """Return (private weights, exact minimiser) for the same Lambda; rows have norm <= bound."""
    ledger, n = Ledger(epsilon), len(y)
    public = Public(
        epsilon=epsilon, delta=0.0, adjacency=ledger.adjacency, size=n, most=n,
        loss=Logistic(), features=rows.shape[1], norm_bound=bound, regularization=Lambda,
    )  # fmt: skip
    algorithm = OutputPerturbation() if mechanism == "output" else ObjectivePerturbation()
    trained = train(
        algorithm, public, Records(rows, [y]), ledger=ledger,
        randomness=Randomness.from_seed(seed),
    )  # fmt: skip
    private = trained.released[0]
    exact = minimise(Logistic(), rows, y, regularization=Lambda, norm_bound=bound).weights
    return private, exact


def directions(name: str, mechanism: str, epsilon: float, seeds: range) -> list[dict[str, Any]]:
    """Return the rms perturbation along each eigenvector of the Hessian at the minimiser.

    `curvature` is the eigenvalue of the mean loss's Hessian. Same epsilon and Lambda = 4 R^2 /
    epsilon for both mechanisms: enough for objective perturbation to pay nothing extra.
    """
    data = _data(name)
    rows, bound = np.column_stack([data.X, np.full(len(data.X), 0.35)]), math.hypot(1.0, 0.35)
    y = np.where(data.y == 1, 1.0, -1.0)
    Lambda = 4.0 * bound**2 / epsilon
    moved = []
    for seed in seeds:
        private, exact = _with_optimum(rows, bound, y, epsilon, Lambda, mechanism, seed)
        moved.append(private - exact)
    g = 1.0 / (1.0 + np.exp(y * (rows @ exact)))
    values, vectors = np.linalg.eigh((rows.T * (g * (1.0 - g))) @ rows / len(y))
    along = np.sqrt(((np.array(moved) @ vectors) ** 2).mean(axis=0))
    total = float(np.sqrt((along**2).mean()))
    # What a perturbation costs: the second-order rise of the objective along each direction.
    cost = 0.5 * (values + Lambda / len(y)) * along**2
    return [
        {"direction": j, "curvature": float(values[j]), "rms": float(along[j]),
         "relative": float(along[j]) / total, "cost": float(cost[j])}
        for j in range(len(values))
    ]  # fmt: skip


def output_noise(
    n: int, d: int, epsilon: float, regularization: float, seeds: range
) -> dict[str, Any]:
    """Return the rms distance of output perturbation from the minimiser, on the sphere."""
    data = datasets.sphere(n, d, margin=0.01, seed=0, n_test=0)
    y = np.where(data.y == 1, 1.0, -1.0)
    squares = []
    for seed in seeds:
        private, exact = _with_optimum(data.X, 1.0, y, epsilon, regularization * n, "output", seed)
        squares.append(float(((private - exact) ** 2).sum()))
    return {"distance": math.sqrt(float(np.mean(squares)))}


def hinge_is_refused() -> bool:
    """Return whether objective perturbation refuses the plain hinge and takes its Huber form."""
    data = datasets.sphere(500, 3, margin=0.01, seed=0, n_test=0)
    options: dict[str, Any] = {
        "norm_bound": 1.0,
        "mechanism": "objective",
        "classes": [0, 1],
        "random_state": 0,
    }
    LinearSVC(1.0, loss="huber", **options).fit(data.X, data.y)
    try:
        LinearSVC(1.0, loss="hinge", **options).fit(data.X, data.y)
    except Unproven:
        return True
    return False
