"""The page about a budget: what was spent when on what, what is left, and no password."""

import pytest
from test_page import parsed
from typer.testing import CliRunner

from noisette import Ledger
from noisette.app.commands.app import app
from noisette.core import mechanisms
from noisette.report import ledger_page
from noisette.report.ledgers import _SHOWN


def text_of(page):
    return " ".join(parsed(page).text)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "people.ledger"
    Ledger.open(path, epsilon=4.0, delta=1e-5)
    first, second = (Ledger.open(path, table=name) for name in ("old.csv", "new.csv"))
    first.charge(mechanisms.Laplace(8.0), label="mean age")
    first.charge(mechanisms.Laplace(8.0), label="mean stay")
    second.charge(
        mechanisms.Gaussian(15.0), label="risk model", delta=1e-6, epsilon=0.75, model="Risk<b>"
    )
    return path


def test_it_says_what_was_spent_on_what_and_what_is_left(book):
    ledger = Ledger.open(book)
    text = text_of(ledger_page(ledger, "people.ledger", "2026-11-17"))
    for words in ("people.ledger", "2026-11-17", "mean age", "risk model", "new.csv", "By table",
                  "ε = 1.25, δ = 10⁻⁶", "ε = 2.75, δ = 9 × 10⁻⁶", "31.2 %", "10 %",
                  "past and future", "a factor of 54.6", "Risk<b>"):  # fmt: skip
        assert words in text
    assert ledger.charges[0].booked[:16].replace("T", " ") in text


def test_one_table_needs_no_sum_by_table():
    ledger = Ledger(2.0, table="only.csv")
    ledger.charge(mechanisms.Laplace(8.0), label="mean")
    assert "By table" not in text_of(ledger_page(ledger, "x"))


@pytest.mark.parametrize("rule", ["renyi", "gdp"])
def test_other_rules_speak_in_their_own_unit(rule):
    ledger = Ledger(2.0, 1e-6, rule=rule)
    ledger.charge(mechanisms.Gaussian(50.0), label="first", delta=1e-6)
    text = text_of(ledger_page(ledger, "x"))
    assert {"renyi": "Rényi cost = ", "gdp": "μ² = "}[rule] in text
    assert "δ spent" not in text


def test_of_very_many_charges_the_latest_are_shown():
    ledger = Ledger(5000.0)
    for k in range(_SHOWN + 3):
        ledger.charge(mechanisms.Laplace(8.0), label=f"charge-{k + 1:04d}")
    text = text_of(ledger_page(ledger, "x"))
    assert "charge-0003" not in text
    assert "charge-0004" in text
    assert f"The latest {_SHOWN} of {_SHOWN + 3} charges" in text


def test_persons_are_named():
    ledger = Ledger(2.0)
    ledger.charge(mechanisms.Laplace(8.0), label="mean", unit="person")
    text = text_of(ledger_page(ledger, "x"))
    assert "in total, for each person" in text
    assert "Were all rows of any one person different" in text


def test_the_command_writes_it(book, tmp_path):
    page = tmp_path / "book.html"
    done = run("ledger", book, "--html", page)
    assert done.exit_code == 0
    assert f"wrote {page}" in done.output.replace("\n", "")
    assert "risk model" in page.read_text(encoding="utf-8")
    assert run("ledger", book, "--html", page).exit_code != 0  # nothing is replaced unasked
    assert run("ledger", book, "--html", page, "--force").exit_code == 0
    before = book.read_bytes()
    assert run("ledger", book, "--html", book, "--force").exit_code != 0
    assert book.read_bytes() == before


def test_a_ledger_in_a_database_shows_no_password(postgres, tmp_path):
    address = postgres()
    head, rest = address.split("://", 1)
    account, _, place = rest.rpartition("@")
    secret = f"{head}://{account.split(':')[0] or 'postgres'}:sesame@{place}"
    Ledger.open(address, 2.0, table="people.csv").charge(mechanisms.Laplace(8.0), label="mean age")
    page = tmp_path / "book.html"
    done = run("ledger", secret, "--html", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "mean age" in text
    assert "sesame" not in text + done.output
    assert address.rpartition("#")[2] in text  # its name
    assert run("ledger", secret.rpartition("#")[0], "--html", page).exit_code != 0
