"""Model folders: the model and the schema in them belong together."""

import numpy as np
import pytest
from typer.testing import CliRunner

from noisette.app.commands.app import app
from noisette.errors import InvalidData
from noisette.models import LogisticRegression
from noisette.report import Subject, model_page
from noisette.tables import Schema, read_model, write_model
from noisette.tables.drafts import Draft
from noisette.tables.folders import TableModel, stated


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
    write_model(out, TableModel(model, schema), model_page(model.privacy_, Subject("a", "b")))
    with pytest.raises(InvalidData, match="does not fit the classes"):
        read_model(out)


def test_a_model_that_somebody_else_wrote_meanwhile_is_not_taken_away(tmp_path, monkeypatch):
    """Another machine on the same network drive, of which no lock is seen here."""
    table, facts = tmp_path / "t.csv", tmp_path / "f.toml"
    table.write_text("x,ill\n" + "1,no\n9,yes\n" * 100)
    facts.write_text('target = "ill"\nclasses = ["no", "yes"]\nunit = "one row is one person"\n'
                     '[columns.x]\nkind = "numeric"\nlow = 0\nhigh = 10\n')  # fmt: skip
    out, real = tmp_path / "m", Draft.give_name

    def late(draft, **more):
        out.mkdir()
        (out / "model.noisette").write_bytes(b"years of work")
        return real(draft, **more)

    monkeypatch.setattr(Draft, "give_name", late)
    done = CliRunner().invoke(
        app, ["train", str(table), "--schema", str(facts), "--epsilon", "1", "--out", str(out)]
    )
    assert done.exception.code == 3
    assert f"the result is whole, in {tmp_path / 'm-2'}." in str(done.exception)
    assert (out / "model.noisette").read_bytes() == b"years of work"
    assert read_model(tmp_path / "m-2").guarantee.epsilon == 1.0
