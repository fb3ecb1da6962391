"""The schema file: every fault is one sentence that names the column; nothing is guessed."""

import copy
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_one_sentence
from noisette.errors import InvalidParameter
from noisette.tables import Schema, read_schema, toml
from noisette.tables.schema import FileFacts

GOOD = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 110},
        "ward": {"kind": "categorical", "categories": ["a", "b"]},
        "name": {"kind": "ignore"},
    },
}


def changed(path, value):
    node = copy.deepcopy(GOOD)
    *front, last = path
    inner = node
    for key in front:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return node


def test_a_good_schema():
    schema = Schema.from_dict(GOOD)
    assert schema.features == ("age", "ward=a", "ward=b", "ward (other)")
    assert schema.classes == ("no", "yes")
    assert schema.names == ("age", "ward", "name", "ill")
    assert schema.unit == "one row is one person"
    assert schema.row_norm == pytest.approx((4 / 12 + 1) ** 0.5)


AGE, WARD = ("columns", "age"), ("columns", "ward")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("target",), None, "the target column is missing"),
        (("target",), "?", "the target column is missing"),
        (("target",), 3, "target must be the name"),
        (("target",), "age", "'age' must not stand under columns"),
        (("classes",), None, "the classes are missing"),
        (("classes",), [], "classes must not be empty"),
        (("classes",), ["no"], "at least two labels"),
        (("classes",), ["?"], "classes is still to be filled in"),
        (("classes",), ["no", "no"], "classes lists a value twice"),
        (("classes",), ["1", 1.0], "classes lists a value twice"),
        (("classes",), {"no": ["n"], "yes": ["n"]}, "lists the value 'n' in two groups"),
        (("classes",), "no", "classes must be a list"),
        (("columns",), {}, "the schema has no columns"),
        (("columns",), {"x": {"kind": "ignore"}}, "no column to learn from"),
        (("colums",), {}, "unknown key 'colums'"),
        (("unit",), "", "unit must say"),
        (("unit",), None, "unit is still to be filled in"),
        (("unit",), "?", "unit is still to be filled in"),
        (("row_norm",), 0, "row_norm must be a positive"),
        (("row_norm",), float("inf"), "row_norm must be a positive"),
        (("row_norm",), 1e-200, "row_norm must lie between"),  # could overflow in a row
        (("row_norm",), 1e300, "row_norm must lie between"),
        ((*AGE, "kind"), None, "column 'age': kind is still to be filled in"),
        ((*AGE, "kind"), "?", "column 'age': kind is still to be filled in"),
        ((*AGE, "kind"), "number", "column 'age': kind is 'number'"),
        ((*AGE, "low"), None, "column 'age': low is missing"),
        ((*AGE, "high"), None, "column 'age': high is missing"),
        ((*AGE, "high"), "?", "column 'age': high is still to be filled in"),
        ((*AGE, "high"), "110", "column 'age': high must be a number"),
        ((*AGE, "high"), True, "column 'age': high must be a number"),
        ((*AGE, "high"), 0, "column 'age': low must be below high"),
        ((*AGE, "high"), float("nan"), "column 'age': high must be a finite"),
        ((*AGE, "high"), 10**400, "column 'age': high must be a finite"),
        ((*AGE, "center"), 111, "column 'age': center must lie between"),
        ((*AGE, "width"), 0, "column 'age': width must lie between"),
        ((*AGE, "width"), 1e-300, "column 'age': width must lie between"),
        ((*AGE, "curve"), "exp", "column 'age': curve must be one of"),
        ((*AGE, "curve"), [], "column 'age': curve must be one of"),
        ((*AGE, "curve"), {}, "column 'age': curve must be one of"),
        ((*AGE, "square"), 1, "column 'age': square must be true or false"),
        ((*AGE, "lower"), 1, "column 'age' has an unknown key 'lower'"),
        ((*AGE, "also"), {}, "column 'age': also must be a list"),
        ((*AGE, "also"), [{}], "column 'age': also repeats a feature"),
        ((*AGE, "also"), [{"hihg": 3}], "column 'age': also has an unknown key"),
        ((*AGE, "missing"), 999, "column 'age': missing must be a list"),
        (AGE, 3, "column 'age' must be a table"),
        ((*WARD, "categories"), None, "column 'ward': write categories"),
        ((*WARD, "categories"), [], "column 'ward': categories must not be empty"),
        ((*WARD, "categories"), ["?"], "column 'ward': categories is still to be filled in"),
        ((*WARD, "categories"), ["a", "a"], "column 'ward': categories lists a value twice"),
        ((*WARD, "categories"), [["a"]], "column 'ward': categories must be a list"),
        ((*WARD, "groups"), {"x": ["a"]}, "or groups, not both"),
        ((*WARD, "reference"), "z", "column 'ward': reference 'z' is not among"),
        ((*WARD, "other"), False, "column 'ward': other = false"),
        ((*WARD, "weight"), -1, "column 'ward': weight must lie between"),
        ((*WARD, "low"), 1, "column 'ward' has an unknown key 'low'"),
        (AGE, {"kind": "numeric", "knots": [1, 2]}, None),
        (AGE, {"kind": "numeric", "knots": []}, "column 'age': knots must be a list"),
        (AGE, {"kind": "numeric", "knots": [2, 1]}, "column 'age': knots must be increasing"),
        (AGE, {"kind": "numeric", "knots": ["1"]}, "column 'age': knots must be a number"),
        (AGE, {"kind": "numeric", "knots": [1, 2], "low": 0}, "'age', which has knots, has an"),
        (AGE, {"kind": "date", "low": "1.2.1999", "high": "2020-01-01", "format": "%Y"}, None),
        (AGE, {"kind": "date", "low": "1/2/99", "high": 9}, "'age': low must be a date such as"),
        (AGE, {"kind": "date", "low": "2020-01-01", "high": "1999-01-01"}, "low must be below"),
        (AGE, {"kind": "date", "low": 0, "high": 9, "format": "%y"}, "'age': format is made of"),
        (AGE, {"kind": "date", "low": 0, "high": 9, "format": "%d.%Y"}, "'age': format needs %Y"),
        (AGE, {"kind": "date", "low": 0, "high": 9, "format": 3}, "'age': format must be a text"),
        (AGE, {"kind": "hashed"}, None),
        (AGE, {"kind": "hashed", "buckets": 1}, "column 'age': buckets must be a whole number"),
        (AGE, {"kind": "hashed", "buckets": 2.5}, "column 'age': buckets must be a whole number"),
        (AGE, {"kind": "hashed", "categories": []}, "column 'age' has an unknown key"),
        (WARD, {"kind": "categorical", "groups": {"1-5": "a", "V*": "b", "x": "a"}}, None),
        (WARD, {"kind": "categorical", "groups": {"1-5": "a", "4-9": "b"}}, "'1-5' and '4-9' over"),
        (WARD, {"kind": "categorical", "groups": {"x": "a", " x": "b"}}, "lists a code twice"),
        (WARD, {"kind": "categorical", "groups": {"x": "a", "y": ["b"]}}, "must be a list"),
        (("file",), {"thousands": "."}, "thousands must be a comma"),
        (("file",), {"thousands": "x"}, "thousands must be a comma"),
        (("file",), {"thousands": ","}, None),
        (("learn",), {"share": 2}, "share of [learn] must be a number"),
        (("learn",), 3, "[learn] must be a table"),
        (("file",), {"delimiter": ",,"}, "delimiter must be one character"),
        (("file",), {"decimal": ",", "delimiter": ","}, "decimal must be"),
        (("file",), {"encoding": "klingon"}, "encoding must be a name"),
        (("file",), {"encoding": 8}, "encoding must be a name"),
        (("file",), {"encoding": "base64"}, "encoding must be a name"),
        (("file",), {"names": ["age"]}, "names of [file] lacks the column 'ward'"),
        (("file",), {"names": ["age", "age"]}, "names of [file] lists a value twice"),
        (("file",), [], "[file] must be a table"),
    ],
)
def test_faults_are_named(path, value, words):
    node = changed(path, value)
    if words is None:  # beside its faults, a form that is allowed
        assert Schema.from_dict(node).columns
        return
    with pytest.raises(InvalidParameter) as caught:
        Schema.from_dict(node)
    assert words in str(caught.value)
    assert_one_sentence(caught.value)


