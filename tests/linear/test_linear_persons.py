"""Linear models on persons: what is released moves by what one row could move it, and no more."""

from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import (
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Persons,
    Randomness,
    SGDClassifier,
    SGDRegressor,
)
from noisette.errors import InvalidData, Unproven
from noisette.fitting.units import Persons as Grouping

PEOPLE, D = 60, 3


class Watch:
    """Keeps what crosses the door, what is solved and what the kernels get."""

    def __init__(self) -> None:
        self.plans: list[Any] = []
        self.bounded: list[Any] = []
        self.problems: list[Any] = []
        self.steps: list[Any] = []

    def charge(self, real, plan, **options):
        self.plans.append((plan, options))
        return real(plan, **options)

    def release(self, real, bounded, permit, randomness, *, part=0):
        self.bounded.append(bounded)
        return real(bounded, permit, randomness, part=part)

    def minimise(self, real, loss, X, y, **options):
        self.problems.append((X, y, options))
        return real(loss, X, y, **options)

    def advance(self, real, *given):
        self.steps.append(given)
        real(*given)


def table(mine: int, sign: float = 1.0, label: int = 1) -> tuple[Any, Any, Any]:
    """Rows of 60 persons; those of person 0 are `mine` copies of one hostile row."""
    source = np.random.default_rng(3)
    many = source.integers(1, 6, PEOPLE)
    ids = np.repeat(np.arange(PEOPLE), many)
    X = source.normal(size=(len(ids), D)) / 4.0
    y = source.integers(0, 2, len(ids))
    keep = ids > 0
    hostile = np.zeros((mine, D))
    hostile[:, 0] = sign
    ids = np.concatenate([np.zeros(mine, dtype=int), ids[keep]])
    return (
        np.concatenate([hostile, X[keep]]),
        np.concatenate([np.full(mine, label), y[keep]]),
        np.array([f"person {i}" for i in ids]),
    )


def watched(model: Any, mine: int, sign: float = 1.0, label: int = 1, **more: Any) -> Watch:
    seen = Watch()
    X, y, ids = table(mine, sign, label)
    with watching(seen):
        model.fit(X, y, persons=Persons.of(ids), **more)
    return seen


COMMON = {"norm_bound": 1.0, "classes": [0, 1], "fit_intercept": False, "random_state": 1}
ONE_SHOT = [
    LogisticRegression(1.0, mechanism="objective", **COMMON),
    LogisticRegression(1.0, 1e-6, mechanism="objective", **COMMON),
    LogisticRegression(1.0, 1e-6, mechanism="objective", whiten=0.2, **COMMON),
    LogisticRegression(1.0, mechanism="output", **COMMON),
    LogisticRegression(1.0, mechanism="output", adjacency="add-remove", population=50, **COMMON),
    LinearSVC(1.0, 1e-6, mechanism="output", loss="hinge", **COMMON),
    LinearSVC(1.0, 1e-6, mechanism="objective", loss="huber", **COMMON),
]
STEPS = [
    SGDClassifier(1.0, **COMMON),
    SGDClassifier(1.0, 1e-6, sampling="poisson", batch_size=10, epochs=2, **COMMON),
    SGDClassifier(1.0, 1e-6, sampling="without-replacement", batch_size=10, **COMMON),
    SGDClassifier(1.0, 1e-6, sampling="random-allocation", batch_size=10, **COMMON),
    SGDClassifier(1.0, 1e-6, sampling="cyclic", batch_size=10, epochs=2, **COMMON),
    SGDClassifier(1.0, 1e-6, sampling="shuffle", batch_size=10, released="last", **COMMON),
]
FEW = pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
pytestmark = FEW


