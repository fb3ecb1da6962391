"""Scoring card and ONNX graph: the same predictions from raw cells, without noisette."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisette import (
    AdditiveClassifier,
    AdditiveRegressor,
    LogisticRegression,
    TableClassifier,
    load,
    save,
)
from noisette.columns.dates import days
from noisette.errors import InvalidParameter, MissingExtra
from noisette.pipeline.card import card_of
from noisette.pipeline.onnx_graph import onnx_of

PAGE = Path(__file__).parents[2] / "docs" / "additive.md"
KINDS: dict[str, Any] = {
    "age": {"kind": "numeric", "missing": [99]},
    "gain": "numeric",
    "ward": "categorical",
    "born": "date",
    "code": {"kind": "categorical", "categories": ["1", "2", "true"], "reference": "1"},
    "unit": {"kind": "categorical", "groups": {"x": ["x1", "x2"], "y": ["y1"]}, "missing": ["?"]},
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
    }
    table: dict[str, Any] = {"age": age, "gain": gain, "born": born}
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


def evaluator() -> Any:
    """Return `score` of the page, as it stands there."""
    blocks = blocks_of_the_page()
    code = next(block for block in blocks if "def adds" in block)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace["score"]


def test_the_lines_of_the_page_evaluate_a_card(models: dict[str, Any]) -> None:
    score, table = evaluator(), people(400, 5)
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


def run(model: Any, table: dict[str, Any]) -> dict[str, Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(
        onnx_of(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed: dict[str, Any] = {}
    for column in card_of(model)["columns"]:
        cells = table[column["name"]]
        if "levels" in column:
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


def test_what_has_no_card_is_refused() -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(500, 2)), np.arange(500) % 2
    linear = LogisticRegression(1.0, norm_bound=3.0, random_state=0).fit(rows, y)
    with pytest.raises(InvalidParameter, match="raw tables"):
        card_of(linear)
    table = {"place": np.array([f"p{k % 50}" for k in range(500)], dtype=object)}
    hashed = {"place": {"kind": "hashed", "buckets": 16}}
    model = TableClassifier(2.0, 1e-3, schema=hashed, random_state=0).fit(table, y)
    with pytest.raises(InvalidParameter, match="hashed"):
        card_of(model)
    coded = {"place": {"kind": "categorical", "groups": {"p1-p9": "low", "p*": "rest"}}}
    model = TableClassifier(2.0, 1e-3, schema=coded, random_state=0).fit(table, y)
    with pytest.raises(InvalidParameter, match="ranges or prefixes"):
        card_of(model)


def test_a_missing_package_is_named(models: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"noisette\[onnx\]"):
        onnx_of(models["two"])
