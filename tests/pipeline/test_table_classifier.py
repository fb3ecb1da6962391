"""A raw table in, a private model out: what is charged, what is released, what is refused."""

import math
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import Ledger, load, save
from noisette.core.accounting import epsilon as epsilon_of
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, Adjacency
from noisette.core.mechanisms import Exponential, Gaussian, GaussianThreshold, LaplaceVector
from noisette.core.plans import Run
from noisette.errors import BudgetExceeded, InvalidData, NoisetteError
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tables.pipeline import TableClassifier
from noisette.tables.pipeline.shares import LearnShares, Spread

KINDS = {"age": "numeric", "ward": "categorical", "day": "date", "name": "ignore"}


def table(n: int = 3000, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n).astype(float)
    age[rng.random(n) < 0.05] = np.nan
    ward = rng.choice(["A", "B", "C", ""], n, p=[0.5, 0.3, 0.15, 0.05])
    day = [f"20{1 + k % 20:02d}-0{1 + k % 9}-1{k % 10}" for k in range(n)]
    score = 0.1 * (np.nan_to_num(age, nan=55.0) - 55.0) + 2.0 * (ward == "A") - 1.0
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    return {"age": age, "ward": ward, "day": day, "name": [f"n{k}" for k in range(n)]}, y


class Seen:
    """Keeps what went through the door."""

    def __init__(self) -> None:
        self.bounded: list[Any] = []

    def release(self, release: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        self.bounded.append(bounded)
        return release(bounded, *given, **options)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove", "zero-out"])
def test_one_charge_pays_for_everything(relation: str) -> None:
    X, y = table()
    ledger = Ledger(2.0, 1e-5, adjacency=relation)
    model = TableClassifier(
        2.0, 1e-5, schema=KINDS, adjacency=relation, population=3000, ledger=ledger
    )
    seen = Seen()
    with watching(seen):
        model.fit(X, y)
    assert [charge.model for charge in ledger.charges] == ["TableClassifier"]
    assert ledger.spent == (2.0, 1e-5)
    plan = model.privacy_.plan
    assert epsilon_of(plan, delta=1e-5, adjacency=relation) <= 2.0 * (1.0 + 1e-9)
    leaves = [leaf.mechanism for leaf, _ in plan.leaves()]  # type: ignore[attr-defined]
    kinds = [type(each) for each in leaves]
    assert kinds.count(GaussianThreshold) == 1
    assert kinds.count(Gaussian) == 3  # shares, where the solver stopped, and scores
    assert kinds.count(Exponential) >= 2
    proofs = {each.proof for each in seen.bounded}
    assert {"QUANTILE-TREE", "CATEGORY-THRESHOLD", "HISTOGRAM"} <= proofs
    assert {"OBJECTIVE-PERTURBATION", "APPROXIMATE-MINIMISER"} <= proofs
    assert model.score(X, y) > 0.75
    assert model.predict_proba(X).shape == (3000, 2)


def test_pure_budgets_learn_no_level() -> None:
    X, y = table()
    raw = TableClassifier(8.0, schema=KINDS, random_state=0).fit(X, y)
    assert raw.schema_.source["columns"]["ward"]["kind"] == "hashed"
    assert raw.privacy_.delta == 0.0
    assert raw.score(X, y) > 0.7
    known = {
        "age": {"kind": "numeric", "low": 0, "high": 120},
        "ward": {"kind": "categorical", "categories": ["A", "B", "C"]},
        "day": "ignore",
        "name": "ignore",
    }
    ledger = Ledger(4.0)
    model = TableClassifier(4.0, schema=known, ledger=ledger, random_state=1).fit(X, y)
    assert ledger.spent == (4.0, 0.0)
    mechanisms = [leaf.mechanism for leaf, _ in model.privacy_.plan.leaves()]  # type: ignore[attr-defined]
    assert sum(each.pure_epsilon(REPLACE_ONE) for each in mechanisms) <= 4.0 * (1.0 + 1e-9)
    assert isinstance(mechanisms[0], LaplaceVector)
    assert model.score(X, y) > 0.75


def test_what_was_learnt_is_a_complete_schema(tmp_path: Any) -> None:
    X, y = table()
    model = TableClassifier(3.0, 1e-5, schema=KINDS, random_state=0).fit(X, y)
    assert not model.schema_.open
    assert set(model.schema_.learnt) <= {"age", "ward", "day"}
    knots = model.schema_.source["columns"]["age"]["knots"]
    assert all(10.0 < knot < 110.0 for knot in knots)
    assert model.coef_.shape == (1, len(model.schema_.features))
    save(model, tmp_path / "model.noisette")
    again = load(tmp_path / "model.noisette")
    assert (again.decision_function(X) == model.decision_function(X)).all()
    assert again.privacy_.statement() == model.privacy_.statement()


def test_a_rare_label_is_said_from_released_counts() -> None:
    """About 5 % have the label: the statement says so; with even labels it says nothing."""
    X, y = table()
    kinds = {"age": "numeric", "ward": "categorical", "day": "ignore", "name": "ignore"}
    rare = np.arange(len(y)) % 20 == 0
    model = TableClassifier(5.0, 1e-5, schema=kinds, random_state=0).fit(X, rare)
    (said,) = [note for note in model.privacy_.notes if "rarer label" in note]
    assert any(f"about {part} %" in said for part in ("4.8", "4.9", "5", "5.1", "5.2"))
    assert said in model.privacy_.statement()
    even = np.arange(len(y)) % 2 == 0
    model = TableClassifier(5.0, 1e-5, schema=kinds, random_state=0).fit(X, even)
    assert not any("rarer label" in note for note in model.privacy_.notes)
    weights = {False: 1.0, True: 19.0}  # half of the records are no 5 % of them
    model = TableClassifier(5.0, 1e-5, schema=kinds, class_weight=weights, random_state=0)
    (said,) = [note for note in model.fit(X, even).privacy_.notes if "rarer label" in note]
    assert "% of the records, as class_weight counts them, have the rarer label" in said


def test_several_classes() -> None:
    X, _ = table()
    y = np.digitize(np.nan_to_num(X["age"], nan=50.0), [40.0, 65.0])
    model = TableClassifier(5.0, 1e-5, schema=KINDS, random_state=0).fit(X, y)
    assert model.coef_.shape[0] == 3
    assert model.score(X, y) > 0.7
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("pure", [False, True])
def test_shares_move_by_their_bound_and_no_further(relation: Adjacency, *, pure: bool) -> None:
    """Rows in the simplex of every column: the worst neighbours reach the stated bound."""
    rng = np.random.default_rng(3)
    step = LearnShares(4, exact_pure=pure)
    public = PublicBudget(epsilon=1.0, delta=0.0 if pure else 1e-6, adjacency=relation, size=8)
    ready = step.prepared(public, 1.0)
    largest, stated = 0.0, 0.0
    for trial in range(200):
        rows = rng.dirichlet(np.ones(3) * (0.05 if trial % 2 else 1.0), (8, 4))
        other = rows.copy()
        other[-1] = rng.dirichlet(np.ones(3) * 0.05, 4)
        worlds = [rows, other if relation is REPLACE_ONE else rows[:-1]]
        values = []
        for world in worlds:
            n = len(world)
            rows, features = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
            data = [Spread((rows, features, world[:, j].ravel()), 3) for j in range(4)]
            values.append(np.concatenate([each.checked_sums(n, None) for each in data]))
        moved = values[0] - values[1]
        norm = float(np.abs(moved).sum()) if pure else float(np.linalg.norm(moved))
        largest = max(largest, norm)
        contributions = relation.contributions
        stated = float(4 * contributions) if pure else math.sqrt(4 * contributions)
    assert isinstance(ready.plan, Run)
    assert 0.9 * stated < largest <= stated * (1.0 + 1e-9)


def test_rows_that_exceed_the_simplex_are_refused() -> None:
    wrong = Spread((np.array([0, 0]), np.array([0, 1]), np.array([0.7, 0.4])), 2)
    with pytest.raises(InvalidData, match="at most 1"):
        wrong.checked_sums(1, None)
    with pytest.raises(InvalidData, match="at least 0"):
        Spread((np.array([0]), np.array([0]), np.array([-0.1])), 2).checked_sums(1, None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": None}, "needs the kind of every column"),
        ({"schema": 7}, "schema must be"),
        ({"schema": {"age": "number"}}, "kind is 'number'"),
        ({"schema": {"age": "numeric"}}, "is not in the schema"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.5}, "delta"),
        ({"model": "forest"}, "model must be one of"),
        ({"share": 1.5}, "share"),
        ({"adjacency": "neighbour"}, "adjacency"),
        ({"population": 0}, "population"),
    ],
)
def test_a_wrong_parameter_is_one_sentence_and_costs_nothing(
    change: dict[str, Any], sentence: str
) -> None:
    X, y = table(200)
    ledger = Ledger(1.0, 1e-3)
    given = {"epsilon": 1.0, "delta": 1e-4, "schema": KINDS, "ledger": ledger} | change
    model = TableClassifier(**given)
    with pytest.raises(NoisetteError, match=sentence) as caught:
        model.fit(X, y)
    assert str(caught.value).count(". ") == 0
    assert ledger.spent == (0.0, 0.0)
    assert not hasattr(model, "coef_")


