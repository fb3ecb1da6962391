"""What both estimators promise, for every mechanism and relation."""

import pickle
import warnings
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.errors import (
    AdjacencyMismatch,
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    NoisetteError,
    Unproven,
)
from noisette.models import LinearSVC, LogisticRegression

RELATIONS = [relation.value for relation in Adjacency]
BOTH = [LogisticRegression, LinearSVC]

# Every scikit-learn check that contradicts privacy, with the reason.
CAP = "weights above the public cap weight_bound (1 by default) are refused, not rescaled"
AGAINST_PRIVACY = {
    "check_all_zero_sample_weights_error": "an error that depends on sensitive weights is a leak",
    "check_sample_weight_equivalence_on_dense_data": "weight 0 or 2 is one record, not none or "
    "two: n is public and sets the regularization",
    "check_sample_weight_equivalence_on_sparse_data": "as for dense data",
    "check_class_weight_classifiers": "the intercept is a column of the row and regularised, so "
    "that it cannot outvote all rows, whatever the weights",
}
WITH_DEFAULT_CAP = {
    **AGAINST_PRIVACY,
    "check_sample_weights_list": CAP,
    "check_sample_weights_not_overwritten": CAP,
}
# The hinge is covered by output perturbation only: its noise is too much for 300 rows at epsilon 1.
CHECKED = [
    (LogisticRegression(norm_bound=1.0), WITH_DEFAULT_CAP),
    (LinearSVC(norm_bound=1.0), WITH_DEFAULT_CAP),
    (LogisticRegression(mechanism="output", weight_bound=10, norm_bound=1.0), AGAINST_PRIVACY),
    (LogisticRegression(multi_class="ovr", weight_bound=10, norm_bound=1.0), AGAINST_PRIVACY),
    (LinearSVC(epsilon=10.0, loss="hinge", weight_bound=10, norm_bound=1.0), AGAINST_PRIVACY),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "expected"), CHECKED, ids=[str(model) for model, _ in CHECKED]
)
def test_scikit_learn_contract(estimator: Any, expected: dict[str, str]) -> None:
    """Every check passes but those that contradict privacy, and those do fail."""
    failed: dict[str, Exception] = {}
    ran = set()
    for instance, check in estimator_checks_generator(estimator, legacy=True):
        name = getattr(check, "func", check).__name__
        ran.add(name)
        try:
            check(clone(instance))
        except SkipTest:
            continue
        except Exception as error:
            failed[name] = error
    assert len(ran) > 50
    assert failed.keys() == expected.keys(), failed


def table(n: int = 400, d: int = 5, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d)) / np.sqrt(d)
    scores = X @ rng.standard_normal((d, classes)) * 5.0
    return X, scores.argmax(axis=1)


CASES = [
    (LogisticRegression, {"mechanism": "objective"}),
    (LogisticRegression, {"mechanism": "output"}),
    (LogisticRegression, {"mechanism": "objective", "delta": 1e-6}),
    (LogisticRegression, {"mechanism": "output", "delta": 1e-6}),
    (LogisticRegression, {"whiten": 0.1, "delta": 1e-6}),
    (LinearSVC, {"loss": "softplus"}),
    (LinearSVC, {"loss": "huber"}),
    (LinearSVC, {"loss": "hinge"}),
    (LinearSVC, {"loss": "softplus", "mechanism": "output", "delta": 1e-6}),
]


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(("make", "options"), CASES)
def test_the_guarantee_is_the_one_asked_for(make: Any, options: Any, adjacency: str) -> None:
    X, y = table()
    model = make(0.7, adjacency=adjacency, population=500, **options, norm_bound=1.0).fit(X, y)
    promise = model.privacy_
    assert promise.epsilon == 0.7
    assert promise.delta in (0.0, options.get("delta", 0.0))
    assert promise.adjacency.value == adjacency
    assert promise.delta_at(0.7) <= promise.delta
    assert not promise.seeded
    assert promise.proofs
    text = promise.statement()
    assert "norm bound 1" in text
    assert "label" in text
    assert "5 features" in text
    assert ("number of records, 400" in text) == (adjacency != "add-remove")
    assert "Mechanism:" in text
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)


@pytest.mark.parametrize("multi_class", ["softmax", "ovr"])
@pytest.mark.parametrize("mechanism", ["objective", "output"])
def test_several_classes(multi_class: str, mechanism: str) -> None:
    X, y = table(3000, classes=3)
    model = LogisticRegression(
        20.0, mechanism=mechanism, multi_class=multi_class, random_state=0, norm_bound=1.0
    )
    model.fit(X, y)
    assert model.coef_.shape == (3, 5)
    assert model.decision_function(X).shape == (3000, 3)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.8
    if multi_class == "softmax":
        assert np.allclose(model.coef_.sum(axis=0), 0.0, atol=1e-6)


