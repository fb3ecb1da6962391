"""What every sampler promises: the batches it hands out and the theorem that counts them."""

import contextlib
import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from helpers import RELATIONS, SAMPLER_EXAMPLES, SAMPLER_SIZE, assert_one_sentence
from noisette.core import accounting, plans, sampling
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Gaussian, Laplace, SphericalLaplace
from noisette.core.randomness import Randomness
from noisette.core.sampling import SAMPLERS
from noisette.core.sampling.base import PassSampler
from noisette.errors import InvalidParameter, Unproven

EXAMPLES = [s for examples in SAMPLER_EXAMPLES.values() for s in examples]
PASSES = [kind for kind in SAMPLERS.values() if issubclass(kind, PassSampler)]
KINDS = {"once", "poisson", "without-replacement", "allocation"}
SIZE = 1e-6
"""Error rate of each statistical test; seeds are fixed."""

every_sampler = pytest.mark.parametrize("sampler", EXAMPLES, ids=repr)
every_pass = pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)


def batches(sampler, size=SAMPLER_SIZE, seed=0):
    return list(sampler.schedule(size, Randomness.from_seed(seed)))


def relations(sampler):
    """Return the relations under which the sampler counts at all."""
    found = []
    for relation in RELATIONS:
        with contextlib.suppress(Unproven):
            sampler.participation(relation)
            found.append(relation)
    return found


def test_every_registered_sampler_has_an_example_of_its_class():
    assert set(SAMPLER_EXAMPLES) == set(SAMPLERS)
    for name, examples in SAMPLER_EXAMPLES.items():
        assert examples
        assert all(type(s) is SAMPLERS[name] and s.name == name for s in examples)


@every_sampler
def test_is_a_frozen_value_that_survives_json(sampler):
    assert eval(repr(sampler), vars(sampling)) == sampler
    assert hash(dataclasses.replace(sampler)) == hash(sampler)
    if fields := dataclasses.fields(sampler):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(sampler, fields[0].name, 1)
    plan = plans.Sampled(Gaussian(1.0), sampler)
    assert plans.Plan.from_json(plan.to_json()) == plan


@every_sampler
def test_hands_out_as_many_batches_of_valid_rows_as_it_counts(sampler):
    for seed in range(5):
        drawn = batches(sampler, seed=seed)
        assert len(drawn) == sampler.steps
        for batch in drawn:
            assert len(np.unique(batch)) == len(batch)
            assert np.all((batch >= 0) & (batch < SAMPLER_SIZE))
    assert sampler.normaliser(SAMPLER_SIZE) > 0


@every_sampler
def test_counts_by_a_theorem_under_some_relation(sampler):
    parts = [sampler.participation(relation) for relation in relations(sampler)]
    assert parts
    for part in parts:
        assert part.kind in KINDS
        assert part.proof
        assert 0.0 < part.rate <= 1.0
        assert part.batches == (sampler.steps if part.kind == "allocation" else 1)


def test_what_has_no_proof_is_refused_with_an_alternative_that_works():
    unproven = [(s, relation) for s in EXAMPLES for relation in set(RELATIONS) - set(relations(s))]
    assert len(unproven) > 5
    for sampler, relation in unproven:
        with pytest.raises(Unproven) as caught:
            sampler.participation(relation)
        assert_one_sentence(caught.value, sampler.name, relation.value)
        advice = str(caught.value).split("; use ")[1]
        named = [name for name in SAMPLERS if name in advice]
        assert named
        for name in named:
            assert SAMPLER_EXAMPLES[name][0].participation(relation).proof


@every_sampler
def test_no_record_is_used_more_often_than_it_is_counted(sampler):
    """`once` and `allocation`: each record in exactly one step. Others: in at most one per use."""
    for relation in relations(sampler):
        kind = sampler.participation(relation).kind
        for seed in range(20):
            drawn = np.concatenate(batches(sampler, seed=seed))
            times = np.bincount(drawn, minlength=SAMPLER_SIZE)
            assert times.max(initial=0) <= 1
            if kind in ("once", "allocation"):
                assert np.all(times == 1)


@every_sampler
def test_never_cheaper_than_the_amplification_that_its_kind_proves(sampler):
    """Pure noise: the cost is the full one, or log(1 + q (e^eps - 1)) with the true rate."""
    for relation in relations(sampler):
        mechanism = SphericalLaplace(relation.contributions / 0.8, 3)  # pure 0.8
        plan = plans.Sampled(mechanism, sampler)
        part = sampler.participation(relation)
        rate = 1.0 if part.kind in ("once", "allocation") else part.rate
        expected = math.log1p(rate * math.expm1(0.8))
        got = accounting.epsilon(plan, delta=0.0, adjacency=relation)
        assert got == pytest.approx(expected, rel=1e-12)


