"""How rows in parts are looked at: in few passes, and in one place of memory."""

from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from noisette import LogisticRegression
from noisette.fitting.losses.partitioned import PartedRows
from noisette.fitting.losses.rows import Augmented, Rows
from noisette.fitting.partitions import columns as columns_module
from noisette.fitting.partitions import parted
from noisette.fitting.partitions.columns import DaskColumn
from noisette.fitting.solvers import smooth

RNG = np.random.default_rng(5)
N, D = 40_000, 5
X = RNG.normal(size=(N, D)).astype(np.float32) / 4.0
Y = (X.sum(axis=1) + RNG.logistic(size=N) / 4.0 > 0.0).astype(int)


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def read_again(values: Any, size: int) -> Any:
    """The array as a graph that makes every partition anew, as a reader of files does."""
    sizes = [min(size, len(values) - start) for start in range(0, len(values), size)]
    parts = [
        da.from_delayed(
            dask.delayed(np.array, pure=False)(values[k * size : k * size + count]),
            (count, *values.shape[1:]), values.dtype,
        )
        for k, count in enumerate(sizes)
    ]  # fmt: skip
    return da.concatenate(parts)


def passes(monkeypatch: pytest.MonkeyPatch, rows: Any, labels: Any) -> tuple[list[bool], Any]:
    """Whether each pass of a fit was over rows that are kept, and the weights."""
    seen: list[bool] = []
    real = DaskColumn.reduce

    def noted(column: DaskColumn, *given: Any) -> Any:
        seen.append(column.held)
        return real(column, *given)

    with monkeypatch.context() as patch:
        patch.setattr(DaskColumn, "reduce", noted)
        model = LogisticRegression(1.0, norm_bound=1.0, classes=[0, 1], random_state=0)
        model.fit(rows, labels)
    return seen, np.append(model.coef_, model.intercept_)


def test_few_passes_and_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    held, kept = passes(monkeypatch, da.from_array(X, chunks=(3_000, D)), Y)
    read, again = passes(monkeypatch, read_again(X, 3_000), read_again(Y, 3_000))
    assert all(held)
    assert not any(read)
    # rows are counted, checked, and sampled; then Newton's steps, or one and steps from its model
    assert len(read) <= 3 + 6
    assert len(held) <= 3 + 12
    whole = LogisticRegression(1.0, norm_bound=1.0, classes=[0, 1], random_state=0).fit(X, Y)
    expected = np.append(whole.coef_, whole.intercept_)
    assert np.abs(kept - expected).max() < 1e-8
    assert np.abs(again - expected).max() < 1e-8


def test_steps_that_do_not_help_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start at which whole steps fail: the model is the same, after more passes."""
    near = passes(monkeypatch, read_again(X, 9_000), read_again(Y, 9_000))
    far = smooth._warm_start
    monkeypatch.setattr(smooth, "_warm_start", lambda o, w: (w + 40.0, far(o, w)[1]))
    away = passes(monkeypatch, read_again(X, 9_000), read_again(Y, 9_000))
    assert len(away[0]) > len(near[0])
    assert np.abs(near[1] - away[1]).max() < 1e-8


def test_a_sample_is_taken_from_a_few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(50_000.0).reshape(-1, 1)
    rows, labels = parted(da.from_array(values, chunks=(500, 1)), values[:, 0])
    assert rows is not None
    assert labels is not None
    rows, labels = rows.sized(50_000), labels.sized(50_000)
    leaves: list[int] = []
    real = DaskColumn.leaves

    def counted(column: DaskColumn, *given: Any) -> Any:
        found = real(column, *given)
        leaves.append(len(found))
        return found

    monkeypatch.setattr(columns_module.DaskColumn, "leaves", counted)
    X, y = PartedRows(rows).on_sample(1_000, lambda X, y: (X, y), labels)
    assert leaves == [15]  # of 100
    assert np.array_equal(X[:, 0], y)
    assert 900 <= len(X) <= 1_200
    assert X.max() > 45_000.0  # spread over all of them


def test_a_part_with_most_of_the_rows_does_not_flood_a_sample() -> None:
    sizes = (40_000,) + (1,) * 99
    values = np.arange(float(sum(sizes))).reshape(-1, 1)
    rows, _ = parted(da.from_array(values, chunks=(sizes, (1,))), None)
    assert rows is not None
    found = PartedRows(rows.sized(len(values))).on_sample(500, lambda X: X)
    assert 500 <= len(found) <= 520


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("augmented", [False, True])
def test_blocks_of_a_sum_are_those_of_the_rows_bit_for_bit(kind: Any, augmented: bool) -> None:
    matrix: Any = (10.0 * RNG.normal(size=(1_000, 3))).astype(kind)
    if augmented:
        matrix = Augmented(matrix, RNG.uniform(size=1_000), np.full(1_000, 0.3))
    rows = Rows(matrix, 300)
    passing = [(where, block.copy(), block) for where, block in rows.blocks(passing=True)]
    for (where, block, _), (expected_where, expected) in zip(passing, rows.blocks(), strict=True):
        assert where == expected_where
        assert block.dtype == np.float64
        assert np.array_equal(block, expected)
    if augmented or kind is not np.float64:
        assert all(np.shares_memory(passing[0][2], each) for _, _, each in passing)
