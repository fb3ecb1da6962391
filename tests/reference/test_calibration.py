"""The search for the least noise: where it begins, how often it reads, what it rests on."""

import math

import mpmath as mp
import numpy as np
import pytest

from noisette.core import accounting
from noisette.core.accounting import calibration, front, objective_pair
from noisette.core.accounting.calibration import rough_epsilon
from noisette.core.accounting.numerical.bracket import epsilon_bracket
from noisette.core.accounting.numerical.compose import Composition, LatticePart
from noisette.core.accounting.numerical.pairs import LossTable
from noisette.core.accounting.numerical.random_allocation import RandomAllocationPair
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.core.mechanisms.gaussian_curve import _terms
from noisette.core.plans import Repeat, Run, Sampled
from noisette.core.sampling import Poisson, RandomAllocation
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.objective_perturbation import (
    _by_pairs,
    least_regularization,
    per_row,
)
from noisette.fitting.losses import LOSSES


def allocated(z, batches=20, epochs=2):
    return Repeat(Sampled(Gaussian(z), RandomAllocation(batches)), epochs)


@pytest.mark.parametrize("start", [1e-3, 0.7, 50.0, 1e6])
def test_any_start_finds_the_same_noise(start):
    def plan(z):
        return Repeat(Run(Gaussian(z)), 12)

    target = {"epsilon": 1.3, "delta": 1e-6, "adjacency": "zero-out"}
    z = accounting.calibrate(plan, start=start, **target)
    assert accounting.epsilon(plan(z), delta=1e-6, adjacency="zero-out") <= 1.3
    assert z == pytest.approx(accounting.calibrate(plan, **target), rel=2e-5)
    assert accounting.epsilon(plan(z * (1 - 3e-5)), delta=1e-6, adjacency="zero-out") > 1.3


def test_a_start_is_a_positive_number():
    with pytest.raises(InvalidParameter, match="start"):
        accounting.calibrate(lambda z: Run(Gaussian(z)), epsilon=1.0, delta=1e-6, start=-1.0)


@pytest.mark.parametrize(
    "cost",
    [
        lambda x: 3.0 / x,
        lambda x: 3.0 / x + 1.0 / x**2,
        lambda x: math.ceil(1e3 * 3.0 / x) / 1e3,  # in steps: no slope leads anywhere
        lambda x: math.inf if x < 5.0 else 0.5 * (5.0 / x),  # a cliff
        lambda x: 1.0 - 0.001 * math.tanh(1e3 * (x - 4.0)),  # flat, then steep
    ],
)
def test_the_crossing_is_private_and_near_whatever_the_cost_is_like(cost):
    x = calibration._crossing(cost, 1.0, 1.0, 1e-4, 1e9, falling=True)
    assert cost(x) <= 1.0
    assert cost(x * (1 - 2e-5)) > 1.0 or cost(x) > 1.0 - 2.1e-6


def test_a_smooth_cost_is_read_a_few_times():
    seen = []

    def cost(x):
        seen.append(x)
        return 3.0 / x + 1.0 / x**2

    calibration._crossing(cost, 1.0, 3.0, 1e-4, 1e9, falling=True)
    assert len(seen) <= 6


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_rough_epsilon_of_random_allocation_is_near(adjacency):
    exact = front.epsilon(allocated(1.2), delta=1e-5, adjacency=adjacency)
    assert rough_epsilon(allocated(1.2), 1e-5, adjacency) == pytest.approx(exact, rel=0.03)


def test_other_plans_need_no_rough_epsilon():
    plan = Repeat(Sampled(Gaussian(1.0), Poisson(0.01)), 100)
    assert rough_epsilon(plan, 1e-5, Adjacency.ADD_REMOVE) is None
    assert rough_epsilon(allocated(1.0), 0.0, Adjacency.ADD_REMOVE) is None


def test_random_allocation_is_calibrated_with_few_certified_readings(monkeypatch):
    certified = []
    original = front.epsilon

    def counted(plan, **facts):
        certified.append(plan)
        return original(plan, **facts)

    monkeypatch.setattr(front, "epsilon", counted)
    target = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"}
    z = accounting.calibrate(allocated, **target)
    assert original(allocated(z), delta=1e-5, adjacency="add-remove") <= 1.0
    assert original(allocated(z * (1.0 - 3e-4)), delta=1e-5, adjacency="add-remove") > 1.0
    assert len(certified) <= 4