@pytest.mark.parametrize("model", ONE_SHOT, ids=str)
def test_the_number_of_rows_decides_nothing_public(model: Any) -> None:
    """Plan, bounds, regularisation, tolerance and caps are those of 60 persons, whoever has 40."""
    few, many = watched(model, 1), watched(model, 40)
    assert few.plans == many.plans
    assert few.plans[0][1]["unit"] == "person"
    whitened = model.whiten is not False  # then later bounds follow from a noisy release
    for one, other in list(zip(few.bounded, many.bounded, strict=True))[: 1 if whitened else 9]:
        assert (one.l2, one.l1, one.contribution) == (other.l2, other.l1, other.contribution)
    known = ("norm_bound", "weight_bound", "max_rows", "total_weight")
    known = known[1:] if whitened else (*known, "regularization", "tolerance")
    for (_, _, one), (_, _, other) in zip(few.problems, many.problems, strict=True):
        assert [one[name] for name in known] == [other[name] for name in known]
        for options in (one, other):
            assert options["sample_weight"].sum() <= PEOPLE
    assert model.privacy_.unit == "person"
    assert "person 0" not in model.privacy_.statement()


@pytest.mark.parametrize("mine", [1, 2, 40])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_output_moves_as_far_as_one_record_moves_it(mine: int, relation: str) -> None:
    """All rows of one person replaced (removed): at most the bound, and near it when hostile."""
    model = LogisticRegression(
        1.0, mechanism="output", regularization=200.0, adjacency=relation, population=PEOPLE,
        **COMMON,
    )  # fmt: skip
    first = watched(model, mine, 1.0, 1).bounded[0]
    seen = Watch()
    X, y, ids = table(7, -1.0, 1)
    if relation == "add-remove":
        X, y, ids = X[7:], y[7:], ids[7:]
    with watching(seen):
        model.fit(X, y, persons=ids)
    second = seen.bounded[0]
    moved = float(np.linalg.norm(first.value - second.value))
    assert first.l2 == second.l2
    # Lambda is so large that the slope is 1/2 all over: half of the bound is reached
    assert 0.45 * first.l2 <= moved <= 0.55 * first.l2


@pytest.mark.parametrize("mine", [1, 40])
def test_the_second_moment_moves_by_one_record(mine: int) -> None:
    model = LogisticRegression(1.0, 1e-6, whiten=0.2, **COMMON)
    first = watched(model, mine).bounded[0]
    X, y, ids = table(mine)
    X[:mine] = [0.0, 1.0, 0.0]
    seen = Watch()
    with watching(seen):
        model.fit(X, y, persons=ids)
    second = seen.bounded[0]
    moved = float(np.linalg.norm(first.value - second.value))
    assert 0.99 * first.l2 <= moved <= first.l2


def test_gradient_descent_moves_by_one_record() -> None:
    model = SGDClassifier(1.0, 1e-6, **COMMON)
    first, second = watched(model, 40, 1.0).bounded[0], watched(model, 3, -1.0).bounded[0]
    assert first.l2 == second.l2
    moved = float(np.linalg.norm(first.value - second.value))
    assert 0.98 * first.l2 <= moved <= first.l2  # at w = 0 the bound is attained


@pytest.mark.parametrize("model", STEPS, ids=str)
def test_batches_are_batches_of_persons(model: Any) -> None:
    """A person is in a batch with all rows or with none; shares of a person add up to <= 1."""
    few, many = watched(model, 1), watched(model, 40)
    assert few.plans == many.plans
    ids = table(40)[2]
    index = Grouping.of(ids).index
    sizes = np.bincount(index)
    taken = []
    for _, _, _, _, batches, _, _, share in many.steps:
        assert np.bincount(index, share).max() <= 1.0
        for t in range(len(batches)):
            rows = batches.order[batches.edges[t] : batches.edges[t + 1]]
            inside = np.bincount(index[rows], minlength=PEOPLE)
            assert set(np.flatnonzero(inside)) == set(np.flatnonzero(inside == sizes))
            taken.append(int((inside > 0).sum()))
            assert batches.normalisers[t] <= PEOPLE
    assert max(taken) < PEOPLE
    if model.sampling != "poisson":
        assert sum(taken) % 10 == 0  # persons, not rows
    assert "PERSON-ORDER" in model.privacy_.proofs


