"""Multi-head attention: two linear layers that are book-kept, around a product without weights."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.fallback import per_example
from noisette.nn.gradients.linear import tapped_linear

__all__ = ["Attention"]


@register(nn.MultiheadAttention)
class Attention(Kind):
    """Self-attention by its two projections; everything else is run one example at a time."""

    def check(self, module: Any, name: str) -> None:
        """Refuse the layout in which the batch is the second axis."""
        if not module.batch_first:
            raise InvalidParameter(
                f"the attention layer {name!r} has batch_first=False, so its first axis is not the "
                "batch; make it with batch_first=True."
            )

    def forward(
        self, record: Pass, module: Any, query: Tensor, key: Tensor, value: Tensor,
        key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Run the layer, recorded."""
        plain = query is key and key is value and query.dim() == 3
        if not plain or module.bias_k is not None or module.add_zero_attn:
            return _general(
                record, module, query, key, value, key_padding_mask, need_weights, attn_mask,
                average_attn_weights, is_causal,
            )  # fmt: skip
        N, T, E = query.shape
        heads = module.num_heads
        qkv = tapped_linear(record, query, module.in_proj_weight, module.in_proj_bias)
        q, k, v = qkv.view(N, T, 3, heads, E // heads).permute(2, 0, 3, 1, 4)
        mask = _mask(attn_mask, key_padding_mask, N, heads, T, query.dtype)
        dropout = module.dropout if module.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.transpose(2, 3) / (E // heads) ** 0.5
            weights = torch.softmax(scores if mask is None else scores + mask, dim=3)
            weights = functional.dropout(weights, dropout, module.training)
            mixed = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        out = module.out_proj
        joined = mixed.transpose(1, 2).reshape(N, T, E)
        return tapped_linear(record, joined, out.weight, out.bias), weights


def _general(
    record: Pass, module: Any, query: Tensor, key: Tensor, value: Tensor,
    key_padding_mask: Tensor | None, need_weights: bool, attn_mask: Tensor | None,
    average_attn_weights: bool, is_causal: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    if attn_mask is not None:
        # One mask for all examples is known by its two axes, whatever their length.
        heads, length = module.num_heads, attn_mask.shape[-2:]
        if attn_mask.dim() == 3:
            attn_mask = attn_mask.view(-1, heads, *length)
        else:
            attn_mask = attn_mask.expand(record.rows, heads, *length)

    def one(
        query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None
    ) -> Any:
        flat = None if mask is None else mask.flatten(0, 1)
        return module.forward(  # its hooks run on the whole batch
            query, key, value, key_padding_mask=padding, need_weights=need_weights, attn_mask=flat,
            average_attn_weights=average_attn_weights,
        )  # fmt: skip

    found: tuple[Tensor, Tensor | None] = per_example(
        record, module, (query, key, value, key_padding_mask, attn_mask), {}, call=one
    )
    return found


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, N: int, heads: int, T: int, dtype: torch.dtype
) -> Tensor | None:
    """Return both masks as one that is added to the scores, or None."""

    def added(mask: Tensor) -> Tensor:
        if mask.dtype == torch.bool:
            return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
                mask, -torch.inf
            )
        return mask.to(dtype)

    total = None
    if attn_mask is not None:
        total = added(attn_mask)
        total = total.view(N, heads, T, T) if total.dim() == 3 else total.view(1, 1, T, T)
    if padding is not None:
        extra = added(padding).view(N, 1, 1, T)
        total = extra if total is None else total + extra
    return total
