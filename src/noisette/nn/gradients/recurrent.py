"""Recurrent layers, step by step: torch's fused kernels cannot be run for all examples at once."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.fallback import per_example

__all__ = ["Recurrent"]


@register(nn.RNN, nn.LSTM, nn.GRU)
class Recurrent(Kind):
    """One example at a time; the batch is the first axis of sequences, the second of states."""

    def check(self, module: Any, name: str) -> None:
        """Refuse the layout in which the batch is the second axis."""
        if not module.batch_first:
            raise InvalidParameter(
                f"the recurrent layer {name!r} has batch_first=False, so its first axis is not the "
                "batch; make it with batch_first=True."
            )

    def forward(self, record: Pass, module: Any, input: Tensor, hx: Any = None) -> Any:
        """Run the layer example by example, recorded."""
        if not isinstance(input, Tensor) or input.dim() != 3:
            raise InvalidParameter(
                "recurrent layers take padded batches of sequences, three axes, and no packed ones."
            )

        def unrolled(x: Tensor, state: Any = None) -> Any:
            return _unrolled(module, x, state)

        # A projection of the state is rare: there torch's own layer is run in a loop.
        call = unrolled if module.proj_size == 0 else None
        return per_example(
            record, module, (input, hx), {}, call=call, axes=lambda place: int(place > 0)
        )


def _unrolled(module: Any, x: Tensor, state: Any) -> Any:
    """Return what the module returns, from elementary operations."""
    ways = 2 if module.bidirectional else 1
    count, lstm = module.num_layers * ways, module.mode == "LSTM"
    if state is None:
        zero = x.new_zeros(count, x.shape[0], module.hidden_size)
        state = (zero, zero) if lstm else zero
    starts = list(zip(*state, strict=True)) if lstm else [(h,) for h in state]
    ends: list[tuple[Tensor, ...]] = []
    for layer in range(module.num_layers):
        outputs = []
        for way in range(ways):
            suffix = f"_l{layer}" + ("_reverse" if way else "")
            seen, end = _direction(module, suffix, x, starts[layer * ways + way], bool(way))
            outputs.append(seen)
            ends.append(end)
        x = torch.cat(outputs, 2)
        if module.dropout and layer + 1 < module.num_layers:
            x = functional.dropout(x, module.dropout, module.training)
    final = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
    return x, final if lstm else final[0]


def _direction(
    module: Any, suffix: str, x: Tensor, state: tuple[Tensor, ...], backward: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    w, v = getattr(module, "weight_ih" + suffix), getattr(module, "weight_hh" + suffix)
    b = getattr(module, "bias_ih" + suffix) if module.bias else None
    c = getattr(module, "bias_hh" + suffix) if module.bias else None
    into = functional.linear(x, w, b)
    steps = range(x.shape[1])
    seen: list[Tensor] = []
    for t in reversed(steps) if backward else steps:
        state = _cell(module.mode, into[:, t], functional.linear(state[0], v, c), state)
        seen.append(state[0])
    return torch.stack(seen[::-1] if backward else seen, 1), state


def _cell(mode: str, a: Tensor, b: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the next state from the input's and the state's part of the gates."""
    if mode == "LSTM":
        i, f, g, o = (a + b).chunk(4, 1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if mode == "GRU":
        (r, z, n), (r_, z_, n_) = a.chunk(3, 1), b.chunk(3, 1)
        keep = torch.sigmoid(z + z_)
        new = torch.tanh(n + torch.sigmoid(r + r_) * n_)
        return ((1.0 - keep) * new + keep * state[0],)
    return (torch.relu(a + b) if mode == "RNN_RELU" else torch.tanh(a + b),)
