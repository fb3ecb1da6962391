"""`TableRegressor`: one plan, limits public or bought, what neighbours move, schema and file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import Ledger, TableClassifier, TableRegressor, load, save
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Exponential, ObjectiveNoise
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema
from noisette.tables.pipeline.table_words import done

KINDS: dict[str, Any] = {"age": "numeric", "ward": "categorical"}
STATED: dict[str, Any] = {
    "age": {"kind": "numeric", "low": 18, "high": 90},
    "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
}
RELATIONS = [relation.value for relation in Adjacency]


def table(n: int = 3000, seed: int = 0) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    out = {
        "age": rng.integers(18, 90, n).astype(float),
        "ward": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
    }
    days = 0.2 * out["age"] + 5.0 * (out["ward"] == "b") + rng.normal(0.0, 1.0, n)
    return out, days


def made(schema: Any = KINDS, **options: Any) -> TableRegressor:
    options = {"target_bounds": (0, 30), "random_state": 0, "population": 3000, **options}
    return TableRegressor(
        options.pop("epsilon", 2.0), options.pop("delta", 1e-6), schema=schema, **options
    )


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(
    ("schema", "options"),
    [(KINDS, {}), (STATED, {}), (STATED, {"delta": 0.0}), (KINDS, {"target_bounds": "learn"})],
)
def test_everything_is_under_one_guarantee(schema: Any, options: Any, adjacency: str) -> None:
    X, y = table()
    ledger = Ledger(2.0, 1e-6, adjacency=adjacency)
    model = made(schema, adjacency=adjacency, ledger=ledger, **options).fit(X, y)
    assert len(ledger.charges) == 1
    promise = model.privacy_
    assert (promise.epsilon, promise.adjacency.value) == (2.0, adjacency)
    assert promise.delta_at(2.0) <= promise.delta
    assert "TWO-SIGNED" in promise.proofs
    assert model.score(X, y) > 0.6
    assert model.predict(X).min() >= model.target_bounds_[0]
    bought = [leaf.mechanism for leaf, _ in promise.plan.leaves() if hasattr(leaf, "mechanism")]
    quantiles = any(isinstance(each, Exponential) for each in bought)
    assert quantiles == (schema is KINDS)
    assert sum(isinstance(each, ObjectiveNoise) for each in bought) == 1
    text = promise.statement()
    known = "the bounds 0 and 30 of the target" in text
    assert known == (options.get("target_bounds") != "learn")


def test_learnt_limits_are_released_quantiles() -> None:
    X, y = table(20_000)
    model = made(target_bounds="learn", epsilon=4.0, population=20_000).fit(X, y)
    low, high = model.target_bounds_
    assert np.quantile(y, 0.0) - 1.0 <= low <= np.quantile(y, 0.1)
    assert np.quantile(y, 0.9) <= high <= np.quantile(y, 1.0) + 1.0


class Keep:
    """Keeps what goes to the door, and hands the first run's answers to the second."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[Any] = []
        self.out: list[Any] = []
        self._answers = answers

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        result = real(bounded, *given, **options)
        if self._answers is not None and isinstance(result, np.ndarray):
            result = self._answers[len(self.seen)]
        self.seen.append(bounded)
        self.out.append(result)
        return result


def test_a_replaced_row_moves_every_release_by_at_most_its_bound() -> None:
    """Sums of features and target: a row goes from one corner of the table to the other."""
    X, y = table(400)
    watches: list[Keep] = []
    for age, ward, days in ((18.0, "a", -1e9), (90.0, "c", 1e9)):
        X["age"][7], X["ward"][7], y[7] = age, ward, days
        watch = Keep(watches[0].out if watches else None)
        model = made(STATED, epsilon=8.0)
        with watching(watch):
            model.fit(X, y)
        watches.append(watch)
    one, two = (watch.seen[0] for watch in watches)
    moved = float(np.linalg.norm(one.value - two.value))
    assert moved <= one.l2
    assert moved >= 0.99 * one.l2, "three columns, two of whose entries change: the worst case"


