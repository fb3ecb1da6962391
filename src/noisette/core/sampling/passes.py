"""Samplers that sweep the data: disjoint single pass, cyclic, reshuffled each epoch."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Indices
from noisette.core.randomness import Randomness
from noisette.core.sampling.base import PassSampler, Sampler
from noisette.errors import InvalidParameter


@dataclass(frozen=True)
class Disjoint(PassSampler):
    """One pass over disjoint batches, in the given order or one random order (2013 algorithm).

    Parallel composition: each person is in one batch, so the whole pass costs one noisy step.
    `permute` shuffles runs of `run` neighbouring records: any order that is drawn without looking
    at the records will do, and short runs keep reading memory fast.

    Parameters
    ----------
    batches : int
        How many batches the pass has.
    batch_size : int, optional
        How many records a batch has.
    permute : bool, default False
        Whether to draw a random order.
    run : int, default 1
        How many neighbouring records stay together.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import Disjoint
    >>> sampler = Disjoint(batches=2, permute=True)
    >>> [len(batch) for batch in sampler.schedule(5, Randomness.secure())]
    [2, 3]

    """

    permute: bool = False
    run: int = 1

    name: ClassVar[str] = "disjoint"

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return the one pass that it is."""
        if epochs != 1:
            raise InvalidParameter(
                f"disjoint sampling is a single pass; got epochs={epochs}, for which 'cyclic' or "
                "'random-allocation' sampling is meant."
            )
        return cls.of_size(size, batch_size), 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.boolean("permute", self.permute)
        _validate.fields(self, run=_validate.integer)

    def order(self, size: int, randomness: Randomness) -> Indices:
        """Return the given order, or a permutation drawn without looking at the records."""
        if not self.permute:
            return super().order(size, randomness)
        if self.run == 1:
            return randomness.generator.permutation(size)
        starts = randomness.generator.permutation(-(-size // self.run)) * self.run
        order = (starts[:, None] + np.arange(self.run)).ravel()
        return order[order < size]


@dataclass(frozen=True)
class Cyclic(PassSampler):
    """One epoch over the same disjoint batches in the same order, every epoch.

    Parameters
    ----------
    batches : int
        How many batches an epoch has.
    batch_size : int, optional
        How many records a batch has.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import Cyclic
    >>> [batch.tolist() for batch in Cyclic(batches=2).schedule(4, Randomness.secure())]
    [[0, 1], [2, 3]]

    """

    name: ClassVar[str] = "cyclic"


@dataclass(frozen=True)
class Shuffle(PassSampler):
    """One epoch over disjoint batches of a fresh random order.

    Counted as one noisy step per epoch and no better: a lower bound shows that shuffling into
    batches of public size leaks far more than Poisson sampling at the same rate.

    Parameters
    ----------
    batches : int
        How many batches an epoch has.
    batch_size : int, optional
        How many records a batch has.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import Shuffle
    >>> [len(batch) for batch in Shuffle(batches=2).schedule(4, Randomness.secure())]
    [2, 2]

    """

    name: ClassVar[str] = "shuffle"

    def order(self, size: int, randomness: Randomness) -> Indices:
        """Return a fresh permutation."""
        return randomness.generator.permutation(size)
