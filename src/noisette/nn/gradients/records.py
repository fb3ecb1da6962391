"""The batch as records: what `torch.vmap` runs over, and what the losses must return."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisette.errors import InvalidData

_LEAST = 16
"""Fewer rows would meet other kernels, which round otherwise."""


class BatchRecords:
    """A batch, with the rows of each record side by side in every tensor."""

    def __init__(self, batch: Any, size: int, copies: int) -> None:
        self.given, self.copies = size, copies
        self.size = max(size, _LEAST)
        """With copies of the last record behind the given ones, which nobody counts."""
        self.rows: list[Tensor] = []
        """The tensors of the batch: (size, rows of a record, ...)."""
        self._batch = mapped_parts(self._take, batch)
        if not self.rows:
            raise InvalidData("the batch holds no tensor with a row for each record.")

    def _take(self, x: Any) -> Any:
        if x is None:
            return None
        if isinstance(x, np.ndarray):
            x = torch.as_tensor(x)
        if not isinstance(x, Tensor):
            raise InvalidData(
                f"a batch is made of tensors with a row for each record; got {type(x).__name__}, "
                "which all records would share: what they share belongs in a closure or in the "
                "module."
            )
        if x.dim() == 0 or x.shape[0] not in (self.given, self.given * self.copies):
            raise InvalidData(
                "every tensor of a batch must have one row for each record; tensors that records "
                "share belong in a closure or in the module."
            )
        # A copy: what the code writes in place must reach no other row, nor the caller's tensor,
        # which may come back with the next batch.
        x = x.detach().contiguous().view(self.given, -1, *x.shape[1:])
        self.rows.append(x[torch.arange(self.size, device=x.device).clamp_(max=self.given - 1)])
        return _Place(len(self.rows) - 1)

    def one(self, rows: tuple[Tensor, ...]) -> Any:
        """Return the batch of one record, from what vmap hands out of `rows`."""
        return mapped_parts(lambda x: rows[x.number] if isinstance(x, _Place) else x, self._batch)

    def checked(self, value: Any) -> Tensor:
        """Return what the losses returned for one record, if it is a loss (or `copies`)."""
        if not isinstance(value, Tensor):
            told = "a dict; return its loss" if isinstance(value, Mapping) else type(value).__name__
            raise InvalidData(
                "losses must return a tensor: one loss for the record that it is given, or one "
                f"for each copy; the model or the losses returned {told}."
            )
        if value.shape != (self.copies,) and not (value.dim() == 0 and self.copies == 1):
            raise InvalidData(
                "losses must return one loss for the record that they are given (or one for each "
                f"of its copies); for a batch of one they returned shape {tuple(value.shape)}."
            )
        if not value.is_floating_point():
            raise InvalidData("a loss must be a real number.")
        return value.reshape(self.copies)


class _Place:
    """Stands for a tensor in the batch's structure."""

    def __init__(self, number: int) -> None:
        self.number = number


def mapped_parts(take: Callable[[Any], Any], batch: Any) -> Any:
    """Return the batch with `take` of each of its tensors."""
    if isinstance(batch, Mapping):
        return {name: mapped_parts(take, part) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped_parts(take, part) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(mapped_parts(take, part) for part in batch)
    return take(batch)
