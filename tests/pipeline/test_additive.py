"""Additive models: numbers that many share, curves that add up to the score, and their bands."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from noisette import AdditiveClassifier, AdditiveRegressor, TableClassifier, load, save
from noisette.core.adjacency import Adjacency
from noisette.core.grid import Grid
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tables.pipeline.shares import LearnSpikes, cells_of, hollow, with_spikes
from noisette.tables.pipeline.step import Sample

KINDS = {"age": "numeric", "gain": "numeric", "ward": "categorical", "id": "ignore"}
N, EPSILON = 12_000, 4.0


def people(n: int = N, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    age[: n // 40] = np.nan
    rare = rng.choice([1500.0, 1600.0, 1700.0, 7690.0, 15000.0], n)
    gain = np.where(rng.random(n) < 0.88, 0.0, rare)
    ward = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    score = np.abs(np.nan_to_num(age, nan=50.0) - 50.0) / 15.0 - 2.0 + (ward == "b")
    score += 4.0 * (gain == 1600.0) - 4.0 * (gain == 1700.0) + 3.0 * (gain == 7690.0)
    table = {"age": age, "gain": gain, "ward": ward.astype(object), "id": np.arange(n)}
    return table, rng.random(n) < 1.0 / (1.0 + np.exp(-score))


@pytest.fixture(scope="module")
def fitted() -> AdditiveClassifier:
    return AdditiveClassifier(EPSILON, 1e-6, schema=KINDS, random_state=1).fit(*people())


def test_numbers_that_many_share_are_told_apart(fitted: AdditiveClassifier) -> None:
    test, y = people(seed=9)
    plain = TableClassifier(EPSILON, 1e-6, schema=KINDS, random_state=1).fit(*people())
    gained = roc_auc_score(y, fitted.decision_function(test))
    assert gained > roc_auc_score(y, plain.decision_function(test)) + 0.005
    gain = next(curve for curve in fitted.curves() if curve.column == "gain")
    at = {point: gain.value[gain.at.index(point)] for point in (1600.0, 1700.0)}
    assert at[1600.0] > at[1700.0] + 1.0


def test_the_plan_is_that_of_public_facts_and_within_the_budget(fitted: AdditiveClassifier) -> None:
    planned = AdditiveClassifier(EPSILON, 1e-6, schema=KINDS).plan(N)
    assert list(planned.plan.leaves()) == list(fitted.privacy_.plan.leaves())
    assert planned.epsilon <= EPSILON
    assert [step.name for step in planned.steps] == [
        "knots", "spikes", "levels", "shares", "weights", "calibration",
    ]  # fmt: skip
    assert sum(step.part for step in planned.steps) == pytest.approx(1.0)
    # What is charged does not depend on how many columns turn out to be hollow.
    even = people()[0] | {"gain": np.arange(N) % 97}
    other = AdditiveClassifier(EPSILON, 1e-6, schema=KINDS, random_state=0).fit(even, people()[1])
    assert other.privacy_.plan == fitted.privacy_.plan


@pytest.mark.parametrize(
    ("adjacency", "move"), [(Adjacency.ADD_REMOVE, 1.0), (Adjacency.REPLACE_ONE, math.sqrt(2.0))]
)
def test_counts_get_the_noise_of_all_columns_together(adjacency: Adjacency, move: float) -> None:
    # 2 x 16,563 counts of nobody: a scale that is 5 % off is 13 deviations away.
    grid, public = Grid(), PublicBudget(epsilon=1.0, delta=1e-6, adjacency=adjacency, size=100)
    empty = cells_of(np.full(100, np.nan), grid)
    step = LearnSpikes(2)
    done = train(
        step, public, Sample([empty, empty], None, count=100),
        ledger=Ledger(1.0, 1e-6, adjacency=adjacency), randomness=Randomness.from_seed(3),
    )  # fmt: skip
    noise = np.concatenate(done.released)
    leaf = next(leaf for leaf, _ in done.permit.plan.leaves())
    sigma = leaf.mechanism.noise_multiplier * move * math.sqrt(2.0) / adjacency.contributions
    assert np.std(noise) == pytest.approx(sigma, rel=0.02)
    assert step.deviation(leaf.mechanism.noise_multiplier, adjacency) == pytest.approx(sigma)


def test_a_row_is_counted_once_at_the_nearest_candidate() -> None:
    grid = Grid()
    rows, cells, values = cells_of(np.array([0.0, 7688.0, np.nan, 1e300, -np.inf]), grid).places
    assert rows.tolist() == [0, 1, 3, 4]
    assert grid.points[cells].tolist() == [0.0, 7690.0, 1e12, -1e12]
    assert values.tolist() == [1.0] * 4


def test_spikes_are_taken_where_counts_are_beyond_doubt() -> None:
    grid = Grid()
    counts = np.zeros(len(grid.points))
    for number, count in ((0.0, 5000.0), (7690.0, 100.0), (1600.0, 30.0)):
        counts[np.searchsorted(grid.points, number)] = count
    assert with_spikes([0.0, 5000.0], counts, 10.0, grid) == [0.0, 5000.0, 7680.0, 7690.0, 7700.0]
    assert hollow({"a": [0.0, 1.0], "b": list(range(9)), "c": [0.0]}, 3, 2) == ["c", "a"]


def test_curves_add_up_to_the_score(fitted: AdditiveClassifier) -> None:
    table, _ = people(4000, seed=4)
    total = np.full(4000, float(fitted.intercept_[0]))
    for curve in fitted.curves():
        cells = table[curve.column]
        if curve.kind == "levels":
            place = dict(zip(curve.at, curve.value, strict=True))
            added = np.array([place.get(cell, place["(other)"]) for cell in cells])
        else:
            here = np.interp(cells, curve.at, curve.value)
            added = np.where(np.isnan(cells), curve.missing, here)
        assert abs(added.mean()) < 0.04  # it is what a cell adds to an average row
        total += added + fitted.bars_[curve.column].centre[0]
    assert np.abs(total - fitted.decision_function(table)).max() < 1e-9


def test_bars_are_about_the_spread_of_fits_to_the_same_table() -> None:
    table, y = people(4000)
    knots = {"age": [20, 40, 60, 80], "gain": [0, 1500, 8000]}
    schema: dict[str, Any] = {k: {"kind": "numeric", "knots": v} for k, v in knots.items()}
    schema |= {"ward": {"kind": "categorical", "categories": ["a", "b", "c"]}, "id": "ignore"}
    values, bars = [], []
    for seed in range(24):
        model = TableClassifier(1.0, 1e-6, schema=schema, random_state=seed).fit(table, y)
        curves = model.curves()
        values.append(np.concatenate([c.value[: 4 if c.kind != "levels" else 3] for c in curves]))
        bars.append(np.concatenate([c.deviation[: 4 if c.kind != "levels" else 3] for c in curves]))
    found, said = np.std(values, axis=0, ddof=1), np.mean(bars, axis=0)
    ratio = np.exp(np.mean(np.log(said / found)))  # noise in the centres is small beside it
    assert 0.75 < ratio < 1.5
    assert ((said / found > 0.4) & (said / found < 2.5)).all()


def test_files_keep_the_bars_and_refuse_others(fitted: AdditiveClassifier, tmp_path: Any) -> None:
    path = tmp_path / "model.noisette"
    save(fitted, path)
    again = load(path)
    assert type(again) is AdditiveClassifier
    assert again.bars_ == fitted.bars_
    table, _ = people(50, seed=2)
    assert np.array_equal(again.decision_function(table), fitted.decision_function(table))
    one, two = again.curves()[0], fitted.curves()[0]
    assert np.array_equal(one.value, two.value)
    good = {name: each.to_dict() for name, each in fitted.bars_.items()}
    short = good["age"] | {"cells": good["age"]["cells"][1:]}
    for wrong in (good | {"age": short}, good | {"age": good["age"] | {"nothing": "1"}}):
        with pytest.raises(TypeError):
            again._restore(fitted.schema_.source, wrong)


def test_a_number_has_curves_in_its_own_unit() -> None:
    table, _ = people(6000)
    y = 1000.0 * np.abs(np.nan_to_num(table["age"], nan=50.0) - 50.0)
    model = AdditiveRegressor(
        1.0, 1e-6, schema=KINDS, target_bounds=(0, 40_000), random_state=0
    ).fit(table, y)
    age = model.curves()[0]
    assert model.score(table, y) > 0.8
    assert age.value[0] - age.value.min() > 15_000.0
    assert 0.0 < np.median(age.deviation) < 3000.0


def test_pictures_need_a_column_of_the_model(fitted: AdditiveClassifier) -> None:
    assert len(fitted.plot(["age", "ward"]).axes) == 3
    with pytest.raises(InvalidParameter, match="columns"):
        fitted.plot(["id"])


def test_few_rows_and_a_stated_share_are_followed() -> None:
    few = {"delta": 1e-6, "schema": KINDS}
    assert (
        AdditiveClassifier(1.0, **few).plan(3000).plan
        == TableClassifier(1.0, **few).plan(3000).plan
    )
    stated = AdditiveClassifier(EPSILON, share=0.3, **few).plan(N).steps
    assert 1.0 - stated[-1].part == pytest.approx(0.3, abs=0.005)
    assert "spikes" in [step.name for step in stated]


def test_pure_privacy_and_an_unknown_size_take_the_plain_recipe() -> None:
    table, y = people(3000)
    stated = KINDS | {"age": {"kind": "numeric", "low": 0, "high": 100}}
    pure = AdditiveClassifier(2.0, schema=stated, random_state=0).fit(table, y)
    assert pure.privacy_.delta == 0.0
    assert pure.curves()[0].deviation is not None
    unknown = AdditiveClassifier(2.0, 1e-6, schema=KINDS, adjacency="add-remove", random_state=0)
    assert unknown.fit(table, y).privacy_.epsilon == 2.0
