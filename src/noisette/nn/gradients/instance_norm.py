"""Instance normalisation without running statistics: one example, one channel at a time."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.group_norm import tapped_channels

__all__ = ["InstanceNorm"]


@register(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
class InstanceNorm(Kind):
    """out = normalised * weight + bias, one weight per channel."""

    def forward(self, record: Pass, module: Any, input: Tensor) -> Tensor:
        """Run the layer, recorded."""

        def normalise(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
            return functional.instance_norm(x, None, None, weight, bias, True, 0.0, module.eps)

        return tapped_channels(record, input, module, normalise)
