"""The best of a random number of runs: the bound against exact enumeration, for every law.

A run with finitely many outcomes, ordered by score, has Pr[best is y] = f(F(y)) - f(F(y-)), with f
the generating function of the number of runs and F the distribution of one run. So the exact curve
of a search is a finite sum, written here again from the probabilities of the law.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from noisette.core import accounting, plans
from noisette.core.accounting import selected
from noisette.core.accounting.selected import concave_majorant, search_curve
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Gaussian, Laplace, RandomizedResponse
from noisette.core.mechanisms.gaussian_curve import gdp_mu
from noisette.core.plans import Declared, Parallel, Repeat, Run, Selected, Together
from noisette.core.plans.laws import RunLaw, _hazard_table
from noisette.errors import InvalidParameter, Unproven

LAWS = [
    plans.Logarithmic(3.0),
    plans.Logarithmic(10.0),
    plans.Geometric(2.0),
    plans.Geometric(10.0),
    plans.NegativeBinomial(5.0, -0.5),
    plans.NegativeBinomial(20.0, 2.0),
    plans.PoissonRuns(1.5),
    plans.PoissonRuns(10.0),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=repr)


def generating(law, x):
    """E x^K from the probabilities, as far as the tail weighs 1e-14."""
    p = law.probabilities(4000)
    p = p[: int(np.searchsorted(np.cumsum(p), 1.0 - 1e-14)) + 1]
    return np.polynomial.polynomial.polyval(x, np.concatenate(([0.0], p)))


def best_of(law, masses):
    """Law of the best of K runs; outcomes are given from the worst to the best."""
    ends = np.concatenate(([0.0], np.minimum(np.cumsum(masses), 1.0)))
    ends[-1] = 1.0
    return np.diff(generating(law, ends))


def hockey_stick(a, b, epsilon):
    """Both orders of neighbours."""
    gain = math.exp(epsilon)
    return max(np.maximum(a - gain * b, 0.0).sum(), np.maximum(b - gain * a, 0.0).sum())


def exact_delta(law, p, q, epsilon):
    return hockey_stick(best_of(law, p), best_of(law, q), epsilon)


def exact_epsilon(law, p, q, delta):
    a, b = best_of(law, p), best_of(law, q)
    low, high = 0.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if hockey_stick(a, b, middle) <= delta else (middle, high)
    return high


@every_law
def test_the_law_is_what_it_says(law):
    """Probabilities sum to 1, have the mean, and are those of the weight f'(1 - s)."""
    p = law.probabilities(4000)
    assert p.sum() == pytest.approx(1.0, abs=1e-10)
    assert p @ np.arange(1, len(p) + 1) == pytest.approx(law.mean, rel=1e-9)
    s = np.array([0.0, 0.01, 0.3, 1.0])
    k = np.arange(1, len(p) + 1)
    direct = np.power.outer(1.0 - s, k - 1.0) @ (k * p)
    assert law.weight(s) == pytest.approx(direct, rel=1e-9)


@every_law
def test_draws_follow_the_law(law):
    """The coins give the probabilities to 1e-11; the draws pass chi-square (level 1e-4, one seed).

    A law with another mean must fail.
    """
    hazards = np.array(_hazard_table(law)[:60])
    survives = np.concatenate(([1.0], np.cumprod(1.0 - hazards)[:-1]))
    assert hazards * survives == pytest.approx(law.probabilities(60), rel=1e-11, abs=1e-200)
    generator = np.random.default_rng(5)
    draws = np.array([law.draw(generator) for _ in range(40_000)])

    def statistic(claimed):
        p = claimed.probabilities(4000)
        edges = np.unique(np.searchsorted(np.cumsum(p), np.linspace(0.0, 1.0, 12)[1:-1]))
        cells = np.bincount(np.searchsorted(edges, draws - 1), minlength=len(edges) + 1)
        wanted = np.add.reduceat(p, np.concatenate(([0], edges + 1)))
        return float((((cells - 4e4 * wanted) ** 2) / (4e4 * wanted)).sum())

    assert statistic(law) < 40.0
    other = RunLaw.from_dict(law.to_dict() | {"mean": 1.0 + 1.5 * (law.mean - 1.0)})
    assert statistic(other) > 40.0


