"""What it costs to protect persons instead of rows, on the invented visits of `datasets.visits`.

Three ways to use the same rows at the same epsilon: every row is a record (what a user would do by
mistake: a patient with 40 visits has 40 times the epsilon), every patient is a person, and only
the first visit of each patient. AUC on all visits of patients who were held out; the noise is drawn
anew in each run. Time is the best of five fits, memory the peak of Python and NumPy in one fit.

    python benchmarks/persons.py [--runs 20]
"""

import argparse
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from noisette import LinearSVC, LogisticRegression, SGDClassifier, TableClassifier
from noisette.tables.datasets import visits

WAYS = ("rows, by mistake", "persons", "first visit only")


def models(epsilon: float, seed: int) -> dict[str, Any]:
    """Return the estimators that take encoded rows, and the one that takes the raw table."""
    shared = {"norm_bound": 1.0, "classes": [0, 1], "random_state": seed}
    return {
        "LogisticRegression": LogisticRegression(epsilon, **shared),
        "LogisticRegression, delta=1e-6": LogisticRegression(epsilon, 1e-6, **shared),
        "LinearSVC": LinearSVC(epsilon, **shared),
        "SGDClassifier": SGDClassifier(epsilon, **shared),
        "SGDClassifier, delta=1e-6": SGDClassifier(epsilon, 1e-6, **shared),
        "TableClassifier, delta=1e-6": TableClassifier(epsilon, 1e-6, random_state=seed),
    }


class Case:
    """One table, and the three ways to fit a model on it."""

    def __init__(self, seed: int, persons: int = 6_000) -> None:
        self.table = visits(persons, seed=seed)
        self.data = self.table.dataset()
        self.first = np.unique(self.data.persons, return_index=True)[1]

    def fit(self, model: Any, way: str) -> Any:
        """Return the model, fitted in one of the ways."""
        rows = self.first if way == WAYS[2] else slice(None)
        more = {"persons": self.data.persons} if way == WAYS[1] else {}
        if not isinstance(model, TableClassifier):
            return model.fit(self.data.X[rows], self.data.y[rows], **more)
        model.schema = dict(self.table.schema)
        raw = {name: cells[rows] for name, cells in self.table.rows(held_out=False).items()}
        return model.fit(raw, **more)

    def auc(self, model: Any) -> float:
        """Return how well the model ranks the visits of patients who were held out."""
        rows: Any = self.data.X_test
        if isinstance(model, TableClassifier):
            rows = self.table.rows(held_out=True)
        return float(roc_auc_score(self.data.y_test, model.decision_function(rows)))


def accuracy(epsilon: float, runs: int) -> None:
    """Print the AUC of every model in every way."""
    cases = [Case(seed) for seed in range(4)]
    print(f"\nAUC at epsilon = {epsilon:g} (mean ± standard error, {runs} runs on 4 tables)\n")
    print("| model | " + " | ".join(WAYS) + " |\n|---|---|---|---|")
    for name in models(epsilon, 0):
        cells = []
        for way in WAYS:
            found = [
                cases[run % 4].auc(cases[run % 4].fit(models(epsilon, run)[name], way))
                for run in range(runs)
            ]
            cells.append(f"{np.mean(found):.3f} ± {np.std(found) / np.sqrt(runs):.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def cost(epsilon: float) -> None:
    """Print time and memory of a fit on ten times as many visits."""
    case = Case(0, persons=60_000)
    print("\n| model | time, persons / rows | memory, persons / rows |\n|---|---|---|")
    for name in models(epsilon, 0):
        seconds, peaks = [], []
        for way in WAYS[:2]:
            case.fit(models(epsilon, 0)[name], way)  # compiles, and fills the caches
            each = []
            for _ in range(5):
                start = time.perf_counter()
                case.fit(models(epsilon, 0)[name], way)
                each.append(time.perf_counter() - start)
            tracemalloc.start()
            case.fit(models(epsilon, 0)[name], way)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            seconds.append(min(each))
        print(
            f"| {name} | {seconds[1]:.3f} s / {seconds[0]:.3f} s = {seconds[1] / seconds[0]:.2f} | "
            f"{peaks[1] / 1e6:.1f} MB / {peaks[0] / 1e6:.1f} MB = {peaks[1] / peaks[0]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    warnings.simplefilter("ignore")
    runs = parser.parse_args().runs
    for epsilon in (0.5, 1.0, 2.0):
        accuracy(epsilon, runs)
    cost(1.0)
