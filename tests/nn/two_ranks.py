"""Two ranks of ``torch.distributed`` that run the same script, with a watch at the door.

Ranks are processes of their own, forked from one that has imported torch and computed nothing: a
start of Python with torch takes seconds, and a rank is one of fifteen.
"""

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

__all__ = ["run_ranks", "start"]

_NURSERY = multiprocessing.get_context("forkserver")
_NURSERY.set_forkserver_preload(["two_ranks", "noisette.nn", "noisette.fitting.algorithms.passage"])

START = """
import sys
import torch, torch.distributed as dist
from torch import nn
from noisette.core import mechanisms
from noisette.core import sampling
from noisette.errors import NoisetteError
from noisette.nn import Flat, PrivateTraining
from noisette.fitting.algorithms import passage
from noisette.core.plans import Repeat, Sampled
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
worst, real = [0.0], passage.release
def door(bounded, *args, **kwargs):
    worst.append(abs(float(bounded.value[1])) / bounded.contribution)
    return real(bounded, *args, **kwargs)
passage.release = door
def private(sampler, uses, size, **options):
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under("zero-out")
    module = nn.Linear(5, 1, bias=False)
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=0.0), plan, size=size,
                           delta=1e-5, **options)
def refused(*args, **options):
    try:
        private(*args, **options)
        print("accepted", options)
    except NoisetteError as error:
        print("refused", error)
"""


def _live(code: str, words: list[str], said: Path, quiet: bool) -> None:
    with said.open("w") as out:
        os.dup2(out.fileno(), 1)
        if quiet:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv = ["-c", *words]
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        exec(compile(code, "<rank>", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()


def start(code: str, words: list[str], said: Path, *, quiet: bool = False) -> BaseProcess:
    """Start a process that runs `code` with the arguments `words` and prints to the file `said`."""
    process = _NURSERY.Process(target=_live, args=(code, words, said, quiet))
    process.start()
    return process


def run_ranks(script: str, folder: Path, *, quiet: bool = False) -> list[list[str]]:
    """Return the lines that each rank printed; `script` goes on after START."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    code = START + script + "\ndist.destroy_process_group()\n"
    files = [folder / f"said{rank}" for rank in range(2)]
    ranks = [
        start(code, [str(rank), str(folder)], file, quiet=quiet) for rank, file in enumerate(files)
    ]
    for rank in ranks:
        rank.join(timeout=200)
        assert rank.exitcode is not None, "a rank hangs"
    return [file.read_text().splitlines() for file in files]
