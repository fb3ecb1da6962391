"""Dropout for all records at once: every record has chance of its own, as each entry has."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients.base import Pass, rule

__all__ = ["dropout"]


@rule(functional.dropout)
def dropout(
    record: Pass, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """Run torch's kernel once on all records; vmap takes several operations for it."""
    if inplace or not training or record.constant(input):
        return NotImplemented
    return record.below(lambda x: functional.dropout(x, p, True), input)
