"""The curve of spherical Laplace noise against 30-digit arithmetic, down to delta = 1e-15."""

import math

import mpmath as mp
import numpy as np
import pytest

from noisette.core import accounting
from noisette.core.adjacency import ZERO_OUT
from noisette.core.mechanisms import SphericalLaplace
from noisette.core.mechanisms import spherical_laplace_curve as curve

MARGIN = 2e-10  # how far above the exact value a stated one may lie, relative


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(30):
        yield


def by_angle(epsilon, eps0, d):
    """SPHERICAL-ANGLE with its closed normaliser (Wronskian of the Bessel functions I and K)."""
    epsilon, eps0 = mp.mpf(epsilon), mp.mpf(eps0)
    if d == 1:
        return -mp.expm1((epsilon - eps0) / 2)
    z, order = eps0 / 2, mp.mpf(d) / 2 - 1
    lower = mp.besselk(order, z)
    c = (d - 1) / z * mp.besselk(order + 1, z) / lower
    total = mp.sqrt(mp.pi) * mp.gamma(mp.mpf(d - 1) / 2) * (2 / z) ** order * (d - 1)
    total /= z * z * lower
    top = mp.acos(epsilon / eps0)

    def density(phi):
        sine = mp.sin(phi)
        gap = -mp.expm1(epsilon - eps0 * mp.cos(phi))
        return sine ** (d - 2) * (sine**2 + c) * mp.exp(z * mp.cos(phi)) / total * gap

    return mp.quad(density, [top * i / 12 for i in range(13)])


def by_radius(epsilon, eps0, d):
    """SPHERICAL-LAPLACE, d = 2 or 3: p - e^eps q over the radius, with digits to spare."""

    def tail(x):
        x = max(mp.mpf(-1), min(mp.mpf(1), x))
        return mp.acos(x) / mp.pi if d == 2 else (1 - x) / 2

    with mp.workdps(50):
        epsilon, eps0 = mp.mpf(epsilon), mp.mpf(eps0)
        b = (eps0 - epsilon) * (eps0 + epsilon) / 2

        def gap(r):
            weight = r ** (d - 1) * mp.exp(-r) / mp.factorial(d - 1)
            q = tail((epsilon + b / r) / eps0)
            return weight * (tail((epsilon - b / r) / eps0) - mp.exp(epsilon) * q)

        low, high = (eps0 - epsilon) / 2, (eps0 + epsilon) / 2
        cuts = [0, low, high, high + 1, high + 5, high + 20, high + 60, high + 200]
        return mp.quad(gap, cuts, maxdegree=10)


def check(epsilon, delta, d):
    """The calibrated shift keeps its word, and the stated delta hugs the exact one."""
    eps0 = curve.largest_shift(epsilon, delta, d)
    if eps0 == epsilon:  # no double above epsilon keeps the promise
        assert by_angle(epsilon, math.nextafter(eps0, math.inf), d) > delta * (1 - 1e-9)
        return
    stated, exact = curve.delta(epsilon, eps0, d), by_angle(epsilon, eps0, d)
    assert exact <= stated <= exact * (1 + MARGIN)
    assert stated <= delta
    # The largest shift is not far from the largest: a little more breaks the promise.
    assert by_angle(epsilon, epsilon + (eps0 - epsilon) * (1 + 1e-3) + 1e-14 * epsilon, d) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "d"),
    [
        (8.0, 1e-12, 2),  # stated 1e-12, was 4.21e-12
        (8.0, 1e-13, 2),
        (10.0, 1e-10, 2),
        (40.0, 1e-9, 2),
        (8.0, 1e-12, 3),
        (0.001, 1e-15, 2),
        (1.0, 1e-2, 1),
        (100.0, 1e-15, 4),
        (0.1, 1e-15, 5),
        (8.0, 1e-15, 50),
        (0.01, 1e-6, 20),
    ],
)
def test_delta_is_never_below_the_exact_one(epsilon, delta, d):
    check(epsilon, delta, d)


