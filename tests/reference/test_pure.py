"""Pure composition and subsampling: goldens, enumeration, and the lecture's bound beside."""

import math
from itertools import combinations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisette.core import accounting, sampling
from noisette.core.accounting.sums import (
    AdvancedAccountant,
    LinearAccountant,
    advanced_composition,
    kairouz_oh_viswanath,
    subsampled,
)
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Laplace, RandomizedResponse, SphericalLaplace
from noisette.core.plans import Declared, Repeat, Sampled, Together


def subsampled_lecture(epsilon, rate):
    """The lecture's 2 * rate * epsilon, valid for epsilon < 1."""
    return 2.0 * rate * epsilon if epsilon < 1.0 else math.inf


def composed_rr(epsilons: list[float], at: mpmath.mpf) -> mpmath.mpf:
    """Exact delta of randomised responses by enumeration of all sign patterns."""
    losses = {mpmath.mpf(0): mpmath.mpf(1)}
    for e in epsilons:
        e = mpmath.mpf(e)
        p = 1 / (1 + mpmath.exp(-e))
        step: dict = {}
        for loss, mass in losses.items():
            for move, weight in ((e, p), (-e, 1 - p)):
                step[loss + move] = step.get(loss + move, 0) + mass * weight
        losses = step
    return mpmath.fsum(m * (1 - mpmath.exp(at - z)) for z, m in losses.items() if z > at)


def test_ten_passes_at_one_cost_ten():
    """iterative.md section 1: KOV for 10 x epsilon = 1 at delta = 1e-5 is about 10.0."""
    got = kairouz_oh_viswanath(1.0, 10, 1e-5)
    assert got == pytest.approx(10.0, abs=0.01)
    assert got <= 10.0
    assert AdvancedAccountant().epsilon(Repeat(Laplace(2.0), 10), delta=1e-5) == got


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 2.0])
def test_optimal_composition_by_enumeration(epsilon):
    """The answer is private (delta holds) and optimal (a little less would not be)."""
    for delta in (1e-12, 1e-5, 0.01):
        for count in (1, 2, 5, 12):
            got = kairouz_oh_viswanath(epsilon, count, delta)
            exact = [epsilon] * count
            with mpmath.workdps(40):
                assert composed_rr(exact, mpmath.mpf(got)) <= delta * (1 + 1e-13)
                if got > 0:
                    assert composed_rr(
                        exact, mpmath.mpf(got) * (1 - mpmath.mpf("1e-9"))
                    ) > delta * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("count", [5, 30])
def test_published_vertices_of_optimal_composition(epsilon, count):
    """KOV Theorem 3.3: ((k - 2i) eps, delta_i) for every i."""
    for i in range(count // 2):
        terms = [
            math.comb(count, j)
            * (mpmath.exp((count - j) * epsilon) - mpmath.exp((count - 2 * i + j) * epsilon))
            for j in range(i)
        ]
        delta = mpmath.fsum(terms) / (1 + mpmath.exp(epsilon)) ** count
        if delta > 1e-300:
            got = kairouz_oh_viswanath(epsilon, count, float(delta))
            assert got == pytest.approx((count - 2 * i) * epsilon, rel=1e-9)


def test_optimal_composition_answers_over_the_whole_range_of_delta():
    # brentq once failed to converge where the curve is flat.
    account = AdvancedAccountant()
    for epsilon in (0.1, 1.0):
        for at in (1.0, 5.0, 15.0, 45.0):
            delta = account.delta(Repeat(RandomizedResponse(epsilon), 50), epsilon=at)
            assert 0.0 <= delta <= 1.0


@mpmath.workdps(60)
@pytest.mark.parametrize(("epsilon", "count", "delta"), [(1e-3, 10**5, 1e-6), (1e-4, 10**6, 1e-8)])
def test_optimal_composition_pays_for_the_roundings_of_its_binomials(epsilon, count, delta):
    found = mpmath.mpf(kairouz_oh_viswanath(epsilon, count, delta))
    step, up = mpmath.mpf(epsilon), 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    downs = int((count - float(found) / epsilon) / 2) + 1
    log_choose = (
        mpmath.loggamma(count + 1) - mpmath.loggamma(downs + 1) - mpmath.loggamma(count - downs + 1)
    )
    mass = mpmath.exp(log_choose + (count - downs) * mpmath.log(up) + downs * mpmath.log(1 - up))
    total = mpmath.mpf(0)
    while mass > 1e-30:
        total += mass * max(0, 1 - mpmath.exp(found - (count - 2 * downs) * step))
        mass *= mpmath.mpf(downs) / (count - downs + 1) * up / (1 - up)
        downs -= 1
    assert total <= delta


@given(
    epsilons=st.lists(st.floats(0.01, 1.5), min_size=2, max_size=7),
    delta=st.sampled_from([1e-9, 1e-4, 0.05]),
)
def test_mixed_composition_is_private(epsilons, delta):
    got = advanced_composition([(e, 1) for e in epsilons], delta)
    assert got <= math.fsum(epsilons)
    with mpmath.workdps(30):
        assert composed_rr(epsilons, mpmath.mpf(got)) <= delta * (1 + 1e-9)


def test_advanced_composition_closed_form():
    """k eps (e^eps - 1)/(e^eps + 1) + eps sqrt(2 k ln 1/delta)."""
    e, k, delta = 0.1, 1000, 1e-6
    expected = k * e * math.expm1(e) / (math.exp(e) + 1) + e * math.sqrt(
        2 * k * math.log(1 / delta)
    )
    assert advanced_composition([(e, k)], delta) == pytest.approx(expected, rel=1e-12)
    assert kairouz_oh_viswanath(e, k, delta) < expected


def test_laplace_times_hundred_is_above_the_exact_value():
    """iterative.md section 9: the exact epsilon of 100 x Laplace(0.1) at 1e-5 is 4.2203."""
    plan = Repeat(Laplace(20.0), 100)
    assert LinearAccountant().epsilon(plan, delta=0.0) == pytest.approx(10.0)
    advanced = AdvancedAccountant().epsilon(plan, delta=1e-5)
    assert 4.2203 <= advanced < 5.0


# ---- subsampling ----


def test_subsampling_goldens():
    assert subsampled(1.0, 0.1) == pytest.approx(
        0.15856, abs=1e-5
    )  # the reference cuts, not rounds
    assert subsampled_lecture(0.999999999, 0.1) == pytest.approx(0.2, abs=1e-8)


@given(epsilon=st.floats(1e-9, 800.0), rate=st.floats(1e-9, 1.0))
def test_subsampling_is_log_of_one_plus_q_times_excess(epsilon, rate):
    with mpmath.workdps(400):
        exact = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(epsilon)))
        assert subsampled(epsilon, rate) == pytest.approx(float(exact), rel=1e-13)
    assert subsampled(epsilon, rate) <= epsilon * (1 + 1e-15)


