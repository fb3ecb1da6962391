"""Every row is encoded by itself, whatever kinds of columns and whatever neighbours (ROW-LOCAL)."""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noisette.tables import Schema, encode
from noisette.tables.cells import TextCells
from noisette.tables.frame import Frame, columns_of
from noisette.tables.kinds import Categorical, encode_rows, is_sparse

WIDE = [f"c{j}" for j in range(300)]
COLUMNS = {
    "line": {"kind": "numeric", "low": -5, "high": 100, "missing": [9], "missing_slot": True,
             "also": [{"square": True}, {"curve": "signed-log1p"}]},
    "hats": {"kind": "numeric", "knots": [0, 1, 10, 1000], "missing": [9], "missing_slot": True},
    "born": {"kind": "date", "low": "1900-01-01", "high": "2030-01-01", "format": "%d/%m/%Y",
             "missing": ["1/1/1900"], "missing_slot": True},
    "seen": {"kind": "date", "knots": [0, 10_000, 20_000], "center": "2001-01-01"},
    "ward": {"kind": "categorical", "categories": ["a", "b", "1"], "reference": "a",
             "missing": ["?"], "missing_slot": True},
    "icd": {"kind": "categorical", "groups": {"390-459": "heart", "250.*": "sugar", "7": "heart"}},
    "zip": {"kind": "hashed", "buckets": 16, "missing": ["?"], "missing_slot": True},
}  # fmt: skip
TOP = {"target": "y", "classes": ["n", "y"], "unit": "one row is one person", "row_norm": 1.5}
TOP["file"] = {"decimal": ".", "thousands": ","}
NARROW = Schema.from_dict(TOP | {"columns": COLUMNS})
SPARSE = Schema.from_dict(
    TOP | {"columns": COLUMNS | {"wide": {"kind": "categorical", "categories": WIDE}}}
)
CELLS = st.one_of(
    st.sampled_from(["", " ", "a", "b", "1", "1.0", "9", "?", "nan", "inf", "-1e400", "1,000",
                     "1,5", "12,34,567.5", "410.2", "250", "250.1", "7", "1970-01-01", "x" * 50,
                     "1/1/1900", "3/4/1999", "31.12.1999", "31/2/1999", "c5", "TRUE", "１"]),
    st.floats().map(repr), st.dates().map(str), st.text(max_size=5),
)  # fmt: skip


def encoded(schema, rows):
    cells = {
        column.name: TextCells([row[j % len(row)] for row in rows], ".", ",")
        for j, column in enumerate(schema.columns)
    }
    X = encode_rows(schema.columns, cells, schema.row_norm)
    return X.toarray() if schema.sparse else X


def test_which_schema_is_kept_sparse():
    assert SPARSE.sparse
    assert not NARROW.sparse


@pytest.mark.parametrize("schema", [NARROW, SPARSE], ids=["dense", "sparse"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=6))
def test_the_encoding_of_a_row_does_not_depend_on_others(schema, rows):
    whole = encoded(schema, rows)
    assert whole.shape == (len(rows), len(schema.features))
    assert (np.linalg.norm(whole, axis=1) <= 1.0).all()
    for row, together in zip(rows, whole, strict=True):
        assert (encoded(schema, [row]) == together).all()
    assert (encoded(schema, rows[::-1]) == whole[::-1]).all()


@given(rows=st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=4))
def test_sparse_rows_are_the_dense_ones(rows):
    both = encoded(SPARSE, rows)[:, : len(NARROW.features)]
    cells = {c.name: TextCells([row[j] for row in rows], ".", ",")
             for j, c in enumerate(SPARSE.columns)}  # fmt: skip
    dense = encode_rows(NARROW.columns, cells, None)
    sparse = encode_rows(SPARSE.columns, cells, None).toarray()[:, : dense.shape[1]]
    assert (sparse == dense).all()
    longest = np.linalg.norm(encode_rows(SPARSE.columns, cells, None).toarray(), axis=1)
    assert (longest <= SPARSE.largest_norm * (1 + 1e-12)).all()
    scale = np.maximum(longest / SPARSE.row_norm, 1.0) * SPARSE.row_norm
    np.testing.assert_allclose(both, dense / scale[:, None], rtol=1e-12)


@given(rows=st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=4))
def test_values_in_memory_are_read_as_cells_of_a_file(rows):
    table = {c.name: [row[j] for row in rows] for j, c in enumerate(SPARSE.columns)}
    values = columns_of(table, (".", ","))
    assert (encode_rows(SPARSE.columns, values, 1.5).toarray() == encoded(SPARSE, rows)).all()


def test_a_frame_of_a_file_is_encoded_as_the_file(tmp_path, rng):
    cells = ["", "a", "1", "9", "?", "410.2", "250", "1970-01-01", "3/4/1999", "1,000", "c5"]
    rows = rng.choice(cells, (9000, 8))  # more than one piece
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        names = [column.name for column in SPARSE.columns]
        csv.writer(file).writerows([[*names, "y"], *([*row, "n"] for row in rows)])
    found = encode(path, SPARSE, target=True)
    frame = Frame.read(path, SPARSE, target=True)
    assert (frame.encode() != found.X).nnz == 0
    assert (found.X.toarray() == encoded(SPARSE, rows.tolist())).all()
    assert (frame.labels() == found.y).all()
    whole = Frame.of(dict(zip(names, rows.T, strict=True)), SPARSE)
    assert (whole.encode() != found.X).nnz == 0


def test_the_rule_for_sparse_rows_is_public():
    def wide(levels, columns=1):
        return [Categorical.of(f"c{j}", [str(k) for k in range(levels)]) for j in range(columns)]

    assert not is_sparse(wide(199))
    assert is_sparse(wide(200))
    assert not is_sparse(wide(6, 100))
    assert is_sparse(wide(7, 100))
