"""Group normalisation: statistics over groups of channels of one example."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.rounding import working
from noisette.nn.gradients.terms import Dense, Term

__all__ = ["GroupNorm", "tapped_channels"]


def tapped_channels(
    record: Pass, x: Tensor, module: Any, normalise: Callable[..., Tensor]
) -> Tensor:
    """Return normalise(x, weight, bias), recorded; channels are the second axis."""
    weight, bias = module.weight, module.bias
    w, b = (None if p is None else p.detach() for p in (weight, bias))

    def summed(g: Tensor) -> Tensor:
        channels = g.reshape(record.rows, g.shape[1], -1).sum(2)
        return channels.view(record.size, record.copies, -1).sum(1)

    def terms(held: Tensor, g: Tensor) -> Iterator[Term]:
        if weight is not None and weight.requires_grad:
            yield Dense(weight, summed(normalise(working(held), None, None).mul_(g)))
        if bias is not None and bias.requires_grad:
            yield Dense(bias, summed(g))

    return record.tap(lambda: normalise(x, w, b), x.detach(), terms)


@register(nn.GroupNorm)
class GroupNorm(Kind):
    """out = normalised * weight + bias, one weight per channel."""

    def forward(self, record: Pass, module: nn.GroupNorm, input: Tensor) -> Tensor:
        """Run the layer, recorded."""

        def normalise(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
            return functional.group_norm(x, module.num_groups, weight, bias, module.eps)

        return tapped_channels(record, input, module, normalise)
