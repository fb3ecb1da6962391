"""Whatever holds a table, one more row changes nobody else's cell and nobody else's group.

A container may convert a column before it is handed in (pandas makes floats of whole numbers at the
first empty cell). Then the outcome for everybody else is the same, or the table is refused before
anything is charged.
"""

import csv
import datetime
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from noisette import LogisticRegression, Persons, PrivateSearch, TableClassifier
from noisette.app.commands.clusters import parts_of
from noisette.core.cells import given as cells_of
from noisette.core.cells import taken
from noisette.core.ledger import Ledger
from noisette.errors import InvalidData
from noisette.scores.layouts import numbers_of
from noisette.tables import Schema, encode
from noisette.tables.frame import Frame
from noisette.tables.pipeline import PrivateCategories
from noisette.tables.pipeline.table_rows import PartedFrame

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
dd = pytest.importorskip("dask.dataframe")

HUGE = 10**17  # beyond 2^53, as are the codes of SNOMED
LEVELS = ["7", "8", "true", "a", "2020-12-31", "2020-12-31 08:30:00", "7.5", "20201231", "2"]
LEVELS += [str(HUGE + k) for k in range(1, 4)]
KINDS: dict[str, dict[str, Any]] = {
    "number": {"kind": "numeric", "low": -5, "high": 2e17, "missing_slot": True},
    "knots": {"kind": "numeric", "knots": [0, 8, 20201231], "missing": [9], "missing_slot": True},
    "date": {"kind": "date", "low": "1990-01-01", "high": "2030-01-01", "missing_slot": True},
    "form": {"kind": "date", "knots": [0, 20_000], "format": "%Y%m%d", "missing_slot": True},
    "level": {"kind": "categorical", "categories": LEVELS, "missing_slot": True},
    "hash": {"kind": "hashed", "buckets": 128, "missing_slot": True},
}
TOP = {"target": "y", "classes": ["n", "y"], "unit": "one row is one person"}
SCHEMAS = {kind: Schema.from_dict(TOP | {"columns": {"x": KINDS[kind]}}) for kind in KINDS}

MOMENT = datetime.datetime(2020, 12, 31, 8, 30)
BASES: dict[str, list[Any]] = {
    "whole": [7, 8, 7, 9], "huge": [HUGE + 1, HUGE + 2, HUGE + 1, HUGE + 3],
    "days": [20201231, 20201230, 20201231, 19991231], "texts": ["a", "b", "a", "20201231"],
    "truth": [True, False, True, True], "points": [7.0, 8.5, 7.0, 9.0],
    "dates": [datetime.date(2020, 12, 31), datetime.date(2001, 1, 1)] * 2,
    "moments": [MOMENT, MOMENT + datetime.timedelta(hours=1)] * 2,
    "lasting": [datetime.timedelta(days=7), datetime.timedelta(days=1, microseconds=1)] * 2,
}  # fmt: skip
ODD = [
    None, float("nan"), True, 5, -1, 10**19, 10**30, "x", "8", "", 7.5, 2.0**60, Decimal(7),
    datetime.date(2020, 12, 31), MOMENT, datetime.timedelta(days=3), b"x", np.float32(2**25),
    np.int16(2), np.datetime64("2020-12-31"), datetime.time(8, 5),
]  # fmt: skip


def masked(cells: list[Any]) -> Any:
    values = [0 if cell is None else cell for cell in cells]
    return np.ma.array(np.array(values), mask=[cell is None for cell in cells])


def typed(kind: Any) -> Callable[[list[Any]], Any]:
    return lambda cells: pd.Series(cells, dtype=kind)


