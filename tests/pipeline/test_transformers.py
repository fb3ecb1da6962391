"""The contract of all private transformers: scikit-learn's interface, and ours about privacy."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from noisette import Guarantee, Ledger, LogisticRegression
from noisette.audit import check_estimator
from noisette.errors import BudgetExceeded, InvalidData, InvalidParameter
from noisette.tables.pipeline import (
    PrivateBounds,
    PrivateCategories,
    PrivateKnots,
    PrivateProjection,
    PrivateSelector,
)
from noisette.tables.pipeline.transformer import PrivateTransformer

ALL: list[PrivateTransformer] = [
    PrivateBounds(4.0), PrivateKnots(4.0), PrivateCategories(4.0, 1e-4),
    PrivateSelector(1, 4.0, 1e-4), PrivateProjection(1, 4.0, 1e-4),
]  # fmt: skip
NUMBERS = ALL[:2]
GAUSSIAN = ALL[2:]
RELATIONS = ["replace-one", "zero-out", "add-remove"]
WEIGHTS = "weights lie in [0, 1], and an error about all of them would tell something"
EXPECTED = {
    "check_sample_weights_list": WEIGHTS,
    "check_all_zero_sample_weights_error": WEIGHTS,
    "check_sample_weights_not_overwritten": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": "noise differs, and weights lie in [0, 1]",
    "check_sample_weight_equivalence_on_sparse_data": "noise differs, and weights lie in [0, 1]",
}
ONE_LABEL = {"check_fit2d_1sample": "the labels are at fault, not their number"}


def name(step: Any) -> str:
    return type(step).__name__


def table(n: int = 300, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 4, (n, d)).astype(float), rng.integers(0, 2, n)


X, Y = table()


@parametrize_with_checks(
    [clone(step).set_params(random_state=0) for step in ALL],
    expected_failed_checks=lambda step: (
        EXPECTED | ONE_LABEL if isinstance(step, PrivateSelector) else EXPECTED
    ),
)
def test_scikit_learn_accepts_them(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


# --- the promise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("step", ALL, ids=name)
def test_the_guarantee_is_what_was_planned(step: Any, adjacency: str) -> None:
    model = clone(step).set_params(adjacency=adjacency)
    forecast = model.plan(300, 4)
    model.fit(X, Y)
    promise: Guarantee = model.privacy_
    assert (promise.epsilon, promise.delta) == (model.epsilon, model.delta)
    assert forecast.plan.under(adjacency) == promise.plan
    assert 0.98 * 4.0 < forecast.epsilon <= 4.0 * (1.0 + 1e-9)
    assert forecast.expected.endswith(".")
    assert str(forecast)
    assert Guarantee.from_json(promise.to_json()) == promise
    stated = promise.statement()
    assert ("the number of records, 300" in stated) is (adjacency != "add-remove")
    assert all(note in stated for note in forecast.notes)


@pytest.mark.parametrize("step", ALL, ids=name)
def test_one_ledger_pays_and_refuses(step: Any) -> None:
    ledger = Ledger(6.0, 1e-3)
    model = clone(step).set_params(ledger=ledger).fit(X, Y)
    assert clone(model).ledger is ledger
    before = dict(vars(model))
    with pytest.raises(BudgetExceeded):
        model.fit(X, Y)
    assert {k: v for k, v in vars(model).items() if k != "released_"} == {
        k: v for k, v in before.items() if k != "released_"
    }
    assert pickle.loads(pickle.dumps(model)).transform(X[:3]).shape == model.transform(X[:3]).shape


@pytest.mark.parametrize("step", GAUSSIAN, ids=name)
def test_gaussian_steps_need_a_delta(step: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta > 0"):
        clone(step).set_params(delta=0.0).fit(X, Y)
    with pytest.raises(InvalidParameter, match="delta > 0"):
        clone(step).set_params(delta=0.0).plan(100, 3)


@pytest.mark.parametrize("step", ALL, ids=name)
def test_a_delta_of_one_over_n_is_refused(step: Any) -> None:
    with pytest.raises(InvalidParameter, match="not below 1/n"):
        clone(step).set_params(delta=0.01).fit(X, Y)


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("step", ALL, ids=name)
def test_nothing_but_released_facts_is_kept(step: Any, adjacency: str) -> None:
    """Fits of two neighbours with the same noise differ in what was released, and nowhere else."""
    model = clone(step).set_params(adjacency=adjacency).fit(X, Y)
    public = set(model.get_params()) | {"released_", "privacy_", "n_features_in_", "classes_"}
    derived = {"map_", "norm_", "components_"}  # functions of what was released
    assert set(vars(model)) <= public | derived
    assert "_Sample" not in repr(vars(model))


@pytest.mark.parametrize("step", ALL, ids=name)
def test_the_audit_finds_no_exact_attribute(step: Any) -> None:
    claim = {"epsilon": 5.0, "delta": 1e-4}
    model = make_pipeline(clone(step), LogisticRegression(epsilon=1.0, norm_bound=1.0))
    found = check_estimator(model, attacks=["attributes"], **claim).findings[0]
    assert found.verdict != "violated", found.detail


# --- bad and odd input ---------------------------------------------------------------------------


@pytest.mark.parametrize("step", NUMBERS, ids=name)
def test_odd_numbers(step: Any) -> None:
    rng = np.random.default_rng(1)
    odd = np.column_stack([
        np.full(300, np.nan), np.full(300, 7.0), rng.choice([1e300, -1e300, np.inf, 0.0], 300),
        rng.normal(size=300), np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300)),
    ])  # fmt: skip
    for bounds in (None, (0.0, 10.0), [None, (0, 10), (-5.0, None), None, (None, 3.0)]):
        model = clone(step).set_params(bounds=bounds, indicate_missing=True).fit(odd)
        rows = model.transform(odd)
        assert rows.shape == (300, len(model.get_feature_names_out()))
        assert np.isfinite(rows).all()
        assert np.abs(rows).max() <= 1.0 + 1e-12  # the ends of a range may round up
        assert (rows[:, -1] == np.isnan(odd[:, -1])).all()


@pytest.mark.parametrize("step", ALL, ids=name)
def test_a_thousand_columns_of_300_rows(step: Any) -> None:
    wide = np.random.default_rng(2).integers(0, 3, (300, 1000)).astype(float)
    if isinstance(step, PrivateProjection):
        wide = wide[:, :300]
    model = clone(step).fit(wide, Y)
    assert model.transform(wide[:5]).shape == (5, len(model.get_feature_names_out()))
    assert model.privacy_.epsilon == 4.0


@pytest.mark.parametrize("step", ALL, ids=name)
def test_rows_of_weight_0_take_part_in_nothing(step: Any) -> None:
    """The same noise with and without ten strange rows of weight 0, under zero-out."""
    strange = np.vstack([X, np.full((10, 4), 99.0)])
    labels, weights = np.append(Y, [1] * 10), np.append(np.ones(300), np.zeros(10))
    made = []
    for rows, y, w in ((strange, labels, weights), (np.vstack([X, X[:10]]), labels, weights)):
        model = clone(step).set_params(adjacency="zero-out", random_state=7)
        made.append(model.fit(rows, y, sample_weight=w).released_)
    assert made[0] == made[1]


@pytest.mark.parametrize("step", ALL, ids=name)
@pytest.mark.parametrize(
    "weights", [np.full(300, 1.5), np.full(300, -0.1), np.full(300, np.nan), np.ones(299), "a"]
)
def test_weights_outside_0_to_1_are_refused(step: Any, weights: Any) -> None:
    ledger = Ledger(10.0, 1e-3)
    with pytest.raises(InvalidData, match="sample_weight must"):
        clone(step).set_params(ledger=ledger).fit(X, Y, sample_weight=weights)
    assert not ledger.charges


@pytest.mark.parametrize("step", [s for s in ALL if not isinstance(s, PrivateCategories)], ids=name)
@pytest.mark.parametrize("bad", ["Smith", object()])
def test_cells_that_are_no_numbers_are_refused_without_a_word_of_them(step: Any, bad: Any) -> None:
    rows, ledger = X.astype(object), Ledger(10.0, 1e-3)
    rows[3, 1] = bad
    with pytest.raises((InvalidData, TypeError)) as error:
        clone(step).set_params(ledger=ledger).fit(rows, Y)
    assert "Smith" not in str(error.value)
    assert not ledger.charges


@pytest.mark.parametrize(
    ("step", "match"),
    [
        (PrivateKnots(knots=5), "knots must be"),
        (PrivateKnots(knots=True), "knots must be"),
        (PrivateKnots(knots="many"), "knots must be"),
        (PrivateBounds(tail=0.5), "tail must be"),
        (PrivateBounds(tail="few"), "tail must be"),
        (PrivateBounds(bounds=[(0, 1)]), "bounds must be"),
        (PrivateBounds(bounds=(1, 0)), "low < high"),
        (PrivateBounds(indicate_missing="yes"), "indicate_missing must be"),
        (PrivateCategories(most=0), "most must be"),
        (PrivateCategories(sparse_output=1), "sparse_output must be"),
        (PrivateSelector(norm_bound=0.0), "norm_bound must be"),
        (PrivateSelector(0), "k must be"),
        (PrivateSelector(classes=[1]), "classes must list"),
        (PrivateProjection(method="magic"), "method must be"),
        (PrivateProjection(0), "components must be"),
        (PrivateSelector(missing="none"), "missing must be"),
        (PrivateProjection(method="random", missing=None), "missing must be"),
        (PrivateKnots(epsilon=0.0), "epsilon must be"),
        (PrivateKnots(adjacency="near"), "adjacency must be"),
        (PrivateKnots(population=0), "population must be"),
        (PrivateKnots(ledger="mine"), "ledger must be"),
    ],
    ids=str,
)
def test_parameters_are_refused_in_one_sentence(step: Any, match: str) -> None:
    with pytest.raises(InvalidParameter, match=match) as error:
        step.fit(X, Y)
    assert str(error.value).count(". ") == 0
    assert not hasattr(step, "released_")


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_more_rows_than_declared_are_refused(adjacency: str) -> None:
    model = PrivateKnots(adjacency=adjacency, population=100)
    if adjacency == "add-remove":
        with pytest.raises(InvalidParameter, match="at most 200 records"):
            model.fit(X)
    else:
        model.fit(X)


# --- using them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ALL, ids=name)
def test_names_follow_the_columns_of_a_frame(step: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "pay", "size", "town"])
    model = clone(step).set_output(transform="pandas").fit(frame, Y)
    made = model.transform(frame)
    assert list(made.columns) == list(model.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"age": "older"}))
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["a", "b"])


def test_names_that_occur_twice_stay_apart() -> None:
    model = PrivateKnots(4.0, knots=3, random_state=0).fit(X)
    twice = model.get_feature_names_out(["a", "a", "b", "c"])
    assert len(twice) == model.transform(X).shape[1]


@pytest.mark.parametrize("step", [PrivateKnots(4.0, knots=31), PrivateCategories(4.0, 1e-4)])
def test_sparse_output_is_the_same_matrix(step: Any) -> None:
    dense = clone(step).set_params(random_state=1).fit(X)
    thin = copy.deepcopy(dense).set_params(sparse_output=True)
    assert sparse.issparse(thin.transform(X))
    np.testing.assert_array_equal(thin.transform(X).toarray(), dense.transform(X))


def test_they_work_one_after_the_other() -> None:
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.normal(50.0, 10.0, 4000), rng.lognormal(9.0, 1.0, 4000)])
    y = (rows[:, 0] + rng.normal(size=4000) > 50.0).astype(int)
    ledger = Ledger(4.0, 1e-4)
    # seeded: one draw of 200 is below .85, and such a day would say nothing of the code
    common = {"epsilon": 1.0, "delta": 1e-5, "ledger": ledger, "random_state": 0}
    model = make_pipeline(
        PrivateKnots(**common), PrivateSelector(8, norm_bound=2.0**0.5, **common),
        LogisticRegression(norm_bound=1.0, **common),
    ).fit(rows, y)  # fmt: skip
    assert model.score(rows, y) > 0.85
    assert len(ledger.charges) == 3
