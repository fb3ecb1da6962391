"""The batches of a training, in the order in which they were drawn."""

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data
from torch.utils._pytree import tree_map

from noisette import _validate
from noisette._typing import Indices
from noisette.core.cells import given
from noisette.core.randomness import Randomness
from noisette.core.sampling import Cyclic
from noisette.errors import InvalidData, InvalidParameter, PermitError, Unproven
from noisette.fitting.algorithms.network import Schedule, level_batch
from noisette.fitting.units import NO_COLUMN, Persons, Unit
from noisette.nn.gradients.clipped import mapped_parts
from noisette.nn.group import Group


def to_come(start: Any, randomness: Randomness) -> Iterator[Indices]:
    """Yield the batches of a run after those that it has drawn.

    A started pass is taken up in the middle only where its order is known to be the same, since a
    record could otherwise be used twice in it: a secret order is not kept, and nobody vouches for
    how rows were loaded. The rest of that pass is run on nobody, so that the count of draws still
    tells how many passes have begun.
    """
    # proof: RESUME
    run, members = start.run, start.members
    first, skip = divmod(start.drawn, run.sampler.steps)
    in_order = isinstance(run.sampler, Cyclic) and start.asked.record_ids is not None
    if skip and not in_order:
        yield from [np.empty(0, dtype=np.intp)] * (run.sampler.steps - skip)
        first, skip = first + 1, 0
    for use in range(first, run.uses):
        if members is None:
            batches = start.group.schedule(run.sampler, start.sizes, randomness)
        else:
            batches = iter([level_batch(run.samplers, members, randomness)])
        yield from itertools.islice(batches, skip if use == first else 0, None)


class Queue:
    """Batches in the order in which they were drawn: each is handed over once, none is left out.

    A loader may look ahead as far as it likes. What it has seen and was not handed over waits here
    for whoever asks next.
    """

    def __init__(self, source: Iterator[Indices]) -> None:
        self._source = source
        self._waiting: deque[Indices] = deque()
        self._past = 0
        self.open: Indices | None = None
        """The batch that was handed over and not yet used."""

    def ahead(self) -> Iterator[Indices]:
        """Yield the batches that come, from the next one on; none of them is handed over yet."""
        number = self._past
        while number >= self._past and self._filled(number - self._past + 1):
            yield self._waiting[number - self._past]
            number += 1

    def hand_over(self) -> Indices | None:
        """Return the next batch, which must be used before another is handed over."""
        if self.open is not None:
            raise PermitError(
                "call step once for every batch before taking the next; where a DataLoader with "
                "workers takes them ahead, use training.loader(dataset, num_workers=...)."
            )
        if not self._filled(1):
            return None
        self.open = self._waiting.popleft()
        self._past += 1
        return self.open

    def _filled(self, count: int) -> bool:
        """Draw until `count` batches wait; return whether the run has so many."""
        while len(self._waiting) < count:
            rows = next(self._source, None)
            if rows is None:
                return False
            self._waiting.append(rows)
        return True


MOST_ROWS = 2**16
"""Who brings more rows adds nothing: the allowance for underflow in NN-CLIP is for each row."""


def unit_of(asked: Any, size: int) -> Unit:
    """Return whose the rows are: those of `size` records, or of the persons that are named."""
    if asked.persons is None:
        return Unit(size)
    persons = Persons.of(asked.persons)
    if persons.count != size:
        raise InvalidData("size must be the number of different persons where persons are given.")
    # proof: RESUME
    _validate.refuse(
        (asked.record_ids is not None,
         "record_ids are for records: every run puts persons into a secret order of its own, so "
         "that a started pass is not taken up in the middle; leave record_ids out."),
        (asked.groups is not None and asked.checkpoint is not None,
         "personal levels of persons cannot be resumed: whether everybody kept their level could "
         "only be seen if identifiers were kept; leave out checkpoint or groups."),
        kind=Unproven,
    )  # fmt: skip
    return persons


def row_weights(unit: Unit) -> Tensor | None:
    """Return the weight of every row, a function of its unit's rows alone; None where all are 1."""
    if unit.weights is None:
        return None
    # proof: NN-PERSONS
    few = np.bincount(unit.index) <= MOST_ROWS
    return torch.from_numpy(np.where(few[unit.index], unit.weights, 0.0))


