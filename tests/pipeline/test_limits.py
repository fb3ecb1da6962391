"""Limits that are bought: numbers that many share between two candidates, and room beyond."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisette import LinearRegression, TableRegressor
from noisette.core.grid import Grid
from noisette.tables.pipeline import PrivateBounds
from noisette.tables.pipeline.bounds import Bounds, _moved


def top_coded(n: int = 6000) -> Any:
    """Five per cent of all values are 500,001, which is no number that people write."""
    rng = np.random.default_rng(0)
    return np.minimum(200_000.0 * rng.lognormal(0.0, 0.6, n), 500_001.0)


def test_a_snapped_value_is_the_next_candidate_on_its_side() -> None:
    grid = Grid()
    values = np.array([500_001.0, 500_000.0, -0.123, 0.0, 1e300, -1e300, np.inf, np.nan])
    up, down = grid.snapped(values, up=True), grid.snapped(values, up=False)
    assert up[:5].tolist() == [501_000.0, 500_000.0, -0.12, 0.0, 1e12]
    assert down[:6].tolist() == [500_000.0, 500_000.0, -0.13, 0.0, 1e12, -1e12]
    assert np.isnan(up[-1])
    assert np.isnan(down[-1])
    one = [grid.snapped(values[k : k + 1], up=True)[0] for k in range(7)]
    assert up[:7].tolist() == one, "row by row"


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_top_code_between_two_candidates_is_found(seed: int) -> None:
    """Without snapping every candidate up to 10^12 is as near to the quantile as the next one."""
    y = top_coded()
    found = PrivateBounds(20.0, tail=0.01, random_state=seed).fit(y[:, None]).released_[0]
    assert found.high == 501_000.0
    X = np.log(y)[:, None] / 10.0
    model = LinearRegression(20.0, target_bounds="learn", norm_bound=1.5, random_state=seed)
    assert model.fit(X, y).target_bounds_[1] < 540_000.0


def test_limits_are_moved_to_where_one_per_cent_lies_beyond() -> None:
    """For a normal law the rule is exact; what is not negative stays so, and so do stated ends."""
    tail = 0.1
    ends = Bounds(*(50.0 + 10.0 * stats.norm.ppf([tail, 1.0 - tail])))
    moved = _moved(ends, tail, Grid())
    assert [moved.low, moved.high] == pytest.approx(50.0 + 10.0 * stats.norm.ppf([0.01, 0.99]))
    assert _moved(ends, 0.01, Grid()) == ends
    assert _moved(Bounds(1.0, 90.0), 0.25, Grid()).low == 0.0
    assert _moved(Bounds(-1.0, 90.0), 0.25, Grid()).low < -20.0
    assert _moved(Bounds(1.0, 90.0), 0.25, Grid(0.5, 100.0)) == Bounds(0.5, 100.0)


def test_learnt_limits_cost_little_beside_stated_ones() -> None:
    """Noise leaves a tail of about a tenth here; cutting there would lose the slope beyond."""
    rng = np.random.default_rng(1)
    x = rng.normal(50.0, 10.0, (5000, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.normal(0.0, 3.0, 5000)
    table = {f"x{k}": x[:, k] for k in range(3)}
    stated = {name: {"kind": "numeric", "low": 10, "high": 90} for name in table}
    scores = []
    for schema in (stated, dict.fromkeys(table, "numeric")):
        model = TableRegressor(1.0, 1e-6, schema=schema, target_bounds=(-40, 90), random_state=0)
        scores.append(model.fit(table, y).score(table, y))
    assert scores[1] > scores[0] - 0.04
