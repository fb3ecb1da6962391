"""Seeded fits of every estimator, relation, unit and backend, and what each released.

A rebuilding that moves no arithmetic moves no bit of them: ``python cases.py --check`` says which
moved here; the test allows for another machine's linear algebra. Only
documented paths are imported here, so the list outlives every change of the rooms.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import noisette
from noisette import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Persons,
    PoissonRegressor,
    PrivateSearch,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    TableRegressor,
    evaluate,
)

FILE = Path(__file__).with_name("released.json")
SEED = 20261117
RELATIONS: dict[str, dict[str, Any]] = {
    "replace": {},
    "zero": {"adjacency": "zero-out"},
    "add": {"adjacency": "add-remove", "population": 400},
}

_RNG = np.random.default_rng(5)
N = 400
X = _RNG.normal(size=(N, 4)) / 4.0
SCORE = X @ np.array([1.0, -0.5, 0.25, 0.0])
Y = np.where(SCORE + 0.2 * _RNG.normal(size=N) > 0, "ill", "well")
Y3 = np.array(["a", "b", "c"])[np.clip(np.digitize(SCORE, [-0.15, 0.15]), 0, 2)]
Z = np.clip(SCORE, -1.0, 1.0)
COUNTS = _RNG.poisson(np.exp(SCORE)).clip(0, 5)
WHO = np.repeat(np.arange(N // 2), 2)
TABLE = pd.DataFrame(
    {
        "age": np.round(50 + 60 * X[:, 0]).clip(18, 95),
        "income": np.exp(8 + 4 * X[:, 1]),
        "job": np.array(["clerk", "cook", "nurse", "smith"])[_RNG.integers(0, 4, N)],
        "since": np.array(["2019-03-01", "2020-07-15", "2021-11-30", ""])[_RNG.integers(0, 4, N)],
        "who": [f"p{k}" for k in WHO],
        "ill": np.where(Y == "ill", "yes", "no"),
        "cost": Z,
    }
)
OPEN = {
    "age": {"kind": "numeric"}, "income": {"kind": "numeric"}, "job": {"kind": "categorical"},
    "since": {"kind": "date"}, "who": {"kind": "ignore"},
}  # fmt: skip
STATED = {
    "age": {"kind": "numeric", "knots": [18, 40, 60, 95]},
    "income": {"kind": "numeric", "low": 0, "high": 50000, "missing": [0]},
    "job": {"kind": "categorical", "categories": ["clerk", "cook", "nurse"]},
    "since": {"kind": "date", "low": "2018-01-01", "high": "2022-12-31"},
    "who": {"kind": "ignore"},
}


def schema(columns: dict[str, Any] = OPEN, *, number: bool = False, persons: bool = False) -> Any:
    """Return the facts of the table."""
    facts: dict[str, Any] = {"unit": "one row is one person"}
    facts |= {
        "target": {"name": "cost", "kind": "numeric", "low": -1.0, "high": 1.0},
    } if number else {
        "target": "ill", "classes": ["no", "yes"],
    }  # fmt: skip
    facts["columns"] = {name: dict(found) for name, found in columns.items()}
    facts["columns"]["ill" if number else "cost"] = {"kind": "ignore"}
    if persons:
        del facts["unit"], facts["columns"]["who"]
        facts |= {"person": "who", "max_rows": 5}
    return noisette.tables.Schema.from_dict(facts, learn=columns is OPEN)


def linear() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield fits on arrays."""
    for name, more in RELATIONS.items():
        shared = {"norm_bound": 0.7, "random_state": SEED, **more}
        limits = {"target_bounds": (-1.0, 1.0), **shared}
        yield f"logistic {name}", lambda s=shared: LogisticRegression(1.0, **s).fit(X, Y)
        yield (f"logistic delta {name}",
               lambda s=shared: LogisticRegression(1.0, 1e-6, **s).fit(X, Y))  # fmt: skip
        yield (
            f"logistic output {name}",
            lambda s=shared: LogisticRegression(1.0, mechanism="output", **s).fit(X, Y),
        )
        yield (f"logistic three {name}",
               lambda s=shared: LogisticRegression(1.0, 1e-6, **s).fit(X, Y3))  # fmt: skip
        yield f"svc {name}", lambda s=shared: LinearSVC(1.0, **s).fit(X, Y)
        yield f"sgd delta {name}", lambda s=shared: SGDClassifier(1.0, 1e-5, **s).fit(X, Y)
        yield f"ols {name}", lambda s=limits: LinearRegression(1.0, **s).fit(X, Z)
        yield f"huber {name}", lambda s=limits: HuberRegressor(1.0, **s).fit(X, Z)
        yield f"sgd number {name}", lambda s=limits: SGDRegressor(1.0, 1e-5, **s).fit(X, Z)
        yield (
            f"poisson {name}",
            lambda s=shared: PoissonRegressor(1.0, most_count=5, **s).fit(X, COUNTS),
        )
        if name != "add":
            yield f"sgd pure {name}", lambda s=shared: SGDClassifier(1.0, **s).fit(X, Y)
    one = {"norm_bound": 0.7, "random_state": SEED}
    yield ("svc hinge", lambda: LinearSVC(1.0, loss="hinge", mechanism="output", **one).fit(X, Y))
    yield "whitened", lambda: LogisticRegression(1.0, 1e-6, whiten=0.1, **one).fit(X, Y)
    yield ("balanced", lambda: LogisticRegression(1.0, class_weight="balanced", **one).fit(X, Y))
    yield "sparse", lambda: LogisticRegression(1.0, **one).fit(sparse.csr_array(X), Y)
    for sampling in ("poisson", "shuffle", "cyclic", "random-allocation", "full"):
        yield (f"sgd {sampling}", lambda s=sampling: SGDClassifier(
            1.0, 1e-5, sampling=s, batch_size=50, epochs=2, **one).fit(X, Y))  # fmt: skip
    for kind in (LogisticRegression, LinearSVC):
        yield (f"{kind.__name__} persons",
               lambda k=kind: k(1.0, **one).fit(X, Y, persons=Persons.of(WHO)))  # fmt: skip
    yield ("sgd persons",
           lambda: SGDClassifier(1.0, 1e-5, **one).fit(X, Y, persons=Persons.of(WHO)))  # fmt: skip
    yield ("ols persons", lambda: LinearRegression(
        1.0, target_bounds=(-1.0, 1.0), **one).fit(X, Z, persons=Persons.of(WHO)))  # fmt: skip