def test_single_passes_take_everybody_once() -> None:
    seen = np.zeros(PEOPLE)
    watch = watched(SGDClassifier(1.0, batch_size=7, **COMMON), 40)
    index = Grouping.of(table(40)[2]).index
    for _, _, _, _, batches, _, _, _ in watch.steps:
        for t in range(len(batches)):
            seen[np.unique(index[batches.order[batches.edges[t] : batches.edges[t + 1]]])] += 1
    np.testing.assert_array_equal(seen, 1.0)


@pytest.mark.parametrize("sampling", ["auto", "levels"])
def test_levels_belong_to_persons(sampling: str) -> None:
    model = SGDClassifier(1.0, sampling=sampling, batch_size=10, **COMMON)
    X, y, ids = table(40)
    levels = np.where(ids < "person 3", 0.25, 1.0)
    seen = Watch()
    with watching(seen):
        model.fit(X, y, persons=ids, sample_epsilon=levels)
    index = Grouping.of(ids).index
    for _, _, _, _, batches, _, _, share in seen.steps:
        cap = 0.25 if sampling == "auto" else 1.0
        assert np.bincount(index, share)[0] <= cap
        if sampling == "levels":
            for t in range(len(batches)):
                rows = batches.order[batches.edges[t] : batches.edges[t + 1]]
                assert len(np.unique(levels[rows])) == 1
    levels[0] = 0.5
    with pytest.raises(InvalidData, match="same in all rows of one person"):
        model.fit(X, y, persons=ids, sample_epsilon=levels)


def test_levels_of_output_perturbation_belong_to_persons() -> None:
    X, y, ids = table(40)
    levels = np.where(ids == "person 0", 0.25, 1.0)
    model = LogisticRegression(1.0, mechanism="output", **COMMON)
    seen = Watch()
    with watching(seen):
        model.fit(X, y, persons=ids, sample_epsilon=levels)
    weights = seen.problems[0][2]["sample_weight"]
    assert 0.24 <= weights[ids == "person 0"].sum() <= 0.25
    levels[0] = 1.0
    with pytest.raises(InvalidData, match="same in all rows of one person"):
        model.fit(X, y, persons=ids, sample_epsilon=levels)


def test_sample_weights_are_shared_too() -> None:
    X, y, ids = table(40)
    model = LogisticRegression(1.0, mechanism="output", weight_bound=3.0, **COMMON)
    seen = Watch()
    with watching(seen):
        model.fit(X, y, sample_weight=np.full(len(y), 3.0), persons=ids)
    weights = seen.problems[0][2]["sample_weight"]
    assert 2.99 <= np.bincount(Grouping.of(ids).index, weights).max() <= 3.0


@pytest.mark.parametrize("model", [ONE_SHOT[0], ONE_SHOT[3], STEPS[0], STEPS[1]], ids=str)
def test_rows_that_do_not_share_a_weight_are_refused(model: Any, monkeypatch) -> None:
    """The row-counting mutant: every row weighs 1."""
    X, y, ids = table(40)
    monkeypatch.setattr(Grouping, "weights", property(lambda self: np.ones(len(self.index))))
    ledger = Ledger(1.0, 1e-6)
    model = type(model)(**(model.get_params() | {"ledger": ledger}))
    with pytest.raises(InvalidData, match="add up to at most one"):
        model.fit(X, y, persons=ids)
    assert ledger.count == 0


def test_a_cap_leaves_further_rows_out() -> None:
    X, y, ids = table(40)
    model = LogisticRegression(1.0, **COMMON)
    seen = Watch()
    with watching(seen):
        model.fit(X, y, persons=Persons.of(ids, max_rows=3))
    ((rows, _, options),) = seen.problems
    assert options["max_rows"] == 3 * PEOPLE
    assert len(rows) == np.minimum(np.bincount(Grouping.of(ids).index), 3).sum()
    assert model.privacy_.max_rows == 3
    assert "at most 3 are used" in model.privacy_.statement()


