"""Brackets against exact enumeration of small discrete mechanisms, both orders."""

import math
import warnings

import numpy as np
import pytest
from brackets import Discrete, reached, two_orders
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr

from noisette.core.accounting.numerical.bracket import delta_bracket, epsilon_bracket
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import ApproximateDP
from noisette.core.accounting.numerical.sampled_pairs import PoissonSampled

# the exact sums below carry rounding of this relative size
EXACT = 1e-12


def random_pair(rng):
    """A pair with 2 to 5 atoms, sometimes extreme, sometimes with infinite parts."""
    size = int(rng.integers(2, 6))
    sharp = 10 ** rng.uniform(-3, 1)
    base = rng.dirichlet(np.ones(size))
    tilt = base * np.exp(sharp * rng.normal(size=size))
    p, q = base, tilt / tilt.sum()
    ip, iq = rng.choice([0.0, 0.0, 1e-7, 0.01], 2)
    p, q = p * (1 - ip), q * (1 - iq)
    return Discrete(tuple(np.log(p / q)), tuple(p), tuple(q), float(ip), float(iq))


def enumerate_losses(parts):
    """Exact law of the composed loss: (losses, masses, infinite mass)."""
    losses, masses, log_finite = np.zeros(1), np.ones(1), 0.0
    for pair, count in parts:
        a, p, _, ip, _ = pair.table
        for _ in range(count):
            losses = np.add.outer(losses, a).ravel()
            masses = np.multiply.outer(masses, p).ravel()
        log_finite += count * math.log1p(-ip)
    return losses, masses, -math.expm1(log_finite)


def exact_delta(law, epsilon):
    losses, masses, infinite = law
    return infinite + float(masses @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0))


def exact_delta_both(parts, epsilon):
    swapped = [(pair.swapped(), count) for pair, count in parts]
    return max(exact_delta(enumerate_losses(x), epsilon) for x in (parts, swapped))


@pytest.mark.parametrize("seed", range(12))
def test_delta_brackets_hold_the_exact_value(seed):
    rng = np.random.default_rng(seed)
    parts = [(random_pair(rng), int(rng.integers(1, 5)))]
    if seed % 3 == 0:
        parts.append((random_pair(rng), int(rng.integers(1, 3))))
    orders = two_orders(*parts)
    losses = enumerate_losses(parts)[0]
    top = float(np.abs(losses).max())
    for epsilon in (0.0, 1e-6, 0.3 * top, 0.8 * top, 0.999 * top, top, 1.1 * top):
        truth = exact_delta_both(parts, epsilon)
        bracket = delta_bracket(orders, epsilon)
        assert bracket.upper >= truth * (1 - EXACT) - 1e-300
        assert bracket.lower <= truth * (1 + EXACT) + 1e-300
        assert bracket.lower <= bracket.upper


@pytest.mark.parametrize("seed", range(12))
def test_epsilon_brackets_hold_the_exact_value(seed):
    rng = np.random.default_rng(1000 + seed)
    parts = [(random_pair(rng), int(rng.integers(1, 6)))]
    orders = two_orders(*parts)
    total = exact_delta_both(parts, 0.0)
    for delta in (1e-12, 1e-6, 0.03, 0.5 * total, 0.999 * total, 1.001 * total):
        if not 0 < delta < 1:
            continue
        lower, upper = epsilon_bracket(orders, delta)
        assert 0 <= lower <= upper
        if math.isfinite(upper):
            assert exact_delta_both(parts, upper) <= delta * (1 + EXACT)
        if lower > 0:
            # δ(lower) > delta, so the true ε is at least lower
            assert exact_delta_both(parts, lower * (1 - 1e-12)) >= delta * (1 - 1e-11)


