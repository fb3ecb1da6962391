"""Streams: one charge, new people only, constant memory, chunks of every kind."""

import pickle
import sys

import numpy as np
import pytest

from noisette import Ledger
from noisette.errors import InvalidData, InvalidParameter, MissingExtra, Unproven
from noisette.linear.sgd import SGDClassifier
from noisette.sampling import Disjoint
from noisette.training import Records, streaming

N, D = 3000, 4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] > 0).astype(int)


def model(**options):
    return SGDClassifier(
        **{"epsilon": 2.0, "classes": [0, 1], "random_state": 0, "batch_size": 64, **options}
    )


def in_order(rows):
    """One pass over all rows in their own order, as a stream takes them, almost without noise."""
    return model(epsilon=1e9, eta0=1.0, sampling=Disjoint.of_size(N, 64)).fit(*rows)


def chunks(X, y, size):
    for start in range(0, len(X), size):
        yield X[start : start + size], y[start : start + size]


@pytest.mark.parametrize("size", [7, 64, 1000, N])
def test_how_the_stream_is_cut_does_not_matter(rows, size) -> None:
    """Blocks of noise follow the chunks, so compare where the noise is negligible."""
    whole = in_order(rows)
    streamed = model(epsilon=1e9, eta0=1.0).fit(chunks(*rows, size))
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-5, atol=1e-6)


def test_rebatched_sizes(rows) -> None:
    for size in (1, 5, 63, 64, 65, 999):
        parts = list(streaming.rebatched(chunks(*rows, size), 64))
        assert all(len(X) % 64 == 0 for X, _ in parts[:-1])
        np.testing.assert_array_equal(np.concatenate([X for X, _ in parts]), rows[0])
        np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), rows[1])


def test_partial_fit_charges_once_for_the_whole_stream(rows) -> None:
    ledger = Ledger(2.0)
    online = model(ledger=ledger)
    seen = []
    for X, y in chunks(*rows, 640):
        online.partial_fit(X, y)
        seen.append(online.coef_.copy())
        assert ledger.spent == (2.0, 0.0)
    assert len(ledger.charges) == 1
    assert online.privacy_.epsilon == 2.0
    assert online.score(*rows) > 0.85
    assert "one chunk only" in online.privacy_.statement()
    assert len({tuple(c.ravel()) for c in seen}) == len(seen)


def test_chunks_of_whole_batches_are_one_pass(rows) -> None:
    online = model(epsilon=1e9, eta0=1.0)
    for X, y in chunks(*rows, 640):
        online.partial_fit(X, y)
    whole = in_order(rows)
    np.testing.assert_allclose(online.coef_, whole.coef_, rtol=1e-5, atol=1e-6)


def test_the_same_rows_twice_are_refused(rows) -> None:
    """The common mistake, an epoch loop over the same chunks, is caught; copies cannot be."""
    X, y = rows
    online = model().partial_fit(X[:1000], y[:1000]).partial_fit(X[1000:], y[1000:])
    before = online.coef_.copy()
    for again in (X, X[:1000], X[990:1100]):
        with pytest.raises(InvalidData, match="new people"):
            online.partial_fit(again, y[: len(again)])
    np.testing.assert_array_equal(online.coef_, before)
    online.partial_fit(X[:10].copy(), y[:10])  # new memory: the caller's promise


def test_partial_fit_after_fit_or_pickle_is_refused(rows) -> None:
    X, y = rows
    with pytest.raises(InvalidParameter, match="no open stream"):
        model().fit(X, y).partial_fit(X, y)
    online = pickle.loads(pickle.dumps(model().partial_fit(X, y)))
    with pytest.raises(InvalidParameter, match="no open stream"):
        online.partial_fit(X[:10], y[:10])


def test_streams_need_classes_and_a_single_pass(rows) -> None:
    X, y = rows
    with pytest.raises(InvalidParameter, match="classes"):
        model(classes=None).partial_fit(X, y)
    model(classes=None).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InvalidParameter, match="classes"):
        model(classes=None).fit(chunks(X, y, 100))
    with pytest.raises(Unproven, match="single pass"):
        model(delta=1e-6, sampling="poisson").fit(chunks(X, y, 100))
    with pytest.raises(Unproven, match="add-remove"):
        model(adjacency="add-remove").fit(chunks(X, y, 100))
    with pytest.raises(InvalidData, match="empty"):
        model().fit(iter([]))
    with pytest.raises(InvalidData, match="not in classes"):
        model().fit(chunks(X, y + 1, 100))


