"""Bad partitions: one sentence that quotes no cell, nothing charged, nothing half done."""

import sys
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from noisette import (
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    evaluate,
)
from noisette.errors import (
    ClusterFailed,
    InvalidData,
    InvalidParameter,
    MissingExtra,
    NoisetteError,
)
from noisette.fitting.partitions import running
from noisette.models import inputs

SECRET = "Smith-4711"
X = np.random.default_rng(0).normal(size=(200, 3))
Y = np.arange(200) % 2


@pytest.fixture(autouse=True)
def in_this_thread() -> Any:
    with dask.config.set(scheduler="sync"):
        yield


def table(npartitions: int = 4) -> Any:
    return dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=Y), npartitions=npartitions)


def fails(kind: type[Exception], words: str, fit: Any, relation: str = "replace-one") -> None:
    ledger = Ledger(5.0, 1e-5, adjacency=relation)
    with pytest.raises(kind) as caught:
        fit(ledger)
    text = str(caught.value)
    assert words in text
    assert SECRET not in text
    assert "200" not in text
    assert "partitions=" not in text
    assert "\n" not in text
    seen: Any = caught.value
    while seen is not None:  # nor in what travels along
        assert SECRET not in str(seen)
        seen = seen.__context__
    assert ledger.spent == (0.0, 0.0)


def logistic(rows: Any, labels: Any, **more: Any) -> Any:
    relation = more.pop("adjacency", "replace-one")
    fitting = {key: more.pop(key) for key in ("sample_weight", "persons") if key in more}

    def fit(ledger: Ledger) -> Any:
        model = LogisticRegression(
            1.0, norm_bound=1.0, ledger=ledger, adjacency=relation, population=300, **more
        )
        return model.fit(rows, labels, **fitting)

    return fit


def test_a_cell_that_is_no_number_is_not_quoted() -> None:
    mixed = pd.DataFrame(X, columns=list("abc")).astype(object)
    mixed.loc[150, "b"] = SECRET
    parts = dd.from_pandas(mixed, npartitions=4, sort=False)
    with dask.config.set({"dataframe.convert-string": False}):
        fails(InvalidData, "real numbers", logistic(parts, Y_series()))


def Y_series(npartitions: int = 4) -> Any:
    return dd.from_pandas(pd.Series(Y), npartitions=npartitions)


def test_a_partition_of_another_type_is_refused() -> None:
    whole = [X[:100], X[100:].astype(str)]
    whole[1][7, 1] = SECRET
    parts = da.concatenate(
        [da.from_delayed(dask.delayed(each), each.shape, float) for each in whole]
    )
    fails(InvalidData, "real numbers", logistic(parts, Y))


def test_a_reader_that_fails_says_so_without_its_words() -> None:
    def broken(block: Any) -> Any:
        raise ValueError(f"could not read {SECRET}")

    parts = da.from_array(X, chunks=(50, 3)).map_blocks(broken, dtype=float)
    fails(ClusterFailed, "could not be computed (ValueError)", logistic(parts, Y))


def test_partitions_that_do_not_go_together() -> None:
    unknown = table()[list("abc")].to_dask_array()  # its chunk sizes are not known
    fails(InvalidData, "cut alike", logistic(unknown, Y))
    fails(InvalidData, "cut alike", logistic(unknown, da.from_array(Y, chunks=90)))
    fails(InvalidData, "cut alike", logistic(table(4)[list("abc")], Y_series(3)))
    fails(InvalidData, "inconsistent", logistic(da.from_array(X, chunks=(50, 3)), Y[:-1]))
    lengths = da.from_array(Y, chunks=((40, 60, 50, 50),))
    fails(InvalidData, "inconsistent", logistic(table()[list("abc")], lengths), "replace-one")
    fails(InvalidData, "one record per row", logistic(da.from_array(X[:, 0], chunks=50), Y))
    # alike, although nobody knows how long they are
    model = LogisticRegression(1.0, norm_bound=1.0, random_state=0)
    assert model.fit(unknown, table()["y"].to_dask_array()).coef_.shape == (1, 3)


