"""What a hostile reading of ledger, permit, guarantee and door found, each with its test."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.errors import InvalidParameter, LedgerError, PermitError
from noisette.guarantee import Guarantee
from noisette.mechanisms import Exponential, Gaussian, Laplace, RandomizedResponse
from noisette.plans import Plan, Repeat, Run
from noisette.privacy import Ledger, Permit, release
from noisette.randomness import Randomness

PLAN = Repeat(Run(Gaussian(50.0)), 20)
VALUE = Bounded(np.zeros(3), contribution=1.0, adjacency=Adjacency.REPLACE_ONE, proof="CLIP")


def ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger.db", 6.0, 1e-5, experiment=True)


def started(folder: Path, *, seed: int | None, draws: int) -> Permit:
    permit = ledger(folder).charge(
        PLAN, label="run", delta=1e-6, resumable=True, seeded=seed is not None
    )
    source = Randomness.secure() if seed is None else Randomness.from_seed(seed)
    for _ in range(draws):
        release(VALUE, permit, source)
    return permit


# ------------------------------------------------------------------ a resumed run and its seed


@pytest.mark.parametrize("settled", [True, False])
def test_a_successor_knows_that_the_noise_was_seeded(tmp_path: Path, settled: bool) -> None:
    first = started(tmp_path, seed=7, draws=20)
    if settled:
        first.settle()
    second = ledger(tmp_path).resume(first.number)
    guarantee = second.guarantee("a model")  # it draws nothing itself
    assert guarantee.seeded
    assert "void" in guarantee.statement()
    assert guarantee.proofs == first.guarantee("a model").proofs
    assert "CLIP" in guarantee.proofs


def test_a_run_charged_for_secret_noise_draws_no_seeded_noise(tmp_path: Path) -> None:
    first = started(tmp_path, seed=None, draws=1)
    for permit in (first, ledger(tmp_path).resume(first.number)):
        left = permit.draws_left()
        with pytest.raises(LedgerError, match="booked for secret noise"):
            release(VALUE, permit, Randomness.from_seed(1))
        assert permit.draws_left() == left
        assert not permit.guarantee("a model").seeded


def test_a_secure_run_stays_secure(tmp_path: Path) -> None:
    first = started(tmp_path, seed=None, draws=3)
    second = ledger(tmp_path).resume(first.number)
    assert second.drawn() >= 3
    assert not second.guarantee("a model").seeded


# ----------------------------------------------------------------------- a ledger that forgets


def test_an_older_copy_put_in_place_while_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    book = Ledger.open(path, 1.0)
    book.charge(Laplace(4.0), label="first")
    shutil.copy(path, tmp_path / "backup.db")
    book.charge(Laplace(4.0), label="second")
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(LedgerError, match="lacks charges"):
        book.charge(Laplace(4.0), label="third")
    with pytest.raises(LedgerError, match="lacks charges"):
        _ = book.remaining
    assert len(Ledger.open(path).charges) == 1  # nothing was booked in the wrong file


def test_a_new_ledger_has_one_name_and_no_litter(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.db", 1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]
    assert (tmp_path / "ledger.db").stat().st_nlink == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_settle(tmp_path: Path) -> None:
    """It would write the counts of the time of the fork, and free what the parent drew since."""
    permit = started(tmp_path, seed=None, draws=2)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        try:
            permit.settle()
        except PermitError:
            os._exit(3)
        os._exit(0)
    release(VALUE, permit, Randomness.secure())
    permit.settle()
    os.write(go, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert ledger(tmp_path).resume(permit.number).drawn() == 3


def test_the_terms_of_a_ledger_cannot_be_rewritten() -> None:
    book = Ledger(1.0, 1e-6)
    for name, value in (
        ("adjacency", Adjacency.ADD_REMOVE), ("epsilon", 9.0), ("delta", 0.1), ("rule", "gdp"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(book, name, value)
    assert book.charge(Laplace(4.0), label="x").adjacency is Adjacency.REPLACE_ONE


# ------------------------------------------------------------------------------ what is on file


def written() -> dict[str, object]:
    permit = Ledger(1.0).charge(Laplace(4.0), label="mean")
    one = Bounded(np.zeros(1), contribution=1.0, adjacency=Adjacency.REPLACE_ONE, proof="CLIP")
    release(one, permit, Randomness.from_seed(3))
    node: dict[str, object] = json.loads(permit.guarantee("a mean").to_json())
    assert node["seeded"] is True
    return node


@pytest.mark.parametrize("value", [0, None, "", "false", [], 0.0])
def test_only_a_plain_no_says_that_noise_was_not_seeded(value: object) -> None:
    with pytest.raises(InvalidParameter, match="seeded"):
        Guarantee.from_dict({**written(), "seeded": value})


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(1.0, "1"), (0.1 * 3, "0.3"), (1.0000004, "1.00001"), (0.12345649, "0.123457"),
     (9.9999994, "10"), (1.23456e-5, "1.23456e-05"), (1.234561e-5, "1.23457e-05"),
     (123456.2, "123457"), (1234567.0, "1.23457e+06")],
)  # fmt: skip
def test_the_statement_never_rounds_a_promise_down(epsilon: float, shown: str) -> None:
    plan = Run(Laplace.calibrated(epsilon)).under("replace-one")
    words = Guarantee(epsilon=epsilon, delta=0.0, plan=plan, released="a mean").statement()
    assert f"with epsilon = {shown} (pure" in words


def test_the_proofs_of_the_plan_cannot_be_left_out() -> None:
    read = Guarantee.from_dict({**written(), "proofs": []})
    assert read.proofs == ("LAPLACE-1D", "FULL-BATCH", "FLOAT-GRID")


@pytest.mark.parametrize("field", ["public", "proofs", "notes"])
@pytest.mark.parametrize("value", ["CLIP", [1, 2], {"a": "b"}, 5, None])
def test_lists_of_texts_are_lists_of_texts(field: str, value: object) -> None:
    with pytest.raises(InvalidParameter):
        Guarantee.from_dict({**written(), field: value})


def test_numbers_that_are_no_floats_are_bad_input() -> None:
    text = PLAN.under("replace-one").to_json()
    assert '"noise_multiplier": 50.0' in text
    with pytest.raises(InvalidParameter):
        Plan.from_json(text.replace("50.0", "1" + "0" * 400))
    with pytest.raises(InvalidParameter):
        Guarantee.from_dict({**written(), "epsilon": 10**400})
    with pytest.raises(InvalidParameter):
        Guarantee.from_json("[" * 100_000)


# ----------------------------------------------------------------------------- choosing by noise


def scores(values: list[float], linf: float) -> Bounded:
    return Bounded(
        np.array(values), linf=linf, adjacency=Adjacency.REPLACE_ONE, proof="EXPONENTIAL-BR"
    )


def test_a_choice_without_noise_is_refused_before_it_is_booked() -> None:
    """2 linf / epsilon rounds to 0: the best candidate itself would have come out."""
    permit = Ledger(1e6).charge(Exponential(1e5), label="choice")
    with pytest.raises(PermitError, match="noise scale"):
        release(scores([0.0, 1e-320], 1e-320), permit, Randomness.secure())
    assert permit.draws_left() == 1


def test_a_large_common_part_of_the_scores_does_not_swallow_the_noise() -> None:
    """Equal scores of 1e17 swallowed the noise, and the first candidate always won."""
    permit = Ledger(300.0).charge(Repeat(Exponential(1.0), 200), label="choices")
    source = Randomness.from_seed(11)
    chosen = [release(scores([1e17] * 4, 1.0), permit, source) for _ in range(200)]
    # each count is Bin(200, 1/4); fewer than 20 has probability below 1e-7
    assert min(np.bincount(chosen, minlength=4)) >= 20


class Smallest(np.random.Generator):
    """Uniform numbers that are all 0, which happens once in 2^53."""

    def random(self, size=None, dtype=np.float64, out=None):  # type: ignore[no-untyped-def]
        return np.zeros(size)


@pytest.mark.parametrize("epsilon", [36.9, 50.0, 300.0])
def test_randomised_response_never_keeps_every_answer(epsilon: float) -> None:
    """From epsilon = 37 on the probability of the truth was 1 in doubles."""
    answers = Bounded(
        np.arange(3), categories=3, adjacency=Adjacency.REPLACE_ONE, proof="RANDOMIZED-RESPONSE"
    )
    mechanism = RandomizedResponse(epsilon, 3)
    told = mechanism.apply(answers, None, Smallest(np.random.PCG64(1)))
    assert (told != answers.value).all()


def test_randomised_response_counts_in_64_bits() -> None:
    RandomizedResponse(1.0, 2**62)
    with pytest.raises(InvalidParameter, match="2\\^62"):
        RandomizedResponse(1.0, 2**62 + 1)