@pytest.mark.parametrize(
    ("path", "value"), [((*AGE, "low"), -1.7e308), (("file",), {"decimal": "."})]
)
def test_what_looks_odd_but_is_none(path, value):
    Schema.from_dict(changed(path, value))


def test_log_needs_bounds_that_have_one():
    node = changed((*AGE, "low"), -1)
    node["columns"]["age"]["curve"] = "log1p"
    with pytest.raises(InvalidParameter, match="log1p needs low >= 0"):
        Schema.from_dict(node)
    node["columns"]["age"]["curve"] = "signed-log1p"
    Schema.from_dict(node)
    close = {"kind": "numeric", "low": 1e16, "high": 1e16 + 2, "curve": "log1p"}
    with pytest.raises(InvalidParameter, match="'age': low and high are too"):
        Schema.from_dict(changed(AGE, close))


def test_target_of_the_command_line():
    node = changed(("target",), None)
    assert Schema.from_dict(node, "ill").target == "ill"
    assert Schema.from_dict(GOOD, "ill").target == "ill"
    with pytest.raises(InvalidParameter, match="make them agree"):
        Schema.from_dict(GOOD, "well")


def test_the_fingerprint_sees_every_fact_but_no_comment(tmp_path):
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(toml.dumps(GOOD))
    second.write_text("# a comment\n" + toml.dumps(GOOD))
    assert read_schema(first).fingerprint == read_schema(second).fingerprint
    seen = {read_schema(first).fingerprint}
    for path, value in [
        ((*AGE, "high"), 111), ((*AGE, "center"), 40), ((*WARD, "categories"), ["a", "c"]),
        (("classes",), ["no", "maybe"]), (("row_norm",), 3.0), (("unit",), "a visit"),
    ]:  # fmt: skip
        seen.add(Schema.from_dict(changed(path, value)).fingerprint)
    assert len(seen) == 7


