"""Golden values of the maths reference, mpmath oracles, other libraries, and mutants."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from brackets import POISSON, holds, poisson, reached, two_orders
from lottery_pairs import WithReplacement

from noisette.core.accounting.numerical.bracket import epsilon_bracket
from noisette.core.accounting.numerical.noise_pairs import (
    GaussianPair,
    LaplacePair,
    SphericalLaplacePair,
)
from noisette.core.accounting.numerical.sampled_pairs import (
    PoissonReplace,
    PoissonSampled,
    SymmetrisedSample,
)
from reference.complex_orders import complex_order_delta, complex_order_epsilon


@pytest.mark.parametrize(("rate", "z", "count", "delta", "golden"), POISSON)
def test_poisson_add_remove(rate, z, count, delta, golden):
    bracket = epsilon_bracket(poisson(rate, z, count), delta)
    assert reached(bracket)
    assert holds(bracket, golden)
    value = complex_order_epsilon([(PoissonSampled(GaussianPair(1 / z), rate), count)], delta)
    assert value.valid
    assert value.value == pytest.approx(golden, rel=1e-7)
    assert value.error < 1e-6


@pytest.mark.parametrize(("rate", "z", "count", "delta", "golden"), POISSON[:3])
@pytest.mark.parametrize("mutant", ["rate", "noise", "count", "delta"])
def test_ten_percent_mutants_leave_the_bracket(rate, z, count, delta, golden, mutant):
    """A constant wrong by 10 % anywhere must be rejected by the golden check."""
    rate = rate * 0.9 if mutant == "rate" else rate
    z = z * 1.1 if mutant == "noise" else z
    count = round(count * 0.9) if mutant == "count" else count
    delta = delta * 1.1 if mutant == "delta" else delta
    assert not holds(epsilon_bracket(poisson(rate, z, count), delta), golden)


@pytest.mark.parametrize(
    ("rate", "z", "count", "golden"),
    [(0.01, 2, 1000, 1.2052), (0.05, 6, 500, 1.4370), (0.01, 1, 1000, 2.8434)],
)
def test_poisson_replace_one(rate, z, count, golden):
    pair = PoissonReplace(rate, z)
    bracket = epsilon_bracket(two_orders((pair, count)), 1e-5)
    assert reached(bracket)
    assert holds(bracket, golden, digits=4e-5)
    assert bracket.lower > epsilon_bracket(poisson(rate, z, count), 1e-5).upper


@pytest.mark.parametrize(
    ("rate", "z", "count", "upper", "lower"),
    [(0.01, 2, 1000, 2.199, 1.8282), (0.05, 6, 500, 1.675, 1.5241), (0.01, 1, 1000, 14.82, 13.361)],
)
def test_without_replacement_replace_one(rate, z, count, upper, lower):
    curve = SymmetrisedSample(GaussianPair(2 / z), rate)
    realised = PoissonSampled(GaussianPair(2 / z), rate)
    orders = [[(curve, realised, count)], [(curve, realised.swapped(), count)]]
    bracket = epsilon_bracket(orders, 1e-5)
    assert not reached(bracket)  # the two pairs differ
    assert bracket.upper == pytest.approx(upper, rel=1.5e-3)
    assert bracket.lower == pytest.approx(lower, rel=1.5e-3)
    # the curve itself is resolved: a self-bracket is tight
    assert holds(epsilon_bracket(two_orders((curve, count)), 1e-5), upper, digits=4e-4)


def test_laplace():
    pair = LaplacePair(0.1)
    bracket = epsilon_bracket(two_orders((pair, 100)), 1e-5)
    assert holds(bracket, 4.2203, digits=2e-5)
    one = epsilon_bracket(two_orders((LaplacePair(1.0), 1)), 0.1)
    assert holds(one, 1 + 2 * math.log(0.9), digits=1e-6)  # δ = 1 - e^{(ε-1)/2}


@pytest.mark.parametrize(("dimension", "golden"), [(3, 7.56), (10, 4.18), (20, 2.88), (100, 1.20)])
def test_spherical_laplace_ten_passes(dimension, golden):
    bracket = epsilon_bracket(two_orders((SphericalLaplacePair(1.0, dimension), 10)), 1e-5)
    assert reached(bracket)
    assert bracket.upper == pytest.approx(golden, abs=6e-3)


@pytest.mark.parametrize(
    ("epsilon0", "epsilon", "dimension", "golden"),
    [
        (1, 0.5, 1, 0.221199),
        (1, 0.5, 2, 0.12270538),
        (1, 0.5, 3, 0.07517407),
        (1, 0.5, 10, 0.00775777),
        (2, 1, 2, 0.25077784),
        (2, 1, 10, 0.01921315),
    ],
)
def test_spherical_laplace_one_step(epsilon0, epsilon, dimension, golden):
    assert SphericalLaplacePair(epsilon0, dimension).reading(epsilon)[0] == pytest.approx(
        golden, abs=6e-9 if dimension > 1 else 5e-7
    )
    wrong = SphericalLaplacePair(epsilon0 * 0.9, dimension).reading(epsilon)[0]
    assert abs(wrong - golden) > 0.01 * golden


@pytest.mark.parametrize("dimension", [2, 3, 7, 40])
@pytest.mark.parametrize("loss", [-0.7, 0.0, 0.6])
def test_spherical_laplace_against_the_radial_integral(dimension, loss):
    """P(L > ℓ) = E_r F_U((a²-2rℓ-ℓ²)/(2ra)), a different route to the same law."""
    a, d = mpmath.mpf("1.3"), dimension

    def below(u):
        if u >= 1:
            return mpmath.mpf(1)
        if u <= -1:
            return mpmath.mpf(0)
        return mpmath.betainc((d - 1) / 2, (d - 1) / 2, 0, (1 + u) / 2, regularized=True)

    start = (a - loss) / 2

    def integrand(r):
        density = mpmath.exp(-r + (d - 1) * mpmath.log(r) - mpmath.loggamma(d))
        return density * below((a * a - 2 * r * loss - loss * loss) / (2 * r * a))

    stops = [start, start + 0.3, d / 2 + 1, d, d + 3 * d**0.5, d + 12 * d**0.5 + 40]
    truth = mpmath.gammainc(d, 0, start, regularized=True)
    truth += mpmath.quad(integrand, sorted(s for s in stops if s >= start))
    P, _ = SphericalLaplacePair(float(a), d).cells([float(loss)])
    assert P[1] == pytest.approx(float(truth), rel=1e-9)


def test_with_replacement_one_draw_is_without_replacement():
    one, curve = WithReplacement(1, 50, 1.5), SymmetrisedSample(GaussianPair(2 / 1.5), 1 / 50)
    edges = np.linspace(-2, 2, 41)
    for a, b in zip(one.cells(edges), curve.cells(edges), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)


def test_with_replacement_matches_its_binomial_sum():
    m, n, z = 30, 100, 2.0
    pair = WithReplacement(m, n, z)
    rate = -math.expm1(m * math.log1p(-1 / n))
    for epsilon in (0.05, 0.5, 2.0):
        outer = math.log1p(rate * math.expm1(epsilon))
        truth = sum(
            math.comb(m, k)
            * n**-k
            * (1 - 1 / n) ** (m - k)
            * GaussianPair(2 * k / z).reading(epsilon)[0]
            for k in range(1, m + 1)
        )
        assert pair.reading(outer)[0] == pytest.approx(truth, rel=1e-9)


def test_complex_orders_match_the_gaussian_formula():
    pair = GaussianPair(0.1)
    for epsilon in (1.0, 3.0, 10.0):
        value = complex_order_delta([(pair, 100)], epsilon)
        assert value.valid
        assert value.value == pytest.approx(GaussianPair(1.0).reading(epsilon)[0], rel=1e-8)
    assert not complex_order_epsilon([(LaplacePair(1.0), 3)], 1e-5).valid


@pytest.mark.parametrize(("rate", "z", "count", "delta", "golden"), [POISSON[0], POISSON[1]])
def test_dp_accounting_agrees(rate, z, count, delta, golden):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dp_accounting.pld import privacy_loss_distribution as pld

        pessimistic = (
            pld.from_gaussian_mechanism(z, sampling_prob=rate, value_discretization_interval=1e-3)
            .self_compose(count)
            .get_epsilon_for_delta(delta)
        )
        optimistic = (
            pld.from_gaussian_mechanism(
                z,
                sampling_prob=rate,
                value_discretization_interval=1e-3,
                pessimistic_estimate=False,
            )
            .self_compose(count)
            .get_epsilon_for_delta(delta)
        )
    lower, upper = epsilon_bracket(poisson(rate, z, count), delta)
    assert lower <= pessimistic
    assert optimistic <= upper
    assert optimistic <= golden <= pessimistic