@pytest.mark.parametrize("epsilon0", [1e-3, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_randomised_response_is_exact(epsilon0, count):
    """Kairouz-Oh-Viswanath: a binomial sum, on the lattice and hence exact."""
    k = np.arange(count + 1)
    log_p = (
        gammaln(count + 1)
        - gammaln(k + 1)
        - gammaln(count - k + 1)
        - k * math.log1p(math.exp(-epsilon0))
        - (count - k) * math.log1p(math.exp(epsilon0))
    )
    losses = (2 * k - count) * epsilon0

    def truth(epsilon):
        over = losses > epsilon
        gain = np.log(-np.expm1(epsilon - losses[over]))
        return float(np.exp(logsumexp(log_p[over] + gain))) if over.any() else 0.0

    orders = two_orders((ApproximateDP(epsilon0), count))
    for delta in (1e-9, 1e-5, 0.05):
        bracket = epsilon_bracket(orders, delta)
        assert reached(bracket)  # a steep tilt once underflowed to δ = 0 here
        assert bracket.upper - bracket.lower <= 1e-4 * bracket.upper + 1e-12
        assert truth(bracket.upper) <= delta * (1 + 1e-11)
        if bracket.lower > 0:
            assert truth(bracket.lower) >= delta * (1 - 1e-11)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_approximate_dp_composition_has_the_known_infinite_part(count):
    """The four-point pair: δ(ε) = 1-(1-δ0)^T (1 - δ_pure(ε))."""
    pair, pure = ApproximateDP(0.2, 1e-4), ApproximateDP(0.2)
    for epsilon in (0.0, 0.5, 1.5):
        inner = delta_bracket(two_orders((pure, count)), epsilon)
        outer = delta_bracket(two_orders((pair, count)), epsilon)
        low = 1 - (1 - 1e-4) ** count * (1 - inner.lower)
        high = 1 - (1 - 1e-4) ** count * (1 - inner.upper)
        assert outer.upper >= low * (1 - 1e-12)
        assert outer.lower <= high * (1 + 1e-12)
    spent = 1 - (1 - 1e-4) ** count
    blocked = epsilon_bracket(two_orders((pair, count)), 0.9 * spent)
    # the lower pair is the same, so infinity is the exact answer
    assert tuple(blocked) == (math.inf, math.inf)
    upper_only = [[(pair, None, count)]]
    assert tuple(epsilon_bracket(upper_only, 0.9 * spent)) == (0.0, math.inf)


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(
    ("mu", "count"), [(1.0, 100), (0.01, 10_000), (1e-4, 1_000_000), (2.0, 50)]
)
def test_sampled_gaussians_at_rate_one_are_one_gaussian(mu, count):
    """PoissonSampled at rate 1 takes the lattice route, so this checks the whole engine."""
    step = PoissonSampled(GaussianPair(mu), 1.0)
    total = mu * math.sqrt(count)
    for delta in (1e-10, 1e-5, 0.05):
        lower, upper = epsilon_bracket(two_orders((step, count)), delta)
        if upper > 0:
            assert gaussian_delta(total, upper) <= delta * (1 + 1e-9)
        if lower > 0:
            assert gaussian_delta(total, lower) >= delta * (1 - 1e-9)
        assert upper - lower <= 1e-3 * upper + 1e-9
        exact = epsilon_bracket(two_orders((GaussianPair(mu), count)), delta)
        assert lower <= exact.upper
        assert exact.lower <= upper


def test_lost_infinite_mass_would_be_seen():
    """Mutant: dropping 10 % of the infinite part must break the enumeration check."""
    pair = ApproximateDP(0.1, 0.01)
    mutant = ApproximateDP(0.1, 0.009)
    truth = exact_delta(enumerate_losses([(pair, 3)]), 0.25)
    assert delta_bracket(two_orders((pair, 3)), 0.25).upper >= truth * (1 - EXACT)
    assert delta_bracket(two_orders((mutant, 3)), 0.25).upper < truth * (1 - 1e-3)


def test_a_missing_lower_pair_only_lowers_the_lower_bound():
    pair = ApproximateDP(0.3)
    full = delta_bracket([[(pair, pair, 3), (pair, pair, 2)]], 0.4)
    part = delta_bracket([[(pair, pair, 3), (pair, None, 2)]], 0.4)
    assert part.upper >= full.lower
    assert part.lower <= full.upper
    nothing = delta_bracket([[(pair, None, 3)]], 0.4)
    assert nothing.lower == 0.0


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-3, math.nan])
def test_bad_delta_is_refused(bad):
    with pytest.raises(ValueError, match="delta must be a number in"):
        epsilon_bracket(two_orders((GaussianPair(1.0), 1)), bad)


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_bad_epsilon_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon must be a finite"):
        delta_bracket(two_orders((GaussianPair(1.0), 1)), bad)


def test_nothing_run_costs_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuple(epsilon_bracket([[]], 1e-5)) == (0.0, 0.0)
        assert tuple(delta_bracket([[]], 0.0)) == (0.0, 0.0)
        assert tuple(epsilon_bracket([[(GaussianPair(1.0), None, 0)]], 1e-5)) == (0.0, 0.0)
