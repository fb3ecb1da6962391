"""What is refused before anything runs: layers that mix examples or remember them."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from noisette import _validate
from noisette.errors import InvalidParameter
from noisette.nn.gradients.linear import REASONS

_WRAPPERS = {
    "OptimizedModule", "DataParallel", "DistributedDataParallel", "FullyShardedDataParallel",
}  # fmt: skip
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
    for name, parameter in module.named_parameters():
        _validate.refuse(
            (isinstance(parameter, nn.parameter.UninitializedParameter),
             f"the parameter {name!r} has no shape yet; run the module once on made-up inputs "
             "before training, or give its sizes."),
            (parameter.requires_grad and not parameter.dtype.is_floating_point,
             f"the parameter {name!r} is not real; complex gradients are not supported."),
        )  # fmt: skip
    _refuse_global_hooks()


class Unchanged:
    """The layers and tensors that were looked at; others would not be followed.

    Looked at before and after every step, so it is a walk over lists that are at hand.
    """

    def __init__(self, module: nn.Module) -> None:
        self._layers: list[Any] = [(layer, _held(layer)) for layer in module.modules()]
        self._tensors = [
            (f"{name}.{own}".strip("."), table, own, held, held.requires_grad)
            for name, layer in module.named_modules()
            for table in (layer._parameters, layer._buffers)
            for own, held in table.items()
            if held is not None
        ]

    def check(self) -> None:
        """Raise if something was added, replaced, frozen, compiled, hooked, or mixes records."""
        for layer, held in self._layers:
            now = _held(layer)
            if len(now) != len(held) or not all(map(operator.is_, now, held)):
                raise _CHANGED
            if layer._backward_hooks or layer._backward_pre_hooks or layer.training:
                reason = _sees_records(layer)
                if reason:
                    raise InvalidParameter(f"a layer ({type(layer).__name__}) {reason}.")
        for _, table, own, held, trained in self._tensors:
            if table.get(own) is not held or held.requires_grad is not trained:
                raise _CHANGED
        _refuse_global_hooks()

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Raise if a buffer or parameter is written to or replaced inside the block."""
        before = [held._version for _, _, _, held, _ in self._tensors]
        yield
        for (name, table, own, held, _), version in zip(self._tensors, before, strict=True):
            if table.get(own) is not held or held._version != version:
                kind = "parameter" if isinstance(held, nn.Parameter) else "buffer"
                raise InvalidParameter(
                    f"the forward pass changes the {kind} {name!r}; make it a constant."
                )


def _held(layer: Any) -> list[Any]:
    return [layer._compiled_call_impl, *layer._modules.values(), *layer._parameters.values()]


_CHANGED = InvalidParameter(
    "the layers or the trainable parameters of the module were changed after the training had been "
    "made for it; change them first, or make another one."
)


def _reason(layer: Any) -> str | None:
    if isinstance(layer, torch.jit.ScriptModule):
        return "is a TorchScript module, whose layers cannot be followed; pass the module itself"
    names = {kind.__name__ for kind in type(layer).__mro__}
    hooks = [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
    old = [name for name in hooks if name in ("SpectralNorm", "WeightNorm")]
    computed = [isinstance(vars(layer).get(name), torch.Tensor) for name in ("weight", "bias")]
    wrapped = names & _WRAPPERS or getattr(layer, "_compiled_call_impl", None) is not None
    reasons = (
        (wrapped, "is compiled or wrapped, so its layers cannot be followed; pass the module "
         "inside it"),
        *((isinstance(layer, nn.Embedding) and getattr(layer, option, None),
           f"has {option}, which {why}; leave it off") for option, why in REASONS.items()),
        (names & {"_SpectralNorm", "SpectralNorm"}, "updates its power iteration in every forward "
         "pass; remove the spectral norm"),
        (isinstance(layer, nn.EmbeddingBag), "takes a flat list of tokens for all examples; use "
         "Embedding and a sum"),
        (old, f"has an old-style {''.join(old[:1])} hook, which hides its parameters; use "
         "torch.nn.utils.parametrizations.weight_norm, or remove it"),
        (any(computed), "has a weight that a hook computes from other parameters (pruning, for "
         "instance), which cannot be followed; make it permanent, or use "
         "torch.nn.utils.parametrize"),
    )  # fmt: skip
    return next((reason for holds, reason in reasons if holds), None) or _sees_records(layer)


def _refuse_global_hooks() -> None:
    hooks = torch.nn.modules.module
    if hooks._global_backward_hooks or hooks._global_backward_pre_hooks:
        raise InvalidParameter(
            "hooks on the gradients of all modules are set (torch.nn.modules.module), which would "
            "see those of all records, or run for none; remove them."
        )


def _sees_records(layer: Any) -> str | None:
    """Say why a layer with hooks, or statistics of the data, is refused; constants are fine."""
    normal = isinstance(layer, _BatchNorm)
    tracks = getattr(layer, "track_running_stats", False) and layer.training
    hooked = layer._backward_hooks or layer._backward_pre_hooks
    reasons = (
        (normal and (layer.training or layer.running_mean is None),
         "normalises by the statistics of a batch, so no record's gradient is its own; "
         f"{_REPLACE}, or keep it in evaluation mode (layer.eval()), where its running statistics "
         "are constants"),
        (tracks and not normal,
         f"keeps running statistics of the data, which no noise protects; {_REPLACE}"),
        (hooked or any(p is not None and (p._backward_hooks or p._post_accumulate_grad_hooks)
                       for p in layer._parameters.values()),
         "has a hook on its gradients, which would see those of all records, or run for none; "
         "remove it"),
    )  # fmt: skip
    return next((reason for holds, reason in reasons if holds), None)
