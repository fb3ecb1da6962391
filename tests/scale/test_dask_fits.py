"""Rows in partitions: the same model and guarantee as in memory, however they are cut."""

import warnings
from functools import partial
from typing import Any

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import noisette
from noisette import (
    AdditiveClassifier,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    TableRegressor,
    evaluate,
)
from noisette.core.grid import Grid
from noisette.core.parts import joined
from noisette.core.summaries import Ranks
from noisette.fitting.algorithms.learnt_target import _ranks
from noisette.fitting.partitions import columns as columns_module
from noisette.fitting.partitions import parted
from noisette.fitting.partitions.lazily import for_workers

N, D = 3000, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) / 4.0
SCORE = X @ RNG.normal(size=D)
Y = np.where(SCORE + 0.2 * RNG.normal(size=N) > 0.0, "ill", "well")
Z = np.clip(SCORE, -2.0, 2.0)
WEIGHT = RNG.uniform(0.0, 1.0, N)
COUNTS = RNG.poisson(np.exp(SCORE))
TABLE = pd.DataFrame(X, columns=[f"c{j}" for j in range(D)]).assign(y=Y, z=Z, w=WEIGHT)
NAMES = list(TABLE.columns[:D])


@pytest.fixture(autouse=True)
def in_this_thread() -> Any:
    with dask.config.set(scheduler="sync"):
        yield


def flat(model: Any) -> Any:
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


ESTIMATORS = [
    (LogisticRegression(1.0, norm_bound=0.5), "y"),
    (LogisticRegression(1.0, 1e-6, norm_bound=0.5, whiten=True), "y"),
    (LogisticRegression(1.0, norm_bound=0.5, class_weight="balanced"), "y"),
    (LogisticRegression(1.0, norm_bound=0.5, mechanism="output", adjacency="zero-out"), "y"),
    (LinearSVC(1.0, norm_bound=0.5), "y"),
    (LinearSVC(1.0, norm_bound=0.5, loss="huber", adjacency="add-remove"), "y"),
    (LinearRegression(1.0, 1e-6, norm_bound=0.5, target_bounds=(-2, 2)), "z"),
    (HuberRegressor(1.0, norm_bound=0.5, target_bounds=(-2, 2)), "z"),
    (LinearRegression(30.0, 1e-6, norm_bound=0.5, target_bounds="learn"), "z"),
    (HuberRegressor(30.0, norm_bound=0.5, target_bounds="learn", adjacency="zero-out"), "z"),
]


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(("model", "target"), ESTIMATORS, ids=lambda each: str(each)[:60])
def test_partitions_change_nothing(model: Any, target: str, weighed: bool) -> None:
    model.set_params(random_state=1)
    y, weight = TABLE[target].to_numpy(), WEIGHT if weighed else None
    whole = model.fit(X, y, sample_weight=weight)
    expected, told = flat(whole), whole.privacy_.to_dict()
    cuts = [(700, 4), (N, D)] if weighed else [(177, 1), (1300, 4)]
    for chunks in cuts:
        rows = da.from_array(X, chunks=chunks)
        labels = da.from_array(y, chunks=900)  # cut otherwise: they are cut again
        given = None if weight is None else da.from_array(weight, chunks=N)
        fitted = model.fit(rows, labels, sample_weight=given)
        assert np.abs(flat(fitted) - expected).max() < 1e-8
        promised = fitted.privacy_.to_dict()
        extra = set(promised["proofs"]) - set(told["proofs"])
        assert extra <= {"ROUND-ANY-ORDER", "EXACT-SUM", "ROUND-GRADIENT", "ROW-LOCAL"}
        cited = {key: told[key] for key in ("proofs", "statement")}
        assert promised | cited == told
    table = dd.from_pandas(TABLE, npartitions=3)
    fitted = model.fit(table[NAMES], table[target], sample_weight=table["w"] if weighed else None)
    assert np.abs(flat(fitted) - expected).max() < 1e-8
    assert fitted.feature_names_in_.tolist() == NAMES


def test_ranks_of_targets_and_their_weights_are_exact() -> None:
    grid, weight = Grid(), WEIGHT * (Z > 0.0)  # weights that lean to one side
    whole = _ranks(grid, True, Z, weight)
    rows, target, weights = parted(da.from_array(X, chunks=(177, D)), Z, weight)
    assert rows is not None
    found = joined(partial(_ranks, grid, True), target, weights, join=Ranks.join)
    assert all(np.array_equal(value, vars(found)[name]) for name, value in vars(whole).items())


