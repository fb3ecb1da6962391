"""What was paid for is written down: receipts beside results, and "collected" in the ledger."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from noisette.audit.receipts import check_charges, check_receipts
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Laplace
from noisette.errors import InvalidParameter, LedgerError

TENTH = Laplace.calibrated(0.1)
ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture(params=["memory", "file", "database"])
def make(request, tmp_path):
    """Ledgers of all kinds behave alike."""
    place = tmp_path / "ledger.db"
    if request.param == "database":
        place = request.getfixturevalue("postgres")()

    def build(*args, **kwargs) -> Ledger:
        if request.param == "memory":
            return Ledger(*args, **kwargs)
        return Ledger.open(place, *args, **kwargs)

    return build


def test_a_charge_is_open_until_its_result_is_kept(make) -> None:
    ledger = make(1.0)
    ledger._awaits = True  # as a command's does
    assert ledger.last_charge is None
    for label in "abcd":
        ledger.charge(TENTH, label=label)
    assert ledger.last_charge == 4
    spent = ledger.spent
    for _ in range(2):  # the same again changes nothing
        ledger.collect(2, ONE, "model")
    ledger.collect(4, TWO)
    assert [charge.collected for charge in ledger.charges] == ["", ONE, "", TWO]
    assert [charge.label for charge in ledger.uncollected()] == ["a", "c"]
    assert [charge.collected for charge in ledger.page(2, 2)] == [ONE, ""]
    assert ledger.page(4, 5)[0].collected == TWO
    assert (ledger.count, ledger.spent) == (4, spent)
    with pytest.raises(LedgerError, match="charge 2 paid for another result"):
        ledger.collect(2, TWO)
    with pytest.raises(LedgerError, match="no charge with number 5"):
        ledger.collect(5, ONE)
    for wrong in ("", "z" * 64, "1" * 63, None):
        with pytest.raises(InvalidParameter, match="SHA-256"):
            ledger.collect(1, wrong)
    ledger.charge(TENTH, label="e")
    assert ledger.count == ledger.last_charge == 5


def test_a_receipt_names_the_place_in_the_chain(make) -> None:
    ledger = make(1.0)
    for label in "abc":
        ledger.charge(TENTH, label=label)
    receipts = [ledger.receipt(number) for number in (1, 2, 3)]
    if not ledger.lasting:
        assert receipts == [None] * 3
        return
    ledger.collect(2, ONE)
    assert [make().receipt(number) for number in (1, 2, 3)] == receipts
    one, two, three = receipts
    assert set(one) == {"format", "ledger", "charge", "before", "after"}
    assert (one["format"], one["charge"]) == (1, 1)
    assert one["before"] == one["ledger"]  # the chain begins with the header
    assert (one["after"], two["after"]) == (two["before"], three["before"])
    with pytest.raises(LedgerError, match="no charge with number 4"):
        ledger.receipt(4)


# ---- ledgers and models beside each other ----


def kept(ledger: Ledger, folder: Path, *, collect: bool = True) -> Path:
    """Charge, and write a model with its receipt as a command does."""
    ledger.charge(TENTH, label=folder.name)
    folder.mkdir(parents=True)
    model = folder / "model.noisette"
    model.write_bytes(folder.name.encode())
    (folder / "receipt.json").write_text(json.dumps(ledger.receipt(ledger.last_charge)))
    if collect:
        ledger.collect(ledger.last_charge, hashlib.sha256(model.read_bytes()).hexdigest())
    return model


def test_a_ledger_that_was_set_back_is_noticed_by_a_new_process(tmp_path) -> None:
    book, models = tmp_path / "b.ledger", tmp_path / "models"
    ledger = Ledger.open(book, 1.0)
    kept(ledger, models / "one")
    ledger.copy_to(tmp_path / "backup")
    kept(ledger, models / "two")
    assert check_receipts(Ledger.open(book), models) == ([], [], [], 0)
    shutil.copy(tmp_path / "backup", book)
    (sentence,) = check_receipts(Ledger.open(book), models).set_back
    assert "two/receipt.json shows charge 2, which is not in" in sentence
    Ledger.open(book).charge(TENTH, label="another second one")  # the number alone shows nothing
    assert len(check_receipts(Ledger.open(book), models).set_back) == 1


def test_rows_of_a_servers_backup_are_noticed_by_a_new_process(postgres, tmp_path) -> None:
    psycopg = pytest.importorskip("psycopg")
    address = postgres()
    ledger = Ledger.open(address, 1.0)
    kept(ledger, tmp_path / "one")
    kept(ledger, tmp_path / "two")
    assert check_receipts(Ledger.open(address), tmp_path) == ([], [], [], 0)
    where, _, name = address.partition("#")
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("DELETE FROM noisette_records WHERE ledger = %s AND number > 2", (name,))
    assert "two" in check_receipts(Ledger.open(address), tmp_path).set_back[0]


def test_what_nobody_paid_for_and_what_nobody_collected(tmp_path) -> None:
    models = tmp_path / "models"
    ledger = Ledger.open(tmp_path / "b.ledger", 1.0)
    ledger._awaits = True
    kept(ledger, models / "one")
    shutil.rmtree(kept(ledger, models / "open", collect=False).parent)
    changed = kept(ledger, models / "changed")
    changed.write_bytes(b"trained again without a charge")
    kept(Ledger.open(tmp_path / "c.ledger", 1.0), models / "other")
    (models / "bare.noisette").write_bytes(b"")
    found = check_receipts(ledger, models)
    assert (found.set_back, found.uncollected, found.others) == ([], [2], 1)
    assert [sentence.split()[-1] for sentence in found.unpaid] == ["for", "receipt"]
    assert "charge 3" in found.unpaid[0]
    scores = models / "scores.json"
    ledger.charge(TENTH, label="scores")
    scores.write_text(json.dumps({"accuracy": 0.8, "receipt": ledger.receipt(4)}))
    ledger.collect(4, hashlib.sha256(scores.read_bytes()).hexdigest())
    assert check_receipts(ledger, models) == found
    scores.write_text(scores.read_text().replace("0.8", "0.9"))
    assert "scores.json" in check_receipts(ledger, models).unpaid[1]
    forged = json.dumps(ledger.receipt(1) | {"charge": True})
    for text in ("[" * 100_000, "[]", "7", '{"ledger": "x"}', "", "{}", forged):
        (models / "one" / "receipt.json").write_text(text)
        unpaid = check_receipts(ledger, models).unpaid
        assert any("one/receipt.json is no receipt" in sentence for sentence in unpaid)
        assert any("one/model.noisette has no receipt" in sentence for sentence in unpaid)


def test_one_receipt_pays_for_one_model(tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "b.ledger", 1.0)
    ledger._awaits = True
    for name, collect in (("one", True), ("two", False)):
        folder = kept(ledger, tmp_path / "models" / name, collect=collect).parent
        assert check_receipts(ledger, tmp_path / "models") == ([], [], [], 0)  # it lies there
        (folder / "more.noisette").write_bytes(b"trained again without a charge")
        assert len(check_receipts(ledger, tmp_path / "models").unpaid) == 1
        (folder / "more.noisette").unlink()
    shutil.copytree(folder, tmp_path / "models" / "copy")
    assert check_receipts(ledger, tmp_path / "models") == ([], [], [], 0)
    (tmp_path / "models" / "copy" / "model.noisette").write_bytes(b"another one")
    assert len(check_receipts(ledger, tmp_path / "models").unpaid) == 1
    hidden = tmp_path / "models" / ".x.noisette-draft-00000000-a"
    (tmp_path / "models" / "two").rename(hidden)
    shutil.rmtree(tmp_path / "models" / "copy")
    assert check_receipts(ledger, tmp_path / "models") == ([], [], [2], 0)


def test_what_a_program_paid_for_it_has(make) -> None:
    """Every fit in Python once stood in the list for ever."""
    ledger = make(1.0)
    ledger.charge(TENTH, label="x")
    assert ledger.uncollected() == []
    ledger.collect(1, ONE)
    assert ledger.charges[0].collected == ONE


# ---- the format before ----

OLD = Path(__file__).parents[1] / "fixtures" / "format2.ledger"


def test_a_file_of_format_2_is_read_and_goes_on(tmp_path) -> None:
    book = tmp_path / "old.ledger"
    shutil.copy(OLD, book)
    ledger = Ledger.open(book, 3.0, 1e-5)
    labels = ["mean age", "a run", "mean stay"]
    assert [charge.label for charge in ledger.charges] == labels
    assert {charge.collected for charge in ledger.charges} == {"unknown"}
    assert ledger.uncollected() == []
    assert ledger.charges[0].booked == "2026-11-17T20:22:34Z"
    check_charges(ledger)
    ledger.charge(TENTH, label="new")
    ledger.collect(2, ONE)
    assert ledger.resume(2).drawn() == 0
    ledger.remember({"age": "number"})
    fresh = Ledger.open(book)
    assert [charge.label for charge in fresh.charges] == [*labels, "new"]
    assert [charge.collected for charge in fresh.charges] == ["unknown", ONE, "unknown", "unknown"]
    assert book.read_bytes()[:4096] == OLD.read_bytes()[:4096]
    assert fresh.receipt(4)["charge"] == 4


# ---- no clock ----


def test_only_the_day_is_in_the_books(tmp_path) -> None:
    """Seconds told how long a search took, and so how many runs it had."""
    book = tmp_path / "b.ledger"
    ledger = Ledger.open(book, 1.0)
    ledger.charge(TENTH, label="x")
    ledger.collect(1, ONE)
    (charge,) = ledger.charges
    assert len(charge.booked) == len("2026-11-17")
    assert b":" not in charge.booked.encode()
    for line in book.read_bytes()[3 * 4096 :].splitlines():
        assert json.loads(line[65:]).get("booked", charge.booked) == charge.booked


# ---- a second ledger for the same table ----

TABLE = {"age": "number", "ward": "category"}


@pytest.fixture(params=["file", "database"])
def beside(request, tmp_path):
    """Two ledgers beside each other, and a copy of the first, which is no second budget."""
    if request.param == "file":
        places = [tmp_path / "one.ledger", tmp_path / "two.ledger"]
        Ledger.open(places[0], 1.0).copy_to(tmp_path / "copy.ledger")
        (tmp_path / "broken.ledger").write_bytes(b"noisette ledger 3\nbroken")
        (tmp_path / "notes.txt").write_text("noise")
    else:
        places = [request.getfixturevalue("postgres")() for _ in range(2)]
    return [Ledger.open(place, 1.0, table=name) for place, name in zip(places, "ab", strict=True)]


def test_a_second_ledger_for_the_same_table_is_noticed(beside) -> None:
    one, two = beside
    columns = TABLE | {f"only here {one.id[:9]}": "number"}
    for _ in range(2):
        one.remember(columns)
    assert one.tables == [("a", columns)]
    assert one.matching() == []
    edited = dict(reversed(columns.items())) | {"ward": "text"}
    assert two.matching(edited) == [one.title]
    assert two.matching() == two.matching(TABLE) == []
    with pytest.raises(LedgerError, match="there is no ledger nowhere beside"):
        two.answer("nowhere", same=True)
    with pytest.raises(InvalidParameter, match="same must be True or False"):
        two.answer(one.title, same="no")
    two.remember(columns)
    assert one.matching() == [two.title]
    two.answer(one.title, same=True)
    assert one.matching() == two.matching() == []
    assert list(one.people.values()) == list(two.people.values()) == [True]
    assert "what both spend adds up" in one.people_words[0]
    one.answer(two.title, same=False)
    assert list(two.people.values()) == [False]
    assert one.count == two.count == 0
    with pytest.raises(InvalidParameter, match="columns must be texts"):
        one.remember({"age": 3})
    one.charge(TENTH, label="x")
    assert len(one.charges) == 1


def test_memory_has_no_other_ledger_beside_it() -> None:
    ledger = Ledger(1.0)
    ledger.remember(TABLE)
    assert (ledger.tables, ledger.matching(), ledger.people) == ([("", TABLE)], [], {})
