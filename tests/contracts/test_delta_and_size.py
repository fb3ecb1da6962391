"""A delta of 1/n allows to publish somebody's record: refused wherever n is public, uncharged."""

from typing import Any

import numpy as np
import pytest

from noisette.core.ledger import Ledger
from noisette.errors import InvalidParameter
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier

N = 200
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 3)), np.arange(N) % 2
CHUNKS = [(X[:100], Y[:100]), (X[100:], Y[100:])]


def ledger(adjacency: str = "replace-one") -> Ledger:
    return Ledger(5.0, 0.5, adjacency=adjacency)


def refused(budget: Ledger, call: Any, n: int = N) -> None:
    with pytest.raises(InvalidParameter, match=rf"delta=\S+ is not below 1/n for n={n} records"):
        call()
    assert budget.charges == []


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, SGDClassifier])
@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_linear_estimators(kind: Any, adjacency: str) -> None:
    for delta in (1.0 / N, 0.1):
        budget = ledger(adjacency)
        model = kind(1.0, delta, adjacency=adjacency, classes=[0, 1], ledger=budget, norm_bound=1.0)
        refused(budget, lambda model=model: model.fit(X, Y))
    kind(1.0, 0.99 / N, adjacency=adjacency, classes=[0, 1], norm_bound=1.0).fit(X, Y)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, SGDClassifier])
def test_under_add_remove_the_public_guess_counts_and_n_does_not(kind: Any) -> None:
    options = {"adjacency": "add-remove", "classes": [0, 1]}
    budget = ledger("add-remove")
    model = kind(1.0, 0.01, population=100, ledger=budget, **options, norm_bound=1.0)
    refused(budget, lambda: model.fit(X, Y), 100)
    kind(1.0, 0.001, population=900, **options, norm_bound=1.0).fit(X, Y)
    if kind is not SGDClassifier:
        # n is private, and an error would depend on it
        kind(1.0, 0.1, **options, norm_bound=1.0).fit(X, Y)


def test_streams() -> None:
    # a guess below the public size of the first chunk does not make delta fit
    for options, n in (({}, 100), ({"population": N}, N), ({"population": 5}, 100)):
        budget = ledger()
        model = SGDClassifier(1.0, 0.01, classes=[0, 1], ledger=budget, norm_bound=1.0, **options)
        refused(budget, lambda model=model: model.fit(iter(CHUNKS)), n)
        refused(budget, lambda model=model: model.partial_fit(*CHUNKS[0]), n)
    grown = SGDClassifier(1.0, 0.006, classes=[0, 1], norm_bound=1.0)
    before = grown.partial_fit(*CHUNKS[0]).coef_.copy()
    with pytest.raises(InvalidParameter, match="not below 1/n for n=200"):
        grown.partial_fit(*CHUNKS[1])
    assert np.array_equal(grown.coef_, before)  # nothing of the refused chunk was used


def test_networks() -> None:
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateClassifier, PrivateTraining, make_level_plan, make_plan

    budget = ledger()
    model = PrivateClassifier(torch.nn.Linear(3, 2), 1.0, 0.1, ledger=budget, classes=[0, 1])
    refused(budget, lambda: model.fit(X, Y))
    shared = {"delta": 0.1, "batch_size": 50, "steps": 2}
    refused(budget, lambda: make_plan(size=N, epsilon=1.0, **shared))
    refused(budget, lambda: make_level_plan([(1.0, 100), (0.5, 100)], **shared))
    plan = make_plan(size=5, epsilon=1.0, delta=0.1, batch_size=5, steps=2)
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    options = {"size": N, "delta": 0.1, "ledger": budget}
    refused(budget, lambda: PrivateTraining(module, optimizer, plan, **options))
