"""Runs that were killed go on under what they were charged: never a use, a draw or a level more."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette import accounting, mechanisms, sampling  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.core.plans import Plan, Repeat, Sampled, Together  # noqa: E402
from noisette.errors import InvalidData, InvalidParameter, LedgerError, Unproven  # noqa: E402
from noisette.nn import PrivateTraining, make_level_plan  # noqa: E402

torch.set_num_threads(1)

N, D = 60, 7
SAMPLERS: dict[str, tuple[Any, str]] = {
    "poisson": (sampling.Poisson(0.2), "replace-one"),
    "random-allocation": (sampling.RandomAllocation(5), "zero-out"),
    "cyclic": (sampling.Cyclic(5), "replace-one"),
    "shuffle": (sampling.Shuffle(5), "zero-out"),
}


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def zero(module: Any, batch: Any) -> Any:
    return module(batch).sum(1) * 0.0


def plan_of(name: str, uses: int = 4) -> Plan:
    sampler, relation = SAMPLERS[name]
    return Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under(relation)


def resumable(folder: Path, plan: Plan, **options: Any) -> PrivateTraining:
    module = options.pop("module", None) or nn.Linear(D, 1, bias=False)
    given: dict[str, Any] = {"size": N, "delta": 1e-5, "checkpoint": folder / "run.pt"} | options
    if "every" in given:
        given["checkpoint"] = given["checkpoint"], given.pop("every")
    if "ledger" not in given:
        given["ledger"] = Ledger.open(
            folder / "ledger.db", 1e6, 1e-4, adjacency=plan.adjacency or "replace-one",
            experiment=True,
        )  # fmt: skip
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


def go(private: PrivateTraining, stop: int | None = None) -> list[np.ndarray]:
    """Run, and return what each step added to the weights: the noise, since losses are zero."""
    moves, before = [], private.module.weight.detach().clone()
    for done, rows in enumerate(private.batches()):
        private.step(zero, torch.ones(len(rows), D))
        after = private.module.weight.detach().clone()
        moves.append((after - before).numpy().copy())
        before = after
        if stop is not None and done + 1 == stop:
            break
    return moves


# --- draws and weights -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("name", ["poisson", "cyclic", "random-allocation"])
def test_a_resumed_run_is_charged_once_and_never_repeats_noise(
    tmp_path: Path, name: str, seed: int | None
) -> None:
    plan = plan_of(name, uses=40 if name == "poisson" else 8)
    options: dict[str, Any] = {"random_state": seed, "every": 10}
    early = go(resumable(tmp_path, plan, **options), stop=17)
    second = resumable(tmp_path, plan, **options)
    assert 17 <= second.steps_done <= 18
    late = go(second)
    assert len(early) + len(late) <= plan.draws
    lost = plan.draws - len(early) - len(late)
    assert lost <= (1 if name != "random-allocation" else SAMPLERS[name][0].steps)
    everything = [tuple(np.round(move.ravel(), 12)) for move in early + late]
    assert len(set(everything)) == len(everything)
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert len(ledger.charges) == 1
    assert second.guarantee().plan == plan
    assert go(resumable(tmp_path, plan, **options)) == []


def test_the_weights_of_the_checkpoint_come_back(tmp_path: Path) -> None:
    plan = plan_of("poisson", uses=40)
    options: dict[str, Any] = {"every": 10, "averaging": "tail", "clipping": "adaptive"}
    first = resumable(tmp_path, plan, **options)
    go(first, stop=30)
    second = resumable(tmp_path, plan, **options)
    assert torch.equal(first.module.weight, second.module.weight)
    assert first._clipping.clip_norm == second._clipping.clip_norm
    with pytest.raises(LedgerError, match="resumed elsewhere"):
        go(first)


def test_a_finished_run_comes_back_whole(tmp_path: Path) -> None:
    first = resumable(tmp_path, plan_of("poisson", 13), every=5)
    go(first)
    again = resumable(tmp_path, plan_of("poisson", 13), every=5)
    assert torch.equal(again.module.weight, first.module.weight)


# --- uses of a record ------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [0, 9])
@pytest.mark.parametrize("name", ["random-allocation", "shuffle", "cyclic"])
def test_no_record_is_used_more_often_than_it_was_charged(
    tmp_path: Path, name: str, kills: int
) -> None:
    """RESUME: a run killed after each step once began a new pass every time (5 uses for 3).

    The rows come in another order at each resume: a cyclic pass was taken up in the middle, where
    others stood then (up to 10 uses where 8 were charged).
    """
    plan, people = plan_of(name, uses=3), np.arange(N)
    uses: Counter[int] = Counter()
    draws = 0
    for kill, stop in enumerate((*[1] * kills, None)):
        people = np.roll(people, 13 * kill)
        private = resumable(tmp_path, plan, every=1)
        for done, rows in enumerate(private.batches()):
            uses.update(people[rows].tolist())
            draws += 1
            private.step(losses, torch.ones(len(rows), D))
            if done + 1 == stop:
                break
    assert draws <= plan.draws
    assert max(uses.values()) <= 3
    assert kills or set(uses.values()) == {3}


def test_a_cyclic_pass_goes_on_where_the_order_is_known(tmp_path: Path) -> None:
    plan, names = plan_of("cyclic", uses=2), [f"person {i}" for i in range(N)]
    uses: Counter[int] = Counter()
    for stop in (1, 2, 4, None):
        private = resumable(tmp_path, plan, every=1, record_ids=names)
        for done, rows in enumerate(private.batches()):
            uses.update(rows.tolist())
            private.step(losses, torch.ones(len(rows), D))
            if done + 1 == stop:
                break
    assert [uses[i] for i in range(N)] == [2] * N  # nothing lost, nothing twice
    assert "the record_ids" in private.guarantee().statement()


def test_another_order_of_known_records_is_refused(tmp_path: Path) -> None:
    go(resumable(tmp_path, plan_of("cyclic"), record_ids=np.arange(N)), stop=1)
    for changed in (np.roll(np.arange(N), 1), None, np.arange(N).astype(str) + "x"):
        with pytest.raises(InvalidParameter, match=r"public facts \(record_ids\)"):
            resumable(tmp_path, plan_of("cyclic"), record_ids=changed)
    for wrong in (np.zeros(N, dtype=int), np.arange(N - 1), np.linspace(0, 1, N)):
        with pytest.raises(InvalidData, match="record_ids must"):
            resumable(tmp_path, plan_of("cyclic"), record_ids=wrong)


def test_groups_cannot_be_exchanged(tmp_path: Path) -> None:
    """A person who was promised 0.5 ended up with 2.73: the resume took the other's coins."""
    plan = make_level_plan([(0.5, 30), (3.0, 30)], delta=1e-5, batch_size=20, steps=20)
    groups = np.repeat([0, 1], 30)
    go(resumable(tmp_path, plan, groups=groups, every=1), stop=10)
    with pytest.raises(InvalidParameter, match=r"public facts \(groups\)"):
        resumable(tmp_path, plan, groups=1 - groups)
    same = resumable(tmp_path, plan, groups=groups.astype(np.int32))
    assert same.steps_done == 10
    # what the exchange would have cost: ten steps at each rate
    parts = [Repeat(part.plan, 10) for part in plan.alternatives()]  # type: ignore[attr-defined]
    assert accounting.epsilon(Together(*parts), delta=1e-5, adjacency="replace-one") > 1.0


