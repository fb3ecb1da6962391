"""Files that nobody would write by mistake alone: one sentence, no data, no endless work."""

import gzip
import time

import numpy as np
import pytest

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema, encode, reading
from noisette.tables.cells import TextCells
from noisette.tables.schema import FileFacts

NODE = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "columns": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
}
SECRET = "Smith-4711"


@pytest.mark.parametrize("encoding", ["punycode", "idna", "unicode_escape", "utf-7", "cp500"])
def test_codecs_that_are_not_for_tables_are_refused(encoding):
    with pytest.raises(InvalidParameter, match="encoding must be a name"):
        FileFacts.from_dict({"encoding": encoding})


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", "cp1252", "shift_jis", "gb18030", "koi8-r"]
)
def test_codecs_of_files_are_taken(encoding):
    assert FileFacts.from_dict({"encoding": encoding}).encoding == encoding


def test_a_codec_may_fail_in_any_way_of_unicode(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,ill\na,no\n" + f"{SECRET}-\xff,no\n".encode("latin-1"))
    monkeypatch.setattr("noisette.tables.schema._reads_tables", lambda encoding: True)
    schema = Schema.from_dict(NODE | {"file": {"encoding": "punycode"}})
    with pytest.raises(InvalidData, match="cannot be read as a CSV table in punycode") as error:
        encode(path, schema, target=True)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_texts_in_parquet_that_are_no_text(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    raw = pa.array([b"a", b"\xff\xfe" + SECRET.encode()], pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    if kind == "large_string":
        raw = raw.cast(pa.large_binary())
        bad = pa.Array.from_buffers(pa.large_string(), 2, raw.buffers())
    if kind == "dictionary":
        bad = pa.DictionaryArray.from_arrays(pa.array([0, 1]), bad)
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"x": bad, "ill": pa.array(["no", "yes"])}), path)
    with pytest.raises(InvalidData, match="is a Parquet file but is damaged") as error:
        encode(path, Schema.from_dict(NODE), target=True)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sign", [b",", b"a", b'"",'])
def test_a_line_without_end(tmp_path, monkeypatch, packed, sign):
    """Refused after the longest line that a table may have, whatever is in it."""
    monkeypatch.setattr(reading, "_LONGEST_LINE", 1 << 12)
    path = tmp_path / "t.csv"
    content = b"x,ill\na,no\n" + sign * (1 << 14)
    path.write_bytes(gzip.compress(content) if packed else content)
    seen = []
    monkeypatch.setattr(reading, "_filled", lambda row: seen.append(len(row)) or True)
    with pytest.raises(InvalidData, match="cannot be read as a CSV table"):
        encode(path, Schema.from_dict(NODE), target=True)
    assert max(seen, default=0) <= 2


def test_a_row_for_which_there_is_no_memory(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("x,ill\na,no\n")

    def lines(file):
        yield "x,ill\n"
        raise MemoryError

    monkeypatch.setattr(reading, "_lines", lines)
    with pytest.raises(InvalidData, match="cannot be read as a CSV table"):
        encode(path, Schema.from_dict(NODE), target=True)


def test_the_longest_line_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_LONGEST_LINE", 40)
    path = tmp_path / "t.csv"
    path.write_text("x,ill\n" + "a" * 35 + ",no\n")
    assert len(encode(path, Schema.from_dict(NODE), target=True).X) == 1


def seconds_to_encode(levels):
    """Return the least of three times for a few cells of a column with so many levels."""
    names = [f"level {j}" for j in range(levels)]
    columns = {"x": {"kind": "categorical", "categories": names}}
    column = Schema.from_dict(NODE | {"columns": columns}).columns[0]
    out = np.zeros((3, len(column.features)))
    times = []
    for _ in range(3):
        column.__dict__.pop("_places", None)
        column.__dict__.pop("_slots", None)
        start = time.process_time()
        column.fill(TextCells([names[0], names[-1], "?"]), out)
        times.append(time.process_time() - start)
    assert out[0, 0] == out[1, levels - 1] == out[2, levels] == 1.0
    assert out.sum() == 3.0
    return min(times)


def test_the_time_for_categories_grows_with_their_number():
    """Ten times the levels cost about ten times the time; looking each up in a list, a hundred."""
    assert seconds_to_encode(20_000) < 40.0 * max(seconds_to_encode(2_000), 2e-4)
