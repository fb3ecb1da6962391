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


def _replace_one_only(name: str, adjacency: Adjacency) -> None:
    if adjacency is not Adjacency.REPLACE_ONE:
        raise Unproven(
            f"{name} sampling has no proof under {adjacency}, because a batch of fixed size gives "
            "the place of a missing record to somebody else; use poisson or random-allocation "
            "sampling, or replace-one."
        )


def _check_sizes(sampler: "WithoutReplacement | PartialShuffle", part: str, largest: int) -> None:
    size = _validate.integer("size", sampler.size)
    count = _validate.integer(part, getattr(sampler, part))
    object.__setattr__(sampler, "size", size)
    object.__setattr__(sampler, part, count)
    if count > largest:
        raise InvalidParameter(
            f"{part}={count} is too large for {size} records; choose at most {largest}."
        )


def _check_population(sampler: "WithoutReplacement | PartialShuffle", size: int) -> None:
    if size != sampler.size:
        raise InvalidParameter(
            f"the plan was charged for {sampler.size} records but {size} were given; "
            "charge the number that runs."
        )


@dataclass(frozen=True)
class WithoutReplacement(Sampler):
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
        _check_sizes(self, "batch_size", _validate.integer("size", self.size))

    def participation(self, adjacency: Adjacency) -> Participation:
        """Proven for replace-one, at rate batch_size / size exactly."""
        _replace_one_only(self.name, adjacency)
        rate = self.batch_size / self.size
        return Participation("without-replacement", "WOR-R", rate=rate)  # proof: WOR-R

    def check(self, size: int) -> None:
        """Refuse another number of records than the rate was counted for."""
        _check_population(self, size)

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield one batch."""
        _check_population(self, size)
        drawn = randomness.generator.choice(size, self.batch_size, replace=False, shuffle=False)
        yield np.sort(drawn)

    def normaliser(self, size: int) -> float:
        """Return the batch size, which is public."""
        return float(self.batch_size)


@dataclass(frozen=True)
class PartialShuffle(Sampler):
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
        _check_sizes(self, "used", self.size - 1)
        batch_size = _validate.integer("batch_size", self.batch_size)
        object.__setattr__(self, "batch_size", batch_size)
        if batch_size > self.used:
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
        _replace_one_only(self.name, adjacency)
        rate = self.used / self.size
        return Participation("without-replacement", "POSTER-ALG1", rate=rate)  # proof: POSTER-ALG1

    def check(self, size: int) -> None:
        """Refuse another number of records than the rate was counted for."""
        _check_population(self, size)

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the batches of one round."""
        _check_population(self, size)
        order = randomness.generator.permutation(size)[: self.used]
        for start in range(0, self.used, self.batch_size):
            yield order[start : start + self.batch_size]

    def normaliser(self, size: int) -> float:
        """Return the batch size, which is public."""
        return float(self.batch_size)
