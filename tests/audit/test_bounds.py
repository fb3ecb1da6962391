"""The exact bounds of the audit against independent arithmetic, and the betting test's error."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noisette.audit import bounds
from noisette.audit.bounds import Betting, best_stake
from noisette.core.mechanisms.gaussian_curve import gdp_delta
from noisette.errors import InvalidParameter


@pytest.mark.parametrize("level", [0.001, 0.025, 0.2])
def test_clopper_pearson_against_scipy(level):
    for k, n in [(0, 7), (1, 7), (7, 7), (50, 1000), (999, 1000)]:
        interval = stats.binomtest(k, n).proportion_ci(1 - 2 * level, method="exact")
        assert bounds.at_least(k, n, level) == pytest.approx(interval.low, abs=1e-12)
        assert bounds.at_most(k, n, level) == pytest.approx(interval.high, abs=1e-12)


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.97])
def test_clopper_pearson_never_errs_more_often_than_stated(p):
    """Exact coverage: sum the binomial probabilities of the counts whose bound is wrong."""
    n, level = 60, 0.05
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k, n, p)
    assert mass[bounds.at_least(k, n, level) > p].sum() <= level
    assert mass[bounds.at_most(k, n, level) < p].sum() <= level
    if p == 0.5:  # and the bounds are not idle
        assert mass[bounds.at_least(k, n, level) > p].sum() > level / 4
        assert mass[bounds.at_most(k, n, level) < p].sum() > level / 4


def test_epsilon_lower_by_hand():
    p = stats.binomtest(700, 1000).proportion_ci(0.99, method="exact").low
    q = stats.binomtest(110, 1000).proportion_ci(0.99, method="exact").high
    found = bounds.epsilon_lower(700, 1000, 110, 1000, 0.01, 0.01)
    assert found == pytest.approx(math.log((p - 0.01) / q), rel=1e-12)
    assert bounds.epsilon_lower(110, 1000, 700, 1000, 0.0, 0.01) < 0.0
    assert bounds.epsilon_lower(0, 10, 0, 10, 0.1, 0.01) == -math.inf


def test_mu_lower_is_never_an_absolute_value():
    """A test that is worse than a coin gives a negative number; |.| would give a false alarm."""
    assert bounds.mu_lower(900, 1000, 100, 1000, 0.01) > 2.0
    assert bounds.mu_lower(100, 1000, 900, 1000, 0.01) < -2.0
    assert bounds.mu_lower(0, 10, 10, 10, 0.01) == -math.inf
    assert math.isfinite(bounds.mu_lower(10, 10, 0, 10, 0.01))
    fpr = stats.binomtest(100, 1000).proportion_ci(0.99, method="exact").high
    fnr = stats.binomtest(100, 1000).proportion_ci(0.99, method="exact").high
    wanted = stats.norm.ppf(1 - fpr) - stats.norm.ppf(fnr)
    assert bounds.mu_lower(900, 1000, 100, 1000, 0.01) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(
    ("m", "r", "v", "epsilon"),
    [
        (1000, 1000, 1000, 5.7823),
        (1000, 100, 100, 3.4654),
        (100, 100, 100, 3.4902),
        (1000, 100, 88, 1.4644),
        (1000, 300, 264, 1.6915),
    ],
)
def test_one_run_goldens(m, r, v, epsilon):
    """The five values of the reference, confirmed by its review."""
    assert bounds.one_run_epsilon(m, r, v, 1e-5, 0.95) == pytest.approx(epsilon, abs=5e-5)


def test_one_run_p_value_by_enumeration():
    m, r, v, epsilon, delta = 40, 20, 17, 0.7, 1e-3
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, j) * q**j * (1 - q) ** (r - j) for j in range(r + 1)]
    beta = sum(mass[v:])
    alpha = max(sum(mass[v - i : v]) / i for i in range(1, v + 1))
    found = bounds.one_run_p_value(m, r, v, epsilon, delta)
    assert found == pytest.approx(beta + 2 * m * delta * alpha, rel=1e-12)
    assert bounds.one_run_p_value(m, r, v, epsilon) == pytest.approx(beta, rel=1e-12)
    assert bounds.one_run_p_value(m, r, 0, epsilon) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 200), st.integers(0, 200), st.floats(0, 4), st.floats(0, 4), st.floats(0, 0.01)
)
def test_one_run_p_value_grows_with_epsilon(r, v, one, two, delta):
    v = min(v, r)
    low, high = sorted((one, two))
    small = bounds.one_run_p_value(2 * r, r, v, low, delta)
    assert small <= bounds.one_run_p_value(2 * r, r, v, high, delta) * (1 + 1e-9) + 1e-15


def test_randomised_response_reaches_the_stated_row():
    """260 guesses, reject at 212: the reference's size 9.7e-4 and power 0.9992 at epsilon 2."""
    size = bounds.one_run_p_value(260, 260, 212, 1.0)
    assert size == pytest.approx(9.7e-4, rel=0.01)
    q = math.exp(2) / (1 + math.exp(2))
    assert stats.binom.sf(211, 260, q) == pytest.approx(0.9992, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bounds.one_run_p_value(10, 20, 5, 1.0), "correct <= guesses <= canaries"),
        (lambda: bounds.one_run_p_value(10, 5, 6, 1.0), "correct <= guesses <= canaries"),
        (lambda: bounds.one_run_epsilon(10, 5, 5, 0.0, 1.0), "confidence must be"),
    ],
)
def test_mistakes(call, words):
    with pytest.raises(InvalidParameter, match=words):
        call()


