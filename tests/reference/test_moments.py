"""The moments accountant, the sharp conversion, and subsampled Gaussians, against quadrature."""

import itertools
import math
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.special import comb, gammaln, logsumexp

from helpers import hockey_stick_of_gaussians, pairwise_covered
from noisette.core import sampling
from noisette.core.accounting import moments as sm
from noisette.core.accounting.moments import MomentsAccountant, RenyiAccountant
from noisette.core.accounting.sums import GaussianAccountant
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Gaussian, Laplace, SphericalLaplace
from noisette.core.plans import Repeat, Sampled, Together

# ---- the lecture / sharp / exact table of iterative.md section 2 (delta = 1e-5, m^2 = T) ----

TABLE = [(0.01, 0.4849, 0.3753, 0.3407), (1.0, 5.2985, 4.72839, 4.3772)]
TABLE += [(16.0, 27.1941, 25.91935, 24.3816)]


def sharp_by_hand(m2: float, delta: float) -> float:
    """min over real orders of a m^2/2 + log(1 - 1/a) - (log delta + log a)/(a - 1), mpmath."""

    def epsilon(t):
        a = 1 + mpmath.exp(t)
        spread = (mpmath.log(delta) + mpmath.log(a)) / (a - 1)
        return a * mpmath.mpf(m2) / 2 + mpmath.log(1 - 1 / a) - spread

    best = optimize.minimize_scalar(
        lambda t: float(epsilon(t)), bounds=(-5, 9), method="bounded", options={"xatol": 1e-12}
    )
    return float(best.fun)


def test_two_numbers_of_the_table_are_off_in_their_last_digit():
    """The reference prints 4.7285 and 25.9195 (a grid); the minima are 4.72839 and 25.91935."""
    assert sharp_by_hand(1.0, 1e-5) == pytest.approx(4.72839, abs=1e-5)
    assert sharp_by_hand(0.01, 1e-5) == pytest.approx(0.3753, abs=5e-5)
    assert sharp_by_hand(16.0, 1e-5) == pytest.approx(25.91935, abs=1e-5)


@pytest.mark.parametrize(("m2", "lecture", "sharp", "exact"), TABLE)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ZERO_OUT], ids=str)
def test_lecture_sharp_and_exact(m2, lecture, sharp, exact, relation):
    if m2 >= 1:
        plan = Repeat(Gaussian(relation.contributions), int(m2))  # mu = 1, T times
    else:
        plan = Gaussian(relation.contributions / math.sqrt(m2))
    got = [
        account().epsilon(plan, delta=1e-5, adjacency=relation)
        for account in (MomentsAccountant, RenyiAccountant, GaussianAccountant)
    ]
    assert got == pytest.approx([lecture, sharp, exact], rel=2e-4)
    # Never below the true minimum over s, and the search over s loses less than 1e-5.
    closed = m2 / 2 + math.sqrt(2 * m2 * math.log(1e5))
    assert closed * (1 - 1e-12) <= got[0] <= closed * (1 + 1e-5)
    by_hand = sharp_by_hand(m2, 1e-5)
    assert by_hand * (1 - 1e-9) <= got[1] <= by_hand * (1 + 1e-5)


@pytest.mark.parametrize("m2", [0.05, 1.0, 9.0])
def test_the_lecture_example_in_closed_form(m2):
    """delta = exp(-(eps - m^2/2)^2 / (2 m^2)) at s = eps/m^2 - 1/2, and 1 below m^2/2."""
    plan = Gaussian(1 / math.sqrt(m2))
    for times in (1.2, 2.0, 5.0):
        epsilon = times * m2 + 2 * math.sqrt(m2)
        expected = math.exp(-((epsilon - m2 / 2) ** 2) / (2 * m2))
        got = MomentsAccountant().delta(plan, epsilon=epsilon, adjacency=ZERO_OUT)
        assert expected * (1 - 1e-9) <= got <= expected * (1 + 1e-3)
    assert MomentsAccountant().delta(plan, epsilon=m2 / 2, adjacency=ZERO_OUT) == 1.0


def test_the_sharp_conversion_gains_its_factor_at_every_s():
    """Renyi delta = lecture delta times (s/(s+1))^s/(s+1), at one common s."""
    for s in (0.2, 1.0, 7.0, 90.0):
        lecture, sharp = MomentsAccountant(np.array([s])), RenyiAccountant(np.array([s]))
        plan, epsilon = Laplace(3.0), 0.9
        factor = (s / (s + 1)) ** s / (s + 1)
        raw = math.exp(lecture.total(plan)[0] - s * epsilon)
        assert sharp.to_delta(sharp.total(plan), epsilon) == pytest.approx(raw * factor, rel=1e-12)
        # max_u (1 - u) u^s on a grid: the factor is right, not merely cited.
        u = np.linspace(0, 1, 200_001)
        assert factor == pytest.approx(((1 - u) * u**s).max(), rel=1e-6)


