"""The ledger: what fits is booked once, what does not fit or is wrong leaves no trace."""

import copy
import math
import os
import pickle
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from helpers import hockey_stick_of_gaussians, in_fork
from noisette import LogisticRegression
from noisette.core import sampling
from noisette.core.accounting.filters import FILTERS
from noisette.core.adjacency import REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Exponential, Gaussian, Laplace, SphericalLaplace
from noisette.core.plans import Declared, Plan, Repeat, Run, Sampled
from noisette.errors import (
    AdjacencyMismatch,
    BudgetExceeded,
    InvalidParameter,
    LedgerError,
    NoisetteError,
    Unproven,
)

TENTH = Laplace.calibrated(0.1)


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


def folder(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(path.iterdir()) if p.is_file()}


# ---- which model ----


def test_the_books_say_which_model(make, rng):
    ledger = make(4.0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    model = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger).fit(X, y)
    ledger.charge(TENTH, label="mean age", model="my own")
    ledger.charge(TENTH, label="mean stay")
    assert [(charge.label, charge.model) for charge in ledger.charges] == [
        ("fit (objective perturbation)", "LogisticRegression"),
        ("mean age", "my own"),
        ("mean stay", ""),
    ]
    with pytest.raises(BudgetExceeded, match=r"'fit \(.*\)' of LogisticRegression costs 3 in"):
        model.set_params(epsilon=3.0).fit(X, y)
    for wrong in (None, 3, "\ud800"):
        with pytest.raises(InvalidParameter, match="model must be a text"):
            ledger.charge(TENTH, label="x", model=wrong)
    assert ledger.count == 3


# ---- sums ----


def test_ten_tenths_fit_and_the_eleventh_does_not(make):
    ledger = make(1.0)
    for i in range(10):
        permit = ledger.charge(TENTH, label=f"part {i}")
        assert permit.epsilon <= 0.1
    assert ledger.spent == (pytest.approx(1.0, abs=1e-15), 0.0)
    assert ledger.spent[0] <= 1.0
    with pytest.raises(BudgetExceeded, match=r"'more' costs 0.1 in epsilon but 0 is left"):
        ledger.charge(TENTH, label="more")
    assert [c.label for c in ledger.charges] == [f"part {i}" for i in range(10)]
    assert ledger.remaining == (pytest.approx(0.0, abs=1e-15), 0.0)


def test_exact_tenths_are_added_with_one_rounding(make):
    """Adding 0.1 ten times one by one gives 0.9999999999999999, and eleven would seem to fit."""
    ledger = make(1.0)
    for _ in range(10):
        ledger.charge(Declared(0.1), label="x")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Declared(1e-12), label="x")
    assert ledger.spent == (1.0, 0.0)


def test_a_charge_books_the_plan_itself(make):
    ledger = make(3.0, 1e-5, adjacency="zero-out")
    plan = Repeat(Sampled(Gaussian(2.0), sampling.Poisson(0.1)), 7)
    permit = ledger.charge(plan, label="fit", delta=1e-6)
    (charge,) = ledger.charges
    assert Plan.from_json(charge.plan) == plan.under(ZERO_OUT) == permit.plan
    assert charge.cost == (permit.epsilon, 1e-6)
    assert charge.label == "fit"
    assert "zero-out" in repr(ledger)


def test_delta_is_money_as_well(make):
    ledger = make(100.0, 1e-6)
    ledger.charge(Gaussian(50.0), label="a", delta=6e-7)
    with pytest.raises(BudgetExceeded, match=r"6e-07 in delta where 4e-07 is left"):
        ledger.charge(Gaussian(50.0), label="b", delta=6e-7)
    ledger.charge(Gaussian(50.0), label="c", delta=4e-7)
    with pytest.raises(Unproven, match="larger delta"):
        ledger.charge(Gaussian(50.0), label="d")
    assert [c.label for c in ledger.charges] == ["a", "c"]


