"""Where only the last iterate was charged, no single step leaves the loop."""

from pathlib import Path

import numpy as np
import pytest

from noisette.core import accounting
from noisette.core.bounded import Bounded, InKernel
from noisette.core.door import NoiseStream, release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import LastIterate, Plan, Repeat, Sampled, Together
from noisette.core.randomness import Randomness
from noisette.core.sampling import Cyclic
from noisette.errors import PermitError, Unproven

DELTA = 1e-5
LAST = LastIterate(
    Gaussian(1.0), Cyclic(20), epochs=10, loss="logistic", learning_rate=0.1, size=2000
)


def ledger(folder: Path | None = None) -> Ledger:
    return Ledger(50.0, DELTA) if folder is None else Ledger.open(folder / "ledger", 50.0, DELTA)


def value(content: object) -> Bounded:
    return Bounded(content, contribution=1.0, adjacency="replace-one", proof="CLIP")


def test_single_steps_cost_three_times_what_the_last_one_was_charged() -> None:
    permit = ledger().charge(LAST, label="x", delta=DELTA)
    every = Repeat(Sampled(Gaussian(1.0), Cyclic(20)), 10)
    true = accounting.epsilon(every, delta=DELTA, adjacency="replace-one")
    assert true > 3.0 * permit.epsilon
    with pytest.raises(PermitError, match="only the last iterate was charged"):
        release(value(np.zeros(3)), permit, Randomness.secure())
    assert permit.draws_left() == 200


def test_a_kernel_may_draw() -> None:
    permit = ledger().charge(LAST, label="x", delta=DELTA)
    stream = release(value(InKernel(3)), permit, Randomness.secure())
    assert isinstance(stream, NoiseStream)
    assert stream.take(200).shape == (200, 3)
    with pytest.raises(PermitError, match="0 of those charged"):
        stream.take(1)


def test_the_rule_holds_for_each_part_of_a_plan() -> None:
    permit = Ledger(90.0, DELTA).charge(Together(Gaussian(1.0), LAST), label="x", delta=DELTA)
    release(value(np.zeros(3)), permit, Randomness.secure(), part=0)
    with pytest.raises(PermitError, match="last iterate"):
        release(value(np.zeros(3)), permit, Randomness.secure(), part=1)


@pytest.mark.parametrize("plan", [LAST, Together(Gaussian(1.0), LAST)], ids=["alone", "with"])
def test_it_cannot_be_resumed(tmp_path: Path, plan: Plan) -> None:
    book = ledger(tmp_path)
    with pytest.raises(Unproven, match=r"cannot be resumed.*resumable=False"):
        book.charge(plan, label="x", delta=DELTA, resumable=True)
    assert book.charges == []