def test_a_schema_says_that_the_target_is_a_number(tmp_path: Path) -> None:
    X, y = table()
    node = {
        "target": {"name": "days", "kind": "numeric", "low": 0, "high": 30},
        "unit": "one row is one stay",
        "columns": STATED,
    }
    schema = Schema.from_dict(node)
    assert (schema.target, schema.target_bounds, schema.classes) == ("days", (0.0, 30.0), ())
    model = TableRegressor(2.0, 1e-6, schema=schema, random_state=0).fit({**X, "days": y})
    assert model.target_bounds_ == (0.0, 30.0)
    assert np.array_equal(model.predict(X), made(STATED).fit(X, y).predict(X))
    save(model, tmp_path / "m.noisette")
    again = load(tmp_path / "m.noisette")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.target_bounds_ == (0.0, 30.0)
    assert again.privacy_.statement() == model.privacy_.statement()
    for change in (
        {"classes": ["a", "b"]},
        {"target": {"name": "days", "kind": "categorical"}},
        {"target": {"name": "days", "kind": "numeric", "low": 3, "high": 3}},
        {"target": {"name": "days", "kind": "numeric", "most": 3}},
    ):
        with pytest.raises(InvalidParameter):
            Schema.from_dict({**node, **change})


def test_learnt_limits_come_back_from_a_file(tmp_path: Path) -> None:
    X, y = table()
    model = made(target_bounds="learn").fit(X, y)
    save(model, tmp_path / "m.noisette")
    again = load(tmp_path / "m.noisette")
    assert again.target_bounds_ == model.target_bounds_
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target_bounds": None}, "no default"),
        ({"target_bounds": "guess"}, "target_bounds"),
        ({"target_bounds": (3, 1)}, "low < high"),
        ({"threshold": 0.0}, "threshold"),
        ({"schema": None}, "TableRegressor needs the kind"),
        ({"share": 2.0}, "share"),
    ],
)
def test_what_is_refused_charges_nothing(options: dict[str, Any], match: str) -> None:
    X, y = table(500)
    ledger = Ledger(5.0, 1e-6)
    with pytest.raises(InvalidParameter, match=match):
        made(options.pop("schema", KINDS), ledger=ledger, **options).fit(X, y)
    assert ledger.charges == []


def test_bad_targets_are_refused_without_being_quoted() -> None:
    X, y = table(500)
    ledger = Ledger(5.0, 1e-6)
    for bad in (y[:-1], np.append(y[:-1], np.nan), ["Smith"] * 500):
        with pytest.raises(InvalidData) as caught:
            made(ledger=ledger).fit(X, bad)
        assert "Smith" not in str(caught.value)
    assert ledger.charges == []


def test_plan_before_data_names_the_steps() -> None:
    shown = made(target_bounds="learn").plan(3000)
    assert [step.name for step in shown.steps] == ["knots", "levels", "shares", "weights"]
    assert shown.epsilon <= 2.0
    assert [s.name for s in made(STATED).plan(3000).steps] == ["shares", "weights"]
    assert str(shown)


@pytest.mark.parametrize("options", [{}, {"target_bounds": "learn"}])
def test_persons_with_several_rows(options: dict[str, Any]) -> None:
    X, y = table()
    ids = np.repeat(np.arange(1500), 2)
    known = {"age": "numeric", "ward": STATED["ward"]}
    model = made(known, epsilon=4.0, population=1500, **options).fit(X, y, persons=ids)
    assert model.privacy_.unit == "person"
    assert {"TWO-SIGNED", "PERSON-MEAN"} <= set(model.privacy_.proofs)
    assert model.score(X, y) > 0.4


