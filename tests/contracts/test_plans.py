"""Plans: counts, nesting, adjacency and JSON, for random trees of every registered kind."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import MECHANISM_EXAMPLES, PLAN_EXAMPLES, SAMPLER_EXAMPLES, assert_one_sentence
from noisette.core import mechanisms, plans, sampling
from noisette.core.accounting.base import counted
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.mechanisms import Gaussian, Laplace
from noisette.core.plans import Declared, Plan, Repeat, Run, Sampled, Together
from noisette.core.plans.base import PLANS
from noisette.errors import AdjacencyMismatch, InvalidParameter

MECHANISMS = [m for examples in MECHANISM_EXAMPLES.values() for m in examples]
SAMPLERS = [s for examples in SAMPLER_EXAMPLES.values() for s in examples]

LEAVES = st.one_of(
    st.builds(Run, st.sampled_from(MECHANISMS)),
    st.builds(Sampled, st.sampled_from(MECHANISMS), st.sampled_from(SAMPLERS)),
    st.sampled_from(PLAN_EXAMPLES["last-iterate"]),
    st.builds(Declared, st.floats(0, 5), st.sampled_from([0.0, 1e-9, 0.1]), st.text(max_size=5)),
)
TREES = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(Repeat, part, st.integers(1, 9)),
        st.lists(part, min_size=1, max_size=4).map(lambda parts: Together(*parts)),
    ),
    max_leaves=8,
)
BOUND = st.builds(
    lambda plan, relation: plan if relation is None else plan.under(relation),
    TREES,
    st.sampled_from([None, *Adjacency]),
)


def by_hand(node: dict, times: int = 1) -> list[tuple[str, int, int]]:
    """Count leaves from the JSON alone: (text of the leaf, times, noise vectors in total)."""
    if node["plan"] == "repeat":
        return by_hand(node["of"], times * node["times"])
    if node["plan"] in ("together", "parallel"):
        return [row for part in node["of"] for row in by_hand(part, times)]
    vectors = {"run": 1, "declared": 0}.get(node["plan"])
    if vectors is None:
        sampler = node["sampler"]
        if sampler["name"] == "partial-shuffle":
            vectors = -(-sampler["used"] // sampler["batch_size"])
        else:
            vectors = sampler.get("batches", 1)
        vectors *= node.get("epochs", 1)
    return [(json.dumps(node, sort_keys=True), times, times * vectors)]


def test_every_registered_plan_has_an_example_of_its_class():
    assert set(PLAN_EXAMPLES) == set(PLANS)
    for name, examples in PLAN_EXAMPLES.items():
        assert examples
        assert all(type(p) is PLANS[name] and p.name == name for p in examples)


@pytest.mark.parametrize("plan", [p for e in PLAN_EXAMPLES.values() for p in e], ids=repr)
def test_is_a_frozen_value(plan):
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.adjacency = ZERO_OUT
    assert hash(Plan.from_json(plan.to_json())) == hash(plan)
    assert plan in {plan}


@given(BOUND)
def test_json_round_trip(plan):
    text = plan.to_json()
    again = Plan.from_json(text)
    assert again == plan
    assert again.to_json() == text
    assert again.adjacency == plan.adjacency
    assert repr(again) == repr(plan)


@given(TREES)
def test_repr_is_readable_source(plan):
    names = {**vars(mechanisms), **vars(sampling), **vars(plans)}
    assert eval(repr(plan), names) == plan


@given(BOUND)
def test_counts_multiply_and_draws_add_up(plan):
    """Compared with a recursive count over the JSON text, which shares no code with `leaves`."""
    expected = by_hand(plan.to_dict())
    got = [(json.dumps(leaf.to_dict(), sort_keys=True), n) for leaf, n in plan.leaves()]
    assert got == [row[:2] for row in expected]
    assert plan.draws == sum(row[2] for row in expected)
    totals: dict[str, int] = {}
    for text, times, _ in expected:
        totals[text] = totals.get(text, 0) + times
    merged = counted(plan, plan.adjacency or REPLACE_ONE)
    assert {json.dumps(leaf.to_dict(), sort_keys=True): n for leaf, n in merged} == totals


def test_counts_of_a_nested_plan_by_hand():
    step = Sampled(Gaussian(1.0), sampling.Shuffle(6))
    plan = Repeat(Together(Repeat(step, 5), Laplace(1.0), step, Declared(0.1)), 7)
    assert [count for _, count in plan.leaves()] == [35, 7, 7, 7]
    assert plan.draws == 35 * 6 + 7 + 7 * 6
    assert dict(counted(plan, REPLACE_ONE))[step] == 42


@given(TREES, st.permutations(list(Adjacency)))
def test_a_bound_plan_is_refused_by_another_relation_by_name(plan, order):
    first, second, _ = order
    bound = plan.under(first)
    assert bound.under(first) == bound
    for clash in (
        lambda: bound.under(second),
        lambda: Together(bound, plan.under(second)),
        lambda: Repeat(bound, 2, adjacency=second),
        lambda: counted(bound, second),
    ):
        with pytest.raises(AdjacencyMismatch) as caught:
            clash()
        text = str(caught.value)
        assert text.endswith(".")
        assert first.value in text
        assert second.value in text


def test_a_composite_takes_over_the_relation_of_a_part():
    plan = Together(Laplace(1.0), Run(Laplace(1.0), adjacency=ADD_REMOVE))
    assert plan.adjacency is ADD_REMOVE
    assert "add-remove" in repr(plan)


@pytest.mark.parametrize("number", [2.5, "3", True, 0, -1, None])
def test_repeat_takes_only_whole_times(number):
    with pytest.raises(InvalidParameter) as caught:
        Repeat(Laplace(1.0), number)
    assert_one_sentence(caught.value, repr(number))


GAUSS = '{"name": "gaussian", "noise_multiplier": 1.0}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "3",
        "null",
        "{}",
        '{"noisette_plan": 2, "plan": "run", "mechanism": GAUSS}',
        '{"noisette_plan": 1}',
        '{"noisette_plan": 1, "plan": "walk"}',
        '{"noisette_plan": 1, "plan": ["run"]}',
        '{"noisette_plan": 1, "plan": "run"}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": {"name": "gauss"}}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": {"name": "gaussian"}}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": {"name": "gaussian", "noise": 1}}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": {"noise_multiplier": 1.0}}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": GAUSS, "times": 5}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": GAUSS, "adjacency": "same"}',
        '{"noisette_plan": 1, "plan": "run", "mechanism": "gaussian"}',  # Was: bare ValueError
        '{"noisette_plan": 1, "plan": "run", "mechanism": 5}',
        '{"noisette_plan": 1, "plan": "sampled", "mechanism": GAUSS, "sampler": {"name": "x"}}',
        '{"noisette_plan": 1, "plan": "sampled", "mechanism": GAUSS, "sampler": "poisson"}',
        '{"noisette_plan": 1, "plan": "repeat", "of": {"plan": "declared", "epsilon": 1}}',
        '{"noisette_plan": 1, "plan": "repeat", "of": 3, "times": 2}',
        '{"noisette_plan": 1, "plan": "together", "of": []}',
        '{"noisette_plan": 1, "plan": "together", "of": 3}',
        '{"noisette_plan": 1, "plan": "declared", "epsilon": NaN}',
        '{"noisette_plan": 1, "plan": "declared", "epsilon": 1, "delta": 1}',
    ],
)
def test_bad_json_is_refused_in_one_sentence(text):
    with pytest.raises(InvalidParameter) as caught:
        Plan.from_json(text.replace("GAUSS", GAUSS))
    assert_one_sentence(caught.value)


def test_a_wrong_type_in_json_is_not_a_truth():
    # Was: bool("false") is True, so this text halves the noise of the exponential mechanism.
    text = (
        '{"noisette_plan": 1, "plan": "run", '
        '"mechanism": {"name": "exponential", "epsilon": 1.0, "monotone": "false"}}'
    )
    with pytest.raises(InvalidParameter):
        Plan.from_json(text)


def test_deeply_nested_json_is_refused_and_not_a_crash():
    node = '{"plan": "declared", "epsilon": 1}'
    text = '{"plan": "repeat", "times": 1, "of": ' * 2000 + node + "}" * 2000
    # Was: RecursionError instead of one sentence.
    with pytest.raises(InvalidParameter):
        Plan.from_json(text.replace("{", '{"noisette_plan": 1, ', 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Run("gaussian"),
        lambda: Sampled("gaussian", sampling.FullBatch()),
        lambda: Sampled(Gaussian(1.0), "poisson"),
        lambda: Sampled(Gaussian(1.0), 0.1),
        lambda: Together(),
        lambda: Together("gaussian"),
        lambda: Repeat(3, 2),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(make):
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert_one_sentence(caught.value)
