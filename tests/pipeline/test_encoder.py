"""SchemaEncoder: a complete schema as a scikit-learn transformer."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from helpers import assert_one_sentence
from noisette import LogisticRegression
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema, toml
from noisette.tables.datasets import mixed_table
from noisette.tables.pipeline import SchemaEncoder

NODE = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "row_norm": 2.0,
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "reference": "a"},
    },
}


def test_the_schema_may_be_given_in_three_ways(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(toml.dumps(NODE))
    for schema in (NODE, Schema.from_dict(NODE), path, str(path)):
        encoder = clone(SchemaEncoder(schema)).fit()
        X = encoder.transform({"age": [100, None], "ward": ["b", "z"]})
        assert X.tolist() == [[0.5, 0.5, 0], [0, 0, 0.5]]
        assert encoder.get_feature_names_out().tolist() == ["age", "ward=b", "ward (other)"]


def test_fit_looks_at_nothing():
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(name)

    assert SchemaEncoder(NODE).fit(Untouchable(), Untouchable()).schema_.target == "ill"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_in_front_of_a_private_model(library):
    frames = pytest.importorskip(library)
    table = mixed_table(3000, seed=2)
    columns = {}
    for name, facts in table.schema["columns"].items():
        number = facts["type"] == "number"
        columns[name] = (
            {"kind": "numeric", "low": facts["low"], "high": facts["high"]}
            if number
            else {"kind": "categorical", "categories": facts["levels"]}
        )
    facts = NODE | {"target": "repaid", "columns": columns}
    model = make_pipeline(
        SchemaEncoder(facts),
        LogisticRegression(epsilon=8.0, norm_bound=1.0, classes=["no", "yes"], random_state=0),
    )
    frame = frames.DataFrame(dict(table.columns))
    y = table.columns["repaid"]
    model.fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.68
    assert model[-1].privacy_.epsilon == 8.0


def test_wide_columns_become_sparse_rows():
    columns = {"zip": {"kind": "hashed", "buckets": 400}}
    X = SchemaEncoder(NODE | {"columns": columns}).fit_transform({"zip": [1, 2, None]}, None)
    assert sparse.issparse(X)
    assert X.shape == (3, 400)
    assert X.nnz == 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (3, "schema must be a Schema"),
        (None, "schema must be a Schema"),
        (NODE | {"columns": {"age": {"kind": "numeric"}}}, "column 'age': low is missing"),
        (
            Schema.from_dict(NODE | {"columns": {"age": {"kind": "numeric"}}}, learn=True),
            "'age' has facts that are still to be learnt",
        ),
    ],
)
def test_a_schema_that_is_not_complete(schema, words):
    with pytest.raises(InvalidParameter, match=words) as error:
        SchemaEncoder(schema).fit()
    assert_one_sentence(error.value)


def test_bad_tables():
    encoder = SchemaEncoder(NODE)
    with pytest.raises(NotFittedError):
        encoder.transform({"age": [1], "ward": ["a"]})
    encoder.fit()
    for table, words in [
        (np.zeros((2, 2)), "a table is a data frame"), ({"age": [1]}, "no column 'ward'"),
        ({"age": [], "ward": []}, "the table has no rows"),
    ]:  # fmt: skip
        with pytest.raises(InvalidData, match=words) as error:
            encoder.transform(table)
        assert_one_sentence(error.value)
