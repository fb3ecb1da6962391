"""Commands that show and export a model: explain, coefficients, export; and its report."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from helpers import run, write_table
from noisette import LinearRegression, LogisticRegression, load, save
from noisette.tables import TableModel, encode, read_schema, write_model
from noisette.tables.folders import stated
from noisette.tables.pipeline.table_page import page_of

SCHEMA = """
target = "ill"
classes = ["no", "yes"]
unit = "one row is one person"
[columns.age]
kind = "numeric"
[columns.ward]
kind = "categorical"
[columns.born]
kind = "date"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Any:
    place = tmp_path_factory.mktemp("explained")
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 3000)
    ward = np.array(["a", "<b>", "c"])[rng.integers(0, 3, 3000)]
    ill = np.where(np.abs(age - 50) + 20 * (ward == "<b>") > 25, "yes", "no")
    born = np.array([f"{2020 - year}-01-01" for year in age])
    table = write_table(place / "people.csv", {"age": age, "ward": ward, "born": born, "ill": ill})
    (place / "facts.toml").write_text(SCHEMA)
    run("train", table, "--schema", place / "facts.toml", "--epsilon", 4, "--delta", 1e-5,
        "--learn", "--model", "additive", "--seed", 1, "--out", place / "model")  # fmt: skip
    return place


def test_the_report_shows_every_column_with_its_band_and_in_words(folder: Any) -> None:
    page = (folder / "model" / "report.html").read_text()
    assert "What the model says of each column" in page
    for column in ("age", "ward", "born"):
        assert f"<title>{column}</title><desc>Added to the log-odds of yes: " in page
    assert page.count("<polygon") == 2  # two columns of numbers have bands
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split("<main>")[1].split("</main>")[0].replace("<div><b>", "")


def test_explain_prints_draws_and_writes_the_same_curves(folder: Any, tmp_path: Any) -> None:
    model = load(folder / "model")
    shown, _ = run("explain", folder / "model", "--json")
    curves = json.loads(shown)
    assert [curve["column"] for curve in curves] == ["age", "ward", "born"]
    for told, curve in zip(curves, model.curves(), strict=True):
        assert told["value"] == curve.value.tolist()
        assert told["deviation"] == curve.deviation.tolist()
    run("explain", folder / "model", "--html", tmp_path / "c.html", "--out", tmp_path / "c")
    page = (tmp_path / "c.html").read_text()
    assert page.count("<svg") == 3
    assert json.loads((tmp_path / "c" / "curves.json").read_text()) == curves
    drawn = sorted(path.name for path in (tmp_path / "c").glob("*.svg"))
    assert drawn == ["column-01.svg", "column-02.svg", "column-03.svg"]
    assert 'xmlns="http://www.w3.org/2000/svg"' in (tmp_path / "c" / drawn[0]).read_text()
    _, error = run("explain", folder / "model", "--html", tmp_path / "c.html", code=2)
    assert "--force" in error


def test_coefficients_have_names_units_and_noise(folder: Any, tmp_path: Any) -> None:
    shown, _ = run("explain", folder / "model", "--json", "--weights")
    rows = json.loads(shown)
    levels = {row["at"] for row in rows if row["column"] == "ward"}
    assert {"a", "<b>", "c", "(other)", "(missing)"} == levels
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d|\(missing\)", row["at"]) for row in rows
               if row["column"] == "born")  # fmt: skip
    assert all(row["deviation"] > 0.0 for row in rows)
    text, _ = run("explain", folder / "model", "--plot", tmp_path / "w.png")
    assert "model-based" in text.replace("\n", " ")
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")
    listed, _ = run("explain", folder / "model" / "model.noisette", "--json", "--weights")
    assert json.loads(listed) == rows
    _, error = run("explain", folder / "model", "--plot", tmp_path / "w.doc", code=2)
    assert ".png" in error


