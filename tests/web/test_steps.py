"""Steps 1 to 4: what is read, what is guessed, what is refused, and that no cell is ever shown."""

import errno
import os
import re
import tomllib
from pathlib import Path

import pytest
from visitors import SECRET, write_patients

from noisette import Ledger, _files
from noisette.app import studio as web
from noisette.app.studio.chosen import choose, guessed_kind
from noisette.app.studio.facts import split_list
from noisette.core.storage import chain
from noisette.report.html import stylesheet
from noisette.tables import read_schema

HOSTILE = [
    "<script>alert(1)</script>", "\"quotes\" & 'more'", "\u202eright to left", "سن", "👩‍⚕️ emoji",
    "x" * 300, "a,b;c", "{{ 7 * 7 }}", "tab\there",
]  # fmt: skip


def test_kinds_are_guessed_from_names():
    adult = {
        "numeric": "age fnlwgt education-num capital-gain capital-loss hours-per-week",
        "categorical": "workclass education marital-status occupation relationship race sex "
                       "native-country",
    }  # fmt: skip
    for kind, names in adult.items():
        assert {name: guessed_kind(name) for name in names.split()} == dict.fromkeys(
            names.split(), kind
        )
    others = {
        "patientId": "ignore", "zip_code": "hashed", "date of birth": "date", "V1": "", "": "",
        "admitted_at": "date", "is_smoker": "categorical", "x" * 300: "",
    }  # fmt: skip
    assert {name: guessed_kind(name) for name in others} == others


def test_only_the_header_of_two_gigabytes_is_read(person, tmp_path):
    large = tmp_path / "large.csv"
    large.write_bytes(b"age,ward,ill\n\xff\xfe\x00 no text at all")
    os.truncate(large, 2 << 30)  # sparse: takes no room on the disk
    person.choose(large)
    assert "What is public about" in person.page.text
    assert ">age<" in person.page.text


