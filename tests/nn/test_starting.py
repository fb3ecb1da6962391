"""The start of a training: one order of effects, and nothing left behind by a start that fails."""

import itertools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.core.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.errors import NoisetteError  # noqa: E402
from noisette.nn import Flat, PrivateTraining, checkpoint, starting  # noqa: E402
from noisette.nn.group import Group  # noqa: E402

torch.set_num_threads(1)

N, D = 12, 3
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def plan_of(uses: int = 6) -> Plan:
    return Repeat(Sampled(mechanisms.Gaussian(2.0), sampling.Poisson(0.5)), uses).under("zero-out")


class World:
    """A module, an optimizer, a rule, a ledger in a file and a checkpoint."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        torch.manual_seed(0)
        self.folder = folder
        self.module = nn.Linear(D, 1)
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=0.1)
        self.rule = Flat(1.0)
        self.ledger = Ledger.open(folder / "ledger.db", 1e3, 1e-4, adjacency="zero-out")
        self.options: dict[str, Any] = {
            "module": self.module, "optimizer": self.optimizer, "plan": plan_of(), "size": N,
            "delta": 1e-5, "clipping": self.rule, "ledger": self.ledger,
            "checkpoint": (folder / "run.pt", 1),
        } | changes  # fmt: skip

    def start(self) -> PrivateTraining:
        return PrivateTraining(**self.options)

    def seen(self) -> Any:
        """Return all that a start may change, as it is now."""
        files = {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.name != "ledger.db"
        }
        weights = [p.detach().clone().tolist() for p in self.module.parameters()]
        moments = str(self.optimizer.state_dict())
        return self.ledger.charges, files, weights, moments, self.rule.clip_norm


def begun(folder: Path) -> PrivateTraining:
    """Return a training that has made two steps."""
    training = World(folder).start()
    batches = training.batches()
    for _ in range(2):
        training.step(losses, X[next(batches)])
    return training


# --- the order -------------------------------------------------------------------------------

EFFECTS: list[tuple[Any, str, str]] = [
    (starting, "ClippedGradients", "refuse"),
    (starting, "check_ids", "check"),
    (Group, "agree", "agree"),
    (checkpoint, "prepare", "read"),
    (checkpoint, "read", "read"),
    (Ledger, "charge", "claim"),
    (Ledger, "resume", "claim"),
    (checkpoint, "write", "claim"),
    (Group, "align", "restore"),
    (nn.Module, "load_state_dict", "restore"),
    (starting, "to_come", "draw"),
]


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with what happens, in its order."""
    happened: list[str] = []
    for place, name, stage in EFFECTS:
        real = getattr(place, name)

        def noted(*args: Any, real: Any = real, what: str = f"{stage}: {name}", **kw: Any) -> Any:
            happened.append(what)
            return real(*args, **kw)

        monkeypatch.setattr(place, name, noted)
    return happened


BEFORE = ["refuse: ClippedGradients", "check: check_ids", "agree: agree", "agree: agree",
          "read: prepare"]  # fmt: skip
NEW = [*BEFORE, "claim: charge", "claim: write", "restore: align", "draw: to_come"]
RESUMED = [*BEFORE, "read: read", "claim: resume", "restore: align", "restore: load_state_dict",
           "draw: to_come"]  # fmt: skip


@pytest.mark.parametrize("again", [False, True], ids=["new", "resumed"])
def test_the_order_of_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    if again:
        begun(tmp_path)
    happened = watch(monkeypatch)
    World(tmp_path).start()
    assert happened == (RESUMED if again else NEW)
    names = [stage.__name__ for stage in starting.STAGES]
    assert names == ["refuse", "check", "agree", "read", "claim", "restore", "draw"]


