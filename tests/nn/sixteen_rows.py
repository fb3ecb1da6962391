"""Sixteen rows, the sum of a module's outputs as loss, and a short private training of it."""

from typing import Any

import torch
from torch import nn

from noisette.core import mechanisms, sampling
from noisette.core.plans import Plan, Repeat, Sampled
from noisette.nn import PrivateTraining

N, D = 16, 3
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def private(module: nn.Module, plan: Plan | None = None, **options: Any) -> PrivateTraining:
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    full = Repeat(Sampled(mechanisms.Gaussian(2.0), sampling.FullBatch()), 3).under("zero-out")
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    return PrivateTraining(module, optimizer, plan or full, **given)
