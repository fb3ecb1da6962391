"""What is measured: the library's own algorithm on the paper's three problems.

The private runs go through `SGDClassifier`. Its stream (`partial_fit`) covers all iterates with
one charge, so the weights may be read at any time without cost; that gives the curves against the
number of samples. Non-private runs are the same compiled steps with noise 0. Objective values are
computed from the rows by the experimenter and are not private.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks import real as datasets
from noisette._typing import Floats, Integers
from noisette.core.randomness import Randomness
from noisette.core.sampling import Disjoint
from noisette.fitting.algorithms.steps import Batches, State, Update, advance
from noisette.fitting.losses import Logistic
from noisette.fitting.solvers import minimise
from noisette.models.sgd import SGDClassifier
from reproductions.base import Row, Task
from reproductions.song2013.preprocessing import paper_preprocessing, private_preprocessing

__all__ = ["LAMBDA", "RATES", "levels", "optimum", "passes", "sgd"]


LAMBDA = 1e-4
RATES = {
    "1/sqrt(t)": ("inverse-sqrt", 1.0),
    "10/sqrt(t)": ("inverse-sqrt", 10.0),
    "1/(lambda t)": ("inverse", 1.0),
}
KDD_ROWS = 50_000
DIGIT = 1
_PROJECTION_SEED = 0


def _raw(name: str) -> tuple[Floats, Integers]:
    """Return the rows before the paper's preprocessing, and labels 0 and 1."""
    source = datasets.DATASETS[name]
    table = source.read(datasets.locate(source.folder))
    if name == "mnist":
        images = table.table["pixels"][: table.train].astype(np.float64)
        images /= 255.0
        return images, (table.y[: table.train] == DIGIT).astype(np.int64)
    chosen = Randomness.from_seed(0).generator.permutation(len(table.y))[:KDD_ROWS]
    rows = source.encode({name: column[chosen] for name, column in table.table.items()})
    return rows, table.y[chosen]


@lru_cache(maxsize=8)
def problem(name: str, features: str, d: int) -> tuple[Floats, Integers, float]:
    """Return rows in the unit ball, labels, and the share of rows that the projection made longer
    than 1 (which the last step of the preprocessing cuts back).
    """
    if name == "sphere":
        made = datasets.sphere(d=d, seed=0, n_test=0)
        return made.X, made.y, 0.0
    raw, y = _raw(name)
    if features == "standardised":
        X = paper_preprocessing(raw, d, _PROJECTION_SEED)
    else:
        X = private_preprocessing(raw, d, _PROJECTION_SEED)
    long = float((np.einsum("ij,ij->i", X, X) > 1.0 - 1e-9).mean())
    return np.ascontiguousarray(X), y, long


def objectives(X: Floats, y: Integers, weights: Floats) -> Floats:
    """Return lambda/2 ||w||^2 + mean log(1 + exp(-y w.x)) for each row w of `weights`."""
    signs = np.where(y == 1, 1.0, -1.0)
    total = np.zeros(len(weights))
    for start in range(0, len(X), 8192):
        part = slice(start, start + 8192)
        margins = (X[part] @ weights.T) * signs[part, None]
        total += np.logaddexp(0.0, -margins).sum(axis=0)
    ridge: Floats = 0.5 * LAMBDA * np.einsum("ij,ij->i", weights, weights)
    return ridge + total / len(X)


def optimum(task: Task) -> list[Row]:
    """Measure the minimum of the regularised objective, and how the rows lie in the ball."""
    X, y, long = problem(task["data"], task["features"], task["d"])
    signs = np.where(y == 1, 1.0, -1.0)
    best = minimise(Logistic(), X, signs, regularization=LAMBDA * len(X)).weights
    value = float(objectives(X, y, best[None, :])[0])
    norm = float(np.sqrt(best @ best))
    facts = {"rows": len(X), "norm": norm, "positive": float(y.mean()), "cut": long}
    return [{"algorithm": "central", "objective": value, **facts}]


