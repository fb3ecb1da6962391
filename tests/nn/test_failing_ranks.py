"""A rank that fails makes the other stop with one sentence, soon, and before anything is drawn."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from two_ranks import run_ranks  # noqa: E402

HELP = """
import os, time
from noisette.errors import RankFailed
from noisette.core.ledger import Ledger
X = torch.ones(8, 5)
def losses(m, x):
    return m(x).sum(1)
def tell(name, work):
    begin = time.monotonic()
    try:
        work()
        print(name, "went on", flush=True)
    except Exception as error:
        soon = "soon" if time.monotonic() - begin < 60 else "late"
        print(name, soon, type(error).__name__, error, flush=True)
"""

FAILURES = """
run = private(sampling.FullBatch(), 4, 8)
rows = next(run.batches())
def bad(m, x):
    if rank == 1:
        raise ConnectionError("lost")
    return losses(m, x)
tell("step", lambda: run.step(bad, X[rows]))
print("drawn", run._start.permit.drawn() if rank == 0 else 0)
tell("again", lambda: run.step(losses, X[rows]))     # nothing was drawn, so both may try again

class Dataset:
    def __getitem__(self, i):
        if rank == 1:
            raise ConnectionError("lost")
        return X[i]
tell("loader", lambda: [run.step(losses, x) for x in run.loader(Dataset())])

def door(*args, **kwargs):
    raise OSError("disk")
passage.release = door
other = private(sampling.FullBatch(), 4, 8)
rows = next(other.batches())
tell("door", lambda: other.step(losses, X[rows]))

tell("refuse", lambda: private(sampling.FullBatch(), 4, 8, band=2 if rank else None))
tell("check", lambda: private(sampling.FullBatch(), 4, 8 - 8 * rank))
small = Ledger(1e-3, 1e-5, adjacency="zero-out") if rank == 0 else None
tell("claim", lambda: private(sampling.FullBatch(), 4, 8, ledger=small))
tell("schedule", lambda: next(private(sampling.Cyclic(9 + 0 * rank), 4, 8).batches()))
tell("end", lambda: next(private(sampling.Cyclic(4), 4, 8).batches()))
"""


def told(lines: list[str]) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in lines)


def test_a_failure_stops_both_ranks(tmp_path: Path) -> None:
    """The other rank waited in its next exchange until PyTorch's half hour was over."""
    first, second = (told(lines) for lines in run_ranks(HELP + FAILURES, tmp_path))
    stopped = "soon RankFailed rank {} failed, so that this rank stops as well; what went wrong is "
    assert second["step"] == "soon ConnectionError lost"
    assert first["step"].startswith(stopped.format(1))
    assert first["drawn"] == "0"
    assert first["again"] == second["again"] == "went on"
    assert second["loader"] == "soon ConnectionError lost"
    assert first["loader"].startswith(stopped.format(1))
    assert first["door"] == "soon OSError disk"
    assert second["door"].startswith(stopped.format(0))
    for name, error in (("refuse", "Unproven"), ("check", "InvalidParameter")):
        assert second[name].startswith(f"soon {error}")
        assert first[name].startswith(stopped.format(1))
    assert first["claim"].startswith("soon BudgetExceeded")
    assert second["claim"].startswith(stopped.format(0))
    assert first["end"] == second["end"] == "went on"  # they are still in step with each other


DEATH = """
run = private(sampling.FullBatch(), 9, 8)
def work():
    for number, rows in enumerate(run.batches()):
        if rank == 1 and number == 2:
            {death}
        run.step(losses, X[rows])
if rank == 1:
    work()
tell("rank", work)
os._exit(0)
"""


@pytest.mark.parametrize(
    "death", ["os.kill(os.getpid(), 9)", "raise ConnectionError('lost')"], ids=["kill", "exception"]
)
def test_a_rank_that_is_gone_stops_the_other(tmp_path: Path, death: str) -> None:
    first, second = run_ranks(HELP + DEATH.format(death=death), tmp_path, quiet=True)
    assert told(first)["rank"].startswith("soon RankFailed another rank is gone")
    assert second == []
