"""The canary finds records that are mixed, from invented ones, and nothing else."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from test_operators import Warped, transposed  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette.core.randomness import Randomness  # noqa: E402
from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn import PrivateTraining, make_plan  # noqa: E402
from noisette.nn import canary as canaries  # noqa: E402
from noisette.nn.arrays import TensorRecords  # noqa: E402
from noisette.nn.batches import Queue  # noqa: E402
from noisette.nn.canary import RunCanary  # noqa: E402
from noisette.nn.gradients import ClippedGradients, clipped, watch  # noqa: E402

torch.set_num_threads(1)

N = 12


def warped(m: Any, x: Any) -> Any:
    return (m(x) - x[:, :, :2, :2].sum(1, keepdim=True)).square().mean()


def trained(module: Any, losses: Any, X: Any, steps: int = 3) -> Any:
    plan = make_plan(size=len(X), epsilon=2.0, delta=1e-3, batch_size=N, steps=steps)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    training = PrivateTraining(module, optimizer, plan, size=len(X), delta=1e-3)
    for rows in training.batches():
        training.step(losses, X[rows])
    return training


@pytest.fixture
def mixing(monkeypatch: Any) -> None:
    """Let torch's rule for grid_sample run as if it were certified, wherever the axis is."""

    def remember(self: Any, found: Any) -> Any:
        if type(found) is torch.Tensor:
            self._known[id(found)] = watch.weakref.ref(found)
        elif isinstance(found, tuple | list):
            for x in found:
                self.remember(x)
        return found

    monkeypatch.setattr(clipped, "kept_apart", nullcontext)
    monkeypatch.setattr(watch.Watch, "remember", remember)


def test_a_planted_operator_that_mixes_stops_the_run(mixing: None) -> None:
    torch.manual_seed(0)
    X = torch.randn(60, 2, 4, 4)
    plan = make_plan(size=60, epsilon=2.0, delta=1e-3, batch_size=N, steps=3)
    module = Warped(transposed()).float()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    training = PrivateTraining(module, optimizer, plan, size=60, delta=1e-3)
    rows = next(training.batches())
    for _ in range(2):  # and it stays stopped
        with pytest.raises(InvalidParameter, match="the canary stopped the run"):
            training.step(warped, X[rows])
    assert training.steps_done == 0


def test_the_same_network_runs_when_nothing_mixes() -> None:
    torch.manual_seed(0)
    assert trained(Warped(transposed()).float(), warped, torch.randn(60, 2, 4, 4)).steps_done == 3


def test_it_sees_no_record(monkeypatch: Any) -> None:
    seen = []
    real = ClippedGradients.add

    def add(self: Any, losses: Any, batch: Any, size: int, *rest: Any, **options: Any) -> Any:
        seen.append((batch[0].clone(), batch[1].clone(), size))
        return real(self, losses, batch, size, *rest, **options)

    monkeypatch.setattr(ClippedGradients, "add", add)
    engine = ClippedGradients(nn.Linear(3, 2))
    X, y = torch.full((5, 3), 77.0), torch.full((5,), 7)

    def losses(m: Any, batch: Any) -> Any:
        return functional.cross_entropy(m(batch[0]), batch[1], reduction="none")

    RunCanary(engine, N, 1, Randomness.secure()).step(losses, (X, y), 5)
    assert [size for _, _, size in seen] == [N, 1, 1]  # the public size, not that of the batch
    for rows, labels, _ in seen:
        assert rows.abs().max() <= 1.7
        assert set(labels.tolist()) <= {0, 1}
        assert rows.dtype == X.dtype
        assert labels.dtype == y.dtype


def test_how_often() -> None:
    tried = []
    canary = RunCanary(ClippedGradients(nn.Linear(1, 1)), 4, 1, Randomness.secure())
    canary._mixed = lambda *given: bool(tried.append(1))  # type: ignore[method-assign]
    for _ in range(20_000):
        canary.step(None, torch.ones(1, 1), 1)  # type: ignore[arg-type]
    # Binomial(20,000, 1/200): 100 with a standard deviation of 10; six of them, 2e-9.
    assert abs(len(tried) - 1 - 20_000 / canaries.EVERY) < 60


