"""Raw tables of which only the kinds of the columns are known, against hand-written encodings.

Run: ``NOISETTE_DATA=/path/to/data python benchmarks/tables.py [--quick] [--seeds 20]``

* **raw**: `TableClassifier` with all defaults, told the kinds of the columns and nothing else. The
  columns are those of the hand-written encoding in `benchmarks/real`, where there is one (so
  Bank is ``bank-full`` without `duration`); Telco is everything but the customer's id.
* **expert**: the hand-written encoding and `LogisticRegression` at the same total budget, plain and
  whitened, on the same splits.
* **schema**: `TableClassifier` with the bounds and levels of the hand-written encoding stated.
* **additive**: raw, with `AdditiveClassifier`.
* **pairs**: additive, with the pairs of columns in `PAIRS`: a day and its month make a date.
* **missing**: raw, with 10 % of the cells taken away at random, in training or everywhere.

Figures are mean ± standard deviation over seeds; each seed has its own 80/20 split and its own
noise. With ``--out`` every fit is appended to ``tables.jsonl`` as it ends, and a second run goes on
where the first one stopped; delete the file after a change of the code. Keep it outside the tree.
"""

# ruff: noqa: E402  (the thread count must be set before NumPy is imported)
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import csv
import gzip
import io
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linear import resident, round_guess
from tables_report import DATA, DELTA, Cell, Store, report

Columns = dict[str, NDArray[Any]]
NUMBERS = ("tenure", "MonthlyCharges", "TotalCharges", "Latitude", "Longitude")
MISSING = 0.1
PAIRS = {"bank": [("day", "month")]}


def cells() -> Iterator[Cell]:
    """Yield every entry of the tables; the raw ones first."""
    relations, budgets = ("add-remove", "replace-one"), (1.0, 0.1)
    for method in ("raw", "expert", "expert, whitened"):
        for name in DATA:
            if method == "raw" or name != "telco":
                yield from (Cell(name, method, a, e) for a in relations for e in budgets)
    for name in DATA:
        yield from (Cell(name, "additive", a, e) for a in relations for e in budgets)
    for name in PAIRS:
        yield from (Cell(name, "pairs", a, e) for a in relations for e in budgets)
    yield Cell("adult", "schema", "replace-one", 1.0, 0.0)
    yield Cell("adult", "schema", "replace-one", 1.0)
    for method in ("missing in training", "missing everywhere"):
        yield from (Cell(name, method, "replace-one", 1.0) for name in DATA)


# --- the data -------------------------------------------------------------------------------------


@cache
def table_of(name: str) -> tuple[Columns, NDArray[Any], dict[str, dict[str, Any]]]:
    """Return the columns in use, the labels, and what the hand-written encoding states of them."""
    from noisette.tables.kinds import Categorical
    from real import DATASETS, locate

    if name == "telco":
        return telco(locate("telco_churn"))
    source = DATASETS[name]
    raw = source.read(locate(source.folder))
    facts: dict[str, dict[str, Any]] = {}
    for column in source.encode.columns:  # type: ignore[attr-defined]
        if isinstance(column, Categorical):
            levels = [level for _, group in column.groups for level in group]
            facts[column.name] = {"kind": "categorical", "categories": levels}
        else:
            low, high = column.views[0].low, column.views[0].high
            facts.setdefault(column.name, {"kind": "numeric", "low": low, "high": high})
    columns: Columns = {}
    for column_name, fact in facts.items():
        number = fact["kind"] == "numeric"
        cells_of = raw.table[column_name].astype(np.float64 if number else np.str_)
        columns[column_name] = cells_of if number else cells_of.astype(object)
    return columns, raw.y, facts


def telco(folder: Path) -> tuple[Columns, NDArray[Any], dict[str, dict[str, Any]]]:
    """Read the raw export: numbers as text with blanks, and 1,100 cities."""
    text = gzip.decompress((folder / "telco.csv.gz").read_bytes()).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    names = [name for name in rows[0] if name not in ("customerID", "Churn")]
    columns = {name: np.array([row[name] for row in rows], dtype=object) for name in names}
    facts = {name: {"kind": "numeric" if name in NUMBERS else "categorical"} for name in names}
    return columns, np.array([row["Churn"] == "Yes" for row in rows], dtype=np.intp), facts