def test_types_of_a_parquet_file_are_a_guess_too(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {"x1": [1.5, 2.0], "x2": ["a", "b"], "x3": [True, False], "row_id": [1, 2]}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    assert choose("t.parquet", tmp_path).kinds == {
        "x1": "numeric", "x2": "categorical", "x3": "categorical", "row_id": "ignore",
    }  # fmt: skip


def test_no_page_before_the_training_shows_a_cell(person, patients):
    person.walk_to_training(patients)
    assert len(person.seen) == 5
    assert not any(SECRET in text for text in person.seen)
    written = [path for path in person.folder.iterdir() if path != patients]
    assert {path.name for path in written} == {"patients.schema.toml", "p.ledger"}
    assert not any(SECRET.encode() in path.read_bytes() for path in written)


def test_what_is_said_becomes_the_schema(person, patients):
    person.choose(patients)
    assert re.search(r'value="ignore" selected', person.page.text)  # patient_id
    person.say_facts(known_1="know", low_1="18", high_1="99.5", missing="?, 999")
    found = read_schema(person.folder / "patients.schema.toml", learn=True)
    assert (found.target, found.classes, found.unit) == (
        "ill", ("no", "yes"), "one row is one person",
    )  # fmt: skip
    assert found.source["columns"]["age"] == {"kind": "numeric", "low": 18, "high": 99.5}
    assert found.source["missing"] == ["?", "999"]
    assert [column.name for column in found.open] == ["ward"]
    assert "patients.schema.toml" in person.page.text


def test_a_step_that_is_said_again_takes_back_what_came_after_but_no_file_of_an_order(
    person, patients
):
    person.walk_to_training(patients)
    walk = person.walk
    kinds = {"kind_0": "ignore", "kind_1": "numeric", "kind_2": "ignore"}
    person.post(f"w/{walk}/facts", target="3", classes="no, yes", unit="other",
                unit_words="a visit", **kinds)  # fmt: skip
    person.post(f"w/{walk}/facts", target="3", classes="no, yes", unit="other",
                unit_words="one visit", **kinds)  # fmt: skip
    files = sorted(person.folder.glob("*.toml"))
    assert [path.name for path in files] == ["patients.schema-2.toml", "patients.schema.toml"]
    units = [read_schema(path, learn=True).unit for path in files]
    assert units == ["one visit", "one row is one person"]  # the order's own file is as it was
    assert "still to be done" in person.get(f"w/{walk}/train").text  # a ledger must be chosen again


def test_persons_and_numbers(person, patients):
    person.choose(patients)
    person.say_facts(unit="person", person="0", max_rows="5")
    text = (person.folder / "patients.schema.toml").read_text()
    assert tomllib.loads(text)["person"] == "patient_id"
    assert "that is all rows with the same" in person.page.text
    person.choose(patients)
    person.say_facts(target="1", answer="number", target_known="know", target_low="0",
                     target_high="120", kind_3="categorical")  # fmt: skip
    found = read_schema(person.folder / "patients.schema-2.toml", learn=True)
    assert found.target_bounds == (0.0, 120.0)
    person.give_budget()
    assert "Which ledger pays?" in person.page.text, person.error


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": ""}, "choose the column to predict"),
        ({"target": "99"}, "choose the column to predict"),
        ({"classes": "yes"}, "at least two"),
        ({"unit": ""}, "what one row stands for"),
        ({"unit": "other", "unit_words": "  "}, "in a few words"),
        ({"unit": "person", "person": ""}, "says whose a row is"),
        ({"unit": "person", "person": "3"}, "cannot also say"),
        ({"unit": "person", "person": "0", "max_rows": "-1"}, "whole number"),
        ({"kind_1": ""}, "what kind of column “age” is"),
        ({"kind_1": "text"}, "what kind of column “age” is"),
        ({"known_1": "know", "low_1": "old", "high_1": "9"}, "lowest value of “age”"),
        ({"known_1": "know", "low_1": "9", "high_1": "1"}, "low must be below high"),
        ({"known_2": "know", "levels_2": ""}, "list the categories of “ward”"),
        ({"kind_0": "ignore", "kind_1": "ignore", "kind_2": "ignore"}, "no column to learn from"),
        ({"target": "1", "answer": "number", "target_known": "know"}, "must be a number"),
    ],
)
def test_a_fact_that_is_missing_or_wrong_is_one_sentence(person, patients, changes, said):
    person.choose(patients)
    person.say_facts(**changes)
    assert said in person.error
    assert person.page.status_code == 200
    assert "What is public about" in person.page.text  # the same page, with what was said
    assert not list(person.folder.glob("*.toml"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": "x"}, "epsilon must be a number"), ({"epsilon": "-1"}, "epsilon must be"),
        ({"delta": "2"}, "delta must"), ({"rows": ""}, "must be a whole number"),
        ({"rows": "1"}, "must be a whole number"), ({"delta": "1e-3"}, "delta"),
        ({"model": "magic"}, "model must be"), ({"adjacency": "other"}, "relation must be"),
    ],
)  # fmt: skip
def test_a_budget_out_of_range_is_one_sentence(person, patients, changes, said):
    person.choose(patients)
    person.say_facts()
    person.give_budget(**changes)
    assert said in person.error
    assert "How much may the model tell" in person.page.text


def test_the_forecast_follows_what_is_typed(person, patients):
    person.choose(patients)
    person.say_facts()
    walk, lost = person.walk, []
    for epsilon in ("0.3", "3"):
        person.post(f"w/{walk}/forecast", epsilon=epsilon, delta="1e-6", rows="2500", test="no")
        lost.append(int(re.search(r"(\d+) % is lost", person.page.text)[1]))
        assert "<html" not in person.page.text  # a part of the page
        assert "right with the model" in person.page.text  # the table of the report
    assert lost[0] > lost[1]
    person.post(f"w/{walk}/forecast", epsilon="", delta="1e-6", rows="2500")
    assert "epsilon must be a number" in person.error
    person.post(f"w/{walk}/forecast", epsilon="1", delta="1e-6", rows=" ")  # nothing typed yet
    assert person.error == ""
    assert "Say about how many rows there are" in person.page.text


def test_rows_are_counted_only_where_their_number_is_public(person, patients):
    person.choose(patients)
    person.say_facts()
    walk = person.walk
    form = {"epsilon": "1", "delta": "1e-6", "rows": "", "test": "no"}
    person.post(f"w/{walk}/count", **form, adjacency="replace-one")
    assert 'value="2500"' in person.page.text
    person.post(f"w/{walk}/count", **form, adjacency="add-remove")
    assert "the number of people is private" in person.error
    assert "2500" not in person.page.text