def test_the_terms_of_a_ledger_cannot_be_rewritten() -> None:
    book = Ledger(1.0, 1e-6)
    for name, value in (
        ("adjacency", Adjacency.ADD_REMOVE), ("epsilon", 9.0), ("delta", 0.1), ("rule", "gdp"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(book, name, value)
    assert book.charge(Laplace(4.0), label="x").adjacency is Adjacency.REPLACE_ONE


def test_another_relation_is_refused_by_name(make):
    ledger = make(5.0, adjacency="add-remove")
    with pytest.raises(AdjacencyMismatch, match=r"zero-out.*add-remove"):
        ledger.charge(Run(Laplace(1.0), adjacency=ZERO_OUT), label="x")
    with pytest.raises(Unproven, match="random-allocation"):
        ledger.charge(Sampled(Laplace(1.0), sampling.Shuffle(5)), label="x")
    assert ledger.charges == []


BAD_CHARGES = [
    ({"plan": "gaussian"}, InvalidParameter),
    ({"plan": None}, InvalidParameter),
    ({"label": ""}, InvalidParameter),
    ({"label": None}, InvalidParameter),
    ({"delta": 1.0}, InvalidParameter),
    ({"delta": False}, InvalidParameter),
    ({"plan": Laplace(0.001)}, BudgetExceeded),
    ({"plan": Gaussian(1.0)}, Unproven),
    ({"plan": Exponential(0.1, True)}, Unproven),
    ({"plan": Run(TENTH, adjacency=ZERO_OUT)}, AdjacencyMismatch),
    (
        {"label": "\ud800"},
        InvalidParameter,
    ),  # Was: UnicodeEncodeError in a file, fine in memory
]


@pytest.mark.parametrize(("change", "error"), BAD_CHARGES, ids=str)
def test_a_bad_charge_books_nothing(make, change, error):
    ledger = make(1.0, 1e-6)
    ledger.charge(TENTH, label="good")
    before = ledger.charges, ledger.spent
    call = {"plan": TENTH, "label": "bad", **change}
    with pytest.raises(error):
        ledger.charge(call.pop("plan"), **call)
    assert (ledger.charges, ledger.spent) == before
    ledger.charge(TENTH, label="still works")


BAD_TOTALS = [{"epsilon": bad} for bad in (math.inf, True, None)]
BAD_TOTALS += [{"delta": bad} for bad in (1.0, True, None)]
BAD_TOTALS += [{"adjacency": "swap"}, {"rule": "magic"}, {"rule": None}, {"rule": "gdp"}]


@pytest.mark.parametrize("change", BAD_TOTALS, ids=str)
def test_a_bad_total_is_refused_and_no_file_is_made(tmp_path, change):
    call = {"epsilon": 1.0, **change}
    with pytest.raises(InvalidParameter) as caught:
        Ledger(**call)
    assert str(caught.value).endswith(".")
    if None in change.values():
        return  # for a file None means "as the file says"
    with pytest.raises(InvalidParameter):
        Ledger.open(tmp_path / "ledger.db", **call)
    assert list(tmp_path.iterdir()) == []


def test_a_reading_point_without_a_bound_is_not_charged(make):
    # Was: delta=0 for Gaussian noise is booked and gives a permit with epsilon = inf.
    ledger = make(1.0, 1e-6, rule="gdp")
    with pytest.raises(NoisetteError):
        ledger.charge(Gaussian(20.0), label="x", delta=0.0)
    assert ledger.charges == []


# ---- the other rules, and adaptivity ----


def independent_total(rule: str, plans: list, epsilon: float) -> float:
    """delta at the total epsilon of all accepted Gaussians, by the exact Gaussian curve."""
    mu2 = sum(4.0 * times / z**2 for z, times in plans)  # replace-one: mu = 2 / z
    return hockey_stick_of_gaussians(math.sqrt(mu2), epsilon) if mu2 else 0.0


@pytest.mark.parametrize("rule", ["renyi", "gdp", "sums"])
def test_adaptive_charges_never_pass_the_total(make, rule, rng):
    """Each charge is chosen from the last answer: greedy, halving, random; 120 requests."""
    epsilon, delta = 3.0, 1e-5
    ledger = make(epsilon, delta, rule=rule)
    accepted, z, refused = [], 3.0, 0
    for i in range(120):
        times = int(rng.integers(1, 4))
        share = {"delta": 1e-7} if rule == "sums" else {}
        try:
            ledger.charge(Repeat(Gaussian(z), times), label=f"{i}", **share)
        except BudgetExceeded:
            refused += 1
            z *= float(rng.uniform(1.0, 1.6))  # ask for less after a refusal
        else:
            accepted.append((z, times))
            z *= float(rng.uniform(0.6, 1.2))  # be greedy after a success
    assert refused
    assert len(accepted) == len(ledger.charges) > 3
    limit = FILTERS[rule](epsilon, delta).limit
    slack = 1 + FILTERS[rule].slack
    assert all(spent <= most * slack for spent, most in zip(ledger.spent, limit, strict=True))
    assert independent_total(rule, accepted, epsilon) <= delta


def test_gdp_is_used_up_to_the_last_bit_and_beats_renyi_and_sums(make):
    counts = {}
    for rule in ("gdp", "renyi", "sums"):
        ledger = Ledger(1.0, 1e-6, rule=rule)
        share = {"delta": 1e-8} if rule == "sums" else {}
        counts[rule] = 0
        while True:
            try:
                ledger.charge(Gaussian(100.0), label="x", **share)
            except BudgetExceeded:
                break
            counts[rule] += 1
    assert counts["gdp"] > counts["renyi"] > counts["sums"] > 1
    mu2 = 4.0 / 100.0**2
    assert hockey_stick_of_gaussians(math.sqrt(counts["gdp"] * mu2), 1.0) <= 1e-6
    assert hockey_stick_of_gaussians(math.sqrt((counts["gdp"] + 1) * mu2), 1.0) > 1e-6


def test_mixed_noise_under_the_renyi_rule(make):
    """Accepted until full; the sum at the ledger's own order is re-computed from the parts."""
    ledger = make(2.0, 1e-6, rule="renyi")
    order = FILTERS["renyi"](2.0, 1e-6).order
    pool = [Gaussian(60.0), SphericalLaplace(90.0, 20), Laplace(80.0), Exponential(0.02)]
    total, full = 0.0, False
    for i in range(4000):
        plan = Repeat(pool[i % 4], 50)
        cost = 50 * float(pool[i % 4].renyi(np.array([order]), REPLACE_ONE)[0])
        try:
            ledger.charge(plan, label="x")
        except BudgetExceeded:
            full = True
            break
        total += cost
    assert full
    limit = 2.0 - math.log(1 - 1 / order) + (math.log(1e-6) + math.log(order)) / (order - 1)
    assert total == pytest.approx(ledger.spent[0], rel=1e-9)
    assert total <= limit < total + cost


# ---- processes and threads ----


def test_a_memory_ledger_is_refused_in_a_forked_child():
    ledger = Ledger(1.0)
    error = in_fork(lambda: ledger.charge(TENTH, label="child"))
    assert isinstance(error, LedgerError)
    assert "Ledger.open" in str(error)
    assert ledger.charges == []
    ledger.charge(TENTH, label="parent")


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_memory_ledger_cannot_be_doubled(way):
    """Two copies would allow twice the budget."""
    ledger = Ledger(1.0)
    with pytest.raises((NoisetteError, TypeError)):
        way(ledger)
    twin = copy.copy(ledger)  # a shallow copy shares the book
    twin.charge(TENTH, label="x")
    assert len(ledger.charges) == 1


def test_a_file_ledger_works_in_children_and_in_a_copy(tmp_path):
    ledger = Ledger.open(tmp_path / "l.db", 1.0)
    for i in range(5):
        permit = in_fork(lambda i=i: ledger.charge(TENTH, label=f"child {i}").epsilon)
        assert permit <= 0.1
    pickle.loads(pickle.dumps(ledger)).charge(TENTH, label="copy")
    assert len(ledger.charges) == 6
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace.calibrated(0.5), label="too much")


def test_threads_never_overspend(make):
    ledger = make(1.0)
    accepted, barrier = [], threading.Barrier(8)

    def work(name):
        barrier.wait()
        for i in range(4):
            try:
                ledger.charge(TENTH, label=f"{name}-{i}")
                accepted.append(f"{name}-{i}")
            except BudgetExceeded:
                continue

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 10
    assert sorted(accepted) == sorted(c.label for c in ledger.charges)


# ---- the file ----


def test_reopening_keeps_everything(tmp_path):
    path = tmp_path / "ledger.db"
    first = Ledger.open(path, 2.0, 1e-5, adjacency="zero-out", rule="renyi")
    first.charge(Gaussian(30.0), label="one")
    again = Ledger.open(path)
    assert repr(again) == repr(first)
    assert again.charges == first.charges
    assert again.spent == first.spent
    same = Ledger.open(str(path), 2.0, 1e-5, adjacency=ZERO_OUT, rule="renyi")
    same.charge(Gaussian(30.0), label="two")
    assert [c.label for c in first.charges] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("epsilon", 2.0), ("delta", 1e-5), ("adjacency", "zero-out"), ("rule", "renyi")],
)
def test_another_header_is_refused_by_name(tmp_path, name, other):
    path = tmp_path / "ledger.db"
    Ledger.open(path, 1.0, 1e-6)
    before = folder(tmp_path)
    with pytest.raises(LedgerError, match=name) as caught:
        Ledger.open(path, **{"epsilon": 1.0, "delta": 1e-6, name: other})
    assert str(other) in str(caught.value)
    with pytest.raises(LedgerError, match=name):
        Ledger.open(path, **{name: other})
    assert folder(tmp_path) == before


