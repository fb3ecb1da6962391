"""The front door of accounting against the goldens of the maths reference, through plans."""

import math
from typing import Any

import numpy as np
import pytest

from noisette.core import accounting
from noisette.core.accounting.numerical.noise_pairs import BoundedRange
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    ObjectiveNoise,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.core.mechanisms.gaussian_curve import gdp_epsilon
from noisette.core.plans import Declared, LastIterate, Repeat, Run, Sampled, Together
from noisette.core.sampling import (
    Cyclic,
    Disjoint,
    FullBatch,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithoutReplacement,
)
from noisette.errors import AdjacencyMismatch, InvalidParameter, Unproven
from reference.log_moments import log_moment
from reproductions.shuffling.poster import poster_algorithm


def poisson(q, z, steps):
    return Repeat(Sampled(Gaussian(z), Poisson(q)), steps)


@pytest.mark.parametrize(
    ("q", "z", "steps", "delta", "truth"),
    [
        (0.01, 1.0, 1000, 1e-5, 1.8282367),
        (0.05, 2.0, 2000, 1e-6, 6.1065516),
        (0.001, 0.8, 100_000, 1e-6, 2.9144783),
        (0.3, 5.0, 100_000, 1e-8, 288.461244),
    ],
)
def test_poisson_add_remove(q, z, steps, delta, truth):
    for adjacency in ("add-remove", "zero-out"):
        low, high = accounting.bracket(poisson(q, z, steps), delta=delta, adjacency=adjacency)
        assert low <= truth * (1 + 1e-7)
        assert truth * (1 - 1e-7) <= high <= truth * 1.001


@pytest.mark.parametrize(
    ("q", "z", "steps", "truth"),
    [(0.01, 2.0, 1000, 1.2052), (0.05, 6.0, 500, 1.4370), (0.01, 1.0, 1000, 2.8434)],
)
def test_poisson_replace_one(q, z, steps, truth):
    low, high = accounting.bracket(poisson(q, z, steps), delta=1e-5, adjacency="replace-one")
    assert low <= truth + 5e-5
    assert truth - 5e-5 <= high <= truth * 1.001 + 5e-5


@pytest.mark.parametrize(
    ("m", "z", "steps", "lower", "upper"),
    [(10, 2.0, 1000, 1.8282, 2.199), (50, 6.0, 500, 1.5241, 1.675), (10, 1.0, 1000, 13.361, 14.82)],
)
def test_without_replacement(m, z, steps, lower, upper):
    plan = Repeat(Sampled(Gaussian(z), WithoutReplacement(m, 1000)), steps)
    low, high = accounting.bracket(plan, delta=1e-5)
    assert low == pytest.approx(lower, rel=1e-3)
    assert high == pytest.approx(upper, rel=1.2e-3)


@pytest.mark.parametrize(
    ("batches", "z", "epochs", "truth"),
    [(100, 1.0, 1, 0.621), (100, 0.7, 1, 2.170), (100, 0.5, 1, 5.397), (50, 2.0, 20, 1.290)],
)
def test_random_allocation(batches, z, epochs, truth):
    plan = Repeat(Sampled(Gaussian(z), RandomAllocation(batches)), epochs)
    low, high = accounting.bracket(plan, delta=1e-5, adjacency="zero-out")
    assert low <= truth + 1e-3
    assert high == pytest.approx(truth, rel=2.5e-3)


def test_random_allocation_under_replace_one_is_two_changes():
    plan = Sampled(Gaussian(2.0), RandomAllocation(20))
    low, high = accounting.bracket(plan, delta=1e-5, adjacency="replace-one")
    single = accounting.epsilon(plan, delta=1e-5, adjacency="zero-out")
    once = gdp_epsilon(2 / 2.0, 1e-5)
    assert low >= single * 0.998  # a blank record is a record
    assert high <= once
    # By hand: (2 e, (1 + e^e) delta(e)) with delta under zero-out.
    half = high / 2
    claimed = accounting.delta(plan, epsilon=half, adjacency="zero-out") * (1 + math.exp(half))
    assert claimed <= 1e-5 * 1.01
    reached = accounting.delta(plan, epsilon=high, adjacency="replace-one")
    assert 0.99e-5 <= reached <= 1e-5 * 1.001