@every_law
@pytest.mark.parametrize("base", [0.3, 1.0, 2.5])
def test_runs_of_randomised_response_never_exceed_the_bound(law, base):
    """Both outcomes may be the better one; the pure epsilon and the whole curve hold."""
    search = Selected(RandomizedResponse(base), law=law)
    p = np.array([math.exp(base), 1.0]) / (1.0 + math.exp(base))
    pure = accounting.epsilon(search, delta=0.0)
    assert base < pure
    for first, second in ((p, p[::-1]), (p[::-1], p)):
        a, b = best_of(law, first), best_of(law, second)
        assert np.abs(np.log(a / b)).max() <= pure
        for epsilon in (0.0, 0.5 * base, base, 1.3 * base):
            exact = exact_delta(law, first, second, epsilon)
            assert exact <= accounting.delta(search, epsilon=epsilon) * (1 + 1e-9)


@every_law
def test_the_pure_bound_is_attained_where_the_coin_between_equal_scores_is_seen(law):
    """Split each answer into 400 equal scores: their order is then released, and the bound met."""
    base = 1.0
    p = np.repeat([math.exp(base), 1.0], 400) / 400 / (1.0 + math.exp(base))
    a, b = best_of(law, p), best_of(law, p[::-1])
    attained = np.abs(np.log(a / b)).max()
    pure = accounting.epsilon(Selected(RandomizedResponse(base), law=law), delta=0.0)
    assert attained <= pure
    assert attained > 0.98 * pure


@every_law
def test_runs_with_a_delta_of_their_own(law):
    """Four outcomes that attain (1, 1e-3): with a tiny chance a run says whose data it saw."""
    epsilon, delta = 1.0, 1e-3
    rest, small = 1.0 - delta, math.exp(-epsilon)
    p = np.array([0.0, rest / (1 + small), rest * small / (1 + small), delta])
    search = Selected(Declared(epsilon, delta), law=law)
    orders = (p, p[::-1]), (p[[1, 0, 3, 2]], p[::-1][[1, 0, 3, 2]])
    for first, second in orders:
        for at in (0.0, 0.7, 1.0, 1.6, 2.5):
            exact = exact_delta(law, first, second, at)
            assert exact <= accounting.delta(search, epsilon=at) * (1 + 1e-9)


@pytest.mark.parametrize("law", [x for x in LAWS if x.mean > 2], ids=repr)
def test_gaussian_runs_hold_and_are_tight(law):
    """Discretised N(0, 1) against N(mu, 1), in bad orders: within 10 % of the bound, below it.

    Best are outcomes that speak for D', then the few that speak most for D, then the rest: for
    those few, "better" has much more mass under D' while the outcome itself tells D.
    """
    mu, delta = gdp_mu(1.0, 1e-6), 1e-6
    edges = np.linspace(-8.0, 8.0, 1501)
    p, q = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges - mu))
    p, q = p / p.sum(), q / q.sum()
    bound = accounting.epsilon(Selected(Gaussian(2.0 / mu), law=law), delta=delta)
    reached = 0.0
    low = edges[:-1] < -3.0
    for share in (0.02, 0.1, 0.3, 0.5):
        top = edges[:-1] > norm.isf(share)
        order = np.concatenate([np.flatnonzero(part) for part in (~low & ~top, low, top)])
        reached = max(reached, exact_epsilon(law, p[order], q[order], delta))
    assert reached <= bound
    assert reached > 0.9 * bound