def test_only_an_ordinary_file_becomes_a_ledger(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(LedgerError, match="is not an ordinary file; nothing was written"):
            Ledger.open(path, 1.0)
    assert pipe.is_fifo()


def test_a_missing_file_or_folder_is_said_and_nothing_is_written(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no ledger at .*epsilon="):
        Ledger.open(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="folder"):
        Ledger.open(tmp_path / "no" / "ledger.db", 1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was_opened(tmp_path, monkeypatch):
    # Was: after chdir the charge is booked in another ledger of the same name.
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Ledger.open("ledger.db", 1.0 if name == "a" else 100.0)
    monkeypatch.chdir(tmp_path / "a")
    ledger = Ledger.open("ledger.db")
    monkeypatch.chdir(tmp_path / "b")
    ledger.charge(Laplace.calibrated(0.9), label="x")
    assert len(Ledger.open(tmp_path / "a" / "ledger.db").charges) == 1
    assert Ledger.open(tmp_path / "b" / "ledger.db").charges == []


def test_a_file_that_was_exchanged_cannot_be_overspent(tmp_path):
    # Was: an open ledger does not look at the header again, so it uses its old, larger total.
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 100.0)
    for leftover in tmp_path.iterdir():
        leftover.unlink()
    Ledger.open(path, 1.0)
    with pytest.raises(NoisetteError):
        ledger.charge(Laplace.calibrated(5.0), label="x")
    assert Ledger.open(path).spent[0] <= 1.0


def test_a_file_that_vanished_is_not_silently_made_anew(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 1.0)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    with pytest.raises(LedgerError):
        ledger.charge(TENTH, label="x")
    # Was: an empty file is left behind.
    assert list(tmp_path.iterdir()) == []


# ---- what the file system refuses ----


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write")
def test_a_folder_that_cannot_be_written_is_said():
    with pytest.raises(LedgerError, match="writable"):
        Ledger.open("/proc/ledger.db", 1.0)


def test_a_folder_is_not_a_ledger(tmp_path):
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path, 1.0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_said(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, 1.0)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(LedgerError, match="writable"):
            ledger.charge(TENTH, label="x")
    finally:
        tmp_path.chmod(0o755)