@pytest.mark.parametrize(("z", "epochs"), [(1.5, 1), (2.0, 10), (0.8, 3)])
def test_two_changes_of_random_allocation_are_counted_without_slack(z, epochs):
    plan = Repeat(Sampled(Gaussian(z), RandomAllocation(50)), epochs)
    found = accounting.epsilon(plan, delta=1e-6, adjacency="replace-one")

    def chained(epsilon: float) -> float:
        half = accounting.delta(plan, epsilon=epsilon / 2.0, adjacency="zero-out")
        return half * (1.0 + math.exp(epsilon / 2.0))

    assert chained(found) <= 1e-6 * 1.002
    assert chained(found * 0.998) > 1e-6


def promises() -> list[tuple[Any, Adjacency]]:
    objective = ObjectiveNoise(1.7, 15, "spherical-laplace", 0.4995)
    return [
        (Run(Laplace(3.0)), Adjacency.REPLACE_ONE),
        (Repeat(Run(Gaussian(9.0)), 4), Adjacency.REPLACE_ONE),
        (Together(Run(objective), Run(Gaussian(16_000.0))), Adjacency.REPLACE_ONE),
        (Repeat(Sampled(Gaussian(1.0), Poisson(0.01)), 100), Adjacency.ADD_REMOVE),
    ]


@pytest.mark.parametrize(("plan", "relation"), promises())
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_a_promise_holds_where_the_curve_says_so_and_nowhere_else(plan, relation, delta):
    at = {"delta": delta, "adjacency": relation}
    least = accounting.epsilon(plan, **at)
    for epsilon in (0.5 * least, 0.9 * least, 0.999 * least, least, 1.001 * least, 2.0 * least):
        reached = accounting.delta(plan, epsilon=epsilon, adjacency=relation)
        expected = reached <= delta or least <= epsilon
        assert accounting.holds(plan, epsilon=epsilon, **at) == expected


def test_a_delta_of_0_holds_for_pure_plans_only():
    assert accounting.holds(Laplace(4.0), epsilon=0.5, delta=0.0)
    assert not accounting.holds(Laplace(4.0), epsilon=0.499, delta=0.0)
    # Its delta at 800 is no double, and still it is not 0.
    assert not accounting.holds(Gaussian(1.0), epsilon=800.0, delta=0.0)


def test_laplace_and_spherical_laplace_goldens():
    laplace = Repeat(Run(Laplace(10.0)), 100)
    assert accounting.epsilon(laplace, delta=1e-5, adjacency="zero-out") == pytest.approx(
        4.2203, rel=2e-4
    )
    for d, truth in ((3, 7.56), (10, 4.18), (20, 2.88), (100, 1.20)):
        plan = Repeat(Run(SphericalLaplace(2.0, d)), 10)
        found = accounting.epsilon(plan, delta=1e-5, adjacency="replace-one")
        assert found == pytest.approx(truth, abs=6e-3)


@pytest.mark.parametrize(
    ("tau", "truth"), [(1, 4.98), (0.5, 4.00), (0.1, 1.76), (0.02, 0.72), (0.005, 0.34)]
)
def test_the_posters_algorithm(tau, truth):
    plan = poster_algorithm(100_000, 5, tau, noise_multiplier=4.0)
    assert accounting.epsilon(plan, delta=1e-5) == pytest.approx(truth, abs=6e-3)


