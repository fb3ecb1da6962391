"""What a training is asked for, and what is settled of it so far: values, no effects."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from noisette.adjacency import Adjacency
from noisette.nn.averaging import Average
from noisette.nn.batches import Batches, Run
from noisette.nn.clipping import Clipping
from noisette.nn.correlation import Banded
from noisette.nn.gradients import ClippedGradients
from noisette.nn.group import Group
from noisette.plans import Plan
from noisette.privacy import Ledger, Permit
from noisette.randomness import Randomness
from noisette.training.observer import Observer

__all__ = ["Asked", "Start"]

Indices = NDArray[np.intp]
_LATER: Any = None  # set by a later stage


@dataclass(frozen=True)
class Asked:
    """What a caller hands in; `PrivateTraining` says what it means."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    plan: Plan
    size: int
    delta: float
    epsilon: float | None
    population: int | None
    clipping: Clipping | str
    clip_norm: float
    micro_batch: int | None
    copies: int
    band: int | None
    groups: Any
    record_ids: Any
    averaging: str | float | None
    ledger: Ledger | None
    checkpoint: str | Path | None
    save_every: int | None
    random_state: int | Randomness | None
    label: str
    observer: Observer


@dataclass(frozen=True)
class Start:
    """What is settled so far; each stage returns one that knows more."""

    asked: Asked
    group: Group
    # refuse
    run: Run = _LATER
    adjacency: Adjacency = _LATER
    gradients: ClippedGradients = _LATER
    clipping: Clipping = _LATER
    banded: Banded | None = _LATER
    file: Path | None = _LATER
    # check
    delta: float = _LATER
    copies: int = _LATER
    micro: int | None = _LATER
    save_every: int | None = _LATER
    average: Average | None = _LATER
    members: list[Indices] | None = _LATER
    randomness: Randomness = _LATER
    # agree
    batches: Batches = _LATER
    normaliser: float = _LATER
    facts: dict[str, Any] = _LATER
    """What is public about the run; a resumed run must have the same."""
    # read
    state: dict[str, Any] | None = _LATER
    # claim
    permit: Permit | None = _LATER
    drawn: int = _LATER
    # draw
    source: Randomness = _LATER
    to_come: Iterator[Indices] = _LATER
