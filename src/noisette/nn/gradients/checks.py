"""What is refused before anything runs: layers that mix examples or remember them."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from noisette.errors import InvalidParameter
from noisette.nn.gradients.embedding import REASONS

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
    if _global_hooks():
        raise InvalidParameter(
            "hooks on the gradients of all modules are set (torch.nn.modules.module), which would "
            "see those of all records, or run for none; remove them."
        )


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
        """Raise if something was added, replaced, frozen, compiled, hooked, or mixes records."""
        now = self._seen(self._module)
        if len(now) != len(self._known) or any(
            new is not old for new, old in zip(now, self._known, strict=True)
        ):
            raise InvalidParameter(
                "the layers or the trainable parameters of the module were changed after the "
                "training had been made for it; change them first, or make another one."
            )
        refuse(self._module)  # modes and hooks may change


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
    if isinstance(layer, nn.Embedding):
        for option, why in REASONS.items():
            if getattr(layer, option, None):
                return f"has {option}, which {why}; leave it off"
    running = _remembers(layer)
    if running:
        return running
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
    if any(isinstance(held, torch.Tensor) for held in plain):
        return (
            "has a weight that a hook computes from other parameters (pruning, for instance), "
            "which cannot be followed; make it permanent, or use torch.nn.utils.parametrize"
        )
    hooked = [p for p in layer.parameters(recurse=False) if _hooks(p)]
    if layer._backward_hooks or layer._backward_pre_hooks or hooked:
        return (
            "has a hook on its gradients, which would see those of all records, or run for none; "
            "remove it"
        )
    return None


def _global_hooks() -> bool:
    hooks = torch.nn.modules.module
    return bool(hooks._global_backward_hooks or hooks._global_backward_pre_hooks)


def _hooks(parameter: Any) -> bool:
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


def _remembers(layer: Any) -> str | None:
    """Say why a layer with statistics of the data is refused; as constants they are fine."""
    if isinstance(layer, _BatchNorm):
        if layer.training or layer.running_mean is None:
            return (
                "normalises by the statistics of a batch, so no record's gradient is its own; "
                f"{_REPLACE}, or keep it in evaluation mode (layer.eval()), where its running "
                "statistics are constants"
            )
    elif getattr(layer, "track_running_stats", False) and layer.training:
        return f"keeps running statistics of the data, which no noise protects; {_REPLACE}"
    return None


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
