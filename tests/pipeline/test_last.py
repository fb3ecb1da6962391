"""The last algorithm of a table's training: what it sees, what it costs, and what it may not do."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from noisette import Ledger, Persons, TableClassifier, accounting
from noisette.core import door
from noisette.errors import InvalidParameter, NoisetteError, Unproven, WeakModelWarning
from noisette.fitting.algorithms.records import Records
from noisette.fitting.clipping import row_norms
from noisette.tables.pipeline import last, table_training

RELATIONS = ["replace-one", "zero-out", "add-remove"]
WISHES: dict[str, dict[str, Any]] = {
    "output": {"mechanism": "output"},
    "hinge": {"model": "svm", "loss": "hinge"},
    "single pass": {"model": "sgd", "sampling": "disjoint"},
    "descent": {"model": "sgd"},
}
N = 400
STATED = {
    "age": {"kind": "numeric", "low": 0, "high": 100},
    "job": {"kind": "categorical", "categories": ["a", "b"]},
}


def people(seed: int = 0) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    table = {"age": rng.integers(0, 100, N), "job": rng.choice(["a", "b", "c"], N)}
    return table, np.where(table["age"] + rng.normal(0.0, 20.0, N) > 50, "yes", "no")


def model(case: str, delta: float = 1e-5, **more: Any) -> TableClassifier:
    given = {"schema": STATED, "classes": ["no", "yes"], "random_state": 0, "population": N}
    return TableClassifier(delta=delta, **({"epsilon": 2.0} | given | WISHES[case] | more))


def allowed(case: str, relation: str, delta: float) -> bool:
    batches = case == "single pass" or (case == "descent" and delta == 0.0)
    return not (batches and relation == "add-remove")


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", WISHES)
def test_both_parts_stay_within_the_budget(case: str, relation: str, delta: float) -> None:
    found, (table, y) = model(case, delta, adjacency=relation), people()
    ledger = found.ledger = Ledger(2.0, delta, adjacency=relation)
    if not allowed(case, relation, delta):
        with pytest.raises(Unproven, match="disjoint"):
            found.fit(table, y)
        assert ledger.count == 0
        return
    found.fit(table, y)
    plan = found.privacy_.plan
    assert accounting.epsilon(plan, delta=delta, adjacency=relation) <= 2.0
    assert "TABLE-LAST" in found.privacy_.proofs
    assert ledger.count == 1


@pytest.mark.parametrize("part", ["facts", "model"])
def test_a_part_that_is_a_tenth_too_large_is_refused(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger finds a budget that does not add up, pure and with all noise at its least."""
    if part == "model":
        monkeypatch.setattr(last, "_SLACK", -0.1)
    else:
        real = table_training._calibrated
        monkeypatch.setattr(
            table_training, "_calibrated",
            lambda steps, model, epsilon, *rest: real(steps, model, 1.1 * epsilon, *rest),
        )  # fmt: skip
    found, (table, y) = model("output", 0.0), people()
    found.ledger = Ledger(2.0)
    with pytest.raises(NoisetteError):
        found.fit(table, y)
    assert found.ledger.count == 0


class Seen(Exception):
    """Carries what an algorithm was handed."""


def handed(found: TableClassifier, table: Any, y: Any, persons: Any = None) -> Records:
    """Return the records that the last algorithm is given."""
    real = last.chosen_last

    def choose(*given: Any, **more: Any) -> Any:
        chosen = real(*given, **more)
        kind = type(chosen.algorithm)
        patch.setattr(kind, "run", lambda self, records, *_: (_ for _ in ()).throw(Seen(records)))
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noisette.tables.pipeline.table_classifier.chosen_last", choose)
        with pytest.raises(Seen) as caught:
            found.fit(table, y, persons)
    return caught.value.args[0]


@pytest.mark.parametrize("case", WISHES)
def test_rows_have_norm_one_and_as_many_columns_as_are_public(case: str) -> None:
    table, y = people()
    widths = set()
    for cells in (table, {"age": np.full(N, 7), "job": np.array(["a"] * N)}):
        records = handed(model(case, schema={"age": "numeric", "job": "categorical"}), cells, y)
        norms = row_norms(records.rows)
        assert norms.max() <= 1.0
        assert norms.max() > 0.5
        widths.add(records.rows.shape)
    assert len(widths) == 1


def test_a_row_of_weight_zero_keeps_its_place() -> None:
    """Else one blanked record would move all later ones into other batches."""
    table, y = people()
    records = handed(model("single pass", class_weight={"yes": 0.0, "no": 1.0}), table, y)
    assert records.rows.shape[0] == N
    assert np.array_equal(records.weights == 0.0, y == "yes")


