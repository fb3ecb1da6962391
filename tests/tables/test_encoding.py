"""Encoding: against hand-made numbers, row by row, and silent about odd cells."""

import gzip
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from people import FACTS, SECRET, rows

from helpers import assert_one_sentence
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.tables import Schema, encode, read_model, read_schema, template
from noisette.tables.cells import TextCells
from noisette.tables.frame import Frame
from noisette.tables.kinds import Categorical, Numeric, View, canonical
from noisette.tables.reading import ROWS


def test_by_hand(table):
    path = table("age,ward,name,ill\n100,a,x,no\n25,b,y,yes\n50,c,z,no\n")
    found = rows(path)
    assert (
        pytest.approx(np.array([[1.0, 0.0, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
        == found.X * 10.0
    )
    assert found.y.tolist() == ["no", "yes", "no"]


def test_a_path_may_be_a_text(table):
    # a text has no `read_bytes`, said Python, in five public functions
    path = str(table("age,ward,name,ill\n100,a,x,no\n25,b,y,yes\n"))
    schema = Schema.from_dict(FACTS)
    assert encode(path, schema, target=True).y.tolist() == ["no", "yes"]
    assert Frame.read(path, schema).encode().shape == (2, 3)
    assert 'target = "ill"' in template(path, "ill")
    for read in (read_schema, read_model):
        with pytest.raises(InvalidParameter, match=r"there is no .* none"):
            read("none")


def test_odd_cells_are_mapped_in_silence(table, recwarn, capsys):
    cells = ["", "abc", "nan", "NaN", "1e999", "-inf", "-5", "9" * 400, " 100 ", "1e2", "None"]
    wanted = [0, 0, 0, 0, 1, -1, -1, 1, 1, 1, 0]
    path = table("age,ward,name,ill\n" + "".join(f"{cell},a,x,no\n" for cell in cells))
    assert (rows(path).X[:, 0] * 10.0).tolist() == pytest.approx(wanted)
    assert not recwarn.list
    assert capsys.readouterr() == ("", "")


def test_long_rows_are_cut_to_length_one(table):
    path = table("age,ward,name,ill\n100,b,x,no\n50,b,x,yes\n")
    X = rows(path, FACTS | {"row_norm": 1.0}).X
    assert np.linalg.norm(X, axis=1) == pytest.approx([1.0, 1.0])
    assert (np.linalg.norm(X, axis=1) <= 1.0).all()
    assert X[0] == pytest.approx(np.array([1.0, 1.0, 0.0]) / 2**0.5)


@pytest.mark.parametrize(
    "text",
    [
        "age,ward,name,ill\r\n25,b,x,yes\r\n\r\n",
        "\ufeffage,ward,name,ill\n25,b,x,yes\n",
        '"age","ward","name","ill"\n"25","b","x, ""y""\nz","yes"\n',
        "ill, ward, age\nyes, b, 25\n\n   \n",
        " age , ward,name,ill\n 25 , b ,x, yes \n",
        'age, "ward", name, ill\n25, "b", x, "yes"\n',
    ],
)
def test_ways_to_write_the_same_row(table, text):
    found = rows(table(text))
    assert (found.X * 10.0).tolist() == [pytest.approx([-0.5, 1.0, 0.0])]
    assert found.y.tolist() == ["yes"]
    zipped = rows(table(gzip.compress(text.encode()), "t.csv.gz"))
    assert (zipped.X == found.X).all()


def test_file_facts(table):
    facts = FACTS | {"file": {"delimiter": ";", "decimal": ",", "encoding": "latin-1"}}
    path = table("age;ward;name;ill\n12,5;b;é;yes\n".encode("latin-1"))
    assert rows(path, facts).X[0, 0] * 10.0 == pytest.approx(-0.75)


def test_without_a_header(table):
    path = table("25,b,x,yes\n")
    assert rows(path, header=False).X[0, 0] * 10.0 == pytest.approx(-0.5)
    named = FACTS | {"file": {"names": ["ill", "name", "ward", "age"]}}
    assert rows(table("yes,x,b,25\n"), named, header=False).y.tolist() == ["yes"]
    bare = encode(table("25,b,x\n"), Schema.from_dict(FACTS), target=False, header=False)
    assert bare.y is None
    assert bare.X[0, 0] * 10.0 == pytest.approx(-0.5)
    with pytest.raises(InvalidData, match="3 cells in its first row"):
        rows(table("25,b,x\n"), header=False)
    with pytest.raises(InvalidData, match="2 cells in its first row"):
        rows(table("25,b\n"), header=False)


FAULTS = [
    (f"age,ward,name,ill\n1,a,{SECRET},no,{SECRET}\n", "does not have the 4 cells"),
    (f"age,ward,name,ill\n1,a,x,{SECRET}\n", "column 'ill' holds a label"),
    ("age,ward,name,ill\n1,a,x,\n", "column 'ill' holds a label"),
    (f'age,ward,name,ill\n1,a,"{SECRET},no\n', "cannot be read as a CSV table"),
    (b"age,ward,name,ill\n1,a,\xff\xfe,no\n", "cannot be read as a CSV table in utf-8"),
    (b"\x1f\x8b\x08\x00broken", "cannot be read as a CSV table"),
    (b"PAR1 and no more", "damaged"),
    (b"\x00\x01\x02\x03", "cannot be read"),
    ("", "is empty"),
    ("\n\n", "is empty"),
    ("age,ward,name,ill\n", "has no rows"),
    ("age,age,ward,name,ill\n1,1,a,x,no\n", "two columns named 'age'"),
    ("age,ward,name,ill,zip\n1,a,x,no,9\n", "column 'zip' of the table is not in the schema"),
    ("ward,name,ill\na,x,no\n", "has no column 'age'"),
    ("age,ward,name\n1,a,x\n", "has no column 'ill'"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_faults_of_the_file_quote_nothing(table, text, words):
    with pytest.raises(NoisetteError) as caught:
        rows(table(text))
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:  # nothing travels along as the cause either
        assert SECRET not in repr(error.args)
        error = error.__context__ if not error.__suppress_context__ else error.__cause__
    assert_one_sentence(caught.value)


def test_faults_of_the_path(tmp_path, table):
    with pytest.raises(InvalidData, match="there is no table"):
        rows(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidData, match="is a folder"):
        rows(tmp_path)
    if os.geteuid():
        path = table("age\n")
        path.chmod(0)
        with pytest.raises(InvalidData, match="cannot be read"):
            rows(path)


def test_each_row_is_encoded_by_itself(table, rng):
    """Encoding a table equals encoding every row alone: odd neighbours change nothing."""
    ages = [str(rng.integers(-20, 130)) for _ in range(40)] + ["", "x", "1e9", "nan"]
    wards = [str(rng.choice(["a", "b", "c", "1.0", ""])) for _ in ages]
    lines = [f"{age},{ward},n,no\n" for age, ward in zip(ages, wards, strict=True)]
    head = "age,ward,name,ill\n"
    whole = rows(table(head + "".join(lines))).X
    alone = np.vstack([rows(table(head + line)).X for line in lines])
    assert (whole == alone).all()


def test_pieces_join_without_a_seam(table):
    n = 2 * ROWS + 3
    ages = np.arange(n) % 101
    path = table("age,ward,name,ill\n" + "".join(f"{age},a,x,no\n" for age in ages))
    assert rows(path).X[:, 0] * 10.0 == pytest.approx(ages / 50.0 - 1.0)


def test_views_and_slots():
    column = Numeric(
        "t", (View(0, 100, 0, 1.0, "log1p"), View(0, 100, 50, 2.0, square=True)),
        missing=(999.0,), missing_slot=True,
    )  # fmt: skip
    out = np.empty((4, 3))
    column.fill(TextCells(["0", "100", "999", ""]), out)
    assert out == pytest.approx(np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]], float))
    assert column.features == ("log1p(t)", "t^2", "t is missing")
    many = Categorical("w", (("g", ("a", "b")), ("h", ("1",))), "h", missing=("?",),
                       missing_slot=True, weight=2.0)  # fmt: skip
    out = np.empty((6, 3))
    many.fill(TextCells(["a", " b", "1.0", "zzz", "?", ""]), out)
    assert out.tolist() == [[2, 0, 0], [2, 0, 0], [0, 0, 0], [0, 2, 0], [0, 0, 2], [0, 0, 2]]
    assert many.features == ("w=g", "w (other)", "w (missing)")
    plain = Categorical("w", (("a", ("a",)), ("b", ("b",))), "a", other=False)
    out = np.empty((3, 1))
    plain.fill(TextCells(["a", "b", "c"]), out)
    assert out.tolist() == [[0], [1], [0]]


@given(
    st.floats(-1e300, 1e300), st.floats(1e-9, 1e300), st.floats(0, 1), st.floats(),
    st.sampled_from(["linear", "signed-log1p"]), st.booleans(),
)  # fmt: skip
def test_every_number_stays_in_its_span(low, width, place, t, curve, square):
    high = low + width
    if not low < high or not np.isfinite(high - low):
        return
    center = min(max(low + place * (high - low), low), high)
    view = View(low, high, center, 2.0, curve, square)
    with np.errstate(over="ignore"):
        value = view(np.array([t]))[0]
        first, last = view.span
    assert np.isfinite(value)
    slack = 1e-9 * (1.0 + max(abs(first), abs(last)))
    assert min(first, 0.0) - slack <= value <= max(last, 0.0) + slack


@pytest.mark.parametrize(
    ("cell", "same"),
    [("1.0", "1"), (" 1 ", "1"), ("1.", "1"), ("True", "true"), ("FALSE", "false"),
     ("1.05", "1.05"), ("10.0", "10"), ("v1.0", "v1.0"), (True, "true"), (3, "3"), (2.0, "2")],
)  # fmt: skip
def test_canonical_text(cell, same):
    assert canonical(cell) == same


def test_no_count_of_rows_in_the_repr(table):
    assert "1" not in repr(rows(table("age,ward,name,ill\n25,b,x,yes\n")))


def test_adult_is_encoded_as_in_the_benchmark():
    """The example schema gives the very features of `benchmarks.real`, in another order."""
    if "NOISETTE_DATA" not in os.environ:
        pytest.skip("NOISETTE_DATA is not set: Adult is not here")
    from benchmarks import real as datasets
    from noisette.tables import read_schema

    home = Path(os.environ["NOISETTE_DATA"]) / "adult" / "adult.data.gz"
    if not home.exists():
        pytest.skip("NOISETTE_DATA has no adult/adult.data.gz")
    schema = read_schema(Path(__file__).parents[2] / "examples" / "adult.toml")
    found = encode(home, schema, target=True, header=False)
    data = datasets.load("adult", split="published")
    assert found.X.shape == data.X.shape
    assert (found.y == np.array(data.class_names)[data.y]).all()
    one, two = (np.sort(X, axis=1) for X in (found.X, data.X))
    assert np.abs(one - two).max() < 1e-12
    assert np.abs(np.sort(found.X.sum(axis=0)) - np.sort(data.X.sum(axis=0))).max() < 1e-6


def seconds_to_encode(levels):
    """Return the least of three times for a few cells of a column with so many levels."""
    names = [f"level {j}" for j in range(levels)]
    columns = {"x": {"kind": "categorical", "categories": names}}
    column = Schema.from_dict(FACTS | {"columns": columns}).columns[0]
    out = np.zeros((3, len(column.features)))
    times = []
    for _ in range(3):
        column.__dict__.pop("_known", None)
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


@pytest.mark.parametrize("row_norm", [1e-6, 1e12])
@pytest.mark.parametrize("width", [1e-6, 1e6])
@pytest.mark.parametrize("square", [True, False])
def test_within_the_limits_no_cell_can_stop_a_run(table, row_norm, width, square):
    """Whether a run stops must not depend on a row: every cell gives a row of norm at most 1."""
    age = {"kind": "numeric", "low": 0, "high": 10, "center": 0, "width": width, "square": square}
    path = table("age,ill\n" + "".join(f"{cell},no\n" for cell in ("", "10", "-inf", "1e308")))
    X = rows(path, FACTS | {"row_norm": row_norm, "columns": {"age": age}}).X
    assert np.linalg.norm(X, axis=1).max() <= 1.0
