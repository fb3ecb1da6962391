"""Scoring card and ONNX graph: the same predictions from raw cells, without noisette."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import card_evaluator
from noisette import (
    AdditiveClassifier,
    AdditiveRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    load,
    save,
)
from noisette.errors import InvalidParameter, MissingExtra
from noisette.tables import Schema
from noisette.tables.frame import Frame
from noisette.tables.kinds import Hashed
from noisette.tables.kinds.dates import days
from noisette.tables.pipeline.card import card_of, onnx_of

PAGE = Path(__file__).parents[2] / "docs" / "additive.md"
KINDS: dict[str, Any] = {
    "age": {"kind": "numeric", "missing": [99]},
    "gain": "numeric",
    "ward": "categorical",
    "born": "date",
    "came": "weekday",
    "code": {"kind": "categorical", "categories": ["1", "2", "true"], "reference": "1"},
    "unit": {"kind": "categorical", "groups": {"x": ["x1", "x2"], "y": ["y1"]}, "missing": ["?"]},
    "place": {"kind": "hashed", "buckets": 8},
    "id": "ignore",
}


def people(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age = rng.integers(10, 100, n).astype(float)
    age[::17] = np.nan
    gain = np.where(rng.random(n) < 0.85, 0.0, rng.choice([1600.0, 7690.0, 31.5], n))
    born = np.array([f"{1920 + int(a)}-06-01" for a in rng.integers(0, 99, n)], dtype=object)
    born[::19] = ""
    cells = {
        "ward": ["a", "b", "c", "", " b "],
        "code": ["1", "2.0", "True", "2", "", "other"],
        "unit": ["x1", "x2", "y1", "?", "z"],
        "place": ["Bern", "Basel", "Zürich", "", "8000", "8000.0"],
    }
    came = np.array([f"2024-{m:02}-{d:02}" for m, d in rng.integers(1, 13, (n, 2))], dtype=object)
    came[::23] = ""
    table: dict[str, Any] = {"age": age, "gain": gain, "born": born, "came": came}
    for name, texts in cells.items():
        table[name] = np.array(texts, dtype=object)[rng.integers(0, len(texts), n)]
    return table | {"id": np.arange(n)}


def target(table: dict[str, Any]) -> np.ndarray:
    score = (np.nan_to_num(table["age"], nan=50.0) - 50.0) / 20.0
    return np.asarray(score + (table["ward"] == "b") + 2.0 * (table["gain"] == 7690.0))


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    table = people(6000, 0)
    y = target(table)
    common: dict[str, Any] = {"schema": KINDS, "random_state": 0}
    return {
        "two": AdditiveClassifier(8.0, 1e-6, **common).fit(table, np.where(y > 0, "yes", "no")),
        "three": AdditiveClassifier(2.0, 1e-6, **common).fit(table, np.digitize(y, [-1, 1])),
        "svm": TableClassifier(2.0, 1e-6, model="svm", **common).fit(table, y > 0),
        "number": AdditiveRegressor(2.0, 1e-6, target_bounds=(-3, 5), **common).fit(table, y),
    }


def blocks_of_the_page() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)


def test_the_example_of_the_page_finds_the_number_that_many_share(capsys: Any) -> None:
    exec(blocks_of_the_page()[0], {})
    shown = capsys.readouterr().out
    assert "'7680', '7690', '7700'" in shown


def test_the_lines_of_the_page_evaluate_a_card(models: dict[str, Any]) -> None:
    score, table = card_evaluator(), people(400, 5)
    rows = [{name: cells[k] for name, cells in table.items()} for k in range(400)]
    for model in models.values():
        card = json.loads(json.dumps(card_of(model), allow_nan=False))
        found = np.array([score(card, row) for row in rows])
        if "classes" in card:
            expected = model.decision_function(table).reshape(400, -1)
        else:
            found, expected = np.clip(found, *card["bounds"]), model.predict(table)[:, None]
        assert np.abs(found - expected).max() < 1e-9


def test_labels_of_three_kinds_have_a_curve_each(models: dict[str, Any], tmp_path: Any) -> None:
    model = models["three"]
    assert model.curves()[0].value.shape[1] == 3
    assert len(model.curves()[0].missing) == 3
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").bars_ == model.bars_


def started(model: Any, schema: Any = None) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(
        onnx_of(model, schema).SerializeToString(), providers=["CPUExecutionProvider"]
    )


def run(model: Any, table: dict[str, Any], schema: Any = None) -> dict[str, Any]:
    session = started(model, schema)
    feed: dict[str, Any] = {}
    for column in card_of(model, schema)["columns"]:
        cells = table[column["name"]]
        if "slots" in column:
            place = Hashed("place", len(column["slots"]), missing_slot=True)._place
            feed[column["name"]] = np.array([place(cell) for cell in cells], dtype=np.int64)
        elif "levels" in column:
            feed[column["name"]] = np.array([str(cell).strip() for cell in cells], dtype=object)
        elif column.get("days"):
            feed[column["name"]] = np.array([days(cell) for cell in cells])
        else:
            feed[column["name"]] = np.asarray(cells, dtype=np.float64)
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def test_onnx_predicts_the_same_from_raw_cells(models: dict[str, Any]) -> None:
    table = people(700, 6)
    for name, model in models.items():
        found = run(model, table)
        if name == "number":
            assert np.abs(found["prediction"] - model.predict(table)).max() < 1e-6
            continue
        expected = model.decision_function(table).reshape(700, -1)
        assert np.abs(found["score"] - expected).max() < 1e-6
        assert (found["label"] == model.predict(table)).all()
        assert ("probabilities" in found) == (name != "svm")
        if name != "svm":
            assert np.abs(found["probabilities"] - model.predict_proba(table)).max() < 1e-6


OF_MATRICES = [
    LogisticRegression(2.0, norm_bound=2.0, random_state=0),
    LinearSVC(2.0, norm_bound=2.0, random_state=0),
    SGDClassifier(2.0, norm_bound=2.0, random_state=0),
    LinearRegression(2.0, target_bounds=(-4, 4), norm_bound=1.2, random_state=0),
    HuberRegressor(2.0, target_bounds=(-4, 4), norm_bound=1.2, random_state=0),
    SGDRegressor(2.0, target_bounds=(-4, 4), norm_bound=1.2, random_state=0),
    PoissonRegressor(2.0, most_count=9, norm_bound=1.2, random_state=0),
]


@pytest.mark.parametrize("model", OF_MATRICES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_model_of_matrices_is_exported_with_the_cut_of_its_rows(model: Any, classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = X @ [1.0, -1.0, 0.5]
    if hasattr(model, "classes"):
        y = np.digitize(y, [-1, 1][: classes - 1])
    elif classes == 3:
        return
    model.fit(X, y)
    score, card = card_evaluator(), json.loads(json.dumps(card_of(model), allow_nan=False))
    rows = [{f"feature {k}": value for k, value in enumerate(row)} for row in X[:200]]
    found = np.array([score(card, row) for row in rows])
    outputs = started(model).run(None, {"X": X[:200]})
    if card["kind"] == "regressor":
        expected = model.predict(X[:200])[:, None]
        if card["link"] == "log":
            found = np.minimum(np.exp(found), card["bounds"][1])
        assert card["cut"] == 1.2
        assert np.abs(outputs[0] - expected[:, 0]).max() < 1e-6
    else:
        expected = model.decision_function(X[:200]).reshape(200, -1)
        assert card["cut"] is None
        assert (outputs[0] == model.predict(X[:200])).all()
        assert np.abs(outputs[1] - expected).max() < 1e-6
    assert np.abs(found - expected).max() < 1e-9


STATED: dict[str, Any] = {
    "target": "ill", "classes": ["no", "yes"], "unit": "one row is one person", "row_norm": 1.1,
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100, "missing": [99], "missing_slot": True},
        "gain": {"kind": "numeric", "low": 0, "high": 9999, "curve": "log1p", "square": True},
        "ward": {"kind": "categorical", "categories": ["a", "b"]},
        "place": {"kind": "hashed", "buckets": 8},
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_model_of_stated_encodings_is_exported_with_the_cut_of_its_rows(kind: str) -> None:
    """Rows are cut as a whole here, so what one column adds depends on the others."""
    table, facts = people(3000, 0), dict(STATED)
    if kind == "regressor":
        del facts["classes"]
        facts["target"] = {"name": "ill", "kind": "numeric", "low": -4, "high": 4}
    schema = Schema.from_dict(facts)
    used = {name: table[name] for name in facts["columns"]}
    rows = Frame.of(used, schema).encode(schema)
    norms = np.linalg.norm(rows if isinstance(rows, np.ndarray) else rows.toarray(), axis=1)
    assert (norms > 0.999).any()
    assert (norms < 0.99).any()
    y = target(table)
    if kind == "classifier":
        model: Any = LogisticRegression(4.0, norm_bound=1.0, random_state=0).fit(rows, y > 0)
        expected = model.decision_function(rows)
    else:
        model = LinearRegression(
            4.0, target_bounds=(-4, 4), norm_bound=0.9, random_state=0
        ).fit(rows, y)  # fmt: skip
        expected = model.predict(rows)
    score, card = card_evaluator(), json.loads(json.dumps(card_of(model, schema), allow_nan=False))
    cells = [{name: column[k] for name, column in used.items()} for k in range(300)]
    assert (
        np.abs(np.array([score(card, each) for each in cells])[:, 0] - expected[:300]).max() < 1e-9
    )
    found = run(model, used, schema)
    shown = found["prediction"] if kind == "regressor" else found["score"][:, 0]
    assert np.abs(shown - expected).max() < 1e-6


def test_what_has_no_card_is_refused() -> None:
    y = np.arange(500) % 2
    with pytest.raises(InvalidParameter, match="fitted"):
        card_of(LogisticRegression())
    table = {"place": np.array([f"p{k % 50}" for k in range(500)], dtype=object)}
    coded = {"place": {"kind": "categorical", "groups": {"p1-p9": "low", "p*": "rest"}}}
    model = TableClassifier(2.0, 1e-3, schema=coded, random_state=0).fit(table, y)
    with pytest.raises(InvalidParameter, match="ranges or prefixes"):
        card_of(model)


def test_a_missing_package_is_named(models: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"noisette\[onnx\]"):
        onnx_of(models["two"])
