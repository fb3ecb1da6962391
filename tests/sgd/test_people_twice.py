"""A stream takes each person once: the same rows, memory, slices or files again are refused."""

import numpy as np
import pytest
from scipy import sparse
from small_table import D, N, X, Y, model

from noisette import Ledger
from noisette.errors import InvalidData
from noisette.fitting.algorithms import Records, streaming
from noisette.models.sgd import SGDClassifier


def test_the_same_rows_twice_are_refused() -> None:
    """The common mistake, an epoch loop over the same chunks, is caught; copies cannot be."""
    online = model(batch_size=10).partial_fit(X[:80], Y[:80]).partial_fit(X[80:], Y[80:])
    before = online.coef_.copy()
    for again in (X, X[:80], X[70:90]):
        with pytest.raises(InvalidData, match="new people"):
            online.partial_fit(again, Y[: len(again)])
    np.testing.assert_array_equal(online.coef_, before)
    online.partial_fit(X[:10].copy(), Y[:10])  # new memory: the caller's promise


def test_an_epoch_loop_inside_a_stream_is_refused() -> None:
    """Five passes over the same people were charged as one."""
    chunk = (X, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([chunk] * 5))
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([(X[:150], Y[:150]), (X[100:], Y[100:])]))
    model(batch_size=10).fit(iter([(X[:150], Y[:150]), (X[150:], Y[150:])]))


def test_the_same_list_or_the_same_memory_twice_is_refused() -> None:
    rows = X.astype(object)[:]
    online = model(batch_size=10).partial_fit(rows[:100], Y[:100])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(rows[50:], Y[50:])
    rows = X.tolist()
    online = model(batch_size=10).partial_fit(rows, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(rows, Y)
    buffer = X.tobytes()
    first = np.frombuffer(buffer).reshape(N, D)
    online = model(batch_size=10).partial_fit(first, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(np.frombuffer(buffer).reshape(N, D), Y)


def test_slices_of_one_data_frame_are_known_again() -> None:
    """An epoch loop over slices of a frame: every slice is a new object over the old memory."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    online = model(batch_size=10)
    for start in (0, 100):
        online.partial_fit(frame.iloc[start : start + 100], Y[start : start + 100])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(frame.iloc[:100], Y[:100])
    parts = [(frame.iloc[:100], Y[:100]), (frame.iloc[100:], Y[100:])]
    model(batch_size=10).fit(iter(parts))
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([*parts, (frame.iloc[:50], Y[:50])]))
    columns = np.asfortranarray(X)  # rows lie between each other in memory
    online = model(batch_size=10).partial_fit(columns[:100], Y[:100])
    online.partial_fit(columns[100:], Y[100:])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(columns[99:101], Y[99:101])
    csr = sparse.csr_matrix(X)
    online = model(batch_size=10).partial_fit(csr, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(sparse.csr_matrix(csr), Y)


def test_the_same_file_twice_is_refused_before_the_charge(tmp_path, monkeypatch) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": X[:, 0], "label": Y})
    parquet.write_table(table, tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match="file twice"):
        model(ledger=ledger).fit(["a.parquet", tmp_path / "a.parquet"])
    assert ledger.spent == (0.0, 0.0)
    with pytest.raises(InvalidData, match="file twice"):
        model().fit(iter(["a.parquet", str(tmp_path / "a.parquet")]))
    with pytest.raises(InvalidData, match="handed in before"):
        model().fit(iter([table, table]))


@pytest.mark.parametrize("chunks_before", [0, 1])
def test_an_interrupted_chunk_cannot_be_handed_in_again(monkeypatch, chunks_before):
    """Some of its people may have been in a noisy step already; new people may still come."""
    rng = np.random.default_rng(3)
    chunks = [rng.standard_normal((60, 3)) for _ in range(3)]
    y = np.arange(60) % 2
    ledger = Ledger(1.0)
    model = SGDClassifier(epsilon=1.0, batch_size=10, classes=[0, 1], ledger=ledger, norm_bound=1.0)
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
    model = SGDClassifier(epsilon=1.0, batch_size=10, classes=[0, 1], norm_bound=1.0)
    model.partial_fit(X.copy(), y)
    with pytest.raises(InvalidData):
        model.partial_fit(X, y + 5)  # nobody was in a step
    model.partial_fit(X, y)
