"""Tables that are walked in blocks: the model of a table in memory to the last bit."""

import numpy as np
import pytest

from noisette import (
    AdditiveClassifier,
    AdditiveRegressor,
    TableClassifier,
    TableRegressor,
)
from noisette.core.ledger import Ledger
from noisette.errors import InvalidData
from noisette.tables import Schema, frame, stored_rows
from noisette.tables import spill as _spill
from noisette.tables.frame import Frame
from noisette.tables.pipeline import table_rows as encoded
from noisette.tables.pipeline import table_run

KINDS = {
    "age": {"kind": "numeric"},
    "dose": {"kind": "numeric", "low": 0, "high": 10},
    "ward": {"kind": "categorical"},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
}
FACTS = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
ROWS = 3000


@pytest.fixture
def path(tmp_path, rng):
    age, dose = rng.integers(18, 95, ROWS), np.round(rng.exponential(2.0, ROWS), 2)
    ill = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-(age - 60) / 8.0 - dose / 3.0 + 1.0))
    lines = ["age,dose,ward,sex,who,cost,ill"]
    for i in range(ROWS):
        shown = "" if i % 50 == 0 else str(age[i])
        lines.append(
            f"{shown},{dose[i]},w{i % 7},{'fmx'[i % 3]},p{i // 3},{age[i] * 3.5},"
            f"{'yes' if ill[i] else 'no'}"
        )
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def schema_of(**more):
    ignored = {name: {"kind": "ignore"} for name in ("who", "cost", "ill")}
    node = {**FACTS, **more}
    target = node["target"]
    if not isinstance(target, str):
        target = target["name"]
        del node["classes"]
    node["columns"] = KINDS | {n: k for n, k in ignored.items() if n != target}
    return Schema.from_dict(node, learn=True)


def fitted(kind, path, schema, **options):
    table = Frame.read(path, schema, target=True)
    epsilon = 20.0 if "pairs" in options else 2.0  # so that there is room for them
    model = kind(epsilon, 1e-5, schema=schema, random_state=3, **options)
    model.fit(table, table.labels(), table.persons() if schema.persons is None else None)
    return model


def small(monkeypatch, *, wide):
    """Let everything go to files, and blocks be small, so that there are many of them."""
    monkeypatch.setattr(_spill, "IN_MEMORY", 100)
    monkeypatch.setattr(stored_rows, "IN_MEMORY", 100)
    monkeypatch.setattr(encoded, "IN_MEMORY", 100)
    monkeypatch.setattr(frame.Frame.blocks, "__defaults__", (512,))
    if wide:
        monkeypatch.setattr(table_run, "_WIDE", 10)


COSTS = {"target": {"name": "cost", "kind": "numeric", "low": 0, "high": 400}}
CASES = {
    "classes": (TableClassifier, {}, {}),
    "support vectors": (TableClassifier, {}, {"model": "svm"}),
    "weights": (TableClassifier, {}, {"class_weight": "balanced"}),
    "tested": (TableClassifier, {}, {"test_share": 0.25}),
    "persons": (TableClassifier, {"person": "who", "max_rows": 2}, {}),
    "numbers": (TableRegressor, COSTS, {}),
    "pairs": (AdditiveClassifier, {}, {"pairs": [("age", "dose"), ("age", "ward")]}),
    "pairs of persons": (
        AdditiveRegressor, {**COSTS, "person": "who", "max_rows": 2}, {"pairs": [("dose", "sex")]}
    ),
}  # fmt: skip


def alike(found, wanted):
    """Equal, numbers but for the order in which BLAS adds, which depends on where arrays lie."""
    if np.asarray(wanted).dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_model_is_the_same(path, monkeypatch, case, wide):
    kind, facts, options = CASES[case]
    schema = schema_of(**facts)
    with monkeypatch.context() as patch:
        if wide:
            patch.setattr(table_run, "_WIDE", 10)
        near = fitted(kind, path, schema, **options)
    stored = []
    real = stored_rows.StoredRows.__init__
    with monkeypatch.context() as patch:
        small(patch, wide=wide)
        patch.setattr(
            stored_rows.StoredRows, "__init__",
            lambda self, *given, **named: stored.append(named) or real(self, *given, **named),
        )  # fmt: skip
        far = fitted(kind, path, schema, **options)
        alike(
            np.asarray(near.predict(Frame.read(path, schema))),
            np.asarray(far.predict(Frame.read(path, schema))),
        )
    assert stored
    assert stored[0]["is_sparse"] is wide
    assert near.schema_.source == far.schema_.source
    alike(near.coef_, far.coef_)
    alike(near.intercept_, far.intercept_)
    assert len(near.pairs_) == len(options.get("pairs", ()))
    for one, two in zip(near.pairs_, far.pairs_, strict=True):
        alike(one.weights, two.weights)
    assert near.privacy_.to_dict() == far.privacy_.to_dict()


def test_a_full_disk_is_found_before_the_charge(path, monkeypatch):
    schema = schema_of()
    table = Frame.read(path, schema, target=True)
    small(monkeypatch, wide=True)

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_spill.os, "posix_fallocate", full, raising=False)
    ledger = Ledger(2.0, 1e-5)
    model = TableClassifier(2.0, 1e-5, schema=schema, ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr(encoded, "_MOST", 10)
        with pytest.raises(InvalidData, match="set TMPDIR"):
            model.fit(table, table.labels())
    assert ledger.count == 0
    model.fit(table, table.labels())  # small enough for memory
    assert ledger.count == 1


def test_stored_rows_are_cut_anywhere(rng, monkeypatch):
    from scipy import sparse

    monkeypatch.setattr(stored_rows, "IN_MEMORY", 100)
    dense = rng.normal(size=(100, 4)) * (rng.random((100, 4)) < 0.5)
    for form in (np.asarray, sparse.csr_matrix):
        kept = stored_rows.Keeping(_spill.Spill())
        for start, stop in ((0, 33), (33, 34), (34, 100)):
            kept.add(form(dense[start:stop]))
        rows = kept.rows()
        assert isinstance(rows, stored_rows.StoredRows)
        for count in (1, 7, 33, 64, 200):
            blocks = [b.toarray() if rows.is_sparse else b for _, b in rows.cut(count)]
            np.testing.assert_array_equal(np.concatenate(blocks), dense)
        every = rows[::9]
        np.testing.assert_array_equal(every.toarray() if rows.is_sparse else every, dense[::9])
        few = rows[np.array([2, 33, 99])]
        assert few.shape == (3, 4)
        if isinstance(few, stored_rows.StoredRows):
            (few,) = (block for _, block in few.cut(3))
        found = few.toarray() if rows.is_sparse else few
        np.testing.assert_array_equal(found, dense[[2, 33, 99]])