def test_moments_add_over_steps():
    account = MomentsAccountant()
    parts = [Gaussian(3.0), Laplace(5.0), SphericalLaplace(4.0, 3)]
    total = account.total(Together(Repeat(parts[0], 7), parts[1], Repeat(parts[2], 2)))
    by_hand = sum(
        n * p.log_moment(account.s, REPLACE_ONE) for n, p in zip((7, 1, 2), parts, strict=True)
    )
    np.testing.assert_allclose(total, by_hand, rtol=1e-12)


# ---- Poisson, add-remove and zero-out ----


def integer_order(q: float, z: float, a: int) -> float:
    """sum_k C(a, k) (1-q)^{a-k} q^k e^{k(k-1)/(2 z^2)}, as a Renyi divergence."""
    k = np.arange(a + 1.0)
    log_terms = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    log_terms += (a - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / (2 * z * z)
    return float(logsumexp(log_terms)) / (a - 1)


@pytest.mark.parametrize(
    ("q", "z", "a", "golden"),
    [(0.01, 1.0, 8, 8.936439e-4), (0.1, 2.0, 16, 4.529184e-2), (0.3, 0.8, 3, 0.7649122)],
)
def test_poisson_renyi_goldens(q, z, a, golden):
    got = sm.poisson(np.array([a - 1.0]), q, z)[0] / (a - 1)
    assert got == pytest.approx(golden, rel=2e-7)
    account = RenyiAccountant(np.array([a - 1.0]))
    for relation in (ZERO_OUT, ADD_REMOVE):
        total = account.total(Sampled(Gaussian(z), sampling.Poisson(q)), relation)
        assert total[0] / (a - 1) == pytest.approx(golden, rel=2e-7)


@pytest.mark.parametrize("q", [1e-4, 0.01, 0.2, 0.9])
@pytest.mark.parametrize("z", [0.4, 1.0, 5.0])
def test_poisson_moments_at_integer_orders(q, z):
    for a in (2, 3, 5, 17, 64):
        exact = integer_order(q, z, a) * (a - 1)
        got = sm.poisson(np.array([a - 1.0]), q, z)[0]
        assert exact * (1 - 1e-11) - 1e-15 <= got <= exact * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize(
    ("q", "z", "s"), pairwise_covered([1e-4, 0.05, 0.7], [0.5, 1.0, 4.0], [0.05, 0.6, 2.5, 11.3])
)
def test_poisson_moments_at_real_orders_both_ways_round(q, z, s):
    """mpmath quadrature of both orders of the pair; the claimed one is the larger."""
    with mpmath.workdps(25):
        qq, zz, a = mpmath.mpf(q), mpmath.mpf(z), mpmath.mpf(s) + 1

        def gap(x, order):  # r^a - 1 - a (r - 1) under N(0), or r^{-s} - 1 + s (r - 1)
            r = 1 - qq + qq * mpmath.exp((x - mpmath.mpf("0.5")) / zz**2)
            value = r**a - 1 - a * (r - 1) if order else r ** (1 - a) - 1 + (a - 1) * (r - 1)
            return mpmath.npdf(x, 0, zz) * value

        top = max(float(a), 1.0)
        cuts = sorted({-12 * z, -5 * z, 0.0, 0.5, 1.0, top / 2, top, top + 5 * z, top + 12 * z})
        both = [mpmath.log1p(mpmath.quad(lambda x, o=o: gap(x, o), cuts)) for o in (True, False)]
    got = sm.poisson(np.array([s]), q, z)[0]
    assert got >= float(max(both)) * (1 - 1e-10)
    assert got <= float(both[0]) * (1 + 1e-6)


# ---- Poisson, replace-one ----


@pytest.mark.parametrize(
    ("q", "z", "s"), pairwise_covered([1e-3, 0.05, 0.7], [0.6, 1.0, 4.0], [0.05, 1.0, 4.4])
)
def test_poisson_replace_by_quadrature_of_the_densities(q, z, s):
    """E_P (p/q)^s straight from the two mixtures, scipy quadrature, no algebra."""

    def log_mix(x, centre):
        a = math.log1p(-q) - x * x / (2 * z * z)
        b = math.log(q) - (x - centre) ** 2 / (2 * z * z)
        return np.logaddexp(a, b) - math.log(z * math.sqrt(2 * math.pi))

    def integrand(x):
        p, r = log_mix(x, 1.0), log_mix(x, -1.0)
        return math.exp(p) * math.expm1(s * (p - r)) - s * math.exp(p) * -math.expm1(r - p)

    edges = np.linspace(-12 * z - 1, 2 * (s + 1) + 12 * z, 41)
    excess = math.fsum(
        integrate.quad(integrand, u, v, epsabs=0, epsrel=1e-9, limit=100)[0]
        for u, v in itertools.pairwise(edges)
    )
    exact = math.log1p(excess)
    got = sm.poisson(np.array([s]), q, z, replaced=True)[0]
    assert exact * (1 - 1e-7) <= got <= exact * (1 + 1e-5)
    assert got >= sm.poisson(np.array([s]), q, z)[0] * (1 - 1e-9)


def test_rate_one_is_the_plain_gaussian():
    s = np.array([0.3, 1.0, 2.0])
    near = 1 - 1e-12
    for z in (0.8, 3.0):
        np.testing.assert_allclose(sm.poisson(s, near, z), s * (s + 1) / (2 * z * z), rtol=1e-8)
        for function in (partial(sm.poisson, replaced=True), sm.without_replacement):
            np.testing.assert_allclose(
                function(s, near, z), 4 * s * (s + 1) / (2 * z * z), rtol=1e-8
            )
    plan = Sampled(Gaussian(3.0), sampling.Poisson(1.0))
    for relation in (REPLACE_ONE, ZERO_OUT):
        sampled, plain = (
            RenyiAccountant().epsilon(p, delta=1e-6, adjacency=relation)
            for p in (plan, Gaussian(3.0))
        )
        assert sampled == plain


# ---- fixed size without replacement, replace-one ----


def wor_curve(q: float, z: float, x: float) -> float:
    """h(e^x) = q H_{1 + (e^x - 1)/q} of Gaussians at distance 2 and std z, x >= 0."""
    return q * hockey_stick_of_gaussians(2.0 / z, math.log1p(math.expm1(x) / q))


@pytest.mark.parametrize(
    ("q", "z", "s"), pairwise_covered([0.01, 0.2, 0.8], [1.0, 2.0, 8.0], [0.1, 1.0, 3.7])
)
def test_without_replacement_from_its_hockey_stick_curve(q, z, s):
    """E e^{sL} = 1 + s(s+1) * integral of (e^{sx} + e^{-(s+1)x}) h(e^x): no density is used."""
    top = 4 * (s + 1) / z**2 + 24 / z
    edges = np.linspace(0.0, top, 25)
    total = math.fsum(
        integrate.quad(
            lambda x: (math.exp(s * x) + math.exp(-(s + 1) * x)) * wor_curve(q, z, x),
            u,
            v,
            epsabs=1e-15,
            epsrel=1e-9,
            limit=100,
        )[0]
        for u, v in itertools.pairwise(edges)
    )
    exact = math.log1p(s * (s + 1) * total)
    got = sm.without_replacement(np.array([s]), q, z)[0]
    assert got == pytest.approx(exact, rel=2e-6)
    assert got >= exact * (1 - 1e-6)


@mpmath.workdps(60)
@pytest.mark.parametrize(
    ("s", "q", "z"), [(1e-2, 0.5, 1.0), (1e-3, 0.5, 0.3), (1e-5, 0.5, 0.2), (1e-5, 0.5, 0.5)]
)
def test_moments_of_fixed_batches_near_order_one(s, q, z):
    """A series cut at t^9 was used wherever s t is small, also for t far above 1."""
    std, order = mpmath.mpf(z) / 2, 1 + mpmath.mpf(s)

    def integrand(x):
        r = 1 - mpmath.mpf(q) + mpmath.mpf(q) * mpmath.exp((x - 0.5) / std**2)
        weight = mpmath.exp(-x * x / (2 * std**2)) / (std * mpmath.sqrt(2 * mpmath.pi))
        return weight * (r**order - r + r ** (1 - order) - 1)

    exact = mpmath.log1p(mpmath.quad(integrand, [0.5 + k * std / 2 for k in range(61)]))
    found = float(sm.without_replacement(np.array([s]), q, z)[0])
    assert exact <= found <= exact * (1 + 1e-8)


@pytest.mark.parametrize("q", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("z", [0.7, 2.0, 10.0])
def test_without_replacement_is_never_below_the_attained_pair(q, z):
    """The pair ((1-q) N(0) + q N(1), N(0)) at std z/2 really occurs, in both orders."""
    s = np.array([0.05, 0.5, 1.0, 3.0, 9.0])
    attained = sm.poisson(s, q, z / 2)
    got = sm.without_replacement(s, q, z)
    assert np.all(got >= attained * (1 - 1e-9))
    assert np.all(got <= 4 * s * (s + 1) / (2 * z * z) * (1 + 1e-12))
    assert np.all(got >= sm.poisson(s, q, z, replaced=True) * (1 - 1e-9))


@pytest.mark.parametrize("a", [2, 3, 4])
@pytest.mark.parametrize(("q", "z"), [(0.01, 4.0), (0.1, 2.0)])
def test_without_replacement_is_within_the_published_integer_bound(a, q, z):
    """Wang, Balle and Kasiviswanathan 2019 for integer orders, which is looser."""
    e2 = math.exp(2 * 2 / z**2)
    terms = 1 + q**2 * comb(a, 2) * min(4 * (e2 - 1), 2 * e2)
    terms += sum(2 * q**j * comb(a, j) * math.exp((j - 1) * 2 * j / z**2) for j in range(3, a + 1))
    assert sm.without_replacement(np.array([a - 1.0]), q, z)[0] <= math.log(terms)


@pytest.mark.parametrize("q", [1e-6, 1e-8, 1e-10])
def test_moments_of_tiny_rates_are_rounded_up(q):
    # Was: r^a - 1 - a (r - 1) cancels for r - 1 ~ q, so the "round up" of 1e-9 is too small.
    for s, z in ((0.01, 1.0), (1.0, 1.0), (8.0, 1.0)):
        with mpmath.workdps(60):
            qq, a = mpmath.mpf(q), mpmath.mpf(s) + 1
            exact = mpmath.log1p(
                mpmath.quad(
                    lambda x, qq=qq, a=a: (
                        mpmath.npdf(x)
                        * (
                            (1 + qq * mpmath.expm1(x - 0.5)) ** a
                            - 1
                            - a * qq * mpmath.expm1(x - 0.5)
                        )
                    ),
                    [-14, -8, -4, -2, 0, 1, 2, 4, 8, 12, 20, 30, 40],
                )
            )
        got = sm.poisson(np.array([s]), q, z)[0]
        assert got >= float(exact) * (1 - 1e-12)


def test_without_replacement_has_no_jump_for_large_orders():
    # Was loose: where order * log ratio > 300 the value jumps to at least log 2.
    q, z = 1e-8, 1.0
    values = sm.without_replacement(np.array([7.0, 8.0]), q, z)
    assert values[1] < 1e-3


# ---- whole runs: the moments accountant is an upper bound on certified numbers ----


@pytest.mark.parametrize(
    ("q", "z", "steps", "delta", "true"),
    [
        (0.01, 1.0, 1000, 1e-5, 1.8282367),
        (0.05, 2.0, 2000, 1e-6, 6.1065516),
        (0.001, 0.8, 100_000, 1e-6, 2.9144783),
        (0.3, 5.0, 100_000, 1e-8, 288.461244),
    ],
)
def test_poisson_add_remove_runs(q, z, steps, delta, true):
    plan = Repeat(Sampled(Gaussian(z), sampling.Poisson(q)), steps)
    sharp = RenyiAccountant().epsilon(plan, delta=delta, adjacency=ZERO_OUT)
    lecture = MomentsAccountant().epsilon(plan, delta=delta, adjacency=ADD_REMOVE)
    assert true <= sharp <= 1.25 * true
    assert sharp < lecture < 1.6 * true


@pytest.mark.parametrize(
    ("q", "z", "steps", "poisson", "fixed"),
    [(0.01, 2.0, 1000, 1.2052, 1.8282), (0.05, 6.0, 500, 1.4370, 1.5241)],
)
def test_replace_one_runs(q, z, steps, poisson, fixed):
    """iterative.md section 3 with the review's digits: exact Poisson, attained lower for WOR."""
    n = 10_000
    sharp = RenyiAccountant()
    run = Repeat(Sampled(Gaussian(z), sampling.Poisson(q)), steps)
    assert poisson <= sharp.epsilon(run, delta=1e-5) <= 1.3 * poisson
    run = Repeat(Sampled(Gaussian(z), sampling.WithoutReplacement(round(q * n), n)), steps)
    assert fixed <= sharp.epsilon(run, delta=1e-5) <= 1.5 * fixed


def test_another_library_agrees_on_poisson_moments():
    rdp = pytest.importorskip("dp_accounting.rdp")
    import dp_accounting

    orders = [1.5, 2.0, 3.3, 8.0, 20.0]
    for q, z in ((0.01, 1.0), (0.2, 3.0)):
        other = rdp.RdpAccountant(orders)
        event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
        other.compose(event, 7)
        theirs = np.array(other._rdp)
        s = np.array(orders) - 1
        ours = 7 * sm.poisson(s, q, z) / s
        whole = s == np.rint(s)
        np.testing.assert_allclose(ours[whole], theirs[whole], rtol=1e-6)
        assert np.all(ours <= theirs * (1 + 1e-6))  # they interpolate between whole orders
