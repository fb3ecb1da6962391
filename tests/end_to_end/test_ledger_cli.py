"""`noisette ledger` with a database, and the books for an auditor."""

import csv
import json
from pathlib import Path

import pytest

from helpers import run_command
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Laplace

TENTH = Laplace.calibrated(0.1)


def test_a_database_is_listed_started_and_shown(postgres) -> None:
    address = postgres()
    database, _, name = address.partition("#")
    done = run_command("ledger", address)
    assert done.returncode == 2
    assert "there is no ledger" in done.stderr
    assert run_command("ledger", address, "--epsilon", 2, "--delta", 1e-6).returncode == 0
    Ledger.open(address, table="patients").charge(TENTH, label="mean age", model="Means")
    shown = run_command("ledger", address).stdout
    for words in ("mean age", "model", "Means", "patients"):
        assert words in shown
    listed = json.loads(run_command("ledger", database, "--json").stdout)["ledgers"]
    assert listed[name]["spent"] == [pytest.approx(0.1), 0.0]
    assert name in run_command("ledger", database).stdout
    assert "no file to copy" in run_command("ledger", address, "--copy", "x.ledger").stderr


def test_a_ledger_that_cannot_be_read_hides_no_other(postgres, monkeypatch) -> None:
    from noisette.core.storage import postgres as store

    good, newer = postgres(), postgres()
    Ledger.open(good, 1.0)
    monkeypatch.setattr(store, "FORMAT", 4)
    Ledger.open(newer, 1.0)
    monkeypatch.undo()
    database, _, name = good.partition("#")
    listed = json.loads(run_command("ledger", database, "--json").stdout)["ledgers"]
    assert listed[name]["remaining"] == [1.0, 0.0]
    assert "newer noisette" in listed[newer.partition("#")[2]]["refused"]
    done = run_command("ledger", database)
    assert done.returncode == 0
    assert name in done.stdout
    assert "newer noisette" in done.stderr


def test_the_books_go_to_an_auditor(tmp_path) -> None:
    book = tmp_path / "b.ledger"
    ledger = Ledger.open(book, 1.0, table="patients")
    ledger.charge(TENTH, label="=1+1, a formula")
    ledger.charge(TENTH, label="mean age", model="=Mean")
    done = run_command("ledger", book, "--export", tmp_path / "b.csv")
    assert done.returncode == 0, done.stderr
    first, second = csv.DictReader((tmp_path / "b.csv").read_text().splitlines())
    assert first["label"] == "'=1+1, a formula"  # no spreadsheet computes it
    assert (second["number"], second["label"], second["table"]) == ("2", "mean age", "patients")
    assert (first["model"], second["model"]) == ("", "'=Mean")
    assert second["booked"][:2] == "20"
    assert float(second["epsilon"]) == ledger.charges[1].cost[0]
    run_command("ledger", book, "--export", tmp_path / "b.json")
    charge = json.loads((tmp_path / "b.json").read_text())["charges"][1]
    assert charge["plan"]["plan"] == "run"
    assert (charge["model"], charge["table"]) == ("=Mean", "patients")
    for name, words in (("b.txt", ".csv or .json"), ("b.ledger", "must not replace")):
        done = run_command("ledger", book, "--export", tmp_path / name)
        assert done.returncode == 2
        assert words in done.stderr
    assert "exists" in run_command("ledger", book, "--export", tmp_path / "b.csv").stderr
    assert Ledger.open(book).count == 2


def test_a_ledger_of_an_earlier_version_is_read(tmp_path, monkeypatch) -> None:
    """Its records say nothing of a table or a model, and say when."""
    from noisette.core.storage import file

    book = tmp_path / "b.ledger"
    Ledger.open(book, 1.0).charge(TENTH, label="plain")
    (line,) = [row for row in book.read_bytes().splitlines() if b'"kind": "charge"' in row]
    for later in (b'"table"', b'"model"'):  # what is not named leaves the bytes as they were
        assert later not in line
    monkeypatch.setattr(file.FileStore, "_today", lambda store: "")
    Ledger.open(book).charge(TENTH, label="no date")
    assert [charge.booked[:2] for charge in Ledger.open(book).charges] == ["20", ""]