def test_the_svm_has_no_probabilities() -> None:
    assert not hasattr(LinearSVC(norm_bound=1.0), "predict_proba")
    with pytest.raises(InvalidParameter, match="multi_class must be one of"):
        LinearSVC(multi_class="softmax", norm_bound=1.0).fit(*table())


@pytest.mark.parametrize("make", BOTH)
def test_every_kind_of_table_gives_the_same_model(make: Any) -> None:
    X, y = table()
    X = np.round(X * 64) / 64  # exact in float32
    reference = make(random_state=3, norm_bound=1.0).fit(X, y)
    frames = {
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "csr": sparse.csr_array(X),
        "csc": sparse.csc_matrix(X),
        "coo": sparse.coo_matrix(X),
        "pandas": pd.DataFrame(X, columns=list("abcde")),
        "polars": pl.DataFrame(X, schema=list("abcde")),
    }
    for name, frame in frames.items():
        model = make(random_state=3, norm_bound=1.0).fit(frame, y)
        assert np.allclose(model.coef_, reference.coef_, atol=1e-4), name
        assert np.array_equal(model.predict(frame), reference.predict(X)), name
        has_names = name in ("pandas", "polars")
        assert hasattr(model, "feature_names_in_") == has_names, name
    for dtype in (bool, np.int8, np.int64):
        make(norm_bound=1.0).fit((X > 0).astype(dtype), y)


@pytest.mark.parametrize("make", BOTH)
def test_labels_of_every_type(make: Any) -> None:
    X, y = table()
    for labels in (
        np.array(["no", "yes"])[y],
        np.array(["no", "yes"], dtype=object)[y],
        y.astype(bool),
        y.astype(float) * 3.0,
        pd.Series(np.array(["no", "yes"])[y]),
        list(y),
    ):
        model = make(random_state=0, norm_bound=1.0).fit(X, labels)
        assert set(model.predict(X).tolist()) <= set(np.asarray(labels).tolist())


BAD_PARAMETERS = [
    {"epsilon": 0.0},
    {"epsilon": -1.0},
    {"epsilon": float("nan")},
    {"epsilon": "1"},
    {"delta": 1.0},
    {"delta": -1e-9},
    {"mechanism": "magic"},
    {"regularization": 0.0},
    {"regularization": "best"},
    {"norm_bound": 0.0},
    {"norm_bound": float("inf")},
    {"adjacency": "neighbour"},
    {"fit_intercept": 1},
    {"classes": [0]},
    {"classes": [0, 0, 1]},
    {"multi_class": "magic"},
    {"missing": "mean"},
    {"whiten": "yes"},
    {"whiten": 1.5, "delta": 1e-6},
    {"whiten": 0.1},
    {"whiten": 0.1, "delta": 1e-6, "mechanism": "output"},
    {"weight_bound": 0.0},
    {"population": 0},
    {"random_state": "seed"},
    {"ledger": 3},
    {"adjacency": "add-remove", "regularization": 0.1},
    {"adjacency": "add-remove", "mechanism": "output"},
    {"adjacency": "add-remove", "population": 100},
    # what would fail in the solve, after the charge
    {"mechanism": "output", "regularization": 1e-300},
    {"mechanism": "output", "regularization": 1e300},
    {"regularization": 1e300},
    {"norm_bound": 1e-170},
    {"norm_bound": 1e39},
    {"mechanism": "output", "norm_bound": 1e-170},
]


