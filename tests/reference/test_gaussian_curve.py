"""The mu-GDP curve against mpmath, its inverses, its monotonicities, and mutants."""

import math
from collections.abc import Callable
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from noisette.core.mechanisms.gaussian_curve import _read, gdp_delta, gdp_epsilon, gdp_mu

gdp_log_delta = partial(_read, which=1)
MUS = np.logspace(-6, 3, 28)
EPSILONS = np.concatenate(([0.0], np.logspace(-6, 3, 28)))


def exact(mu: float, epsilon: float, digits: int = 100) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), far more digits than cancel."""
    with mp.workdps(digits):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        first = mp.erfc(-(m / 2 - e / m) / mp.sqrt(2)) / 2
        second = mp.erfc((m / 2 + e / m) / mp.sqrt(2)) / 2
        return first - mp.exp(e) * second


GRID = [(float(m), float(s * e), exact(m, s * e)) for m in MUS for e in EPSILONS for s in (1, -1)]


def worst_error(curve: Callable[[float, float], float], floor: str = "1e-300") -> float:
    """Largest relative error over the grid points whose true delta is above `floor`."""
    return max(
        float(abs(mp.mpf(curve(mu, epsilon)) / truth - 1))
        for mu, epsilon, truth in GRID
        if truth > mp.mpf(floor)
    )


def test_delta_matches_mpmath_to_1e12():
    assert worst_error(gdp_delta) < 1e-12


def test_log_delta_matches_mpmath_far_below_the_smallest_double():
    deep = 0
    for mu, epsilon, truth in GRID:
        if truth <= 0:
            continue  # more than 100 digits of cancellation: beyond the oracle
        log = float(mp.log(truth))
        assert gdp_log_delta(mu, epsilon) == pytest.approx(log, rel=1e-13, abs=2e-15)
        deep += log < -1000
    assert deep > 20


@pytest.mark.parametrize(
    "mutant",
    [
        lambda m, e: float(ndtr(m / 2 - e / m) - np.exp(e + log_ndtr(-m / 2 - e / m))),  # naive
        lambda m, e: float(gdp_delta(m * (1 + 1e-9), e)),
        lambda m, e: float(gdp_delta(m, e * (1 - 1e-9))),
        lambda m, e: float(gdp_delta(m, abs(e))),
        lambda m, e: float(ndtr(m / 2 - e / m)),
    ],
)
def test_mutants_are_rejected(mutant):
    assert worst_error(mutant) > 1e-9


def test_edges():
    inf = math.inf
    assert gdp_delta(0, 0) == 0
    assert gdp_delta(0, 1) == 0
    assert gdp_log_delta(0, 1) == -inf
    assert gdp_delta(0, -1) == pytest.approx(1 - math.exp(-1), rel=1e-15)
    assert gdp_delta(inf, 5) == 1
    assert gdp_delta(2, -inf) == 1
    assert gdp_delta(2, inf) == 0
    assert gdp_delta(1e4, 1.0) == 1
    assert gdp_delta(1e4, 5e7) == pytest.approx(0.5, abs=1e-4)
    assert gdp_delta(5e-324, 1.0) == 0
    assert gdp_log_delta(1e-300, 1e300) == -inf
    assert gdp_delta(1e-200, 0.0) == pytest.approx(1e-200 / math.sqrt(2 * math.pi), rel=1e-14)
    assert isinstance(gdp_delta(1, 1), float)
    grid = gdp_delta(np.ones((3, 1)), np.zeros(4))
    assert isinstance(grid, np.ndarray)
    assert grid.shape == (3, 4)
    assert gdp_delta(np.array([]), 1.0).shape == (0,)
    for bad in [(-1, 0), (math.nan, 0), (1, math.nan)]:
        with pytest.raises(ValueError, match="must be a number"):
            gdp_delta(*bad)


def test_inverse_edges():
    assert gdp_epsilon(1, 0) == math.inf
    assert gdp_epsilon(0, 0) == 0
    assert gdp_epsilon(1, 1) == 0
    assert gdp_epsilon(1, 0.9) == 0
    assert gdp_epsilon(math.inf, 0.5) == math.inf
    assert gdp_mu(1, 0) == 0
    assert gdp_mu(1, 1) == math.inf
    assert gdp_mu(math.inf, 0) == math.inf
    # At epsilon = 0 delta is the total variation 2 Phi(mu/2) - 1.
    assert gdp_mu(0, 0.5) == pytest.approx(2 * 0.6744897501960817, rel=1e-11)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="delta must be"):
            gdp_epsilon(1, bad)
        with pytest.raises(ValueError, match="delta must be"):
            gdp_mu(1, bad)
    with pytest.raises(ValueError, match="epsilon must be"):
        gdp_mu(-1, 0.1)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (0.1, 1e-6, 36.304690),
        (0.3, 1e-6, 12.992383),
        (1, 1e-6, 4.224679),
        (3, 1e-6, 1.543861),
        (1, 1e-5, 3.730632),
        (8, 1e-5, 0.600229),
    ],
)
def test_golden_noise_levels(epsilon, delta, sigma):
    assert 1 / gdp_mu(epsilon, delta) == pytest.approx(sigma, abs=6e-7)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.49, 0.51, 1, 7, 40, 1e3])
def test_epsilon_is_safe_and_tight(mu):
    for delta in (0.3, 1e-2, 1e-5, 1e-20, 1e-100, 1e-250):
        epsilon = gdp_epsilon(mu, delta)
        assert gdp_delta(mu, epsilon) <= delta
        assert exact(mu, epsilon, 300) <= delta
        if epsilon > 0:
            assert exact(mu, epsilon * (1 - 1e-9), 300) > delta


@pytest.mark.parametrize("epsilon", [0, 1e-6, 1e-3, 0.1, 1, 8, 50, 1e3])
def test_mu_is_safe_and_tight(epsilon):
    for delta in (0.3, 1e-2, 1e-5, 1e-20, 1e-100, 1e-250):
        mu = gdp_mu(epsilon, delta)
        assert gdp_delta(mu, epsilon) <= delta
        assert exact(mu, epsilon, 300) <= delta
        assert exact(mu * (1 + 1e-9), epsilon, 300) > delta
        assert gdp_epsilon(mu, delta) <= epsilon * (1 + 1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.floats(1e-6, 1e4),
    st.floats(-1e3, 1e3),
    st.floats(1e-9, 1.0),
)
def test_monotone_in_both_arguments(mu, epsilon, step):
    base = gdp_log_delta(mu, epsilon)
    tolerance = 1e-12 * max(1.0, abs(base)) if base > -math.inf else 0.0
    assert gdp_log_delta(mu * (1 + step), epsilon) >= base - tolerance
    assert gdp_log_delta(mu, epsilon + step) <= base + tolerance
    assert max(0.0, -math.expm1(min(epsilon, 0.0))) * (1 - 1e-15) <= gdp_delta(mu, epsilon) <= 1


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 50.0), st.floats(0.0, 30.0))
def test_curve_is_its_own_mirror_image(mu, epsilon):
    """H_gamma(Q||P) = 1 - gamma + gamma H_{1/gamma}(P||Q), and the Gaussian pair is symmetric."""
    mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * gdp_delta(mu, epsilon)
    assert gdp_delta(mu, -epsilon) == pytest.approx(mirrored, rel=1e-13)
