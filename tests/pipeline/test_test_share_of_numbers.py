"""A model of a number and its scores on other people: one guarantee, the worse of two costs."""

import tomllib
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import AdditiveRegressor, Ledger, Persons, TableRegressor, load, save
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Parallel
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.scores import RegressionScores, measure
from noisette.scores.measure import restored, stored
from noisette.tables import template
from noisette.tables.frame import Frame
from noisette.tables.pipeline.table_rows import WholeFrame
from tests.pipeline.spy import Spy, budget

KINDS = {"age": "numeric", "ward": "categorical"}
RELATIONS = ["replace-one", "zero-out", "add-remove"]


def people(n: int = 3000, seed: int = 0) -> tuple[dict[str, Any], Any]:
    generator = np.random.default_rng(seed)
    age, ward = generator.integers(0, 90, n), np.where(generator.random(n) < 0.5, "A", "B")
    return {"age": age, "ward": ward}, 0.2 * age + 5.0 * (ward == "A") + generator.normal(size=n)


def model(relation: str = "replace-one", **more: Any) -> TableRegressor:
    options: dict[str, Any] = {"test_share": 0.25, "random_state": 0, "population": 3000}
    options |= {"target_bounds": (0, 30)} | more
    return TableRegressor(4.0, 1e-6, schema=KINDS, adjacency=relation, **options)


