"""Recurrent layers, step by step: torch's fused kernels cannot be run for all records at once."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients import chance
from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.linear import linear

_LAYERS = {"LSTM": torch.lstm, "GRU": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}
_CELLS = {
    "LSTM": torch.lstm_cell,
    "GRU": torch.gru_cell,
    "tanh": torch.rnn_tanh_cell,
    "relu": torch.rnn_relu_cell,
}


def recurrent(
    mode: str, record: Pass, input: Tensor, hx: Any, params: Any, has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool = False,
) -> Any:  # fmt: skip
    """Return what torch's layer returns, from elementary operations."""
    if not isinstance(has_biases, bool):  # the form for packed sequences: data, sizes, states, ...
        return NotImplemented
    input, hx = record.replaced((input, hx))
    x = input.transpose(0, 1) if batch_first else input
    ways, lstm = 2 if bidirectional else 1, mode == "LSTM"
    each = len(params) // (num_layers * ways)
    starts = list(zip(*hx, strict=True)) if lstm else [(h,) for h in hx]
    ends: list[tuple[Tensor, ...]] = []
    for layer in range(num_layers):
        outputs = []
        for way in range(ways):
            place = layer * ways + way
            weights = params[place * each : (place + 1) * each]
            seen, end = _direction(mode, record, x, starts[place], weights, has_biases, bool(way))
            outputs.append(seen)
            ends.append(end)
        x = torch.cat(outputs, 2)
        if dropout and train and layer + 1 < num_layers:
            x = chance.dropout(record, x, dropout)
    final = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
    return x.transpose(0, 1) if batch_first else x, *final


def _direction(
    mode: str, record: Pass, x: Tensor, state: tuple[Tensor, ...], weights: Any, biases: bool,
    backward: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    w, v = weights[:2]
    b, c = weights[2:4] if biases else (None, None)
    projection = weights[-1] if len(weights) in (3, 5) else None
    into = _linear(record, x, w, b)
    steps = range(x.shape[0])
    seen: list[Tensor] = []
    for t in reversed(steps) if backward else steps:
        state = _next(mode, into[t], _linear(record, state[0], v, c), state)
        if projection is not None:
            state = _linear(record, state[0], projection, None), *state[1:]
        seen.append(state[0])
    return torch.stack(seen[::-1] if backward else seen), state


def _linear(record: Pass, x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    found = linear(record, x, weight, bias)
    if found is NotImplemented:
        return functional.linear(*record.replaced((x, weight, bias)))
    return found


def _next(mode: str, a: Tensor, b: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the next state from the input's and the state's part of the gates."""
    if mode == "LSTM":
        i, f, g, o = (a + b).chunk(4, -1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if mode == "GRU":
        (r, z, n), (r_, z_, n_) = a.chunk(3, -1), b.chunk(3, -1)
        keep = torch.sigmoid(z + z_)
        new = torch.tanh(n + torch.sigmoid(r + r_) * n_)
        return ((1.0 - keep) * new + keep * state[0],)
    return (torch.relu(a + b) if mode == "relu" else torch.tanh(a + b),)


def _cell(
    mode: str, record: Pass, input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None = None, b_hh: Tensor | None = None,
) -> Any:  # fmt: skip
    """Return what torch's cell returns."""
    hx = record.replaced(hx)
    state = tuple(hx) if mode == "LSTM" else (hx,)
    a, b = _linear(record, input, w_ih, b_ih), _linear(record, state[0], w_hh, b_hh)
    found = _next(mode, a, b, state)
    return found if mode == "LSTM" else found[0]


for _mode, _call in _LAYERS.items():
    rule(_call)(partial(recurrent, _mode))
for _mode, _call in _CELLS.items():
    rule(_call)(partial(_cell, _mode))
