"""Batches out of a dataset, loaded ahead by workers, with the numbers of their records."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils import data
from torch.utils._pytree import tree_map

from noisette._typing import Indices
from noisette.errors import InvalidData, InvalidParameter

_OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "in_order")


class _Numbered(data.Dataset[Any]):
    """The records of a dataset, each with its number."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, number: int) -> tuple[int, Any]:
        return number, self.dataset[number]

    def __getitems__(self, numbers: list[int]) -> list[tuple[int, Any]]:
        if numbers and hasattr(self.dataset, "__getitems__"):
            return list(zip(numbers, self.dataset.__getitems__(numbers), strict=True))
        return [self[number] for number in numbers]


class _Collate:
    """Put records together; nobody's batch is the empty slice of somebody's."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __call__(self, records: list[tuple[int, Any]]) -> tuple[list[int], Any]:
        if records:
            numbers, rows = zip(*records, strict=True)
            return list(numbers), self.collate(list(rows))
        return [], tree_map(lambda part: part[:0], self.collate([self.dataset[0]]))


class _Ahead:
    """What a DataLoader asks for batches; it may ask long before they are used."""

    def __init__(self, batches: Callable[[], Iterable[Indices]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        for rows in self.batches():
            yield rows.tolist()


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
    if isinstance(dataset, data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise InvalidData("the dataset must give each record by its number, dataset[i].")
    if hasattr(dataset, "__len__") and len(dataset) != size:
        raise InvalidData("the dataset must hold exactly the records that the training was told.")
    collate = options.pop("collate_fn", None) or data.default_collate
    return data.DataLoader(
        _Numbered(dataset), batch_sampler=_Ahead(batches),
        collate_fn=_Collate(dataset, collate), **options,
    )  # fmt: skip
