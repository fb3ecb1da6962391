"""What a training is asked for, and what is settled of it so far: values, no effects."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from noisette._typing import Indices
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.plans import Plan
from noisette.core.randomness import Randomness
from noisette.fitting.algorithms.correlation import Banded
from noisette.fitting.algorithms.network import PreparedNetwork, Schedule
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.units import Persons
from noisette.nn.averaging import Average
from noisette.nn.batches import RankBatches
from noisette.nn.clipping import Clipping
from noisette.nn.gradients import ClippedGradients
from noisette.nn.group import Group

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
    persons: Any
    record_ids: Any
    averaging: str | float | None
    ledger: Ledger | None
    checkpoint: str | Path | None
    save_every: int | None
    random_state: int | Randomness | None
    label: str


@dataclass(frozen=True)
class Start:
    """What is settled so far; each stage returns one that knows more."""

    asked: Asked
    group: Group
    # refuse
    run: Schedule = _LATER
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
    persons: Persons | None = _LATER
    weights: Tensor | None = _LATER
    """The weight of every row within its person; None where every row is a record."""
    randomness: Randomness = _LATER
    # agree
    batches: RankBatches = _LATER
    normaliser: float = _LATER
    prepared: PreparedNetwork = _LATER
    facts: dict[str, Any] = _LATER
    """What is public about the run; a resumed run must have the same."""
    # read
    state: dict[str, Any] | None = _LATER
    # claim
    permit: Permit | None = _LATER
    """What paid for the run; on the first rank only."""
    drawn: int = _LATER
    # draw
    passage: Passage | None = _LATER
    """The way through the door; on the first rank only."""
    to_come: Iterator[Indices] = _LATER

    @property
    def rows(self) -> int:
        """How many rows this process holds; private where the units are persons."""
        return self.asked.size if self.persons is None else len(self.persons.index)