@pytest.mark.parametrize(
    ("batches", "epochs", "z", "ridge", "cyclic", "shuffled"),
    [
        (100, 10, 1.0, 0.0, 4.60, 3.31),
        (100, 10, 1.0, 1e-2, 4.38, 3.14),
        (50, 20, 2.0, 1e-3, 2.16, 1.60),
        (20, 10, 2.0, 1e-2, 2.05, 1.65),
    ],
)
def test_last_iterate_table(batches, epochs, z, ridge, cyclic, shuffled):
    for sampler, truth in ((Cyclic(batches), cyclic), (Shuffle(batches), shuffled)):
        fields = {"regularization": ridge, "size": 30 * batches}
        plan = LastIterate(Gaussian(z), sampler, epochs, "logistic", 4.0, **fields)
        found = accounting.epsilon(plan, delta=1e-5, adjacency="zero-out")
        assert found == pytest.approx(truth, abs=6e-3)
        assert accounting.delta(plan, epsilon=found, adjacency="zero-out") <= 1e-5 * (1 + 1e-9)


def test_last_iterate_is_gated():
    def plan(**changes):
        fields = {"epochs": 3, "loss": "logistic", "learning_rate": 4.0, **changes}
        return LastIterate(Gaussian(1.0), fields.pop("sampler", Cyclic(10)), **fields)

    with pytest.raises(InvalidParameter, match="step size"):
        accounting.epsilon(plan(learning_rate=8.1), delta=1e-5, adjacency="zero-out")
    with pytest.raises(InvalidParameter, match="loss must be one of"):
        accounting.epsilon(plan(loss="hinge"), delta=1e-5, adjacency="zero-out")
    with pytest.raises(Unproven, match="poisson"):
        plan(sampler=Poisson(0.1))
    with pytest.raises(Unproven, match="Gaussian noise only"):
        LastIterate(Laplace(1.0), Cyclic(10), 3, "logistic", 4.0)
    with pytest.raises(Unproven, match="add-remove"):
        accounting.epsilon(plan(), delta=1e-5, adjacency="add-remove")
    # A wider row bound makes the loss rougher, so the same step is refused.
    with pytest.raises(InvalidParameter, match="step size"):
        accounting.epsilon(plan(norm_bound=1.5), delta=1e-5, adjacency="zero-out")


def test_last_iterate_with_a_remainder_batch():
    plan = LastIterate(Gaussian(1.0), Shuffle(4, batch_size=30), 2, "logistic", 4.0, size=100)
    equal = LastIterate(Gaussian(1.0), Shuffle(4), 2, "logistic", 4.0, size=100)
    found, even = (accounting.epsilon(p, delta=1e-5, adjacency="zero-out") for p in (plan, equal))
    # The last position is the worst; it is rarer when the last batch is small.
    assert found < even


def test_last_iterate_without_a_size_counts_the_worst_one():
    """n = 11 in 10 batches: the last, worst position holds 2 of 11 records, not 1 of 10."""

    def plan(sampler, size=None):
        return LastIterate(Gaussian(1.0), sampler, 2, "logistic", 4.0, size=size)

    for epsilon in (0.5, 2.0, 6.0):
        at = {"epsilon": epsilon, "adjacency": "zero-out"}
        known = [accounting.delta(plan(Shuffle(10), n), **at) for n in range(10, 45)]
        unknown = accounting.delta(plan(Shuffle(10)), **at)
        assert max(known) * (1 - 1e-12) <= unknown <= 1.1 * max(known)
        rest = [accounting.delta(plan(Shuffle(4, 30), n), **at) for n in range(91, 121)]
        found = accounting.delta(plan(Shuffle(4, 30)), **at)
        assert max(rest) * (1 - 1e-12) <= found <= 1.1 * max(rest)
    equal, eleven = (plan(Shuffle(10), n) for n in (100, 11))
    ratio = accounting.delta(eleven, **at) / accounting.delta(equal, **at)
    assert ratio > 1.7
    stated = accounting.epsilon(plan(Shuffle(10)), delta=1e-5, adjacency="zero-out")
    assert accounting.delta(eleven, epsilon=stated, adjacency="zero-out") <= 1e-5


