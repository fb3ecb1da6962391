"""One process, or several that train one model with ``torch.distributed``.

Every rank holds its own records and samples among them. Clipped sums are added up over the ranks;
the first rank alone has the permit and draws the noise, once; everybody gets the noisy sum.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noisette.errors import InvalidParameter
from noisette.randomness import Randomness
from noisette.sampling import Sampler

__all__ = ["INDEPENDENT", "Group", "present_group"]

Indices = NDArray[np.intp]

INDEPENDENT = ("poisson", "random-allocation", "full")
"""Samplers in which every record decides for itself, so that ranks need not agree."""


class Group:
    """The ranks that train together; one rank if ``torch.distributed`` is not initialised."""

    def __init__(self, rank: int = 0, ranks: int = 1) -> None:
        self.rank, self.ranks = rank, ranks

    @property
    def first(self) -> bool:
        """Whether this rank charges the ledger and draws the noise."""
        return self.rank == 0

    def sizes(self, size: int) -> list[int]:
        """Return the number of records of every rank."""
        return [int(each) for each in self.gathered(size)]

    def gathered(self, value: Any) -> list[Any]:
        """Return the value of every rank."""
        if self.ranks == 1:
            return [value]
        values: list[Any] = [None] * self.ranks
        torch.distributed.all_gather_object(values, value)
        return values

    def agree(self, facts: dict[str, Any]) -> None:
        """Raise on every rank unless all ranks were given the same facts."""
        for name, values in ((name, self.gathered(value)) for name, value in facts.items()):
            if any(value != values[0] for value in values):
                raise InvalidParameter(
                    f"the ranks do not agree on the {name}, so that what the first rank charges is "
                    "not what all of them run; give every rank the same."
                )

    def told(self, value: Any) -> Any:
        """Return the first rank's value on every rank."""
        if self.ranks == 1:
            return value
        box = [value]
        torch.distributed.broadcast_object_list(box, src=0)
        return box[0]

    def added(self, vector: Tensor) -> Tensor:
        """Return the sum of the ranks' vectors."""
        if self.ranks > 1:
            torch.distributed.all_reduce(vector)
        return vector

    def copied(self, vector: Tensor) -> Tensor:
        """Return the first rank's vector on every rank."""
        if self.ranks > 1:
            torch.distributed.broadcast(vector, src=0)
        return vector

    def align(self, module: nn.Module) -> None:
        """Give every rank the first rank's weights."""
        if self.ranks > 1:
            with torch.no_grad():
                for tensor in (*module.parameters(), *module.buffers()):
                    torch.distributed.broadcast(tensor, src=0)

    def schedule(
        self, sampler: Sampler, sizes: list[int], randomness: Randomness
    ) -> Iterator[Indices]:
        """Yield this rank's part of each batch of one use of `sampler` over all ranks' records."""
        if self.ranks == 1 or sampler.name in INDEPENDENT:
            # Everybody's own coin or bin: the union over the ranks has the sampler's law.
            yield from sampler.schedule(sizes[self.rank], randomness)
            return
        start = sum(sizes[: self.rank])
        stop = start + sizes[self.rank]
        whole = list(sampler.schedule(sum(sizes), randomness)) if self.first else None
        for batch in self.told(whole):
            yield batch[(batch >= start) & (batch < stop)] - start


def present_group() -> Group:
    """Return the ranks of ``torch.distributed`` if it runs, else this process alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Group(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Group()
