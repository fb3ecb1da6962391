"""A killed run and its successor draw, together, no more than was charged once."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from noisette.adjacency import Adjacency
from noisette.bounded import Bounded
from noisette.errors import LedgerError, PermitError
from noisette.mechanisms import Gaussian
from noisette.plans import Repeat, Run, Together
from noisette.privacy import Ledger, Permit, release
from noisette.randomness import Randomness

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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
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
