"""What a hostile reading of the accountants found: each test failed before its fix."""

import math

import mpmath as mp
import numpy as np
import pytest

from noisette import accounting, mechanisms, plans, sampling
from noisette.accounting import sampled_moments
from noisette.accounting.numerical import GaussianPair, RandomizedResponsePair
from noisette.accounting.numerical.plan import MAX_WINDOW
from noisette.accounting.numerical.problems import EpsilonProblem
from noisette.accounting.pure import kairouz_oh_viswanath
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.mechanisms.gaussian_curve import gdp_delta


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(60):
        yield


def poisson_add_remove(epsilon, q, z):
    """The larger of the two orders, in closed form."""
    epsilon, q, z = mp.mpf(epsilon), mp.mpf(q), mp.mpf(z)
    x = z * z * mp.log((mp.expm1(epsilon) + q) / q) + 0.5
    tail = mp.ncdf(-x / z)
    removed = (1 - q) * tail + q * mp.ncdf((1 - x) / z) - mp.exp(epsilon) * tail
    rest = (mp.expm1(-epsilon) + q) / q
    if rest <= 0:
        return removed
    x = z * z * mp.log(rest) + 0.5
    head = mp.ncdf(x / z)
    added = head - mp.exp(epsilon) * ((1 - q) * head + q * mp.ncdf((x - 1) / z))
    return max(removed, added)


def poisson_replace(epsilon, q, z):
    """Of ((1-q)N(0) + qN(1), (1-q)N(0) + qN(-1)); the loss grows with x."""
    epsilon, q, z = mp.mpf(epsilon), mp.mpf(q), mp.mpf(z)
    a = q * mp.exp(-1 / (2 * z * z))
    x = z * z * (epsilon / 2 + mp.asinh((1 - q) * mp.sinh(epsilon / 2) / a))
    p = (1 - q) * mp.ncdf(-x / z) + q * mp.ncdf((1 - x) / z)
    return p - mp.exp(epsilon) * ((1 - q) * mp.ncdf(-x / z) + q * mp.ncdf((-1 - x) / z))


def gaussian(epsilon, mu):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def without_replacement(epsilon, batch, size, z):
    q = mp.mpf(batch) / size
    return q * gaussian(mp.log1p(mp.expm1(mp.mpf(epsilon)) / q), 2 / mp.mpf(z))


def sampled(z, sampler):
    return plans.Sampled(mechanisms.Gaussian(z), sampler)


# Noise so large that the two halves of delta agree in most digits, far out in the tail.
FAR = [
    ("add-remove", 968038.0633632563, 0.9031598588825651, 7.6e-50, 2.19e-5),
    ("add-remove", 835473.2629226934, 0.23781380207956143, 7.0e-169, 7.7e-6),
    ("add-remove", 38584.79746336926, 0.9996618176038524, 1e-20, 0.00019863806063721653),
    ("replace-one", 882783.2847509452, 0.999999999988687, 1.6e-194, 6.6e-5),
    ("replace-one", 385085.3864988096, 0.587891679315853, 3.6e-64, 4.9e-5),
    ("replace-one", 220122.95385171095, 0.8777319539294322, 1e-30, 0.00024060042578974439),
    ("replace-one", 112023.23814423323, 0.5363350208063103, 1e-27, 8.95226575347508e-05),
]


@pytest.mark.parametrize(("relation", "z", "q", "delta", "epsilon"), FAR)
def test_poisson_steps_with_huge_noise_stay_above_the_closed_form(relation, z, q, delta, epsilon):
    exact = poisson_add_remove if relation == "add-remove" else poisson_replace
    plan = sampled(z, sampling.Poisson(q))
    upper = accounting.epsilon(plan, delta=delta, adjacency=relation)
    assert exact(upper, q, z) <= delta * (1 + 1e-12)
    assert accounting.delta(plan, epsilon=epsilon, adjacency=relation) >= exact(epsilon, q, z)


