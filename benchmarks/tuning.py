"""Does private tuning pay? PrivateSearch, defaults, and a budget split over the grid.

Run: ``NOISETTE_DATA=/path/to/data python benchmarks/tuning.py [--seeds 5] [--out FILE]``

All at the same *total* (epsilon, delta), replace-one, on Adult, Bank and Credit as
`benchmarks/real` encodes them; a fifth of the rows is held out for the table below and seen by
nobody. Each seed has its own split and its own noise.

* **defaults**: `LogisticRegression` on all rows, nothing tuned.
* **search**: `PrivateSearch` over the grid; a fifth of its rows scores.
* **split**: every candidate of the grid is trained with its share of the budget and scored on
  other people's rows with the same share; the best noisy score wins.
"""

import argparse
import csv
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from noisette import LogisticRegression, PrivateSearch, accounting, plans
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.randomness import Randomness
from noisette.tuning.budget import divided, taken
from real import load

GRIDS: dict[str, dict[str, list[Any]]] = {
    "regularization": {"regularization": ["auto", 1e-4, 1e-3, 1e-2]},
    "whitening": {"whiten": [False, True]},
}
DELTA = 1e-6


@dataclass(frozen=True)
class Arm:
    """One column of the table."""

    name: str
    grid: str = "regularization"
    mean: float = 10.0
    runs: str = "geometric"


ARMS = (
    Arm("defaults"),
    Arm("search"),
    Arm("search", runs="logarithmic"),
    Arm("search", runs="logarithmic", mean=3.0),
    Arm("search", runs="poisson"),
    Arm("search", grid="whitening", runs="logarithmic", mean=3.0),
    Arm("split"),
    Arm("split", grid="whitening"),
)


def model(**parameters: Any) -> LogisticRegression:
    return LogisticRegression(norm_bound=1.0, classes=[0, 1], **parameters)


def split(grid: str, X: Any, y: Any, epsilon: float, seed: int) -> Any:
    """Train every candidate with its share of the budget; shares add up by composition."""
    randomness = Randomness.from_seed(seed)
    values = [{name: value} for name, several in GRIDS[grid].items() for value in several]
    count, relation = len(values), Adjacency.REPLACE_ONE
    # Gaussian noise for each, such that all together keep (epsilon, delta).
    z = accounting.calibrate(
        lambda z: plans.Repeat(Gaussian(z), count), epsilon=epsilon, delta=DELTA, adjacency=relation
    )
    share = accounting.epsilon(Gaussian(z), delta=DELTA / count, adjacency=relation)
    train, test = divided(len(y), 0.2, relation, randomness)
    best, chosen = -np.inf, None
    for parameters in values:
        fitted = model(
            epsilon=share, delta=DELTA / count, random_state=randomness, **parameters
        ).fit(taken(X, train), y[train])
        right = float((fitted.predict(taken(X, test)) == y[test]).sum())
        noisy = right + z / 2.0 * randomness.generator.standard_normal()
        if noisy > best:
            best, chosen = noisy, fitted
    return chosen


def fitted(arm: Arm, X: Any, y: Any, epsilon: float, seed: int) -> Any:
    if arm.name == "defaults":
        return model(epsilon=epsilon, delta=DELTA, random_state=seed).fit(X, y)
    if arm.name == "split":
        return split(arm.grid, X, y, epsilon, seed)
    search = PrivateSearch(
        model(), GRIDS[arm.grid], epsilon, DELTA, mean=arm.mean, runs=arm.runs,
        random_state=seed,
    )  # fmt: skip
    return search.fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--names", nargs="+", default=["adult", "bank", "credit"])
    parser.add_argument("--runs", nargs="+", default=["logarithmic", "geometric", "poisson"])
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    out = open(options.out, "w", newline="") if options.out else sys.stdout  # noqa: SIM115
    writer = csv.writer(out)
    writer.writerow(["data", "epsilon", "arm", "grid", "runs", "mean", "seed", "accuracy", "auc"])
    for seed in range(options.seeds):
        for name in options.names:
            data = load(name, seed=seed)
            for epsilon in options.epsilons:
                for arm in (arm for arm in ARMS if arm.runs in options.runs):
                    found = fitted(arm, data.X, data.y, epsilon, seed)
                    accuracy = 100.0 * float(found.score(data.X_test, data.y_test))
                    scores = found.decision_function(data.X_test)
                    auc = 100.0 * float(roc_auc_score(data.y_test, scores))
                    facts = [name, epsilon, arm.name, arm.grid, arm.runs, arm.mean, seed]
                    writer.writerow([*facts, round(accuracy, 3), round(auc, 3)])
                    out.flush()


if __name__ == "__main__":
    main()
