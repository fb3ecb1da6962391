"""Tables in memory: the same cells from every kind of table, and silence about them."""

import datetime
import decimal
import subprocess
import sys

import numpy as np
import pytest

from helpers import assert_one_sentence
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema
from noisette.tables.frame import Frame

SECRET = "Smith-4711"
SCHEMA = Schema.from_dict(
    {
        "target": "ill",
        "classes": {"no": ["no", "0"], "yes": ["yes", "1"]},
        "unit": "one row is one person",
        "missing": ["NA"],
        "columns": {
            "age": {"kind": "numeric", "missing": [999]},
            "born": {"kind": "date"},
            "ward": {"kind": "categorical"},
            "flag": {"kind": "categorical", "categories": [True, False]},
        },
    },
    learn=True,
)
DAY = datetime.date(1970, 1, 2)
ROWS = {
    "age": [25.0, None, 999.0, 50.0],
    "born": [DAY, None, DAY, datetime.date(1970, 1, 3)],
    "ward": ["b", None, " a ", "NA"],
    "flag": [True, False, None, True],
    "ill": ["no", "yes", "1", "0"],
}


def pandas_table():
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    frame["ward"] = frame["ward"].astype("category")
    return frame


def pandas_nullable():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS).convert_dtypes()
    frame["age"] = pd.array([25, None, 999, 50], "Int64")
    frame["born"] = pd.to_datetime(frame["born"])
    return frame


def polars_table():
    pl = pytest.importorskip("polars")
    return pl.DataFrame(ROWS).with_columns(pl.col("ward").cast(pl.Categorical))


def pyarrow_table():
    pa = pytest.importorskip("pyarrow")
    table = pa.table(ROWS | {"ward": pa.array(ROWS["ward"]).dictionary_encode()})
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


def pyarrow_moments():
    pa = pytest.importorskip("pyarrow")
    born = pa.array([None if day is None else datetime.datetime.combine(day, datetime.time())
                     for day in ROWS["born"]], pa.timestamp("ns", "Europe/Berlin"))  # fmt: skip
    return pa.table(ROWS | {"born": born})


def arrays():
    table = {name: np.array(values, dtype=object) for name, values in ROWS.items()}
    table["age"] = np.array([25, np.nan, 999, 50], dtype=np.float32)
    table["born"] = np.array(["1970-01-02", "NaT", "1970-01-02", "1970-01-03"], "datetime64[ns]")
    return table


KINDS = [pandas_table, pandas_nullable, polars_table, pyarrow_table, pyarrow_moments, arrays,
         lambda: ROWS]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_has_the_same_cells(kind):
    frame = Frame.of(kind(), SCHEMA, target=True)
    assert tuple(frame.columns) == tuple(ROWS)
    assert frame.rows == 4
    assert frame.numbers("age") == pytest.approx([25, np.nan, np.nan, 50], nan_ok=True)
    assert frame.numbers("born") == pytest.approx([1, np.nan, 1, 2], nan_ok=True)
    codes, texts = frame.codes("ward")
    assert (codes.tolist(), texts) == ([1, -1, 0, -1], ["a", "b"])
    codes, texts = frame.codes("flag")
    assert (codes.tolist(), texts) == ([1, 0, -1, 1], ["false", "true"])
    assert frame.labels().tolist() == ["no", "yes", "yes", "no"]
    full = SCHEMA.completed({"age": {"low": 0, "high": 100}, "born": {"knots": [0, 2]},
                             "ward": {"categories": ["a"]}})  # fmt: skip
    X = Frame.of(kind(), full).encode(cut=False)
    assert pytest.approx(
        np.array([[-0.5, 0.5, 0.5, 0, 1, 1, 0, 0], [0, 0, 1, 0, 1, 0, 1, 0],
                  [0, 0.5, 0.5, 1, 0, 0, 0, 1], [0, 0, 1, 0, 1, 1, 0, 0]])
    ) == X  # fmt: skip