@pytest.mark.slow
@pytest.mark.parametrize("d", [*range(1, 21), 25, 30, 35, 40, 45, 50])
def test_delta_is_never_below_the_exact_one_on_the_whole_grid(d):
    for epsilon in (1e-3, 1e-2, 0.1, 1.0, 3.0, 8.0, 20.0, 40.0, 100.0):
        for delta in (1e-15, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
            check(epsilon, delta, d)


@pytest.mark.parametrize(
    ("epsilon", "gap", "d"), [(8.0, 3e-7, 2), (1.0, 1e-8, 2), (8.0, 1e-5, 3), (0.5, 0.5, 3)]
)
def test_the_two_formulas_agree(epsilon, gap, d):
    """The angle and the radius are two theorems; they meet to many digits at tiny delta."""
    eps0 = epsilon + gap
    radius = by_radius(epsilon, eps0, d)
    assert by_angle(epsilon, eps0, d) == pytest.approx(radius, rel=1e-12)
    assert radius <= curve.delta(epsilon, eps0, d) <= radius * (1 + MARGIN)


@pytest.mark.parametrize(("d", "mu"), [(2000, 3.0), (30_000, 1.0)])
def test_many_dimensions(d, mu):
    """Most of the mass lies within a few 1/sqrt(d) of the right angle."""
    eps0 = mp.mpf(mu * math.sqrt(d))
    epsilon = mp.mpf(mu * mu / 2 + 2 * mu)
    z, order = eps0 / 2, mp.mpf(d) / 2 - 1
    c = (d - 1) / z * mp.besselk(order + 1, z) / mp.besselk(order, z)
    top, reach = mp.acos(epsilon / eps0), 14 / mp.sqrt(d)

    def density(phi):
        sine = mp.sin(phi)
        return mp.exp((d - 2) * mp.log(sine)) * (sine**2 + c) * mp.exp(z * mp.cos(phi))

    def gap(phi):
        return density(phi) * -mp.expm1(epsilon - eps0 * mp.cos(phi))

    total = mp.quad(density, [mp.pi / 2 + reach * i / 14 for i in range(-14, 15)])
    exact = mp.quad(gap, [top - reach * i / 14 for i in range(14, -1, -1)]) / total
    assert exact <= curve.delta(float(epsilon), float(eps0), d) <= exact * (1 + MARGIN)


@pytest.mark.parametrize("d", [2, 3])
def test_stated_epsilon_holds_at_tiny_delta(d):
    """The front door: epsilon at delta, and delta at epsilon, of one release."""
    for z, delta in ((0.125, 1e-12), (0.1, 1e-13), (1.0, 1e-15)):
        noise = SphericalLaplace(z, d)
        epsilon = accounting.epsilon(noise, delta=delta, adjacency=ZERO_OUT)
        eps0 = noise.pure_epsilon(ZERO_OUT)
        assert epsilon < eps0
        assert by_angle(epsilon, eps0, d) <= delta
        exact = by_angle(epsilon, eps0, d)
        assert exact <= accounting.delta(noise, epsilon=epsilon, adjacency=ZERO_OUT)
        assert exact <= noise.delta(epsilon, ZERO_OUT) <= exact * (1 + MARGIN)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_negative_epsilon_is_rounded_up_too(d):
    for epsilon, eps0 in ((-1e-9, 1e-3), (-0.5, 1.0), (-3.0, 8.0)):
        exact = -mp.expm1(mp.mpf(epsilon)) + mp.exp(mp.mpf(epsilon)) * by_angle(-epsilon, eps0, d)
        assert exact <= curve.delta(epsilon, eps0, d) <= exact * (1 + 2 * MARGIN)


def test_delta_that_underflows_is_not_zero():
    """d = 100,000 just below the largest loss: about e^-200000, not a double."""
    assert 0.0 < curve.delta(4.999, 5.0, 100_000) <= 1e-300
    assert curve.delta(5.0, 5.0, 100_000) == 0.0


@pytest.mark.parametrize(("d", "eps0"), [(2, 1e-6), (2, 4.0), (20, 1e-6), (3, 0.01)])
def test_moments_are_never_below_the_exact_ones(d, eps0):
    """Also for tiny losses, where E e^{sL} - 1 is about the square of eps0."""
    with mp.workdps(40):
        z, order = mp.mpf(eps0) / 2, mp.mpf(d) / 2 - 1
        c = (d - 1) / z * mp.besselk(order + 1, z) / mp.besselk(order, z)

        def density(phi):
            return mp.sin(phi) ** (d - 2) * (mp.sin(phi) ** 2 + c) * mp.exp(z * mp.cos(phi))

        cuts = [mp.pi * i / 8 for i in range(9)]
        total = mp.quad(density, cuts)
        for s in (0.01, 30.0):
            excess = mp.quad(lambda p, s=s: density(p) * mp.expm1(s * 2 * z * mp.cos(p)), cuts)
            exact = mp.log1p(excess / total)
            found = float(curve.log_moment(np.array([s]), eps0, d)[0])
            assert exact <= found <= exact * (1 + MARGIN)