def test_a_failing_chunk_keeps_the_charge_and_the_open_stream(rows) -> None:
    X, y = rows
    ledger = Ledger(2.0)
    online = model(ledger=ledger).partial_fit(X[:640], y[:640])
    with pytest.raises(InvalidData):
        online.partial_fit(X[:10, :2], y[:10])
    online.partial_fit(X[640:], y[640:])
    assert len(ledger.charges) == 1


def test_delta_and_many_classes(rows) -> None:
    X, _ = rows
    y = np.argmax(X[:, :3], axis=1)
    streamed = model(classes=[0, 1, 2], delta=1e-6, epsilon=8.0).fit(chunks(X, y, 500))
    assert streamed.coef_.shape == (3, D)
    assert streamed.privacy_.delta == 1e-6


def test_arrow_and_parquet(rows, tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, y = rows
    names = [f"x{j}" for j in range(D)]
    table = pa.table({**{name: X[:, j] for j, name in enumerate(names)}, "label": y})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    whole = in_order(rows)
    for source, target in (
        (str(tmp_path / "a.parquet"), None),
        ([tmp_path / "a.parquet"], "label"),
        (iter(table.to_batches(max_chunksize=700)), "label"),
        (iter([table]), None),
    ):
        streamed = model(epsilon=1e9, eta0=1.0).fit(source, target)
        np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidData, match="no column"):
        model().fit(tmp_path / "a.parquet", "salary")


def test_without_pyarrow_the_message_helps(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'noisette\[parquet\]'"):
        model().fit(tmp_path / "a.parquet")


def test_memory_does_not_grow_with_the_stream() -> None:
    """The largest traced memory of a stream 8 times as long is the same within 20 %."""
    import tracemalloc

    def peak(count: int) -> int:
        def source():
            rng = np.random.default_rng(0)
            for _ in range(count):
                X = rng.standard_normal((5000, 10))
                yield X, (X[:, 0] > 0).astype(int)

        tracemalloc.start()
        model(population=10**6).fit(source())
        value = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return value

    peak(1)
    short, long = peak(4), peak(32)
    assert long < 1.2 * short


@pytest.mark.parametrize("chunks_before", [0, 1])
def test_an_interrupted_chunk_cannot_be_handed_in_again(monkeypatch, chunks_before):
    """Some of its people may have been in a noisy step already; new people may still come."""
    rng = np.random.default_rng(3)
    chunks = [rng.standard_normal((60, 3)) for _ in range(3)]
    y = np.arange(60) % 2
    ledger = Ledger(1.0)
    model = SGDClassifier(epsilon=1.0, batch_size=10, classes=[0, 1], ledger=ledger)
    for chunk in chunks[:chunks_before]:
        model.partial_fit(chunk, y)
    feed = streaming.Stream.feed

    def interrupted(self, records, progress=None):
        feed(self, Records(records.rows[:20], [records.targets[0][:20]]), progress)
        raise KeyboardInterrupt

    monkeypatch.setattr(streaming.Stream, "feed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(chunks[1], y)
    monkeypatch.undo()
    with pytest.raises(InvalidData, match="handed in before"):
        model.partial_fit(chunks[1], y)
    model.partial_fit(chunks[2], y)
    assert len(ledger.charges) == 1
    assert model.privacy_.epsilon == 1.0


def test_a_refused_chunk_may_be_corrected():
    X, y = np.random.default_rng(4).standard_normal((60, 3)), np.arange(60) % 2
    model = SGDClassifier(epsilon=1.0, batch_size=10, classes=[0, 1])
    model.partial_fit(X.copy(), y)
    with pytest.raises(InvalidData):
        model.partial_fit(X, y + 5)  # nobody was in a step
    model.partial_fit(X, y)