def test_a_level_that_no_row_holds_does_not_occur():
    pd = pytest.importorskip("pandas")
    column = pd.Categorical(["a", "b"], categories=["a", "b", SECRET])
    codes, texts = Frame.of(pd.DataFrame({"x": column})).codes("x")
    assert (codes.tolist(), texts) == ([0, 1], ["a", "b"])
    assert Frame.of({"x": ["b", "a"]}).codes("x")[1] == ["a", "b"]  # in no order of the rows


def test_odd_values_are_missing_in_silence(recwarn, capsys):
    odd = [
        [1], {"a": 1}, object(), 1j, b"7", decimal.Decimal("sNaN"), 10**400, -(10**400),
        float("inf"), np.float32(7), np.True_, "7", "x", "", None, datetime.date(1970, 1, 1),
    ]  # fmt: skip
    frame = Frame.of({"x": odd})
    inf, nan = np.inf, np.nan
    wanted = [nan] * 4 + [7, nan, inf, -inf, inf, 7, 1, 7, nan, nan, nan, nan]
    assert frame.numbers("x") == pytest.approx(wanted, nan_ok=True)
    codes, texts = frame.codes("x")
    assert codes.tolist()[:4] == [-1] * 4
    assert texts[-3:] == ["inf", "true", "x"]
    assert not recwarn.list
    assert capsys.readouterr() == ("", "")


def test_decimal_commas_and_thousands():
    node = dict(SCHEMA.source)
    node["file"] = {"delimiter": ";", "decimal": ",", "thousands": "."}
    schema = Schema.from_dict(node, learn=True)
    cells = [
        "1,5", "1.000", "1.234.567,5", "-1.000", "12.34.567", "1.5", "1..000", ".100", "--1.000",
        "1.000,5.0", " 1.000 ", "1000", 2.5,
    ]  # fmt: skip
    n = len(cells)
    table = {"age": cells, "born": [""] * n, "ward": [""] * n, "flag": [""] * n}
    nan = np.nan
    wanted = [1.5, 1000, 1234567.5, -1000, 1234567, nan, nan, nan, nan, nan, 1000, 1000, 2.5]
    assert Frame.of(table, schema).numbers("age") == pytest.approx(wanted, nan_ok=True)


def test_codes_for_missing_dates():
    node = dict(SCHEMA.source)
    node["columns"] = node["columns"] | {
        "born": {"kind": "date", "format": ["%d/%m/%Y", "%Y"], "missing": ["1/1/1900"]}
    }
    schema = Schema.from_dict(node, learn=True)
    table = {name: ["x"] * 4 for name in ROWS} | {"born": ["2/1/1970", "1/1/1900", "1970", "NA"]}
    found = Frame.of(table, schema).numbers("born")
    assert found == pytest.approx([1, np.nan, 0, np.nan], nan_ok=True)


def doubled():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame([[1, SECRET]], columns=["x", "x"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (doubled, "two columns named 'x'"),
        (lambda: {1: [1], "1": [SECRET]}, "two columns named '1'"),
        (lambda: {}, "has no columns"),
        (lambda: {"x": [1, 2], "y": [SECRET]}, "of one length"),
        (lambda: {"x": SECRET}, "must be a list or an array"),
        (lambda: {"x": 3}, "must be a list or an array"),
        (lambda: {"x": np.array([[SECRET]])}, "of one dimension"),
        (lambda: np.array([[SECRET]]), "got an object of type ndarray"),
        (lambda: [[SECRET]], "got an object of type list"),
        (lambda: SECRET, "got an object of type str"),
        (lambda: None, "got an object of type NoneType"),
        (lambda: pytest.importorskip("polars").LazyFrame(ROWS), "got an object of type LazyFrame"),
        (lambda: pytest.importorskip("pandas").Series([SECRET]), "got an object of type Series"),
    ],
)
def test_what_is_no_table(table, words):
    with pytest.raises(InvalidData, match=words) as error:
        Frame.of(table())
    assert SECRET not in str(error.value)
    assert_one_sentence(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": None}, "has no column 'age'"),
        ({"ill": None}, "has no column 'ill'"),
        ({"zip": [SECRET] * 4}, "column 'zip' of the table is not in the schema"),
        ({"ill": ["no", "yes", SECRET, "no"]}, "column 'ill' holds a label"),
        ({"ill": ["no", "yes", None, "no"]}, "column 'ill' holds a label"),
        ({"age": np.array(["1970-01-01"] * 4, "datetime64[D]")}, "'age' holds dates by its type"),
    ],
)
def test_a_table_that_does_not_fit_the_schema(change, words):
    table = {name: column for name, column in (ROWS | change).items() if column is not None}
    with pytest.raises((InvalidData, InvalidParameter), match=words) as error:
        Frame.of(table, SCHEMA, target=True).labels()
    assert SECRET not in str(error.value)
    assert_one_sentence(error.value)