@pytest.mark.parametrize(
    ("z", "batch", "size", "delta", "epsilon"),
    [
        (755689.4476708847, 1271, 1272, 6.4e-145, 6e-5),
        (603722.9370397235, 3045, 10000, 1.3e-244, 3.3e-5),
        (900752.9774814186, 337, 338, 1e-25, 1.926044186815636e-05),
        (2519.5122078860704, 79637, 79638, 1e-100, 0.021018513454910896),
    ],
)
def test_fixed_batches_with_huge_noise_stay_above_the_closed_form(z, batch, size, delta, epsilon):
    plan = sampled(z, sampling.WithoutReplacement(batch, size))
    upper = accounting.epsilon(plan, delta=delta)
    assert without_replacement(upper, batch, size, z) <= delta * (1 + 1e-12)
    assert accounting.delta(plan, epsilon=epsilon) >= without_replacement(epsilon, batch, size, z)


@pytest.mark.parametrize(
    ("relation", "z", "q", "delta"),
    [
        ("add-remove", 0.20611105648249062, 0.0002847890831935027, 2.97e-243),
        ("add-remove", 0.05286268339513632, 0.9999999737738179, 2.1e-94),
        ("add-remove", 0.059210136181629486, 0.9999865251595403, 4.0e-240),  # epsilon > 690
        ("replace-one", 0.05572698455504777, 0.9397482341221229, 1.06e-109),
        ("replace-one", 0.050665035487286125, 1.739771000083506e-05, 1.5e-235),
    ],
)
def test_lower_bounds_lose_no_mass_to_underflow(relation, z, q, delta):
    exact = poisson_add_remove if relation == "add-remove" else poisson_replace
    lower, upper = accounting.bracket(
        sampled(z, sampling.Poisson(q)), delta=delta, adjacency=relation
    )
    assert exact(upper, q, z) <= delta
    assert lower == 0.0 or exact(lower, q, z) >= delta


@pytest.mark.parametrize(
    ("s", "q", "z"), [(1e-2, 0.5, 1.0), (1e-3, 0.5, 0.3), (1e-5, 0.5, 0.2), (1e-5, 0.5, 0.5)]
)
def test_moments_of_fixed_batches_near_order_one(s, q, z):
    """A series cut at t^9 was used wherever s t is small, also for t far above 1."""
    std, order = mp.mpf(z) / 2, 1 + mp.mpf(s)

    def integrand(x):
        r = 1 - mp.mpf(q) + mp.mpf(q) * mp.exp((x - 0.5) / std**2)
        weight = mp.exp(-x * x / (2 * std**2)) / (std * mp.sqrt(2 * mp.pi))
        return weight * (r**order - r + r ** (1 - order) - 1)

    exact = mp.log1p(mp.quad(integrand, [0.5 + k * std / 2 for k in range(61)]))
    found = float(sampled_moments.without_replacement(np.array([s]), q, z)[0])
    assert exact <= found <= exact * (1 + 1e-8)


@pytest.mark.parametrize("power", range(1, 12))
def test_the_calibrated_noise_is_the_one_that_was_tried(power):
    """exp(log(16.0)) is 15.999999999999998, which had never been checked."""
    target = 2.0 / 4.0**power
    z = accounting.calibrate(mechanisms.Laplace, epsilon=target, delta=0.0)
    assert accounting.epsilon(mechanisms.Laplace(z), delta=0.0) <= target


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(1e-3, 10**5, 1e-6), (1e-4, 10**6, 1e-8)])
def test_optimal_composition_pays_for_the_roundings_of_its_binomials(epsilon, count, delta):
    found = mp.mpf(kairouz_oh_viswanath(epsilon, count, delta))
    step, up = mp.mpf(epsilon), 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    downs = int((count - float(found) / epsilon) / 2) + 1
    log_choose = mp.loggamma(count + 1) - mp.loggamma(downs + 1) - mp.loggamma(count - downs + 1)
    mass = mp.exp(log_choose + (count - downs) * mp.log(up) + downs * mp.log(1 - up))
    total = mp.mpf(0)
    while mass > 1e-30:
        total += mass * max(0, 1 - mp.exp(found - (count - 2 * downs) * step))
        mass *= mp.mpf(downs) / (count - downs + 1) * up / (1 - up)
        downs -= 1
    assert total <= delta


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 9e-301])
def test_a_delta_without_digits_is_read_as_zero(delta):
    pure = plans.Repeat(mechanisms.Laplace(1.0), 5)
    assert accounting.epsilon(pure, delta=delta) == accounting.epsilon(pure, delta=0.0)
    steps = plans.Repeat(sampled(1.0, sampling.Poisson(0.01)), 100)
    assert accounting.epsilon(steps, delta=delta) == math.inf