def test_export_writes_a_card_and_a_graph(folder: Any, tmp_path: Any) -> None:
    shown, _ = run("export", folder / "model")
    card = json.loads(shown)
    assert card["classes"] == ["no", "yes"]
    assert "not private" in card["guarantee"].lower() or "seed" in card["guarantee"]
    run("export", folder / "model", "--format", "card", "--out", tmp_path / "card.json")
    assert json.loads((tmp_path / "card.json").read_text()) == card
    onnx = pytest.importorskip("onnx")
    run("export", folder / "model", "--format", "onnx", "--out", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert [each.name for each in graph.input] == ["age", "ward", "born"]
    assert [each.name for each in graph.output] == ["label", "score", "probabilities"]
    for wrong in (("--format", "pmml"), ("--format", "onnx")):
        _, error = run("export", folder / "model", *wrong, code=2)
        assert "onnx" in error


def old_folder(out: Path, table: Path, facts: Path, **wishes: Any) -> None:
    """Write a model of encoded rows, as `noisette train` did before tables had one path."""
    schema = read_schema(facts)
    rows = encode(table, schema, target=True)
    wishes |= {"norm_bound": 1.0, "classes": list(schema.classes), "random_state": 1}
    model = LogisticRegression(4.0, **wishes).fit(rows.X, rows.y)
    model.privacy_ = stated(model.privacy_, schema)
    fitted = TableModel(model, schema)
    write_model(out, fitted, page_of(fitted, table.name, rows.count))


def test_models_of_stated_encodings_have_curves_without_a_band(folder: Any, tmp_path: Any) -> None:
    facts = SCHEMA.replace('kind = "numeric"', 'kind = "numeric"\nlow = 0\nhigh = 100')
    facts = facts.replace('kind = "categorical"', 'kind = "categorical"\ncategories = ["a", "c"]')
    facts = facts.replace('[columns.born]\nkind = "date"', '[columns.born]\nkind = "ignore"')
    (tmp_path / "facts.toml").write_text("row_norm = 1.5\n" + facts)
    old_folder(tmp_path / "linear", folder / "people.csv", tmp_path / "facts.toml")
    rows = json.loads(run("explain", tmp_path / "linear", "--json", "--weights")[0])
    age = next(row for row in rows if row["column"] == "age")
    model = load(tmp_path / "linear")
    assert age["at"] == "for each 1"
    assert age["weight"] == pytest.approx(float(model.coef_[0, 0]) * 2.0 / 100.0 / 1.5)
    assert all(row["deviation"] is None for row in rows)
    text, _ = run("explain", tmp_path / "linear")
    assert "were not released" in text.replace("\n", " ")
    card = json.loads(run("export", tmp_path / "linear")[0])
    assert card["cut"] == pytest.approx(1.5)
    # with output perturbation the law of the noise is public: bars in the units of the table
    old_folder(
        tmp_path / "output", folder / "people.csv", tmp_path / "facts.toml", mechanism="output"
    )
    rows = json.loads(run("explain", tmp_path / "output", "--json", "--weights")[0])
    model, age = load(tmp_path / "output"), next(row for row in rows if row["column"] == "age")
    assert age["deviation"] == pytest.approx(model.weight_noise_ * 2.0 / 100.0 / 1.5)
    assert "its law is public and exact" in (tmp_path / "output" / "report.html").read_text()


def test_a_file_of_a_model_of_matrices_is_listed_drawn_and_exported(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(2000, 2)), columns=["dose", "weeks"])
    y = X["dose"] - X["weeks"] + rng.normal(size=2000)
    model = LinearRegression(4.0, target_bounds=(-9, 9), norm_bound=3.0, random_state=0).fit(X, y)
    save(model, tmp_path / "m.noisette")
    rows = json.loads(run("explain", tmp_path / "m.noisette", "--json", "--weights")[0])
    assert [row["column"] for row in rows] == ["dose", "weeks", "(intercept)"]
    half = np.ptp(model.coef_intervals(0.9545), axis=1) / 4.0
    assert [row["deviation"] for row in rows] == pytest.approx(half.tolist(), rel=1e-3)
    run("explain", tmp_path / "m.noisette", "--plot", tmp_path / "w.svg")
    assert "dose" in (tmp_path / "w.svg").read_text() or (tmp_path / "w.svg").stat().st_size > 1000
    card = json.loads(run("export", tmp_path / "m.noisette")[0])
    assert [column["name"] for column in card["columns"]] == ["dose", "weeks"]
    assert card["cut"] == 3.0


@pytest.fixture(scope="module")
def paired(folder: Any) -> Any:
    trained = folder / "paired"
    run("train", folder / "people.csv", "--schema", folder / "facts.toml", "--epsilon", 30,
        "--delta", 1e-5, "--learn", "--model", "additive", "--pairs", "age:ward, born:ward",
        "--seed", 1, "--out", trained)  # fmt: skip
    return trained


def test_pairs_named_on_the_command_line_have_heat_maps_everywhere(
    paired: Any, tmp_path: Any
) -> None:
    model = load(paired)
    assert model.pairs == [("age", "ward"), ("born", "ward")]
    page = (paired / "report.html").read_text()
    assert "And of pairs of columns" in page
    assert "<title>age × ward</title><desc>Added to the log-odds of yes by age and ward" in page
    shown, _ = run("explain", paired, "--json")
    last = json.loads(shown)[-1]
    assert last["columns"] == ["born", "ward"]
    assert last["value"] == model.surfaces()[1].value.tolist()
    run("explain", paired, "--html", tmp_path / "c.html", "--out", tmp_path / "c")
    assert (tmp_path / "c.html").read_text().count("<svg") == 5
    drawn = sorted(path.name for path in (tmp_path / "c").glob("pair-*.svg"))
    assert drawn == ["pair-01.svg", "pair-02.svg"]
    for file in (paired, paired / "model.noisette"):
        listed, _ = run(
            "explain", file, "--json", "--weights", "--plot", tmp_path / "w.png", "--force"
        )
        cells = {row["at"] for row in json.loads(listed) if row["column"] == "age × ward"}
        assert any(at.endswith(", <b>") for at in cells)
    for form in ("card", "onnx") if find_spec("onnx") else ("card",):
        _, error = run("export", paired, "--format", form, "--out", tmp_path / "e", code=2)
        assert "pairs of columns cannot be exported" in error.replace("\n", " ")
        assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--pairs", "age:ward"), "--pairs is for --model additive"),
        (("--model", "additive", "--pairs", "age"), "--pairs must name columns such as"),
        (("--model", "additive", "--pairs", "age:ward:born"), "--pairs must name columns"),
        (("--model", "additive", "--pairs", "age:wrad"), "the model uses no column 'wrad'"),
        (("--model", "additive", "--pairs", "age:ward,ward:age"), "stated twice"),
    ],
)
def test_wrong_pairs_are_refused_before_the_table_is_read(
    folder: Any, tmp_path: Any, options: Any, words: str
) -> None:
    facts = ("--schema", folder / "facts.toml", "--epsilon", 1, "--delta", 1e-5, "--learn")
    _, error = run("train", tmp_path / "no.csv", *facts, *options, "--out", tmp_path / "m", code=2)
    assert words in " ".join(error.split())
    assert not (tmp_path / "m").exists()