def test_the_published_figure():
    """Base (1, 1e-6), mean 10, logarithmic: 1.391 by the reference, at most 1.40."""
    z = 2.0 / gdp_mu(1.0, 1e-6)
    figure = {
        plans.Logarithmic(10.0): (1.387, 1.40),
        plans.Geometric(10.0): (1.45, 1.48),
        plans.Logarithmic(50.0): (1.59, 1.62),
    }
    for law, (least, most) in figure.items():
        search = Selected(Gaussian(z), law=law)
        found = accounting.epsilon(search, delta=1e-6)
        assert least < found < most
        assert accounting.delta(search, epsilon=found) <= 1e-6 * (1 + 1e-9)
        assert accounting.delta(search, epsilon=0.999 * found) > 0.9e-6


def test_far_out_readings():
    """A delta near 1 needs no epsilon; beyond the last point the curve counts as flat."""
    search = Selected(Gaussian(1e4), law=plans.Logarithmic(2.0))
    assert accounting.epsilon(search, delta=0.9) == 0.0
    assert 0.0 < accounting.epsilon(search, delta=1e-4) < 0.01
    assert accounting.delta(Selected(Gaussian(0.5), law=plans.Logarithmic(2.0)), epsilon=900.0) < 1


def test_a_search_composes_and_a_tiny_other_charge_costs_little():
    search = Selected(Gaussian(10.0), law=plans.Logarithmic(5.0))
    alone = accounting.epsilon(search, delta=1e-6)
    beside = accounting.epsilon(Together(search, Gaussian(1e6)), delta=1e-6)
    assert alone < beside < 1.01 * alone
    twice = accounting.epsilon(Repeat(search, 2), delta=1e-6)
    assert alone < twice < 2 * alone
    sums = 2.0 * accounting.epsilon(search, delta=5e-7)
    assert accounting.ACCOUNTANTS["linear"]().epsilon(
        Repeat(search, 2), delta=1e-6
    ) == pytest.approx(sums, rel=1e-6)


def test_the_composed_pair_is_above_exact_products():
    """Two searches over randomised responses: all pairs of answers, enumerated."""
    law, base = plans.Logarithmic(4.0), 0.8
    p = np.array([math.exp(base), 1.0]) / (1.0 + math.exp(base))
    a, b = best_of(law, p), best_of(law, p[::-1])
    twice = Repeat(Selected(Declared(base, 1e-9), law=law), 2)
    for epsilon in (0.5, 1.5):
        exact = np.maximum(np.outer(a, a) - math.exp(epsilon) * np.outer(b, b), 0.0).sum()
        assert exact <= accounting.delta(twice, epsilon=epsilon)


def test_the_pair_of_a_search_has_its_curve():
    from noisette.core.accounting.selected import SearchPair

    leaf = Selected(Gaussian(8.0), law=plans.Logarithmic(10.0)).under("replace-one")
    pair, curve = SearchPair(leaf, REPLACE_ONE), search_curve(leaf, REPLACE_ONE)
    table = pair.table
    assert table.p.sum() + table.infinite_p == pytest.approx(1.0, abs=1e-12)
    assert table.q.sum() + table.infinite_q == pytest.approx(1.0, abs=1e-12)
    for epsilon in (0.7, 1.0, 1.4, 1.9):
        # chords between points 4 % apart lie above, the more the further out, and never below
        assert 0.98 * curve.delta(epsilon) <= pair.reading(epsilon)[0] <= 1.6 * curve.delta(epsilon)


def test_candidates_are_a_lottery():
    """The mean of the curves counts: between the best and the worst candidate, and once each."""
    law = plans.Logarithmic(6.0)
    near, far = Run(Gaussian(6.0)), Run(Gaussian(12.0))
    each = [accounting.epsilon(Selected(plan, law=law), delta=1e-6) for plan in (far, near)]
    both = accounting.epsilon(Selected(near, far, law=law), delta=1e-6)
    assert each[0] < both < each[1]
    assert accounting.epsilon(Selected(near, near, law=law), delta=1e-6) == pytest.approx(each[1])


@pytest.mark.parametrize("relation", [REPLACE_ONE, ZERO_OUT, ADD_REMOVE])
def test_groups_of_people_cost_the_worst_of_them(relation):
    law = plans.Geometric(4.0)
    parts = [Selected(Gaussian(z), law=law) for z in (5.0, 9.0)]
    joint = Selected(Parallel(Gaussian(5.0), Gaussian(9.0)), law=law)
    costs = [accounting.epsilon(p, delta=1e-6, adjacency=relation) for p in (*parts, joint)]
    assert costs[2] == costs[0] > costs[1]


