"""Two processes train one model: the law of one process, one charge, one noise."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from two_ranks import run_ranks, start  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

CODE = """
import pickle, sys
import numpy as np, torch, torch.distributed as dist
from torch import nn
from noisette.core import mechanisms
from noisette.core import sampling
from noisette.nn import PrivateTraining
from noisette.core.plans import Repeat, Sampled
from noisette.core.ledger import Ledger
rank, ranks, folder, names, seed, data = sys.argv[1:]
rank, ranks, seed = int(rank), int(ranks), int(seed)
torch.set_num_threads(1)
if ranks > 1:
    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=ranks)
N, D = 60, 400
samplers = {
    "poisson": (sampling.Poisson(0.2), "replace-one"),
    "random-allocation": (sampling.RandomAllocation(5), "zero-out"),
    "without-replacement": (sampling.WithoutReplacement(12, N), "replace-one"),
    "cyclic": (sampling.Cyclic(5), "replace-one"),
}
for place, name in enumerate(names.split(',')):
    sampler, relation = samplers[name]
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), 20 // sampler.steps).under(relation)
    share = slice(0, 40) if ranks == 1 or rank == 0 else slice(40, N)
    if ranks == 1:
        share = slice(0, N)
    torch.manual_seed(rank)                      # ranks start with different weights
    module = nn.Linear(D, 1, bias=False)
    X = torch.zeros(N, D)
    if data == "ones":
        X[:, 0] = 1.0
    own = X[share]
    ledger = None
    if rank == 0:
        ledger = Ledger.open(f"{folder}/{place}.db", 1e6, 1e-5, adjacency=relation,
                             experiment=seed >= 0)
    private = PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan,
                              size=len(own), delta=1e-5, ledger=ledger, clip_norm=0.5,
                              random_state=seed if seed >= 0 else None)
    moves, batches, before = [], [], module.weight.detach().clone()
    for rows in private.batches():
        batches.append((rows + share.start).tolist())
        private.step(lambda m, x: m(x).sum(1), own[rows])
        moves.append((module.weight.detach() - before).numpy().ravel() * private.normaliser)
        before = module.weight.detach().clone()
    found = {"moves": np.array(moves), "batches": batches, "normaliser": private.normaliser,
             "charges": len(ledger.charges) if ledger else None,
             "epsilon": private.guarantee().epsilon if rank == 0 else None}
    with open(f"{folder}/{place}{rank}.pkl", "wb") as file:
        pickle.dump(found, file)
if ranks > 1:
    dist.destroy_process_group()
"""


NAMES = ("poisson", "random-allocation", "without-replacement", "cyclic")
Found = list[list[dict[str, Any]]]


def train(folder: Path, names: tuple[str, ...], ranks: int, data: str, seed: int = 0) -> Found:
    """Train in `ranks` processes, one sampler after the other, and return what each rank saw."""
    folder.mkdir()
    chosen = ",".join(names)
    words = str(ranks), str(folder), chosen, str(seed), data
    running = [start(CODE, [str(r), *words], folder / f"said{r}") for r in range(ranks)]
    for process in running:
        process.join(timeout=400)
    assert [process.exitcode for process in running] == [0] * ranks
    return [
        [pickle.loads((folder / f"{place}{r}.pkl").read_bytes()) for r in range(ranks)]
        for place in range(len(names))
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    folder = tmp_path_factory.mktemp("ranks")
    return train(folder / "one", NAMES, 1, "ones"), train(folder / "two", NAMES, 2, "ones")


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_are_one_run(runs: tuple[Found, Found], name: str) -> None:
    (alone,), both = (found[NAMES.index(name)] for found in runs)
    first, second = both
    assert np.array_equal(first["moves"], second["moves"])  # one model
    assert first["normaliser"] == second["normaliser"] == alone["normaliser"]
    assert first["charges"] == alone["charges"] == 1
    assert first["epsilon"] == alone["epsilon"]
    # The union of the ranks' batches is a batch of the declared sampler.
    union = [sorted(a + b) for a, b in zip(first["batches"], second["batches"], strict=True)]
    assert len(union) == 20
    if name in ("cyclic", "random-allocation"):
        for start in range(0, 20, 5):
            everyone = sorted(itertools.chain.from_iterable(union[start : start + 5]))
            assert everyone == list(range(60))
    if name == "cyclic":
        assert union == [sorted(rows) for rows in alone["batches"]]
    if name == "without-replacement":
        assert {len(rows) for rows in union} == {12}
    if name == "poisson":
        assert abs(sum(map(len, union)) - 240) < 5 * np.sqrt(240 * 0.8)
    # The sum: every record of the union moves coordinate 0 by the clip norm, and one noise of
    # standard deviation z C = 1 lies on every coordinate (8,000 draws; size 1e-5).
    moves = -first["moves"]
    noise = moves.copy()
    noise[:, 0] -= [0.5 * len(rows) for rows in union]
    total = float(np.square(noise).sum())
    assert stats.chi2.cdf(total, noise.size) > 1e-5
    assert stats.chi2.sf(total, noise.size) > 1e-5
    assert stats.chi2.sf(2.0 * total, noise.size) < 1e-5  # the mutant: each rank adds its own
    assert abs(noise[:, 0].mean()) < 5.0 / np.sqrt(20)


def test_secure_ranks_draw_differently(tmp_path: Path) -> None:
    """Two runs of the same ranks (that a process is no seed is test_randomness's subject)."""
    runs = train(tmp_path / "two", ("poisson", "poisson"), 2, "zeros", seed=-1)
    (once, other), (again, _) = ([rank["moves"] for rank in run] for run in runs)
    assert np.array_equal(once, other)
    assert not np.allclose(once, again)


# --- ranks that differ --------------------------------------------------------------------------

ADAPTIVE = """
X = torch.zeros(40, 5)
X[:, 0] = 1e-3          # all gradients are small, so that the clip norm falls ...
if rank == 1:
    X[0, 1] = 1e6       # ... but one, on the second rank
adaptive = private(sampling.Poisson(0.5), 20, 40, random_state=1, clipping="adaptive")
for rows in adaptive.batches():
    adaptive.step(lambda m, x: m(x).sum(1), X[rows])
print("canary", max(worst))
print("norm", adaptive._clipping.clip_norm)
refused(sampling.Poisson(0.5 + 0.4 * rank), 20, 40, random_state=1)
refused(sampling.Poisson(0.5), 20, 40, random_state=1, clip_norm=1.0 + 4.0 * rank)
"""


SCHEDULED = """
worst[:] = [0.0]
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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What each rank prints of both scripts: starting two processes is the dear part."""
    return run_ranks(ADAPTIVE + SCHEDULED, tmp_path_factory.mktemp("differ"))


def test_ranks_clip_alike_and_must_agree(told: list[list[str]]) -> None:
    assert float(told[0][0].split()[1]) <= 1.0  # the canary, over its bound
    assert told[0][1] == told[1][1]
    for lines in told:
        assert [line.split()[0] for line in lines[2:4]] == ["refused", "refused"]


def test_ranks_share_the_clip_norm_and_the_kind_of_chance(told: list[list[str]]) -> None:
    """A seeded second rank flips coins that somebody knows, and the guarantee did not say so."""
    assert float(told[0][4].split()[1]) <= 1.0
    for lines in told:
        assert [line.split()[0] for line in lines[5:]] == ["refused", "refused"]
