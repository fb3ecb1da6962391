"""Every kind of column, in every place where a user meets it."""

import contextlib
import json
import math
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from helpers import card_evaluator
from noisette import TableClassifier, load, save
from noisette.app.studio.chosen import ChosenTable
from noisette.app.studio.facts import schema_from
from noisette.errors import InvalidParameter, WeakModelWarning
from noisette.tables import Schema, TableModel, encode, read_model, template
from noisette.tables.cells import TextCells
from noisette.tables.frame import Frame
from noisette.tables.kinds import KINDS, canonical, column_of
from noisette.tables.kinds.base import Reading, for_texts
from noisette.tables.kinds.kind import Kind
from noisette.tables.kinds.numeric import number_column
from noisette.tables.kinds.weekday import WEEK, Weekday
from noisette.tables.pipeline.card import KNOWN, card_of, onnx_of
from noisette.tables.pipeline.cell_counts import state_of
from noisette.tables.pipeline.effects import effects_in, weights_in
from noisette.tables.pipeline.table_page import facts_of, page_of
from noisette.tables.pipeline.table_words import done

N = 3000
EXAMPLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "numeric": ({"low": 0, "high": 50, "missing": ["77"]},
                ["1", "2.50", "-3", "", "49", "90", "77", "x"]),
    "categorical": ({"categories": ["a", "b"], "missing": ["?"]}, ["a", "", "b", "c", "?"]),
    "date": ({"low": "2020-01-01", "high": "2025-01-01", "missing": ["2022-02-02"]},
             ["2021-02-03", "19990101", "03.05.2020", "", "2022-02-02", "2024-05-06",
              "2024-05-06T12:00+01:00", "2030/01/01", "2022-02-02 06:00", "2024-02-30", "x"]),
    "weekday": ({"missing": ["2024-01-07"]},
                [f"2024-01-0{k}" for k in range(1, 8)] + ["", "x", "2024-01-07 06:00"]),
    "hashed": ({"buckets": 4, "missing": ["0"]}, ["8000", "3000", "", "1200", "0"]),
    "ignore": ({}, ["Ann", "Bob", ""]),
}  # fmt: skip
"""Of each kind what a schema states, with a code for missing cells, and cells: ordinary ones, one
that is missing, the code, what cannot be read and what lies out of range."""
USED = [name for name in EXAMPLES if name != "ignore"]


def schema_of(kind: str, facts: dict[str, Any]) -> Schema:
    other = {"kind": "numeric", "low": 0, "high": 1, "missing_slot": True}
    slot = {} if kind == "ignore" else {"missing_slot": True}
    columns = {"x": {"kind": kind, **slot, **facts}, "z": other}
    unit = "one row is one person"
    node = {"target": "y", "classes": ["no", "yes"], "unit": unit, "columns": columns}
    return Schema.from_dict(node)


def table_of(kind: str) -> dict[str, Any]:
    cells = EXAMPLES[kind][1]
    rng = np.random.default_rng(1)
    which = rng.integers(0, len(cells), N)
    label = np.where(rng.random(N) < np.where(which < len(cells) / 2, 0.8, 0.2), "yes", "no")
    return {"x": np.array(cells, dtype=object)[which], "z": rng.random(N), "y": label}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    found = {}
    for kind, (facts, _) in EXAMPLES.items():
        model = TableClassifier(8.0, 1e-6, schema=schema_of(kind, facts), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakModelWarning)
            found[kind] = model.fit(table_of(kind))
    return found


def test_every_kind_has_an_example():
    assert EXAMPLES.keys() == KINDS.keys()
    for kind in USED:
        facts, texts = EXAMPLES[kind]
        assert {"", *facts["missing"]} <= {*texts}