# --- betting -----------------------------------------------------------------------------------


def pairs(generator, p, q, size):
    return generator.random(size) < p, generator.random(size) < q


@pytest.mark.parametrize(("epsilon", "delta", "q"), [(1.0, 0.0, 0.2), (0.3, 0.05, 0.4)])
def test_wealth_does_not_grow_on_average_under_a_true_claim(epsilon, delta, q):
    """E[factor] = 1 exactly on the boundary p = e^eps q + delta, for every allowed stake."""
    p = math.exp(epsilon) * q + delta
    chance = {(1, 0): p * (1 - q), (1, 1): p * q, (0, 1): (1 - p) * q, (0, 0): (1 - p) * (1 - q)}
    for (a, b), weight in chance.items():
        assert weight >= 0, (a, b)
    one = [(np.array([bool(a)]), np.array([bool(b)]), weight) for (a, b), weight in chance.items()]
    for stake in (0.01, 0.3 / math.exp(epsilon), 0.9 / (math.exp(epsilon) + delta)):
        mean = 0.0
        for a, b, weight in one:
            test = Betting(epsilon, delta, 0.05, stake)
            test.add(a, b)
            mean += weight * math.exp(test._log_wealth(test._counts, epsilon, delta)[-1])
        # stakes of the grid that are not allowed count as 0, so the mean is below 1, never above
        assert 0.5 < mean <= 1.0 + 1e-12


def false_alarms(audits, bias=0.0):
    """Share of true claims on the boundary that are rejected at 0.05, looking all the time."""
    generator = np.random.default_rng(7)
    count = 0
    for _ in range(audits):
        test = Betting(1.0, 0.0, 0.05, best_stake(0.6, 0.15, 1.0, 0.0))
        a, b = pairs(generator, math.exp(1) * 0.2 + bias, 0.2, 600)
        count += test.add(a, b) is not None
    return count / audits


def test_looking_after_every_pair_keeps_the_level():
    """400 audits at level 5 %: above 8 % with probability below 1 % even at the full level."""
    assert false_alarms(400) <= 0.08
    assert false_alarms(50, bias=0.25) > 0.9  # and a false claim is found


def test_a_fixed_test_looked_at_after_every_pair_does_not_keep_it():
    """The mutant: Clopper-Pearson after every pair at the same level errs far more often."""
    generator = np.random.default_rng(7)
    count, once = 0, 0
    for _ in range(200):
        a, b = pairs(generator, math.exp(1) * 0.2, 0.2, 600)
        t = np.arange(1, 601)
        lower = bounds.epsilon_lower(a.cumsum(), t, b.cumsum(), t, 0.0, 0.3)
        count += bool((lower > 1.0).any())
        once += bool(lower[-1] > 1.0)
    # a single look at this level errs at most 30 % (in truth far less); many looks err more
    assert count > 3 * max(once, 1)


def test_a_false_claim_is_found_early():
    generator = np.random.default_rng(3)
    needed = []
    for _ in range(100):
        test = Betting(1.0, 0.0, 1e-3, best_stake(0.697, 0.1116, 1.0, 0.0))
        a, b = pairs(generator, 0.697, 0.1116, 2000)
        needed.append(test.add(a, b))
    assert None not in needed
    assert np.mean(needed) < 200  # the fixed test of the same size needs 458


def test_the_betting_bound_covers_and_is_monotone():
    generator = np.random.default_rng(5)
    wrong, values = 0, []
    for _ in range(200):
        test = Betting(1.0, 0.0, 0.05, 0.25)
        test.add(*pairs(generator, 0.6, 0.15, 800))
        value = test.lower(lambda e: (e, 0.0), 0.0, 30.0)
        values.append(value)
        wrong += value > math.log(0.6 / 0.15)
    assert wrong / 200 <= 0.1  # stated 5 %; 10 % has probability 3e-3 at the full level
    assert np.mean(values) > 1.0
    wealth = [test._log_wealth(test._counts[-1:], e, 0.01)[0] for e in np.linspace(0, 4, 50)]
    assert all(x >= y - 1e-12 for x, y in itertools.pairwise(wealth))
    wealth = [test._log_wealth(test._counts[-1:], 0.5, float(gdp_delta(m, 0.5))) for m in (0.1, 1)]
    assert wealth[0] >= wealth[1]


def test_pieces_do_not_change_the_answer():
    generator = np.random.default_rng(11)
    a, b = pairs(generator, 0.7, 0.1, 300)
    whole, parts = (Betting(1.0, 0.0, 1e-3, 0.25) for _ in range(2))
    needed = whole.add(a, b)
    done = 0
    for start in range(0, 300, 37):
        found = parts.add(a[start : start + 37], b[start : start + 37])
        if found is not None:
            done += found
            break
        done += 37
    assert needed == done
    assert whole.lower(lambda e: (e, 0.0), 0.0, 30.0) >= 1.0
