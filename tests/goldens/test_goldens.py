"""Seeded fits release what they released before the house was rebuilt; old files are read."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import noisette
from goldens.cases import FILE, TABLE, X, cases, moved, run
from noisette.core.plans import Plan
from noisette.tables import read_schema

OLD = Path(__file__).parents[1] / "fixtures" / "v0.1"
CASES, KEPT = dict(cases()), json.loads(FILE.read_text())


@pytest.mark.parametrize("name", list(CASES))
def test_a_seeded_fit_releases_what_it_released(name: str) -> None:
    # cases.py --check compares to the bit; another machine's linear algebra may round otherwise
    assert moved(name, run(CASES[name]), KEPT[name], 1e-7) == []


def test_no_kept_case_is_forgotten() -> None:
    assert set(KEPT) == set(CASES)


@pytest.mark.parametrize("name", sorted(path.name for path in OLD.glob("*.noisette")))
def test_an_old_model_is_read_and_predicts_the_same(name: str) -> None:
    model = noisette.load(OLD / name)
    rows = TABLE.head(20) if hasattr(model, "schema") else X[:20]
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)[:, 0]
    else:
        shown = model.decision_function if hasattr(model, "decision_function") else model.predict
        found = shown(rows)
    expected = json.loads((OLD / "expected.json").read_text())[name]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-9)


@pytest.mark.parametrize("path", sorted(OLD.glob("*.guarantee.json")), ids=lambda path: path.name)
def test_an_old_guarantee_is_read(path: Path) -> None:
    read = noisette.Guarantee.from_json(path.read_text())
    stored = json.loads(path.read_text())
    assert (read.epsilon, read.delta) == (stored["epsilon"], stored["delta"])
    assert read.statement()


@pytest.mark.parametrize("path", sorted(OLD.glob("*.schema.toml")), ids=lambda path: path.name)
def test_an_old_schema_is_read(path: Path) -> None:
    assert read_schema(path, learn=True).columns


def test_old_plans_are_read() -> None:
    for text in json.loads((OLD / "plans.json").read_text()):
        assert Plan.from_dict(json.loads(text)).to_dict() == json.loads(text)


def test_an_old_ledger_is_read_and_goes_on(tmp_path: Path) -> None:
    place = shutil.copy(OLD / "people.ledger", tmp_path)
    ledger = noisette.Ledger.open(place)
    assert len(ledger.charges) == 3
    assert ledger.spent == (3.0, 0.0)
    ledger.charge(noisette.mechanisms.Laplace(noise_multiplier=2.0), label="later", seeded=True)
    assert noisette.Ledger.open(place).spent[0] == pytest.approx(4.0)