@pytest.mark.parametrize("bounds", [(0, 30), "learn"], ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_score_is_free_and_the_guarantee_covers_it(relation: str, bounds: Any) -> None:
    table, days = people()
    ledger = Ledger(4.0, 1e-6, adjacency=relation)
    fitted = model(relation, ledger=ledger, target_bounds=bounds).fit(table, days)
    promise, found = fitted.privacy_, fitted.test_
    assert isinstance(found, RegressionScores)
    assert found.privacy_ is promise
    assert len(ledger.charges) == 1
    assert isinstance(promise.plan, Parallel)
    for part in promise.plan.plans:  # each alone has the whole budget, and no more
        cost = accounting.epsilon(part, delta=1e-6, adjacency=relation)
        assert 3.7 < cost <= 4.0
    assert {"TEST-SHARE", "SCORE-TABLE", "PARALLEL-GROUPS"} <= set(promise.proofs)
    assert "regression with the facts of its columns and its scores" in promise.statement()
    others = people(20_000, 1)
    truth = measure(fitted, *others, target_bounds=fitted.target_bounds_)
    for name in ("mae", "r2"):
        told = getattr(found, name)
        assert abs(told.value - getattr(truth, name).value) < 4 * told.error
    assert truth.r2.value > 0.85
    assert found.residuals.sum() == pytest.approx(750, abs=25 * found.deviation + 80)
    # targets are counted between the limits of the model, also where those were bought
    assert (found.target_knots[0], found.target_knots[-1]) == fitted.target_bounds_


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_test_person_leaves_no_trace_in_the_model(relation: str) -> None:
    """Change one: what training sees stays what it was; the table moves by what is declared."""
    table, days = people(600)
    exact = budget(relation, 600).adjacency.size_is_public
    chosen = WholeFrame(Frame({})).drawn(600, 0.25, Randomness.from_seed(0), exact=exact)
    seen = {}
    for side in ("nobody", "train", "test"):
        changed, targets = {name: cells.copy() for name, cells in table.items()}, days.copy()
        if side != "nobody":
            row = int(np.flatnonzero(chosen == (side == "test"))[0])
            changed["age"][row], changed["ward"][row], targets[row] = 10_000, "B", -50.0
        fitted = model(relation, population=600, target_bounds="learn")
        spy = Spy()
        with watching(spy):
            fitted.fit(changed, targets)
        kept = [bounded for bounded, _ in spy.seen if isinstance(bounded.value, np.ndarray)]
        seen[side] = [(np.array(each.value), each) for each in kept]
    same = {
        side: [np.array_equal(a[0], b[0]) for a, b in zip(seen[side], seen["nobody"], strict=True)]
        for side in ("train", "test")
    }
    assert all(same["test"][:-1])
    assert not all(same["train"][:-1])
    (before, declared), (after, _) = seen["nobody"][-1], seen["test"][-1]
    moved = np.abs(after - before).sum()
    # residual and target both go elsewhere; a blanked person would leave half of that
    assert 3.9 < moved <= 4.0 + 1e-6
    if relation == "replace-one":
        assert declared.l1 is None or declared.l1 >= moved
        assert declared.l2 is None or declared.l2 >= np.linalg.norm(after - before)


def test_it_is_saved_with_the_model(tmp_path: Any) -> None:
    table, days = people(800)
    for bounds in ((0, 30), "learn"):
        fitted = model(population=None, target_bounds=bounds).fit(table, days)
        save(fitted, tmp_path / "m.noisette")
        back = load(tmp_path / "m.noisette")
        assert str(back.test_) == str(fitted.test_)
        assert back.test_.privacy_ == fitted.privacy_
    again = fitted.set_params(test_share=None).fit(table, days)
    assert not hasattr(again, "test_")
    assert "scores on other people" not in again.privacy_.statement()


def test_counts_that_do_not_fit_are_refused() -> None:
    table, days = people(800)
    fitted = model(population=None).fit(table, days)
    node = stored(fitted.test_)
    for change in (
        {"targets": node["targets"][1:]}, {"knots": node["knots"][::-1]}, {"knots": []},
        {"residuals": [np.inf] * 21}, {"kind": "binary"},
    ):  # fmt: skip
        with pytest.raises((ValueError, KeyError)):
            restored(node | change, None, fitted.privacy_)
    with pytest.raises(ValueError):  # noqa: PT011 - the caller has one sentence for all
        restored(node, ["a", "b"], fitted.privacy_)


def test_the_plan_is_shown_before_and_bad_shares_are_refused() -> None:
    for bounds in ((0, 30), "learn"):
        shown = model(target_bounds=bounds).plan(3000)
        assert isinstance(shown.plan, Parallel)
        plan = model(target_bounds=bounds).fit(*people()).privacy_.plan
        assert shown.plan.under(Adjacency.REPLACE_ONE) == plan
    for share in (0.0, 1.0, 2.0, "x"):
        with pytest.raises(InvalidParameter, match="test_share"):
            model(test_share=share).fit(*people(100))


def test_the_plan_counts_persons_where_the_schema_names_them() -> None:
    facts = {
        "unit": "one row is one visit of a patient", "target": {"name": "days", "kind": "numeric"},
        "columns": {"age": {"kind": "numeric"}, "id": {"kind": "ignore"}},
        "person": "id", "max_rows": 5,
    }  # fmt: skip
    table, days = people(3000)
    crowd = np.arange(3000) // 3
    fitted = TableRegressor(4.0, 1e-6, schema=facts, target_bounds=(0, 30))
    shown = fitted.plan(1000)
    fitted.fit({"age": table["age"], "id": crowd, "days": days})
    assert fitted.privacy_.unit == "person"
    assert shown.plan.under(Adjacency.REPLACE_ONE) == fitted.privacy_.plan


@pytest.mark.parametrize("share", [0.02, 0.98])
@pytest.mark.parametrize("bounds", [(0, 30), "learn"], ids=str)
def test_an_empty_part_is_no_exception_under_add_remove(share: float, bounds: Any) -> None:
    """How many people are in a part is private there, so none must not show."""
    table, days = people(2)
    if share > 0.5 and bounds == "learn":
        pytest.skip("refused from public facts")
    fitted = model("add-remove", test_share=share, target_bounds=bounds).fit(table, days)
    assert not fitted.test_.r2.trusted
    assert "too few rows" in fitted.test_.verdict()


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_persons_are_trained_on_or_tested_with_all_their_rows(relation: str) -> None:
    table, days = people(1200)
    crowd = Persons.of(np.random.default_rng(3).integers(0, 400, 1200), max_rows=20)
    fitted = model(relation, population=400).fit(table, days, persons=crowd)
    assert fitted.privacy_.unit == "person"
    assert fitted.test_.targets.sum() == pytest.approx(95, abs=60)  # of persons, not of rows


def test_a_model_of_curves_is_tested_too() -> None:
    table, days = people()
    fitted = AdditiveRegressor(
        4.0, 1e-6, schema=KINDS, target_bounds=(0, 30), test_share=0.25, random_state=0
    ).fit(table, days)
    assert fitted.test_.r2.low > 0.5
    assert "additive regression" in fitted.privacy_.statement()
    assert "scores on other people" in fitted.privacy_.statement()


def test_verdicts() -> None:
    knots = np.linspace(-1.0, 1.0, 5)
    even = np.full(5, 200.0)
    for residuals, deviation, words in (
        (np.array([0, 0, 1000.0, 0, 0]), 0.0, ""),
        (even, 1.0, "no better than"),
        (np.array([0, 0, 1000.0, 0, 0]), 60.0, "too few rows"),
        (np.array([120, 240, 240, 240, 120.0]), 20.0, "not certain"),
    ):
        found = RegressionScores(knots, residuals, knots, even, deviation).verdict()
        assert words in found
        assert bool(words) == bool(found)


def test_targets_that_are_no_numbers_cost_nothing() -> None:
    table, days = people(300)
    ledger = Ledger(4.0, 1e-6)
    gaps = np.where(days > 8, np.nan, days)
    for y in (gaps, np.full(300, np.inf), ["x"] * 300, days[:5], days + 1j):
        with pytest.raises(InvalidData, match="number"):
            model(ledger=ledger).fit(table, y)
    assert len(ledger.charges) == 0


@pytest.mark.parametrize("range_", [1e-5, 30.0, 5e5])
def test_errors_are_shown_in_decimals_of_their_unit(range_: float) -> None:
    knots, even = range_ * np.linspace(-1.0, 1.0, 5), np.full(5, 200.0)
    found = RegressionScores(knots, even, knots, even, 1.0)
    shown = str(found.mae).split()[0]
    assert float(shown) == pytest.approx(0.6 * range_, rel=0.01)
    assert len(shown.strip("0.")) <= 6
    assert str(found.r2).startswith(f"{found.r2.value:.3f}")


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
def test_a_target_that_leaves_most_of_its_range_empty_is_no_worse_than_its_mean() -> None:
    """900 rows, 12 columns that say nothing: noise and chance must not be taken for effects."""
    losses = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = {f"c{k}": rng.uniform(0.0, 1.0, 900) for k in range(12)}
        y = rng.normal(50.0, 8.0, 900)
        kinds = {name: {"kind": "numeric", "low": 0, "high": 1} for name in table}
        fitted = TableRegressor(
            2.0, 1e-5, schema={"columns": kinds}, target_bounds=(0, 100), random_state=seed
        ).fit(table, y)
        others = {name: rng.uniform(0.0, 1.0, 2000) for name in table}
        losses.append(float(np.var(fitted.predict(others))) / 64.0)
    assert np.mean(losses) < 0.1  # 0.84 before


def test_the_template_says_how_a_number_is_predicted(tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("age,days\n1,2\n")
    text = template(tmp_path / "t.csv", "days", learn=True)
    (line,) = [each for each in text.splitlines() if each.startswith("# target = {")]
    facts = tomllib.loads(
        line[2:] + '\nunit = "one row is one stay"\n[columns.age]\nkind="numeric"'
    )
    assert TableRegressor(1.0, 1e-6, schema=facts, target_bounds="learn").plan(5000).epsilon <= 1.0