def check_ranks(ids: Any, group: Group) -> None:
    """Raise on every rank if one person has rows on two of them: there it would count twice."""
    if ids is None or group.ranks == 1:
        return
    # proof: NN-PERSONS

    def known() -> set[Any]:
        if isinstance(ids, Persons):
            raise InvalidParameter(
                "with several ranks pass the identifiers themselves as persons, so that the ranks "
                "can see that nobody is on two of them."
            )
        return given(ids, NO_COLUMN).keys().compared()

    each = group.gathered(known)
    kinds = {isinstance(name, str) for names in each for name in names}
    if len(set().union(*each)) < sum(map(len, each)) or len(kinds) > 1:
        raise InvalidData(
            "a person has rows on two ranks, or the ranks write identifiers in different ways; "
            "put all rows of a person on one rank."
        )


def members_of(groups: Any, rows: int, unit: Unit, run: Schedule) -> list[Indices] | None:
    """Return the units of each group of a plan with personal levels, None for other plans."""
    count = len(run.samplers)
    if count == 1:
        if groups is not None:
            raise InvalidParameter("groups are for plans with personal levels (make_level_plan).")
        return None
    numbers = np.asarray(groups)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise InvalidData("groups must hold one whole number for each row.")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise InvalidData(f"groups must be numbered 0 to {count - 1}, as in the plan.")
    numbers = unit.one_each("groups", numbers)
    return [np.flatnonzero(numbers == each) for each in range(count)]


def part_of(batch: Any, rows: Indices, chosen: slice, copies: int) -> Any:
    """Return the part of a batch that belongs to ``rows[chosen]``."""
    if callable(batch):
        batch, rows = batch(rows[chosen]), rows[chosen]
        chosen = slice(0, len(rows))

    def take(part: Any) -> Any:
        shape = getattr(part, "shape", None)
        if shape is None:
            # A list of labels is data as well, and would be everybody's.
            raise InvalidData(
                "every part of a batch must be a tensor or an array with a row for each record; "
                "what is the same for all belongs in the losses."
            )
        for each in (copies, 1):
            if len(shape) and shape[0] == len(rows) * each:
                return part[chosen.start * each : chosen.stop * each]
        raise InvalidData(
            "the batch must hold exactly the records that batches() handed out, in that order; a "
            "tensor that all records share belongs in the module or in the losses."
        )

    return mapped_parts(take, batch)


_OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "in_order")


class _Numbered(data.Dataset[Any]):
    """The records of a dataset, put together for the numbers that are asked for."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __getitems__(self, numbers: list[int]) -> tuple[list[int], Any]:
        """Return the numbers and the batch; nobody's is the empty slice of somebody's."""
        if not numbers:
            return [], tree_map(lambda part: part[:0], self.collate([self.dataset[0]]))
        many = getattr(self.dataset, "__getitems__", None)
        rows = many(numbers) if many else [self.dataset[number] for number in numbers]
        return numbers, self.collate(list(rows))


def numbered(
    dataset: Any, size: int, batches: Callable[[], Iterable[Indices]],
    options: dict[str, Any],
) -> data.DataLoader[Any]:  # fmt: skip
    """Return a loader of (numbers, batch) for the record numbers that `batches` yields."""
    ours = [name for name in _OURS if name in options]
    if ours:
        raise InvalidParameter(
            f"{ours[0]} is not for the loader to say: the plan decides which records are in a "
            "batch, and in which order batches come."
        )
    streamed = isinstance(dataset, data.IterableDataset) or not hasattr(dataset, "__getitem__")
    _validate.refuse(
        (streamed, "the dataset must give each record by its number, dataset[i]."),
        (not streamed and hasattr(dataset, "__len__") and len(dataset) != size,
         "the dataset must hold exactly the records that the training was told."),
        kind=InvalidData,
    )  # fmt: skip
    collate = options.pop("collate_fn", None) or data.default_collate
    return data.DataLoader(
        _Numbered(dataset, collate), collate_fn=tuple,  # it is put together where it is loaded
        batch_sampler=(rows.tolist() for rows in batches()), **options,  # ahead of use
    )  # fmt: skip


def shown(batches: Iterator[Indices], verbose: bool, steps: int, done: int) -> Iterator[Indices]:
    """Yield batches; on a terminal, if `verbose`, a bar tells how many steps are done, no more."""
    if not (verbose and sys.stderr.isatty()):
        yield from batches
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("private steps"), BarColumn(), MofNCompleteColumn(),
        console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=steps, completed=done)
        for rows in batches:
            yield rows
            bar.advance(task)
