"""Columns of which nearly no cell was read are told of, from released counts and for free."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from noisette import AdditiveClassifier, TableClassifier, TableRegressor, save
from noisette.app.commands.explain import explain
from noisette.errors import WeakModelWarning
from noisette.tables.folders import TableModel
from noisette.tables.kinds import Hats
from noisette.tables.pipeline.table_columns import nearly_none, unread_in
from noisette.tables.pipeline.table_page import page_of

N = 4000
AGE = np.random.default_rng(0).integers(20, 80, N).astype(float)
Y = (AGE > 50).astype(int)
TABLE = {
    "age": AGE,
    "stage": ["low", "middle", "high", "middle"] * (N // 4),
    "day": ["soon"] * N,
    "ward": ["z"] * N,
    "rest": [None] * N,
    "seldom": np.where(np.arange(N) % 4, np.nan, AGE),
}
SCHEMA = {
    "columns": {
        "age": "numeric", "stage": "numeric", "day": "date",
        "ward": {"kind": "categorical", "categories": ["a", "b"]},
        "rest": "categorical", "seldom": "numeric",
    }
}  # fmt: skip
WORDS = {
    "stage": "could be read as a number", "day": "could be read as a date",
    "ward": "held one of the listed levels", "rest": "was there",
}  # fmt: skip
MODELS = [
    TableClassifier(2.0, 1e-6, schema=SCHEMA, classes=[0, 1]),
    TableClassifier(4.0, 1e-6, schema=SCHEMA, classes=[0, 1], test_share=0.2,
                    adjacency="add-remove", population=N),
    AdditiveClassifier(2.0, 1e-6, schema=SCHEMA, classes=[0, 1]),
    TableRegressor(2.0, 1e-6, schema=SCHEMA, target_bounds=(0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda each: type(each).__name__)
def test_fit_curves_report_and_statement_say_it(model):
    with pytest.warns(WeakModelWarning) as caught:
        model.fit(TABLE, Y)
    said = [str(each.message) for each in caught if "noisy counts" in str(each.message)]
    assert caught[0].filename == __file__
    assert unread_in(model).keys() == WORDS.keys()  # a quarter that can be read is no such column
    for name, words in WORDS.items():
        (sentence,) = [each for each in said if f"column {name!r}" in each]
        assert words in sentence
        assert sentence in model.privacy_.statement()
    for curve in model.curves():
        assert bool(curve.note) == (curve.column in WORDS)
        assert bool(set(curve.at) - {"(other)", "(missing)"}) != bool(curve.note)
        assert curve.to_dict().get("note", "") == curve.note
    page = page_of(TableModel(model, model.schema_), "people.csv", N)
    drawn = re.findall(r'<p class="caption">(.*?)</p>', page)
    assert any("age" in each for each in drawn)
    assert not any("stage" in each or "day" in each for each in drawn)  # no flat line
    assert len(re.findall(r'<p class="warn">(?:<bdi>)?By the noisy counts', page)) == len(WORDS)


def test_what_can_be_read_is_not_spoken_of():
    model = TableClassifier(2.0, 1e-6, schema={"age": "numeric"}, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakModelWarning)
        model.fit({"age": AGE}, Y)
    assert unread_in(model) == {}


def test_noise_alone_says_nothing():
    column = Hats("x", (0.0, 1.0), missing_slot=True)
    empty = np.array([0.0, 0.0, 1000.0])
    assert nearly_none(column, empty, 1000.0, 5.0)
    assert not nearly_none(column, empty, 1000.0, 50.0)  # half of it may be noise
    assert not nearly_none(column, np.array([50.0, 50.0, 900.0]), 1000.0, 5.0)
    assert not nearly_none(replace(column, missing_slot=False), empty[:2], 1000.0, 5.0)


def test_a_saved_model_still_says_it_on_the_console(tmp_path, capsys):
    model = TableClassifier(
        2.0, 1e-6, schema={"age": "numeric", "stage": "numeric"}, classes=[0, 1]
    )
    with pytest.warns(WeakModelWarning, match="'stage' could be read as a number"):
        model.fit({name: TABLE[name] for name in ("age", "stage")}, Y)
    save(model, tmp_path / "model.noisette")
    explain(tmp_path / "model.noisette")
    shown = capsys.readouterr().out
    assert "nearly no cell of column 'stage' could be read as a number" in " ".join(shown.split())