def test_three_classes_and_integers() -> None:
    labels = np.digitize(SCORE, [-0.3, 0.3])
    whole = (10 * X).astype(int)
    model = LogisticRegression(1.0, norm_bound=3.0, random_state=1)
    expected = flat(model.fit(whole, labels))
    found = flat(
        model.fit(da.from_array(whole, chunks=(800, 3)), da.from_array(labels, chunks=800))
    )
    assert np.abs(found - expected).max() < 1e-8


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (SGDClassifier(1.0, 1e-6, norm_bound=0.5), Y),
        (SGDClassifier(1.0, 1e-6, norm_bound=0.5, clip_norm=0.1), Y),
        (SGDRegressor(1.0, norm_bound=0.5, target_bounds=(-2, 2)), Z),
        (PoissonRegressor(1.0, norm_bound=0.5, most_count=5), COUNTS),
    ],
    ids=lambda each: str(each)[:60],
)
def test_full_batch_descent_is_that_of_memory_to_rounding(model: Any, target: Any) -> None:
    model.set_params(random_state=1)
    few = target[:300]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", noisette.errors.WeakModelWarning)
        expected = flat(model.fit(X[:300], few))
        cut = [flat(model.fit(da.from_array(X[:300], chunks=(size, D)), few)) for size in (97, 200)]
    assert np.abs(cut[0] - cut[1]).max() < 1e-8
    # a little more noise for sums in any order; how much is tested in test_any_order.py
    assert np.abs(cut[0] - expected).max() < 1e-6


KINDS = {"age": "numeric", "gain": "numeric", "ward": "categorical"}