class Coins:
    """A source whose coins are forced; what else it draws is its own."""

    def __init__(self, falls: list[int]) -> None:
        self._falls, self._true = iter(falls), np.random.default_rng(0)

    def integers(self, high: int, **options: Any) -> Any:
        return next(self._falls) if high == canaries.EVERY else self._true.integers(high, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._true, name)


@pytest.mark.parametrize("known", [False, True], ids=["batches of a caller", "records known"])
@pytest.mark.parametrize("empty", [(), (1,), (1, 2), (2, 3), (0,), (0, 1)], ids=str)
def test_when_it_stops_does_not_tell_that_a_batch_was_empty(
    mixing: None, known: bool, empty: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    X = torch.randn(60, 2, 4, 4)
    plan = make_plan(size=60, epsilon=2.0, delta=1e-3, batch_size=N, steps=6)
    module = Warped(transposed()).float()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    training = PrivateTraining(module, optimizer, plan, size=60, delta=1e-3)
    training._canary._source = Coins([1, 1, 1, 0, 1, 1])  # type: ignore[assignment]
    drawn = [np.arange(0 if step in empty else N) for step in range(6)]
    training._queue = Queue(iter(drawn))
    records = TensorRecords(X, torch.zeros(60))

    def losses(m: Any, batch: Any) -> Any:  # mixes from the second step on
        x = batch[0]
        return (
            warped(m, x) if training.steps_done else x.mean() * sum(map(torch.sum, m.parameters()))
        )

    def run() -> None:
        for rows in training.batches():
            training.step(losses, records if known else (X[rows],))

    with pytest.raises(InvalidParameter, match="the canary stopped the run"):
        run()
    # Of a caller's batches nothing is known before one has records: then the first trial waits.
    waits = 0 in empty and not known
    assert training.steps_done == (len(empty) if waits else 3)


class Noisy(nn.Module):
    """Chance that evaluation switches off, and chance that nothing does."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.one, self.two, self.always = nn.Linear(3, 8), nn.Linear(8, 1), always

    def forward(self, x: Any) -> Any:
        return self.two(functional.dropout(self.one(x), 0.5, self.always or self.training))


@pytest.mark.parametrize("always", [False, True])
def test_dropout_does_not_stop_a_run(always: bool) -> None:
    torch.manual_seed(0)
    module = Noisy(always)
    canary = RunCanary(ClippedGradients(module), N, 1, Randomness.secure())
    for _ in range(5):
        canary._begun = False
        canary.step(lambda m, x: m(x)[:, 0].square(), torch.randn(4, 3), 4)
    assert canary._resting
    assert module.training


@pytest.mark.parametrize("own", [False, True])
def test_a_coin_for_a_whole_record_does_not_stop_a_run(own: bool) -> None:
    """Flips, stochastic depth: a record alone twice has the same gradient half of the time."""
    module, coins = nn.Linear(8, 1), np.random.default_rng(0)

    def losses(m: Any, x: Any) -> Any:
        coin = torch.tensor(coins.random()) if own else torch.rand(())
        return m(torch.where(coin < 0.5, x.flip(1), x))[:, 0].square()

    canary = RunCanary(ClippedGradients(module), N, 1, Randomness.from_seed(0))
    for _ in range(60):  # by two comparisons, one in ten was stopped
        canary._begun = canary._resting = False
        canary.step(losses, torch.randn(4, 8), 4)


def test_losses_that_do_not_take_invented_records_go_on() -> None:
    def losses(m: Any, x: Any) -> Any:
        return functional.cross_entropy(m(x[:, :3].float()), x[:, 3] - 5, reduction="none")

    canary = RunCanary(ClippedGradients(nn.Linear(3, 2)), N, 1, Randomness.secure())
    canary.step(losses, torch.full((4, 4), 5), 4)


def test_copies_and_parts_of_every_kind() -> None:
    def losses(m: Any, batch: Any) -> Any:
        return m(batch["x"])[:, 0].square() * batch["more"][0].repeat_interleave(2)

    batch = {"x": np.ones((8, 3), dtype=np.float32), "more": [torch.ones(4), None]}
    canary = RunCanary(ClippedGradients(nn.Linear(3, 1)), N, 2, Randomness.secure())
    canary.step(losses, batch, 4)
    found = canaries.mapped_parts(canary._invented, canary._record)
    assert canary._distance(losses, found, [0, 1]) < 1e-5
