"""Attention, recurrent layers and cross entropy, composed of what runs for all records at once."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients import chance
from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.linear import linear


@rule(functional.scaled_dot_product_attention)
def attend(
    record: Pass, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Run torch's kernel once, with the records beside the batch that Python sees."""
    given = record.replaced((query, key, value, attn_mask))
    batch = len(query) if query.dim() else 0
    if not all(x.dim() == 4 and x.shape[0] == batch for x in (query, key, value)):
        return NotImplemented

    def compute(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (record.spread(x).flatten(0, 1) for x in (q, k, v))
        if mask is not None:
            mask = mask.view(mask.shape[0], *[1] * (5 - mask.dim()), *mask.shape[1:])
            if mask.shape[:2] == (1, 1):
                mask = mask[0]
            else:
                mask = mask.expand(record.size, batch, *mask.shape[2:]).flatten(0, 1)
        out = functional.scaled_dot_product_attention(
            q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return out.view(record.size, batch, *out.shape[1:])

    with record.drawing() if dropout_p else nullcontext():
        return record.below(compute, *given)


@rule(functional.multi_head_attention_forward)
def multi_head(
    record: Pass, query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int,
    num_heads: int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None,
    bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> Any:  # fmt: skip
    """Follow the two projections; the usual options only, others are left to vmap."""
    rare = (
        any(x is not None for x in (bias_k, bias_v, static_k, static_v)) or add_zero_attn
        or use_separate_proj_weight or query.dim() != 3 or (is_causal and attn_mask is None)
    )  # fmt: skip
    shared = record.constant(in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias)
    if rare or not shared or in_proj_weight is None or query.shape[2] != embed_dim_to_check:
        return NotImplemented
    q, k, v = _projected(record, (query, key, value), in_proj_weight, in_proj_bias, num_heads)
    (L, N, E), S = query.shape, key.shape[0]
    mask = _mask(attn_mask, key_padding_mask, (N, num_heads, L, S), query.dtype)
    dropout = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scores = q @ k.transpose(2, 3) / (E // num_heads) ** 0.5
        weights = torch.softmax(scores if mask is None else scores + mask, dim=3)
        if dropout:
            weights = chance.dropout(record, weights, dropout)
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = attend(record, q, k, v, mask, dropout)
    joined = mixed.permute(2, 0, 1, 3).reshape(L, N, E)
    return linear(record, joined, out_proj_weight, out_proj_bias), weights


def _projected(
    record: Pass, given: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, heads: int
) -> list[Tensor]:
    """Return queries, keys and values as (N, heads, length, width of a head).

    Another input than the queries' goes through the whole weight too, and only its part is used:
    the rest gets cotangent zero, which costs less than a weight for every record.
    """
    outputs: dict[int, Tensor] = {}
    found = []
    for part, x in enumerate(given):
        if id(x) not in outputs:
            projected = linear(record, x, weight, bias)
            length, N, width = projected.shape
            shape = (length, N, 3, heads, width // 3 // heads)
            outputs[id(x)] = projected.view(shape).permute(2, 1, 3, 0, 4)
        found.append(outputs[id(x)][part])
    return found


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor | None:
    """Return both masks as one that is added to the scores, or None."""
    N, _, L, S = shape
    each = attn_mask is not None and attn_mask.dim() == 3
    total = None
    for mask, seen in ((attn_mask, shape if each else (1, 1, L, S)), (padding, (N, 1, 1, S))):
        if mask is not None:
            if mask.dtype == torch.bool:
                mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
            mask = mask.to(dtype).view(seen)
            total = mask if total is None else total + mask
    return total


_MODES = {
    "LSTM": (torch.lstm, torch.lstm_cell),
    "GRU": (torch.gru, torch.gru_cell),
    "tanh": (torch.rnn_tanh, torch.rnn_tanh_cell),
    "relu": (torch.rnn_relu, torch.rnn_relu_cell),
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
            w, v, *more = params[len(ends) * each : (len(ends) + 1) * each]
            b, c = more[:2] if has_biases else (None, None)
            state, into, seen = starts[len(ends)], _linear(record, x, w, b), []
            for t in range(len(into))[:: -1 if way else 1]:
                state = _next(mode, into[t], _linear(record, state[0], v, c), state)
                if each in (3, 5):  # a projection
                    state = _linear(record, state[0], more[-1], None), *state[1:]
                seen.append(state[0])
            outputs.append(torch.stack(seen[::-1] if way else seen))
            ends.append(state)
        x = torch.cat(outputs, 2)
        if dropout and train and layer + 1 < num_layers:
            x = chance.dropout(record, x, dropout)
    final = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
    return x.transpose(0, 1) if batch_first else x, *final


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


for _mode, (_layer, _step) in _MODES.items():
    rule(_layer)(partial(recurrent, _mode))
    rule(_step)(partial(_cell, _mode))


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
