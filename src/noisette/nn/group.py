"""One process, or several that train one model with ``torch.distributed``.

Every rank holds its own records and samples among them. Clipped sums are added up over the ranks;
the first rank alone has the permit and draws the noise, once; everybody gets the noisy sum.

Nobody waits for a rank that cannot come: whatever a rank does between two exchanges is handed in
as a function, and one that fails says so in the exchange itself, so that all ranks stop there. A
rank whose process ends closes its connections, which ends the exchange of the others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from noisette._typing import Indices
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter, RankFailed

Found = TypeVar("Found")


class Group:
    """The ranks that train together; one rank if ``torch.distributed`` is not initialised."""

    def __init__(self) -> None:
        running = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if running else 0
        self.ranks = torch.distributed.get_world_size() if running else 1

    @property
    def first(self) -> bool:
        """Whether this rank charges the ledger and draws the noise."""
        return self.rank == 0

    # --- work that may fail, and its exchange --------------------------------------------------

    def gathered(self, work: Callable[[], Found]) -> list[Found]:
        """Do `work` on every rank and return what each rank found; all stop if one fails."""
        if self.ranks == 1:
            return [work()]
        value, failure = _tried(work)
        known: list[Any] = [None] * self.ranks
        with _connected(failure):
            torch.distributed.all_gather_object(known, (failure is None, value))
        _refuse([not well for well, _ in known])
        return [value for _, value in known]

    def together(self, work: Callable[[], Found]) -> Found:
        """Do `work` on every rank and return this rank's own result; all stop if one fails."""
        found: list[Found] = []
        self.gathered(lambda: found.append(work()))
        return found[0]

    def told(self, work: Callable[[], Found]) -> Found:
        """Do `work` on the first rank and return its result on all; all stop if it fails."""
        if self.ranks == 1:
            return work()
        box: list[Any] = [self.together(lambda: work() if self.first else None)]
        with _connected():
            torch.distributed.broadcast_object_list(box, src=0)
        return cast("Found", box[0])

    def added(self, work: Callable[[], Tensor], size: int, dtype: torch.dtype) -> Tensor:
        """Return the sum of what `work` returns on every rank; all stop if one fails."""
        if self.ranks == 1:
            return work()
        vector, failure = _tried(work)
        sent = torch.zeros(size + self.ranks, dtype=dtype)
        if vector is None:
            sent[size + self.rank] = 1.0
        else:
            sent[:size] = vector
        with _connected(failure):
            torch.distributed.all_reduce(sent)
        _refuse((sent[size:] != 0.0).tolist())
        return sent[:size]

    def align(self, module: nn.Module) -> None:
        """Give every rank the first rank's weights."""
        if self.ranks > 1:
            with torch.no_grad(), _connected():
                for tensor in (*module.parameters(), *module.buffers()):
                    torch.distributed.broadcast(tensor, src=0)

    def agree(self, facts: dict[str, Any]) -> None:
        """Raise on every rank unless all ranks were given the same facts."""
        known = self.gathered(lambda: facts)
        for name in facts:
            if any(given[name] != facts[name] for given in known):
                raise InvalidParameter(
                    f"the ranks do not agree on the {name}, so that what the first rank charges is "
                    "not what all of them run; give every rank the same."
                )

    # --- batches -------------------------------------------------------------------------------

    def schedule(
        self, sampler: Sampler, sizes: list[int], randomness: Randomness
    ) -> Iterator[Indices]:
        """Yield this rank's part of each batch of one use of `sampler` over all ranks' records."""
        if self.ranks == 1 or sampler.independent:
            # Everybody's own coin or bin: the union over the ranks has the sampler's law.
            yield from sampler.schedule(sizes[self.rank], randomness)
            return
        start = sum(sizes[: self.rank])
        stop = start + sizes[self.rank]
        for batch in self.told(lambda: list(sampler.schedule(sum(sizes), randomness))):
            yield batch[(batch >= start) & (batch < stop)] - start


def _tried(work: Callable[[], Found]) -> tuple[Found | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # an interrupt, too: the others must hear of it
        return None, error


@contextmanager
def _connected(failure: BaseException | None = None) -> Iterator[None]:
    """Exchange with the other ranks; then raise this rank's own failure, if there was one."""
    try:
        yield
    except RuntimeError as error:
        if failure is None:
            raise RankFailed(
                "another rank is gone (its process ended, or its connection was lost), so that "
                "this rank stops as well."
            ) from error
    if failure is not None:
        raise failure


def _refuse(failed: list[bool]) -> None:
    if any(failed):
        raise RankFailed(
            f"rank {failed.index(True)} failed, so that this rank stops as well; what went wrong "
            "is told there."
        )
