"""Batches that workers load ahead: counted when drawn, used once and in order, never lost."""

from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.core.plans import Repeat, Sampled  # noqa: E402
from noisette.errors import InvalidData, InvalidParameter, PermitError  # noqa: E402
from noisette.nn import PrivateTraining  # noqa: E402
from noisette.nn.batches import part_of  # noqa: E402

torch.set_num_threads(1)

N, D = 24, 3
X = torch.arange(N, dtype=torch.float32)[:, None] + torch.linspace(0.0, 0.5, D)
Y = torch.arange(N)
DATA = TensorDataset(X, Y)


def losses(module: Any, batch: Any) -> Any:
    return module(batch[0]).sum(1)


def private(sampler: Any = None, uses: int = 8, **options: Any) -> PrivateTraining:
    torch.manual_seed(0)
    module = nn.Linear(D, 1)
    sampler = sampler or sampling.Poisson(0.1)
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under("zero-out")
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


def loaded(workers: int) -> tuple[list[list[int]], Any]:
    """Return the records of each batch and the trained weights."""
    training = private(random_state=3, uses=20)
    seen = []
    for x, y in training.loader(DATA, num_workers=workers):
        assert x.shape == (len(y), D)  # empty ones, too
        seen.append(y.tolist())
        training.step(losses, (x, y))
    assert training.steps_done == training.steps == len(seen) == 20
    return seen, training.module.weight.detach()


def test_a_loader_is_the_plain_loop() -> None:
    plain = private(random_state=3, uses=20)
    rows = []
    for chosen in plain.batches():
        rows.append(chosen.tolist())
        plain.step(losses, (X[chosen], Y[chosen]))
    seen, weights = loaded(0)
    assert seen == rows
    assert [] in seen
    assert torch.equal(weights, plain.module.weight)


def test_a_loader_with_workers_makes_every_step() -> None:
    """It was refused at its second batch: workers take batches ahead, and lost would be worse."""
    seen, weights = loaded(2)
    assert [] in seen
    again = loaded(2)
    assert seen == again[0]  # drawn in one order, whichever worker is faster
    assert torch.equal(weights, again[1])
    # 20 batches of 24 coins of 0.1: 48 expected, standard deviation 6.6
    assert 15 < sum(map(len, seen)) < 81


def test_what_was_drawn_ahead_waits_for_the_next_loop() -> None:
    training = private(sampling.RandomAllocation(6), uses=2)
    uses: Counter[int] = Counter()
    for stop in (2, 3, None):
        for done, batch in enumerate(training.loader(DATA, num_workers=2), start=1):
            uses.update(batch[1].tolist())
            training.step(losses, batch)
            if done == stop:
                break
    assert training.steps_done == 12
    assert [uses[i] for i in range(N)] == [2] * N


def test_batches_follow_a_loader_that_was_left() -> None:
    training = private(sampling.RandomAllocation(6), uses=1)
    uses: Counter[int] = Counter()
    for batch in training.loader(DATA, num_workers=2):
        uses.update(batch[1].tolist())
        training.step(losses, batch)
        break
    for rows in training.batches():
        uses.update(rows.tolist())
        training.step(losses, (X[rows], Y[rows]))
    assert [uses[i] for i in range(N)] == [1] * N


def test_a_loaded_batch_is_used_before_the_next() -> None:
    training = private(sampling.FullBatch(), uses=3)
    loader = training.loader(DATA, num_workers=2)
    batch = next(loader)
    with pytest.raises(PermitError, match="once for every batch"):
        next(loader)
    training.step(losses, batch)
    assert training.steps_done == 1


def test_two_loops_do_not_share_a_batch() -> None:
    training = private(sampling.RandomAllocation(6), uses=1)
    loader = training.loader(DATA)
    training.step(losses, next(loader))
    rows = next(training.batches())
    training.step(losses, (X[rows], Y[rows]))
    with pytest.raises(PermitError, match="another loop"):
        next(loader)


class Broken(TensorDataset):
    def __getitem__(self, number: int) -> Any:
        if number == 5:
            raise ConnectionError("lost")
        return super().__getitem__(number)


