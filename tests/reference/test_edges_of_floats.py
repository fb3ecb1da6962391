"""Where doubles end: huge noise, underflow, deltas without digits, counts beyond 2^53."""

import math

import mpmath as mp
import pytest

from noisette.core import accounting, mechanisms, plans, sampling
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_delta
from noisette.errors import InvalidParameter


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


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 9e-301])
def test_a_delta_without_digits_is_read_as_zero(delta):
    pure = plans.Repeat(mechanisms.Laplace(1.0), 5)
    assert accounting.epsilon(pure, delta=delta) == accounting.epsilon(pure, delta=0.0)
    steps = plans.Repeat(sampled(1.0, sampling.Poisson(0.01)), 100)
    assert accounting.epsilon(steps, delta=delta) == math.inf


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


@pytest.mark.parametrize("mechanism", [mechanisms.Gaussian(1.0), mechanisms.Laplace(1.0)])
def test_counts_beyond_exact_floats_are_refused(mechanism):
    for times in (2**53 + 1, 10**400):
        with pytest.raises(InvalidParameter, match="at most 2\\^53 times"):
            accounting.epsilon(plans.Repeat(mechanism, times), delta=1e-5)
