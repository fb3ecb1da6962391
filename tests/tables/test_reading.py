"""Reading CSV files: what cannot be read is one sentence, no data, no endless work."""

import gzip

import pytest

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema, encode, reading

NODE = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "columns": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
}
SECRET = "Smith-4711"


def test_a_codec_may_fail_in_any_way_of_unicode(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,ill\na,no\n" + f"{SECRET}-\xff,no\n".encode("latin-1"))
    monkeypatch.setattr("noisette.tables.file_facts._reads_tables", lambda encoding: True)
    schema = Schema.from_dict(NODE | {"file": {"encoding": "punycode"}})
    with pytest.raises(InvalidData, match="cannot be read as a CSV table in punycode") as error:
        encode(path, schema, target=True)
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

    def endless(lines):
        if lines.ahead:
            raise MemoryError
        lines.ahead = ["seen"]
        return "x,ill\n"

    monkeypatch.setattr(reading, "_has_arrow", lambda: False)
    monkeypatch.setattr(reading.CsvLines, "__next__", endless)
    with pytest.raises(InvalidData, match="cannot be read as a CSV table"):
        encode(path, Schema.from_dict(NODE), target=True)


def test_the_longest_line_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_LONGEST_LINE", 40)
    path = tmp_path / "t.csv"
    path.write_text("x,ill\n" + "a" * 35 + ",no\n")
    assert len(encode(path, Schema.from_dict(NODE), target=True).X) == 1


def test_a_header_is_no_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,ill\na,no\n")
    with pytest.raises(InvalidData, match="leave out --no-header"):
        encode(path, Schema.from_dict(NODE), target=True, header=False)


def test_a_trailing_separator_is_explained(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,ill,\na,no,\n")
    with pytest.raises(InvalidParameter, match="a column without a name"):
        encode(path, Schema.from_dict(NODE), target=True)
    path.write_text("x,ill,,\na,no,,\n")
    with pytest.raises(InvalidData, match="two columns without a name"):
        encode(path, Schema.from_dict(NODE), target=True)