def tables() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield fits on raw tables."""
    for name, more in RELATIONS.items():
        shared = {"random_state": SEED, **more}
        for word, delta in (("pure", 0.0), ("delta", 1e-6)):
            yield (f"table {word} {name}", lambda s=shared, d=delta: TableClassifier(
                2.0, d, schema=schema(OPEN if d else STATED), **s).fit(TABLE))  # fmt: skip
        yield (f"table number {name}", lambda s=shared: TableRegressor(
            2.0, 1e-6, schema=schema(number=True), **s).fit(TABLE))  # fmt: skip
        yield (f"additive {name}", lambda s=shared: noisette.AdditiveClassifier(
            2.0, 1e-6, schema=schema(), **s).fit(TABLE))  # fmt: skip
        yield (f"table persons {name}", lambda s=shared: TableClassifier(
            2.0, 1e-6, schema=schema(persons=True), **s).fit(TABLE))  # fmt: skip
    one = {"random_state": SEED}
    yield ("table test share", lambda: TableClassifier(
        2.0, 1e-6, schema=schema(), test_share=0.25, **one).fit(TABLE))  # fmt: skip
    yield ("additive number", lambda: noisette.AdditiveRegressor(
        2.0, 1e-6, schema=schema(number=True), **one).fit(TABLE))  # fmt: skip
    yield ("table svm", lambda: TableClassifier(
        2.0, 1e-6, schema=schema(STATED), model="svm", **one).fit(TABLE))  # fmt: skip


def others() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield transformers, a search, scores and fits in partitions."""
    pipeline = noisette.pipeline
    one = {"random_state": SEED}
    numbers = TABLE[["age", "income"]].to_numpy()
    yield "bounds", lambda: pipeline.PrivateBounds(1.0, **one).fit(numbers)
    yield "knots", lambda: pipeline.PrivateKnots(1.0, **one).fit(numbers)
    yield "categories", lambda: pipeline.PrivateCategories(1.0, 1e-6, **one).fit(TABLE[["job"]])
    yield ("selector", lambda: pipeline.PrivateSelector(
        2, epsilon=1.0, norm_bound=0.7, **one).fit(X, Y))  # fmt: skip
    yield "projection", lambda: pipeline.PrivateProjection(2, norm_bound=0.7, **one).fit(X)
    yield ("search", lambda: PrivateSearch(
        LogisticRegression(1.0, norm_bound=0.7), {"regularization": [0.01, 0.1]}, 2.0, mean=3.0,
        **one).fit(X, Y))  # fmt: skip

    def scored() -> Any:
        model = LogisticRegression(1.0, norm_bound=0.7, random_state=SEED).fit(X, Y)
        return evaluate(model, X, Y, epsilon=1.0, **one)

    yield "scores", scored
    try:
        import dask
        import dask.array as da
        import dask.dataframe as dd
    except ImportError:
        return

    def parted(fit: Callable[[], Any]) -> Any:
        with dask.config.set(scheduler="sync"):
            return fit()

    yield (
        "dask logistic",
        lambda: parted(
            lambda: LogisticRegression(1.0, norm_bound=0.7, **one).fit(
                da.from_array(X, (150, 4)), da.from_array(Y, 150)
            )
        ),
    )
    yield ("dask table", lambda: parted(lambda: TableClassifier(
        2.0, 1e-6, schema=schema(), **one).fit(dd.from_pandas(TABLE, npartitions=3))))  # fmt: skip


