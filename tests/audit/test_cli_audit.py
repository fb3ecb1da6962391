"""``noisette audit``: subjects, exit codes, the HTML page."""

import json
import re
import sys
import zipfile
from html.parser import HTMLParser
from unittest import mock

import numpy as np
import pytest

from helpers import run_command
from noisette import LogisticRegression, save
from noisette.audit import AuditReport, Finding, page
from noisette.report.html import POLICY
from noisette.tables import TableModel, encode, read_schema, write_model
from noisette.tables.folders import stated


def run(*arguments):
    return run_command("audit", *arguments)


MODULE = '''
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class TooLittleNoise(ClassifierMixin, BaseEstimator):
    """Claims epsilon; adds a twentieth of the noise to a sum of clipped rows."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y):
        X, y = np.asarray(X, dtype=float), np.asarray(y)
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        signs = np.where(y == self.classes_[-1], 1.0, -1.0)
        rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        noise = np.random.laplace(size=X.shape[1]) * 0.1 / self.epsilon
        self.coef_ = (signs @ rows + noise)[None]
        self.intercept_ = np.zeros(1)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X) @ self.coef_[0] > 0).astype(int)]

class NothingToSee(BaseEstimator):
    """Keeps what it learned to itself."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y):
        return self

def make_model():
    return TooLittleNoise(epsilon=1.0)

def make_pipeline():
    from sklearn import pipeline, preprocessing
    from noisette import LogisticRegression
    private = LogisticRegression(epsilon=1.0, norm_bound=1.0)
    return pipeline.make_pipeline(preprocessing.MinMaxScaler(), private)

def broken():
    return 3

not_a_model = "text"
'''


