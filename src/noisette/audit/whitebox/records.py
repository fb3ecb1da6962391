"""What a trace writes down: charges, draws, releases, solver calls and SGD steps."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.audit.whitebox.problem import Problem
from noisette.core.bounded import Bounded, InKernel
from noisette.core.mechanisms import Mechanism
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import Plan
from noisette.core.sampling import Sampler
from noisette.fitting.losses import Loss


class FlowDiffers(Exception):
    """The second run left the path of the first one: its control flow depends on the data."""


class Blind(Exception):
    """Something must have happened in the fit that the trace did not see."""


@dataclass
class BookedPlan:
    """A plan that was booked, and how often randomness had been read by then."""

    plan: Plan
    epsilon: float
    delta: float
    reads: int


@dataclass
class Draw:
    """Noise vectors; `inside` tells whether they were drawn at the door."""

    mechanism: AdditiveNoise
    unit: float
    noise: Floats
    inside: bool
    charged: bool


@dataclass
class Release:
    """One crossing of the door: an array with its result, or a stream with its draws."""

    bounded: Bounded
    part: int
    mechanism: Mechanism
    sampler: Sampler
    plan: Plan
    result: Any = None
    keys: list[Any] | None = None
    """Of counts of unknown keys: whose count each entry is, as (column, text)."""
    draws: list[Draw] = field(default_factory=list)

    @property
    def stream(self) -> bool:
        """Whether it is noise for a kernel."""
        return isinstance(self.bounded.value, InKernel)

    @property
    def drawn(self) -> float:
        """How many noise vectors were drawn; long ones come in pieces.

        A mechanism that does not add a noise vector of its own answers once for each crossing.
        """
        if not isinstance(self.mechanism, AdditiveNoise):
            return float(self.result is not None)
        return sum(draw.noise.size for draw in self.draws) / self.bounded.dimension


@dataclass
class Solve:
    """One call of the solver; `linear` is the noise of objective perturbation."""

    loss: Loss
    rows: Floats
    target: NDArray[Any]
    regularization: float
    norm_bound: float
    tolerance: float
    weight: Floats | None
    linear: Floats | None
    weights: Floats
    stream: Release | None = None
    """The crossing of the door that its linear term came from."""

    def problem(self) -> Problem:
        """Return the same problem in the auditor's own words."""
        return Problem(self.loss, self.rows, self.target, self.regularization, self.weight)


@dataclass
class SgdStep:
    """One noisy SGD step; `total` is the clean sum of the batch's gradients at `w`."""

    update: Any
    number: int
    w: Floats
    total: Floats
    noise: Floats
    after: Floats
    normaliser: float
    grid: float
    batch: NDArray[np.int64]
    alone: Floats | None = None
    """What the watched rows add to the sum, if they are in the batch."""
    mean: Floats = field(default_factory=lambda: np.empty(0))
    stream: Release | None = None