def test_a_missing_number_and_a_strange_label() -> None:
    holes = X.copy()
    holes[150, 1] = np.nan
    parts = da.from_array(holes, chunks=(60, 3))
    fails(InvalidData, "missing='zero'", logistic(parts, Y))
    assert LogisticRegression(1.0, norm_bound=1.0, missing="zero").fit(parts, Y).coef_.any()
    names = np.where(Y == 1, "a", "b").astype(object)
    names[3] = SECRET
    rows = da.from_array(X, chunks=(60, 3))
    for relation in ("replace-one", "add-remove"):
        bad = logistic(rows, names, classes=["a", "b"], adjacency=relation)
        fails(InvalidData, "a label that is not in classes", bad, relation)
    fails(InvalidData, "missing label", logistic(rows, np.where(Y == 1, np.nan, 0.0)))
    fails(InvalidData, "single class", logistic(rows, np.zeros(200)))
    fails(
        InvalidData, "weight_bound", logistic(rows, Y, sample_weight=da.full(200, 1.5, chunks=60))
    )


def test_a_quantity_is_not_taken_for_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MOST_CLASSES", 50)
    rows = da.from_array(X, chunks=(60, 3))
    fails(InvalidData, "more than 50 labels", logistic(rows, np.arange(200)))


def test_without_dask_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'noisette\[dask\]'"):
        running.dask_module("distributed")


def test_what_is_not_offered_is_refused_before_the_charge() -> None:
    rows, labels = da.from_array(X, chunks=(60, 3)), da.from_array(Y, chunks=60)
    kinds = dict.fromkeys("abc", "numeric")

    def refused(
        kind: type[Exception], words: str, model: Any, X: Any = rows, y: Any = labels, **more: Any
    ) -> None:
        fails(kind, words, lambda ledger: model.set_params(ledger=ledger).fit(X, y, **more))

    logistic_model = LogisticRegression(1.0, norm_bound=1.0)
    refused(
        InvalidParameter,
        "sample_epsilon is not offered",
        logistic_model,
        sample_epsilon=np.ones(200),
    )
    refused(InvalidParameter, "softplus", LinearSVC(1.0, norm_bound=1.0, loss="hinge"))
    refused(InvalidParameter, "takes batches", SGDClassifier(1.0, norm_bound=1.0))
    steps = SGDRegressor(1.0, 0.0, norm_bound=1.0, target_bounds=(0, 1))
    refused(InvalidParameter, "takes batches", steps)
    counts = PoissonRegressor(1.0, norm_bound=1.0, most_count=3, batch_size=50)
    refused(InvalidParameter, "takes batches", counts)
    stream = SGDClassifier(1.0, norm_bound=1.0, classes=[0, 1])
    for each in (stream, steps):

        def feed(ledger: Ledger, model: Any = each) -> Any:
            return model.set_params(ledger=ledger).partial_fit(rows, labels)

        fails(InvalidParameter, "must be in memory", feed)
    refused(InvalidData, "dask.dataframe", TableClassifier(1.0, schema=kinds))
    model = LogisticRegression(1.0, norm_bound=1.0).fit(rows, labels)
    with pytest.raises(NoisetteError, match="so X must, too"):
        evaluate(model, X, labels, epsilon=1.0)


def test_what_scores_rows_takes_them_as_fit_did() -> None:
    rows, labels = da.from_array(X, chunks=(60, 3)), da.from_array(Y, chunks=60)
    model = LogisticRegression(1.0, norm_bound=1.0).fit(rows, labels)
    with pytest.raises(InvalidData, match="features"):
        model.predict(rows[:, :2])  # at once, not when somebody computes it
    with pytest.raises(InvalidData, match="one record per row"):
        model.predict(labels)
    model = LinearRegression(1.0, 1e-6, norm_bound=1.0, target_bounds=(0, 1)).fit(rows, labels)
    with pytest.raises(InvalidData, match="takes rows in memory"):
        model.predict_interval(rows)
    mixed = da.from_array(X, chunks=(60, 3)).map_blocks(sparse.csr_matrix, meta=np.empty((0, 3)))
    fails(InvalidData, "sparse matrices where the array says so", logistic(mixed, Y))


