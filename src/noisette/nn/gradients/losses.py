"""Losses for all records at once: each row has a loss of its own, so no record meets another."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients.base import Pass, rule


@rule(functional.cross_entropy)
def cross_entropy(
    record: Pass, input: Tensor, target: Tensor, weight: Tensor | None = None,
    size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Run torch's kernel once on the rows of all records; vmap takes a dozen operations for it.

    Without a reduction loss t is a function of row t of `input` and `target` alone, so row i of the
    result is what record i would get by itself. proof: NN-INDEPENDENCE
    """
    shared = record.constant(weight) and not record.trains(weight)
    plain = reduction == "none" and size_average is None and reduce is None
    if not (plain and shared) or record.constant(input) or record.trains(target):
        return NotImplemented
    rows = input.shape[:1] if input.dim() > 1 else torch.Size()

    def compute(x: Tensor, y: Tensor) -> Tensor:
        x, y = record.spread(x), record.spread(y)
        if rows:
            x, y = x.flatten(0, 1), y.flatten(0, 1)
        found = functional.cross_entropy(
            x, y, weight, ignore_index=ignore_index, reduction="none",
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return found.view(record.size, *rows, *found.shape[1:])

    return record.below(compute, input, target)