@given(epsilon=st.floats(1e-6, 0.999), rate=st.floats(1e-6, 1.0))
def test_the_lecture_is_never_tighter_where_it_holds(epsilon, rate):
    assert subsampled(epsilon, rate) <= subsampled_lecture(epsilon, rate)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_subsampling_is_attained_by_one_laplace_answer(rate, epsilon):
    """Add-remove, Poisson: the largest log ratio of the true mixture against Laplace noise."""
    x = np.linspace(-30, 30, 20001) / epsilon

    def log_density(centre):
        return -epsilon * np.abs(x - centre) + math.log(epsilon / 2)

    mix = np.logaddexp(math.log1p(-rate) + log_density(0.0), math.log(rate) + log_density(1.0))
    worst = np.abs(mix - log_density(0.0)).max()
    assert worst == pytest.approx(subsampled(epsilon, rate), rel=1e-9)
    plan = Sampled(Laplace(1 / epsilon), sampling.Poisson(rate))
    for relation in (ADD_REMOVE, ZERO_OUT):
        assert LinearAccountant().epsilon(plan, delta=0.0, adjacency=relation) >= worst * (
            1 - 1e-12
        )


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_poisson_replace_one_of_additive_noise_is_covered(rate):
    """The record's number is +1 or -1 with probability q, else absent (0): noise of rate eps/2."""
    for epsilon in (0.3, 1.0, 4.0):
        kappa = epsilon / 2.0  # contribution 1, replace-one moves the sum by 2
        x = np.linspace(-60, 60, 40001) / kappa

        def law(centre, k=kappa, x=x):
            absent = math.log1p(-rate) - k * np.abs(x)
            return np.logaddexp(absent, math.log(rate) - k * np.abs(x - centre))

        worst = np.abs(law(1.0) - law(-1.0)).max()
        plan = Sampled(Laplace(2.0 / epsilon), sampling.Poisson(rate))
        claimed = LinearAccountant().epsilon(plan, delta=0.0, adjacency=REPLACE_ONE)
        assert claimed >= worst * (1 - 1e-12)


@pytest.mark.parametrize(("n", "m"), [(5, 2), (8, 1), (6, 6)])
def test_fixed_size_batches_by_enumeration_of_subsets(n, m):
    """Randomised sum over a uniform m-subset; records in {-1, 0, 1}, one replaced."""
    kappa = 0.4
    mechanism = SphericalLaplace(1 / kappa, 1)
    x = np.linspace(-80, 80, 16001)
    plan = Sampled(mechanism, sampling.WithoutReplacement(m, n))
    claimed = LinearAccountant().epsilon(plan, delta=0.0)
    rng = np.random.default_rng(5)
    for _ in range(10):
        records = rng.choice([-1.0, 0.0, 1.0], n)
        laws = []
        for value in (1.0, -1.0):
            data = np.concatenate(([value], records[1:]))
            sums = [data[list(c)].sum() for c in combinations(range(n), m)]
            laws.append(np.mean([np.exp(-kappa * np.abs(x - t)) for t in sums], axis=0))
        assert np.abs(np.log(laws[0] / laws[1])).max() <= claimed * (1 + 1e-9)


def test_sums_and_passes_add_up_exactly():
    account = LinearAccountant()
    assert account.epsilon(Repeat(Laplace(20.0), 10), delta=0.0) == 1.0
    plan = Together(Repeat(Laplace(2.0), 3), Declared(0.25), SphericalLaplace(4.0, 9))
    assert account.epsilon(plan, delta=0.0) == 3.75
    # The 2013 algorithm: alpha = 1 noise of multiplier 2/alpha, one pass, any batch size.
    for relation, cost in ((REPLACE_ONE, 1.0), (ZERO_OUT, 0.5)):
        passes = Sampled(SphericalLaplace(2.0, 50), sampling.Disjoint.of_size(60_000, 10))
        assert account.epsilon(passes, delta=0.0, adjacency=relation) == cost
        assert account.epsilon(Repeat(passes, 5), delta=0.0, adjacency=relation) == 5 * cost


def test_delta_of_a_pure_total_is_randomised_response():
    for total, at in ((1.0, 0.0), (1.0, 0.4), (6.0, 5.0)):
        expected = (math.exp(total) - math.exp(at)) / (1 + math.exp(total))
        assert accounting.delta(Declared(total), epsilon=at) == pytest.approx(expected, rel=2e-3)
        assert LinearAccountant().delta(Declared(total), epsilon=at) >= expected * (1 - 1e-12)
    assert LinearAccountant().delta(Declared(1.0), epsilon=1.0) == 0.0
