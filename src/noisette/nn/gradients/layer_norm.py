"""Layer normalisation and RMS normalisation: statistics of one example only."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.rounding import working
from noisette.nn.gradients.terms import Dense, Term

__all__ = ["LayerNorm", "RMSNorm"]


def _affine(
    record: Pass,
    weight: Tensor | None,
    bias: Tensor | None,
    normal: Tensor | None,
    g: Tensor,
) -> Iterator[Term]:
    """Yield the terms of out = normal * weight + bias; the last axes are those of the weight."""
    shape = next(p.shape for p in (weight, bias) if p is not None)
    if bias is not None and bias.requires_grad:
        yield Dense(bias, record.examples(g, len(shape)).sum(1))
    if weight is not None and normal is not None:
        yield Dense(weight, record.examples(normal.mul_(g), len(shape)).sum(1))


@register(nn.LayerNorm)
class LayerNorm(Kind):
    """out = (x - mean) / std * weight + bias over the last axes."""

    def forward(self, record: Pass, module: nn.LayerNorm, input: Tensor) -> Tensor:
        """Run the layer, recorded."""
        weight, bias, shape = module.weight, module.bias, module.normalized_shape
        w, b = (None if p is None else p.detach() for p in (weight, bias))

        def terms(x: Tensor, g: Tensor) -> Iterator[Term]:
            trainable = weight is not None and weight.requires_grad
            normal = functional.layer_norm(working(x), shape, eps=module.eps) if trainable else None
            return _affine(record, weight if trainable else None, bias, normal, g)

        return record.tap(
            lambda: functional.layer_norm(input, shape, w, b, module.eps), input.detach(), terms
        )


@register(nn.RMSNorm)
class RMSNorm(Kind):
    """out = x / rms * weight over the last axes."""

    def forward(self, record: Pass, module: Any, input: Tensor) -> Tensor:
        """Run the layer, recorded."""
        weight, shape = module.weight, module.normalized_shape

        def terms(x: Tensor, g: Tensor) -> Iterator[Term]:
            normal = functional.rms_norm(working(x), shape, eps=module.eps)
            return _affine(record, weight, None, normal, g)

        def compute() -> Tensor:
            return functional.rms_norm(input, shape, weight.detach(), module.eps)

        return record.tap(compute, input.detach(), terms)
