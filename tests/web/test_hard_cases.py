"""What a hostile reader tried: counted guesses, files under an order, two studios, odd tables."""

import os
import re
import threading

import pytest
from test_runs import LINE, pretend
from visitors import Person, write_patients

from noisette import Ledger
from noisette.app.studio import results as results_module
from noisette.app.studio.chosen import choose
from noisette.scores import Score
from noisette.tables import read_schema


def test_a_counted_number_is_no_guess_under_add_remove(person, patients):
    """The number of rows is private there, and a population enters plan, noise and report."""
    person.choose(patients)
    person.say_facts()
    walk = person.walk
    person.post(f"w/{walk}/count", epsilon="2", delta="1e-6", test="no")
    assert 'value="2500"' in person.page.text
    person.give_budget(adjacency="add-remove")
    assert "counted in the table" in person.error
    part = person.post(f"w/{walk}/forecast", epsilon="2", delta="1e-6", rows="2500",
                       adjacency="add-remove")  # fmt: skip
    assert "counted in the table" in part.text
    person.choose(patients)  # nor on another way through the same table
    person.say_facts()
    person.give_budget(adjacency="add-remove")
    assert "counted in the table" in person.error
    person.give_budget(adjacency="add-remove", rows="2000")
    assert "Which ledger pays?" in person.page.text


def test_the_schema_of_a_confirmed_order_is_never_written_again(person, patients, monkeypatch):
    """Also not by way of step 3, while the training is about to read it."""
    pretend(monkeypatch, f"{LINE}reading")
    person.walk_to_training(patients)
    walk = person.walk
    person.train()
    confirmed = person.runs.running.order
    before = (person.folder / "patients.schema.toml").read_bytes()
    assert str(person.folder / "patients.schema.toml") in confirmed.arguments
    person.post(f"w/{walk}/budget", epsilon="2", delta="1e-6", rows="2500", test="no")
    person.post(f"w/{walk}/facts", target="3", classes="no, yes", unit="row", kind_0="ignore",
                kind_1="numeric", kind_2="categorical", known_1="know", low_1="0",
                high_1="1e9")  # fmt: skip
    assert (person.folder / "patients.schema.toml").read_bytes() == before
    assert (person.folder / "patients.schema-2.toml").exists()


def test_the_model_folder_of_another_training_is_not_a_dead_end(person, patients, monkeypatch):
    pretend(monkeypatch, f"{LINE}reading")
    person.walk_to_training(patients)
    (person.folder / "patients-model").mkdir()
    (person.folder / "patients-model" / "model.noisette").write_bytes(b"of the other walk")
    person.train()
    assert "confirm it once more" in person.error
    assert person.runs.running is None
    person.train()
    assert person.runs.running.order.out.name == "patients-model-2"


