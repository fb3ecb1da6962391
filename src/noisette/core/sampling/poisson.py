"""Poisson sampling: every record joins the batch by its own coin."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Indices
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.core.sampling.base import Participation, Sampler


@dataclass(frozen=True)
class Poisson(Sampler):
    """Each record is in the batch with probability `rate`, independently.

    The batch size is random and secret; an empty batch still makes a noisy step.

    Parameters
    ----------
    rate : float
        The probability, in (0, 1].

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import Poisson
    >>> sampler = Poisson(rate=0.1)
    >>> batch, = sampler.schedule(1000, Randomness.secure())
    >>> batch.ndim, sampler.normaliser(1000)
    (1, 100.0)

    """

    rate: float

    name: ClassVar[str] = "poisson"
    independent: ClassVar[bool] = True

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return batches of that expected size, as many as `epochs` passes have."""
        return cls(min(1.0, batch_size / size)), epochs * -(-size // batch_size)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _validate.rate("rate", self.rate))

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven under all three relations, each with its own pair."""
        if adjacency is Adjacency.REPLACE_ONE:
            return Participation("poisson", "POISSON-R", rate=self.rate)  # proof: POISSON-R
        return Participation("poisson", "POISSON-A", rate=self.rate)  # proof: POISSON-A

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield one batch."""
        # A uniform number is a multiple of 2^-53: rounded down, so that nobody joins more often.
        rate = math.floor(self.rate * 2.0**53) * 2.0**-53
        yield np.flatnonzero(randomness.generator.random(size) < rate)

    def normaliser(self, size: int) -> float:
        """Return the expected batch size for a *public* number of records."""
        return self.rate * size
