"""Private linear models against scikit-learn, diffprivlib and published rows, on real data.

Run: ``NOISETTE_DATA=/path/to/data python benchmarks/linear.py [--quick] [--out FOLDER] [--jobs 2]``

* **Accuracy**: test accuracy in per cent, mean ± standard deviation over seeds. Each seed has its
  own 80/20 split and its own noise. All columns see the same encoded features
  (`benchmarks/real`: row-local, public facts only), and no parameter is tuned.
* **non-private**: scikit-learn's LogisticRegression (lbfgs) with lambda = 1e-6 on the mean loss.
* **Time and memory**: each fit runs in a process of its own with one thread, after a warm-up on a
  small table. Time is the CPU time of the fit (median of three), as a ratio to scikit-learn's lbfgs
  *with the regularisation that the private fit chose*. Memory is the peak resident size of the
  process during the fit minus its size before the data were loaded: data and all workspace,
  whoever allocated it; Linux only.
* **diffprivlib**: if ``--peer`` names the file written by ``benchmarks/diffprivlib_peer.py``.

With ``--out`` every fit is appended to ``linear.csv`` as it ends, and a second run goes on where
the first one stopped; delete the file after a change of the code. Seeds are the outer loop, so a
run that was stopped (or ended by ``--minutes``) has the same number of seeds everywhere, save one.
"""

# ruff: noqa: E402  (the thread count must be set before NumPy is imported)
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linear_report import BINARY, PUBLISHED, Cell, Row, Store, report

METHODS: dict[str, dict[str, Any]] = {
    "output": {"mechanism": "output", "whiten": False},
    "objective": {"mechanism": "objective", "whiten": False},
    "objective + whitening": {"mechanism": "objective", "whiten": "auto"},
    "auto": {"mechanism": "auto"},  # what a user gets who chooses nothing; not in the table
}


def delta_of(text: str, n: int) -> float:
    return float(n) ** -2.0 if text == "1/n^2" else float(text)


def round_guess(n: int) -> int:
    """N to one significant digit: what somebody who has not counted the rows would say."""
    unit = int(10 ** (len(str(n)) - 1))
    return max(1, round(n / unit)) * unit


def private(cell: Cell, data_n: int, classes: int, seed: int) -> Any:
    """The estimator of a cell. Under add-remove n is private: a public guess takes its place."""
    from noisette.models import LogisticRegression

    return LogisticRegression(
        epsilon=cell.epsilon,
        delta=delta_of(cell.delta, data_n),
        adjacency=cell.adjacency,
        norm_bound=1.0,
        classes=list(range(classes)),
        population=round_guess(data_n) if cell.adjacency == "add-remove" else None,
        random_state=seed,
        **METHODS[cell.method],
    )


def plain(n: int, regularization: float = 1e-6) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1.0 / (n * regularization), max_iter=1000)


def fit_task(task: tuple[str, int, list[Cell], str | None]) -> Iterator[Row]:
    """Fit all cells of one split; a refusal (no theorem, no data) becomes a note."""
    import real as datasets
    from noisette.errors import NoisetteError

    name, seed, cells, home = task
    data = datasets.load(name, home, seed=seed)
    n, classes = len(data.y), len(data.classes)
    for cell in cells:
        row = {**{k: str(v) for k, v in cell._asdict().items()}, "seed": str(seed)}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = (
                    plain(n) if cell.method == "non-private" else private(cell, n, classes, seed)
                )
                start = time.process_time()
                model.fit(data.X, data.y)
                row["seconds"] = f"{time.process_time() - start:.4f}"
            row["accuracy"] = f"{100.0 * model.score(data.X_test, data.y_test):.4f}"
        except NoisetteError as error:
            row["note"] = type(error).__name__
        yield row


def fit_task_list(task: tuple[str, int, list[Cell], str | None]) -> list[Row]:
    return list(fit_task(task))


# --- time and memory, each fit in its own process -----------------------------------------------


