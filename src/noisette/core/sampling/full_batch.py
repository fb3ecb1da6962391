"""All records in every step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