@pytest.mark.parametrize("kind", USED)
def test_features_counts_and_points_keep_their_promises(kind):
    facts, texts = EXAMPLES[kind]
    for slot in (False, True):
        column = column_of("x", {"kind": kind, "missing_slot": slot, **facts}, ())
        cells = TextCells(texts)
        rows = np.full((len(texts), len(column.features)), np.nan)
        column.fill(cells, rows)
        exact = [sum(Fraction(float(v)) ** 2 for v in row) for row in rows]
        assert max(exact) <= Fraction(column.most_square)
        assert (np.count_nonzero(rows, axis=1) <= column.nonzeros).all()
        _, shares = column.spread(cells)
        assert shares.shape[0] == len(texts)
        if column.counted:
            assert (shares >= 0.0).all()
            assert (shares.sum(axis=1) <= 1.0).all()
            typical = column.typical()
            assert typical.shape == (column.places,)
            assert typical.sum() == pytest.approx(1.0)
        form, at, shown = column.points
        assert form in ("number", "date", "levels")
        assert shown.shape == (len(at) + (slot and form != "levels"), len(column.features))
        states = state_of(column, cells)
        assert states.max() < len(column.states)
        assert column.states[states[texts.index("")]] == "missing"
        assert column.describe()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_fit_predict_save_load_plan_and_words(models, kind, tmp_path):
    model, table = models[kind], table_of(kind)
    scores = model.decision_function(table)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.decision_function(table), scores)
    assert again.schema_.columns == model.schema_.columns
    column = model.plan(N).columns[0]
    assert (column.name, column.kind, column.used) == ("x", kind, kind != "ignore")
    assert column.note
    assert "the weights got" in done(model)
    if kind != "ignore":
        assert np.mean((scores > 0) == (table["y"] == "yes")) > 0.6


@pytest.mark.parametrize("kind", USED)
def test_curves_report_explain_card_and_onnx(models, kind):
    model, table = models[kind], table_of(kind)
    fitted = TableModel(model, model.schema_)
    curves = {curve.column: curve for curve in model.curves()}
    assert len(curves["x"].labels) == len(curves["x"].value)
    assert json.dumps(curves["x"].to_dict(), allow_nan=False)
    assert "x" in [effect.column for effect in effects_in(fitted)]
    assert "x" in [entry["column"] for entry in weights_in(fitted)]
    told = {name: (word, text) for name, word, text in facts_of(model.schema_)}
    assert told["x"][0] == kind
    assert told["x"][1] != "not used"
    assert "not used" not in page_of(fitted, "people.csv", N)
    card = json.loads(json.dumps(card_of(model), allow_nan=False))
    assert [column["name"] for column in card["columns"]] == ["x", "z"]
    with contextlib.suppress(InvalidParameter):  # what has no form in ONNX is refused, see below
        assert onnx_of(model).graph.input[0].name == "x"
    assert table["x"].size


