"""Model folders: the model and the schema in them belong together."""

import numpy as np
import pytest

from noisette.errors import InvalidData
from noisette.linear import LogisticRegression
from noisette.report import Subject, model_page
from noisette.tables import Schema, TableModel, read_model, write_model
from noisette.tables.folders import draft_folder, stated


def test_a_model_of_other_classes_is_refused(tmp_path, rng):
    schema = Schema.from_dict(
        {
            "target": "ill",
            "classes": ["no", "yes"],
            "unit": "a row is a person",
            "columns": {"x": {"kind": "numeric", "low": 0, "high": 10}},
        }
    )
    X = rng.standard_normal((50, 1))
    model = LogisticRegression(classes=["no", "perhaps"], norm_bound=1.0).fit(
        X, np.repeat(["no", "perhaps"], 25)
    )
    model.privacy_ = stated(model.privacy_, schema)
    out = tmp_path / "m"
    with draft_folder(out) as draft:
        page = model_page(model.privacy_, Subject("a", "b"))
        write_model(draft, out, TableModel(model, schema), page)
    with pytest.raises(InvalidData, match="does not fit the classes"):
        read_model(out)