def direct_delta(table, epsilon, count, step, *, up):
    """The composed hockey stick by plain convolution of losses moved to a grid."""
    move = np.ceil if up else np.floor
    index = move(table.losses / step).astype(int)
    single = np.bincount(index - index.min(), weights=table.p)
    law = np.array([1.0])
    for _ in range(count):
        law = np.convolve(law, single)
    losses = (np.arange(len(law)) + count * index.min()) * step
    return float(law @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0))))


def test_a_tail_without_mass_does_not_loosen_many_batches():
    up, low = RandomAllocationPair(1000, 1.1), RandomAllocationPair(1000, 1.1, dominating=False)
    bracket = epsilon_bracket([[(up, low, 10)]], 1e-5)
    assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper
    assert bracket.upper - bracket.lower < 1e-3 * bracket.upper
    # Before, both ends were 4.956, the lower one false: near 0.394 by convolution.
    assert direct_delta(up.table, bracket.upper * 1.03, 10, 1e-3, up=False) < 1e-5
    assert direct_delta(up.table, bracket.lower * 0.97, 10, 1e-3, up=True) > 1e-5


@pytest.mark.parametrize("epsilon", [0.2, 0.4, 1.0, 3.0])
def test_a_lower_bound_holds_for_a_tilt_that_is_much_too_steep(epsilon):
    table = RandomAllocationPair(1000, 1.1).table
    step = 2e-3
    index = np.ceil(table.losses / step).astype(np.int64)
    masses = np.bincount(index - index.min(), weights=table.p)
    part = LatticePart(np.arange(len(masses)) + index.min(), masses, 10)
    composed = Composition([part], step, tilt=25.8, window=480)
    truth = direct_delta(table, epsilon, 10, step, up=True)
    assert composed.lower(epsilon) <= truth * (1 + 1e-6)
    assert composed.upper(epsilon) >= truth * (1 - 1e-6)


def convergent(t, terms):
    k = mp.mpf(0)
    for j in range(terms, 0, -1):
        k = j / (t + k)
    return k


@pytest.mark.parametrize("t", [2.0, 2.3, 3.0, 4.0, 5.0, 7.0, 11.0, 20.0, 60.0, 1e3, 1e8])
def test_the_terms_of_the_mills_ratio_are_enough(t):
    with mp.workdps(40):
        truth = convergent(mp.mpf(t), 1500)
        error = abs(convergent(mp.mpf(t), _terms(t)) / truth - 1)
        assert error < 1e-16
        # Between two neighbours, so the error is proven, and not only seen.
        below, above = sorted(convergent(mp.mpf(t), _terms(t) + i) for i in (0, 1))
        assert below <= truth <= above
        if t < 10:
            assert abs(convergent(mp.mpf(t), _terms(t) // 2) / truth - 1) > 1e-13


@pytest.mark.parametrize("law", ["gaussian", "spherical-laplace"])
@pytest.mark.parametrize("shape", ["self-bounded", "one-signed"])
def test_fewer_splits_find_the_best_one(law, shape):
    noise = ObjectiveNoise(2.0, 6, law, 1.3, shape)
    first, second = (objective_pair.ObjectiveTable(noise, held).table for held in (True, False))
    reach = float(first.losses[-1] + second.losses[-1])
    grid = np.linspace(-reach, reach, 401)
    found = objective_pair._chained(first, second, grid)
    best = every_split(first, second, grid)
    assert (found >= best * (1 - 1e-15)).all()
    np.testing.assert_allclose(found, best, rtol=1e-6)


def every_split(first: LossTable, second: LossTable, grid):
    h1, h2 = (objective_pair._hockey_stick(table, grid) for table in (first, second))
    best, middle, size = np.ones(len(grid)), len(grid) // 2, len(grid)
    for i in range(size):
        for j in range(max(0, i - middle), min(size, i + middle + 1)):
            best[i] = min(best[i], h1[j] + math.exp(grid[j]) * h2[i - j + middle])
    return best


@pytest.mark.parametrize("relation", list(Adjacency))
def test_the_recommended_regularization_leaves_the_closed_form(relation):
    loss = LOSSES["logistic"]()
    rng = np.random.default_rng(8)
    for epsilon, squared in 10 ** rng.uniform(-2, 1, size=(200, 2)):
        ridge = least_regularization(loss, epsilon, relation.contributions, squared)
        # As an estimator states it: divided by the number of rows, and multiplied again.
        k = per_row(loss) * squared / (ridge / 48_842 * 48_842)
        assert not _by_pairs(k, False, epsilon * (1.0 - 1e-3), 1e-6, relation)