def test_template_and_studio_name_every_kind(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("x,y\n1,no\n")
    for learn in (False, True):
        text = template(path, "y", learn=learn)
        assert all(f'kind = "{kind}"' in text for kind in KINDS)
    columns = {"x": {"kind": "?"}, "y": {"kind": "?"}}
    chosen = ChosenTable(path, columns, {}, {}, True, ())
    form = {"target": "1", "classes": "no, yes", "unit": "row", "kind-0": "weekday"}
    found = schema_from(form | {"format-0": "%d/%m/%Y"}, chosen)
    assert found.source["columns"]["x"] == {"kind": "weekday", "format": "%d/%m/%Y"}


def test_encoded_rows_of_a_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("x,z,y\n2024-01-01,0.5,no\n2024-01-03T23:59,0.5,yes\n?,0.5,no\n")
    schema = schema_of("weekday", {})
    rows = encode(path, schema, target=True).X
    assert rows.shape == (3, 5)
    assert np.linalg.norm(rows, axis=1).max() <= 1.0
    same = Frame.read(path, schema, target=True).encode()
    assert np.array_equal(rows, same)


@pytest.mark.parametrize("kind", USED)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_gives_the_same_model_as_memory(models, kind, ending, tmp_path):
    """A reading of texts such as 14:30 must not be stored as numbers, where all are missing."""
    path, table = tmp_path / f"people.{ending}", pd.DataFrame(table_of(kind))
    if ending == "csv":
        table.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    schema = schema_of(kind, EXAMPLES[kind][0])
    model = TableClassifier(8.0, 1e-6, schema=schema, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        model.fit(Frame.read(path, schema, target=True))
    assert np.array_equal(model.coef_, models[kind].coef_)
    frame = Frame.read(path, schema)
    scores = models[kind].decision_function(table_of(kind))
    assert np.array_equal(models[kind].decision_function(frame), scores)


def fed(card: dict[str, Any], column: Any, texts: list[str]) -> Any:
    """Return a column as a graph takes it: numbers that are written so as they stand."""
    if "slots" in card:
        place = replace(column, missing_slot=True)._place
        return np.array(list(map(place, texts)), dtype=np.int64)
    if "levels" in card:
        return np.array(list(map(canonical, texts)), dtype=object)
    found = column.reading.numbers(TextCells(texts))
    for k, text in enumerate(texts if "days" not in card else ()):
        with contextlib.suppress(ValueError):
            found[k] = float(text)
    return found


def assert_card_and_graph_score_as_the_columns_do(schema: Schema, texts: list[str]) -> None:
    """Weights are drawn, so that every feature counts."""
    rng = np.random.default_rng(2)
    coef, name = rng.normal(size=(1, len(schema.features))), schema.used[0]
    model = SimpleNamespace(privacy_=SimpleNamespace(statement=str), schema_=schema, coef_=coef,
                            intercept_=[0.25], classes_=np.array(["no", "yes"]))  # fmt: skip
    table = {name: np.array(texts, dtype=object), "z": np.full(len(texts), 0.5)}
    rows = Frame.of(table, schema).encode(cut=False)
    expected = (rows @ coef[0]) + 0.25
    score, card = card_evaluator(), json.loads(json.dumps(card_of(model), allow_nan=False))
    found = [score(card, {name: text, "z": 0.5})[0] for text in texts]
    assert dict(zip(texts, found, strict=True)) == pytest.approx(
        dict(zip(texts, expected.tolist(), strict=True)), abs=1e-9
    )
    onnxruntime = pytest.importorskip("onnxruntime")
    if card["columns"][0].keys() - KNOWN:  # a card may say what has no form in ONNX
        with pytest.raises(InvalidParameter, match="cannot be part of an ONNX graph"):
            onnx_of(model)
        return
    session = onnxruntime.InferenceSession(
        onnx_of(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {name: fed(card["columns"][0], schema.columns[0], texts), "z": table["z"]}
    (shown,) = session.run(["score"], inputs)
    assert dict(zip(texts, shown[:, 0], strict=True)) == pytest.approx(
        dict(zip(texts, expected.tolist(), strict=True)), abs=1e-9
    )


@pytest.mark.parametrize("kind", USED)
@pytest.mark.parametrize("slot", [False, True])
def test_card_and_onnx_score_every_cell_as_the_model_does(kind, slot):
    """Cells that are ordinary, missing, a code for missing, unreadable and out of range."""
    facts, texts = EXAMPLES[kind]
    ways = [{"missing_slot": slot, **facts}]
    if "knots" in (KINDS[kind].keys or ()):
        low, high = column_of("x", {"kind": kind, **facts}, ()).ends
        stated = {key: facts[key] for key in facts if key not in ("low", "high")}
        ways.append({"missing_slot": slot, "knots": [low, (low + high) / 2.0, high], **stated})
    for way in ways:
        assert_card_and_graph_score_as_the_columns_do(schema_of(kind, way), texts)


@pytest.mark.parametrize("kind", ["date", "weekday"])
def test_card_and_onnx_read_dates_as_the_schema_writes_them(kind):
    facts = {key: EXAMPLES["date"][0][key] for key in ("low", "high") if kind == "date"}
    facts |= {"format": ["%d/%m/%Y", "%Y"], "missing": ["02/02/2022", "1999"]}
    texts = ["03/02/2021", "02/02/2022", "2/2/2022", "2023", "1999.0", "2024-05-06", "31/02/2024"]
    assert_card_and_graph_score_as_the_columns_do(schema_of(kind, facts), texts)


@pytest.mark.parametrize("kind", ["date", "weekday"])
def test_a_code_is_a_day_however_a_container_writes_it(kind):
    """Data frames write midnight behind a day, so that no code was found among their dates."""
    schema = schema_of(kind, EXAMPLES[kind][0] | {"missing": ["2022-02-02"]})
    found = []
    for cells in (["2022-02-02", "2022-02-03"], pd.to_datetime(["2022-02-02", "2022-02-03"]),
                  ["20220202", "03.02.2022"]):  # fmt: skip
        found.append(Frame.of({"x": cells, "z": [0.5, 0.5]}, schema).encode())
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0][0], found[0][1])


@dataclass(frozen=True)
class Clock(Reading):
    """Times of the day, and numbers from 0 to 24: a reading of its own, as a stranger writes it."""

    kind, word = "clock", "time"
    told: ClassVar[Any] = {"range": [0, 24], "texts": [[r"(\d\d?):([0-5]\d)", [1, 1 / 60]]]}

    def numbers(self, cells, missing=()):
        """Return hours since midnight; NaN where a cell is none, or a code."""

        def hours(text: str) -> float:
            clock = re.fullmatch(r"(\d\d?):([0-5]\d)", text)
            with contextlib.suppress(ValueError):
                found = int(clock[1]) + int(clock[2]) / 60 if clock else float(text)
                return found if 0 <= found <= 24 else math.nan
            return math.nan

        found = for_texts(cells, hours, np.float64)
        found[np.isin(found, [hours(code) for code in missing])] = np.nan
        return found


@pytest.fixture
def clock(monkeypatch):
    """A kind that is in no file of the library."""
    parse = partial(number_column, reading=Clock())
    kind = Kind("clock", "a time", "Times.", ("low = 0, high = 24", ""), parse, ("low", "high"))
    cells = ["0:10", "3", "9.5", "", "14:30", "24", "23:59", "99", "12:00", "-1", "25", "x"]
    monkeypatch.setitem(KINDS, "clock", kind)
    monkeypatch.setitem(
        EXAMPLES, "clock", ({"low": 2, "high": 20, "missing": ["12:00", "99"]}, cells)
    )


@pytest.mark.usefixtures("clock")
class TestAKindWithAReadingOfItsOwn:
    def test_its_cells_are_no_plain_numbers(self, tmp_path):
        schema = schema_of("clock", EXAMPLES["clock"][0])
        assert schema.numeric == ("z",)
        pd.DataFrame(table_of("clock")).to_csv(tmp_path / "people.csv", index=False)
        rows = Frame.read(tmp_path / "people.csv", schema, target=True).encode()
        assert np.array_equal(rows, Frame.of(table_of("clock"), schema).encode())
        assert len(np.unique(rows[:, 0])) > 5

    @pytest.mark.parametrize("slot", [False, True])
    def test_card_and_graph_know_it_by_what_its_card_says(self, slot):
        test_card_and_onnx_score_every_cell_as_the_model_does("clock", slot)
        test_features_counts_and_points_keep_their_promises("clock")

    def test_what_a_graph_has_no_form_for_is_refused(self, monkeypatch):
        monkeypatch.setattr(Clock, "told", Clock.told | {"tide": [1, 2]})
        schema = schema_of("clock", EXAMPLES["clock"][0])
        model = SimpleNamespace(
            privacy_=SimpleNamespace(statement=str), schema_=schema, intercept_=[0.0],
            coef_=np.ones((1, len(schema.features))), classes_=np.array([0, 1]),
        )  # fmt: skip
        with pytest.raises(InvalidParameter, match="no form for tide of its scoring card"):
            onnx_of(model)


@pytest.mark.parametrize("kind", USED)
def test_a_table_in_partitions_gives_the_same_model(kind):
    """Partitions counted the weekdays as if there were three of them, and training failed."""
    dask = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(table_of(kind))[:300]
    schema, found = schema_of(kind, EXAMPLES[kind][0]), []
    for rows in (table, dask.from_pandas(table, npartitions=2)):
        model = TableClassifier(8.0, 1e-6, schema=schema, random_state=0)
        found.append(model.fit(rows).coef_)
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)


class TestWeekday:
    def test_by_hand(self):
        column = Weekday("d", missing_slot=True, reading=column_of("d", {"kind": "date", "low": 0,
                         "high": 9}, ()).reading)  # fmt: skip
        texts = ["1970-01-01", "2024-02-29 13:30", "1969-12-28", "2024-01-01T00:30+02:00", "x"]
        out = np.zeros((5, 3))
        column.fill(TextCells(texts), out)
        days = [3, 3, 6, 6]  # Thursday, Thursday, Sunday, and Sunday in UTC
        turn = [2.0 * math.pi * day / 7.0 for day in days]
        assert out[:4, 0] == pytest.approx(np.cos(turn), abs=1e-14)
        assert out[:4, 1] == pytest.approx(np.sin(turn), abs=1e-14)
        assert out[:, 2].tolist() == [0, 0, 0, 0, 1]
        assert out[4].tolist() == [0, 0, 1]
        assert column.features == ("cos(d)", "sin(d)", "d is missing")

    def test_a_step_is_as_long_as_any_other(self):
        rows = Weekday("d").place_rows
        steps = np.linalg.norm(rows - np.roll(rows, 1, axis=0), axis=1)
        assert steps == pytest.approx(np.full(7, 2.0 * math.sin(math.pi / 7.0)), abs=1e-12)

    def test_points_a_tenth_too_large_are_seen(self, monkeypatch):
        from noisette.tables.kinds import weekday

        monkeypatch.setattr(weekday, "_INSIDE", 1.1)
        with pytest.raises(AssertionError):
            test_features_counts_and_points_keep_their_promises("weekday")

    def test_the_curve_names_the_days(self, models):
        curve = models["weekday"].curves()[0]
        assert curve.labels == (*WEEK, "(missing)")

    def test_counts_by_features_are_seen(self, monkeypatch):
        monkeypatch.setattr(Weekday, "spread", Weekday.entries)
        with pytest.raises(AssertionError):
            test_features_counts_and_points_keep_their_promises("weekday")

    def test_a_slot_that_nobody_fills_has_no_weight(self):
        table = table_of("weekday")
        table["x"] = np.where(table["x"] < "2024-01-07", table["x"], "2024-01-06")
        table["x"] = np.where(table["x"] == "", "2024-01-02", table["x"])
        model = TableClassifier(8.0, 1e-6, schema=schema_of("weekday", {}), random_state=0)
        model.fit(table)
        assert model.coef_[0][2] == 0.0
        assert np.abs(model.coef_[0][:2]).min() > 0.0

    def test_a_pair_is_refused_in_one_sentence(self):
        model = TableClassifier(1.0, 1e-6, schema=schema_of("weekday", {}))
        from noisette.tables.pipeline.pairs import checked_pairs

        with pytest.raises(InvalidParameter, match="is a weekday, which has no levels"):
            checked_pairs([("x", "z")], model.schema)

    def test_no_facts_can_be_bought_or_misspelt(self):
        schema = schema_of("weekday", {})

        with pytest.raises(InvalidParameter, match="has no facts to be learnt"):
            schema.completed({"x": {"low": 0}})
        with pytest.raises(InvalidParameter, match="unknown key 'low'"):
            schema_of("weekday", {"low": 0})

    def test_cells_that_nobody_could_read_are_told_of(self):
        table = table_of("weekday") | {"x": np.full(N, "31/31/2024", dtype=object)}
        model = TableClassifier(8.0, 1e-6, schema=schema_of("weekday", {}), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakModelWarning)
            model.fit(table)
        assert any("could be read as a date" in note for note in model.privacy_.notes)


def test_the_commands_train_and_explain_with_weekdays(tmp_path):
    pd.DataFrame(table_of("weekday")).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "facts.toml").write_text(
        'target = "y"\nclasses = ["no", "yes"]\nunit = "one row is one person"\n'
        '[columns.x]\nkind = "weekday"\n[columns.z]\nkind = "numeric"\nlow = 0\nhigh = 1\n'
    )
    asked = ("train people.csv --schema facts.toml --epsilon 4 --delta 1e-6 --out model --json",
             "explain model --json")  # fmt: skip
    for words in asked:
        done = subprocess.run([sys.executable, "-m", "noisette", *words.split()], cwd=tmp_path,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "Wednesday" in done.stdout
    assert read_model(tmp_path / "model").schema.kinds["x"] == "weekday"
    assert "cos(x)" in read_model(tmp_path / "model").schema.features
    page = (tmp_path / "model" / "report.html").read_text()
    assert "the day of the week, as a point on a circle" in page