PAIRS = list(itertools.combinations(range(7), 2))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_two_stages_can_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: int, other: int
) -> None:
    begun(tmp_path)
    stages = list(starting.STAGES)
    stages[one], stages[other] = stages[other], stages[one]
    monkeypatch.setattr(starting, "STAGES", tuple(stages))
    happened = watch(monkeypatch)
    try:
        World(tmp_path).start()
    except Exception:
        return  # a stage missed what an earlier one gives
    assert happened != RESUMED


# --- a start that fails ----------------------------------------------------------------------


class Stopped(Exception):
    pass


@pytest.mark.parametrize("name", ["refuse", "check", "agree", "read"])
@pytest.mark.parametrize("again", [False, True], ids=["new", "resumed"])
def test_a_stop_before_the_claim_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, again: bool
) -> None:
    running = begun(tmp_path) if again else None
    world = World(tmp_path)
    before = world.seen()

    def stop(stage: Any) -> Any:
        def stopped(start: Any) -> Any:
            stage(start)
            raise Stopped

        return stopped if stage.__name__ == name else stage

    monkeypatch.setattr(starting, "STAGES", tuple(map(stop, starting.STAGES)))
    with pytest.raises(Stopped):
        world.start()
    assert world.seen() == before
    if running is not None:  # its permit is still its own
        running.step(losses, X[next(running.batches())])


class Deaf(torch.optim.Adam):
    """Refuses what it is given after the module has taken its weights."""

    def load_state_dict(self, state: Any) -> None:
        if state["state"]:
            raise ValueError("not mine")
        super().load_state_dict(state)


def test_a_failed_restoration_is_undone(tmp_path: Path) -> None:
    begun(tmp_path)
    world = World(tmp_path)
    world.optimizer = world.options["optimizer"] = Deaf(world.module.parameters(), lr=0.1)
    world.rule.clip_norm = 3.0
    before = world.seen()
    with pytest.raises(NoisetteError, match="another module or optimizer"):
        world.start()
    assert world.seen() == before


def test_a_budget_that_is_too_small_leaves_nothing(tmp_path: Path) -> None:
    World(tmp_path).ledger.charge(plan_of(), label="used", delta=9.5e-5)
    world = World(tmp_path)
    before = world.seen()
    with pytest.raises(NoisetteError, match="nothing was charged"):
        world.start()
    assert world.seen() == before


def test_an_old_copy_of_the_ledger_does_not_take_the_permit(tmp_path: Path) -> None:
    """The claim came first, so that the run to which the ledger belongs could not go on."""
    begun(tmp_path)
    (tmp_path / "two").mkdir()
    owner = World(tmp_path / "two").start()
    other = World(tmp_path, ledger=World(tmp_path / "two").ledger)
    with pytest.raises(NoisetteError, match="another ledger"):
        other.start()
    owner.step(losses, X[next(owner.batches())])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"optimizer": None}, "another module or optimizer"),
        ({"clipping": "adaptive"}, "clipping"),
        ({"copies": 2}, "copies"),
        ({"size": N + 1}, "numbers of records"),
        ({"plan": plan_of(7)}, "another plan"),
        ({"random_state": 1}, "kind of random_state"),
        ({"ledger": None}, "ledger in a file"),
        ({"record_ids": list(range(N))}, "record_ids"),
    ],
)
def test_a_mistaken_resume_leaves_the_run_alone(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    running = begun(tmp_path)
    world = World(tmp_path, **change)
    if "optimizer" in change:
        parts = [{"params": [p]} for p in world.module.parameters()]
        world.optimizer = world.options["optimizer"] = torch.optim.Adam(parts, lr=0.1)
    before = world.seen()
    with pytest.raises(NoisetteError, match=text):
        world.start()
    assert world.seen() == before
    running.step(losses, X[next(running.batches())])
    assert running.steps_done == 3


def test_a_disk_that_is_too_small_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole first checkpoint is tried: an empty file fitted, and the charge was lost."""

    def full(value: Any, file: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    world = World(tmp_path)
    before = world.seen()
    with pytest.raises(NoisetteError, match="No space left"):
        world.start()
    assert world.seen() == before