@pytest.mark.parametrize("case", WISHES)
def test_persons_share_one_weight(case: str) -> None:
    table, y = people()
    records = handed(model(case), table, y, np.arange(N) // 4)
    assert records.unit.count == N // 4
    assert np.bincount(np.arange(N) // 4, weights=records.weights).max() <= 1.0


@pytest.mark.parametrize("case", WISHES)
def test_rows_beyond_a_cap_are_no_reason_to_refuse_after_the_charge(case: str) -> None:
    """One person's many rows made the solver refuse: more than the public bound, spent and seen."""
    table, y = people()
    ids = np.r_[np.zeros(N - 40, dtype=int), np.arange(40)]
    persons = Persons.of(ids, max_rows=2)
    assert model(case).fit(table, y, persons).privacy_.unit == "person"


@pytest.mark.parametrize(
    "wish", ["single pass", "shuffle", "cyclic", "partial-shuffle", "without-replacement"]
)
def test_persons_without_the_tested_ones_fill_the_charged_batches(wish: str) -> None:
    """All persons were counted, the tested ones as empty: the sampler refused after the charge."""
    table, y = people()
    asked = WISHES.get(wish, {"model": "sgd", "sampling": wish})
    found = TableClassifier(
        2.0, 1e-5, schema=STATED, classes=["no", "yes"], test_share=0.3, random_state=0, **asked
    )
    ids = np.r_[np.zeros(N - 200, dtype=int), np.arange(200)]
    assert found.fit(table, y, Persons.of(ids, max_rows=3)).test_.accuracy is not None


@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize("case", ["hinge", "single pass"])
def test_what_partitions_do_not_give_is_refused_before_the_charge(case: str, share: Any) -> None:
    dask, (table, y) = pytest.importorskip("dask.dataframe"), people()
    rows = dask.from_pandas(pd.DataFrame(table), npartitions=2)
    found = model(case, test_share=share)
    ledger = found.ledger = Ledger(2.0, 1e-5)
    with pytest.raises(InvalidParameter, match="partitions"):
        found.fit(rows, dask.from_pandas(pd.Series(y), npartitions=2))
    assert ledger.count == 0


@pytest.mark.parametrize("case", [*WISHES, "objective", "softplus"])
@pytest.mark.parametrize("few", [False, True])
def test_nobody_with_a_label_that_counts_is_no_exception(case: str, few: bool) -> None:
    """Whether one person had the label that counts was told by a refusal, after the charge."""
    table, _ = people()
    asked = WISHES.get(case, {"model": "svm"} if case == "softplus" else {})
    found = TableClassifier(
        2.0, 1e-5, schema=STATED, classes=["no", "yes"], class_weight={"no": 0.0, "yes": 1.0},
        random_state=0, **asked,
    )  # fmt: skip
    persons = Persons.of(np.r_[np.zeros(N - 40, dtype=int), np.arange(40)], max_rows=2)
    found.fit(table, np.full(N, "no"), persons if few else None)
    assert np.isfinite(found.coef_).all()


def test_wishes_that_do_not_fit_are_refused() -> None:
    table, y = people()
    for more, words in [
        ({"model": "sgd", "mechanism": "output"}, "mechanism is not for"),
        ({"sampling": "poisson"}, "sampling is for"),
        ({"loss": "square"}, "loss must be"),
        ({"mechanism": "objective", "model": "svm", "loss": "hinge"}, "kink"),
    ]:
        with pytest.raises(NoisetteError, match=words):
            TableClassifier(1.0, schema=STATED, **more).fit(table, y)
    assert issubclass(InvalidParameter, NoisetteError)


def test_the_noise_of_output_perturbation_is_that_of_its_theorem() -> None:
    """Released minus solved, over runs, in the units of the charged sensitivity."""
    table, y = people()
    moved = []
    real = door._release

    def watched(bounded: Any, *given: Any, **more: Any) -> Any:
        found = real(bounded, *given, **more)
        if bounded.proof == "OUTPUT-SENSITIVITY":
            moved.append(np.linalg.norm(np.asarray(found) - bounded.value) / bounded.l2)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "_release", watched)
        for seed in range(60):
            fitted = model("output", 0.0, random_state=seed).fit(table, y)
    *_, (leaf, _) = fitted.privacy_.plan.leaves()
    law = leaf.mechanism
    wanted = law.dimension * law.noise_multiplier / 2.0  # the mean of a Gamma(d) radius
    assert np.mean(moved) == pytest.approx(wanted, rel=0.05)
    share = 0.93 * (1.0 - last._SLACK)  # of epsilon, where no knots are bought
    assert law.pure_epsilon(fitted.privacy_.adjacency) == pytest.approx(2.0 * share, rel=1e-6)


def test_a_weak_model_of_a_table_is_not_told_to_give_the_table() -> None:
    table, y = people()
    with pytest.warns(WeakModelWarning, match="fewer columns") as told:
        found = model("output", 0.0, epsilon=0.3).fit(table, y)
    assert "give the table" not in str(told[0].message) + found.privacy_.statement()