def test_too_many_rows_without_a_cap_are_refused() -> None:
    ids = np.repeat([0, 1], [200, 1])
    X, y = np.zeros((201, 2)), np.arange(201) % 2
    with pytest.raises(ValueError, match="64 rows each on average"):
        LogisticRegression(**COMMON).fit(X, y, persons=ids)
    LogisticRegression(**COMMON).fit(X, y, persons=Persons.of(ids, max_rows=200))


def test_one_row_each_is_a_table_of_records() -> None:
    X, y, _ = table(1)
    for model in (ONE_SHOT[0], ONE_SHOT[3]):
        alone = type(model)(**model.get_params()).fit(X, y)
        each = type(model)(**model.get_params()).fit(X, y, persons=np.arange(len(y)))
        np.testing.assert_allclose(each.coef_, alone.coef_, rtol=1e-3, atol=1e-3)
        assert (alone.privacy_.unit, each.privacy_.unit) == ("record", "person")


def test_streams_refuse_persons_and_say_what_to_do() -> None:
    X, y, ids = table(5)
    model = SGDClassifier(1.0, **COMMON)
    for call in (
        lambda: model.partial_fit(X, y, classes=[0, 1], persons=ids),
        lambda: model.fit(iter([(X, y)]), persons=ids),
    ):
        with pytest.raises(Unproven, match="fit all rows at once"):
            call()


def test_a_single_person_and_missing_identifiers_are_refused() -> None:
    X, y, ids = table(5)
    ledger = Ledger(1.0)
    for model in (
        LogisticRegression(**COMMON, ledger=ledger), SGDClassifier(**COMMON, ledger=ledger)
    ):  # fmt: skip
        with pytest.raises(InvalidData, match="two persons"):
            model.fit(X, y, persons=["one"] * len(y))
        with pytest.raises(InvalidData, match="without an identifier"):
            model.fit(X, y, persons=[None, *ids[1:].tolist()])
        with pytest.raises(InvalidData, match="one identifier for each row"):
            model.fit(X, y, persons=ids[1:])
    assert ledger.count == 0


def test_the_delta_check_counts_persons() -> None:
    X, y, ids = table(40)
    LogisticRegression(1.0, 1.0 / 61, **COMMON).fit(X, y, persons=ids)
    with pytest.raises(ValueError, match="delta"):
        LogisticRegression(1.0, 1.0 / 59, **COMMON).fit(X, y, persons=ids)
    with pytest.raises(ValueError, match="delta"):
        LogisticRegression(1.0, 1.0 / 61, **COMMON).fit(X, y)


def test_numbers_that_are_not_random_decide_no_batch() -> None:
    from noisette.errors import PermitError
    from noisette.fitting.algorithms.steps import Batches

    persons = Persons.of(["a", "b", "a"])
    batches = Batches.of([np.array([1]), np.array([0])], 1.0)
    with pytest.raises(PermitError, match="random order"):
        batches.rows_of(persons)
    found = batches.rows_of(persons.shuffled(Randomness.secure()))
    assert sorted(found.order.tolist()) == [0, 1, 2]
    assert found.edges[-1] == 3


@pytest.mark.parametrize("model", [LinearRegression(), HuberRegressor(), SGDRegressor()])
def test_regressors_state_the_rows_above_which_persons_are_refused(model):
    model.set_params(norm_bound=1.0, target_bounds=(0.0, 1.0), epsilon=5.0, delta=1e-3)
    ids, rows = np.repeat(np.arange(6), 70), np.full((420, 2), 0.5)
    few = model.fit(rows[::5], np.zeros(84), persons=ids[::5]).privacy_.statement()
    limited = "at most 384 rows" in few
    assert limited == (not isinstance(model, SGDRegressor))  # which adds rows up as they come
    if limited:
        with pytest.raises(InvalidData, match="more than 64 rows each on average"):
            model.fit(rows, np.zeros(420), persons=ids)
    else:
        model.fit(rows, np.zeros(420), persons=ids)
