"""What a second hostile reader of the networks found: overflow, memories, changes, ledgers."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from two_ranks import run_ranks  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.errors import InvalidParameter, PermitError  # noqa: E402
from noisette.nn import (  # noqa: E402
    Flat,
    PrivateTraining,
    make_level_plan,
    planning,
    training,
)
from noisette.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.privacy import Ledger  # noqa: E402

torch.set_num_threads(1)

N, D = 16, 3
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def plan_of(sampler: Any, uses: int) -> Plan:
    return Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under("zero-out")


def private(module: nn.Module, plan: Plan | None = None, **options: Any) -> PrivateTraining:
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    plan = plan or plan_of(sampling.FullBatch(), 3)
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


# --- the loop --------------------------------------------------------------------------------


def test_no_second_step_begins_inside_a_step() -> None:
    """The same secret batch would be used twice, though two coins were charged."""
    training = private(nn.Linear(D, 1), plan_of(sampling.Poisson(0.9), 4))
    batches = training.batches()
    rows = next(batches)

    def inside(module: Any, x: Any) -> Any:
        training.step(losses, X[rows])
        return losses(module, x)

    with pytest.raises(PermitError, match="under way"):
        training.step(inside, X[rows])
    training.step(losses, X[rows])  # nothing was drawn, so the batch may be tried again
    assert training.steps_done == 1


def test_a_batch_is_handed_out_once_whatever_the_caller_does_to_it() -> None:
    used: list[int] = []

    def load(rows: Any) -> Any:
        used.extend(rows.tolist())
        return X[rows]

    training = private(nn.Linear(D, 1), plan_of(sampling.RandomAllocation(4), 1))
    for rows in training.batches():
        with pytest.raises(PermitError, match="copied"):
            copy.copy(training)
        rows[:] = 0
        training.step(losses, load)
    assert sorted(used) == list(range(N))


def test_a_checkpoint_ahead_of_its_ledger_is_refused(tmp_path: Path) -> None:
    """Another ledger with the same plan would pay for the rest only."""

    def resumable(ledger: str, file: str) -> PrivateTraining:
        opened = Ledger.open(tmp_path / ledger, 1e6, 1e-4, adjacency="zero-out")
        return private(
            nn.Linear(D, 1), plan_of(sampling.Poisson(0.5), 6), checkpoint=tmp_path / file,
            ledger=opened, save_every=1,
        )  # fmt: skip

    first = resumable("one.db", "one.pt")
    batches = first.batches()
    for _ in range(3):
        first.step(losses, X[next(batches)])
    resumable("two.db", "two.pt")
    with pytest.raises(InvalidParameter, match="another ledger"):
        resumable("two.db", "one.pt")
    assert resumable("one.db", "one.pt").steps_done == 3


def test_a_checkpoint_with_numbers_of_numpy_can_be_read(tmp_path: Path) -> None:
    """A learning rate from NumPy made a file that no run could go on from."""

    def resumable() -> PrivateTraining:
        module = nn.Linear(D, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=np.float64(0.5))
        ledger = Ledger.open(tmp_path / "ledger.db", 1e6, 1e-4, adjacency="zero-out")
        return PrivateTraining(
            module, optimizer, plan_of(sampling.Poisson(0.5), 6), size=N, delta=1e-5,
            ledger=ledger, checkpoint=tmp_path / "run.pt", save_every=1,
        )  # fmt: skip

    first = resumable()
    first.step(losses, X[next(first.batches())])
    assert torch.equal(resumable().module.weight, first.module.weight)


def test_a_rule_of_ones_own_cannot_pass_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loose(Flat):
        def factors(self, norms: Any) -> Any:
            return torch.full_like(norms, 3.0)

    seen: list[float] = []
    real = training.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(float(np.linalg.norm(bounded.value)) / bounded.contribution)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(training, "release", door)
    rows = torch.zeros(N, D)
    rows[0], rows[1] = 1e3, 0.01
    loose = private(nn.Linear(D, 1, bias=False), clipping=Loose(1.0))
    loose.step(losses, rows[next(loose.batches())])
    assert 0.0 < seen[0] <= 1.0  # the second record alone


def test_the_rounding_of_a_large_sum_stays_with_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,001 records that agree: summed in float32 to the end, 400 of them too many came out."""
    seen: list[Any] = []
    real = training.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(bounded.value)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(training, "release", door)
    n = 200_001
    rows = torch.full((n, 1), 0.7)
    large = private(nn.Linear(1, 1, bias=False), size=n, delta=1e-6, micro_batch=4096)
    large.step(losses, rows[next(large.batches())])
    assert abs(float(seen[0][0]) - n * 0.7) < 10.0  # each run of 4,096 by itself


def test_a_level_that_no_rate_keeps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planning.accounting.calibrate

    def calibrate(plan: Any, *, epsilon: float, **options: Any) -> float:
        if options.get("find") == "rate" and epsilon < 1.0:
            raise InvalidParameter("no value reaches it")
        return real(plan, epsilon=epsilon, **options)

    monkeypatch.setattr(planning.accounting, "calibrate", calibrate)
    with pytest.raises(InvalidParameter, match="no sampling rate"):
        make_level_plan([(0.5, 50), (4.0, 50)], delta=1e-5, batch_size=10, steps=20)


CODE = """
X = torch.zeros(8, 5)
if rank == 1:
    X[0, 1] = 1e6
rule = Flat(1.0)
scheduled = private(sampling.FullBatch(), 5, 8, clipping=rule)
for rows in scheduled.batches():
    rule.clip_norm *= 1.0 if rank else 0.5  # a schedule on the first rank alone
    scheduled.step(lambda m, x: m(x).sum(1), X[rows])
print("canary", max(worst))
refused(sampling.Poisson(0.5), 5, 8, random_state=1 if rank else None)
refused(sampling.Cyclic(4), 5, 8, band=2 if rank else None)
"""


def test_ranks_share_the_clip_norm_and_the_kind_of_chance(tmp_path: Path) -> None:
    """A seeded second rank flips coins that somebody knows, and the guarantee did not say so."""
    told = run_ranks(CODE, tmp_path)
    assert float(told[0][0].split()[1]) <= 1.0
    for lines in told:
        assert [line.split()[0] for line in lines[1:]] == ["refused", "refused"]


def test_a_rule_keeps_its_range() -> None:
    rule = Flat(1.0)
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        rule.restore({"clip_norm": 1e-40})
