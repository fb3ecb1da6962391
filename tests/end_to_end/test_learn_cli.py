"""From a raw file and the kinds of its columns to a private model, by commands."""

import csv
import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from helpers import mistake, run
from noisette import Ledger, load
from noisette.tables import read_schema

ADULT = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country",
]  # fmt: skip
EVIL = '<b>[red]x" \u202ey'
KINDS = {
    "age": "numeric", "stay": "numeric", "born": "date", "ward": "categorical",
    "smokes": "categorical", "zip": "hashed", "name": "ignore",
}  # fmt: skip


def patients(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n)
    ward = rng.choice(["medicine", "surgery", "cardiology"], n, p=[0.5, 0.3, 0.2])
    stay = rng.geometric(0.2, n)
    smokes = rng.choice(["yes", "no", ""], n, p=[0.3, 0.6, 0.1])
    score = 0.08 * (age - 60) + 0.1 * (stay - 5) + 1.5 * (smokes == "yes") + (ward == "surgery")
    ill = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    born = [f"{2020 - a}-0{1 + a % 9}-1{a % 10}" for a in age]
    codes = [f"z{k}" for k in rng.integers(0, 40, n)]
    names = [f"person {k}" for k in range(n)]
    columns = [age.tolist(), stay.tolist(), born, ward.tolist(), smokes.tolist(), codes, names]
    return dict(zip(KINDS, columns, strict=True)) | {"ill": ill.tolist()}


def write_csv(path, table):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patients")
    write_csv(folder / "raw.csv", patients())
    write_csv(folder / "new.csv", patients(2000, seed=1))
    text, _ = run("schema", folder / "raw.csv", "--target", "ill", "--learn")
    (folder / "facts.toml").write_text(filled(text))
    return folder


def filled(text, kinds=KINDS, classes='["no", "yes"]'):
    """Fill in what a template with --learn asks for: the kinds, the classes and the unit."""
    for name, kind in kinds.items():
        text = text.replace(f'[columns.{name}]\nkind = "?"', f'[columns.{name}]\nkind = "{kind}"')
    text = text.replace('classes = ["?"]', f"classes = {classes}")
    return text.replace('unit = "?"', 'unit = "one row is one person"')


def test_a_template_for_learning_says_what_to_fill_in_and_how_to_go_on(home, tmp_path):
    text, _ = run("schema", home / "raw.csv", "--target", "ill", "--learn")
    for words in ("a kind is never learnt", "with a delta only", "[learn]", "share = 0.2",
                  "noisette plan"):  # fmt: skip
        assert words in text
    assert "medicine" not in text  # no cell
    said, _ = run("schema", home / "raw.csv", "--learn", "--out", tmp_path / "s.toml")
    assert "Fill in every kind, the classes and the unit" in said
    assert said.strip().endswith("--epsilon 1 --delta 1e-6 --learn")
    with pytest.raises(Exception, match="still to be filled in"):
        read_schema(tmp_path / "s.toml", "ill", learn=True)


def test_the_whole_way_from_kinds_alone(home, tmp_path):
    out = tmp_path / "model"
    common = ("--schema", home / "facts.toml", "--epsilon", 2, "--delta", 1e-6)
    assert "--learn" in mistake("train", home / "raw.csv", *common, "--out", out)
    shown, err = run("train", home / "raw.csv", *common, "--learn", "--out", out)
    assert err == ""
    line = next(line for line in shown.splitlines() if line.startswith("numbers enter by"))
    assert re.search(r"up to \d+ knots bought privately \(\d[\d.]* % of the budget\)", line)
    words = " ".join(shown.replace("│", " ").split())
    assert "% went to the levels of 2 columns that nobody listed" in words
    page = (out / "report.html").read_text()
    for part in ("The budget, step by step", "knots of 3 columns", "levels of 2 columns",
                 "ε alone", "What was learnt about", "medicine"):  # fmt: skip
        assert part in page
    assert "person 17" not in page
    complete = read_schema(out / "schema.toml")
    assert set(complete.learnt) == {"age", "stay", "born", "ward", "smokes"}
    scored = json.loads(run("predict", out, home / "new.csv", "--score", "--json")[0])
    assert scored["accuracy"] > 0.72
    run("predict", out, home / "new.csv", "--proba", "--out", tmp_path / "p.csv")
    inspected = json.loads(run("inspect", out, "--json")[0])
    assert inspected["guarantee"] == load(out / "model.noisette").privacy_.to_dict()


