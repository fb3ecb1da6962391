"""Fixed-size batches without replacement, and the poster's fraction of a fresh shuffle."""

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
from noisette.errors import InvalidParameter, Unproven

PART_OF_SHUFFLE = 0.1
"""The poster's tau for ``sampling="partial-shuffle"``: the used fraction of each shuffle."""


class _OfFixedSize(Sampler):
    """A sampler of batches of exactly `batch_size` of `size` records, both public."""

    batch_size: int
    size: int

    def _check_part(self, part: str, largest: int) -> None:
        """Refuse a number of records that is more than `largest`."""
        _validate.fields(self, size=_validate.integer, **{part: _validate.integer})
        if getattr(self, part) > largest:
            raise InvalidParameter(
                f"{part}={getattr(self, part)} is too large for {self.size} records; "
                f"choose at most {largest}."
            )

    def _at_rate(self, adjacency: Adjacency, rate: float, proof: str) -> Participation:
        """Return the participation at `rate`; replace-one only."""
        if adjacency is not Adjacency.REPLACE_ONE:
            raise Unproven(
                f"{self.name} sampling has no proof under {adjacency}, because a batch of fixed "
                "size gives the place of a missing record to somebody else; use poisson or "
                "random-allocation sampling, or replace-one."
            )
        return Participation("without-replacement", proof, rate=rate)

    def check(self, size: int) -> None:
        """Refuse another number of records than the rate was counted for."""
        if size != self.size:
            raise InvalidParameter(
                f"the plan was charged for {self.size} records but {size} were given; "
                "charge the number that runs."
            )

    def normaliser(self, size: int) -> float:
        """Return the batch size, which is public."""
        return float(self.batch_size)


@dataclass(frozen=True)
class WithoutReplacement(_OfFixedSize):
    """A fresh uniform subset of exactly `batch_size` of `size` records in every step.

    Parameters
    ----------
    batch_size : int
        How many records a batch has.
    size : int
        How many records there are, public.

    Raises
    ------
    InvalidParameter
        If a batch would be larger than all records.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import WithoutReplacement
    >>> batch, = WithoutReplacement(batch_size=10, size=100).schedule(100, Randomness.secure())
    >>> len(batch)
    10

    """

    batch_size: int
    size: int

    name: ClassVar[str] = "without-replacement"

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return batches of that size, as many as `epochs` passes have."""
        return cls(batch_size, size), epochs * -(-size // batch_size)

    def __post_init__(self) -> None:
        self._check_part("batch_size", _validate.integer("size", self.size))

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven for replace-one, at rate batch_size / size exactly."""
        return self._at_rate(adjacency, self.batch_size / self.size, "WOR-R")  # proof: WOR-R

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield one batch."""
        self.check(size)
        drawn = randomness.generator.choice(size, self.batch_size, replace=False, shuffle=False)
        yield np.sort(drawn)


@dataclass(frozen=True)
class PartialShuffle(_OfFixedSize):
    """One round of the poster's Algorithm 1: shuffle, use the first `used` records, stop.

    Batches of `batch_size` (1 in the poster) run one after the other. All iterates of a round cost
    what one step without replacement costs at rate used / size; ``used`` is at most size - 1.

    Parameters
    ----------
    used : int
        How many records a round uses.
    size : int
        How many records there are, public.
    batch_size : int, default 1
        How many records a batch has.

    Raises
    ------
    InvalidParameter
        If `used` or `batch_size` is too large.

    Examples
    --------
    >>> from noisette import Randomness
    >>> from noisette.sampling import PartialShuffle
    >>> sampler = PartialShuffle(used=6, size=100, batch_size=2)
    >>> [len(batch) for batch in sampler.schedule(100, Randomness.secure())]
    [2, 2, 2]

    """

    used: int
    size: int
    batch_size: int = 1

    name: ClassVar[str] = "partial-shuffle"

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return the poster's tau = 0.1: the first tenth of a fresh shuffle, `epochs` passes."""
        used = min(max(batch_size, int(PART_OF_SHUFFLE * size)), size - 1)
        return cls(used, size, min(batch_size, used)), math.ceil(epochs * size / used)

    def __post_init__(self) -> None:
        _validate.integer("size", self.size, least=2)
        self._check_part("used", self.size - 1)
        _validate.fields(self, batch_size=_validate.integer)
        if self.batch_size > self.used:
            raise InvalidParameter(
                f"batch_size={self.batch_size} is larger than the {self.used} used records; "
                f"choose at most {self.used}."
            )

    @property
    def steps(self) -> int:
        """The number of batches in a round."""
        return -(-self.used // self.batch_size)

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven for replace-one: only one step of a round differs, at rate used / size."""
        # proof: POSTER-ALG1
        return self._at_rate(adjacency, self.used / self.size, "POSTER-ALG1")

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the batches of one round."""
        self.check(size)
        order = randomness.generator.permutation(size)[: self.used]
        for start in range(0, self.used, self.batch_size):
            yield order[start : start + self.batch_size]