@every_pass
@given(n=st.integers(1, 400), b=st.integers(1, 60), seed=st.integers(0, 5))
def test_batches_of_a_size_cut_all_records_into_full_ones_and_a_rest(kind, n, b, seed):
    b = min(b, n)
    drawn = batches(kind.of_size(n, b), n, seed)
    sizes = [len(batch) for batch in drawn]
    assert sizes[:-1] == [b] * (len(sizes) - 1)
    assert sizes[-1] == (n % b or b)
    assert sorted(np.concatenate(drawn)) == list(range(n))


@every_pass
@given(n=st.integers(1, 400), m=st.integers(1, 60), seed=st.integers(0, 5))
def test_a_number_of_batches_differs_by_one_record_at_most(kind, n, m, seed):
    m = min(m, n)
    drawn = batches(kind(m), n, seed)
    sizes = [len(batch) for batch in drawn]
    assert len(sizes) == m
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(drawn)) == list(range(n))
    assert kind(m).normaliser(n) == max(sizes)


@every_pass
def test_sizes_depend_on_n_alone_and_a_wrong_n_is_refused(kind):
    sampler = kind.of_size(10, 3)
    with pytest.raises(InvalidParameter, match=r"3 records|13"):
        batches(sampler, 13)
    with pytest.raises(InvalidParameter, match="12"):
        kind.of_size(5, 12)
    with pytest.raises(InvalidParameter, match="9"):
        batches(kind(9), 5)


@every_pass
def test_a_pass_costs_exactly_one_unsampled_step(kind):
    """Shuffling is never counted as Poisson: one epoch costs one full step, E epochs cost E."""
    for relation in (REPLACE_ONE, ZERO_OUT):
        assert kind(20).participation(relation).kind == "once"
        for mechanism in (Gaussian(3.0), Laplace(5.0), SphericalLaplace(4.0, 3)):
            for epochs in (1, 4):
                sampled = plans.Repeat(plans.Sampled(mechanism, kind(20)), epochs)
                plain = plans.Repeat(mechanism, epochs)
                got = accounting.epsilon(sampled, delta=1e-6, adjacency=relation)
                full = accounting.epsilon(plain, delta=1e-6, adjacency=relation)
                assert got == pytest.approx(full, rel=2e-3)
    with pytest.raises(Unproven, match="random-allocation or poisson"):
        kind(20).participation(ADD_REMOVE)


def test_shuffle_is_dearer_than_poisson_at_the_same_rate():
    shuffled = plans.Sampled(Gaussian(1.0), sampling.Shuffle(50))
    poisson = plans.Repeat(plans.Sampled(Gaussian(1.0), sampling.Poisson(1 / 50)), 50)
    costs = [accounting.epsilon(p, delta=1e-5, adjacency=ZERO_OUT) for p in (shuffled, poisson)]
    assert costs[0] > 2.0 * costs[1]


@given(n=st.integers(1, 60), b=st.integers(1, 60), seed=st.integers(0, 50))
def test_without_replacement_takes_exactly_its_batch_size(n, b, seed):
    b = min(b, n)
    sampler = sampling.WithoutReplacement(b, n)
    (batch,) = batches(sampler, n, seed)
    assert len(batch) == len(set(batch)) == b
    assert sampler.participation(REPLACE_ONE).rate == b / n
    with pytest.raises(InvalidParameter, match=str(n + 1)):
        batches(sampler, n + 1, seed)