def test_a_checkpoint_keeps_only_public_facts(tmp_path: Path) -> None:
    go(resumable(tmp_path, plan_of("poisson"), clipping="adaptive"), stop=1)
    hidden = plan_of("poisson").plan.under("add-remove")  # type: ignore[attr-defined]
    (tmp_path / "hidden").mkdir()
    go(resumable(tmp_path / "hidden", hidden, population=50), stop=1)
    for folder, sizes in ((tmp_path, [N]), (tmp_path / "hidden", None)):
        kept = torch.load(folder / "run.pt", weights_only=True)
        assert set(kept) == {
            "noisette_checkpoint", "module", "optimizer", "average", "clipping", "charge",
            "steps", "seeded", "facts",
        }  # fmt: skip
        assert kept["facts"]["numbers of records"] == sizes
        assert set(kept["facts"]) == {
            "neighbouring relation", "numbers of records", "divisor", "groups", "record_ids",
            "copies", "clipping",
        }  # fmt: skip
        assert set(kept["clipping"]) == {"clip_norm"}


# --- files -----------------------------------------------------------------------------------


def test_a_checkpoint_belongs_to_its_run(tmp_path: Path) -> None:
    go(resumable(tmp_path, plan_of("poisson")), stop=1)
    with pytest.raises(InvalidParameter, match="another plan"):
        resumable(tmp_path, plan_of("poisson", uses=5))
    with pytest.raises(InvalidParameter, match="another kind of random_state"):
        resumable(tmp_path, plan_of("poisson"), random_state=3)
    (tmp_path / "run.pt").write_bytes(b"nonsense")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        resumable(tmp_path, plan_of("poisson"))
    with pytest.raises(InvalidParameter, match="ledger in a file"):
        resumable(tmp_path, plan_of("poisson"), ledger=None, checkpoint=tmp_path / "other.pt")
    with pytest.raises(Unproven, match="correlated noise"):
        resumable(tmp_path, plan_of("cyclic"), band=2)


