"""Layer, RMS, group and instance normalisation: statistics of one record only."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.rounding import working
from noisette.nn.gradients.terms import Dense, Term

Normalise = Callable[..., Tensor]


def _tapped(
    record: Pass, x: Tensor, weight: Tensor | None, bias: Tensor | None, normalise: Normalise,
    trailing: int = 0,
) -> Any:  # fmt: skip
    """Follow out = normalise(x) * weight + bias, over the last `trailing` axes.

    With none of them there is one weight for each channel, and x is (images, channels, ...).
    """
    trained, fixed = record.sorted_out(weight, bias)
    if not record.constant(weight, bias) or trained == [None, None]:
        return NotImplemented
    merged = 1 if trailing else 2

    def summed(g: Tensor) -> Tensor:
        if trailing:
            return record.examples(g, trailing).sum(1)
        return g.reshape(*g.shape[:3], -1).sum(3).sum(1)

    def terms(held: Tensor, g: Tensor) -> Iterator[Term]:
        if trained[0] is not None:
            flat = working(held).flatten(0, merged - 1)
            normal = normalise(flat, None, None).view(held.shape)
            yield Dense(trained[0], summed(record.spread(normal).mul_(g)))
        if trained[1] is not None:
            yield Dense(trained[1], summed(g))

    return record.tap(lambda x: normalise(x, *fixed), record.replaced(x), terms, merged)


@rule(functional.layer_norm)
def layer_norm(
    record: Pass, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Follow (x - mean) / std * weight + bias over the last axes."""
    return _tapped(
        record, input, weight, bias,
        lambda x, w, b: functional.layer_norm(x, normalized_shape, w, b, eps),
        len(normalized_shape),
    )  # fmt: skip


@rule(functional.rms_norm)
def rms_norm(
    record: Pass, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    eps: float | None = None,
) -> Any:  # fmt: skip
    """Follow x / rms * weight over the last axes."""
    return _tapped(
        record, input, weight, None,
        lambda x, w, _: functional.rms_norm(x, normalized_shape, w, eps), len(normalized_shape),
    )  # fmt: skip


@rule(functional.group_norm)
def group_norm(
    record: Pass, input: Tensor, num_groups: int, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Follow a normalisation over groups of channels."""
    return _tapped(
        record, input, weight, bias,
        lambda x, w, b: functional.group_norm(x, num_groups, w, b, eps),
    )  # fmt: skip


@rule(functional.instance_norm)
def instance_norm(
    record: Pass, input: Tensor, running_mean: Tensor | None = None,
    running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Follow a normalisation of each channel by itself, without running statistics."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        return NotImplemented
    return _tapped(
        record, input, weight, bias,
        lambda x, w, b: functional.instance_norm(x, None, None, w, b, True, 0.0, eps),
    )  # fmt: skip


@rule(torch._weight_norm)
def weight_norm(record: Pass, v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Return g v / |v|, which vmap would compute record by record."""
    v, g = record.replaced((v, g))
    others = [axis for axis in range(v.dim()) if dim == -1 or axis != dim % v.dim()]
    return v * (g / torch.linalg.vector_norm(v, dim=others, keepdim=True))
