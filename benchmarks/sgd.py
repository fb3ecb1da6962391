"""Private SGD: speed against scikit-learn without privacy, memory of streams, accuracy.

``python benchmarks/sgd.py [time] [growth] [memory] [accuracy]`` prints the tables (default: all).
The accuracy part needs NOISETTE_DATA; ``--quick`` uses one split.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier as Peer

import real as datasets
from noisette.core.randomness import Randomness
from noisette.core.sampling import Disjoint
from noisette.models.sgd import SGDClassifier

SHAPES = ((10_000, 5), (50_000, 9), (60_000, 15), (45_000, 104), (60_000, 784))
BATCHES = (1, 10, 50, 500)


def unit_rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = Randomness.from_seed(seed).generator
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.2 * rng.standard_normal(n) / np.sqrt(d) > 0).astype(int)


def quickest(tasks: list[Callable[[], Any]], runs: int) -> list[float]:
    """Return the least time of each task; runs are interleaved, so all see the same machine."""
    best = [np.inf] * len(tasks)
    for _ in range(runs):
        for i, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def noise_alone(n: int, d: int, b: int) -> Callable[[], Any]:
    from noisette.core.mechanisms import SphericalLaplace

    mechanism, source = SphericalLaplace.calibrated(1.0, dimension=d + 1), Randomness.secure()
    most = max(1, (1 << 16) // (d + 1))

    def draw() -> None:
        left = -(-n // b)
        while left > 0:
            mechanism.noise(min(most, left), d + 1, 1.0, source.generator)
            left -= most

    return draw


def times(runs: int) -> None:
    print("\nwhole fit, secure noise, against scikit-learn's SGDClassifier(max_iter=1, tol=None)")
    print("ratios: rows in one random order (default), rows in the given order, the noise alone")
    print("        n    d    b   sklearn ms   random   given   target   noise")
    for n, d in SHAPES:
        X, y = unit_rows(n, d)
        for dtype in (np.float64, np.float32) if d > 100 else (np.float64,):
            rows = X.astype(dtype)
            for b in BATCHES:
                peer = Peer(loss="log_loss", max_iter=1, tol=None, alpha=1e-4)
                mine = SGDClassifier(epsilon=1.0, batch_size=b, classes=[0, 1], norm_bound=1.0)
                given = clone(mine).set_params(sampling=Disjoint.of_size(n, b))
                mine.fit(rows[:1000], y[:1000])  # compile
                tasks = [
                    lambda p=peer, r=rows, y=y: p.fit(r, y),
                    lambda m=mine, r=rows, y=y: m.fit(r, y),
                    lambda m=given, r=rows, y=y: m.fit(r, y),
                    noise_alone(n, d, b),
                ]
                theirs, *found = quickest(tasks, runs)
                ours, kept, noise = (value / theirs for value in found)
                goal = 0.5 if b >= 10 else 1.0
                kind = " f32" if dtype is np.float32 else ""
                print(
                    f"{n:9,} {d:4d} {b:4d} {theirs * 1e3:12.2f} {ours:8.2f} {kept:7.2f}   "
                    f"<= {goal:3.1f} {noise:7.2f}{kind}",
                    flush=True,
                )


def one_pass(n: int, d: int, b: int, runs: int) -> float:
    X, y = unit_rows(n, d)
    model = SGDClassifier(epsilon=1.0, batch_size=b, classes=[0, 1], norm_bound=1.0)
    model.fit(X[:1000], y[:1000])
    return quickest([lambda: model.fit(X, y)], runs)[0]


def growth(runs: int, figure: str | None) -> None:
    print("\nhow the cost of one pass grows from 100,000 x 20, b = 50 (secure noise)")
    series = {
        "n": [(n, 20, 50) for n in (1_000, 10_000, 100_000, 1_000_000)],
        "d": [(100_000, d, 50) for d in (5, 20, 80, 320)],
        "b": [(100_000, 20, b) for b in (1, 5, 50, 500)],
    }
    found: dict[str, list[float]] = {}
    for name, shapes in series.items():
        found[name] = [one_pass(*shape, runs) for shape in shapes]
        for (n, d, b), best in zip(shapes, found[name], strict=True):
            each = best / n / d * 1e9
            print(f"  {name}: {n:9,} x {d:3d}, b={b:3d} {best * 1e3:8.1f} ms {each:6.2f} ns/entry")
    if figure is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    picture, panes = pyplot.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
    for pane, (name, shapes) in zip(panes, series.items(), strict=True):
        at = [shape["ndb".index(name)] for shape in shapes]
        pane.loglog(at, np.array(found[name]) * 1e3, "o-")
        pane.set_xlabel({"n": "records n", "d": "features d", "b": "batch size b"}[name])
        pane.grid(alpha=0.3)
    panes[0].set_ylabel("one private pass, ms")
    picture.savefig(figure)


def stream(total: int, d: int, chunk: int = 100_000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    X, y = unit_rows(chunk, d)
    for _ in range(total // chunk):
        yield X.copy(), y.copy()


def memory_child(total: int, d: int) -> None:
    start = time.perf_counter()
    model = SGDClassifier(epsilon=1.0, classes=[0, 1], population=total, norm_bound=1.0)
    model.fit(stream(total, d))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {total:11,} x {d} rows: {time.perf_counter() - start:6.1f} s, peak {peak:6.0f} MB")


def memory() -> None:
    print("\nstreamed fit in chunks of 100,000 rows (target: 10 million x 20 below 500 MB)")
    for total in (1_000_000, 10_000_000):
        command = [sys.executable, __file__, "--child", str(total)]
        subprocess.run(command, check=True, env=os.environ)


def fashion_two() -> tuple[np.ndarray, ...]:
    """T-shirt against shirt, the hardest pair."""
    data = datasets.load("fashion-mnist")
    parts = []
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        keep = np.isin(y, (0, 6))
        parts += [X[keep], (y[keep] == 6).astype(int)]
    return tuple(parts)


def two_class(name: str, seed: int) -> tuple[np.ndarray, ...]:
    if name == "fashion":
        return fashion_two()
    data = datasets.load(name, seed=seed)
    return data.X, data.y, data.X_test, data.y_test


def oracle(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray,
           epsilon: float, seed: int) -> float:  # fmt: skip
    """DP-SGD with Poisson batches, 10 epochs, the best of ten learning rates *on the test set*."""
    best = 0.0
    for eta0 in 2.0 ** np.arange(-4, 6):
        model = SGDClassifier(
            epsilon, 1e-5, sampling="poisson", epochs=10, batch_size=max(256, len(X) // 50),
            learning_rate=("constant", float(eta0)), regularization=0.0, released=("all", "last"),
            adjacency="zero-out", classes=[0, 1], random_state=seed, norm_bound=1.0,
        )  # fmt: skip
        best = max(best, model.fit(X, y).score(X_test, y_test))
    return best


def accuracy(splits: int) -> None:
    print("\ntest accuracy, zero-out, delta = 1e-5 (recipe: no tuning; oracle: tuned on test)")
    print("data          n      d  eps   recipe  oracle DP-SGD   gap   recipe R   pure one pass")
    for name in ("bank", "credit", "covertype", "fashion"):
        for epsilon in (0.3, 1.0, 4.0):
            scores = []
            for seed in range(splits):
                X, y, X_test, y_test = two_class(name, seed)
                row = [oracle(X, y, X_test, y_test, epsilon, seed)]
                for options in (
                    {"delta": 1e-5, "adjacency": "zero-out"},
                    {"delta": 1e-5},
                    {},
                ):
                    model = SGDClassifier(
                        epsilon, classes=[0, 1], random_state=100 + seed, norm_bound=1.0, **options
                    )
                    row.append(model.fit(X, y).score(X_test, y_test))
                scores.append(row)
            best, recipe, swap, pure = np.mean(scores, axis=0)
            print(
                f"{name:10s} {len(X):7,} {X.shape[1]:5d} {epsilon:4.1f} {recipe:8.3f} {best:12.3f} "
                f"{recipe - best:+8.3f} {swap:9.3f} {pure:12.3f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["time", "growth", "memory", "accuracy"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", type=int)
    parser.add_argument("--figure", help="save the growth figure there")
    options = parser.parse_args()
    if options.child:
        memory_child(options.child, 20)
        return
    warnings.simplefilter("ignore")
    runs = 3 if options.quick else 9
    if "memory" in options.parts:  # first: a child's peak starts at the size of its parent
        memory()
    if "time" in options.parts:
        times(runs)
    if "growth" in options.parts:
        growth(3, options.figure)
    if "accuracy" in options.parts:
        accuracy(1 if options.quick else 3)


if __name__ == "__main__":
    main()