def test_under_add_remove_messages_do_not_depend_on_the_partitions() -> None:
    texts = set()
    for size in (10, 70, 200):
        rows = da.from_array(X, chunks=(size, 3))
        model = LogisticRegression(
            1.0, norm_bound=1.0, adjacency="add-remove", population=300, random_state=0,
        ).fit(rows, Y)  # fmt: skip
        texts.add((model.privacy_.statement(), repr(model), str(sorted(vars(model)))))
    assert len(texts) == 1
    text = texts.pop()[0]
    assert "200" not in text


def test_a_label_that_nobody_listed_is_said_before_the_charge() -> None:
    table = pd.DataFrame({"age": np.arange(200.0), "ill": np.tile(["no", "yes"], 100)})
    table.loc[170, "ill"] = SECRET
    stated = {"target": "ill", "classes": ["no", "yes"], "columns": {"age": "numeric"}}
    ledger = Ledger(9.0, 1e-5)
    model = TableClassifier(9.0, 1e-5, schema=stated, ledger=ledger)
    with pytest.raises(InvalidData) as caught:
        model.fit(dd.from_pandas(table, npartitions=4))
    assert SECRET not in str(caught.value)
    assert ledger.count == 0


def test_rows_that_cannot_be_scored_are_said_before_the_charge() -> None:
    model = LogisticRegression(1.0, norm_bound=1.0).fit(X, Y)
    gone = X.copy()
    gone[-1, 0] = np.nan
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData):
        evaluate(model, da.from_array(gone, chunks=(50, 3)), Y, epsilon=1.0, ledger=ledger)
    assert ledger.count == 0


def test_empty_partitions_are_no_fault() -> None:
    table = pd.DataFrame(X, columns=list("abc")).assign(y=Y, z=X[:, 0], k=range(len(X)))
    parts = dd.from_pandas(table, npartitions=4)
    parts = parts[parts["k"] < len(table) // 2]  # the last two are empty
    few = table[: len(table) // 2]
    names = list("abc")
    model = LogisticRegression(1.0, norm_bound=1.0, random_state=1)
    found = model.fit(parts[names], parts["y"], sample_weight=parts["z"].abs().clip(0, 1)).coef_
    wanted = model.fit(few[names], few["y"], sample_weight=few["z"].abs().clip(0, 1)).coef_
    assert np.abs(found - wanted).max() < 1e-8
    huber = HuberRegressor(5.0, norm_bound=1.0, target_bounds=(-2, 2), random_state=1)
    found = huber.fit(parts[names], parts["z"]).coef_
    assert np.abs(found - huber.fit(few[names], few["z"]).coef_).max() < 1e-8
    scored = evaluate(model, parts[names], parts["y"], epsilon=5.0)
    assert scored is not None


def test_sparse_chunks_are_scored() -> None:
    model = LogisticRegression(1.0, norm_bound=1.0).fit(X, Y)
    thin = da.from_array(X, chunks=(50, 3)).map_blocks(sparse.csr_matrix)
    assert evaluate(model, thin, da.from_array(Y, chunks=50), epsilon=5.0) is not None


def test_columns_in_another_order_are_refused() -> None:
    table = pd.DataFrame(X, columns=list("abc"))
    parts = dd.from_map(
        lambda k: table if k == 0 else table[list("acb")],
        [0, 1],
        meta=table,
        enforce_metadata=False,
    )
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match="in another order"):
        LogisticRegression(1.0, norm_bound=1.0, classes=[0, 1], ledger=ledger).fit(
            parts, da.from_array(np.concatenate([Y, Y]), chunks=len(Y))
        )
    assert ledger.count == 0
