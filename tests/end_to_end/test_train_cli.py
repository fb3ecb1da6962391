"""From a CSV file to a private model, its predictions and its report, by commands."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from helpers import mistake, run, write_table
from noisette import Guarantee, Ledger, load
from noisette.app.commands.app import COMMANDS, app
from noisette.tables import read_schema, stored_rows
from noisette.tables.datasets import mixed_table
from noisette.tables.pipeline import TableClassifier, table_rows

ROOT = Path(__file__).parents[2]
LOANS = ROOT / "examples" / "loans.toml"
FILES = {"model.noisette", "schema.toml", "guarantee.json", "report.html"}


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """A folder with 4,000 invented loans to train on and 1,000 to predict."""
    folder = tmp_path_factory.mktemp("loans")
    columns = mixed_table(5000, seed=1).columns
    write_table(folder / "train.csv", columns, slice(4000))
    write_table(folder / "test.csv", columns, slice(4000, None))
    return folder


def train(loans, out, *more, code=0):
    return run("train", loans / "train.csv", "--target", "repaid", "--schema", LOANS,
               "--epsilon", 1, "--out", out, *more, code=code)  # fmt: skip


@pytest.mark.parametrize(
    ("wishes", "proof"),
    [
        (("--mechanism", "output"), "OUTPUT-SENSITIVITY"),
        (("--model", "svm", "--loss", "hinge"), "HINGE-GAP"),
        (("--model", "sgd"), "PARALLEL"),  # the founding paper's single pass
        (("--model", "sgd", "--delta", "1e-6"), "FILTER-GDP"),
        (("--model", "sgd", "--delta", "1e-6", "--sampling", "poisson"), "POISSON"),
    ],
)
def test_an_option_chooses_the_last_algorithm_of_the_one_path(
    loans, tmp_path, monkeypatch, wishes, proof
):
    """The same schema with learnt knots, the same words, rows from a file or not."""
    shown, _ = train(loans, tmp_path / "m", *wishes, "--test-share", 0.2, "--epsilon", 4)
    fitted = load(tmp_path / "m")
    assert type(fitted).__name__ == "TableClassifier"
    proofs = fitted.privacy_.proofs
    assert {"TABLE-LAST", proof} <= {*proofs, *(id_.split("-R")[0] for id_ in proofs)}
    assert "on other people" in shown
    assert fitted.test_.auc.value > 0.6
    page = (tmp_path / "m" / "report.html").read_text()
    assert "Parts are of <bdi>ε</bdi>" in page  # as the statement says
    assert ("zero is no average row" in page) == (fitted.bars_ is None)
    explained = run("explain", tmp_path / "m")[0]
    assert "income" in explained or len(explained) > 100
    monkeypatch.setattr(stored_rows, "IN_MEMORY", 1000)
    monkeypatch.setattr(table_rows, "IN_MEMORY", 1000)
    for out in ("a", "b"):
        train(loans, tmp_path / out, *wishes, "--seed", 1)
        monkeypatch.undo()
    near, far = load(tmp_path / "a"), load(tmp_path / "b")
    np.testing.assert_allclose(near.coef_, far.coef_, rtol=1e-8, atol=1e-8)


def test_the_whole_way(loans, tmp_path):
    out = tmp_path / "model"
    shown, _ = train(loans, out)
    assert "differentially private with epsilon = 1" in " ".join(shown.replace("│", " ").split())
    assert {path.name for path in out.iterdir()} == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # no draft is left
    promised = Guarantee.from_json((out / "guarantee.json").read_text())
    assert promised == load(out / "model.noisette").privacy_
    page = (out / "report.html").read_text()
    assert promised.paragraphs()[0].replace("'", "&#x27;") in page
    # The schema's digest names what is public; one of the table would tell two neighbours apart.
    digest = read_schema(out / "schema.toml").fingerprint
    assert f"<dd>{digest}</dd>" in page
    long = re.findall(r"\b[0-9a-f]{12,}\b", page)
    assert {text for text in long if set(text) & set("abcdf")} <= {digest}  # others are numbers
    assert not promised.seeded

    run("predict", out, loans / "test.csv", "--out", tmp_path / "p.csv", "--proba")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    assert set(rows[0]) == {"predicted repaid", "probability of no", "probability of yes"}
    for row in rows[:20]:
        likelier = float(row["probability of yes"]) > 0.5
        assert row["predicted repaid"] == ("yes" if likelier else "no")
    scored = json.loads(run("predict", out, loans / "test.csv", "--score", "--json")[0])
    with (loans / "test.csv").open() as file:
        truth = [row["repaid"] for row in csv.DictReader(file)]
    agreed = np.mean([row["predicted repaid"] == y for row, y in zip(rows, truth, strict=True)])
    assert (scored["accuracy"], scored["rows"]) == (pytest.approx(agreed), 1000)
    assert agreed > 0.65  # 0.62 is the commoner class


def test_a_model_that_can_hardly_learn_is_announced_in_one_sentence(loans, tmp_path):
    _, said = train(loans, tmp_path / "weak", "--epsilon", 0.1, "--mechanism", "output")
    (sentence,) = [line for line in said.splitlines() if "majority class" in line]
    assert sentence.startswith("noisette: warning: From public facts alone (about 4000 records, ")
    assert "WeakModelWarning" not in said
    _, said = train(loans, tmp_path / "strong", "--mechanism", "output", "--epsilon", 20)
    assert "majority class" not in said


@pytest.mark.parametrize(
    "options",
    [
        "--model svm",
        "--model svm --mechanism objective",
        "--model sgd --seed 3",
        "--mechanism output",
        "--adjacency zero-out --delta 1e-6",
        "--adjacency add-remove --population 5000",
    ],
)
def test_models_and_relations(loans, tmp_path, options):
    answer = json.loads(train(loans, tmp_path / "m", *options.split(), "--json")[0])
    assert answer["model"] == "TableClassifier"
    promised = answer["guarantee"]
    assert (promised["epsilon"], promised["seeded"]) == (1.0, "--seed" in options)
    page = (tmp_path / "m" / "report.html").read_text()
    if "add-remove" in options:  # n is private: it may stand nowhere
        for path in (tmp_path / "m").iterdir():
            assert b"4000" not in path.read_bytes()
        assert "4,000" not in page
    else:
        assert "4,000" in page
    if "--seed" in options:
        assert "Not private" in page
    run("predict", tmp_path / "m", loans / "test.csv")


def test_a_seed_repeats_and_no_seed_does_not(loans, tmp_path):
    weights = []
    for name, more in (("a", ("--seed", 5)), ("b", ("--seed", 5)), ("c", ()), ("d", ())):
        train(loans, tmp_path / name, *more)
        weights.append(load(tmp_path / name / "model.noisette").coef_)
    assert (weights[0] == weights[1]).all()
    assert (weights[2] != weights[3]).any()


def test_inspect(loans, tmp_path):
    out = tmp_path / "m"
    train(loans, out)
    shown = " ".join(run("inspect", out)[0].split())
    for words in ("the guarantee", "OBJECTIVE-PERTURBATION", "1e-06", "The schema", "reference"):
        assert words in shown
    answer = json.loads(run("inspect", out, "--json")[0])
    assert answer["checked"]["delta_of_the_plan"] == 0.0
    assert answer["pure_epsilon"] <= 1.0
    epsilons = [point["epsilon"] for point in answer["curve"]]
    assert epsilons == sorted(epsilons, reverse=True)
    for part in ("model.noisette", "guarantee.json"):
        assert json.loads(run("inspect", out / part, "--json")[0])["guarantee"]["epsilon"] == 1.0


def test_a_changed_part_is_refused(loans, tmp_path):
    out = tmp_path / "m"
    train(loans, out)
    schema, promise = out / "schema.toml", out / "guarantee.json"
    kept = schema.read_text(), promise.read_text()
    schema.write_text(kept[0].replace("other = false", "other = true"))
    assert schema.read_text() != kept[0]
    assert "is not the schema that the model was trained with" in mistake("inspect", out)
    assert "is not the schema" in mistake("predict", out, loans / "test.csv")
    schema.write_text("# only a comment\n" + kept[0])
    run("inspect", out)
    promise.write_text(kept[1].replace('"epsilon": 1.0', '"epsilon": 0.1'))
    assert "would be wrong" in mistake("inspect", out)
    promise.write_text(kept[1].replace("one row is one person", "one row is one visit"))
    assert "it was changed" in mistake("inspect", out)
    schema.unlink()
    assert "it has no schema.toml" in mistake("predict", out, loans / "test.csv")


def test_one_budget_for_several_models(loans, tmp_path):
    book = tmp_path / "people.ledger"
    assert (
        "start one with: noisette ledger"
        in train(loans, tmp_path / "a", "--ledger", book, code=2)[1]
    )
    assert not book.exists()
    run("ledger", book, "--epsilon", 1.5)
    answer = json.loads(train(loans, tmp_path / "a", "--ledger", book, "--json")[0])
    assert answer["ledger"]["remaining"] == [0.5, 0.0]
    assert "Spent" in (tmp_path / "a" / "report.html").read_text()
    _, err = train(loans, tmp_path / "b", "--ledger", book, code=2)
    assert "0.5 is left" in err
    assert "nothing was charged" in err
    assert not (tmp_path / "b").exists()
    held = json.loads(run("ledger", book, "--json")[0])
    assert held["spent"] == [1.0, 0.0]
    assert len(held["charges"]) == 1
    assert "TableClassifier" in run("ledger", book, "--report", tmp_path / "l.html")[0]
    assert "Privacy ledger" in (tmp_path / "l.html").read_text()
    assert "has epsilon=1.5, not 9.0" in mistake("ledger", book, "--epsilon", 9)
    other = train(loans, tmp_path / "c", "--ledger", book, "--adjacency", "zero-out", code=2)[1]
    assert "zero-out" in other


def test_a_failure_after_the_charge_says_what_it_cost(loans, tmp_path, monkeypatch):
    book = tmp_path / "people.ledger"
    run("ledger", book, "--epsilon", 9)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("noisette.models.files.save", full)
        _, err = train(loans, tmp_path / "m", "--ledger", book, code=2)
        assert "No space left" in err
        assert "was charged and a charge is never returned" in err
        _, err = train(loans, tmp_path / "m", code=2)
        assert "nothing was charged" in err
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]
    assert Ledger.open(book).spent == (1.0, 0.0)

    real = TableClassifier.fit

    def stopped_after(self, X):
        real(self, X)
        raise KeyboardInterrupt

    def stopped_before(self, X):
        raise KeyboardInterrupt

    for fit, words in ((stopped_after, "was charged"), (stopped_before, "nothing was charged")):
        with monkeypatch.context() as patch:
            patch.setattr(TableClassifier, "fit", fit)
            _, err = train(loans, tmp_path / "m", "--ledger", book, code=130)
            assert "stopped" in err
            assert words in err
            assert "Traceback" not in err
        assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_a_process_of_its_own(loans, tmp_path, how):
    """A long table is interrupted: the code of the signal, one line, no folder, no draft."""
    head, *lines = (loans / "train.csv").read_text().splitlines()
    table = tmp_path / "long.csv"
    table.write_text("\n".join([head, *lines * 60]))
    command = [sys.executable, "-m", "noisette", "train", str(table), "--schema", str(LOANS),
               "--epsilon", "1", "--out", str(tmp_path / "m")]  # fmt: skip

    def listen() -> None:  # what a test run in the background ignores, its children ignore
        signal.signal(how, signal.SIG_DFL)

    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".m.*")) and time.monotonic() < deadline:
        time.sleep(0.05)  # the draft folder is made just before the table is opened
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    # Python ends by the signal itself if it came inside an exec (a dataclass being imported, say);
    # a shell calls both the same.
    assert process.returncode in (128 + how, -how)
    assert err == "noisette: stopped; nothing was written and nothing was charged.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["long.csv"]


def test_nothing_is_overwritten_by_accident(loans, tmp_path):
    out = tmp_path / "m"
    train(loans, out)
    before = (out / "model.noisette").read_bytes()
    assert "exists and is not empty" in train(loans, out, code=2)[1]
    assert (out / "model.noisette").read_bytes() == before
    train(loans, out, "--force")
    assert (out / "model.noisette").read_bytes() != before
    (out / "thesis.doc").write_text("years of work")
    assert "will not replace it" in train(loans, out, "--force", code=2)[1]
    assert (out / "thesis.doc").exists()
    (tmp_path / "empty").mkdir()
    train(loans, tmp_path / "empty")
    assert {path.name for path in (tmp_path / "empty").iterdir()} == FILES
    (tmp_path / "file").write_text("")
    assert "is a file" in train(loans, tmp_path / "file", code=2)[1]
    assert "does not exist" in train(loans, tmp_path / "no" / "m", code=2)[1]
    assert "a folder of its own" in train(loans, Path.cwd(), code=2)[1]
    target = tmp_path / "p.csv"
    run("predict", tmp_path / "empty", loans / "test.csv", "--out", target)
    assert "exists; give another" in mistake(
        "predict", tmp_path / "empty", loans / "test.csv", "--out", target
    )
    run("predict", tmp_path / "empty", loans / "test.csv", "--out", target, "--force")


def test_sgd_under_add_remove_descends_on_all_rows(loans, tmp_path):
    options = ("--model", "sgd", "--adjacency", "add-remove")
    train(loans, tmp_path / "m", *options, "--delta", "1e-6", "--population", "4000")
    words = json.loads((tmp_path / "m" / "guarantee.json").read_text())
    assert words["adjacency"] == "add-remove"
    assert "gradient descent on all rows" in words["statement"]
    assert "that there is at least one record, and at most 8000" in words["public"]
    assert "4000" not in words["statement"].replace("the guess 4000 of the number", "")
    refused = train(loans, tmp_path / "n", *options, "--population", "4000", code=2)[1]
    assert "no proof under add-remove" in refused


def test_the_statement_about_a_table_says_how_rows_were_encoded(loans, tmp_path):
    train(loans, tmp_path / "m")
    words = json.loads((tmp_path / "m" / "guarantee.json").read_text())["statement"]
    assert (
        "encoded by itself, with the facts that are stated in the schema or were released" in words
    )
    assert "The matrix X is taken as given" not in words
    assert "This covers one fit." in words
    page = (tmp_path / "m" / "report.html").read_text()
    assert "Every row was encoded by itself" in page


def test_mistakes_of_train(loans, tmp_path):
    out = tmp_path / "m"
    table = loans / "train.csv"
    sentence = mistake("train", table, "--target", "repaid", "--epsilon", 1)
    assert f"noisette schema {table} --target repaid --out schema.toml" in sentence
    for more, words in [
        (("--epsilon", -1), "epsilon must be a positive"),
        (("--delta", 1), "delta must be a number in [0, 1)"),
        (("--model", "forest"), "--model must be one of"),
        (("--model", "sgd", "--mechanism", "output"), "is not for model='sgd'"),
        (("--mechanism", "magic"), "mechanism must be one of"),
        (("--adjacency", "bounded"), "adjacency must be one of"),
        (("--target", "age"), "make them agree"),
        (("--schema", tmp_path), "is a folder"),
        (("--no-header",), "leave out --no-header"),
        (("--adjacency", "add-remove", "--model", "sgd"), "use --model logistic or svm"),
        (("--adjacency", "add-remove", "--model", "sgd", "--delta", 1e-6), "needs --population"),
        (("--delta", 0.01), "--delta=0.01 is not below 1/n for n=4000 records"),
        (("--seed", 1, "--ledger", "any"), "a model with --seed hides nobody"),
    ]:
        options = {"--target": "repaid", "--schema": LOANS, "--epsilon": 1, "--out": out}
        flags = [item for item in more if item == "--no-header"]
        options |= dict(zip(more[::2], more[1::2], strict=False)) if not flags else {}
        flat = [item for pair in options.items() for item in pair]
        assert words in mistake("train", table, *flat, *flags), more
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_the_table_charges_nothing(loans, tmp_path):
    book, broken = tmp_path / "b.ledger", tmp_path / "broken.csv"
    run("ledger", book, "--epsilon", 5)
    lines = (loans / "train.csv").read_text().splitlines()
    broken.write_text("\n".join([*lines[:100], lines[100] + ",Smith"]))
    err = mistake("train", broken, "--schema", LOANS, "--epsilon", 1, "--ledger", book,
                  "--out", tmp_path / "m")  # fmt: skip
    assert "does not have the 10 cells" in err
    assert "Smith" not in err
    assert Ledger.open(book).charges == []
    assert not (tmp_path / "m").exists()


def test_mistakes_of_predict_inspect_and_ledger(loans, tmp_path):
    assert "there is no model folder" in mistake("predict", tmp_path / "x", loans / "test.csv")
    assert "it has no model.noisette" in mistake("predict", tmp_path, loans / "test.csv")
    assert "there is no model" in mistake("inspect", tmp_path / "x")
    (tmp_path / "x.json").write_text("{}")
    assert "not a guarantee" in mistake("inspect", tmp_path / "x.json")
    (tmp_path / "x.zip").write_bytes(b"no zip")
    assert "is not a model file" in mistake("inspect", tmp_path / "x.zip")
    assert "there is no ledger" in mistake("ledger", tmp_path / "x")
    assert "is a folder" in mistake("ledger", tmp_path)
    assert "not a noisette ledger" in mistake("ledger", tmp_path / "x.zip")
    train(loans, tmp_path / "svm", "--model", "svm")
    sentence = mistake("predict", tmp_path / "svm", loans / "test.csv", "--proba")
    assert "gives no probabilities" in sentence


def test_schema_command(loans, tmp_path):
    shown, _ = run("schema", loans / "train.csv", "--target", "repaid")
    assert "[columns.income]" in shown
    assert "[columns.repaid]" not in shown
    out = tmp_path / "s.toml"
    said, _ = run("schema", loans / "train.csv", "--out", out)
    assert f"Wrote {out}" in said
    assert "exists" in mistake("schema", loans / "train.csv", "--out", out)
    assert "there is no table" in mistake("schema", tmp_path / "x.csv")
    err = mistake("train", loans / "train.csv", "--schema", out, "--epsilon", 1,
                  "--target", "repaid", "--out", tmp_path / "m")  # fmt: skip
    assert "is still to be filled in" in err or "must not stand under columns" in err


def test_column_names_that_are_code(tmp_path, rng):
    """A hostile header reaches the page and the terminal as text."""
    evil = "<script>[bold]alert(1)"
    table, schema = tmp_path / "t.csv", tmp_path / "s.toml"
    table.write_text(f"{evil},y\n" + "".join(f"{v:.3f},{int(v > 0.5)}\n" for v in rng.random(300)))
    schema.write_text(
        'target = "y"\nclasses = [0, 1]\nunit = "a row"\n'
        f'[columns."{evil}"]\nkind = "numeric"\nlow = 0\nhigh = 1\n'
    )
    run("train", table, "--schema", schema, "--epsilon", 5, "--out", tmp_path / "m")
    page = (tmp_path / "m" / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;[bold]alert(1)" in page
    assert evil in run("inspect", tmp_path / "m")[0]


def test_help_has_an_example_for_every_command():
    for command in ("schema", "train", "predict", "inspect", "ledger"):
        shown = run(command, "--help")[0]
        assert "Example" in shown
        assert f"noisette {command}" in re.sub(r"\s+", " ", shown)


def test_the_command_line_starts_without_heavy_packages():
    code = (
        "import sys, noisette.app.commands.app\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'numba', 'pyarrow', 'pandas', 'torch', "
        "'matplotlib') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_list_of_commands_says_what_each_says_of_itself():
    for name, words in COMMANDS.items():
        _, command, _ = typer.main.get_command(app).resolve_command(None, [name])
        first = command.help.partition("\n\n")[0]
        assert " ".join(first.split()) == words


def test_adult_reaches_the_benchmark(tmp_path):
    """LogisticRegression at epsilon 1 on the published split; docs/benchmarks.md has 85.3 %.

    The mean of three seeds must be above 84.8 %: a seed's standard deviation is about 0.15 points,
    so a right program fails with a probability below 1e-6; the commoner class has 76 %.
    """
    home = os.environ.get("NOISETTE_DATA")
    if not home or not (Path(home) / "adult" / "adult.data.gz").exists():
        pytest.skip("NOISETTE_DATA is not set or has no adult/adult.data.gz")
    import gzip

    data = Path(home) / "adult"
    test = tmp_path / "test.csv"
    published = gzip.decompress((data / "adult.test.gz").read_bytes()).decode()
    test.write_text("\n".join(published.splitlines()[1:]))  # the first line is a comment
    scores = []
    for seed in range(3):
        out = tmp_path / f"m{seed}"
        schema = ROOT / "examples" / "adult.toml"
        run("train", data / "adult.data.gz", "--no-header", "--target", "income",
            "--schema", schema, "--epsilon", 1, "--seed", seed, "--out", out)  # fmt: skip
        answer = run("predict", out, test, "--no-header", "--score", "--json")[0]
        scores.append(json.loads(answer)["accuracy"])
    assert np.mean(scores) > 0.848


def test_an_epsilon_above_10_is_told_before_anything_is_charged(loans, tmp_path):
    _, said = train(loans, tmp_path / "large", "--epsilon", 11)
    first = said.splitlines()[0]
    assert first.startswith("noisette: warning: An epsilon above 10 promises next to nothing")
    out, _ = run("plan", "--rows", 4000, "--features", 10, "--epsilon", 11)
    assert "promises next to nothing" in out
    out, _ = run("plan", "--rows", 4000, "--features", 10, "--epsilon", 10)
    assert "promises next to nothing" not in out
