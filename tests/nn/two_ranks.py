"""Two ranks of ``torch.distributed`` that run the same script, with a watch at the door."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

__all__ = ["run_ranks"]

START = """
import sys
import torch, torch.distributed as dist
from torch import nn
from noisette import mechanisms, sampling
from noisette.errors import NoisetteError
from noisette.nn import Flat, PrivateTraining
from noisette.training import passage
from noisette.plans import Repeat, Sampled
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


def run_ranks(script: str, folder: Path, *, quiet: bool = False) -> list[list[str]]:
    """Return the lines that each rank printed; `script` goes on after START."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    code = START + script + "\ndist.destroy_process_group()\n"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
        )
        for rank in range(2)
    ]
    return [rank.communicate(timeout=200)[0].splitlines() for rank in ranks]
