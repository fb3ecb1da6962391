"""target_bounds="learn": limits from the same budget, under one plan that is charged first."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import HuberRegressor, LinearRegression, SGDRegressor, load, save
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.errors import InvalidParameter

KINDS = [LinearRegression, HuberRegressor, SGDRegressor]
CASES = [(kind, delta) for kind in KINDS for delta in (1e-6, 0.0)]


def data(n: int = 6000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, 300.0 + X @ [40.0, -80.0] + rng.normal(0.0, 10.0, n)


def made(kind: Any, epsilon: float = 4.0, delta: float = 1e-6, **options: Any) -> Any:
    given = {"target_bounds": "learn", "norm_bound": 1.5, "random_state": 0, **options}
    return kind(epsilon, delta, **given)


class Keep:
    """Keeps what was charged and what went to the door, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def charge(self, real: Any, plan: Any, **options: Any) -> Any:
        self.seen.append(plan)
        return real(plan, **options)

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        self.seen.append(bounded)
        return real(bounded, *given, **options)


@pytest.mark.parametrize(("kind", "delta"), CASES)
def test_one_charge_pays_for_limits_and_model(kind: Any, delta: float, tmp_path: Path) -> None:
    X, y = data()
    ledger, watch = Ledger(4.0, delta), Keep()
    model = made(kind, delta=delta, ledger=ledger)
    planned = model.plan(*X.shape).plan
    with watching(watch):
        model.fit(X, y)
    assert len(ledger.charges) == 1
    assert watch.seen[0] == planned, "the plan is charged before any look"
    assert 3.6 < accounting.epsilon(planned, delta=delta) <= 4.0
    assert [each.proof for each in watch.seen[1:3]] == ["QUANTILE", "QUANTILE"]
    assert all(each.linf >= 1.0 for each in watch.seen[1:3])
    low, high = model.target_bounds_
    assert 100.0 < low < 220.0
    assert 380.0 < high < 500.0
    assert model.score(X, y) > 0.9
    text = model.privacy_.statement()
    assert "whose limits were released" in text
    assert "two private quantiles" in text
    save(model, tmp_path / "m.noisette")
    again = load(tmp_path / "m.noisette")
    assert again.target_bounds == "learn"
    assert again.target_bounds_ == model.target_bounds_
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_training_that_needs_no_delta_is_planned_without_one() -> None:
    """Failed before: limits were certified at a delta that the pure training did not have."""
    X, y = data()
    model = HuberRegressor(4.0, 1e-6, norm_bound=2.0, target_bounds="learn", random_state=0)
    assert model.fit(X, y).privacy_.delta == 0.0
    assert accounting.epsilon(model.privacy_.plan, delta=0.0) <= 4.0


@pytest.mark.parametrize("adjacency", [relation.value for relation in Adjacency])
def test_persons_and_relations(adjacency: str) -> None:
    X, y = data()
    model = made(LinearRegression, adjacency=adjacency, population=3000)
    model.fit(X, y, persons=np.arange(6000) // 2)
    assert model.privacy_.unit == "person"
    assert model.privacy_.epsilon == 4.0
    assert model.score(X, y) > 0.9


def test_one_target_moves_the_first_scores_by_no_more_than_is_stated() -> None:
    """Whoever is replaced, however far: all scores of the first choice, with limits unknown."""
    X, y = data(600)
    scores = []
    for target in (-1e300, 1e300, 300.0):
        watch, y[0] = Keep(), target
        model = made(LinearRegression, 60.0)
        with watching(watch):
            model.fit(X, y)
        scores.append(watch.seen[1])
    for one in scores:
        for two in scores:
            moved = float(np.max(np.abs(one.value - two.value)))
            assert moved <= one.linf
    assert float(np.max(np.abs(scores[0].value - scores[1].value))) > 0.98 * scores[0].linf


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_bought_charges_nothing(kind: Any) -> None:
    X, y = data(300)
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="cannot be bought"):
        made(kind, 0.1, ledger=ledger).fit(X, y)
    with pytest.raises(InvalidParameter, match="target_bounds"):
        made(kind, 0.1, ledger=ledger, target_bounds="guess").fit(X, y)
    assert ledger.charges == []


class Replay:
    """Keeps what goes to the door, and answers what it is told to answer."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[Any] = []
        self.out: list[Any] = []
        self._answers = answers

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        result = real(bounded, *given, **options)
        if self._answers is not None:
            result = self._answers[len(self.seen)]
        self.seen.append(bounded)
        self.out.append(result)
        return result


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
@pytest.mark.parametrize("adjacency", [relation.value for relation in Adjacency])
@pytest.mark.parametrize("kind", [LinearRegression, SGDRegressor])
def test_a_person_moves_choices_and_sums_by_no_more_than_is_stated(
    kind: Any, adjacency: str
) -> None:
    """A person of 40 rows, far beyond the limits: both choices, and every sum behind them.

    The second world gets the first one's answers, so that limits, weights and clips are the same.
    """
    X, y = data(1200)
    ids = np.append(np.arange(1160), np.zeros(40, dtype=int))
    mine = ids == 0
    X[mine], y[mine] = np.array([1.4, 0.0]), 1e9
    worlds = []
    for other in (False, True):
        rows, targets, whose, weights = X.copy(), y.copy(), ids, np.ones(len(y))
        if other and adjacency == "replace-one":
            targets[mine] = -1e9
        elif other and adjacency == "zero-out":
            weights[mine] = 0.0
        elif other:
            rows, targets, whose, weights = (each[~mine] for each in (X, y, ids, weights))
        watch = Replay(worlds[0].out if worlds else None)
        model = made(kind, 30.0, adjacency=adjacency, population=1161)
        with watching(watch):
            model.fit(rows, targets, sample_weight=weights, persons=whose)
        worlds.append(watch)
    ratios = []
    for one, two in zip(worlds[0].seen, worlds[1].seen, strict=True):
        if isinstance(one.value, np.ndarray):
            stated = one.linf if one.linf is not None else one.l2
            assert stated == (two.linf if two.linf is not None else two.l2)
            moved = np.ravel(one.value - two.value)
            ratios.append(
                float(np.linalg.norm(moved, np.inf if one.linf is not None else 2)) / stated
            )
    assert len(ratios) > 3
    assert max(ratios) <= 1.0
    assert ratios[0] > 0.95 or ratios[1] > 0.95  # the choices
    assert max(ratios[2:]) > 0.5  # the sums