def test_tiny_atoms_do_not_set_the_length_of_the_window():
    """A declared epsilon of 5e-7 beside a Gaussian asked for 10^8 points, and hung."""
    big = GaussianPair(2.0)
    problem = EpsilonProblem(((RandomizedResponsePair(5e-7), None, 1), (big, big, 1)), 1e-5)
    problem.prepare(1e-3, 0)
    assert problem.plan is not None
    assert problem.plan.window <= 2 * MAX_WINDOW
    alone = accounting.epsilon(mechanisms.Gaussian(1.0), delta=1e-5)
    both = plans.Together(plans.Declared(5e-7), mechanisms.Gaussian(1.0))
    assert alone <= accounting.epsilon(both, delta=1e-5) <= alone * 1.002


@pytest.mark.parametrize(("z", "epsilon"), [(0.1, 900.0), (0.07, 1300.0), (0.3, 250.0)])
def test_two_changes_see_through_underflow(z, epsilon):
    """delta(epsilon/2) = 0 in doubles times e^{epsilon/2} is not 0."""
    plan = sampled(z, sampling.RandomAllocation(1))  # one bin: a plain Gaussian
    exact = float(gdp_delta(2.0 / z, epsilon))
    assert 0.0 < exact <= accounting.delta(plan, epsilon=epsilon) * (1 + 1e-12)


def test_objective_noise_sees_through_underflow():
    noise = mechanisms.ObjectiveNoise(0.1, 5, "gaussian", 1.0)
    # a saturated loss makes it the additive release, whose curve is exact
    exact = float(gdp_delta(20.0, 900.0))
    assert 0.0 < exact <= noise.delta(900.0, Adjacency.REPLACE_ONE) * (1 + 1e-12)


@pytest.mark.parametrize("times", [2**53 + 1, 10**400], ids=["odd", "huge"])
@pytest.mark.parametrize("mechanism", [mechanisms.Gaussian(1.0), mechanisms.Laplace(1.0)])
def test_counts_beyond_exact_floats_are_refused(times, mechanism):
    with pytest.raises(InvalidParameter, match="at most 2\\^53 times"):
        accounting.epsilon(plans.Repeat(mechanism, times), delta=1e-5)


def _two_bins(first, second, z, epsilons):
    """Hockey sticks of mixtures of two Gaussians in the plane, by the trapezoidal rule."""
    x = np.arange(-9.0 * z - 1.0, 9.0 * z + 1.0, z / 60.0)
    p, q = (
        sum(
            np.exp(-((x[:, None] - a) ** 2 + (x[None, :] - b) ** 2) / (2 * z * z)) for a, b in means
        )
        / (len(means) * 2 * np.pi * z * z)
        for means in (first, second)
    )
    cell = (z / 60.0) ** 2
    return [float(np.maximum(p - np.exp(e) * q, 0.0).sum() * cell) for e in epsilons]


@pytest.mark.parametrize("z", [0.4, 0.9, 2.5])
def test_random_allocation_to_two_bins_against_the_plane(z):
    plan, epsilons = sampled(z, sampling.RandomAllocation(2)), [0.05, 0.4, 1.3]
    there, here = [(1, 0), (0, 1)], [(0, 0)]
    removed, added = _two_bins(there, here, z, epsilons), _two_bins(here, there, z, epsilons)
    for epsilon, *exact in zip(epsilons, removed, added, strict=True):
        found = accounting.delta(plan, epsilon=epsilon, adjacency="add-remove")
        assert max(exact) * (1 - 1e-5) <= found <= max(exact) * (1 + 5e-3) + 1e-9
    # replace-one: the pair that replaces +C by -C is one of those that must be covered
    attack = _two_bins(there, [(-1, 0), (0, -1)], z, epsilons)
    for epsilon, least in zip(epsilons, attack, strict=True):
        assert accounting.delta(plan, epsilon=epsilon) >= least * (1 - 1e-5)