def test_results_and_tables_stand_below_the_charges(tmp_path) -> None:
    one = Ledger.open(tmp_path / "one.ledger", 1.0, table="patients")
    two = Ledger.open(tmp_path / "two.ledger", 1.0)
    for ledger in (one, two):
        ledger.remember({"age": "number"})
        ledger._awaits = True
        ledger.charge(TENTH, label="x")
    shown = run_command("ledger", tmp_path / "one.ledger").stdout
    assert "paid, not collected: charge 1" in shown
    assert "table: patients, 1 columns" in shown
    assert "say whether it has the same people" in shown
    one.collect(1, "0" * 64)
    page = tmp_path / "page.html"
    shown = run_command(
        "ledger", tmp_path / "one.ledger", "--same-people", "two.ledger", "--html", page
    ).stdout
    assert "paid, not collected" not in shown
    for words in (shown, page.read_text(), run_command("ledger", tmp_path / "two.ledger").stdout):
        assert "what both spend adds up for them" in words
    books = json.loads(run_command("ledger", tmp_path / "one.ledger", "--json").stdout)
    assert books["tables"] == [{"name": "patients", "columns": {"age": "number"}}]
    assert books["people"] == {"two.ledger": True}
    assert books["charges"][0]["collected"] == "0" * 64


def test_a_ledger_is_compared_with_the_models(tmp_path) -> None:
    book, models = tmp_path / "b.ledger", tmp_path / "models"
    models.mkdir()
    ledger = Ledger.open(book, 1.0)
    done = run_command("ledger", book, "--against", models)
    assert (done.returncode, done.stdout[:8]) == (0, "checked:")
    ledger._awaits = True
    ledger.charge(TENTH, label="x")
    done = run_command("ledger", book, "--against", models)
    assert (done.returncode, done.stdout) == (0, "paid, not collected: charge 1\n")
    receipt = ledger.receipt(1) | {"after": "0" * 64}
    (models / "receipt.json").write_text(json.dumps(receipt))
    done = run_command("ledger", book, "--against", models)
    assert done.returncode == 1
    assert "the ledger was set back" in done.stdout
    assert "charge it by hand" in done.stdout
    done = run_command("ledger", book, "--against", models, "--json")
    assert json.loads(done.stdout)["uncollected"] == [1]
    assert run_command("ledger", book, "--against", book).returncode == 2


def test_a_second_ledger_for_the_same_table_is_asked_about(tmp_path, table) -> None:
    # the page's own advice was "or take another ledger", and its report said "1 charge so far"
    first, second = tmp_path / "first.ledger", tmp_path / "second.ledger"
    for ledger in (first, second):
        assert run_command("ledger", ledger, "--epsilon", 2).returncode == 0
    schema = Path(__file__).parents[2] / "examples" / "loans.toml"
    train = ("train", table, "--schema", schema, "--epsilon", 1, "--ledger")
    assert run_command(*train, first, "--out", tmp_path / "a").returncode == 0
    asked = run_command(*train, second, "--out", tmp_path / "b")
    assert asked.returncode == 2
    assert "--same-people" in asked.stderr
    assert str(first) in asked.stderr.replace("\n", "")
    assert Ledger.open(second).count == 0
    done = run_command(*train, second, "--same-people", "--out", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    assert run_command(*train, first, "--out", tmp_path / "c").returncode == 0  # kept in both
    for model, other in (("b", "first.ledger"), ("c", "second.ledger")):
        assert f"the same people are in the ledger {other}" in (
            tmp_path / model / "report.html"
        ).read_text().replace("<bdi>", "").replace("</bdi>", "")
