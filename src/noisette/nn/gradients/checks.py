"""What is refused before anything runs: layers that mix examples or remember them."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import KINDS

__all__ = ["Unchanged", "refuse"]

_REPLACE = "use GroupNorm, LayerNorm, or InstanceNorm without running statistics instead"


def refuse(module: nn.Module) -> None:
    """Raise InvalidParameter, with the reason and the replacement, for what cannot be private."""
    if not isinstance(module, nn.Module):
        raise InvalidParameter(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    for name, layer in module.named_modules():
        shown = f"the layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
        reason = _reason(layer)
        if reason:
            raise InvalidParameter(f"{shown} {reason}.")
    _uninitialised(module)


class Unchanged:
    """The layers and trainable parameters that were looked at; others would not be followed."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._known = module, self._seen(module)

    @staticmethod
    def _seen(module: nn.Module) -> list[Any]:
        layers = list(module.modules())
        compiled = [getattr(layer, "_compiled_call_impl", None) for layer in layers]
        return [*layers, *compiled, *(p for p in module.parameters() if p.requires_grad)]

    def check(self) -> None:
        """Raise InvalidParameter if something was added, replaced, frozen, unfrozen or compiled."""
        now = self._seen(self._module)
        if len(now) != len(self._known) or any(
            new is not old for new, old in zip(now, self._known, strict=True)
        ):
            raise InvalidParameter(
                "the layers or the trainable parameters of the module were changed after the "
                "training had been made for it; change them first, or make another one."
            )


def _reason(layer: Any) -> str | None:
    if isinstance(layer, torch.jit.ScriptModule):
        return "is a TorchScript module, whose layers cannot be followed; pass the module itself"
    wrappers = {
        "OptimizedModule",
        "DataParallel",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
    }
    names = {kind.__name__ for kind in type(layer).__mro__}
    if names & wrappers or getattr(layer, "_compiled_call_impl", None) is not None:
        return "is compiled or wrapped, so its layers cannot be followed; pass the module inside it"
    if isinstance(layer, _BatchNorm):
        return f"mixes the examples of a batch, so no example's gradient is its own; {_REPLACE}"
    if any(name.startswith(("running_", "num_batches")) for name, _ in _own_buffers(layer)):
        return f"keeps running statistics of the data, which no noise protects; {_REPLACE}"
    if getattr(layer, "track_running_stats", False):
        return f"keeps running statistics of the data, which no noise protects; {_REPLACE}"
    if names & {"_SpectralNorm", "SpectralNorm"}:
        return "updates its power iteration in every forward pass; remove the spectral norm"
    if isinstance(layer, nn.EmbeddingBag):
        return "takes a flat list of tokens for all examples; use Embedding and a sum"
    for hook in layer._forward_pre_hooks.values():
        if type(hook).__name__ in ("SpectralNorm", "WeightNorm"):
            return (
                f"has an old-style {type(hook).__name__} hook, which hides its parameters; "
                "use torch.nn.utils.parametrizations.weight_norm, or remove it"
            )
    plain = [vars(layer).get(name) for name in ("weight", "bias")]
    if type(layer) in KINDS and any(isinstance(held, torch.Tensor) for held in plain):
        return (
            "has a weight that a hook computes from other parameters (pruning, for instance), "
            "which cannot be followed; make it permanent, or use torch.nn.utils.parametrize"
        )
    if isinstance(layer, nn.Transformer | nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        attention = getattr(layer, "self_attn", None) or getattr(layer, "encoder", None)
        first = getattr(layer, "batch_first", getattr(attention, "batch_first", True))
        if not first:
            return "has batch_first=False, so its first axis is not the batch; set batch_first=True"
    return None


def _own_buffers(layer: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return list(layer.named_buffers(recurse=False))


def _uninitialised(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidParameter(
                f"the parameter {name!r} has no shape yet; run the module once on made-up inputs "
                "before training, or give its sizes."
            )
        if parameter.requires_grad and not parameter.is_floating_point():
            raise InvalidParameter(
                f"the parameter {name!r} is not real; complex gradients are not supported."
            )
