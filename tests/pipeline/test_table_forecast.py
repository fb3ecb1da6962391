"""What a table's training is expected to do, from public facts alone, and the warning it gives."""

import warnings
from typing import Any

import numpy as np
import pytest

from noisette import AdditiveClassifier, Ledger, LogisticRegression, TableRegressor
from noisette.core.accounting import epsilon as epsilon_of
from noisette.core.adjacency import REPLACE_ONE
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidParameter, WeakModelWarning
from noisette.fitting.units import Unit
from noisette.models.private import Forecast
from noisette.report.numbers import steps_of
from noisette.tables.pipeline import TableClassifier
from noisette.tables.pipeline.table_words import cost_rows, done


def kinds(numeric: int, categorical: int) -> dict[str, Any]:
    numbers = {f"n{k}": "numeric" for k in range(numeric)}
    return numbers | {f"c{k}": "categorical" for k in range(categorical)}


def planned(rows: int, schema: Any, epsilon: float = 1.0, delta: float = 1e-6, **more: Any) -> Any:
    return TableClassifier(epsilon, delta, schema=schema, **more).plan(rows)


def table(n: int, numeric: int = 2) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(4)
    X: dict[str, Any] = {f"n{k}": rng.integers(0, 50, n) for k in range(numeric)}
    X["c0"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = (X["n0"] + 10 * (X["c0"] == "a") + rng.normal(0, 10, n)) > 30
    return X, y


def test_a_forecast_has_the_plan_that_is_charged() -> None:
    X, y = table(4000)
    model = TableClassifier(2.0, 1e-6, schema=kinds(2, 1))
    shown = model.plan(4000)
    assert isinstance(shown, Forecast)
    model.fit(X, y)
    assert shown.plan.under("replace-one") == model.privacy_.plan
    assert shown.epsilon == epsilon_of(shown.plan, delta=1e-6, adjacency="replace-one") <= 2.0
    assert [step.name for step in shown.steps] == [
        "knots",
        "levels",
        "shares",
        "weights",
        "calibration",
    ]
    assert sum(step.part for step in shown.steps) == pytest.approx(1.0)
    assert all(step.epsilon < shown.epsilon for step in shown.steps)
    assert 0.5 * shown.features < len(model.schema_.features) < 2.0 * shown.features
    for words in ("epsilon = 2", "% of the budget", "MB of memory", "4,000 rows"):
        assert words in str(shown)


def test_the_steps_of_an_additive_model_have_words() -> None:
    shown = AdditiveClassifier(2.0, 1e-6, schema=kinds(1, 1)).plan(400_000)
    assert "spikes" in [step.name for step in shown.steps]
    assert "single numbers that many people share" in str(shown)


def test_parts_and_lone_epsilons_are_those_of_the_plan() -> None:
    shown = planned(20_000, kinds(3, 2))
    model = TableClassifier(1.0, 1e-6, schema=kinds(3, 2))
    public = model._public(Unit(20_000), REPLACE_ONE)
    schema = model._read_schema(target=False)
    recipe = model._training(schema, model._foreseen(schema).target, public).recipe
    parts = {step.name: step.part for step in shown.steps}
    wanted = {"knots": recipe.knots, "levels": recipe.levels, "shares": recipe.shares}
    for name, part in (wanted | {"weights": recipe.model}).items():
        assert parts[name] == pytest.approx(part, rel=1e-4)
    leaves = [leaf for leaf, _ in shown.plan.leaves()]
    (levels,) = (leaf for leaf in leaves if leaf.mechanism.name == "gaussian-threshold")
    alone = {step.name: step.epsilon for step in shown.steps}
    assert alone["levels"] == epsilon_of(levels, delta=1e-6, adjacency="replace-one")
    assert sum(alone.values()) > shown.epsilon  # together, steps cost less than the sum


def test_pure_parts_add_up_in_epsilon() -> None:
    known = {"n": {"kind": "numeric", "low": 0, "high": 9}, "m": "numeric"}
    shown = planned(20_000, known, 2.0, 0.0)
    assert [step.name for step in shown.steps] == ["knots", "shares", "weights", "calibration"]
    assert sum(step.epsilon for step in shown.steps) == pytest.approx(shown.epsilon, rel=1e-6)
    for step in shown.steps:
        assert step.epsilon == pytest.approx(step.part * shown.epsilon, rel=1e-6)
    by_name = {column.name: column for column in shown.columns}
    assert "free" in by_name["n"].note
    assert "bought" in by_name["m"].note


def test_other_plans_have_no_steps() -> None:
    X, y = np.random.default_rng(0).normal(size=(500, 3)), np.arange(500) % 2
    promise = LogisticRegression(5.0, norm_bound=2.0).fit(X, y).privacy_
    assert steps_of(promise.plan, promise.delta, promise.adjacency) == []


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("shape", [(32_561, 6, 8), (36_168, 7, 9)], ids=["adult", "bank"])
def test_tables_that_teach_something_give_no_warning(shape: Any, relation: str) -> None:
    n, numeric, categorical = shape
    more = {"adjacency": relation, "population": n}
    assert planned(n, kinds(numeric, categorical), **more).warning == ""


# Parts of Adult, three fits each: rows, epsilon and the AUC on its test set; in the second list the
# answers were no better than the majority's (.764).
LEARNT = [(32_561, 0.05, 0.85), (300, 8.0, 0.85), (3000, 1.0, 0.87)]
DROWNED = [(32_561, 0.02, 0.77), (1000, 1.0, 0.79), (100, 8.0, 0.76), (300, 1.0, 0.50)]


@pytest.mark.parametrize(("rows", "epsilon", "auc"), LEARNT + DROWNED)
def test_the_warning_separates_what_was_measured(rows: int, epsilon: float, auc: float) -> None:
    shown = planned(rows, kinds(6, 8), epsilon)
    assert bool(shown.warning) == (shown.lost > 0.7) == (auc < 0.8)
    # with S ten times as large or as small, one of these seven falls on the other side


# Tables that had no part in any choice (docs/tables.md): their columns, rows, epsilon, delta and
# 1 - (z(AUC) / z(AUC without privacy))^2 over three splits.
FORESEEN = {
    "SmokeBan": (1, 5, 7000, 1.0, 0.0, 0.14),
    "HealthInsurance": (2, 8, 6161, 1.0, 0.0, 0.41),
    "happiness": (14, 8, 11_995, 0.3, 1e-6, 0.38),
    "mlc_churn": (15, 4, 3500, 0.3, 1e-6, 0.83),
    "mlc_churn, pure": (15, 4, 3500, 1.0, 0.0, 0.86),
    "mm_nhis": (8, 0, 13_153, 0.3, 1e-6, 0.10),
    "mm_nhis, pure": (8, 0, 13_153, 1.0, 0.0, 0.75),
    "stackoverflow": (19, 1, 3915, 1.0, 1e-6, 0.34),
    "stackoverflow, less": (19, 1, 3915, 0.3, 1e-6, 0.96),
    "Arrests, pure": (3, 4, 3658, 1.0, 0.0, 0.14),
    "Arrests, few": (3, 4, 1000, 1.0, 1e-6, 0.39),
}


@pytest.mark.parametrize("name", FORESEEN)
def test_what_was_lost_elsewhere_is_foreseen(name: str) -> None:
    numeric, categorical, rows, epsilon, delta, measured = FORESEEN[name]
    shown = planned(rows, kinds(numeric, categorical), epsilon, delta)
    assert abs(shown.lost - measured) < 0.3
    assert bool(shown.warning) == (measured > 0.7)


def test_hashed_levels_do_not_drown_for_their_empty_buckets() -> None:
    # 34,928 stops of the police in Minneapolis: AUC .919 of .920
    shown = planned(34_928, kinds(3, 8), 1.0, 0.0)
    assert shown.lost < 0.4
    assert not shown.warning


def test_knots_that_noise_hides_are_foreseen() -> None:
    rng = np.random.default_rng(1)
    X = {f"n{k}": rng.normal(50.0, 15.0, 5000) for k in range(12)}
    y = rng.random(5000) < 1.0 / (1.0 + np.exp(-(X["n0"] - 50.0) / 10.0))
    model = TableClassifier(1.0, schema=kinds(12, 0), random_state=0)
    with pytest.warns(WeakModelWarning, match="low and high of the numeric columns"):
        model.fit(X, y)
    low, high = np.quantile(model.decision_function(X), [0.05, 0.95])
    assert high - low < 0.1  # hardly anybody is told from anybody
    stated = {f"n{k}": {"kind": "numeric", "low": 0, "high": 100} for k in range(12)}
    assert not planned(5000, stated, 1.0, 0.0).warning  # knots for free


# Visits to a doctor (RandHIE, 30 columns stated, 0 to 50): rows, epsilon, delta and R^2 of three
# splits beside .08 to .11 without privacy.
VISITS = [
    (1000, 1.0, 1e-6, -0.29),
    (3000, 0.3, 1e-6, -0.33),
    (3000, 1.0, 0.0, -0.26),
    (3000, 1.0, 1e-6, -0.03),
    (14_133, 1.0, 1e-6, 0.084),
    (14_133, 4.0, 0.0, 0.071),
]


@pytest.mark.parametrize(("rows", "epsilon", "delta", "r2"), VISITS)
def test_numbers_worse_than_the_mean_are_foreseen(
    rows: int, epsilon: float, delta: float, r2: float
) -> None:
    stated = {f"n{k}": {"kind": "numeric", "low": 0, "high": 1} for k in range(30)}
    model = TableRegressor(epsilon, delta, schema=stated, target_bounds=(0, 50))
    assert bool(model.plan(rows).warning) == (r2 < 0.0)


@pytest.mark.parametrize(
    ("rows", "epsilon", "words"),
    [
        (1000, 1.0, "of what there is to learn is lost to the noise"),
        (300, 1.0, "fewer than half of the rows have in common drowns"),
        (32_561, 0.01, "everybody the commonest label"),
    ],
)
def test_tables_that_teach_little_give_one(rows: int, epsilon: float, words: str) -> None:
    shown = planned(rows, kinds(6, 8), epsilon)
    assert words in shown.warning
    assert "larger epsilon" in shown.warning
    assert shown.warning in str(shown)


def test_a_warning_comes_before_the_charge_and_can_stop_it() -> None:
    X, y = table(150)
    ledger = Ledger(1.0, 1e-4)
    model = TableClassifier(1.0, 1e-4, schema=kinds(2, 1), ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WeakModelWarning, match="150 rows, 3 columns"):
            model.fit(X, y)
    assert ledger.count == 0
    assert not hasattr(model, "coef_")
    with pytest.warns(WeakModelWarning) as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert ledger.count == 1


def test_a_plan_that_cannot_pay_is_refused_before_the_charge() -> None:
    n = 300
    rng = np.random.default_rng(0)
    X = {f"n{k}": rng.normal(size=n) for k in range(1000)}
    ledger = Ledger(1.0, 1e-6)
    model = TableClassifier(1.0, 1e-6, schema=dict.fromkeys(X, "numeric"), ledger=ledger)
    with pytest.raises(InvalidParameter, match="the plan cannot pay for this table") as caught:
        model.fit(X, rng.integers(0, 2, n))
    assert "300 rows, 1,000 columns" in str(caught.value)
    assert ledger.count == 0


def test_nothing_is_said_where_the_number_of_rows_is_private() -> None:
    X, y = table(150)
    model = TableClassifier(1.0, 1e-4, schema=kinds(2, 1), adjacency="add-remove")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.privacy_.epsilon == 1.0


def test_columns_that_cannot_matter_are_named() -> None:
    schema = kinds(2, 1) | {
        "id": "ignore",
        "wide": {"kind": "hashed", "buckets": 2000},
        "levels": {"kind": "categorical", "categories": [str(k) for k in range(30)]},
    }
    found = {column.name: column for column in planned(10_000, schema).columns}
    assert list(found) == list(schema)
    assert not found["id"].matters
    assert found["id"].note == "not used"
    assert not found["wide"].matters
    assert "group them" in found["wide"].note
    assert found["levels"].matters
    assert "of 32 levels about" in found["levels"].note
    assert found["n0"].matters
    assert "listing them is free" in found["c0"].note
    tiny = {column.name: column for column in planned(300, kinds(6, 8)).columns}
    assert not tiny["c0"].matters
    assert "no level has enough rows" in tiny["c0"].note


def test_words_about_a_fit_follow_from_what_was_released() -> None:
    X, y = table(4000)
    model = TableClassifier(2.0, 1e-6, schema=kinds(2, 1), random_state=0).fit(X, y)
    rows = {row[0]: row for row in cost_rows(model)}
    knots = [
        facts["knots"] for facts in model.schema_.source["columns"].values() if "knots" in facts
    ]
    levels = model.schema_.source["columns"]["c0"]["categories"]
    assert rows["knots"][1].startswith(f"{sum(map(len, knots))} knots of 2 columns")
    assert rows["levels"][1].startswith(f"{len(levels)} levels of 1 column ")
    assert rows["weights"][1] == f"{model.coef_.size} weights and the intercept"
    line = done(model)
    assert line.startswith(f"numbers enter by up to {max(map(len, knots))} knots bought privately")
    assert f"{len(levels)} levels that enough people share" in line
    assert "\n" not in line
    note = next(note for note in model.privacy_.notes if note.startswith("Of the budget, "))
    assert "8 % went to the knots of 2 numeric columns" in note
    assert "went to the levels of 1 column that nobody listed" in note
    assert Guarantee.from_json(model.privacy_.to_json()) == model.privacy_


def test_free_knots_are_not_called_learnt() -> None:
    X, y = table(4000)
    known = {f"n{k}": {"kind": "numeric", "low": 0, "high": 50} for k in range(2)}
    known["c0"] = {"kind": "categorical", "categories": ["a", "b", "c"]}
    model = TableClassifier(4.0, schema=known).fit(X, y)
    assert model.schema_.learnt == ()
    assert model.schema_.source["columns"]["n0"]["knots"]
    assert "knots between their stated bounds (free)" in done(model)
    assert "knots" not in [row[0] for row in cost_rows(model)]


@pytest.mark.parametrize("n", [0, -1, 1.5, "many", True])
def test_a_number_of_rows_is_checked(n: Any) -> None:
    with pytest.raises(InvalidParameter, match="n must be a whole number"):
        TableClassifier(1.0, 1e-6, schema=kinds(1, 1)).plan(n)