def patients(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(18, 90, n).astype(float)
    age[::17] = np.nan
    table = pd.DataFrame({"age": age, "ward": rng.choice(list("abcd"), n)})
    table["gain"] = np.where(rng.random(n) < 0.8, 0, rng.integers(1, 5, n) * 1000)
    odds = np.nan_to_num(age, nan=50.0) - 50.0 + 5.0 * (table.ward == "a")
    table["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-odds / 10)), "yes", "no")
    return table.assign(cost=np.nan_to_num(age, nan=40.0) * 2)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (TableClassifier(3.0, 1e-5, schema=KINDS, class_weight="balanced"), "ill"),
        (TableClassifier(3.0, 1e-5, schema=KINDS, adjacency="add-remove", population=1500), "ill"),
        (AdditiveClassifier(3.0, 1e-5, schema=KINDS), "ill"),
        (AdditiveClassifier(30.0, 1e-5, schema=KINDS, pairs=[("age", "ward")]), "ill"),
        (TableRegressor(3.0, 1e-5, schema=KINDS, target_bounds="learn"), "cost"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_raw_table_in_partitions(model: Any, target: str) -> None:
    table = patients()
    model.set_params(random_state=1)
    whole = model.fit(table[list(KINDS)], table[target])
    expected, source = flat(whole), whole.schema_.source
    pairs = [pair.weights for pair in getattr(whole, "pairs_", ())]
    assert bool(pairs) == bool(getattr(model, "pairs", None))
    for count in (1, 5):
        parts = dd.from_pandas(table, npartitions=count)
        fitted = model.fit(parts[list(KINDS)], parts[target])
        assert np.abs(flat(fitted) - expected).max() < 1e-8
        assert fitted.schema_.source == source  # knots and levels, exactly
        for pair, weights in zip(getattr(fitted, "pairs_", ()), pairs, strict=True):
            assert np.abs(pair.weights - weights).max() < 1e-8


def test_scores_of_partitions_are_those_of_the_whole_table() -> None:
    table = patients()
    model = TableClassifier(3.0, 1e-5, schema=KINDS, random_state=1)
    model.fit(table[list(KINDS)], table["ill"])
    expected = evaluate(model, table[list(KINDS)], table["ill"], epsilon=1.0, random_state=2)
    parts = dd.from_pandas(table, npartitions=4)
    found = evaluate(model, parts[list(KINDS)], parts["ill"], epsilon=1.0, random_state=2)
    assert (found.auc, found.accuracy) == (expected.auc, expected.accuracy)


def test_empty_partitions_count_for_nothing() -> None:
    parts = dd.concat([dd.from_pandas(TABLE, npartitions=2), dd.from_pandas(TABLE[:0], 1)])
    model = LogisticRegression(1.0, norm_bound=0.5, random_state=1)
    expected = flat(model.fit(X, Y))
    assert np.abs(flat(model.fit(parts[NAMES], parts["y"])) - expected).max() < 1e-8


def test_no_row_comes_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a pass returns is as large for 300 rows as for 3,000."""
    real, seen = columns_module.run, []

    def weighed(root: Any) -> Any:
        value = real(root)
        seen.append(size_of(value))
        return value

    monkeypatch.setattr(columns_module, "run", weighed)
    most = {}
    for rows in (300, N):
        seen.clear()
        parts = da.from_array(X[:rows], chunks=(100, D))
        LogisticRegression(1.0, norm_bound=0.5, random_state=1).fit(parts, Y[:rows])
        most[rows] = max(seen)
    assert most[N] == most[300] < 8 * D * 300


def size_of(value: Any) -> int:
    """The number of bytes of all arrays and numbers inside."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    return size_of(vars(value)) if hasattr(value, "__dict__") else 8


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_answers_are_lazy_where_rows_are(method: str) -> None:
    linear = LogisticRegression(1.0, norm_bound=0.5, random_state=1).fit(TABLE[NAMES], Y)
    raw, kinds = patients(), list(KINDS)
    tables = TableClassifier(3.0, 1e-5, schema=KINDS, random_state=1).fit(raw[kinds], raw["ill"])
    for model, whole in ((linear, TABLE[NAMES]), (tables, raw[kinds])):
        parts = dd.concat([dd.from_pandas(whole, npartitions=3), dd.from_pandas(whole[:0], 1)])
        found = getattr(model, method)(parts)
        expected = getattr(model, method)(whole)
        assert isinstance(found, da.Array)
        assert (found.dtype, found.ndim) == (expected.dtype, expected.ndim)
        assert same(found.compute(), expected)
    linear.fit(X, Y)
    found = getattr(linear, method)(da.from_array(X, chunks=(700, 4)))
    assert found.shape == getattr(linear, method)(X).shape
    assert same(found.compute(), getattr(linear, method)(X))


def same(found: Any, expected: Any) -> bool:
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    return np.allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_model_goes_to_workers_without_what_is_the_drivers() -> None:
    model = LogisticRegression(1.0, norm_bound=0.5, ledger=noisette.Ledger(1.0), random_state=3)
    model.fit(X, Y)
    sent = for_workers(model)
    assert (sent.ledger, sent.random_state) == (None, None)
    assert model.ledger.spent[0] == 1.0
    lazy = model.predict(da.from_array(X[:9], chunks=(5, D)))
    assert b"Ledger" not in cloudpickle.dumps(dict(lazy.__dask_graph__()))


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (LogisticRegression(1.0, 1e-6, norm_bound=0.5, whiten=True), Y),
        (LinearSVC(1.0, norm_bound=0.5, fit_intercept=False), Y),
        (HuberRegressor(9.0, norm_bound=0.5, target_bounds="learn"), Z),
        (SGDClassifier(1.0, 1e-6, norm_bound=0.5), Y),
    ],
    ids=lambda each: str(each)[:40],
)
def test_sparse_chunks(model: Any, target: Any) -> None:
    thin = np.where(np.abs(X) > 0.25, X, 0.0)
    model.set_params(random_state=1)
    expected = flat(model.fit(sparse.csr_matrix(thin), target))
    chunks = da.from_array(thin, chunks=(700, D)).map_blocks(halved)
    found = flat(model.fit(chunks, da.from_array(target, chunks=700)))
    assert np.abs(found - expected).max() < (1e-6 if isinstance(model, SGDClassifier) else 1e-8)


def halved(block: Any) -> Any:
    """Every entry is stored in two halves, which would look too short one by one."""
    matrix = sparse.csr_matrix(block)
    rows, columns = (np.tile(places, 2) for places in matrix.nonzero())
    order = np.argsort(rows, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=len(block))))
    data = np.tile(matrix.data / 2.0, 2)[order]
    return sparse.csr_matrix((data, columns[order], starts), shape=block.shape)
