"""What every sampler offers: the batches it hands out, and the theorem that counts them.

A sampler that runs is the object that is counted, so shuffled batches can never be counted as
Poisson batches. What has no proof under a relation is refused with the sampler to use instead.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Indices
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, Unproven

Kind = Literal["once", "poisson", "without-replacement", "allocation"]


@dataclass(frozen=True)
class Participation:
    """How one record takes part in one use of a sampler: the input of every accountant.

    - ``once``: in exactly one of the noisy steps, and which one gives no amplification;
    - ``poisson``: in the step with probability `rate`, independently of everybody else;
    - ``without-replacement``: the batch is a uniform subset, inclusion probability `rate`;
    - ``allocation``: in exactly one of `batches` steps, drawn uniformly and kept secret.
    """

    kind: Kind
    proof: str
    rate: float = 1.0
    batches: int = 1


@dataclass(frozen=True)
class Sampler(ABC):
    """A rule that picks batches. Parameters are public and frozen.

    Examples
    --------
    >>> from noisette import sampling
    >>> sampler = sampling.SAMPLERS["poisson"](rate=0.1)
    >>> isinstance(sampler, sampling.Sampler), sampler.steps, sampler.parameters()
    (True, 1, {'rate': 0.1})

    """

    name: ClassVar[str]
    independent: ClassVar[bool] = False
    """Whether every record decides for itself, so that ranks need not agree on batches."""

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> "tuple[Sampler, int]":
        """Return the sampler for batches of that size, and how often it is used in `epochs`.

        `size` is the number of records n, or its public estimate where n is private; `batch_size`
        how many records a batch has, exactly or on average. `Unproven` is raised for a kind that
        cannot be asked for by its name.
        """
        raise Unproven(
            f"{cls.name} sampling cannot be asked for by its name; make the sampler and pass it."
        )

    @property
    def steps(self) -> int:
        """How many batches, hence noisy steps, one use hands out."""
        return 1

    @abstractmethod
    def participation(self, adjacency: Adjacency) -> Participation:
        """Return the proven way to count one use, or raise `Unproven` with an alternative."""

    @abstractmethod
    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the index arrays of one use over `size` records (some may be empty)."""

    def check(self, size: int) -> None:
        """Refuse a number of records that `schedule` would refuse, before anything is charged."""
        _validate.integer("size", size)

    def normaliser(self, size: int) -> float:
        """Return the public number to divide a batch sum by (never the realised batch size)."""
        return size / self.steps

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for JSON."""
        return dict(vars(self))  # nothing but the fields, in their order


@dataclass(frozen=True)
class PassSampler(Sampler):
    """A sampler that sweeps all records once in `batches` disjoint batches of public sizes.

    With `batch_size`, batches are full but for a smaller last one; without, they differ by at most
    one record. Sizes depend on n alone, which is public under replace-one and zero-out.
    """

    batches: int
    batch_size: int | None = None

    def __post_init__(self) -> None:
        _validate.fields(self, batches=_validate.integer)
        if self.batch_size is not None:
            _validate.fields(self, batch_size=_validate.integer)

    @classmethod
    def of(cls, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
        """Return the batches of one pass, used once in each epoch."""
        return cls.of_size(size, batch_size), epochs

    @classmethod
    def of_size(cls, size: int, batch_size: int) -> "PassSampler":
        """Return the sampler that cuts `size` records into batches of `batch_size`.

        `InvalidParameter` is raised if a batch would be larger than all records.
        """
        size = _validate.integer("size", size)
        batch_size = _validate.integer("batch_size", batch_size)
        if batch_size > size:
            raise InvalidParameter(
                f"batch_size={batch_size} is larger than the {size} records; choose at most {size}."
            )
        return cls(batches=-(-size // batch_size), batch_size=batch_size)

    @property
    def steps(self) -> int:
        """The number of batches."""
        return self.batches

    def participation(self, adjacency: Adjacency) -> Participation:
        """Each record is in one batch, so a pass costs what one noisy step costs."""
        if adjacency is Adjacency.ADD_REMOVE:
            raise Unproven(
                f"{self.name} batches have no proof under add-remove, because deleting a record "
                "shifts all later ones to other batches; use random-allocation or poisson "
                "sampling, or another adjacency."
            )
        return Participation("once", "PARALLEL")  # proof: PARALLEL

    def check(self, size: int) -> None:
        """Refuse a number of records that the batches do not fit."""
        self.edges(size)

    def edges(self, size: int) -> NDArray[np.int64]:
        """Return where the batches start and end among `size` records, length batches + 1.

        `InvalidParameter` is raised if the batches do not fit that number.
        """
        size = _validate.integer("size", size)
        if self.batch_size is not None:
            edges = np.minimum(np.arange(self.batches + 1, dtype=np.int64) * self.batch_size, size)
            if -(-size // self.batch_size) != self.batches:
                raise InvalidParameter(
                    f"{self.batches} batches of {self.batch_size} do not fit {size} records; "
                    f"charge {-(-size // self.batch_size)} batches."
                )
            return edges
        if self.batches > size:
            raise InvalidParameter(
                f"{self.batches} batches are more than the {size} records; choose fewer batches."
            )
        return np.arange(self.batches + 1, dtype=np.int64) * size // self.batches

    def normaliser(self, size: int) -> float:
        """Return the public batch size."""
        return float(self.batch_size or -(-size // self.batches))

    def order(self, size: int, randomness: Randomness) -> Indices:
        """Return the order of the records in this pass: as given, unless overridden."""
        return np.arange(size)

    def schedule(self, size: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the disjoint batches of one pass."""
        edges = self.edges(size)
        order = self.order(size, randomness)
        for start, stop in itertools.pairwise(edges):
            yield order[start:stop]