ANY: dict[str, Callable[[list[Any]], Any]] = {
    "list": list, "tuple": tuple, "objects": lambda cells: np.array(cells, dtype=object),
    "pandas": pd.Series, "pandas object": typed(object), "category": typed("category"),
    "sparse": lambda cells: pd.Series(pd.arrays.SparseArray(cells)),
    "polars": pl.Series, "polars categories": lambda c: pl.Series(c, dtype=pl.Categorical),
    "pyarrow": pa.array, "chunks": lambda c: pa.chunked_array([pa.array(c)[:2], pa.array(c)[2:]]),
    "dictionary": lambda cells: pa.array(cells).dictionary_encode(),
}  # fmt: skip
# made from cells of their own type and gaps: pandas would else round before anybody can see it
EXACT: dict[str, Callable[[list[Any]], Any]] = {
    "Int64": typed("Int64"), "int64[pyarrow]": typed("int64[pyarrow]"), "masked": masked,
    "polars ints": lambda cells: pl.Series(cells, dtype=pl.Int64),
    "int64": lambda cells: pa.array(cells, pa.int64()),
    "category of ints": lambda cells: pd.Series(pd.Categorical(
        cells, categories=pd.Index(sorted({c for c in cells if c is not None}), dtype="int64"))),
}  # fmt: skip