def resident(field: str) -> float:
    """A field of /proc/self/status in megabytes, or nan."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    found = [line.split()[1] for line in lines if line.startswith(field + ":")]
    return float(found[0]) / 1024.0 if found else float("nan")


def cost_child(folder: str, cell: Cell, regularization: float | None, repeats: int = 3) -> None:
    """In a fresh process: warm up, load, fit; print CPU seconds, megabytes, regularisation."""
    warnings.simplefilter("ignore")
    classes = int(np.load(f"{folder}/classes.npy"))

    def build(n: int, seed: int) -> Any:
        if regularization is not None:
            return plain(n, regularization)
        return private(cell, n, classes, seed)

    small = np.random.default_rng(0).uniform(-0.1, 0.1, (5000, 4))
    build(len(small), 0).fit(small, np.arange(len(small)) % classes)
    before = resident("VmRSS")
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        peak = "VmHWM"
    except OSError:
        peak = "not measured"
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < 60.0:
        start = time.process_time()
        model = build(len(y), len(seconds)).fit(X, y)
        seconds.append(time.process_time() - start)
    found = getattr(model, "regularization_", None)
    print(json.dumps([float(np.median(seconds)), resident(peak) - before, found]))


def cost_rows(
    name: str, deltas: Iterable[str], methods: Iterable[str], home: str | None
) -> Iterator[Row]:
    """Time and memory at epsilon = 1, replace-one: noisette and scikit-learn on one problem."""
    import real as datasets

    data = datasets.load(name, home)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", data.X)
        np.save(f"{folder}/y.npy", data.y)
        np.save(f"{folder}/classes.npy", np.array(len(data.classes)))

        def child(cell: Cell, regularization: float | None) -> list[float] | str:
            call = json.dumps([folder, cell, regularization])
            command = [sys.executable, __file__, "--child", call]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["failed"])[-1]
                return last.split(":")[0].split(".")[-1]
            measured: list[float] = json.loads(done.stdout.splitlines()[-1])
            return measured

        for delta in deltas:
            known = 1e-6
            for method in methods:
                cell = Cell(name, 1.0, delta, "replace-one", method)
                ours = child(cell, None)
                # "Same problem": lambda as chosen by the private fit. A whitened fit has none in
                # these coordinates and is set beside the lambda of the method before it.
                known = ours[2] if isinstance(ours, list) and ours[2] else known
                theirs = child(cell, known) if isinstance(ours, list) else ours
                for who, result in (("cost", ours), ("cost of scikit-learn", theirs)):
                    row = {k: str(v) for k, v in cell._asdict().items()} | {"seed": who}
                    if isinstance(result, str):
                        row["note"] = result
                    else:
                        row |= {"seconds": f"{result[0]:.4f}", "megabytes": f"{result[1]:.2f}"}
                    yield row


# --- the plan and the store ---------------------------------------------------------------------


def plan(options: argparse.Namespace) -> list[Cell]:
    """All cells: one non-private per dataset, the grid, and the published protocol."""
    published = {d: e for d, (e, _) in PUBLISHED.items() if d in options.published}
    cells = [
        Cell(name, 0.0, "0", "none", "non-private")
        for name in dict.fromkeys([*options.datasets, *published])
    ]
    for name in options.datasets:
        for adjacency in options.adjacencies:
            for delta in options.deltas:
                for epsilon in options.epsilons:
                    cells += [Cell(name, epsilon, delta, adjacency, m) for m in options.methods]
    for name, epsilon in published.items():
        cells += [Cell(name, epsilon, "1/n^2", "add-remove", m) for m in options.methods]
    return cells


def measure(options: argparse.Namespace, store: Store) -> None:
    """Fit whatever the store lacks, seed by seed, on at most `--jobs` processes."""
    done, cells, end = store.done(), plan(options), time.monotonic() + 60.0 * options.minutes
    tasks = []
    for seed in range(options.seeds):
        for name in dict.fromkeys(cell.dataset for cell in cells):
            missing = [
                cell
                for cell in cells
                if cell.dataset == name and (*map(str, cell), str(seed)) not in done
            ]
            # Pieces, because with several processes a piece is stored when it is complete.
            for i in range(0, len(missing), 30):
                tasks.append((name, seed, missing[i : i + 30], options.data_home))
    if options.jobs > 1:
        with multiprocessing.get_context("fork").Pool(min(2, options.jobs)) as pool:
            for rows in pool.imap(fit_task_list, tasks):
                for row in rows:
                    store.add(row)
                if time.monotonic() > end:
                    break
    else:
        for task in tasks:
            for row in fit_task(task):
                store.add(row)
                if time.monotonic() > end:
                    return
    for name in options.datasets if options.costs else ():
        wanted = [
            delta
            for delta in options.deltas
            if any(
                (name, "1.0", delta, "replace-one", m, "cost") not in done for m in options.methods
            )
        ]
        for row in cost_rows(name, wanted, options.methods, options.data_home) if wanted else ():
            store.add(row)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--deltas", nargs="+", default=["0", "1e-6"])
    parser.add_argument("--adjacencies", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS)[:3], choices=list(METHODS))
    parser.add_argument("--published", nargs="*", choices=list(PUBLISHED))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--quick", action="store_true", help="3 seeds, fewer cells, small sets")
    parser.add_argument("--jobs", type=int, default=1, help="processes, at most 2")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop fitting then")
    parser.add_argument("--no-costs", dest="costs", action="store_false", help="no time and memory")
    parser.add_argument("--out", type=Path, default=None, help="folder for linear.md, linear.csv")
    parser.add_argument("--peer", type=Path, default=None, help="JSON of diffprivlib_peer.py")
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    usual: dict[str, Any] = {
        "datasets": ([*BINARY, "mnist"], ["adult", "bank", "credit"]),
        "epsilons": ([0.1, 0.5, 1.0, 2.0, 8.0], [0.1, 1.0]),
        "adjacencies": (["replace-one", "zero-out", "add-remove"], ["replace-one"]),
        "published": (list(PUBLISHED), ["adult"]),
        "seeds": (20, 3),
    }
    for name, (full, quick) in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    if options.peer is None and options.out is not None:
        options.peer = options.out / "diffprivlib_peer.json"
    return options


def main() -> None:
    from real import MissingData

    options = arguments()
    if options.child is not None:
        folder, cell, regularization = json.loads(options.child)
        cost_child(folder, Cell(*cell), regularization)
        return
    store = Store(options.out)
    try:
        measure(options, store)
    except KeyboardInterrupt:
        print("stopped; the table shows what there is", file=sys.stderr)
    except MissingData as error:
        print(f"skipped: {error}")
        return
    text = report(options, store)
    print(text)
    if options.out:
        (options.out / "linear.md").write_text(text)


if __name__ == "__main__":
    main()