def test_a_budget_that_is_too_small_is_refused_before_the_first_look() -> None:
    X, y = table(200)
    with pytest.raises(BudgetExceeded):
        TableClassifier(1.0, 1e-4, schema=KINDS, ledger=Ledger(0.5, 1e-4)).fit(X, y)


@pytest.mark.parametrize(
    "column",
    [
        np.full(400, np.nan),
        np.full(400, 7.0),
        np.where(np.arange(400) % 2, np.inf, -np.inf),
        np.where(np.arange(400) % 2, 1e300, -1e300),
        np.array(["x", "1,5", "", "2020"] * 100, dtype=object),
    ],
    ids=["empty", "constant", "infinite", "absurd", "mixed"],
)
def test_odd_columns_train_all_the_same(column: Any) -> None:
    y = np.arange(400) % 2
    schema = {"odd": "numeric", "fair": "numeric"}
    X = {"odd": column, "fair": np.arange(400.0)}
    model = TableClassifier(1.0, 1e-4, schema=schema, random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X)).all()
    alone = TableClassifier(1.0, 1e-4, schema={"odd": "numeric"}, random_state=0)
    assert np.isfinite(alone.fit({"odd": column}, y).decision_function({"odd": column})).all()


def test_one_category_per_row_releases_none() -> None:
    y = np.arange(400) % 2
    X = {"id": [f"person {k}" for k in range(400)]}
    model = TableClassifier(1.0, 1e-4, schema={"id": "categorical"}, random_state=0).fit(X, y)
    assert "person" not in str(model.schema_.source)
    assert np.isfinite(model.decision_function(X)).all()