def split(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of both parts: the same as `real.load` has for this seed."""
    from noisette.core.randomness import Randomness

    order = Randomness.from_seed(seed).generator.permutation(n)
    return order[: n - n // 5], order[n - n // 5 :]


def holes(columns: Columns, seed: int) -> Columns:
    """Return the columns with a tenth of the cells empty, completely at random."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, values in columns.items():
        empty = rng.random(len(values)) < MISSING
        found[name] = values.copy()
        found[name][empty] = np.nan if values.dtype.kind == "f" else None
    return found


# --- the fits -------------------------------------------------------------------------------------


def fit(cell: Cell, seed: int) -> dict[str, Any]:
    """Fit one cell on one split; a refusal (no theorem, no data) becomes a note."""
    from noisette.errors import NoisetteError

    row: dict[str, Any] = {**cell._asdict(), "seed": seed}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            measured = expert(cell, seed) if cell.method.startswith("expert") else raw(cell, seed)
            row |= measured
            row["warned"] = any("WeakModel" in each.category.__name__ for each in said)
    except NoisetteError as error:
        row["note"] = type(error).__name__
    return row


def common(cell: Cell, n: int, seed: int) -> dict[str, Any]:
    """Parameters of both estimators. Under add-remove a public guess takes the place of n."""
    guess = round_guess(n) if cell.adjacency == "add-remove" else None
    return {
        "epsilon": cell.epsilon, "delta": cell.delta, "adjacency": cell.adjacency,
        "classes": [0, 1], "population": guess, "random_state": seed,
    }  # fmt: skip


def raw(cell: Cell, seed: int) -> dict[str, Any]:
    """Fit `TableClassifier`, or `AdditiveClassifier`."""
    from noisette import AdditiveClassifier, TableClassifier

    columns, y, facts = table_of(cell.data)
    schema: dict[str, Any] = {name: fact["kind"] for name, fact in facts.items()}
    train, test = split(len(y), seed)
    first = {name: values[train] for name, values in columns.items()}
    second = {name: values[test] for name, values in columns.items()}
    if cell.method == "schema":
        schema = facts
    if cell.method.startswith("missing"):
        first = holes(first, seed)
    if cell.method == "missing everywhere":
        second = holes(second, seed + 1_000_000)
    kind = AdditiveClassifier if cell.method in ("additive", "pairs") else TableClassifier
    more = {"pairs": PAIRS[cell.data]} if cell.method == "pairs" else {}
    model = kind(**common(cell, len(train), seed), schema=schema, **more)
    start = time.process_time()
    model.fit(first, y[train])
    seconds = time.process_time() - start
    return judged(model, second, y[test]) | {"seconds": seconds}


def expert(cell: Cell, seed: int) -> dict[str, Any]:
    """Fit `LogisticRegression` on the hand-written encoding."""
    import real as datasets
    from noisette.models import LogisticRegression

    data = datasets.load(cell.data, seed=seed)
    model = LogisticRegression(
        **common(cell, len(data.y), seed), norm_bound=1.0, whiten=cell.method.endswith("whitened")
    )
    start = time.process_time()
    model.fit(data.X, data.y)
    seconds = time.process_time() - start
    return judged(model, data.X_test, data.y_test) | {"seconds": seconds}


def judged(model: Any, X: Any, y: NDArray[Any]) -> dict[str, Any]:
    """Return how good the answers are."""
    from sklearn.metrics import roc_auc_score

    scores = model.decision_function(X)
    return {
        "auc": float(roc_auc_score(y, scores)),
        "accuracy": 100.0 * float(np.mean((scores > 0.0) == (y == 1))),
        "majority": 100.0 * float(max(np.mean(y), 1.0 - np.mean(y))),
    }


def memory_of(name: str) -> float:
    """Return the megabytes that one fit takes beyond the table, in a process of its own."""
    command = [sys.executable, __file__, "--memory", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def memory_child(name: str) -> None:
    """In a fresh process: warm up, load, fit, and print what the peak rose by."""
    warnings.simplefilter("ignore")
    fit(Cell("telco", "raw", "replace-one", 1.0), 0)
    table_of(name)
    before = resident("VmRSS")
    fit(Cell(name, "raw", "replace-one", 1.0), 0)
    print(max(resident("VmHWM") - before, 0.0))


# --- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="methods that start so, e.g. raw")
    parser.add_argument("--out", type=Path, help="folder outside the tree for tables.jsonl")
    parser.add_argument("--memory", choices=DATA, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return memory_child(options.memory)
    store = Store(options.out)
    seeds = 2 if options.quick else options.seeds
    # Seeds are the outer loop: a run that was stopped has equally many everywhere, save one.
    for seed in range(options.first, options.first + seeds):
        for cell in cells():
            if cell.method.startswith(options.only) and not store.has(cell, seed):
                store.add(fit(cell, seed))
    for name in DATA:
        if not options.only and not store.megabytes(name):
            store.add({"data": name, "megabytes": memory_of(name)})
    print(json.dumps({"delta": DELTA, "seeds": seeds}))
    print(report(store, list(cells())))
    return None


if __name__ == "__main__":
    main()