@pytest.mark.parametrize("bad", BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_one_sentence_and_charge_nothing(bad: Any) -> None:
    X, y = table()
    for make in BOTH:
        ledger = Ledger(10.0, 1e-5, adjacency=bad.get("adjacency", "replace-one").replace(
            "neighbour", "replace-one"))  # fmt: skip
        model = make(**{"norm_bound": 1.0, "ledger": ledger, **bad})
        with pytest.raises(NoisetteError) as error:
            model.fit(X, y)
        assert isinstance(error.value, ValueError)
        assert str(error.value).endswith(".")
        assert ledger.spent == (0.0, 0.0)
        assert not [name for name in vars(model) if name.endswith("_")]


SECRET = 31337.125


def broken_tables() -> dict[str, tuple[Any, Any]]:
    X, y = table()
    X = X.copy()
    X[0, 0] = SECRET
    with_nan, with_inf = X.copy(), X.copy()
    with_nan[3, 1], with_inf[3, 1] = np.nan, np.inf
    words = X.astype(object)
    words[5, 2] = "Smith"
    wrong = y.astype(float)
    wrong[7] = SECRET
    nan_label = y.astype(float)
    nan_label[7] = np.nan
    return {
        "nan": (with_nan, y),
        "inf": (with_inf, y),
        "words": (words, y),
        "complex": (X + 1j, y),
        "one dimension": (X[:, 0], y),
        "three dimensions": (X[:, :, None], y),
        "no rows": (X[:0], y[:0]),
        "no columns": (X[:, :0], y),
        "one row": (X[:1], y[:1]),
        "lengths": (X, y[:-1]),
        "two-dimensional y": (X, np.c_[y, y]),
        "fractions as labels": (X, wrong),
        "nan label": (X, nan_label),
        "no y": (X, None),
        "one class": (X, np.zeros(len(y))),
        "mixed labels": (X, np.array([1, "a"] * (len(y) // 2), dtype=object)),
    }


@pytest.mark.parametrize("name", broken_tables())
def test_bad_tables_are_refused_without_quoting_them(name: str) -> None:
    X, y = broken_tables()[name]
    for make in BOTH:
        ledger = Ledger(10.0)
        with pytest.raises(InvalidData) as error:
            make(ledger=ledger, norm_bound=1.0).fit(X, y)
        text = str(error.value)
        assert "\n" not in text
        assert not any(part in text for part in ("31337", "Smith", "3.13"))
        assert error.value.__context__ is None
        assert ledger.spent == (0.0, 0.0)


def test_unknown_labels_are_not_named() -> None:
    X, y = table()
    labels = np.where(y == 1, "yes", "no").astype(object)
    labels[3] = "Smith"
    with pytest.raises(InvalidData, match="not in classes") as error:
        LogisticRegression(classes=["no", "yes"], norm_bound=1.0).fit(X, labels)
    assert "Smith" not in str(error.value)


@pytest.mark.parametrize("make", BOTH)
def test_one_class_can_be_trained_when_classes_are_given(make: Any) -> None:
    X, _ = table()
    model = make(classes=["a", "b"], random_state=0, norm_bound=1.0).fit(X, ["b"] * len(X))
    assert list(model.classes_) == ["a", "b"]
    assert "as given" in model.privacy_.statement()
    three = make(50.0, classes=[5, 3, 4], random_state=0, norm_bound=1.0).fit(X, [4] * len(X))
    assert list(three.classes_) == [3, 4, 5]


@pytest.mark.parametrize("weights", [[2.0], [-0.1], [np.nan], [np.inf], ["a"]])
def test_weights_outside_the_cap_are_refused_without_values(weights: Any) -> None:
    X, y = table()
    given: list[Any] = [0.5] * (len(X) - 1) + weights
    with pytest.raises(InvalidData, match="sample_weight must"):
        LogisticRegression(norm_bound=1.0).fit(X, y, sample_weight=given)
    with pytest.raises(InvalidData, match="one for each row"):
        LogisticRegression(norm_bound=1.0).fit(X, y, sample_weight=[0.5])


def test_nothing_but_released_numbers_depends_on_the_data() -> None:
    X, y = table()
    rng = np.random.default_rng(5)
    for make, options in CASES:
        if options.get("loss") == "hinge":
            continue
        first = make(**options, classes=[0, 1], random_state=0, norm_bound=1.0).fit(X, y)
        moved = make(**options, classes=[0, 1], random_state=0, norm_bound=1.0)
        moved.fit(rng.uniform(-0.1, 0.1, X.shape), rng.permutation(y))
        for name in vars(first):
            one, two = getattr(first, name), getattr(moved, name)
            if name in ("coef_", "intercept_"):
                assert not np.array_equal(one, two)
            elif isinstance(one, np.ndarray):
                assert np.array_equal(one, two), name
            elif name == "_bars" and one.law == "curvature":  # from the released second moment
                assert one.law == two.law
            else:
                assert one == two, name
        assert not hasattr(first, "n_iter_")


def test_no_warning_depends_on_the_data() -> None:
    X, _ = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "From public facts alone")
        for y in (np.arange(len(X)) % 2, np.r_[0, np.ones(len(X) - 1)]):
            for scale in (0.0, 1e-300, 1.0, 1e160):
                LogisticRegression(classes=[0, 1], norm_bound=1.0).fit(X * scale, y)
        LogisticRegression(50.0, norm_bound=1.0).fit(
            X, np.arange(len(X)) // 4
        )  # many classes: no opinion


@pytest.mark.parametrize(("make", "options"), CASES)
def test_two_fits_draw_different_noise(make: Any, options: Any) -> None:
    X, y = table()
    model = make(**options, norm_bound=1.0)
    first = model.fit(X, y).coef_
    assert not np.any(first == model.fit(X, y).coef_)
    seeded = [make(**options, random_state=1, norm_bound=1.0).fit(X, y) for _ in range(2)]
    assert np.array_equal(seeded[0].coef_, seeded[1].coef_)
    assert "void" in seeded[0].privacy_.statement()


@pytest.mark.parametrize("make", BOTH)
def test_fit_changes_no_parameter_and_clone_shares_the_ledger(make: Any) -> None:
    X, y = table()
    ledger = Ledger(2.0)
    model = make(1.0, classes=[0, 1], ledger=ledger, norm_bound=1.0)
    before = dict(model.get_params())
    assert model.fit(X, y) is model
    assert all(model.get_params()[name] is value for name, value in before.items())
    twin = clone(model)
    assert twin.ledger is ledger
    twin.fit(X, y)
    assert ledger.spent == (2.0, 0.0)
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)


def test_a_refused_fit_leaves_everything_as_it_was() -> None:
    X, y = table()
    model = LogisticRegression(1.0, ledger=Ledger(1.0), norm_bound=1.0)
    frame = pd.DataFrame(X, columns=list("abcde"))
    with pytest.raises(BudgetExceeded):
        LogisticRegression(2.0, ledger=Ledger(1.0), norm_bound=1.0).fit(frame, y)
    model.fit(frame, y)
    before = dict(vars(model))
    with pytest.raises(BudgetExceeded):
        model.fit(X[:, :3], y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    unfitted = LogisticRegression(2.0, ledger=Ledger(1.0), norm_bound=1.0)
    with pytest.raises(BudgetExceeded):
        unfitted.fit(frame, y)
    with pytest.raises(NotFittedError):
        unfitted.predict(frame)


def test_a_ledger_of_another_relation_is_refused_by_name() -> None:
    ledger = Ledger(1.0, adjacency="zero-out")
    with pytest.raises(AdjacencyMismatch, match=r"zero-out.*replace-one"):
        LogisticRegression(ledger=ledger, norm_bound=1.0).fit(*table())


def test_pickle_keeps_the_model_and_leaves_the_ledger() -> None:
    X, y = table()
    model = LogisticRegression(ledger=Ledger(1.0), norm_bound=1.0).fit(X, y)
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict(X), model.predict(X))
    assert back.privacy_ == model.privacy_
    with pytest.raises(InvalidParameter, match="ledger"):
        back.fit(X, y)
    back.set_params(ledger=None).fit(X, y)


def test_workers_charge_the_same_ledger_in_a_file(tmp_path: Path) -> None:
    X, y = table()
    ledger = Ledger.open(tmp_path / "ledger", 0.35)
    model = LogisticRegression(0.1, ledger=ledger, norm_bound=1.0)
    cross_val_score(model, X, y, cv=2, n_jobs=2)
    assert ledger.count == 2
    back = pickle.loads(pickle.dumps(model))
    back.fit(X, y)
    with pytest.raises(BudgetExceeded):
        model.fit(X, y)
    assert ledger.count == 3


def test_pipeline_and_set_params() -> None:
    X, y = table(2000)
    pipe = make_pipeline(FunctionTransformer(), LogisticRegression(random_state=0, norm_bound=1.0))
    pipe.set_params(logisticregression__epsilon=5.0).fit(X, y)
    assert pipe.score(X, y) > 0.9
    assert pipe[-1].privacy_.epsilon == 5.0


def test_mechanisms_are_refused_where_no_theorem_covers_them() -> None:
    X, y = table()
    with pytest.raises(Unproven, match="kink"):
        LinearSVC(loss="hinge", mechanism="objective", norm_bound=1.0).fit(X, y)
    with pytest.raises(Unproven, match="output"):
        LogisticRegression(mechanism="objective", norm_bound=1.0).fit(
            X, y, sample_epsilon=np.full(len(X), 0.5)
        )
    with pytest.raises(Unproven, match="one model"):
        LogisticRegression(delta=1e-6, whiten=0.1, multi_class="ovr", norm_bound=1.0).fit(
            *table(classes=3)
        )
    assert "kink" in LinearSVC(loss="hinge", norm_bound=1.0).fit(X, y).privacy_.statement()
