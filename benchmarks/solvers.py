"""Time and peak memory of the certified solver against scikit-learn, on the same objective.

Run: ``NOISETTE_DATA=/path/to/data python benchmarks/solvers.py [--repeats 5]``. Threads are
pinned to one. Time is the median of the repeats; memory is the peak of allocations during the
fit (tracemalloc sees NumPy's), on top of the data themselves, which both sides share; the data's
size is added to both before the ratio. "their distance" is scikit-learn's Euclidean
distance from our certified point: it shows how much earlier it stops. tracemalloc does not see
what C code allocates by itself (liblinear), so memory ratios are about NumPy arrays.
"""

# ruff: noqa: E402  (the thread count must be set before NumPy is imported)
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import gzip
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from noisette.fitting.losses import Hinge, Logistic, Softmax
from noisette.fitting.solvers import minimise


def clip(X: Any, R: float = 1.0) -> Any:
    """Rows scaled to norm at most R."""
    if sparse.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sparse.csr_matrix(sparse.diags_array(R / np.maximum(norms, R)) @ X)
    return X * (R / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), R))


def synthetic(n: int, d: int, density: float | None = None) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    if density is None:
        X: Any = clip(rng.normal(size=(n, d)) * np.logspace(0, -1, d))
    else:
        X = clip(sparse.random(n, d, density, format="csr", random_state=0))
    score = 6.0 * (X @ rng.normal(size=d))
    return X, np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0)


def adult(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Adult training set: numbers scaled to [0, 1], categories one-hot, rows clipped to 1."""
    with gzip.open(folder / "adult" / "adult.data.gz", "rt") as file:
        table = np.array([line.strip().split(", ") for line in file if line.strip()], dtype=str)
    columns: list[np.ndarray] = []
    for j in range(table.shape[1] - 1):
        column = table[:, j]
        if np.char.isdigit(column).all():
            values = column.astype(float)
            columns.append((values / values.max())[:, None])
        else:
            columns.append((column[:, None] == np.unique(column)).astype(float))
    X = np.hstack([*columns, np.ones((len(table), 1))])
    return clip(X), np.where(table[:, -1] == ">50K", 1.0, -1.0)


def measure(run: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """(median seconds, peak extra bytes, result)."""
    result = run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    tracemalloc.start()
    run()
    peak = float(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    return float(np.median(times)), peak, result


def size_of(X: Any) -> float:
    if sparse.issparse(X):
        return float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return float(X.nbytes)


def report(
    name: str, X: Any, rivals: dict[str, Callable[[], Any]], ours: Callable[[], Any]
) -> None:
    repeats = REPEATS
    seconds, peak, solution = measure(ours, repeats)
    base = size_of(X)
    bound = f"||w-w*|| <= {solution.distance_bound:.1e}"
    print(f"{name:34s} noisette {seconds * 1e3:9.1f} ms  {(peak + base) / 1e6:8.1f} MB  {bound}")
    for label, run in rivals.items():
        other, other_peak, model = measure(run, repeats)
        coefficients = np.asarray(model.coef_)
        if solution.weights.ndim == 2:
            coefficients = Softmax(len(coefficients)).contract(coefficients)
        gap = np.linalg.norm(coefficients.reshape(solution.weights.shape) - solution.weights)
        memory = (peak + base) / (other_peak + base)
        print(
            f"{'':34s} {label:28s} {other * 1e3:9.1f} ms  ours/theirs: time {seconds / other:5.2f}"
            f"  memory {memory:5.2f}  their distance {gap:.1e}"
        )


def logistic_rivals(X: Any, y: np.ndarray, lam: float) -> dict[str, Callable[[], Any]]:
    def fit(**options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LogisticRegression(C=1 / lam, fit_intercept=False, **options).fit(X, y)

    return {
        "sklearn lbfgs (defaults)": lambda: fit(),
        "sklearn lbfgs tol=1e-4 iter=1e4": lambda: fit(tol=1e-4, max_iter=10000),
        "sklearn lbfgs tol=1e-9 iter=1e4": lambda: fit(tol=1e-9, max_iter=10000),
    }


def main() -> None:
    lam = 1.0
    cases = {
        "dense 10,000 x 20": synthetic(10_000, 20),
        "dense 50,000 x 100": synthetic(50_000, 100),
        "sparse 50,000 x 2,000, 1 %": synthetic(50_000, 2_000, 0.01),
    }
    folder = os.environ.get("NOISETTE_DATA")
    if folder and (Path(folder) / "adult").is_dir():
        cases["Adult (32,561 rows)"] = adult(Path(folder))
    else:
        print("Adult skipped: set NOISETTE_DATA to the folder that holds adult/adult.data.gz.")
    print(f"logistic, sum form, Lambda = {lam}, rows clipped to 1, one thread")
    for name, (X, y) in cases.items():

        def ours(X: Any = X, y: np.ndarray = y) -> Any:
            return minimise(Logistic(), X, y, regularization=lam)

        report(name, X, logistic_rivals(X, y, lam), ours)
    X, y = cases["dense 50,000 x 100"]
    classes = np.argmax(X[:, :5] + 0.3 * np.random.default_rng(1).gumbel(size=(len(X), 5)), axis=1)
    report(
        "softmax K=5, 50,000 x 100",
        X,
        logistic_rivals(X, classes, lam),
        lambda: minimise(Softmax(5), X, classes, regularization=lam),
    )
    X, y = cases["dense 10,000 x 20"]
    report(
        "hinge 10,000 x 20",
        X,
        {
            "sklearn LinearSVC (defaults)": lambda: LinearSVC(
                loss="hinge", C=1 / lam, fit_intercept=False, max_iter=100_000, random_state=0
            ).fit(X, y)
        },
        lambda: minimise(Hinge(), X, y, regularization=lam),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    REPEATS = parser.parse_args().repeats
    main()