@pytest.mark.parametrize("step", ["facts", "budget", "ledger", "train"])
@pytest.mark.parametrize("what", ["changed", "gone"])
def test_a_table_that_changes_between_steps_is_noticed(person, patients, step, what):
    person.choose(patients)
    after = {"facts": [], "budget": [person.say_facts]}
    after["ledger"] = [*after["budget"], person.give_budget]
    after["train"] = [*after["ledger"], person.take_ledger]
    for say in after[step]:
        say()
    if what == "gone":
        patients.unlink()
    else:
        with patients.open("a") as file:
            file.write("x,50,y,no\n")
    said = {"facts": person.say_facts, "budget": person.give_budget,
            "ledger": person.take_ledger, "train": person.train}  # fmt: skip
    said[step]()
    words = "any more" if what == "gone" else "was changed or replaced since it was chosen"
    assert words in person.error
    assert person.runs.running is None
    ledger = person.folder / "p.ledger"
    assert not ledger.exists() or Ledger.open(ledger).count == 0


def test_a_table_of_the_same_size_is_noticed_by_its_time(person, patients):
    person.choose(patients)
    text = patients.read_text()
    patients.write_text(text.replace("50", "51"))
    person.say_facts()
    assert "was changed or replaced" in person.error


def test_a_full_disk_is_one_sentence(person, patients, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    person.choose(patients)
    monkeypatch.setattr(_files, "write", full)
    person.say_facts()
    assert "cannot be written (No space left on device); nothing was charged" in person.error


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"choice": "open", "open": "none.ledger"}, "there is no ledger"),
        ({"choice": "open", "open": ""}, "name of a ledger file"),
        ({"choice": "open", "open": "patients.csv"}, "is not a noisette ledger"),
        ({"choice": "open", "open": "."}, "not an ordinary file"),
        ({"choice": "start", "start": "postgresql://u:pw@h/d#x"}, "in files only"),
        ({"total_epsilon": "1"}, "less than this model costs"),
        ({"total_epsilon": "much"}, "two numbers"),
        ({"total_epsilon": "-1"}, "epsilon must be"),
        ({"start": "nowhere/p.ledger"}, "does not exist"),
    ],
)
def test_a_ledger_that_cannot_pay_is_one_sentence(person, patients, form, said):
    person.choose(patients)
    person.say_facts()
    person.give_budget()
    person.take_ledger(**form)
    assert said in person.error
    assert "Which ledger pays?" in person.page.text


def test_a_ledger_in_use_is_one_sentence(person, patients, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    place = person.folder / "busy.ledger"
    Ledger.open(place, 9.0, 1e-5)
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0.2)
    person.choose(patients)
    person.say_facts()
    person.give_budget()
    with place.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        person.take_ledger(choice="open", open="busy.ledger")
    assert "busy.ledger" in person.error
    assert "Nothing was charged" in person.error


def test_a_ledger_of_another_relation_is_refused(person, patients):
    Ledger.open(person.folder / "patients.ledger", 3.0, 1e-5, adjacency="add-remove")
    person.choose(patients)
    person.say_facts()
    person.give_budget()
    assert 'value="open" checked' in person.page.text  # the ledger of this table is offered
    assert "ε 3 and δ 1e-05 left" in person.page.text
    person.take_ledger(choice="open", open="patients.ledger")
    assert "adjacency" in person.error


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "give the path"), ("none.csv", "there is no table"), (".", "is a folder"),
     ("empty.csv", "is empty"), ("twice.csv", "two columns"), ("a\x00b", "give the path")],
)  # fmt: skip
def test_a_table_that_is_none_is_one_sentence(person, tmp_path, text, said):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    person.choose(text)
    assert said in person.error
    assert "Which table?" in person.page.text


def test_a_file_without_a_header_gets_names_and_shows_no_row(person, tmp_path):
    raw = tmp_path / "raw.csv"
    raw.write_text(f"{SECRET}, 39, yes\n{SECRET}, 50, no\n")
    person.choose(raw)
    assert "numbers where names are expected" in person.error
    person.choose(raw, header="row", names="ward, age")
    assert "3 cells, but 2 names" in person.error
    person.choose(raw, header="row", names="ward, age, age")
    assert "same name" in person.error
    person.choose(raw, header="row", names="ward, age, ill")
    assert "What is public about" in person.page.text
    assert not any(SECRET in text for text in person.seen)
    person.choose(raw, header="row")
    assert "column_3" in person.page.text


