"""Schemas with facts left open, and how released facts complete them."""

import copy
import tomllib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_one_sentence
from noisette.errors import InvalidParameter
from noisette.tables import Schema, encode, read_schema, toml
from noisette.tables.frame import Frame
from noisette.tables.pipeline.table_page import facts_of

NODE = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "missing": ["?"],
    "learn": {"share": 0.2},
    "columns": {
        "age": {"kind": "numeric"},
        "stay": {"kind": "numeric", "low": 0, "high": "?", "missing_slot": True},
        "born": {"kind": "date", "low": "?", "high": "2030-01-01"},
        "ward": {"kind": "categorical", "missing_slot": True, "weight": 2.0},
        "job": {"kind": "categorical", "categories": ["?"], "missing": ["?"]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
        "name": {"kind": "ignore"},
    },
}
FACTS = {
    "age": {"knots": [20.0, 40.0, 80.0], "center": 38.0},
    "stay": {"high": 30.0},
    "born": {"low": -10_000.0},
    "ward": {"categories": ["a", "b"], "reference": "b"},
    "job": {"categories": ["x"]},
}


def opened(**changes):
    node = copy.deepcopy(NODE)
    for name, facts in changes.items():
        node["columns"][name] = facts
    return Schema.from_dict(node, learn=True)


def test_what_is_open():
    schema = opened()
    assert [column.name for column in schema.open] == ["age", "stay", "born", "ward", "job"]
    assert schema.share == 0.2
    age, stay, born, ward, job = schema.open
    assert (age.kind, age.low, age.high) == ("numeric", None, None)
    assert (stay.low, stay.high, stay.missing_slot) == (0.0, None, True)
    assert (born.kind, born.low, born.high) == ("date", None, 21915.0)
    assert (ward.kind, ward.missing_slot) == ("categorical", True)
    assert job.missing == ("?",)
    assert ("age", "numeric", "facts still to be learnt") in facts_of(schema)


def test_completed():
    full = opened().completed(FACTS)
    assert full.open == ()
    assert full.learnt == ("age", "stay", "born", "ward", "job")
    assert full.features == (
        "age ~ 20", "age ~ 40", "age ~ 80", "stay", "stay is missing", "born", "ward=a",
        "ward (other)", "ward (missing)", "job=x", "job (other)", "sex=f", "sex=m", "sex (other)",
    )  # fmt: skip
    assert "learn" not in full.source
    assert full.source["columns"]["job"]["missing"] == ["?"]  # a code, not an open fact
    assert "facts of 5 columns were released privately" in full.public[0]
    told = {name: text for name, _, text in facts_of(full)}
    assert told["age"] == "knots 20, 40, 80; centre 38; with facts that were released privately"
    assert told["born"] == "1942-08-16 to 2030-01-01; with facts that were released privately"
    assert "privately" not in told["sex"]
    assert opened().completed(FACTS, row_norm=3.0).row_norm == 3.0


def test_a_completed_schema_is_an_ordinary_one(tmp_path):
    full = opened().completed(FACTS)
    path = tmp_path / "s.toml"
    path.write_text(toml.dumps(full.source))
    assert read_schema(path) == full
    assert read_schema(path, learn=True) == full


def test_more_may_be_learnt_about_a_complete_column():
    """Knots take the place of public bounds; a reference is added to public categories."""
    more = FACTS | {"sex": {"reference": "m"}}
    full = opened(age={"kind": "numeric", "low": 0, "high": 120, "curve": "log1p"}).completed(more)
    assert full.source["columns"]["age"] == {
        "kind": "numeric", "knots": [20.0, 40.0, 80.0], "center": 38.0,
    }  # fmt: skip
    assert "sex=m" not in full.features
    centred = opened(age={"kind": "numeric", "low": 0, "high": 120}).completed(
        FACTS | {"age": {"center": 150.0}}
    )
    assert centred.columns[0].views[0].center == 120.0  # noise may carry a mean out of bounds


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({"age": {"knots": [3.0, 3.0]}}, "ignore"),
        ({"age": {"knots": []}}, "ignore"),
        ({"age": {"low": 5.0, "high": 5.0}}, "ignore"),
        ({"age": {"low": 5.0, "high": 4.0}}, "ignore"),
        ({"job": {"categories": []}}, "ignore"),
        ({"stay": {"high": 0.0}}, ("stay is missing",)),
        ({"stay": {"knots": [1.0]}}, ("stay is missing",)),
        ({"ward": {"categories": [], "reference": None}}, ("ward (missing)",)),
        ({"job": {"categories": ["?"]}}, ("job=?", "job (other)")),
    ],
)
def test_whatever_was_released_is_a_schema(facts, kept):
    full = opened().completed(FACTS | facts)
    (name,) = facts
    assert name in full.learnt
    found = tuple(each for each in full.features if each.startswith(name))
    assert found == (() if kept == "ignore" else kept)
    assert Schema.from_dict(tomllib.loads(toml.dumps(full.source))) == full


