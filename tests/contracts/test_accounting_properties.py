"""Monotonicity, calibration and a random search: never NaN, never a smaller epsilon for more."""

import math
import warnings

import numpy as np
import pytest

from noisette.core import accounting
from noisette.core.mechanisms import Gaussian, Laplace, SphericalLaplace
from noisette.core.plans import Repeat, Run, Sampled
from noisette.core.sampling import Poisson, RandomAllocation, Shuffle, WithoutReplacement
from noisette.errors import InvalidParameter

SLACK = 1.0 + 2e-3  # two brackets of relative width 1e-3


def random_plan(rng):
    steps = int(10 ** rng.uniform(0, 6))
    q = float(10 ** rng.uniform(-6, 0))
    z = float(10 ** rng.uniform(-0.5, 1.5))
    kind = rng.choice(["poisson-a", "poisson-r", "wor", "full", "laplace", "spherical", "shuffle"])
    if kind.startswith("poisson"):
        adjacency = "add-remove" if kind.endswith("a") else "replace-one"
        return Repeat(Sampled(Gaussian(z), Poisson(q)), steps), adjacency
    if kind == "wor":
        n = 10_000
        batch = max(1, int(q * n))
        return Repeat(Sampled(Gaussian(z), WithoutReplacement(batch, n)), steps), "replace-one"
    if kind == "full":
        return Repeat(Run(Gaussian(z * math.sqrt(steps))), steps), "replace-one"
    if kind == "laplace":
        return Repeat(Run(Laplace(z * math.sqrt(steps))), steps), "zero-out"
    if kind == "spherical":
        d = int(10 ** rng.uniform(0, 3))
        return Repeat(Run(SphericalLaplace(z * math.sqrt(steps), d)), steps), "replace-one"
    return Repeat(Sampled(Gaussian(z * 10), Shuffle(10)), min(steps, 1000)), "zero-out"


def search(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        plan, adjacency = random_plan(rng)
        delta = float(10 ** rng.uniform(-12, -1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            low, high = accounting.bracket(plan, delta=delta, adjacency=adjacency)
        context = (seed, plan, adjacency, delta, low, high)
        assert not math.isnan(low), context
        assert not math.isnan(high), context
        assert 0.0 <= low <= high, context
        ((_, count),) = plan.leaves()
        if count > 1:
            fewer = Repeat(plan.plan, max(1, count // 2))
            assert accounting.bracket(fewer, delta=delta, adjacency=adjacency)[0] <= high, context


def test_random_settings():
    search(range(30))


@pytest.mark.slow
def test_many_random_settings():
    search(range(30, 2130))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_more_steps_less_noise_larger_rate_cost_more(adjacency):
    def epsilon(q=0.02, z=1.2, steps=200, delta=1e-6):
        plan = Repeat(Sampled(Gaussian(z), Poisson(q)), steps)
        return accounting.epsilon(plan, delta=delta, adjacency=adjacency)

    base = epsilon()
    for better in (epsilon(steps=100), epsilon(z=2.4), epsilon(q=0.01), epsilon(delta=1e-4)):
        assert better < base
    assert epsilon(steps=201) <= base * 1.02
    assert base <= epsilon(steps=201) * SLACK


def test_replace_one_costs_more_than_add_remove():
    for sampler in (Poisson(0.05), RandomAllocation(20)):
        plan = Repeat(Sampled(Gaussian(1.5), sampler), 5)
        one, other = (
            accounting.bracket(plan, delta=1e-5, adjacency=a) for a in ("add-remove", "replace-one")
        )
        assert one[0] <= other[1]
        assert one[1] < other[1]


def test_delta_is_the_inverse_of_epsilon():
    plan = Repeat(Sampled(Gaussian(1.0), Poisson(0.02)), 300)
    for delta in (1e-3, 1e-6, 1e-9):
        low, high = accounting.bracket(plan, delta=delta, adjacency="zero-out")
        assert accounting.delta(plan, epsilon=high, adjacency="zero-out") <= delta * 1.01
        assert accounting.delta(plan, epsilon=low, adjacency="zero-out") >= delta * 0.99


def poisson_plan(z=1.0, q=0.01, steps=1000):
    return Repeat(Sampled(Gaussian(z), Poisson(q)), steps)


@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
def test_calibrated_noise_meets_the_target_and_is_tight(target):
    z = accounting.calibrate(poisson_plan, epsilon=target, delta=1e-5, adjacency="add-remove")
    reached = accounting.epsilon(poisson_plan(z), delta=1e-5, adjacency="add-remove")
    assert reached <= target
    assert accounting.bracket(poisson_plan(z * 0.998), delta=1e-5, adjacency="add-remove")[0] > (
        target * 0.995
    )


def test_calibrated_steps_and_rate_are_the_largest():
    steps = accounting.calibrate(
        lambda k: poisson_plan(steps=k), epsilon=1.0, delta=1e-5, adjacency="add-remove",
        find="steps",
    )  # fmt: skip
    assert isinstance(steps, int)

    def cost(**changes):
        return accounting.epsilon(poisson_plan(**changes), delta=1e-5, adjacency="add-remove")

    assert cost(steps=steps) <= 1.0 < cost(steps=steps + 1)
    rate = accounting.calibrate(
        lambda q: poisson_plan(q=q), epsilon=1.0, delta=1e-5, adjacency="add-remove", find="rate"
    )
    assert cost(q=rate) <= 1.0
    assert cost(q=rate * 1.005) > 1.0
    full = accounting.calibrate(
        lambda q: poisson_plan(z=1000.0, q=q, steps=1), epsilon=5.0, delta=1e-5, find="rate"
    )
    assert full == 1.0


def test_pure_calibration():
    z = accounting.calibrate(lambda z: Repeat(Run(Laplace(z)), 7), epsilon=1.0, delta=0.0)
    assert z == pytest.approx(14.0, rel=2e-5)
    assert accounting.epsilon(Repeat(Run(Laplace(z)), 7), delta=0.0) <= 1.0


def test_impossible_targets_say_so():
    with pytest.raises(InvalidParameter, match="no value between"):
        accounting.calibrate(lambda z: Run(Gaussian(z)), epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidParameter, match="even one step"):
        accounting.calibrate(
            lambda k: Repeat(Run(Gaussian(0.1)), k), epsilon=1.0, delta=1e-5, find="steps"
        )
    with pytest.raises(InvalidParameter, match="find must be one of"):
        accounting.calibrate(poisson_plan, epsilon=1.0, delta=1e-5, find="luck")