def networks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield seeded networks."""
    try:
        import torch
    except ImportError:
        return

    def fit(**more: Any) -> Any:
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        kind = noisette.nn.PrivateClassifier
        return kind(module, 3.0, 1e-5, epochs=2, batch_size=50, random_state=SEED, **more).fit(
            X.astype(np.float32), Y
        )

    yield "network poisson", fit
    yield "network allocation", lambda: fit(sampling="random-allocation")


def commands() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield models that the command line wrote."""

    def train(number: bool) -> Any:
        with tempfile.TemporaryDirectory() as home:
            place = Path(home)
            TABLE.to_csv(place / "people.csv", index=False)
            facts = schema(number=number).source
            from noisette.tables import toml  # the writer of the schema's own file

            (place / "schema.toml").write_text(toml.dumps(facts))
            command = [sys.executable, "-m", "noisette", "train", "people.csv", "--schema",
                       "schema.toml", "--epsilon", "2", "--delta", "1e-6", "--seed", "7",
                       "--learn", "--out", "model", "--json"]  # fmt: skip
            subprocess.run(command, cwd=home, check=True, capture_output=True)
            return noisette.load(place / "model" / "model.noisette")

    yield "command label", lambda: train(False)
    yield "command number", lambda: train(True)


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every fit by its name."""
    for part in (linear, tables, others, networks, commands):
        yield from part()


def released(found: Any) -> dict[str, list[float]]:
    """Return the numbers that a fitted object shows, flattened, by name."""
    shown: dict[str, list[float]] = {}
    if hasattr(found, "module_"):
        parts = [p.detach().numpy() for p in found.module_.parameters()]
        shown["module_"] = np.concatenate([np.ravel(p) for p in parts]).tolist()
    if hasattr(found, "to_dict") and not hasattr(found, "privacy_"):
        text = json.dumps(found.to_dict(), sort_keys=True, default=str)
        shown["scores"] = [float(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))]
    for name in sorted(vars(found)):
        if not name.endswith("_") or name.startswith("_"):
            continue
        value = getattr(found, name)
        if isinstance(value, np.ndarray | float | int) and np.asarray(value).dtype.kind in "fiu":
            shown[name] = np.ravel(np.asarray(value, dtype=np.float64)).tolist()
    guarantee = getattr(found, "privacy_", None)
    if guarantee is not None:
        shown["privacy_"] = [guarantee.epsilon, guarantee.delta]
    return shown


def run(make: Callable[[], Any]) -> dict[str, list[float]]:
    """Fit one case and return what it shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return released(make())


def moved(
    name: str, found: dict[str, list[float]], kept: dict[str, Any], error: float
) -> list[str]:
    """Return what differs from the kept numbers by more than a relative error."""
    out = []
    for key in sorted({*found, *kept}):
        if key not in found or key not in kept:
            out.append(f"{name}: {key} is {'gone' if key not in found else 'new'}")
            continue
        a, b = np.array(found[key]), np.array(kept[key])
        if a.shape != b.shape or not np.allclose(a, b, rtol=error, atol=error, equal_nan=True):
            out.append(f"{name}: {key} moved")
        elif error == 0.0 and a.tobytes() != b.tobytes():
            out.append(f"{name}: {key} moved in its last bits")
    return out


def main() -> None:
    """Write the numbers, or compare with those that are kept."""
    if "--check" in sys.argv:
        kept = json.loads(FILE.read_text())
        names = dict(cases())
        wrong = [w for n, make in names.items() for w in moved(n, run(make), kept.get(n, {}), 0.0)]
        wrong += [f"{n}: no longer run" for n in kept if n not in names]
        print("\n".join(wrong) or f"{len(names)} cases, equal to the bit")
        raise SystemExit(bool(wrong))
    found = {}
    for name, make in cases():
        try:
            found[name] = run(make)
        except Exception as error:
            print(name, type(error).__name__, str(error)[:300])
    FILE.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace('},"', '},\n"'))
    print(len(found), "cases")


if __name__ == "__main__":
    main()
