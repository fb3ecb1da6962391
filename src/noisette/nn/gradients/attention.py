"""Attention: a product without weights, for all records at once, between two linear layers."""

from contextlib import nullcontext
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
    if not query.dim() == key.dim() == value.dim() == 4:
        return NotImplemented
    batch = query.shape[0]
    if key.shape[0] != batch or value.shape[0] != batch:
        return NotImplemented

    def compute(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (record.spread(x).flatten(0, 1) for x in (q, k, v))
        if mask is not None:
            mask = mask.view(mask.shape[0], *[1] * (5 - mask.dim()), *mask.shape[1:])
            if mask.shape[:2] == (1, 1):
                mask = mask[0]
            else:
                mask = mask.expand(record.size, batch, *mask.shape[2:]).flatten(0, 1)
        options: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}
        out = functional.scaled_dot_product_attention(
            q, k, v, mask, dropout_p, is_causal, scale=scale, **options
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
    rare = bias_k is not None or bias_v is not None or static_k is not None or static_v is not None
    rare = rare or add_zero_attn or use_separate_proj_weight or query.dim() != 3
    if rare or in_proj_weight is None or (is_causal and attn_mask is None):
        return NotImplemented
    inputs = (in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias)
    if not all(record.constant(p) for p in inputs) or query.shape[2] != embed_dim_to_check:
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
    N, heads, L, S = shape

    def added(mask: Tensor) -> Tensor:
        if mask.dtype == torch.bool:
            return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
        return mask.to(dtype)

    total = None
    if attn_mask is not None:
        total = added(attn_mask)
        total = total.view(N, heads, L, S) if total.dim() == 3 else total.view(1, 1, L, S)
    if padding is not None:
        extra = added(padding).view(N, 1, 1, S)
        total = extra if total is None else total + extra
    return total