def test_last_iterate_size_must_fit_the_batches():
    with pytest.raises(InvalidParameter, match="more than the 3 records"):
        LastIterate(Gaussian(1.0), Shuffle(4), 2, "logistic", 4.0, size=3)
    with pytest.raises(InvalidParameter, match="size"):
        LastIterate(Gaussian(1.0), FullBatch(), 2, "logistic", 4.0, size=2.5)


def test_last_iterate_of_a_full_batch_under_add_remove_needs_a_divisor():
    plan = LastIterate(Gaussian(1.0), FullBatch(), 3, "logistic", 4.0)
    with pytest.raises(Unproven, match="a public number that divides"):
        accounting.epsilon(plan, delta=1e-5, adjacency="add-remove")
    stated = LastIterate(Gaussian(1.0), FullBatch(), 3, "logistic", 4.0, size=1000)
    found = accounting.epsilon(stated, delta=1e-5, adjacency="add-remove")
    assert found == accounting.epsilon(plan, delta=1e-5, adjacency="zero-out")


EXACT = [
    Gaussian(0.05),
    Repeat(Gaussian(0.3), 30),
    Repeat(Sampled(Gaussian(0.5), Cyclic(10)), 200),
    Together(Gaussian(0.1), Repeat(Gaussian(40.0), 7)),
    Laplace(0.01),
    Laplace(3.0),
    SphericalLaplace(0.01, 3),
    SphericalLaplace(2.0, 20),
    RandomizedResponse(700.0),
]


@pytest.mark.parametrize("plan", EXACT, ids=str)
def test_both_ends_of_an_exact_plan_come_from_its_closed_form(plan):
    for delta in (1e-12, 1e-5, 0.01):
        low, high = accounting.bracket(plan, delta=delta)
        assert high * (1 - 1e-6) <= low <= high
        # The curve itself says that the lower end is not private enough.
        assert low == 0.0 or accounting.delta(plan, epsilon=low) > delta
        assert accounting.delta(plan, epsilon=high) <= delta * (1 + 1e-9)


def test_both_ends_of_a_pure_plan():
    low, high = accounting.bracket(Repeat(Laplace(0.5), 10), delta=0.0)
    assert (low, high) == (pytest.approx(40.0, rel=1e-12), 40.0)
    assert low <= high
    # Nobody knows how much of a declared epsilon is used, or how much a shuffle hides.
    assert accounting.bracket(Declared(1.0), delta=0.0) == (0.0, 1.0)
    shuffled = Repeat(Sampled(Gaussian(1.0), Shuffle(10)), 5)
    low, high = accounting.bracket(shuffled, delta=1e-5, adjacency="zero-out")
    assert low < 0.999 * high


def test_full_rate_is_no_sampling():
    for adjacency, mu in (("add-remove", 0.5), ("replace-one", 1.0)):
        for sampler in (Poisson(1.0),):
            plan = Repeat(Sampled(Gaussian(2.0), sampler), 4)
            found = accounting.epsilon(plan, delta=1e-6, adjacency=adjacency)
            assert found == pytest.approx(gdp_epsilon(2 * mu, 1e-6), rel=1e-12)
    plan = Sampled(Gaussian(2.0), WithoutReplacement(7, 7))
    assert accounting.epsilon(plan, delta=1e-6) == pytest.approx(gdp_epsilon(1.0, 1e-6), rel=1e-12)


def test_disjoint_is_one_use_and_pure():
    plan = Sampled(SphericalLaplace(2.0, 5), Disjoint.of_size(1000, 10))
    assert accounting.bracket(plan, delta=0.0) == (pytest.approx(1.0, rel=1e-14), 1.0)
    assert accounting.epsilon(Repeat(plan, 3), delta=0.0) == 3.0
    with pytest.raises(Unproven, match="use random-allocation or poisson"):
        accounting.epsilon(plan, delta=0.0, adjacency="add-remove")