def test_json_of_train_has_the_steps(home, tmp_path):
    answer = json.loads(
        run("train", home / "raw.csv", "--schema", home / "facts.toml", "--epsilon", 2, "--delta",
            1e-6, "--learn", "--out", tmp_path / "m", "--json")[0]
    )  # fmt: skip
    assert [step["step"] for step in answer["steps"]] == [
        "knots",
        "levels",
        "shares",
        "weights",
        "calibration",
    ]
    assert all(0.0 < float(step["epsilon_alone"]) < 2.0 for step in answer["steps"])


def test_parquet_and_csv_teach_the_same(home, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = patients()
    table["smokes"] = [cell or None for cell in table["smokes"]]
    parquet.write_table(pa.table(table), tmp_path / "raw.parquet")
    text, _ = run("schema", tmp_path / "raw.parquet", "--target", "ill", "--learn")
    assert 'kind = "numeric"' in text  # types are public
    weights = []
    for name in ("raw.csv", "raw.parquet"):
        path = (home if name == "raw.csv" else tmp_path) / name
        run("train", path, "--schema", home / "facts.toml", "--epsilon", 2, "--delta", 1e-6,
            "--learn", "--seed", 3, "--out", tmp_path / name[4:])  # fmt: skip
        weights.append(load(tmp_path / name[4:] / "model.noisette"))
    assert weights[0].schema_.source["columns"] == weights[1].schema_.source["columns"]
    assert np.allclose(weights[0].coef_, weights[1].coef_)


def test_a_weak_model_is_announced_on_stderr_before_the_charge(tmp_path):
    write_csv(tmp_path / "few.csv", patients(400))
    facts = tmp_path / "facts.toml"
    facts.write_text(filled(run("schema", tmp_path / "few.csv", "--target", "ill", "--learn")[0]))
    done = run("train", tmp_path / "few.csv", "--schema", facts, "--epsilon", 0.5, "--delta", 1e-6,
               "--learn", "--out", tmp_path / "m", "--json")  # fmt: skip
    assert done[1].startswith("noisette: warning: From public facts alone (400 rows, 6 columns")
    assert done[1].count("\n") == 1
    assert json.loads(done[0])["guarantee"]["epsilon"] == 0.5


def test_a_plan_that_cannot_pay_charges_and_writes_nothing(tmp_path):
    rng = np.random.default_rng(0)
    table = {f"c{k}": rng.integers(0, 9, 300).tolist() for k in range(1000)}
    write_csv(tmp_path / "wide.csv", table | {"y": rng.integers(0, 2, 300).tolist()})
    text, _ = run("schema", tmp_path / "wide.csv", "--target", "y", "--learn")
    facts = tmp_path / "wide.toml"
    facts.write_text(filled(text, dict.fromkeys(table, "numeric"), "[0, 1]"))
    book = tmp_path / "book.ledger"
    run("ledger", book, "--epsilon", 1, "--delta", 1e-6)
    budget = ("--epsilon", 1, "--delta", 1e-6, "--ledger", book)
    sentence = mistake("train", tmp_path / "wide.csv", "--schema", facts, *budget, "--learn",
                       "--out", tmp_path / "m")  # fmt: skip
    assert "the plan cannot pay for this table" in sentence
    assert Ledger.open(book).count == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "book.ledger", "wide.csv", "wide.toml",
    ]  # fmt: skip


def test_hostile_column_names_reach_every_output_as_text(tmp_path):
    table = {EVIL: patients()["ward"], "age": patients()["age"], "ill": patients()["ill"]}
    write_csv(tmp_path / "t.csv", table)
    text, _ = run("schema", tmp_path / "t.csv", "--target", "ill", "--learn")
    facts = tmp_path / "t.toml"
    text = filled(text, {"age": "numeric"})
    facts.write_text(text.replace('kind = "?"', 'kind = "categorical"'))
    common = ("--schema", facts, "--epsilon", 2, "--delta", 1e-6)
    for command in (("plan", "--counts", 0.1), ("train", "--learn", "--out", tmp_path / "m")):
        out, err = run(command[0], tmp_path / "t.csv", *common, *command[1:])
        assert "\u202e" not in out + err
        assert "[red]" in out + err or command[0] == "train"
    page = (tmp_path / "m" / "report.html").read_text()
    assert "<b>[red]" not in page
    assert "\u202e" not in page
    json.loads(run("plan", tmp_path / "t.csv", *common, "--json")[0])