def made(container: Callable[[list[Any]], Any], cells: list[Any]) -> Any:
    """Return a column, or None where the container itself refuses such cells."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return container(cells)
    except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
        return None


def table(column: Any) -> Any:
    home = type(column).__module__.partition(".")[0]
    if home == "pandas":
        return pd.DataFrame({"x": column})
    if home == "polars":
        return pl.DataFrame({"x": column})
    return pa.table({"x": column}) if home == "pyarrow" else {"x": column}


def encoded(column: Any, kind: str) -> Any:
    """Return the rows of a table of one column, None where it is refused."""
    try:
        return Frame.of(table(column), SCHEMAS[kind]).encode(cut=False)
    except InvalidData:
        return None


def together(column: Any) -> Any:
    """Return which rows are of one person, None where the identifiers are refused."""
    try:
        index = Persons.of(column, missing="single").index
    except InvalidData:
        return None
    return index[:, None] == index[None, :]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("container", ANY)
def test_one_more_row_changes_nobody_elses_cell(container: str, base: str) -> None:
    build, cells = ANY[container], BASES[base]
    alone = made(build, cells)
    if alone is None:
        pytest.skip("it holds no such cells")
    read = {kind: encoded(alone, kind) for kind in KINDS}
    groups = together(alone)
    assert groups is not None
    assert (groups == [[a == b for b in cells] for a in cells]).all()
    for kind, rows in read.items():
        if rows is not None:  # a type of dates is refused as numbers
            single = [encoded(made(build, [cell]), kind) for cell in cells]
            assert (np.concatenate(single) == rows).all(), kind
    for odd in ODD:
        more = made(build, [*cells, odd])
        if more is None:
            continue
        for kind, rows in read.items():
            found = encoded(more, kind)
            assert found is None or rows is None or (found[: len(cells)] == rows).all(), (kind, odd)
            refused = rows is None or (
                kind not in ("number", "knots") and isinstance(odd, float | np.floating)
            )
            sure = container in ("list", "tuple", "objects", "pandas object")  # as it was handed in
            assert found is not None or refused or not sure, (kind, odd)
        found = together(more)
        assert found is None or (found[: len(groups), : len(groups)] == groups).all(), odd


@pytest.mark.parametrize("base", ["whole", "huge", "days"])
@pytest.mark.parametrize("container", EXACT)
def test_an_empty_cell_beside_whole_numbers_is_never_refused(container: str, base: str) -> None:
    build, cells = EXACT[container], BASES[base]
    wanted = {kind: encoded(list(cells), kind) for kind in KINDS}
    for column, count in ((build(cells), 4), (build([*cells, None]), 5)):
        for kind in KINDS:
            found = encoded(column, kind)
            assert found is not None
            assert len(found) == count
            assert (found[:4] == wanted[kind]).all(), kind
        assert (together(column)[:4, :4] == [[a == b for b in cells] for a in cells]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_one_number_is_one_cell_in_every_type(kind: str) -> None:
    same = [7, 7.0, np.int32(7), np.float16(7), np.float32(7), Decimal("7.0"), "7", "7.0"]
    same += [np.uint64(7)]
    rows = encoded(same, kind)
    assert (rows == rows[0]).all()
    days = [20201231, 20201231.0, np.int32(20201231), "20201231", "20201231.0", b"20201231"]
    if kind not in ("number", "knots"):  # where bytes are no number
        rows = encoded(days, kind)
        assert (rows == rows[0]).all()
    assert (encoded([True, 1], "level")[0] != encoded([True, 1], "level")[1]).any()


@pytest.mark.parametrize(
    "column",
    [
        np.array([2.0**53, 1.0]), np.array([2**24, 1], np.float32), np.array([2**11], np.float16),
        [2.0**53, 1], [np.float32(2**24)], pd.Series([2.0**53, None]), pl.Series([2.0**53, None]),
        pa.array([2.0**24, None], pa.float32()), pd.Series([2.0**24, None], dtype="Float32"),
        pd.Series([2.0**53, 1.0], dtype="category"),
    ],
)  # fmt: skip
def test_a_number_that_may_be_several_is_refused_where_cells_are_compared(column: Any) -> None:
    ledger = Ledger(1.0)
    for kind in ("date", "form", "level", "hash"):
        assert encoded(column, kind) is None
    assert encoded(column, "number") is not None
    with pytest.raises(InvalidData, match="may stand for several whole numbers"):
        Persons.of(column, missing="single")
    model = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger)
    with pytest.raises(InvalidData, match="may stand for several whole numbers"):
        model.fit(np.zeros((len(column), 1)), [0, 1][: len(column)], persons=column)
    assert ledger.count == 0
    below = np.nextafter(2.0**24, 0.0)
    assert Persons.of(np.array([below - 1.0, below], dtype=np.float64)).count == 2
    assert Persons.of(np.array([2.0**24 - 2, 2.0**24 - 1], dtype=np.float32)).count == 2


def test_what_is_below_a_mask_says_nothing() -> None:
    hidden = np.ma.array([7.0, 2.0**60], mask=[False, True])
    assert (encoded(hidden, "level") == encoded([7, None], "level")).all()
    assert Persons.of(hidden, missing="single").count == 2


@pytest.mark.parametrize("container", [*EXACT, "list", "objects", "category"])
def test_three_thousand_persons_and_one_gap(container: str) -> None:
    """One null made 189 persons of them, and one person moved what thousands had a part in."""
    cells = [HUGE + k for k in range(3000)]
    column = (EXACT | ANY)[container]([*cells, None])
    assert Persons.of(column, missing="single").count == 3001


def test_a_gap_beside_as_many_levels_as_their_numbers_hold() -> None:
    cells = pa.array([f"l{k:03}" for k in range(128)])
    places = pa.array([*range(128), None], pa.int8())
    column = pa.DictionaryArray.from_arrays(places, cells)
    assert Frame.of(pa.table({"x": column})).codes("x")[0].tolist() == [*range(128), -1]


def test_the_refusal_comes_before_the_charge_and_names_the_column() -> None:
    ledger = Ledger(1.0, 1e-5)
    codes = pd.Series([*(HUGE + k % 7 for k in range(400)), None])  # by pandas: floats
    model = TableClassifier(1.0, 1e-5, schema={"code": "categorical"}, ledger=ledger)
    with pytest.raises(InvalidData, match="column 'code' holds numbers with a point"):
        model.fit(pd.DataFrame({"code": codes}), np.arange(401) % 2)
    assert ledger.count == 0


@pytest.mark.parametrize("container", ANY)
def test_a_time_is_its_text_in_every_container(container: str) -> None:
    """A time was missing, in silence."""
    column = made(ANY[container], [datetime.time(14, 30), datetime.time(8, 5, 1)] * 2)
    if column is None:
        pytest.skip("it holds no such cells")
    assert (encoded(column, "hash") == encoded(["14:30:00", "08:05:01"] * 2, "hash")).all()


def test_true_is_not_one() -> None:
    assert Persons.of([1, True, np.True_, 1.0]).index.tolist() == [0, 1, 1, 0]


# --- files and partitions -------------------------------------------------------------------------

FILED = {"whole": None, "huge": None, "days": None, "texts": "", "points": None, "dates": None}


@pytest.mark.parametrize("base", FILED)
@pytest.mark.parametrize("odd", [None, "odd"])
def test_files_row_by_row(tmp_path: Any, base: str, odd: Any) -> None:
    cells, n = BASES[base], len(BASES[base])
    for name, kind in (("t.csv", str), ("t.parquet", None)):
        more = odd if odd is None or kind is str else cells[0]
        for key, schema in SCHEMAS.items():
            if base == "dates" and kind is None and key not in ("date", "form"):
                continue  # a type of dates is refused
            found = []
            for rows in (cells, [*cells, more]):
                if kind is str:
                    with (tmp_path / name).open("w", newline="") as file:
                        lines = [["" if row is None else str(row), "n"] for row in rows]
                        csv.writer(file).writerows([["x", "y"], *lines])
                else:
                    parquet.write_table(
                        pa.table({"x": rows, "y": ["n"] * len(rows)}), tmp_path / name
                    )
                found.append(encode(tmp_path / name, schema, target=True).X)
                frame = Frame.read(tmp_path / name, schema, target=True)
                assert (frame.encode() == found[-1]).all()
            assert (found[1][:n] == found[0]).all()


def parted_rows(parts: Any, kind: str) -> Any:
    frame = PartedFrame.of(parts, SCHEMAS[kind], target=False)
    return np.concatenate([part.encode(cut=False) for part in frame.input.parts()])


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask
@pytest.mark.parametrize("kind", ["number", "form", "level"])
@pytest.mark.parametrize("base", ["whole", "huge", "days"])
def test_partitions_of_a_file_and_of_a_table(tmp_path: Any, base: str, kind: str) -> None:
    cells = BASES[base]
    wanted = encoded(cells, kind)
    for place, rows in enumerate((cells[:2], [*cells[2:], None])):
        parquet.write_table(
            pa.table({"x": pa.array(rows, pa.int64())}), tmp_path / f"{place}.parquet"
        )
    read = dd.read_parquet(tmp_path / "*.parquet")
    schema = SCHEMAS[kind]
    ours = parts_of(tmp_path / "*.parquet", schema)
    whole = dd.from_pandas(pd.DataFrame({"x": [*cells, None]}), npartitions=2)
    nullable = dd.from_pandas(pd.DataFrame({"x": pd.array([*cells, None], "Int64")}), npartitions=2)
    assert (parted_rows(ours, kind)[:4] == wanted).all()
    assert (parted_rows(nullable, kind)[:4] == wanted).all()
    for parts in (read, whole):
        if base == "huge" and kind != "number":
            with pytest.raises(InvalidData, match="may stand for several whole numbers"):
                parted_rows(parts, kind)
        else:
            assert (parted_rows(parts, kind)[:4] == wanted).all()


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "category"])
def test_identifiers_in_partitions_stay_whole(kind: str) -> None:
    from noisette.fitting.partitions import parted
    from noisette.fitting.partitions.persons import unit_beside

    ids = pd.Series([*(HUGE + k for k in range(30)), None], dtype="Int64").astype(kind)
    both = dd.from_pandas(pd.DataFrame({"x": 1.0, "who": ids}), npartitions=3, sort=False)
    rows, *_ = parted(both[["x"]])
    assert rows is not None
    assert unit_beside(rows, Persons.of(both["who"], missing="single"), 31).count == 31
    short = both["who"].astype("Float32")
    with pytest.raises(InvalidData, match="may stand for several whole numbers"):
        unit_beside(rows, Persons.of(short % 1000 + 2**24, missing="single"), 31)


# --- matrices of categories, and labels -----------------------------------------------------------


def levels(X: Any) -> list[Any]:
    sample = PrivateCategories()._sample(X, None, None)
    return [[(["", *c.texts])[code + 1] for code in c.codes] for c in sample.data]


def test_a_gap_in_another_column_renames_no_level() -> None:
    code, other = [HUGE + 1, HUGE + 2, HUGE + 1], [1, 2, None]
    wanted = [str(each) for each in code]
    frame = pd.DataFrame({"code": code, "other": other})
    tables = [
        frame,
        pl.DataFrame({"code": code, "other": other}),
        pa.table({"c": code, "o": other}),
    ]
    tables += [list(map(list, zip(code, other, strict=True))), frame.astype(object).to_numpy()]
    tables += [frame.astype("Int64"), frame.convert_dtypes(dtype_backend="pyarrow")]
    for X in tables:
        assert levels(X) == [wanted, ["1", "2", ""]], type(X)
    hidden = np.ma.array([[HUGE + 1, 1], [HUGE + 2, 2]], mask=[[False, False], [False, True]])
    assert levels(hidden) == [wanted[:2], ["1", ""]]


def test_a_two_among_truth_values_renames_none() -> None:
    assert levels([[True], [False], [2]]) == [["true", "false", "2"]]
    assert levels([[True], ["x"], [7.0], [None]]) == [["true", "x", "7", ""]]


def test_a_text_among_labels_counts_nowhere() -> None:
    assert numbers_of((0, 1), [0, 1, 1, "x", None, [2], np.int64(1), np.float32(0)]).tolist() == [
        0, 1, 1, -1, -1, -1, 1, 0,
    ]  # fmt: skip


CODES = [73211009000000101, 73211009000000102]


def _labelled(model: Any, y: Any) -> Any:
    X = np.arange(40.0)[:, None] / 40.0
    if isinstance(model, TableClassifier):
        return model.fit({"a": X[:, 0]}, y)
    return model.fit(X, y)


@pytest.mark.parametrize(
    "make",
    [
        lambda **facts: LogisticRegression(norm_bound=1.0, **facts),
        lambda **facts: TableClassifier(schema={"a": "numeric"}, **facts),
        lambda **facts: PrivateSearch(
            LogisticRegression(norm_bound=1.0, classes=facts.pop("classes")),
            {"regularization": [0.1]}, runs="logarithmic", mean=2.0, **facts,
        ),
    ],
    ids=["linear", "table", "search"],
)  # fmt: skip
def test_a_label_with_a_point_renames_no_other_label(make: Any) -> None:
    """As one array, it makes numbers with a point of all labels, and these two the same one."""
    ledger = Ledger(1.0, 0.0)
    y: list[Any] = [CODES[place % 2] for place in range(40)]
    y[5] = float(CODES[0])
    with pytest.raises(InvalidData, match="may stand for several"):
        _labelled(make(epsilon=1.0, classes=CODES, random_state=0, ledger=ledger), y)
    assert ledger.count == 0


@pytest.mark.parametrize("odd", [[1], 10**400, np.datetime64("2020-01-01"), {}, "x"])
def test_what_is_no_label_and_no_weight_is_refused_in_a_sentence(odd: Any) -> None:
    y: list[Any] = [place % 2 for place in range(40)]
    bad = [*y[:-1], odd]
    with pytest.raises(InvalidData):
        _labelled(TableClassifier(1.0, schema={"a": "numeric"}, classes=[0, 1]), bad)
    with pytest.raises(InvalidData):
        LogisticRegression(norm_bound=1.0, classes=[0, 1]).fit(
            np.ones((40, 1)), y, sample_weight=bad
        )


def test_a_search_hands_on_each_cell_as_it_is() -> None:
    """As one array, a 2 makes 1 of everybody's True, which is no level of such a column."""
    cells = [True, False, 2, None, 10**17 + 1, 0.5, "x", [1]]
    assert taken({"a": cells}, np.array([0, 2, 4])) == {"a": [True, 2, 10**17 + 1]}
    assert type(taken(cells, np.array([0]))[0]) is bool


def test_a_day_that_is_none_to_the_millisecond_is_no_error() -> None:
    days = pa.array([0, 86_400_001], pa.int64()).cast(pa.date64())
    assert list(cells_of(days, "").texts()) == ["1970-01-01", "1970-01-02"]