def test_rules_for_renyi_and_gaussians_refuse_a_search():
    search = Selected(Gaussian(9.0), law=plans.Logarithmic(10.0))
    assert math.isinf(accounting.ACCOUNTANTS["renyi"]().epsilon(search, delta=1e-6))
    assert math.isinf(accounting.ACCOUNTANTS["gdp"]().epsilon(search, delta=1e-6))
    pure = Selected(Laplace(20.0), law=plans.Logarithmic(10.0))
    assert accounting.ACCOUNTANTS["renyi"]().epsilon(pure, delta=1e-6) < 0.21


def test_the_majorant_is_above_its_points_and_concave():
    generator = np.random.default_rng(1)
    x, y = generator.random(200) + 0.01, generator.random(200)
    widths, slopes = concave_majorant(x, y)
    assert (np.diff(slopes) < 0).all()
    assert (slopes > 0).all()
    ends = np.concatenate(([0.0], np.cumsum(widths)))
    heights = np.concatenate(([0.0], np.cumsum(widths * slopes)))
    assert (np.interp(x, ends, heights) >= y - 1e-12).all()
    assert heights[-1] == pytest.approx(y.max())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: plans.Logarithmic(1.0), "mean must be"),
        (lambda: plans.Logarithmic(math.nan), "mean"),
        (lambda: plans.NegativeBinomial(10.0, -1.0), "eta must be"),
        (lambda: plans.NegativeBinomial(900.0, -0.99), "can be drawn"),
        (lambda: Selected(law=plans.Logarithmic(2.0)), "at least one candidate"),
        (lambda: Selected(Gaussian(1.0), law="logarithmic"), "law must be"),
    ],
)
def test_mistakes(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()


class Wild(plans.Logarithmic):
    """Counted as a logarithmic law, drawn as another one."""

    def draw(self, generator):
        return 1000


def test_a_law_of_somebodys_own_is_refused():
    with pytest.raises(InvalidParameter, match="law must be"):
        Selected(Gaussian(1.0), law=Wild(2.0))


def test_groups_must_agree():
    with pytest.raises(Unproven, match="same groups"):
        Selected(Gaussian(1.0), Parallel(Gaussian(1.0), Gaussian(2.0)), law=plans.Logarithmic(2.0))


@pytest.mark.parametrize("law", [plans.Logarithmic, plans.Geometric, plans.PoissonRuns])
def test_a_law_that_cannot_be_found_or_drawn_is_refused(law):
    for mean in (1.0, 1.0 + 1e-12, 1001.0, math.nan):
        with pytest.raises(InvalidParameter, match="mean must be"):
            law(mean)
    assert law(1.0 + 1e-6).weight(0.0) == pytest.approx(1.0 + 1e-6, rel=1e-9)
    with pytest.raises(InvalidParameter, match="larger eta or a smaller mean"):
        plans.NegativeBinomial(300.0, eta=-0.5)  # would be drawn from a table of 2e7 chances


def test_a_run_at_a_large_negative_epsilon_is_not_below_its_curve(monkeypatch):
    # delta(-x) = 1 - e^-x (1 - delta(x)) rises with x, so x may not be cut where the curve is.
    run = Run(Laplace(noise_multiplier=1.0))
    exact = {x: accounting.delta(run, epsilon=x, adjacency=ZERO_OUT) for x in (0.5, 3.0, 6.0)}
    monkeypatch.setattr(selected, "_LARGEST", 0.8)
    curve = selected.RunCurve((run,), ZERO_OUT)
    for x, delta in exact.items():
        mirrored = -math.expm1(-x) + math.exp(-x) * delta
        assert curve.at(np.array([-x]))[0] >= mirrored * (1.0 - 1e-12)
        assert curve.at(np.array([x]))[0] >= delta
