"""Parquet files: the same rows as CSV, every type of text, one sentence about damage."""

import numpy as np
import pytest
from people import FACTS, SECRET, rows

from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import template


class TestParquet:
    @pytest.fixture
    def parquet(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        def write(columns, name="t.parquet"):
            parquet.write_table(pa.table(columns), tmp_path / name)
            return tmp_path / name

        return write

    def test_the_same_as_csv(self, parquet, table):
        pa = pytest.importorskip("pyarrow")
        found = rows(
            parquet(
                {
                    "age": pa.array([25, None, 300, 50], pa.int64()),
                    "ward": pa.array(["b", "a", None, "zzz"]).dictionary_encode(),
                    "ill": ["yes", "no", "no", "yes"],
                }
            )
        )
        same = rows(table("age,ward,ill\n25,b,yes\n,a,no\n300,,no\n50,zzz,yes\n"))
        assert (found.X == same.X).all()
        assert (found.y == same.y).all()

    def test_types(self, parquet):
        pa = pytest.importorskip("pyarrow")
        facts = FACTS | {
            "classes": [False, True],
            "unit": "one row is one person",
            "columns": {
                "age": FACTS["columns"]["age"],
                "ward": {"kind": "categorical", "categories": [1, 2], "reference": 1},
            },
        }
        for ages in (
            pa.array([25.0, float("nan")]), pa.array(["25", "x"]), pa.array([25, None], pa.int8()),
            pa.array([25, None], pa.decimal128(5, 1)),
        ):  # fmt: skip
            path = parquet({"age": ages, "ward": [2.0, 1.0], "ill": [True, False]})
            found = rows(path, facts)
            assert (found.X * 10.0).tolist() == pytest.approx(np.array([[-0.5, 1, 0], [0, 0, 0]]))
            assert found.y.tolist() == ["true", "false"]
        dates = parquet({"age": pa.array([0, 1], pa.date32()), "ward": [1, 2], "ill": [True] * 2})
        with pytest.raises(InvalidData, match="'age' has the Parquet type date32"):
            rows(dates, facts)
        with pytest.raises(InvalidParameter, match="--no-header is for CSV"):
            rows(dates, facts, header=False)

    def test_names_with_dots_and_doubled_names(self, parquet, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet as files

        facts = FACTS | {"columns": {"a.b": FACTS["columns"]["age"]}}
        assert rows(parquet({"a.b": [25], "ill": ["no"]}), facts).X[0, 0] * 10.0 == pytest.approx(
            -0.5
        )
        doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
        files.write_table(doubled, tmp_path / "d.parquet")
        with pytest.raises(InvalidData, match="two columns named 'age'"):
            rows(tmp_path / "d.parquet")

    def test_a_damaged_body(self, parquet):
        path = parquet({"age": list(range(5000)), "ward": ["b"] * 5000, "ill": ["no"] * 5000})
        body = bytearray(path.read_bytes())
        body[20:4000] = b"\xff" * 3980
        path.write_bytes(bytes(body))
        with pytest.raises(InvalidData, match="damaged"):
            rows(path)


def test_parquet_without_pyarrow(table, monkeypatch):
    import importlib

    from noisette.errors import MissingExtra

    real = importlib.import_module

    def absent(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"pip install 'noisette\[parquet\]'"):
        rows(table(b"PAR1...."))


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
    parquet.write_table(
        pa.table({"age": [1, 2], "ward": bad, "ill": pa.array(["no", "yes"])}), path
    )
    with pytest.raises(InvalidData, match="is a Parquet file but is damaged") as error:
        rows(path)
    assert SECRET not in str(error.value)


def test_every_kind_of_parquet_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        try:
            x = pa.array(["7,5", None, "2,5"]).cast(kind)
        except pa.ArrowNotImplementedError:  # the oldest pyarrow cannot make views
            assert kind == pa.string_view()
            continue
        parquet.write_table(pa.table({"age": x, "ill": pa.array(["no", "yes", "no"])}), path)
        age = {"kind": "numeric", "low": 0, "high": 10}
        written = {"delimiter": ";", "decimal": ","}
        facts = FACTS | {"file": written, "row_norm": 1.0, "columns": {"age": age}}
        assert rows(path, facts).X.ravel().tolist() == [0.5, 0.0, -0.5]
        assert '[columns.age]\nkind = "categorical"' in template(path)
