"""A model and its scores on other people: one guarantee, the worse of two costs."""

from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import Ledger, Persons, TableClassifier, load, save
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Parallel
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.scores import BinaryScores, measure
from noisette.tables.frame import Frame
from noisette.tables.pipeline.table_rows import WholeFrame
from noisette.tables.pipeline.table_run import TableSample
from noisette.tables.pipeline.train_and_test import divided
from tests.pipeline.spy import Spy, budget

KINDS = {"age": "numeric", "ward": "categorical"}
RELATIONS = ["replace-one", "zero-out", "add-remove"]


def drawn_for_test(units: int, share: float, public: Any, randomness: Randomness) -> Any:
    exact = public.adjacency.size_is_public
    return WholeFrame(Frame({})).drawn(units, share, randomness, exact=exact)


def people(n: int = 3000, seed: int = 0) -> tuple[dict[str, Any], Any]:
    generator = np.random.default_rng(seed)
    age, ward = generator.integers(0, 90, n), np.where(generator.random(n) < 0.5, "A", "B")
    ill = generator.random(n) < 1 / (1 + np.exp(-0.1 * (age - 50) - (ward == "A")))
    return {"age": age, "ward": ward}, np.where(ill, "yes", "no")


def model(relation: str = "replace-one", **more: Any) -> TableClassifier:
    options: dict[str, Any] = {"test_share": 0.25, "random_state": 0, "population": 3000} | more
    return TableClassifier(2.0, 1e-6, schema=KINDS, adjacency=relation, **options)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_score_is_free_and_the_guarantee_covers_it(relation: str) -> None:
    table, ill = people()
    ledger = Ledger(2.0, 1e-6, adjacency=relation)
    fitted = model(relation, ledger=ledger).fit(table, ill)
    promise, found = fitted.privacy_, fitted.test_
    assert isinstance(found, BinaryScores)
    assert found.privacy_ is promise
    assert len(ledger.charges) == 1
    assert (promise.epsilon, promise.delta) == (2.0, 1e-6)
    assert isinstance(promise.plan, Parallel)
    for part in promise.plan.plans:  # each alone has the whole budget, and no more
        cost = accounting.epsilon(part, delta=1e-6, adjacency=relation)
        assert 1.9 < cost <= 2.0
    assert {"TEST-SHARE", "SCORE-TABLE", "PARALLEL-GROUPS"} <= set(promise.proofs)
    assert "scores on other people" in promise.statement()
    truth = measure(fitted, *people(20_000, 1)).auc.value
    assert abs(found.auc.value - truth) < 4 * found.auc.error
    assert truth - found.auc.error > 0.8
    assert found.counts.sum() == pytest.approx(750, abs=12 * found.deviation + 80)


def test_who_is_tested_is_decided_without_a_look() -> None:
    source = Randomness.from_seed
    known = budget("replace-one", 1000)
    chosen = drawn_for_test(1000, 0.2, known, source(0))
    assert chosen.sum() == 200
    assert drawn_for_test(1000, 0.2, known, source(1)).tolist() != chosen.tolist()
    counts = sum(drawn_for_test(1000, 0.2, known, source(k)).astype(int) for k in range(400))
    assert abs(counts - 80).max() < 6 * np.sqrt(400 * 0.2 * 0.8)  # everybody alike
    private = budget("add-remove", 1000)
    with_one = drawn_for_test(1001, 0.2, private, source(5))
    assert np.array_equal(with_one[:-1], drawn_for_test(1000, 0.2, private, source(5)))
    sizes = [drawn_for_test(1000, 0.2, private, source(k)).sum() for k in range(300)]
    assert np.var(sizes) == pytest.approx(160, rel=0.35)  # coins: their number is random