@given(n=st.integers(2, 60), u=st.integers(1, 59), b=st.integers(1, 59), seed=st.integers(0, 50))
def test_partial_shuffle_uses_its_part_once(n, u, b, seed):
    u = min(u, n - 1)
    b = min(b, u)
    sampler = sampling.PartialShuffle(u, n, b)
    drawn = batches(sampler, n, seed)
    assert len(np.unique(np.concatenate(drawn))) == u == sum(map(len, drawn))
    assert len(drawn) == sampler.steps == -(-u // b)
    assert sampler.participation(REPLACE_ONE).rate == u / n


def test_uniform_subsets_are_uniform():
    """Chi-square over all subsets of 3 of 6 (20 cells), size 1e-6; a biased draw is rejected."""
    cells = {c: i for i, c in enumerate(itertools.combinations(range(6), 3))}
    source = Randomness.from_seed(1)
    for sampler in (sampling.WithoutReplacement(3, 6), sampling.PartialShuffle(3, 6, 3)):
        counts = np.zeros(len(cells))
        for _ in range(4000):
            (batch,) = sampler.schedule(6, source)
            counts[cells[tuple(sorted(int(i) for i in batch))]] += 1
        assert chisquare(counts).pvalue > SIZE
    biased = np.zeros(len(cells))
    rng = np.random.default_rng(0)
    for _ in range(4000):  # the mutant: a block of consecutive rows
        start = rng.integers(6)
        biased[cells[tuple(sorted((start + np.arange(3)) % 6))]] += 1
    assert chisquare(biased).pvalue < SIZE


def test_poisson_joins_independently_at_its_rate():
    """Joint chi-square over the 8 subsets of 3 records, size 1e-6; a fixed size is rejected."""
    rate, rounds = 0.3, 6000
    expected = np.array([rate**k * (1 - rate) ** (3 - k) for k in (0, 1, 1, 2, 1, 2, 2, 3)])
    source = Randomness.from_seed(2)

    def pvalue(draws):
        codes = [sum(1 << int(i) for i in batch) for batch in draws]
        return chisquare(np.bincount(codes, minlength=8), expected * rounds).pvalue

    drawn = [next(sampling.Poisson(rate).schedule(3, source)) for _ in range(rounds)]
    assert pvalue(drawn) > SIZE
    assert any(len(batch) == 0 for batch in drawn)  # empty batches are allowed and counted
    mutant = [next(sampling.Poisson(0.27).schedule(3, source)) for _ in range(rounds)]
    assert pvalue(mutant) < SIZE
    fixed = [next(sampling.WithoutReplacement(1, 3).schedule(3, source)) for _ in range(rounds)]
    assert pvalue(fixed) < SIZE


def test_random_allocation_is_uniform_and_independent():
    """Chi-square over the 9 joint bins of two records, size 1e-6; shuffling is rejected."""
    source, rounds = Randomness.from_seed(3), 5000

    def joint(sampler, size):
        table = np.zeros((3, 3))
        for _ in range(rounds):
            place = np.empty(size, dtype=int)
            for bin_, batch in enumerate(sampler.schedule(size, source)):
                place[batch] = bin_
            table[place[0], place[1]] += 1
        statistic = ((table - rounds / 9) ** 2 / (rounds / 9)).sum()
        return chi2.sf(statistic, 8)

    assert joint(sampling.RandomAllocation(3), 3) > SIZE
    assert joint(sampling.Shuffle(3), 3) < SIZE


def test_random_allocation_keeps_empty_bins():
    drawn = batches(sampling.RandomAllocation(40))
    assert len(drawn) == 40
    assert sum(len(batch) == 0 for batch in drawn) >= 30


def test_a_fresh_order_is_drawn_each_epoch_only_where_claimed():
    source = Randomness.from_seed(4)

    def epoch(sampler):
        return [tuple(batch) for batch in sampler.schedule(50, source)]

    assert epoch(sampling.Cyclic(5)) == epoch(sampling.Cyclic(5))
    assert epoch(sampling.Disjoint(5)) == epoch(sampling.Disjoint(5))
    assert epoch(sampling.Shuffle(5)) != epoch(sampling.Shuffle(5))
    assert epoch(sampling.Disjoint(5, permute=True)) != epoch(sampling.Disjoint(5, permute=True))


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_parameters_of_numpy_type_still_make_json(name):
    # Was: WithoutReplacement and PartialShuffle keep numpy integers, which json refuses.
    sampler = SAMPLER_EXAMPLES[name][-1]
    values = {
        field: np.int64(value) if type(value) is int else value
        for field, value in dataclasses.asdict(sampler).items()
    }
    plan = plans.Sampled(Gaussian(1.0), type(sampler)(**values))
    assert plans.Plan.from_json(plan.to_json()) == plan


@given(size=st.integers(1, 300), run=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_runs_are_shuffled_and_nobody_is_lost(size, run, seed):
    sampler = sampling.Disjoint(1, permute=True, run=run)
    order = sampler.order(size, Randomness.from_seed(seed))
    assert sorted(order.tolist()) == list(range(size))
    breaks = np.flatnonzero(np.diff(order) != 1) + 1
    assert all(int(order[i]) % run == 0 for i in breaks)
