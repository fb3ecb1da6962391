"""Moment functions of pure laws against many digits: never below, never negative."""

import mpmath as mp
import numpy as np
import pytest

from noisette.core import accounting, plans
from noisette.core.accounting.filters import RenyiFilter
from noisette.core.accounting.moments import log_moment
from noisette.core.adjacency import REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Laplace, ObjectiveNoise, RandomizedResponse, SphericalLaplace

EPSILONS = [1e-12, 1e-9, 1e-7, 1e-4, 0.03, 0.7, 8.0, 300.0]
ORDERS = [0.01, 0.4, 1.0, 30.0, 1e4]


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(60):
        yield


def response(s, epsilon, k=2):
    s, epsilon = mp.mpf(s), mp.mpf(epsilon)
    p = mp.exp(epsilon) / (mp.exp(epsilon) + k - 1)
    r = p * mp.exp(-epsilon)
    return mp.log(p * mp.exp(s * epsilon) + r * mp.exp(-s * epsilon) + (k - 2) * r)


def laplace(s, epsilon):
    s, epsilon = mp.mpf(s), mp.mpf(epsilon)
    up, down = mp.exp(s * epsilon), mp.exp(-(s + 1) * epsilon)
    return mp.log(((s + 1) * up + s * down) / (2 * s + 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_moments_of_pure_laws_keep_their_digits(epsilon):
    s = np.array(ORDERS)
    shift = 1.0 / (1.0 / epsilon)  # the shift that the noise multiplier stands for
    found = {
        "pure": (
            log_moment(plans.Declared(epsilon), s, REPLACE_ONE),
            lambda t: response(t, epsilon),
        ),
        "three": (
            RandomizedResponse(epsilon, 3).log_moment(s, REPLACE_ONE),
            lambda t: response(t, epsilon, 3),
        ),
        "laplace": (Laplace(1.0 / epsilon).log_moment(s, ZERO_OUT), lambda t: laplace(t, shift)),
        "line": (
            SphericalLaplace(1.0 / epsilon, 1).log_moment(s, ZERO_OUT),
            lambda t: laplace(t, shift),
        ),
        "objective": (
            ObjectiveNoise(1.0 / epsilon, 3, "spherical-laplace", 1e-13).log_moment(s, ZERO_OUT),
            lambda t: response(t, shift),
        ),
    }
    for values, exact in found.values():
        for value, order in zip(values.tolist(), ORDERS, strict=True):
            assert exact(order) <= value <= exact(order) * (1 + 1e-12)


def test_many_tiny_charges_are_not_free():
    """The moments of 1e-9 were 0 or below: 1e16 of them cost nothing under the Renyi rule."""
    tiny = plans.Repeat(Laplace(1e9), 10**15)  # eps0 = 2e-9, like a Gaussian of mu^2 = 4e-3
    epsilon = accounting.ACCOUNTANTS["renyi"]().epsilon(tiny, delta=1e-6)
    assert 0.25 < epsilon < 0.4
    rule = RenyiFilter(1.0, 1e-6)
    one = rule.cost(plans.Run(Laplace(1e9)), (2e-9, 0.0), REPLACE_ONE)[0]
    exact = laplace(rule.order - 1.0, 2e-9) / (rule.order - 1.0)
    assert exact * (1 - 1e-12) <= one <= exact * (1 + 1e-12)


@pytest.mark.parametrize("curvature", [1e-9, 1e-12])
def test_objective_curve_below_its_offset_keeps_its_digits(curvature):
    """1 - e^(eps-k) (1 - delta(0)) with both parts near 1e-12."""
    noise = ObjectiveNoise(1e12, 3, "gaussian", curvature, "one-signed")
    offset = mp.log1p(mp.mpf(curvature))
    at_zero = mp.erf(mp.mpf(1) / (mp.mpf(10) ** 12 * 2 * mp.sqrt(2)))
    for share in (0.0, 0.5, 0.99):
        epsilon = float(offset) * share
        exact = 1 - mp.exp(epsilon - offset) * (1 - at_zero)
        stated = noise.delta(epsilon, ZERO_OUT)
        assert exact <= stated <= exact * (1 + 1e-6)