def test_sizes_of_both_parts() -> None:
    most, rest = divided(budget("replace-one", 1000, most=1000), 0.3)
    assert (most.size, most.most, rest.size, rest.most) == (700, 700, 300, 300)
    private = budget("add-remove", 1000, most=2000)
    assert divided(private, 0.3)[0].most == 2000  # which part a person is in bounds nothing
    with pytest.raises(InvalidParameter, match="too few on one side"):
        divided(budget("replace-one", 10, most=10), 0.01)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_test_person_leaves_no_trace_in_the_model(relation: str) -> None:
    """Change one: every value that the training bounds stays what it was, the table moves by 2."""
    table, ill = people(600)
    units = Adjacency.of(relation)
    chosen = None
    for place, tested in ((None, None), ("train", False), ("test", True)):
        changed = {name: cells.copy() for name, cells in table.items()}
        labels = ill.copy()
        if tested is not None:
            row = int(np.flatnonzero(chosen == tested)[0])
            changed["age"][row], changed["ward"][row] = 10_000, "B"
            labels[row] = "yes" if labels[row] == "no" else "no"
        fitted = model(relation, classes=["no", "yes"], population=600)
        spy = Spy()
        with watching(spy):
            fitted.fit(changed, labels)
        arrays = [bounded.value for bounded, _ in spy.seen]
        values = [np.array(each) for each in arrays if isinstance(each, np.ndarray)]
        if place is None:
            public = budget(units, 600)
            chosen = drawn_for_test(600, 0.25, public, Randomness.from_seed(0))
            whole = values
            continue
        same = [np.array_equal(a, b) for a, b in zip(values, whole, strict=True)]
        if place == "test":
            assert all(same[:-1])
            assert not same[-1]
            assert np.abs(values[-1] - whole[-1]).sum() <= 2.0
        else:
            assert not all(same[:-1])


def test_it_is_saved_with_the_model(tmp_path: Any) -> None:
    table, ill = people(800)
    three = np.where(table["age"] > 80, "so", ill)
    for labels in (ill, three):
        fitted = model(population=None).fit(table, labels)
        save(fitted, tmp_path / "m.noisette")
        back = load(tmp_path / "m.noisette")
        assert str(back.test_) == str(fitted.test_)
        assert back.test_.privacy_ == fitted.privacy_
    plain = model(test_share=None).fit(table, ill)
    assert not hasattr(plain, "test_")
    again = fitted.set_params(test_share=None).fit(table, ill)
    assert not hasattr(again, "test_")


def test_the_plan_is_shown_before_and_bad_shares_are_refused() -> None:
    shown = model().plan(3000)
    assert isinstance(shown.plan, Parallel)
    assert [step.name for step in shown.steps] == [
        "knots",
        "levels",
        "shares",
        "weights",
        "calibration",
    ]
    table, ill = people(100)
    for share in (0.0, 1.0, 2.0, "x"):
        with pytest.raises(InvalidParameter, match="test_share"):
            model(test_share=share).fit(table, ill)


@pytest.mark.parametrize("share", [0.02, 0.98])
def test_an_empty_part_is_no_exception_under_add_remove(share: float) -> None:
    """How many people are in a part is private there, so none must not show."""
    table, ill = people(2)
    with pytest.warns(UserWarning, match="From public facts") if share > 0.5 else _quiet():
        fitted = model("add-remove", test_share=share, classes=["no", "yes"]).fit(table, ill)
    assert not fitted.test_.auc.trusted


def _quiet() -> Any:
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_persons_are_trained_on_or_tested_with_all_their_rows(relation: str) -> None:
    table, ill = people(1200)
    crowd = Persons.of(np.random.default_rng(3).integers(0, 400, 1200), max_rows=20)
    fitted = model(relation, population=400).fit(table, ill, persons=crowd)
    assert fitted.privacy_.unit == "person"
    assert fitted.test_.counts.sum() == pytest.approx(95, abs=60)  # of persons, not of rows
    sample = TableSample(WholeFrame(Frame.of(table)), crowd.index, crowd)  # for labels, who it is
    assert sample.unit.count == crowd.count
    tested = drawn_for_test(crowd.count, 0.25, budget(relation, crowd.count), Randomness.secure())
    parts = [sample.part(side) for side in (tested, ~tested)]
    sides = [set(part.labels.tolist()) for part in parts]
    assert [part.unit.count for part in parts] == [len(side) for side in sides]
    assert sides[0] & sides[1] == set()
    assert len(sides[0] | sides[1]) == crowd.count