@pytest.mark.parametrize(
    "broken", [{}, {"charge": "1"}, {"clipping": None}, {"module": 3}, {"facts": None}]
)
def test_a_checkpoint_with_wrong_parts_is_told(tmp_path: Path, broken: dict[str, Any]) -> None:
    whole = {
        "noisette_checkpoint": 3, "module": {}, "optimizer": {}, "average": None,
        "clipping": {"clip_norm": 1.0}, "charge": 1, "steps": 0, "seeded": False, "facts": {},
    }  # fmt: skip
    state = whole | broken if broken else {"noisette_checkpoint": 3}
    torch.save(state, tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="damaged"):
        resumable(tmp_path, plan_of("poisson"))
    torch.save(whole | {"noisette_checkpoint": 2}, tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="earlier version"):
        resumable(tmp_path, plan_of("poisson"))


def test_a_mistaken_resume_leaves_the_running_one_alone(tmp_path: Path) -> None:
    first = resumable(tmp_path, plan_of("poisson", 13))
    with pytest.raises(InvalidParameter, match="another module"):
        resumable(tmp_path, plan_of("poisson", 13), module=nn.Linear(D, 2))
    go(first)
    assert first.steps_done == 13


def test_a_file_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InvalidParameter, match="cannot be written"):
        resumable(tmp_path, plan_of("poisson"), checkpoint=tmp_path / "file" / "run.pt")
    assert Ledger.open(tmp_path / "ledger.db").charges == []


def test_a_checkpoint_ahead_of_its_ledger_is_refused(tmp_path: Path) -> None:
    """Another ledger with the same plan would pay for the rest only."""

    def with_ledger(ledger: str, file: str) -> PrivateTraining:
        opened = Ledger.open(tmp_path / ledger, 1e6, 1e-4)
        plan = plan_of("poisson", 6)
        return resumable(tmp_path, plan, checkpoint=tmp_path / file, ledger=opened, every=1)

    go(with_ledger("one.db", "one.pt"), stop=3)
    with_ledger("two.db", "two.pt")
    with pytest.raises(InvalidParameter, match="another ledger"):
        with_ledger("two.db", "one.pt")
    assert with_ledger("one.db", "one.pt").steps_done == 3


def test_a_checkpoint_with_numbers_of_numpy_can_be_read(tmp_path: Path) -> None:
    """A learning rate from NumPy made a file that no run could go on from."""

    def started() -> PrivateTraining:
        module = nn.Linear(D, 1)
        ledger = Ledger.open(tmp_path / "ledger.db", 1e6, 1e-4)
        return PrivateTraining(
            module, torch.optim.SGD(module.parameters(), lr=np.float64(0.1)),  # type: ignore[arg-type]
            plan_of("poisson", 6), size=N, delta=1e-5, ledger=ledger,
            checkpoint=(tmp_path / "run.pt", 1),
        )  # fmt: skip

    first = started()
    first.step(losses, torch.ones(len(next(first.batches())), D))
    assert torch.equal(started().module.weight, first.module.weight)
