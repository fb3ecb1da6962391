"""Linear layers, with any number of axes between the batch and the features."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.terms import Cotangent, Dense, Outer, Shift, Term

__all__ = ["Linear", "matrix_terms", "tapped_linear"]


def matrix_terms(weight: Tensor, bias: Tensor | None, a: Tensor, g: Tensor) -> Iterator[Term]:
    """Yield the terms of out_t = W a_t + b from a (size, T, d) and g (size, T, p).

    Per-example gradients are formed at once when they are no larger than what they replace: one
    batched product then serves the norms and the sum, and a and g are let go. Otherwise
    p d > 2 T (p + d), and there the Gram form needs fewer operations than forming them.
    """
    T, d, p = a.shape[1], a.shape[2], g.shape[2]
    cotangent = Cotangent(g)
    if weight.requires_grad:
        if T > 1 and p * d <= 2 * T * (p + d):
            gradients = torch.bmm(g.transpose(1, 2), a)
            yield Dense(weight, gradients.view(-1, *weight.shape))
        else:
            yield Outer(weight, a, cotangent)
    if bias is not None and bias.requires_grad:
        yield Shift(bias, cotangent) if T == 1 else Dense(bias, g.sum(1))


def tapped_linear(record: Pass, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return functional.linear(x, weight, bias), recorded."""
    if not (weight.requires_grad or (bias is not None and bias.requires_grad)):
        return functional.linear(x, weight, bias)
    b = None if bias is None else bias.detach()

    def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
        return matrix_terms(weight, bias, record.examples(a, 1), record.examples(g, 1))

    return record.tap(lambda: functional.linear(x, weight.detach(), b), x.detach(), terms)


@register(nn.Linear)
class Linear(Kind):
    """out = x W' + b."""

    def forward(self, record: Pass, module: nn.Linear, input: Tensor) -> Tensor:
        """Run the layer, recorded."""
        return tapped_linear(record, input, module.weight, module.bias)