def _cuts(n: int, batch: int, points: int) -> Integers:
    """Return numbers of samples after which the weights are read: whole batches, then all."""
    batches = -(-n // batch)
    steps = np.unique(np.ceil(np.linspace(0, batches, points + 1)[1:]).astype(np.int64))
    return np.minimum(steps * batch, n)


def _model(alpha: float, batch: int, rate: str, n: int, seed: int, **more: Any) -> SGDClassifier:
    """Return the paper's algorithm: no intercept, no averaging, radius 1/lambda."""
    schedule, eta0 = RATES[rate]
    settings: dict[str, Any] = {
        "norm_bound": 1.0,
        "noise": "spherical-laplace",
        "sampling": "disjoint",
        "learning_rate": (schedule, eta0),
        "regularization": (LAMBDA, 1.0 / LAMBDA),
        "fit_intercept": False,
        "released": ("all", "last"),
        "classes": [0, 1],
        "random_state": seed,
        "batch_size": batch,
        "population": n,
    }
    return SGDClassifier(alpha, **{**settings, **more})


def _private(X: Floats, y: Integers, task: Task, cuts: Integers) -> tuple[Floats, float]:
    """Return the weights at the cuts, and the epsilon that the guarantee states."""
    seed = 2 * task["seed"] + 1  # odd: noise; even: orders
    model = _model(task["alpha"], task["batch"], task["rate"], len(X), seed)
    read, start = [], 0
    for stop in cuts:
        model.partial_fit(X[start:stop], y[start:stop])
        read.append(model.coef_[0].copy())
        start = stop
    return np.array(read), float(model.privacy_.epsilon)


def _plain(X: Floats, y: Integers, task: Task, orders: list[Integers], cuts: Integers) -> Floats:
    """Return the weights of non-private SGD: passes in these orders, read at the cuts of the last.

    The same compiled steps as the private runs, with noise 0.
    """
    schedule, eta0 = RATES[task["rate"]]
    update = Update(
        Logistic(), regularization=LAMBDA, learning_rate=schedule, eta0=eta0, radius=1.0 / LAMBDA
    )
    state, signs = State.zero(X.shape[1]), np.where(y == 1, 1.0, -1.0)
    edges = Disjoint.of_size(len(X), task["batch"]).edges(len(X))
    read = []
    for count, order in enumerate(orders, start=1):
        stops = cuts if count == len(orders) else cuts[-1:]
        start = 0
        for stop in np.searchsorted(edges, stops):
            sizes = np.full(stop - start, float(task["batch"]))
            part = Batches(edges[start : stop + 1], sizes, order)
            advance(update, state, X, signs, part, np.zeros((stop - start, X.shape[1])), 0.0)
            read.append(state.w.copy())
            start = stop
    return np.array(read[-len(cuts) :])


def _order(n: int, seed: int) -> Integers:
    """Return the random permutation of one repetition; private and plain runs share it."""
    return Randomness.from_seed(seed).generator.permutation(n)


def sgd(task: Task) -> list[Row]:
    """Measure one pass, private and not, in one random order of the rows."""
    X, y, _ = problem(task["data"], task["features"], task["d"])
    order = _order(len(X), 2 * task["seed"])
    mixed, labels = X[order], y[order]
    cuts = _cuts(len(X), task["batch"], task["points"])
    private, epsilon = _private(mixed, labels, task, cuts)
    same = np.arange(len(X))
    plain = _plain(mixed, labels, task, [same], cuts)
    rows: list[Row] = []
    for name, weights in (("private", private), ("non-private", plain)):
        for samples, value in zip(cuts, objectives(X, y, weights), strict=True):
            last = bool(samples == cuts[-1])
            rows.append(
                {"algorithm": name, "samples": int(samples), "last": last, "objective": value}
            )
            if last and name == "private":
                rows[-1]["epsilon"] = epsilon
    return rows


def levels(task: Task) -> list[Row]:
    """Measure what a share of people with a lower level of their own costs, by strategy."""
    X, y, _ = problem(task["data"], task["features"], task["d"])
    order = _order(len(X), 2 * task["seed"])
    mixed, labels = X[order], y[order]
    careful = _order(len(X), 2 * task["seed"] + 10_001) < task["share"] * len(X)
    low, high, batch = task["low"], task["alpha"], task["batch"]
    seed, rate = 2 * task["seed"] + 1, task["rate"]
    personal = np.where(careful, low, high)
    kept = mixed[~careful], labels[~careful]
    runs: dict[str, tuple[float, tuple[Floats, Integers], dict[str, Any]]] = {
        "scale": (high, (mixed, labels), {"sampling": "disjoint"}),
        "batches": (high, (mixed, labels), {"sampling": "levels"}),
        "least": (low if careful.any() else high, (mixed, labels), {}),
        "leave out": (high, kept, {}),
    }
    rows: list[Row] = []
    for strategy, (alpha, (rows_in, labels_in), more) in runs.items():
        if not len(rows_in):
            continue
        n = len(rows_in)
        own = personal if "sampling" in more else None
        model = _model(alpha, batch, rate, n, seed, population=None, **more)
        model.fit(rows_in, labels_in, sample_epsilon=own)
        value = float(objectives(X, y, model.coef_)[0])
        rows.append({"strategy": strategy, "objective": value})
    return rows


_MANY: dict[str, dict[str, Any]] = {
    "pure": {"sampling": "shuffle"},
    "spherical": {"sampling": "shuffle"},
    "gaussian": {"sampling": "shuffle", "noise": "gaussian"},
    "poisson": {"sampling": "poisson", "noise": "gaussian"},
}


def passes(task: Task) -> list[Row]:
    """Measure many passes within one budget, all repetitions of one setting.

    Together, because the noise is calibrated once for them all.
    """
    X, y, _ = problem(task["data"], task["features"], task["d"])
    n, rows = len(X), []
    for seed in range(task["first"], task["first"] + task["seeds"]):
        if task["method"] == "non-private":
            orders = [_order(n, 1_000 * (seed + 1) + e) for e in range(task["passes"])]
            weights = _plain(X, y, task, orders, np.array([n]))
        else:
            more = {"delta": task["delta"], "epochs": task["passes"], **_MANY[task["method"]]}
            model = _model(
                task["alpha"], task["batch"], task["rate"], n, 2 * seed + 1, population=None, **more
            )
            weights = model.fit(X, y).coef_
        value = float(objectives(X, y, weights)[0])
        rows.append({"seed": seed, "objective": value})
    return rows
