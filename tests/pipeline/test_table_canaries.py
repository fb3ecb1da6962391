"""The audit's attacks on `TableClassifier` as a whole, from outside: fits, and nothing else.

Comparing attributes errs with probability 1e-6. The step canaries, whose claims are those of single
steps, stand in test_canaries.py: refuting the large epsilon at which they show in a whole model
would take more fits than a test can make. The claim is epsilon 1: where honest values happen to
come again, a few dozen neighbours decide about them, and at epsilon 5 it would be five hundred.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from noisette.audit import check_estimator
from noisette.tables.pipeline import TableClassifier, table_run
from noisette.tables.pipeline.knots import LearnKnots
from noisette.tables.pipeline.table_run import TableRun


class FromArrays(BaseEstimator):
    """A table classifier for the arrays that the audit makes up: numbers, or words."""

    def __init__(
        self, epsilon: float = 1.0, delta: float = 1e-3, adjacency: str = "replace-one"
    ) -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency

    def fit(self, X: Any, y: Any = None) -> "FromArrays":
        cells = np.asarray(X).reshape(len(X), -1)
        kind = "numeric" if cells.dtype.kind == "f" else "categorical"
        table = {f"c{j}": column.tolist() for j, column in enumerate(cells.T)}
        self.model_ = TableClassifier(
            self.epsilon, self.delta, schema=dict.fromkeys(table, kind), classes=[0, 1],
            adjacency=self.adjacency, population=50,
        )  # fmt: skip
        self.model_.fit(table, np.arange(len(cells)) % 2 if y is None else y)
        return self

    def predict(self, X: Any) -> Any:
        cells = np.asarray(X).reshape(len(X), -1)
        return self.model_.predict({f"c{j}": column.tolist() for j, column in enumerate(cells.T)})


def compared(adjacency: str) -> Any:
    model = FromArrays(adjacency=adjacency)
    claim = {"epsilon": model.epsilon, "delta": model.delta}
    return check_estimator(model, attacks=["attributes"], **claim).findings[0]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_fitted_attribute_shows_a_record(adjacency: str) -> None:
    found = compared(adjacency)
    assert found.verdict == "consistent", found


def exact_knots(work: Any, step: Any, ready: Any, passage: Any, real: Any) -> None:
    real(work, step, ready, passage)
    if isinstance(step, LearnKnots):
        for name in work.training.numbers:
            numbers = np.clip(work.sample.table.input.numbers(name), -1e12, 1e12)
            knots = np.unique(np.nanquantile(numbers, [0.1, 0.5, 0.9]))
            work.facts[name] = {"knots": [*knots.tolist(), 1e12 + 1.0], "center": 0.0}


def levels_seen(work: Any, step: Any, ready: Any, passage: Any, real: Any) -> None:
    real(work, step, ready, passage)
    for name in work.levels:  # all that occur, whoever has them
        found = work.sample.table.input.codes(name)[1]
        work.levels[name] = type(work.levels[name])(tuple(found), (1.0,) * len(found))
        work.facts[name] = {"categories": found}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [exact_knots, levels_seen])
def test_facts_read_off_the_rows_are_caught(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TableRun.learn
    monkeypatch.setattr(TableRun, "learn", lambda *given: wrong(*given, real))
    found = compared("replace-one")
    assert found.verdict == "violated", found
    assert "schema_" in found.detail


@pytest.mark.slow
def test_an_exact_coordinate_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A centre that is the rows' own mean goes into the intercept, beside all the noise."""
    real = TableRun.model

    def model(work: Any, passage: Any) -> Any:
        fitted = real(work, passage)
        first = work.sample.table.input.numbers(work.training.schema.columns[0].name)
        return table_run.FittedTable(
            fitted.schema, fitted.coef, np.array([float(np.nansum(first))]), fitted.notes
        )

    monkeypatch.setattr(TableRun, "model", model)
    found = compared("replace-one")
    assert found.verdict == "violated", found
    assert "intercept_" in found.detail