def test_a_classifier_refuses_a_schema_of_a_number() -> None:
    X, y = table(500)
    node = {
        "target": {"name": "days", "kind": "numeric", "low": 0, "high": 30},
        "unit": "one row is one stay",
        "columns": STATED,
    }
    with pytest.raises(InvalidParameter, match="number"):
        TableClassifier(1.0, 1e-6, schema=node).fit({**X, "days": y})


def test_the_statement_names_the_limits_that_bound_every_answer() -> None:
    X, y = table()
    model = made(target_bounds="learn").fit(X, y)
    low, high = model.target_bounds_
    told = f"Targets beyond {low:g} and {high:g} counted as these limits"
    assert told in model.privacy_.statement()
    assert f"the target counts between {low:g} and {high:g}" in done(model)


def test_limits_are_not_bought_where_nobody_knows_how_many_rows_there_are() -> None:
    """Under add-remove a table of 8,000 rows and 45 columns bought the limits -10^12 and 10^11."""
    X, y = table()
    ledger = Ledger(5.0, 1e-6, adjacency="add-remove")
    options = {"target_bounds": "learn", "adjacency": "add-remove", "ledger": ledger}
    with pytest.raises(InvalidParameter, match="limits of a target needs the number of records"):
        made(population=None, **options).fit(X, y)
    assert ledger.charges == []
    made(population=3000, **options).fit(X, y)


def test_a_plan_for_persons_counts_persons() -> None:
    schema = {**KINDS, "id": "ignore"}
    node = {
        "target": {"name": "days", "kind": "numeric", "low": 0, "high": 30},
        "person": "id",
        "max_rows": 3,
        "columns": {name: {"kind": kind} for name, kind in schema.items()},
    }
    assert "\n3,000 persons, about" in str(made(Schema.from_dict(node, learn=True)).plan(3000))
    assert "\n3,000 rows, about" in str(made().plan(3000))


def test_a_slot_that_nobody_fills_is_not_called_known() -> None:
    rng = np.random.default_rng(0)
    X = {f"n{k}": rng.normal(50.0, 15.0, 4000) for k in range(8)}
    y = np.clip(X["n0"] + rng.normal(0.0, 5.0, 4000), 0.0, 100.0)
    schema = dict.fromkeys(X, "numeric")
    found = []
    for seed in range(8):
        model = TableRegressor(
            1.0, 1e-6, schema=schema, target_bounds=(0, 100), random_state=seed
        ).fit(X, y)
        others = model.curves()[1:]  # y depends on the first alone, and no cell is missing
        found += [curve.missing / curve.missing_deviation for curve in others]
    assert max(map(abs, found)) < 3.0
    assert 0.2 < np.mean(np.square(found)) < 1.3


def test_targets_beyond_a_limit_are_spoken_of() -> None:
    rng = np.random.default_rng(0)
    X = {"age": rng.normal(50.0, 15.0, 6000)}
    charges = np.exp(rng.normal(4.0, 1.0, 6000) + 0.01 * X["age"])
    model = TableRegressor(2.0, 1e-6, schema={"age": "numeric"}, random_state=0)
    cut = model.set_params(target_bounds=(0, 250)).fit(X, charges).privacy_.notes
    (note,) = (note for note in cut if "targets lie at" in note)
    said, true = float(note.split("about ")[1].split(" %")[0]), 100.0 * np.mean(charges > 250)
    assert abs(said - true) < 2.5
    assert "upper limit 250 or beyond it" in note
    wide = model.set_params(target_bounds=(0, 5000)).fit(X, charges).privacy_.notes
    assert not any("targets lie at" in note for note in wide)
    low = model.set_params(target_bounds=(50, 5000)).fit(X, charges).privacy_.notes
    assert any("lower limit 50 or beyond it" in note for note in low)
    even = rng.uniform(0.0, 1.0, 6000)
    flat = model.set_params(target_bounds=(0, 1)).fit(X, even).privacy_.notes
    assert not any("targets lie at" in note for note in flat)