def test_more_columns_than_rows_can_pay_for() -> None:
    rng = np.random.default_rng(0)
    X = {f"c{j}": rng.normal(size=300) for j in range(200)}
    model = TableClassifier(1.0, 1e-4, schema=dict.fromkeys(X, "numeric"), random_state=0)
    model.fit(X, rng.integers(0, 2, 300))
    assert np.isfinite(model.coef_).all()


def test_nothing_of_the_rows_is_kept() -> None:
    X, y = table(500)
    model = TableClassifier(1.0, 1e-4, schema=KINDS, random_state=0).fit(X, y)
    kept = {key for key in vars(model) if key.endswith("_")}
    assert kept == {
        "schema_", "classes_", "coef_", "intercept_", "n_features_in_", "feature_names_in_",
        "privacy_", "bars_", "pairs_",
    }  # fmt: skip
    assert "n17" not in repr(vars(model))


def test_days_of_one_season_are_told_apart() -> None:
    """Three digits of a number are enough for people's numbers, but not for days since 1970."""
    rng = np.random.default_rng(2)
    day = rng.integers(0, 90, 4000)
    y = (day > 30) & (day < 60)
    X = {"day": np.datetime64("2023-01-01") + day}
    model = TableClassifier(1.0, 1e-6, schema={"day": "date"}, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert sum("day ~ 2023-" in name for name in model.schema_.features) >= 3


def test_knots_between_public_days_do_not_crowd_around_1970() -> None:
    born = {"kind": "date", "low": "1930-01-01", "high": "2010-01-01"}
    X = {"born": [f"{1930 + k % 80}-06-01" for k in range(2000)]}
    model = TableClassifier(4.0, schema={"born": born}, random_state=0)
    model.fit(X, np.arange(2000) % 2)
    gaps = np.diff(model.schema_.source["columns"]["born"]["knots"])
    assert gaps.max() == pytest.approx(gaps.min())


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (lambda y: y[:-1], "one label for each row"),
        (lambda y: y[:, None], "one column of labels"),
        (lambda y: np.where(np.arange(len(y)) == 7, None, y), "missing label"),
        (lambda y: np.where(np.arange(len(y)) == 7, np.nan, y == "yes"), "missing label"),
        (lambda y: np.arange(len(y)), "may be a quantity"),
        (lambda y: np.arange(len(y)) % 30, "may be a quantity"),
        (lambda y: np.full(len(y), "yes"), "single class"),
    ],
    ids=["short", "table", "None", "NaN", "all different", "30 of 200", "one class"],
)
def test_odd_labels_are_one_sentence_and_cost_nothing(labels: Any, sentence: str) -> None:
    X, y = table(200)
    ledger = Ledger(1.0, 1e-3)
    with pytest.raises(InvalidData, match=sentence) as caught:
        TableClassifier(1.0, 1e-3, schema=KINDS, ledger=ledger).fit(X, labels(y))
    assert str(caught.value).count(". ") == 0
    assert "200" not in str(caught.value)  # rows may be private
    assert ledger.spent == (0.0, 0.0)


def test_classes_of_the_schema_need_not_all_occur() -> None:
    X, _ = table(400)
    facts = {"classes": ["0", "1"], "columns": KINDS}
    model = TableClassifier(2.0, 1e-3, schema=facts, random_state=0)
    model.fit(X, np.full(400, "0"))
    assert model.classes_.tolist() == ["0", "1"]
    assert "as given" in model.privacy_.statement()


def test_columns_may_have_the_names_of_facts() -> None:
    X, y = table(400)
    odd = {"columns": X["age"], "the label": X["ward"], "target": X["day"], "classes": X["name"]}
    kinds = dict(zip(odd, KINDS.values(), strict=True))
    model = TableClassifier(2.0, 1e-3, schema=kinds, random_state=0).fit(odd, y)
    assert model.predict(odd).shape == (400,)


@pytest.mark.parametrize(("share", "said"), [(0.06, True), (0.94, True), (0.4, False)])
def test_a_rare_label_is_noted_from_released_counts(share: float, *, said: bool) -> None:
    X, _ = table()
    y = np.arange(3000) < share * 3000
    model = TableClassifier(4.0, 1e-5, schema=KINDS, random_state=0).fit(X, y)
    assert ("rarer label" in model.privacy_.statement()) == said
