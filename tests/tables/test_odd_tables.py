"""Schemas at the edge of numbers, kinds of Parquet text, and models that meet another schema."""

import numpy as np
import pytest

from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import LogisticRegression
from noisette.report import Subject, model_page
from noisette.tables import Schema, TableModel, encode, read_model, template, write_model
from noisette.tables.folders import draft_folder, stated


def facts(column=None, **top):
    usual = {"kind": "numeric", "low": 0, "high": 10}
    node = {"target": "ill", "classes": ["no", "yes"], "unit": "a row is a person", **top}
    return node | {"columns": {"x": usual | (column or {})}}


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (facts({"low": 1e16, "high": 1e16 + 2, "curve": "log1p"}), "'x': low and high are too"),
        (facts({"curve": []}), "'x': curve must be one of"),
        (facts({"curve": {}}), "'x': curve must be one of"),
        (facts({"width": 1e-300}), "'x': width must lie between"),
        (facts(row_norm=1e-200), "row_norm must lie between"),
        (facts(row_norm=1e300), "row_norm must lie between"),
    ],
)
def test_numbers_that_could_overflow_are_refused_before_the_rows(node, words):
    with pytest.raises(InvalidParameter, match=words):
        Schema.from_dict(node)


@pytest.mark.parametrize("row_norm", [1e-6, 1e12])
@pytest.mark.parametrize("width", [1e-6, 1e6])
@pytest.mark.parametrize("square", [True, False])
def test_within_the_limits_no_cell_can_stop_a_run(tmp_path, row_norm, width, square):
    """Whether a run stops must not depend on a row: every cell gives a row of norm at most 1."""
    schema = Schema.from_dict(
        facts({"width": width, "square": square, "center": 0}, row_norm=row_norm)
    )
    path = tmp_path / "t.csv"
    path.write_text("x,ill\n" + "".join(f"{cell},no\n" for cell in ("", "10", "-inf", "1e308")))
    X = encode(path, schema, target=True).X
    assert np.linalg.norm(X, axis=1).max() <= 1.0


def test_a_header_is_no_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,ill\n1,no\n")
    with pytest.raises(InvalidData, match="leave out --no-header"):
        encode(path, Schema.from_dict(facts()), target=True, header=False)


def test_a_trailing_separator_is_explained(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,ill,\n1,no,\n")
    with pytest.raises(InvalidParameter, match="a column without a name"):
        encode(path, Schema.from_dict(facts()), target=True)
    path.write_text("x,ill,,\n1,no,,\n")
    with pytest.raises(InvalidData, match="two columns without a name"):
        encode(path, Schema.from_dict(facts()), target=True)


def test_semicolons_suggest_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;ill\n1,5;no\n")
    assert '# decimal = ","' in template(path)
    path.write_text("x,ill\n1.5,no\n")
    assert "decimal" not in template(path)


def test_every_kind_of_parquet_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        try:
            x = pa.array(["7,5", None, "2,5"]).cast(kind)
        except pa.ArrowNotImplementedError:  # the oldest pyarrow cannot make views
            assert kind == pa.string_view()
            continue
        parquet.write_table(pa.table({"x": x, "ill": pa.array(["no", "yes", "no"])}), path)
        schema = Schema.from_dict(facts(file={"delimiter": ";", "decimal": ","}, row_norm=1.0))
        assert encode(path, schema, target=True).X.ravel().tolist() == [0.5, 0.0, -0.5]
        assert '[columns.x]\nkind = "categorical"' in template(path)


def test_a_model_of_other_classes_is_refused(tmp_path, rng):
    schema = Schema.from_dict(facts())
    X = rng.standard_normal((50, 1))
    model = LogisticRegression(classes=["no", "perhaps"]).fit(X, np.repeat(["no", "perhaps"], 25))
    model.privacy_ = stated(model.privacy_, schema)
    out = tmp_path / "m"
    with draft_folder(out) as draft:
        page = model_page(model.privacy_, Subject("a", "b"))
        write_model(draft, out, TableModel(model, schema), page)
    with pytest.raises(InvalidData, match="does not fit the classes"):
        read_model(out)