def test_no_column_that_tells_rows_apart(tmp_path):
    node = NODE | {"columns": {"age": {"kind": "numeric"}, "job": {"kind": "categorical"}}}
    full = Schema.from_dict(node, learn=True).completed(
        {"age": {"knots": [1.0]}, "job": {"categories": []}}
    )
    assert full.features == ()
    path = tmp_path / "t.csv"
    path.write_text("age,job,ill\n1,x,no\n2,y,yes\n")
    assert encode(path, full, target=True).X.shape == (2, 0)
    assert encode(path, full, target=False).X.shape == (2, 0)
    assert Frame.of({"age": [1, 2], "job": ["x", "y"]}, full).encode().shape == (2, 0)


@given(
    st.lists(st.floats(-1e300, 1e300), max_size=6), st.floats(-1e300, 1e300),
    st.lists(st.text(max_size=4).map(str.strip).filter(bool), max_size=4, unique=True),
)  # fmt: skip
def test_any_released_facts_are_written_and_read_back(knots, center, levels):
    from noisette.tables.kinds import canonical

    levels = sorted({canonical(level) for level in levels} - {""})
    levels = [level for level in levels if level.encode("utf-8", "ignore").decode() == level]
    released = FACTS | {"age": {"knots": knots, "center": center}, "job": {"categories": levels}}
    full = opened().completed(released)
    assert Schema.from_dict(tomllib.loads(toml.dumps(full.source))) == full


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"age": {}}, "column 'age' has open facts, and nothing was released"),
        ({"zip": {"low": 1.0}}, "column 'zip' is not in the schema"),
        ({"stay": {"low": 1.0, "high": 2.0}}, "'stay': low is stated in the schema"),
        ({"born": {"center": 1.0}}, "'born': one of its bounds is still open"),
        ({"sex": {"categories": ["x"]}}, "'sex': categories is stated"),
        ({"name": {"categories": ["x"]}}, "'name' has no facts to be learnt"),
        ({"age": {"categories": ["x"]}}, "'age' has no fact 'categories'"),
    ],
)
def test_facts_that_do_not_fit(facts, words):
    with pytest.raises(InvalidParameter, match=words) as error:
        opened().completed(FACTS | facts)
    assert_one_sentence(error.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"kind": "numeric", "center": 3}, "of which low is to be learnt, has an unknown key"),
        ({"kind": "numeric", "low": 0, "also": []}, "of which high is to be learnt"),
        ({"kind": "categorical", "reference": "a"}, "of which the categories are to be learnt"),
        ({"kind": "categorical", "categories": "?", "other": False}, "are to be learnt"),
        ({"kind": "?"}, "kind is still to be filled in"),
        ({"kind": "date", "low": "x"}, "low must be a date such as"),
    ],
)
def test_what_cannot_be_left_open(column, words):
    with pytest.raises(InvalidParameter, match=words) as error:
        opened(age=column)
    assert_one_sentence(error.value)


@pytest.mark.parametrize("share", [0, 1, -0.1, "x", True, float("nan")])
def test_the_share_is_a_part(share):
    with pytest.raises(InvalidParameter, match="share of \\[learn\\] must be a number between"):
        Schema.from_dict(NODE | {"learn": {"share": share}}, learn=True)


def test_without_learning_open_facts_are_refused_and_the_way_is_named(tmp_path):
    for column in (
        {"kind": "numeric"}, {"kind": "numeric", "low": "?", "high": 1},
        {"kind": "categorical"}, {"kind": "categorical", "categories": ["?"]},
    ):  # fmt: skip
        node = NODE | {"columns": {"age": column}}
        with pytest.raises(InvalidParameter, match=r"column 'age'.*--learn") as error:
            Schema.from_dict(node)
        assert_one_sentence(error.value)
        schema = Schema.from_dict(node, learn=True)
        with pytest.raises(InvalidParameter, match="'age' has facts that are still to be learnt"):
            Frame.of({"age": [1]}, schema).encode()
        path = tmp_path / "t.csv"
        path.write_text("age,ill\n1,no\n")
        with pytest.raises(InvalidParameter, match="'age' has facts that are still to be learnt"):
            encode(path, schema, target=True)


def test_classes_and_unit_are_never_learnt():
    for key, words in (("classes", "classes is still to be"), ("unit", "unit is still to be")):
        open_fact = ["?"] if key == "classes" else "?"
        with pytest.raises(InvalidParameter, match=words) as error:
            Schema.from_dict(NODE | {key: open_fact}, learn=True)
        assert "--learn" not in str(error.value)


def test_learnt_names_a_column():
    node = {key: value for key, value in NODE.items() if key != "learn"}
    node["columns"] = {"sex": NODE["columns"]["sex"]}
    with pytest.raises(InvalidParameter, match="learnt names 'age', which does not stand"):
        Schema.from_dict(node | {"learnt": ["age"]})


def test_a_date_of_toml_is_a_text_of_the_schema():
    columns = {"born": {"kind": "date", "low": date(1900, 1, 1), "high": "2030-01-01"}}
    schema = Schema.from_dict(NODE | {"columns": columns})
    assert schema.source["columns"]["born"]["low"] == "1900-01-01"
    assert len(schema.fingerprint) == 16
