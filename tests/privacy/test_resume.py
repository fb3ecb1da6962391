"""A killed run and its successor draw, together, no more than was charged once."""

import os
import textwrap
from pathlib import Path

import numpy as np
import pytest

from helpers import run_code
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian
from noisette.core.permit import Permit
from noisette.core.plans import Repeat, Run, Together
from noisette.core.randomness import Randomness
from noisette.errors import LedgerError, PermitError

PLAN = Repeat(Run(Gaussian(50.0)), 1000)
VALUE = Bounded(np.zeros(3), contribution=1.0, adjacency=Adjacency.REPLACE_ONE, proof="CLIP")


def ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger.db", 6.0, 1e-5)


def start(folder: Path) -> Permit:
    return ledger(folder).charge(PLAN, label="run", delta=1e-5, resumable=True)


def draw(permit: Permit, times: int) -> None:
    source = Randomness.secure()
    for _ in range(times):
        release(VALUE, permit, source)


def test_the_successor_gets_what_cannot_have_been_drawn(tmp_path: Path) -> None:
    first = start(tmp_path)
    draw(first, 321)
    assert first.number is not None
    second = ledger(tmp_path).resume(first.number)
    assert 321 <= second.drawn() <= 321 + 1 + PLAN.draws // 100
    assert second.draws_left() == PLAN.draws - second.drawn()
    assert second.plan == first.plan
    assert (second.epsilon, second.delta) == (first.epsilon, first.delta)
    draw(second, second.draws_left())
    with pytest.raises(PermitError, match="0 of those charged"):
        draw(second, 1)
    assert len(ledger(tmp_path).charges) == 1


def test_settled_counts_are_exact(tmp_path: Path) -> None:
    first = start(tmp_path)
    draw(first, 321)
    first.settle()
    assert ledger(tmp_path).resume(first.number).drawn() == 321


def test_the_first_holder_can_draw_no_more(tmp_path: Path) -> None:
    first = start(tmp_path)
    draw(first, 5)  # written ahead: up to 5 + 10
    second = ledger(tmp_path).resume(first.number)
    with pytest.raises(LedgerError, match="resumed elsewhere"):
        draw(first, 100)
    assert first.drawn() <= second.drawn()
    with pytest.raises(LedgerError, match="resumed elsewhere"):
        first.settle()


@pytest.mark.parametrize("drawn", [0, 1, 17, 999, 1000])
def test_a_kill_in_the_middle_never_frees_draws(tmp_path: Path, drawn: int) -> None:
    code = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        import test_resume as t
        permit = t.start(Path({str(tmp_path)!r}))
        t.draw(permit, {drawn})
        print(permit.number, flush=True)
        os._exit(9)
    """
    done = run_code(textwrap.dedent(code))
    assert done.returncode == 9, done.stderr
    permit = ledger(tmp_path).resume(int(done.stdout))
    assert drawn <= permit.drawn() <= min(1000, drawn + 11)


def test_plans_with_parts_count_each_part(tmp_path: Path) -> None:
    plan = Together(Repeat(Run(Gaussian(50.0)), 10), Repeat(Run(Gaussian(60.0)), 300))
    first = ledger(tmp_path).charge(plan, label="two", delta=1e-5, resumable=True)
    source = Randomness.secure()
    for _ in range(7):
        release(VALUE, first, source, part=1)
    second = ledger(tmp_path).resume(first.number)
    assert second.drawn(0) == 0
    assert 7 <= second.drawn(1) <= 7 + 4


def test_only_files_and_known_runs_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"Ledger\.open"):
        Ledger(5.0, 1e-5).charge(PLAN, label="run", delta=1e-5, resumable=True)
    plain = ledger(tmp_path)
    with pytest.raises(LedgerError, match="no run with number 1"):
        plain.resume(1)
    permit = plain.charge(PLAN, label="run", delta=1e-5)
    assert permit.number is None
    with pytest.raises(LedgerError, match="no run with number 1"):
        plain.resume(1)


def test_a_refused_charge_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nothing was charged"):
        ledger(tmp_path).charge(
            Repeat(Run(Gaussian(1.0)), 1000), label="run", delta=1e-5, resumable=True
        )
    assert ledger(tmp_path).charges == []
    with pytest.raises(LedgerError, match="no run"):
        ledger(tmp_path).resume(1)


# ---- a resumed run and its seed ----


def started(folder: Path, *, seed: int | None, draws: int) -> Permit:
    permit = Ledger.open(folder / "ledger.db", 6.0, 1e-5, experiment=True).charge(
        Repeat(Run(Gaussian(50.0)), 20),
        label="run",
        delta=1e-6,
        resumable=True,
        seeded=seed is not None,
    )
    source = Randomness.secure() if seed is None else Randomness.from_seed(seed)
    for _ in range(draws):
        release(VALUE, permit, source)
    return permit


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
