"""What was paid for is written down: receipts beside results, and "collected" in the ledger."""

import pytest

from noisette.errors import InvalidParameter, LedgerError
from noisette.mechanisms import Laplace
from noisette.privacy import Ledger

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