def test_names_of_another_table():
    with pytest.raises(InvalidData, match="none of the columns of the schema") as error:
        Frame.of({SECRET: [1]}, SCHEMA)
    assert SECRET not in str(error.value)


def test_columns_with_nothing_in_them():
    frame = Frame.of({"age": [None] * 3, "born": [""] * 3, "ward": [None] * 3, "flag": ["x"] * 3},
                     SCHEMA)  # fmt: skip
    assert np.isnan(frame.numbers("age")).all()
    assert np.isnan(frame.numbers("born")).all()
    codes, texts = frame.codes("ward")
    assert (codes.tolist(), texts) == ([-1, -1, -1], [])


def test_it_says_nothing_about_its_cells():
    frame = Frame.of({"x": [SECRET, "b"]})
    assert repr(frame) == str(frame) == "<Frame>"
    with pytest.raises(InvalidParameter, match="no column 'z'") as error:
        frame.numbers("z")
    assert SECRET not in str(error.value)


def test_a_frame_of_parquet_with_dates(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    for table in (pyarrow_table(), pyarrow_moments()):
        parquet.write_table(table, path)
        frame = Frame.read(path, SCHEMA, target=True)
        assert frame.numbers("born") == pytest.approx([1, np.nan, 1, 2], nan_ok=True)
        assert frame.codes("ward")[1] == ["a", "b"]
    born = pa.array([2**62, None, 0, 0], pa.timestamp("us"))  # beyond the calendar
    parquet.write_table(pa.table(ROWS | {"born": born}), path)
    found = Frame.read(path, SCHEMA, target=True).numbers("born")
    assert found == pytest.approx([np.nan, np.nan, 0, 0], nan_ok=True)


def test_it_needs_neither_pandas_nor_polars_nor_pyarrow():
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "from noisette.tables.frame import Frame\n"
        "print(Frame.of({'x': ['1', 2, None]}).numbers('x').tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.0, 2.0, nan]"


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow", "lists"])
def test_durations_are_numbers_of_days(library):
    spans = [datetime.timedelta(days=1), None, datetime.timedelta(hours=36)]
    column = spans
    if library == "numpy":
        column = np.array(spans, dtype="timedelta64[ms]")
    if library == "pandas":
        column = pytest.importorskip("pandas").Series(spans, dtype="timedelta64[ns]")
    table = {"stay": column}
    if library == "polars":
        table = pytest.importorskip("polars").DataFrame(table)
    if library == "pyarrow":
        table = pytest.importorskip("pyarrow").table(table)
    frame = Frame.of(table, Schema.from_dict(OPEN, learn=True))
    assert np.array_equal(frame.numbers("stay"), [1.0, np.nan, 1.5], equal_nan=True)


OPEN = {
    "target": "ill", "classes": ["no", "yes"], "unit": "one row is one person",
    "columns": {"stay": {"kind": "numeric"}},
}  # fmt: skip


def test_intervals_and_periods_of_pandas_are_categories():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({
        "age": pd.cut([20, 40, np.nan], [0, 30, 60]),
        "month": pd.period_range("2020-01", periods=3, freq="M"),
    })  # fmt: skip
    frame = Frame.of(table)
    assert frame.codes("age")[0].tolist() == [0, 1, -1]
    assert frame.codes("month")[1] == ["2020-01", "2020-02", "2020-03"]
