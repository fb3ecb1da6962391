"""Samplers in which every record decides for itself: all of them, Poisson, balls and bins."""

import itertools
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
class FullBatch(Sampler):
    """Every record takes part; nothing is amplified, under any relation.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import FullBatch
    >>> [batch.tolist() for batch in FullBatch().schedule(3, Randomness.secure())]
    [[0, 1, 2]]

    """

    name: ClassVar[str] = "full"
    independent: ClassVar[bool] = True

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return all rows in each of `epochs` steps."""
        return cls(), epochs

    def participation(self, adjacency: Adjacency) -> Participation:
        """One use is one noisy step of the plain mechanism."""
        return Participation("once", "FULL-BATCH")  # proof: FULL-BATCH

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield all indices."""
        yield np.arange(size)


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
        _validate.fields(self, rate=_validate.rate)

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


@dataclass(frozen=True)
class RandomAllocation(Sampler):
    """In each epoch every record picks one of `batches` bins uniformly and independently.

    It costs what shuffling costs and sweeps the data as shuffling does, but it is amplified.
    Bins may be empty; each still makes a noisy step.

    Parameters
    ----------
    batches : int
        How many bins an epoch has.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import RandomAllocation
    >>> sampler = RandomAllocation(batches=10)
    >>> sum(len(batch) for batch in sampler.schedule(1000, Randomness.secure())), sampler.steps
    (1000, 10)

    """

    batches: int

    name: ClassVar[str] = "random-allocation"
    independent: ClassVar[bool] = True

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return one allocation to batches of that expected size for each epoch."""
        return cls(-(-size // batch_size)), epochs

    def __post_init__(self) -> None:
        _validate.fields(self, batches=_validate.integer)

    @property
    def steps(self) -> int:
        """The number of bins."""
        return self.batches

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven for zero-out and add-remove; replace-one follows by two such changes."""
        if adjacency is Adjacency.REPLACE_ONE:
            # proof: ALLOCATION-R
            return Participation("allocation", "ALLOCATION-R", batches=self.batches)
        # proof: ALLOCATION-A
        return Participation("allocation", "ALLOCATION-A", batches=self.batches)

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the bins of one epoch."""
        bins = randomness.generator.integers(self.batches, size=size)
        order = np.argsort(bins, kind="stable")
        edges = np.searchsorted(bins[order], np.arange(self.batches + 1))
        for start, stop in itertools.pairwise(edges):
            yield order[start:stop]