def test_mixed_plans_compose_and_never_beat_their_parts():
    parts = [
        Run(Gaussian(3.0)),
        Repeat(Run(Laplace(20.0)), 5),
        poisson(0.1, 2.0, 20),
        Run(Exponential(0.2)),
        Run(RandomizedResponse(0.1, categories=3)),
        Declared(0.1, 1e-7),
    ]
    together = Together(*parts)
    low, high = accounting.bracket(together, delta=1e-5)
    for part in parts:
        assert accounting.bracket(part, delta=1e-5)[0] <= high
    deltas = [1e-5 / len(parts)] * len(parts)
    plain = sum(accounting.epsilon(p, delta=d) for p, d in zip(parts, deltas, strict=True))
    assert 0.0 < low <= high <= plain


def test_declared_guarantees_compose_by_kairouz_oh_viswanath():
    plan = Repeat(Declared(0.1, 1e-8), 50)
    found = accounting.epsilon(plan, delta=1e-5)
    delta_left = 1 - (1 - 1e-5) / (1 - 1e-8) ** 50
    exact = accounting.ACCOUNTANTS["advanced"]().epsilon(
        Repeat(Declared(0.1), 50), delta=delta_left
    )
    assert found == pytest.approx(exact, rel=2e-3)
    assert math.isinf(accounting.epsilon(Repeat(Declared(0.1, 1e-3), 50), delta=1e-5))
    assert accounting.epsilon(Declared(0.0), delta=1e-5) == 0.0


def test_bounded_range_pair_matches_its_curve_and_is_consistent():
    pair = BoundedRange(0.8)
    for epsilon in (-0.5, 0.0, 0.3, 0.79):
        expected = Exponential(0.8).delta(epsilon, accounting.front.Adjacency.ZERO_OUT)
        p, q = pair.cells(np.array([epsilon]))
        assert p[-1] - math.exp(epsilon) * q[-1] == pytest.approx(expected, rel=1e-12)
    p, q = pair.cells(np.linspace(-1, 1, 41))
    assert p.sum() == pytest.approx(1.0)
    assert q.sum() == pytest.approx(1.0)
    s = np.array([0.5, 3.0, 40.0])
    x = np.linspace(-0.8, 0.8, 200_001)
    density = np.exp(x / 2) / (4 * math.sinh(0.4))
    direct = [np.log(np.trapezoid(np.exp(v * x) * density, x)) for v in s]
    assert log_moment(pair, s).real == pytest.approx(direct, rel=1e-7)


def test_an_adaptive_choice_within_a_bounded_range():
    """Two queries of range 1 at epsilon 0.2: an adaptive choice reaches 0.2365."""
    plan = Repeat(Run(Exponential(1.0)), 2)
    assert accounting.delta(plan, epsilon=0.2, adjacency="zero-out") >= 0.2365


def test_mismatched_adjacency_is_refused_by_name():
    plan = poisson(0.1, 1.0, 3).under("add-remove")
    with pytest.raises(AdjacencyMismatch, match=r"add-remove.*replace-one"):
        accounting.epsilon(plan, delta=1e-5)


def test_brackets_nest_when_rtol_halves():
    plan = poisson(0.02, 1.3, 500)
    wide = accounting.bracket(plan, delta=1e-6, adjacency="add-remove", rtol=4e-3)
    fine = accounting.bracket(plan, delta=1e-6, adjacency="add-remove", rtol=2e-4)
    assert wide[0] <= fine[1]
    assert fine[0] <= wide[1]
    assert fine[1] - fine[0] < wide[1] - wide[0]
    assert (fine[1] - fine[0]) / fine[1] <= 2e-4


def test_dp_accounting_agrees():
    dp_accounting = pytest.importorskip("dp_accounting")
    for q, z, steps, delta in ((0.01, 1.0, 1000, 1e-5), (0.05, 2.0, 2000, 1e-6)):
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
        event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
        theirs = accountant.compose(event, steps).get_epsilon(delta)
        low, high = accounting.bracket(poisson(q, z, steps), delta=delta, adjacency="add-remove")
        assert low <= theirs <= high
