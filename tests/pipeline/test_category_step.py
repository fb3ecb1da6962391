"""Unknown categories: who is shown, how often, and what one person can move.

Error rate of the statistical tests: 1e-6 each, with fixed seeds.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spy import Spy, budget, run

from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.mechanisms import GaussianThreshold
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.tables.pipeline import PrivateCategories
from noisette.tables.pipeline.categories import Coded, LearnCategories, ShownLevels
from noisette.tables.pipeline.step import Sample

RELATIONS = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)


def words(*columns: Any, weights: Any = None) -> Sample:
    return Sample([Coded.of(list(c)) for c in columns], weights, count=len(columns[0]))


class Free(Passage):
    """Draws from the mechanism again and again under no permit, for 100,000 runs."""

    def __init__(self, mechanism: GaussianThreshold, seed: int) -> None:
        self.mechanism, self.generator = mechanism, np.random.default_rng(seed)

    def release(self, bounded: Any, part: int = 0) -> Any:
        self.mechanism.check_value(bounded)
        unit = bounded.l2 / bounded.adjacency.contributions
        return self.mechanism.apply(bounded, unit, self.generator)


def times_shown(runs: int, adjacency: Adjacency, columns: int, scale: float, seed: int) -> int:
    """Return in how many runs a level shows that one person alone has, in every column."""
    step = LearnCategories(columns, 0.01)
    prepared = step.prepared(budget(adjacency, 50), scale)
    ((leaf, _),) = prepared.plan.leaves()
    passage = Free(leaf.mechanism, seed)
    sample = words(*[["common"] * 49 + ["alone"]] * columns)
    hits = 0
    for _ in range(runs):
        hits += any("alone" in found.levels for found in step.run(sample, prepared, passage))
    return hits


def check_share(hits: int, runs: int) -> None:
    """At most the share of delta; and near it, so that 10 % more than it would be seen."""
    assert stats.binomtest(hits, runs, 0.01, alternative="greater").pvalue > 1e-6
    assert hits > 0.9 * 0.01 * runs - 5.0 * math.sqrt(0.01 * runs)


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize("columns", [1, 3])
def test_a_level_of_one_person_shows_with_the_share_of_delta(
    adjacency: Adjacency, columns: int
) -> None:
    check_share(times_shown(4000, adjacency, columns, 3.0, 1), 4000)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize(("columns", "scale"), [(1, 4.2), (5, 10.0)])
def test_a_level_of_one_person_in_100_000_runs(
    adjacency: Adjacency, columns: int, scale: float
) -> None:
    runs = 100_000
    hits = times_shown(runs, adjacency, columns, scale, 2)
    check_share(hits, runs)
    # a bar that lets through a tenth more than its share is refuted
    assert stats.binomtest(hits, runs, 0.011, alternative="less").pvalue < 0.01


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_what_one_person_moves(adjacency: Adjacency) -> None:
    """Counts of common levels move by the stated bound, attained; nothing else is released."""
    rows = [["a", "b"] * 20, ["x", "y"] * 20, ["p", "q"] * 20]
    spy, other = Spy(), Spy()
    run(LearnCategories(3, 0.01), words(*rows), adjacency, spy=spy, size=40)
    if adjacency is REPLACE_ONE:
        fewer = words(*[[column[1], *column[1:]] for column in rows])
    elif adjacency is ZERO_OUT:
        fewer = words(*rows, weights=[0.0] + [1.0] * 39)
    else:
        fewer = words(*[column[1:] for column in rows])
    run(LearnCategories(3, 0.01), fewer, adjacency, spy=other, size=40)
    (first, mechanism), (second, _) = spy.seen[0], other.seen[0]
    # the levels come in the order in which they are met
    moved = np.linalg.norm(np.sort(first.value) - np.sort(second.value))
    assert moved == pytest.approx(first.l2, rel=1e-12)
    sigma = mechanism.sigma(adjacency)
    assert adjacency.contributions / mechanism.noise_multiplier == pytest.approx(first.l2 / sigma)


def test_levels_come_by_frequency_with_noise_of_the_stated_size() -> None:
    step = LearnCategories(2, 1e-6)
    sample = words(["a"] * 700 + ["b"] * 900 + ["c"] * 400, ["x"] * 2000)
    sigma = GaussianThreshold(3.0, 1e-6, 2).sigma(ADD_REMOVE)
    noise = []
    for seed in range(300):
        first, second = run(step, sample, ADD_REMOVE, scale=3.0, seed=seed)
        assert first.levels == ("b", "a", "c")
        assert second.levels == ("x",)
        noise += [*np.subtract(first.counts, (900, 700, 400)), second.counts[0] - 2000]
    assert stats.kstest(np.array(noise) / sigma, "norm").pvalue > 1e-6
    for wrong in (0.9, 1.1):
        spread = np.sum((np.array(noise) / (wrong * sigma)) ** 2)
        tail = stats.chi2(len(noise)).cdf(spread)
        assert min(tail, 1.0 - tail) < 1e-3


def test_weights_count_and_those_of_0_show_nothing() -> None:
    texts = ["a"] * 400 + ["ghost"] * 400
    sample = words(texts, weights=[0.5] * 400 + [0.0] * 400)
    (found,) = run(LearnCategories(1, 1e-6), sample, ZERO_OUT)
    assert found.levels == ("a",)
    assert found.counts[0] == pytest.approx(200.0, abs=8.0)


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_columns_without_a_level_are_no_exception(adjacency: Adjacency) -> None:
    sample = words([""] * 30, [str(i) for i in range(30)])
    assert run(LearnCategories(2, 1e-3), sample, adjacency) == (
        ShownLevels((), ()),
        ShownLevels((), ()),
    )


def test_released_levels_become_indicators() -> None:
    X = np.array([["a"]] * 60 + [["b"]] * 40 + [["rare"]], dtype=object)
    model = PrivateCategories(8.0, 1e-3, random_state=0).fit(X)
    assert model.categories_ == [["a", "b"]]
    assert list(model.get_feature_names_out(["town"])) == ["town=b", "town (other)"]
    rows = model.transform(np.array([["a"], ["b"], ["rare"], ["new"], [None]], dtype=object))
    assert rows.tolist() == [[0, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    model.set_params(most=1, drop_reference=False, indicate_missing=True, sparse_output=True)
    rows = model.transform(np.array([["a"], ["b"], [None]], dtype=object))
    assert rows.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_half_of_delta_is_for_levels_of_one_person() -> None:
    model = PrivateCategories(1.0, 1e-4, adjacency="add-remove")
    forecast = model.plan(1000, 3)
    ((leaf, _),) = forecast.plan.leaves()
    assert leaf.mechanism.delta_mass == pytest.approx(5e-5)
    assert leaf.mechanism.columns == 3
    assert forecast.epsilon <= 1.0
    assert "5e-05" in str(forecast)


def test_no_delta_no_unknown_levels() -> None:
    with pytest.raises(InvalidParameter, match="delta > 0"):
        PrivateCategories(1.0, 0.0).fit(np.array([["a"], ["b"]]))
    assert "rare" not in repr(words(["rare"]).data[0])