SCHEMA = """
target = "y"
classes = ["0", "1"]
unit = "one row is one person"

[columns.x]
kind = "numeric"
low = 0
high = 6
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "audited_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("audited_module", None)


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.noisette"
    save(
        LogisticRegression(epsilon=1.0, classes=[0, 1], norm_bound=1.0).fit(np.eye(8), [0, 1] * 4),
        path,
    )
    return path


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for key, value in attributes if key in ("src", "href")]


def test_our_estimator_passes_and_writes_a_page(tmp_path):
    target = tmp_path / "audit.html"
    done = run("noisette.LogisticRegression", "--epsilon", 1, "--runs", 40, "--report", target)
    assert done.returncode == 0, done.stderr
    assert "audit of noisette.LogisticRegression: consistent" in done.stdout
    text = target.read_text()
    reader = Reader()
    reader.feed(text)
    assert {"table", "svg", "figure", "h1"} <= set(reader.tags)
    assert "script" not in reader.tags
    assert all(link.startswith(("#", "data:")) for link in reader.links)  # marks, and no icon
    assert f'http-equiv="Content-Security-Policy" content="{POLICY}"' in text
    assert not re.search(r"@import|url\(http", text)
    assert [each.name for each in tmp_path.iterdir()] == ["audit.html"]


@pytest.mark.parametrize("name", ["audited_module:make_model", "audited_module.TooLittleNoise"])
def test_a_false_claim_gives_exit_code_1(own_module, name):
    done = run(name, "--epsilon", 1, "--runs", 200, "--json")
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "violated"
    assert answer["subject"] == name
    assert any(each["verdict"] == "violated" for each in answer["findings"])


def test_nothing_tested_is_not_a_pass(own_module):
    done = run("audited_module.NothingToSee", "--epsilon", 1, "--runs", 40, "--json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["verdict"] == "not applicable"


def test_a_pipeline_with_an_exact_step_gives_exit_code_1(own_module):
    done = run("audited_module:make_pipeline", "--epsilon", 1)
    assert done.returncode == 1, done.stderr
    assert "minmaxscaler.data_max_" in done.stdout


def test_relation_and_bound_of_another_library(own_module):
    told = ["--adjacency", "add-remove", "--norm-bound", 1]
    done = run("audited_module.TooLittleNoise", "--epsilon", 1, "--runs", 200, "--json", *told)
    assert done.returncode == 1, done.stderr
    assert "add-remove" in done.stdout
    ours = run("noisette.LogisticRegression", "--epsilon", 1, *told)
    assert ours.returncode == 2
    assert "parameters of noisette's estimators" in ours.stderr


def test_a_model_file_is_checked_against_its_plan(model_file):
    done = run(model_file, "--runs", 40, "--json")
    assert done.returncode == 0, done.stdout
    first = json.loads(done.stdout)["findings"][0]
    assert first["attack"] == "model file"
    assert first["claim"] == [1.0, 0.0]
    assert first["confidence"] == 1.0
    assert "follows from the plan" in first["detail"]


@pytest.fixture
def model_folder(tmp_path):
    rows = "".join(f"{i % 7},{i % 2}\n" for i in range(60))
    (tmp_path / "table.csv").write_text(f"x,y\n{rows}")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    out = tmp_path / "trained"
    schema = read_schema(tmp_path / "schema.toml")
    rows = encode(tmp_path / "table.csv", schema, target=True)
    model = LogisticRegression(2.0, norm_bound=1.0, classes=list(schema.classes))
    model.fit(rows.X, rows.y)
    model.privacy_ = stated(model.privacy_, schema)
    return write_model(out, TableModel(model, schema), "<html>")


def test_a_folder_from_train_is_checked_like_its_model(model_folder, no_attacks, monkeypatch):
    monkeypatch.chdir(model_folder.parent)
    for name in (model_folder, model_folder.name, f"{model_folder.name}/"):
        done = run(name, "--json")
        assert done.returncode == 0, (done.stdout, done.stderr)
        first = json.loads(done.stdout)["findings"][0]
        assert first["attack"] == "model file"
        assert first["claim"] == [2.0, 0.0]
    assert run(model_folder, "--epsilon", 1, "--json").returncode == 1
    assert no_attacks.call_args.args[0].epsilon == 2.0


def test_a_folder_is_attacked_as_well(model_folder):
    done = run(model_folder, "--runs", 40, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    attacks = {each["attack"] for each in json.loads(done.stdout)["findings"]}
    assert {"model file", "fitted attributes", "exposed numbers"} <= attacks


def test_another_folder_is_a_mistake(model_folder):
    (model_folder / "model.noisette").unlink()
    done = run(model_folder)
    assert done.returncode == 2
    assert "is not a model folder" in done.stderr


@pytest.fixture
def no_attacks():
    """For tests of what is read from the file alone."""
    empty = AuditReport("nothing", ())
    with mock.patch("noisette.audit.check.check_estimator", return_value=empty) as called:
        yield called


def test_a_model_file_that_promises_more_than_is_claimed(model_file, no_attacks):
    done = run(model_file, "--epsilon", 0.5, "--runs", 40, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["verdict"] == "violated"
    assert no_attacks.call_args.kwargs["epsilon"] == 0.5


def test_a_model_file_with_an_edited_guarantee(model_file, tmp_path):
    edited = tmp_path / "edited.noisette"
    with zipfile.ZipFile(model_file) as old, zipfile.ZipFile(edited, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                node = json.loads(content)
                node["guarantee"]["epsilon"] = node["parameters"]["epsilon"] = 0.1
                content = json.dumps(node).encode()
            new.writestr(name, content)
    done = run(edited, "--json")
    assert done.returncode == 1
    findings = json.loads(done.stdout)["findings"]
    assert [each["verdict"] for each in findings] == ["violated"]
    assert "would be wrong" in findings[0]["detail"]


def test_a_damaged_model_file_is_a_mistake(tmp_path):
    path = tmp_path / "damaged.noisette"
    path.write_text("nothing of the kind")
    done = run(path)
    assert done.returncode == 2
    assert "not a model file" in done.stderr


def test_a_seeded_model_file_is_refuted(tmp_path, no_attacks):
    path = tmp_path / "seeded.noisette"
    model = LogisticRegression(epsilon=1.0, classes=[0, 1], random_state=1, norm_bound=1.0)
    save(model.fit(np.eye(8), [0, 1] * 4), path)
    done = run(path, "--runs", 40, "--json")
    assert done.returncode == 1
    assert "fixed seed" in json.loads(done.stdout)["findings"][0]["detail"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.noisette"], "does not exist"),
        (["nothing"], "neither a file nor an import path"),
        (["no.such.module:name"], "cannot import no.such.module:name"),
        (["noisette.linear:Nothing"], "has no Nothing"),
        (["audited_module:broken"], "has no fit"),
        (["audited_module:not_a_model"], "neither a class nor a function"),
        (["noisette.LogisticRegression", "--epsilon", -1], "epsilon must be"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--delta", 1], "delta must be"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--confidence", 1], "confidence must be"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--report", "x.pdf"], "end in .html"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--report", "no/x.html"], "not exist"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--jobs", 0], "n_jobs must be"),
        (["noisette.LogisticRegression", "--epsilon", 1, "--runs", 1], "runs must be"),
        (["benchmarks.real:load"], "cannot be built"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(own_module, arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert done.stdout == ""


def test_ctrl_c_is_clean(tmp_path):
    with mock.patch("noisette.audit.check.check_estimator", side_effect=KeyboardInterrupt):
        done = run("noisette.LogisticRegression", "--epsilon", 1, "--report", tmp_path / "a.html")
    assert done.returncode == 130
    assert done.stderr.strip() == "noisette: stopped; nothing was written."
    assert not list(tmp_path.iterdir())


def test_help_has_an_example():
    shown = run("--help").stdout
    assert "Example" in shown
    assert "noisette audit noisette.LogisticRegression" in shown


def findings():
    return (
        Finding("two worlds <b>", (1.0, 1e-6), 0.4, 0.99, "consistent", 400, "it's & fine"),
        Finding("long row", (0.5, 1e-3), float("inf"), 0.99, "violated", 20, "bad"),
        Finding("replay", (1.0, 1e-6), None, 1.0, "consistent", 1, "no bound"),
    )


def test_the_page_escapes_what_it_is_told():
    text = page.html(AuditReport("<script>alert(1)</script>", findings()))
    assert "<script>" not in text
    assert "two worlds &lt;b&gt;" in text
    assert "∞" in text
    assert "The claim is refuted" in text


def test_the_figure_with_a_curve():
    from noisette import Ledger
    from noisette.core import mechanisms

    charge = Ledger(1.0, 1e-6).charge(
        mechanisms.Gaussian.calibrated(1.0, 1e-6), label="x", delta=1e-6
    )
    promise = charge.guarantee("a sum")
    report = AuditReport("a sum", findings())
    both, alone = page.html(report, promise), page.html(report)
    assert (both.count("<svg"), alone.count("<svg")) == (2, 1)
    # one arrow for each bound, a cross for the one that refutes, on both figures
    assert alone.count("at least") >= 2
    assert (both.count("m0 -12l-12 12"), alone.count("m0 -12l-12 12")) == (2, 1)
    assert "<svg" not in page.html(AuditReport("nothing", findings()[2:]))
    assert "The promise" in both
    assert "The promise" not in alone


def test_the_folder_of_a_table_model_is_audited(tmp_path):
    """On invented tables: the rows that it was trained on are gone by then."""
    cells = "\n".join(f"{20 + k % 60},{'abc'[k % 3]},{'yn'[k % 60 > 30]}" for k in range(900))
    (tmp_path / "people.csv").write_text(f"age,ward,ill\n{cells}\n")
    (tmp_path / "schema.toml").write_text(
        'target = "ill"\nclasses = ["n", "y"]\nunit = "one row is one person"\n'
        '[columns.age]\nkind = "numeric"\n[columns.ward]\nkind = "categorical"\n'
    )
    asked = ["--schema", str(tmp_path / "schema.toml"), "--learn", "--epsilon", "3", "--delta"]
    made = run_command(
        "train", str(tmp_path / "people.csv"), *asked, "1e-6", "--out", str(tmp_path / "model")
    )
    assert made.returncode == 0, made.stderr
    (tmp_path / "people.csv").unlink()
    found = run(str(tmp_path / "model"), "--runs", "10", "--json")
    assert found.returncode == 0, found.stderr
    attacks = {each["attack"]: each["verdict"] for each in json.loads(found.stdout)["findings"]}
    assert attacks["model file"] == attacks["replay of raw tables"] == "consistent"
    assert any(name.startswith("two worlds") for name in attacks)
