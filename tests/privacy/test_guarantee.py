"""The promise: numbers that match the plan, words that say everything, JSON that cannot lie."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from helpers import RELATIONS
from noisette.core import accounting, sampling
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace, SphericalLaplace
from noisette.core.plans import Plan, Repeat, Run, Sampled, Together
from noisette.core.randomness import Randomness
from noisette.errors import AdjacencyMismatch, InvalidParameter

PLANS = [
    Run(Laplace(2.0)),
    Repeat(SphericalLaplace(3.0, 4), 5),
    Repeat(Sampled(Gaussian(2.0), sampling.Poisson(0.1)), 20),
    Together(Gaussian(4.0), Repeat(Gaussian(6.0), 2)),
]
DELTA = 1e-6


def guarantee(plan, relation=REPLACE_ONE, delta=DELTA, **extra) -> Guarantee:
    plan = plan.under(relation)
    epsilon = accounting.epsilon(plan, delta=delta, adjacency=relation)
    words = {"released": "a model", "public": ("the number of rows", "the columns")}
    return Guarantee(epsilon=epsilon, delta=delta, plan=plan, **{**words, **extra})


every_plan = pytest.mark.parametrize("plan", PLANS, ids=repr)


@every_plan
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_json_round_trip_is_equal(plan, relation):
    first = guarantee(plan, relation, seeded=True, proofs=("A", "B"), notes=("Read this.",))
    again = Guarantee.from_json(first.to_json())
    assert again == first
    assert again.adjacency is relation
    assert again.statement() == first.statement()
    assert json.loads(first.to_json())["statement"] == first.statement()


@every_plan
def test_a_smaller_epsilon_in_the_file_is_refused(plan):
    text = guarantee(plan).to_json()
    for key, factor in (("epsilon", 0.99), ("epsilon", 0.5), ("delta", 1e-3)):
        node = json.loads(text)
        node[key] *= factor
        if key == "delta" and accounting.epsilon(plan, delta=node[key]) <= node["epsilon"]:
            continue  # a pure plan keeps its epsilon at any delta
        with pytest.raises(InvalidParameter, match="more than the stated"):
            Guarantee.from_json(json.dumps(node))


def test_a_plan_with_more_runs_than_promised_is_refused():
    node = json.loads(guarantee(PLANS[1]).to_json())
    node["plan"]["times"] = 6
    with pytest.raises(InvalidParameter, match="would be wrong"):
        Guarantee.from_json(json.dumps(node))
    node["plan"]["times"] = 4  # promising more than needed is allowed
    Guarantee.from_json(json.dumps(node))


def test_another_relation_in_the_file_is_refused():
    node = json.loads(guarantee(PLANS[0], ZERO_OUT).to_json())
    node["adjacency"] = "replace-one"
    with pytest.raises(AdjacencyMismatch, match=r"zero-out.*replace-one"):
        Guarantee.from_json(json.dumps(node))


@pytest.mark.parametrize("key", ["epsilon", "delta", "adjacency", "plan", "released", "seeded"])
def test_a_missing_key_is_named(key):
    node = json.loads(guarantee(PLANS[0]).to_json())
    del node[key]
    with pytest.raises(InvalidParameter, match=key):
        Guarantee.from_json(json.dumps(node))


@pytest.mark.parametrize(
    "change",
    [
        {"noisette_guarantee": 2},
        {"epsilon": math.nan},
        {"epsilon": -1},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"adjacency": "neighbour"},
        {"plan": {"plan": "walk"}},
        {"plan": None},
    ],
    ids=str,
)
def test_bad_json_is_refused_in_one_sentence(change):
    node = {**json.loads(guarantee(PLANS[0]).to_json()), **change}
    with pytest.raises(InvalidParameter) as caught:
        Guarantee.from_json(json.dumps(node))
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("text", ["", "no", "[]", "3", "{}", None, b"\xff"])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidParameter):
        Guarantee.from_json(text)


@every_plan
def test_the_curve_falls_and_is_consistent(plan):
    shown = guarantee(plan)
    assert shown.epsilon_at(shown.delta) <= shown.epsilon * (1 + 1e-12)
    deltas = [1e-12, 1e-9, 1e-6, 1e-3, 0.1]
    epsilons = [shown.epsilon_at(d) for d in deltas]
    assert all(a >= b for a, b in itertools.pairwise(epsilons))
    for d, e in zip(deltas, epsilons, strict=True):
        assert shown.delta_at(e) <= d * (1 + 2e-3)
    grid = [0.0, 0.1, 0.5, 1.0, 4.0]
    falling = [shown.delta_at(e) for e in grid]
    assert all(1 >= a >= b >= 0 for a, b in itertools.pairwise(falling))


def test_the_statement_says_everything_that_matters():
    shown = guarantee(
        PLANS[3], ADD_REMOVE, public=("the columns", "the classes"), notes=("Rows were clipped.",),
        proofs=("GAUSS-EXACT",), released="the weights",
    )  # fmt: skip
    text = shown.statement()
    assert "\n" not in text
    epsilon = math.ceil(shown.epsilon * 1e5) / 1e5  # six digits, never fewer than are spent
    for piece in (
        "the weights", f"{epsilon:g}", "1e-06", "add-remove", "the columns; the classes",
        "Rows were clipped.", "GAUSS-EXACT", "grid", "timing",
    ):  # fmt: skip
        assert piece in text
    factor = f"{math.exp(shown.epsilon):.4g}"
    assert factor in text
    assert "WARNING" not in text
    assert "seed" not in text


def test_the_statement_names_its_relation_and_pure_privacy():
    for relation in RELATIONS:
        assert relation.value in guarantee(PLANS[0], relation).statement()
    assert "pure" in guarantee(PLANS[0], delta=0.0).statement()
    assert "delta = 1e-06" in guarantee(PLANS[0]).statement()


def test_a_large_epsilon_is_not_praised():
    text = guarantee(Run(Laplace(0.4)), delta=0.0).statement()
    assert "could have learned almost as well" not in text
    assert "weaker" in text
    huge = guarantee(Run(Laplace(1e-3)), delta=0.0).statement()
    assert "astronomically" in huge


@pytest.mark.parametrize("seeded", [False, True])
def test_the_seed_warning_stands_where_it_must(seeded):
    """Through the door: the permit knows which source drew."""
    permit = Ledger(1.0).charge(Repeat(Laplace(40.0), 2), label="mean")
    value = Bounded([0.0], REPLACE_ONE, "CLIP", l2=2.0)
    release(value, permit, Randomness.secure())
    assert not permit.guarantee("a mean").seeded
    release(value, permit, Randomness.from_seed(1) if seeded else Randomness.secure())
    shown = permit.guarantee("a mean", public=("n",))
    assert shown.seeded is seeded
    assert ("void" in shown.statement()) is seeded
    assert Guarantee.from_json(shown.to_json()).seeded is seeded


def test_a_permit_promises_what_it_charged():
    permit = Ledger(2.0, 1e-5, adjacency=ZERO_OUT).charge(
        Repeat(Sampled(Gaussian(2.0), sampling.Poisson(0.05)), 10), label="fit", delta=1e-6
    )
    shown = permit.guarantee("a model")
    assert (shown.epsilon, shown.delta) == (permit.epsilon, 1e-6)
    assert shown.adjacency is ZERO_OUT
    assert shown.proofs == ("GAUSS-EXACT", "POISSON-A", "COMPOSE", "FLOAT-GRID", "ZIGGURAT")
    assert shown.requires("zero-out") is shown
    with pytest.raises(AdjacencyMismatch, match=r"zero-out.*replace-one"):
        shown.requires(REPLACE_ONE)


def test_a_guarantee_is_frozen_and_needs_a_bound_plan():
    shown = guarantee(PLANS[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        shown.epsilon = 0.1
    with pytest.raises(InvalidParameter, match="adjacency"):
        Guarantee(epsilon=5.0, delta=0.0, plan=PLANS[0], released="x")
    with pytest.raises(InvalidParameter, match="would be wrong"):
        dataclasses.replace(shown, epsilon=shown.epsilon / 2)


def test_a_plan_without_any_bound_gets_no_guarantee():
    with pytest.raises(InvalidParameter):
        Guarantee(
            epsilon=100.0, delta=0.0, plan=Run(Gaussian(1.0), adjacency=ZERO_OUT), released="x"
        )


def written() -> dict[str, object]:
    permit = Ledger(1.0).charge(Laplace(4.0), label="mean")
    one = Bounded(np.zeros(1), contribution=1.0, adjacency=Adjacency.REPLACE_ONE, proof="CLIP")
    release(one, permit, Randomness.from_seed(3))
    node: dict[str, object] = json.loads(permit.guarantee("a mean").to_json())
    assert node["seeded"] is True
    return node


@pytest.mark.parametrize("value", [0, None, "", "false", [], 0.0])
def test_only_a_plain_no_says_that_noise_was_not_seeded(value: object) -> None:
    with pytest.raises(InvalidParameter, match="seeded"):
        Guarantee.from_dict({**written(), "seeded": value})


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(1.0, "1"), (0.1 * 3, "0.3"), (1.0000004, "1.00001"), (0.12345649, "0.123457"),
     (9.9999994, "10"), (1.23456e-5, "1.23456e-05"), (1.234561e-5, "1.23457e-05"),
     (123456.2, "123457"), (1234567.0, "1.23457e+06")],
)  # fmt: skip
def test_the_statement_never_rounds_a_promise_down(epsilon: float, shown: str) -> None:
    plan = Run(Laplace.calibrated(epsilon)).under("replace-one")
    words = Guarantee(epsilon=epsilon, delta=0.0, plan=plan, released="a mean").statement()
    assert f"with epsilon = {shown} (pure" in words


def test_the_proofs_of_the_plan_cannot_be_left_out() -> None:
    read = Guarantee.from_dict({**written(), "proofs": []})
    assert read.proofs == ("LAPLACE-1D", "FULL-BATCH", "FLOAT-GRID")


@pytest.mark.parametrize("field", ["public", "proofs", "notes"])
def test_lists_of_texts_are_lists_of_texts(field: str) -> None:
    # Was: a bare TypeError.
    for value in ("CLIP", [1, 2], {"a": "b"}, 5, None):
        with pytest.raises(InvalidParameter, match=field):
            Guarantee.from_dict({**written(), field: value})


def test_numbers_that_are_no_floats_are_bad_input() -> None:
    text = Repeat(Run(Gaussian(50.0)), 20).under("replace-one").to_json()
    assert '"noise_multiplier": 50.0' in text
    with pytest.raises(InvalidParameter):
        Plan.from_json(text.replace("50.0", "1" + "0" * 400))
    with pytest.raises(InvalidParameter):
        Guarantee.from_dict({**written(), "epsilon": 10**400})
    with pytest.raises(InvalidParameter):
        Guarantee.from_json("[" * 100_000)
