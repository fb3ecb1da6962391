"""What every privacy filter promises: costs add, the limit is fixed by the total, and it holds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from helpers import hockey_stick_of_gaussians
from noisette.core import sampling
from noisette.core.accounting.filters import FILTERS, GaussianFilter, RenyiFilter, SumFilter
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace, SphericalLaplace
from noisette.core.plans import Repeat, Sampled, Together
from noisette.errors import InvalidParameter, Unproven

TOTAL = (2.0, 1e-6)
OWN = (0.1, 1e-8)
"""The (epsilon, delta) of the charged plan by itself; only `sums` looks at it."""
every_filter = pytest.mark.parametrize("name", list(FILTERS))


@every_filter
def test_has_a_name_a_proof_and_a_positive_limit(name):
    rule = FILTERS[name](*TOTAL)
    assert rule.name == name
    assert rule.proof
    assert len(rule.limit) == 2
    assert rule.limit[0] > 0.0


@every_filter
def test_cost_is_additive_over_repetition(name):
    rule = FILTERS[name](*TOTAL)
    plan = Gaussian(50.0)
    if name == "sums":
        assert rule.cost(Repeat(plan, 9), (0.3, 1e-8), REPLACE_ONE) == (0.3, 1e-8)
        return
    once = rule.cost(plan, OWN, REPLACE_ONE)[0]
    assert rule.cost(Repeat(plan, 9), OWN, REPLACE_ONE)[0] == pytest.approx(9 * once, rel=1e-12)
    both = rule.cost(Together(plan, Repeat(plan, 3)), OWN, REPLACE_ONE)[0]
    assert both == pytest.approx(4 * once, rel=1e-12)


@every_filter
@given(costs=st.lists(st.floats(1e-6, 2.0), min_size=1, max_size=30))
def test_accepts_until_full_and_never_beyond(name, costs):
    rule = FILTERS[name](*TOTAL)
    spent = []
    for cost in costs:
        before = math.fsum(c[0] for c in spent)
        fits = math.fsum([*(c[0] for c in spent), cost]) <= rule.limit[0]
        assert rule.accepts(spent, (cost, 0.0)) == fits
        if fits:
            spent.append((cost, 0.0))
        assert math.fsum(c[0] for c in spent) <= rule.limit[0]
        assert math.fsum(c[0] for c in spent) >= before


@every_filter
def test_the_second_component_counts_as_well(name):
    rule = FILTERS[name](*TOTAL)
    assert rule.accepts([], (0.0, rule.limit[1]))
    assert not rule.accepts([(0.0, rule.limit[1])], (0.0, 1e-9))


def test_ten_tenths_are_one_and_not_a_rounding_error():
    rule = SumFilter(1.0, 0.0)
    assert rule.accepts([(0.1, 0.0)] * 9, (0.1, 0.0))
    assert not rule.accepts([(0.1, 0.0)] * 10, (1e-9, 0.0))


def test_renyi_limit_is_feldman_and_zrnic_at_one_fixed_order():
    rule = RenyiFilter(*TOTAL)
    a = rule.order
    expected = 2.0 - math.log(1 - 1 / a) + (math.log(1e-6) + math.log(a)) / (a - 1)
    assert rule.limit == (pytest.approx(expected, rel=1e-13), 0.0)
    rule.cost(Gaussian(50.0), OWN, REPLACE_ONE)
    assert rule.order == a == RenyiFilter(*TOTAL).order  # from the total alone, and it stays


def test_renyi_cost_is_the_divergence_at_that_order():
    rule = RenyiFilter(*TOTAL)
    for relation in (REPLACE_ONE, ZERO_OUT):
        mu = relation.contributions / 50.0
        cost = rule.cost(Repeat(Gaussian(50.0), 7), OWN, relation)[0]
        assert cost == pytest.approx(7 * rule.order * mu * mu / 2, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-9)])
def test_a_full_renyi_ledger_of_gaussians_is_within_its_total(epsilon, delta):
    """Independent: the exact Gaussian curve of everything the filter can accept."""
    rule = RenyiFilter(epsilon, delta)
    mu = math.sqrt(2.0 * rule.limit[0] / rule.order)
    exact = hockey_stick_of_gaussians(mu, epsilon)
    assert exact <= delta
    assert exact > 1e-3 * delta  # and it is not absurdly careful
    # No other single order would have allowed much more Gaussian noise.
    best = minimize_scalar(
        lambda t: -rule._limit(1 + math.exp(t)) / (1 + math.exp(t)),
        bounds=(-5, 10),
        method="bounded",
    )
    assert rule.limit[0] / rule.order >= -best.fun * (1 - 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-9)])
def test_a_full_gdp_ledger_is_exactly_its_total(epsilon, delta):
    rule = GaussianFilter(epsilon, delta)
    exact = hockey_stick_of_gaussians(math.sqrt(rule.limit[0]), epsilon)
    assert exact == pytest.approx(delta, rel=1e-7)
    assert rule.cost(Repeat(Gaussian(4.0), 3), OWN, REPLACE_ONE)[0] == pytest.approx(3 / 4)
    assert rule.cost(Repeat(Gaussian(4.0), 3), OWN, ADD_REMOVE)[0] == pytest.approx(3 / 16)


def test_gdp_takes_only_gaussians_and_counts_sampling_in_full():
    rule = GaussianFilter(*TOTAL)
    with pytest.raises(Unproven, match="renyi"):
        rule.cost(Laplace(10.0), OWN, REPLACE_ONE)
    with pytest.raises(Unproven, match="Gaussian"):
        rule.cost(Together(Gaussian(9.0), SphericalLaplace(9.0, 2)), OWN, REPLACE_ONE)
    sampled = Sampled(Gaussian(4.0), sampling.Poisson(0.01))
    assert rule.cost(sampled, OWN, ZERO_OUT) == rule.cost(Gaussian(4.0), OWN, ZERO_OUT)


@every_filter
def test_what_has_no_bound_is_refused_before_booking(name):
    ledger = Ledger(*TOTAL, rule=name)
    with pytest.raises(Unproven, match=r"delta=1e-6"):
        ledger.charge(Gaussian(9.0), label="x", delta=0.0)
    assert ledger.charges == []


@every_filter
def test_a_rule_that_cannot_serve_delta_zero_says_so(name):
    if name == "sums":
        assert SumFilter(1.0, 0.0).limit == (1.0, 0.0)
        return
    with pytest.raises(InvalidParameter, match="sums"):
        FILTERS[name](1.0, 0.0)


@every_filter
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-9), (1e-6, 1e-12), (100.0, 1e-3)])
def test_extreme_totals_are_served_or_refused_in_one_sentence(name, epsilon, delta):
    try:
        rule = FILTERS[name](epsilon, delta)
    except InvalidParameter as error:
        assert str(error).endswith(".")  # noqa: PT017
        return
    assert np.isfinite(rule.limit).all()
    if name != "sums":
        mu2 = rule.limit[0] if name == "gdp" else 2.0 * rule.limit[0] / rule.order
        assert hockey_stick_of_gaussians(math.sqrt(mu2), epsilon) <= delta * (1 + 1e-6)
