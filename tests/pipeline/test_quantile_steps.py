"""Quantiles as steps: neighbours by enumeration, weights, noise, and where knots come to lie.

Error rate of the statistical tests: 1e-6 each, with fixed seeds.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spy import Spy, loss_range, run

from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.grid import Grid
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables.pipeline.bounds import LearnBounds, least_tail
from noisette.tables.pipeline.knots import LearnKnots, most_levels, rank_error
from noisette.tables.pipeline.step import Sample

RELATIONS = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)
SMALL = Grid(0.0, 4.0)
VALUES = (0.0, 1.0, 2.5, 4.0, math.nan)


def column(values: Any, weights: Any = None) -> Sample:
    cells = np.array(values, dtype=float)
    return Sample([cells], weights, count=len(cells))


def worlds(rows: tuple[float, ...], adjacency: Adjacency) -> Any:
    """Yield every neighbour of a column, as (values, weights)."""
    ones = np.ones(len(rows))
    if adjacency is ADD_REMOVE:
        yield rows[:-1], ones[:-1]
    elif adjacency is ZERO_OUT:
        yield rows, np.append(ones[:-1], 0.0)
    else:
        for other in VALUES:
            yield (*rows[:-1], other), ones


def moves(step: Any, adjacency: Adjacency) -> np.ndarray:
    """Return, for all neighbours of columns of 4 rows, what one person moves in each release.

    The range of the loss against epsilon, and the largest moves of scores, choices added up,
    against the stated bound.
    """
    found = []
    others = itertools.combinations_with_replacement(VALUES, 3)
    for rows in ((*three, last) for three in others for last in VALUES):
        spy = Spy()
        run(step, column(rows), adjacency, spy=spy, scale=2.0)
        for values, weights in worlds(rows, adjacency):
            other = Spy(spy.given)  # the same past, so that the same question is asked
            run(step, column(values, weights), adjacency, spy=other, scale=2.0, size=4)
            for first, second in zip(spy.seen, other.seen, strict=True):
                assert first[1] == second[1]
                moved = np.abs(np.atleast_2d(first[0].value - second[0].value)).max(axis=1).sum()
                share = loss_range(first, second) / first[1].epsilon
                found.append((share, moved / first[0].linf))
    return np.array(found)


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize(
    "step",
    [
        LearnBounds((SMALL,), 0.25), LearnBounds((SMALL,), 0.1), LearnKnots((SMALL,), 2),
        LearnKnots((SMALL,), 1, tails=2),
    ],
    ids=["quartiles", "deciles", "knots", "knots in the tails"],
)  # fmt: skip
def test_no_neighbour_moves_the_odds_by_more_than_epsilon(step: Any, adjacency: Adjacency) -> None:
    """All columns of 4 rows over 5 cells; attained, so a constant that is 10 % short shows."""
    ranges, moved = moves(step, adjacency).max(axis=0)
    assert ranges <= 1.0 + 1e-9
    assert 0.99 < moved <= 1.0 + 1e-9
    if isinstance(step, LearnKnots):
        assert ranges > 0.99


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_weights_of_one_person_cost_what_one_record_costs(
    adjacency: Adjacency, rng: np.random.Generator
) -> None:
    """A person of three rows with weights that sum to 1, against none or another person."""
    worst = 0.0
    step = LearnKnots((SMALL,), 3)
    for _ in range(150):
        others = rng.choice([0.0, 1.0, 1.5, 2.0, 3.0, 4.0], 6)
        mine, yours = rng.uniform(0.0, 4.0, (2, 3)).round(1)
        share, shared = rng.dirichlet([0.5] * 3, 2)
        full = column([*others, *mine], [*np.ones(6), *share])
        if adjacency is ADD_REMOVE:
            less = column(others)
        elif adjacency is ZERO_OUT:
            less = column([*others, *mine], [*np.ones(6), 0.0, 0.0, 0.0])
        else:
            less = column([*others, *yours], [*np.ones(6), *shared])
        spy = Spy()
        run(step, full, adjacency, spy=spy, size=7)
        other = Spy(spy.given)
        run(step, less, adjacency, spy=other, size=7)
        for first, second in zip(spy.seen, other.seen, strict=True):
            worst = max(worst, loss_range(first, second) / first[1].epsilon)
    assert worst <= 1.0 + 1e-9
    assert worst > 0.6


@pytest.mark.parametrize("step", [LearnBounds((SMALL,), 0.2), LearnKnots((SMALL,), 3)], ids=str)
@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_a_row_of_weight_0_is_as_good_as_absent(step: Any, adjacency: Adjacency) -> None:
    values = [0.5, 1.0, 2.0, 2.0, 3.0]
    spy, other = Spy(), Spy()
    run(step, column(values), adjacency, spy=spy, size=9)
    run(step, column([*values, 0.0, 4.0], [1, 1, 1, 1, 1, 0, 0]), adjacency, spy=other, size=9)
    for first, second in zip(spy.seen, other.seen, strict=True):
        np.testing.assert_array_equal(first[0].value, second[0].value)


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_ranks_of_weights_are_exact_whatever_the_order(
    adjacency: Adjacency, rng: np.random.Generator
) -> None:
    values, weights = rng.normal(size=5000), rng.random(5000)
    order = rng.permutation(5000)
    step, spy, other = LearnKnots((Grid(),), 3), Spy(), Spy()
    run(step, column(values, weights), adjacency, spy=spy)
    run(step, column(values[order], weights[order]), adjacency, spy=other)
    for first, second in zip(spy.seen, other.seen, strict=True):
        np.testing.assert_array_equal(first[0].value, second[0].value)


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_the_choice_has_the_law_that_was_charged(adjacency: Adjacency) -> None:
    """The median of four rows: frequencies against the exact law; 10 % less noise is rejected."""
    step, sample, spy = LearnKnots((Grid(0.0, 1.0),), 1), column([0.0, 0.0, 1.0, 1.0]), Spy()
    run(step, sample, adjacency, scale=0.5, spy=spy)
    bounded, mechanism = spy.seen[0]
    assert mechanism.epsilon == pytest.approx(2.0 * adjacency.contributions / 0.5)
    odds = (bounded.value * mechanism.epsilon / (2.0 * bounded.linf)).ravel()
    law = np.exp(odds - odds.max())
    inner = law[1:-2].sum() / law.sum()
    runs = 30_000
    hits = 0
    generator = np.random.default_rng(5)
    for _ in range(runs):
        hits += 0 < int(np.ravel(mechanism.apply(bounded, None, generator))[0]) < len(odds) - 2
    assert stats.binomtest(hits, runs, inner).pvalue > 1e-6
    for wrong in (0.9, 1.1):
        other = np.exp(wrong * (odds - odds.max()))
        assert stats.binomtest(hits, runs, other[1:-2].sum() / other.sum()).pvalue < 1e-6


# --- where the knots lie -------------------------------------------------------------------------


def quantile_of(values: np.ndarray, knot: float) -> tuple[float, float]:
    return float(np.mean(values < knot)), float(np.mean(values <= knot))


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_knots_of_unknown_range_find_the_data(
    adjacency: Adjacency, rng: np.random.Generator
) -> None:
    """Years, money, small numbers and negatives, 16,563 candidates over 36 decades."""
    n = 20_000
    columns = [
        rng.integers(1950, 2021, n).astype(float), rng.lognormal(10.0, 1.0, n),
        rng.normal(0.0, 1e-3, n), -rng.lognormal(3.0, 0.5, n),
    ]  # fmt: skip
    sample = Sample(columns, count=n)
    found = run(LearnKnots((Grid(),) * 4, 3), sample, adjacency, scale=20.0)
    for values, knots in zip(columns, found, strict=True):
        assert len(knots.knots) == 7
        for i, knot in enumerate(knots.knots, 1):
            below, up_to = quantile_of(values, knot)
            assert below - 0.04 <= i / 8.0 <= up_to + 0.04


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_tails_get_one_knot_each_and_every_level_is_charged(
    adjacency: Adjacency, rng: np.random.Generator
) -> None:
    """Two levels and two in the tails: quantiles 1/16, 1/4, 1/2, 3/4, 15/16, of four charges."""
    values, spy = rng.lognormal(3.0, 1.0, 20_000), Spy()
    step = LearnKnots((Grid(),), 2, tails=2)
    (found,) = run(step, column(values), adjacency, scale=10.0, spy=spy)
    assert len(found.knots) == 5
    for knot, share in zip(found.knots, (1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16), strict=True):
        below, up_to = quantile_of(values, knot)
        assert below - 0.03 <= share <= up_to + 0.03
    assert len(spy.seen) == sum(n for _, n in step.plan(10.0, adjacency).leaves()) == 4
    charged = [mechanism.epsilon for _, mechanism in spy.seen]
    whole = 2.0 * adjacency.contributions / 10.0
    assert math.hypot(*charged) == pytest.approx(whole)  # costs of bounded range add up squared
    leaves = list(step.plan(10.0, adjacency).leaves())
    assert [leaf.mechanism.epsilon for leaf, _ in leaves] == charged


def test_a_heavy_value_is_a_knot_and_the_others_lie_among_the_rest(
    rng: np.random.Generator,
) -> None:
    """92 % zeros: the knot 0, hardly one in the empty half below it, the others above."""
    values = np.where(rng.random(30_000) < 0.92, 0.0, rng.lognormal(8.5, 1.0, 30_000))
    junk = 0
    for seed in range(20):
        (found,) = run(LearnKnots((Grid(),), 4), column(values), ADD_REMOVE, scale=10.0, seed=seed)
        assert found.median == 0.0
        assert 0.0 in found.knots
        assert sum(knot > 100.0 for knot in found.knots) >= 5
        junk += sum(knot < 0.0 for knot in found.knots)
    assert junk < 20  # one part without rows has odds of 1 to 20 for a knot


def test_a_part_with_too_few_rows_has_no_knot() -> None:
    values = np.repeat([1.0, 2.0], 10)
    for seed in range(5):
        (found,) = run(LearnKnots((Grid(),), 3), column(values), ADD_REMOVE, scale=500, seed=seed)
        assert len(found.knots) <= 3


@pytest.mark.parametrize("value", [math.nan, 7.0, 0.0, 1e300, math.inf, -math.inf])
def test_columns_of_one_value_or_none(value: float) -> None:
    sample = column([value] * 500)
    (found,) = run(LearnKnots((Grid(),), 3), sample, REPLACE_ONE, scale=2.0)
    (bounds,) = run(LearnBounds((Grid(),), 0.05), sample, REPLACE_ONE, scale=2.0)
    assert bounds.low < bounds.high
    assert np.isfinite([*found.knots, found.median, bounds.low, bounds.high]).all()
    assert list(found.knots) == sorted(set(found.knots))
    if not math.isnan(value):
        end = float(np.clip(value, -1e12, 1e12))
        assert bounds.low <= end <= bounds.high
        assert end in found.knots


# --- public rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "holds"),
    [
        (Grid(), [0.0, 1e-6, 3.7, -3.7, 40.0, 1999.0, 2999.0, 99_900.0, 1e12, -1e12, 0.25]),
        (Grid(0.0, 100.0), [0.0, 1.0, 37.0, 99.0, 100.0, 0.5, 12.5]),
        (Grid(17.0, 90.0), [17.0, 18.0, 89.0, 90.0]),
        (Grid(0.0, None), [0.0, 1.0, 1e12]),
        (Grid(None, 5.0), [5.0, 4.99, -1e12]),
        (Grid(1e20, None), [1e20, 1e21]),
        (Grid(-1e308, 1e308), [-1e308, 0.0, 1e308]),
        (Grid(0.0, 1e-9), [0.0, 1e-9]),
        (Grid(dates=True), [-25567.0, 0.0, 19358.0, 19359.0, 47482.0]),
        (Grid(19000.5, None, dates=True), [19000.5, 19001.0, 19002.0, 47482.0]),
        (Grid(None, 90000.0, dates=True), [-25567.0, 19358.0, 89999.0]),
        (Grid(-3e6, 3e6, dates=True), [-3e6, 3e6]),
    ],
    ids=str,
)
def test_grids_hold_the_numbers_that_people_write(grid: Grid, holds: list[float]) -> None:
    points = grid.points
    assert np.isin(holds, points).all()
    assert (np.diff(points) > 0.0).all()
    assert np.isfinite(grid.log_prior).all()
    assert len(grid.log_prior) == len(points)
    assert np.exp(grid.log_prior).sum() == pytest.approx(1.0, abs=1e-6)
    if grid.low is not None and grid.high is not None:
        assert len(points) >= 1025
    assert hash(grid) == hash(Grid(grid.low, grid.high, grid.dates))


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (math.inf, None), (math.nan, 1.0), ("a", 2.0)]
)
def test_bad_bounds_are_refused(low: Any, high: Any) -> None:
    with pytest.raises(InvalidParameter):
        Grid(low, high)


def test_more_rows_or_epsilon_leave_room_for_more_knots() -> None:
    levels = [most_levels(n, 20.0, 6, ADD_REMOVE) for n in (100, 3000, 30_000, 10**6)]
    assert levels == sorted(levels)
    assert levels[0] == 1
    assert levels[-1] == 5
    assert most_levels(None, 20.0, 6, ADD_REMOVE) == 3
    assert most_levels(30_000, 2.0, 6, ADD_REMOVE) > most_levels(30_000, 200.0, 6, ADD_REMOVE)
    assert rank_error(20.0, 24, REPLACE_ONE) == pytest.approx(rank_error(20.0, 24, ADD_REMOVE))
    tails = [least_tail(n, 20.0, 6, ADD_REMOVE) for n in (100, 3000, 30_000, 10**6)]
    assert tails == sorted(tails, reverse=True)
    assert (tails[0], tails[-1]) == (0.25, 0.01)


def test_other_columns_than_planned_are_refused_before_the_charge() -> None:
    step = LearnKnots((SMALL, SMALL), 1)
    with pytest.raises(InvalidData, match="one column of equal length"):
        run(step, column([1.0, 2.0]), REPLACE_ONE)
    with pytest.raises(InvalidData, match="between 0 and 1"):
        run(LearnKnots((SMALL,), 1), column([1.0, 2.0], [1.0, 1.5]), REPLACE_ONE)
    assert "2.0" not in repr(column([1.0, 2.0]))
