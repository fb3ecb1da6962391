"""Random allocation ("balls and bins"): every record draws its own batch, once per epoch."""

import itertools
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
        object.__setattr__(self, "batches", _validate.integer("batches", self.batches))

    @property
    def steps(self) -> int:
        """The number of bins."""
        return self.batches

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven for zero-out and add-remove; replace-one follows by two such changes."""
        if adjacency is Adjacency.REPLACE_ONE:
            # proof: ALLOCATION-R
            return Participation("allocation", "ALLOCATION-R", batches=self.batches)
        return Participation(
            "allocation", "ALLOCATION-A", batches=self.batches
        )  # proof: ALLOCATION-A

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the bins of one epoch."""
        bins = randomness.generator.integers(self.batches, size=size)
        order = np.argsort(bins, kind="stable")
        edges = np.searchsorted(bins[order], np.arange(self.batches + 1))
        for start, stop in itertools.pairwise(edges):
            yield order[start:stop]
