"""Averages of the iterates: free, because every iterate is released anyway."""

from typing import Any

import torch
from torch import Tensor, nn

from noisette import _validate
from noisette.errors import InvalidParameter


class Average:
    """Mean of the iterates: ``"tail"`` is that of the second half, a number the decay of an
    exponential mean.
    """

    def __init__(self, kind: str | float, parameters: list[nn.Parameter], steps: int) -> None:
        if isinstance(kind, str):
            _validate.choice("averaging", kind, ("tail",))
        elif not 0.0 < _validate.real("averaging", kind) < 1.0:
            raise InvalidParameter(
                f"averaging must be None, 'tail' or a decay in (0, 1); got {kind!r}."
            )
        self._kind, self._parameters, self._steps = kind, parameters, steps
        self._values: list[Tensor] = [p.detach().clone() for p in parameters]
        self._count = 0

    def take(self, step: int) -> None:
        """Add the iterate after `step` steps."""
        if self._kind == "tail" and 2 * step <= self._steps:
            return
        self._count += 1
        if isinstance(self._kind, str):
            weight = 1.0 / self._count
        else:  # a plain mean until the window is full, so that the start does not linger
            weight = max(1.0 - self._kind, 1.0 / self._count)
        with torch.no_grad():
            for mean, parameter in zip(self._values, self._parameters, strict=True):
                mean.lerp_(parameter, weight)

    def load(self) -> None:
        """Put the average into the module."""
        if self._count:
            with torch.no_grad():
                for mean, parameter in zip(self._values, self._parameters, strict=True):
                    parameter.copy_(mean)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"values": self._values, "count": self._count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self._count = int(state["count"])
        for mean, value in zip(self._values, state["values"], strict=True):
            mean.copy_(value)