def test_a_record_that_cannot_be_loaded_leaves_the_batch_in_its_place() -> None:
    training = private(sampling.RandomAllocation(6), uses=1)
    uses: Counter[int] = Counter()

    def go(dataset: Any) -> None:
        for batch in training.loader(dataset, num_workers=2):
            uses.update(batch[1].tolist())
            training.step(losses, batch)

    with pytest.raises(ConnectionError, match="lost"):
        go(Broken(X, Y))
    go(DATA)
    assert [uses[i] for i in range(N)] == [1] * N


def test_a_killed_loader_uses_nobody_twice_in_a_pass(tmp_path: Path) -> None:
    uses: Counter[int] = Counter()
    for stop in (3, 1, None):
        ledger = Ledger.open(tmp_path / "ledger.db", 1e3, 1e-4, adjacency="zero-out")
        training = private(
            sampling.RandomAllocation(6), uses=2, ledger=ledger,
            checkpoint=(tmp_path / "run.pt", 1),
        )  # fmt: skip
        for done, batch in enumerate(training.loader(DATA, num_workers=2), start=1):
            uses.update(batch[1].tolist())
            training.step(losses, batch)
            if done == stop:
                break
    assert training.steps_done == 12
    assert max(uses.values()) <= 2


def test_a_loader_of_ones_own_with_workers_is_told_what_to_use() -> None:
    training = private(sampling.FullBatch(), uses=3)
    with pytest.raises(PermitError, match=r"training\.loader"):
        next(iter(DataLoader(DATA, batch_sampler=training.batches(), num_workers=2)))


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(DATA)


def test_options_that_are_the_plans_are_refused() -> None:
    training = private()
    for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "in_order"):
        with pytest.raises(InvalidParameter, match=name):
            training.loader(DATA, **{name: 1})
    with pytest.raises(InvalidData, match="by its number"):
        training.loader(Stream())
    with pytest.raises(InvalidData, match="exactly the records"):
        training.loader(TensorDataset(X[1:], Y[1:]))


def test_a_collate_function_and_dictionaries() -> None:
    training = private(sampling.Poisson(1e-6), uses=2)  # nobody in it
    records = [{"x": x, "text": str(i)} for i, x in enumerate(X)]

    def collate(items: list[Any]) -> Any:
        return {"x": torch.stack([item["x"] for item in items])}

    for batch in training.loader(records, collate_fn=collate):
        assert batch["x"].shape == (0, D)
        training.step(lambda module, part: module(part["x"]).sum(1), batch)
    assert training.steps_done == 2


# --- what a batch may hold -------------------------------------------------------------------

Pair = namedtuple("Pair", "x y")
ROWS = np.arange(4, dtype=np.intp)


def test_a_part_of_a_batch_has_the_rows_of_its_records() -> None:
    batch = {"x": X[:4], "pair": Pair(Y[:4], [X[:8].numpy(), None])}
    part = part_of(batch, ROWS, slice(1, 3), 2)
    assert torch.equal(part["x"], X[1:3])  # one row for each record
    assert torch.equal(part["pair"].x, Y[1:3])
    assert np.array_equal(part["pair"].y[0], X[2:6].numpy())  # two rows for each record
    assert part["pair"].y[1] is None


@pytest.mark.parametrize(
    "shared",
    [[0.5, 1.0, 2.0, 3.0], "labels", 3, torch.tensor(1.0), torch.ones(3, 3)],
    ids=["list of labels", "text", "number", "scalar", "mask"],
)
@pytest.mark.parametrize("by_function", [False, True])
def test_what_all_records_would_share_is_refused(shared: Any, by_function: bool) -> None:
    """A list of labels was everybody's in each record's loss where a function returned it."""
    batch = (X[:4], shared)
    with pytest.raises(InvalidData, match="belongs in"):
        part_of((lambda rows: batch) if by_function else batch, ROWS, slice(0, 4), 1)


def test_the_guarantee_tells_whose_word_the_rows_are() -> None:
    training = private(sampling.FullBatch(), uses=1)
    assert "taken as given" not in training.guarantee().statement()
    for rows in training.batches():
        training.step(losses, lambda rows: (X[rows], Y[rows]))
    assert len(rows) == N
    assert "taken as given" in training.guarantee().statement()