def test_hostile_names_stay_text(person, tmp_path):
    path = tmp_path / '<img src=x onerror="1">\u202e.csv'
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in [*HOSTILE, "ill"])
    path.write_text(quoted + "\n" + ",".join("1" for _ in HOSTILE) + ",no\n", encoding="utf-8")
    assert "onerror=&#34;1&#34;&gt;" in person.get("").text
    person.choose(path)
    kinds = {f"kind_{k}": "numeric" for k in range(len(HOSTILE))}
    person.post(f"w/{person.walk}/facts", target=str(len(HOSTILE)), classes="no, yes", unit="row",
                **kinds)  # fmt: skip
    assert "How much may the model tell" in person.page.text, person.error
    person.give_budget(rows="100000")
    person.take_ledger()
    assert "Train the model" in person.page.text, person.error
    for text in person.seen:
        shown = re.sub(r' value="[^"]*"', "", text)  # what a form sends back is not shown
        for raw in ("<script>alert", "<img src=x", "\u202e", ">49<", 'onerror="1"'):
            assert raw not in shown
    known = read_schema(next(tmp_path.glob("*.toml")), learn=True)
    assert [column.name for column in known.columns] == HOSTILE


def test_lists_are_read_as_people_write_them():
    assert split_list("no, yes") == split_list("no\n yes\n\n") == ["no", "yes"]
    assert split_list('"a, b", c') == ["a, b", "c"]
    assert split_list(" ") == []


def test_a_walk_of_an_earlier_studio_is_told_so(person):
    assert "has ended; start again" in person.get("w/unknown/facts").text
    assert person.page.status_code == 422
    assert "no such training" in person.get("r/unknown").text


def test_folders_are_listed_without_hidden_files(person, tmp_path):
    (tmp_path / "inner").mkdir()
    write_patients(tmp_path / "inner" / "x.csv", n=3)
    for name in (".hidden.csv", "picture.png", "b.parquet", "A.CSV"):
        (tmp_path / name).write_text("a,b\n")
    text = person.get("").text
    assert [name in text for name in (".hidden.csv", "picture.png", "b.parquet", "A.CSV", "inner/")
            ] == [False, False, True, True, False]  # fmt: skip
    assert ">inner</bdi>/" in text
    assert "x.csv" in person.get(f"?in={tmp_path}/inner").text
    assert "Which table?" in person.get("?in=/nowhere/at/all").text


def test_the_style_has_no_colour_of_its_own():
    """So the contrast that the kit is tested for is that of the studio, by day and by night."""
    style = (Path(web.__file__).parent / "static" / "studio.css").read_text()
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl|url\(|@import|http", style)
    assert set(re.findall(r"var\(--([a-z-]+)\)", style)) <= set(
        re.findall(r"--([a-z-]+): #", stylesheet())
    )
    assert style.count("var(--") > 20


def test_a_delta_that_is_refused_names_one_that_can_be_chosen(person, patients):
    person.choose(patients)
    person.say_facts()
    for rows, fit in (("1,000,000", "1e-7"), ("50000000000", "1e-12")):
        person.give_budget(delta="1e-6", rows=rows)
        assert f"take {fit} or less" in person.error
        assert "common choice" not in person.error
        assert f'<option value="{fit}"' in person.page.text  # no dead end
        person.post(f"w/{person.walk}/forecast", epsilon="1", delta=fit, rows=rows)
        assert "1/n" not in person.error
        person.choose(patients)
        person.say_facts()


def test_an_epsilon_above_10_is_told(person, patients):
    person.choose(patients)
    person.say_facts()
    walk = person.walk
    for epsilon, told in (("10", False), ("10.5", True)):
        person.post(f"w/{walk}/forecast", epsilon=epsilon, delta="1e-6", rows="2500")
        assert ("promises next to nothing" in person.page.text) == told


def test_a_second_ledger_for_the_same_table_is_asked_about(person, patients):
    person.choose(patients)
    person.say_facts()
    person.give_budget()
    kinds = {"patient_id": "", "age": "numeric", "ward": "categorical"}
    Ledger.open(person.folder / "other.ledger", 3.0).remember(kinds)
    person.take_ledger()
    assert "Which ledger pays?" in person.page.text
    assert "other.ledger" in person.page.text
    assert "Other people" in person.page.text
    person.take_ledger(choice="open", open="p.ledger", people="same")
    assert "Which ledger pays?" not in person.page.text
    assert Ledger.open(person.folder / "p.ledger").people == {"other.ledger": True}
