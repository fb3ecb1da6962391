"""Groups of people that do not share a plan: the worst group counts, not the sum."""

import math

import pytest

from noisette.core import accounting
from noisette.core.accounting.filters import FILTERS
from noisette.core.adjacency import REPLACE_ONE
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace
from noisette.core.plans import Parallel, Plan, Repeat, Run, Together
from noisette.errors import AdjacencyMismatch, Unproven


def test_the_worst_group_counts():
    plan = Parallel(Laplace(2.0), Laplace(4.0), Repeat(Laplace(40.0), 3))
    assert accounting.epsilon(plan, delta=0.0) == 1.0
    assert accounting.delta(plan, epsilon=1.0) == 0.0
    assert 0.0 < accounting.delta(plan, epsilon=0.9) < 0.1


def test_what_everybody_shares_is_added_to_each_group():
    plan = Together(Parallel(Laplace(2.0), Laplace(4.0)), Laplace(20.0))
    assert accounting.epsilon(plan, delta=0.0) == pytest.approx(1.1)
    nested = Parallel(Parallel(Laplace(2.0), Laplace(1.0)), Laplace(8.0))
    assert accounting.epsilon(nested, delta=0.0) == 2.0


def test_two_divisions_are_all_combinations():
    first, second = Parallel(Laplace(2.0), Laplace(20.0)), Parallel(Laplace(1.0), Laplace(10.0))
    plan = Together(first, second)
    assert len(list(plan.alternatives())) == 4
    assert accounting.epsilon(plan, delta=0.0) == 3.0


def test_repeats_keep_everybody_in_place():
    plan = Repeat(Parallel(Gaussian(2.0), Gaussian(4.0)), 9)
    alone = Repeat(Gaussian(2.0), 9)
    assert accounting.bracket(plan, delta=1e-6) == accounting.bracket(alone, delta=1e-6)
    assert plan.draws == 18


@pytest.mark.parametrize("rule", sorted(FILTERS))
def test_filters_charge_the_worst_group(rule):
    ledgers = [Ledger(5.0, 1e-5, rule=rule) for _ in range(2)]
    for ledger, plan in zip(
        ledgers, (Parallel(Gaussian(4.0), Gaussian(8.0)), Gaussian(4.0)), strict=True
    ):
        ledger.charge(plan, label="x", delta=1e-6)
    assert ledgers[0].spent == ledgers[1].spent
    assert all(math.isfinite(part) for part in ledgers[0].spent)


def test_each_group_draws_its_own_noise_only():
    permit = Ledger(5.0).charge(Parallel(Laplace(2.0), Repeat(Laplace(4.0), 3)), label="x")
    assert (permit.draws_left(0), permit.draws_left(1)) == (1, 3)


def test_an_accountant_alone_refuses_instead_of_adding():
    plan = Parallel(Laplace(2.0), Laplace(4.0))
    for kind in accounting.ACCOUNTANTS.values():
        with pytest.raises(Unproven, match=r"accounting\.epsilon"):
            kind().epsilon(plan, delta=1e-6)


def test_relations_and_json():
    with pytest.raises(AdjacencyMismatch):
        Parallel(Run(Laplace(2.0), adjacency="zero-out"), Run(Laplace(2.0), adjacency="add-remove"))
    plan = Parallel(Laplace(2.0), Laplace(4.0)).under(REPLACE_ONE)
    assert Plan.from_json(plan.to_json()) == plan
    assert [each.adjacency for each in plan.alternatives()] == [REPLACE_ONE, REPLACE_ONE]