@pytest.mark.slow
def test_two_studios_on_one_folder_lose_no_model(tmp_path):
    """Both have shown the same name for the model; each charge leaves one model or is refused."""
    table = write_patients(tmp_path / "patients.csv", n=400)
    people = [Person(tmp_path).come_in() for _ in range(2)]
    for k, one in enumerate(people):
        one.walk_to_training(table, start=f"{k}.ledger")
    threads = [threading.Thread(target=one.train) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = [run for one in people for run in one.runs._runs.values()]
    assert len(runs) == 2
    assert all(run.wait(120) for run in runs)
    charges = sum(Ledger.open(path).count for path in tmp_path.glob("*.ledger"))
    models = list(tmp_path.glob("*/model.noisette"))
    assert charges == len(models)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def write_german(path):
    lines = ["PatNr;Größe;Aufnahme;Station;krank"]
    lines += [f"{k};1,{60 + k % 40};{1 + k % 28:02d}.03.2024;Nord;ja" for k in range(50)]
    path.write_text("\n".join(lines), encoding="cp1252")
    return path


def test_a_table_as_excel_writes_it_in_germany(person, tmp_path):
    table = write_german(tmp_path / "patienten.csv")
    person.choose(table)
    assert "cannot be read" in person.error or "utf-8" in person.error
    person.choose(table, encoding="cp1252")
    assert "semicolons separate its columns, numbers are written 1,5" in person.page.text
    walk = person.walk
    form = {"target": "4", "classes": "ja; nein", "unit": "row", "kind_0": "ignore",
            "kind_1": "numeric", "known_1": "know", "low_1": "0,5", "high_1": "2,3",
            "kind_2": "date", "kind_3": "categorical"}  # fmt: skip
    person.post(f"w/{walk}/facts", **form)
    found = read_schema(tmp_path / "patienten.schema.toml", learn=True)
    assert found.source["columns"]["Größe"] == {"kind": "numeric", "low": 0.5, "high": 2.3}
    assert found.file.decimal == ","
    assert found.classes == ("ja", "nein")
    assert (
        choose("patienten.csv", tmp_path, encoding="cp1252", decimal=".").file.get("decimal", ".")
        == "."
    )


def test_a_wrong_encoding_is_corrected_without_saying_all_again(person, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("age,ward,ill\n" + "30,Süd,no\n" * 50, encoding="cp1252")
    person.choose(table)
    facts = {"target": "2", "classes": "no, yes", "unit": "row", "kind_0": "numeric",
             "kind_1": "hashed", "missing": "weiß nicht"}  # fmt: skip
    person.post(f"w/{person.walk}/facts", **facts)
    walk = person.walk
    person.post(f"w/{walk}/count", epsilon="2", delta="1e-6", test="no")
    assert "cannot be read" in person.error
    assert "in step 1, “About the file”. What you said since is kept." in person.error
    assert person.page.status_code == 200
    assert "How much may the model tell" in person.page.text
    person.choose(table, encoding="cp1252")
    assert "weiß nicht" in person.page.text
    assert 'value="hashed" selected' in person.page.text


def test_a_weak_plan_warns_at_the_button_that_spends(person, patients):
    person.choose(patients)
    person.say_facts()
    person.give_budget(epsilon="0.01", delta="0", rows="300")
    warned = re.search(r'class="note warn"><bdi>(.*?)</bdi>',
                       person.get(f"w/{person.walk}/budget").text)  # fmt: skip
    person.take_ledger(total_epsilon="1,5", total_delta="0")
    assert "Train the model" in person.page.text, person.error
    assert warned
    assert warned[1] in person.page.text
    assert Ledger.open(person.folder / "p.ledger").remaining == (1.5, 0.0)


def test_what_speaks_against_a_model_stands_beside_its_scores():
    class Tested:
        auc = accuracy = Score(1.015, 0.02, 0.02, 0.97, 1.0)
        majority = ("nein", Score(0.94, 0.02, 0.02, 0.9, 0.98))

        def verdict(self):
            return "It is not certain that the model beats the answer 'nein' to everybody."

    class Model:
        test_ = Tested()
        privacy_ = type(
            "Promise", (), {"notes": ("a", "3 % have the rarer label: rank records by it.")}
        )

    assert results_module._verdict(Model) == [
        "It is not certain that the model beats the answer 'nein' to everybody.",
        "3 % have the rarer label: sort the predictions by their probability instead.",
    ]
    shown = dict(results_module.scores_of(Model))
    assert str(shown["AUC"]).startswith("1.000 ± 0.020")  # 1.015 cannot be


def test_a_schema_that_was_changed_behind_the_page_starts_nothing(person, patients, monkeypatch):
    pretend(monkeypatch, f"{LINE}reading")
    person.walk_to_training(patients)
    facts = person.folder / "patients.schema.toml"
    said = facts.read_text()
    facts.write_text(said.replace("one row is one person", "one row is one visit"))
    person.train()
    assert "was changed or removed since step 2" in person.error
    assert person.runs.running is None
    facts.write_text(said)
    person.train()
    assert person.runs.running is not None


def test_a_workbook_says_how_to_make_a_table_of_it(person, tmp_path):
    (tmp_path / "x.XLSX").write_bytes(b"PK")
    person.choose("x.XLSX")
    assert "save the sheet as “CSV UTF-8”" in person.error