def test_check_speaks_from_public_facts_alone(home, tmp_path):
    common = ("--schema", home / "facts.toml", "--epsilon", 1, "--delta", 1e-6)
    shown, err = run("plan", home / "raw.csv", *common)
    assert err == ""
    words = " ".join(shown.split())
    for part in ("only their number, which is public, was counted", "6,000 rows", "MB of memory",
                 "What becomes of each column", "The same with one thing changed", "delta = 0",
                 "listing them is free"):  # fmt: skip
        assert part in words
    answer = json.loads(run("plan", home / "raw.csv", *common, "--json")[0])
    assert answer["rows"] == 6000
    assert [column["name"] for column in answer["columns"]] == list(KINDS)
    # The cells do not matter: another table of the same form and size gives the same answer.
    empty = {name: ["x"] * 6000 for name in [*KINDS, "ill"]}
    write_csv(tmp_path / "other.csv", empty)
    assert run("plan", tmp_path / "other.csv", *common)[0] == shown
    stated = run("plan", home / "raw.csv", *common, "--rows", 500)[0]
    assert "no row was looked at" in stated
    assert "500 rows" in stated


def test_a_count_of_rows_is_not_taken_where_it_is_private(home):
    common = ("--schema", home / "facts.toml", "--epsilon", 1, "--delta", 1e-6)
    sentence = mistake("plan", home / "raw.csv", *common, "--adjacency", "add-remove")
    assert "give --population" in sentence
    shown, _ = run("plan", home / "raw.csv", *common, "--adjacency", "add-remove",
                   "--population", 5000)  # fmt: skip
    assert "5,000 rows" in shown
    assert "6,000" not in shown
    assert "6000" not in shown