def test_files_that_are_no_schema(tmp_path):
    path = tmp_path / "s.toml"
    with pytest.raises(InvalidParameter, match="there is no schema file"):
        read_schema(path)
    with pytest.raises(InvalidParameter, match="is a folder"):
        read_schema(tmp_path)
    for content, words in [
        (b"a = ", "is not valid TOML"), (b"\xff\xfe", "in UTF-8"), (b"a" * (1 << 25), "too large"),
        (b"[columns.a]\n[columns.a]\n", "is not valid TOML"),
    ]:  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(InvalidParameter, match=words) as caught:
            read_schema(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"\xef\xbb\xbf" + toml.dumps(GOOD).encode())
    assert read_schema(path).target == "ill"


texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.one_of(
    texts, st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False),
    st.lists(texts, max_size=3), st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
)  # fmt: skip


@given(
    st.dictionaries(texts.filter(lambda k: k not in ("columns", "file")), values, max_size=4),
    st.dictionaries(texts, st.dictionaries(texts, values, max_size=3), max_size=3),
)
def test_what_is_written_is_read_back(top, columns):
    node = {**top, "columns": columns} if columns else top
    assert tomllib.loads(toml.dumps(node)) == node


def test_codecs_of_files_are_taken_and_no_others():
    for encoding in ("utf-8", "latin-1", "cp1252", "shift_jis", "gb18030", "koi8-r"):
        assert FileFacts.from_dict({"encoding": encoding}).encoding == encoding
    for encoding in ("punycode", "idna", "unicode_escape", "utf-7", "cp500"):
        with pytest.raises(InvalidParameter, match="encoding must be a name"):
            FileFacts.from_dict({"encoding": encoding})
