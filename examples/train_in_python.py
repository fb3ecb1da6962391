"""A private model in Python, from the budget to the file for the reviewer, fully typed.

``python examples/train_in_python.py FOLDER`` writes model and ledger to a folder. `make check` runs
``mypy --strict`` over it, with the types that noisette ships.
"""

import sys
from pathlib import Path

from noisette import Guarantee, Ledger, LogisticRegression, accounting, datasets, load, save
from noisette.errors import BudgetExceeded


def train(folder: Path) -> Guarantee:
    """Train under a budget, save, load, and return the guarantee that travelled in the file."""
    data = datasets.mixed_table(4_000, seed=0).dataset()
    budget = Ledger.open(folder / "people.ledger", epsilon=1.5)
    model = LogisticRegression(
        epsilon=1.0, norm_bound=1.0, classes=data.classes, ledger=budget
    ).fit(data.X, data.y)
    save(model, folder / "model.npz")
    try:
        model.fit(data.X, data.y)
    except BudgetExceeded as refused:
        print(f"a second model is refused: {refused}")
    again: LogisticRegression = load(folder / "model.npz")
    print(
        f"accuracy on people who were not in the data: {again.score(data.X_test, data.y_test):.2f}"
    )
    return again.privacy_


def check(guarantee: Guarantee) -> float:
    """Count the plan of a guarantee once more, with whatever theorems this version knows."""
    return accounting.epsilon(guarantee.plan, delta=guarantee.delta, adjacency=guarantee.adjacency)


if __name__ == "__main__":
    promise = train(Path(sys.argv[1]))
    print(promise.statement())
    print(f"epsilon {promise.epsilon:g} was stated; counted again: {check(promise):.4f}")