def test_counts_of_odd_cells_cost_what_they_say(tmp_path):
    rows = 20_000
    table = {
        "age": ["oops"] * 5000 + [200] * 3000 + [-5] * 2000 + [""] * 4000 + [50] * 6000,
        "ward": ["A"] * 12_000 + ["Z"] * 8000,
        "y": [0, 1] * (rows // 2),
    }
    write_csv(tmp_path / "t.csv", table)
    facts = tmp_path / "t.toml"
    facts.write_text(
        'target = "y"\nclasses = [0, 1]\nunit = "one row is one person"\n[columns.age]\n'
        'kind = "numeric"\nlow = 0\nhigh = 110\n[columns.ward]\nkind = "categorical"\n'
        'categories = ["A", "B"]\n'
    )
    book = tmp_path / "book.ledger"
    run("ledger", book, "--epsilon", 1, "--delta", 1e-6)
    for delta in (0.0, 1e-6):
        answer = json.loads(
            run("plan", tmp_path / "t.csv", "--schema", facts, "--epsilon", 1, "--delta", delta,
                "--counts", 0.25, "--ledger", book, "--json")[0]
        )  # fmt: skip
        bought = answer["counts"]
        promise = bought["guarantee"]
        assert (promise["epsilon"], promise["delta"]) == (0.25, 0.25 * delta)
        assert "HISTOGRAM" in promise["proofs"]
        truth = {"age": {"missing": 4000, "unreadable": 5000, "below": 2000, "above": 3000},
                 "ward": {"missing": 0, "other": 8000}}  # fmt: skip
        assert {name: set(found) for name, found in bought["columns"].items()} == {
            name: set(found) for name, found in truth.items()
        }
        errors = [
            abs(bought["columns"][name][state] - count)
            for name, found in truth.items() for state, count in found.items()
        ]  # fmt: skip
        assert 0.0 < max(errors) < 6.0 * bought["deviation"]
    assert Ledger.open(book).spent == pytest.approx((0.5, 0.25e-6))
    shown = run("plan", tmp_path / "t.csv", "--schema", facts, "--epsilon", 1, "--counts", 0.25)[0]
    assert "train --epsilon 0.75 both together" in " ".join(shown.split())


def test_mistakes_of_check_charge_nothing(home, tmp_path):
    table, facts = home / "raw.csv", home / "facts.toml"
    book = tmp_path / "book.ledger"
    run("ledger", book, "--epsilon", 1, "--delta", 1e-6)
    good = {"--schema": facts, "--epsilon": 1, "--delta": 1e-6}
    cases = [
        ({"--counts": 1.5}, "--counts must"),
        ({"--counts": 0}, "--counts must"),
        ({"--epsilon": 0}, "epsilon must be a positive"),
        ({"--ledger": book}, "--ledger is for --counts"),
        ({"--rows": 0}, "--rows must be a whole number"),
        ({"--adjacency": "both"}, "adjacency must be one of"),
        ({"--schema": tmp_path / "none.toml"}, "there is no schema file"),
        ({"--target": "age"}, "make them agree"),
        ({"--counts": 0.5, "--ledger": tmp_path / "none"}, "there is no ledger"),
    ]
    for change, words in cases:
        options = [item for pair in (good | change).items() for item in pair]
        assert words in mistake("plan", table, *options), change
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    options = [
        item for pair in (good | {"--counts": 0.5, "--ledger": book}).items() for item in pair
    ]
    assert "none of the columns" in mistake("plan", other, *options)
    assert Ledger.open(book).count == 0
    assert not (tmp_path / "noisette-model").exists()


def test_plan_takes_a_schema(home):
    common = ("--rows", 6000, "--epsilon", 1, "--delta", 1e-6)
    answer = json.loads(run("plan", *common, "--schema", home / "facts.toml", "--json")[0])
    checked = json.loads(
        run("plan", home / "raw.csv", "--schema", home / "facts.toml", "--epsilon", 1, "--delta",
            1e-6, "--json")[0]
    )  # fmt: skip
    assert answer == checked
    assert "give --features" in mistake("plan", *common)
    assert "leave out --features" in mistake("plan", *common, "--features", 9, "--schema",
                                             home / "facts.toml")  # fmt: skip
    steps = json.loads(
        run("plan", *common, "--schema", home / "facts.toml", "--model", "sgd", "--json")[0]
    )
    assert steps["steps"] != answer["steps"]


def test_adult_from_its_raw_file_and_kinds_alone(tmp_path, adult):
    """Only kinds are filled in; by hand, with a public schema, the AUC is about 0.905."""
    raw, new = adult
    text, _ = run("schema", raw, "--target", "income", "--learn")
    numeric = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    kinds = dict.fromkeys(ADULT, "categorical") | dict.fromkeys(numeric, "numeric")
    text = filled(text, kinds, '{ "low" = ["<=50K", "<=50K."], "high" = [">50K", ">50K."] }')
    (tmp_path / "s.toml").write_text(text)
    run("train", raw, "--target", "income", "--epsilon", 1, "--delta", 1e-6, "--learn",
        "--schema", tmp_path / "s.toml", "--out", tmp_path / "m")  # fmt: skip
    page = (tmp_path / "m" / "report.html").read_text()
    assert "The budget, step by step" in page
    run("predict", tmp_path / "m", new, "--proba", "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        scores = [float(row["probability of high"]) for row in csv.DictReader(file)]
    with new.open() as file:
        truth = [row["income"].strip().startswith(">") for row in csv.DictReader(file)]
    assert roc_auc_score(truth, scores) > 0.903


@pytest.fixture
def adult(tmp_path):
    """The published files with a header line, and nothing else changed."""
    folder = Path(os.environ.get("NOISETTE_DATA", "data")) / "adult"
    paths = []
    for name in ("adult.data.gz", "adult.test.gz"):
        if not (folder / name).exists():
            pytest.skip("the published files of Adult are not here")
        lines = gzip.decompress((folder / name).read_bytes()).decode().splitlines()
        rows = [line for line in lines if line.count(",") == len(ADULT)]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join([",".join([*ADULT, "income"]), *rows]) + "\n")
    return paths


def test_plan_speaks_of_persons_where_they_are_protected(home):
    facts = ("--rows", 2000, "--features", 5, "--epsilon", 1)
    alone, together = (
        json.loads(run("plan", *facts, *more, "--json")[0]) for more in ((), ("--persons",))
    )
    assert (alone["unit"], together["unit"]) == ("record", "person")
    assert "persons)" in run("plan", *facts, "--persons")[0]
    assert "names its persons itself" in mistake(
        "plan", "--rows", 2000, "--epsilon", 1, "--schema", home / "facts.toml", "--persons"
    )
