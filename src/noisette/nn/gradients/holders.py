"""What holds a tensor that should be gone: looked up on the heap, for a refusal in plain words."""

import gc
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch

from noisette.nn.gradients.where import refusal


@contextmanager
def young() -> Iterator[None]:
    """Let no collection happen by itself, so that what is made stays in the youngest generation."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collections() -> int:
    """Return how many collections there have been."""
    return sum(generation["collections"] for generation in gc.get_stats())


def nothing_alive() -> None:
    """Refuse if any tensor of a transform is alive: none of an earlier pass may enter the next."""
    gc.collect()
    for x in gc.get_objects():
        kind = type(x)
        if issubclass(kind, Tensor) and _functorch.maybe_get_level(x) != -1:
            raise refusal("the code keeps a record's values from an earlier pass; keep nothing")
        if issubclass(kind, torch.jit.ScriptModule):
            raise refusal(  # its attributes live outside the heap that is searched here
                "the code has transforms of its own (torch.func, torch.vmap) while a TorchScript "
                "module is in memory, which could keep a record unseen; use plain modules"
            )


def holder(kept: list[Tensor], module: nn.Module) -> str:
    """Say in plain words what holds a tensor."""
    own: list[Any] = [kept]
    names = {}
    for layer in module.modules():
        for held_by in (vars(layer), layer._buffers, layer._parameters):
            names[id(held_by)] = type(layer).__name__
    held: Any = kept[0]
    for _ in range(4):
        holders = [h for h in gc.get_referrers(held) if not isinstance(h, types.FrameType)]
        own.append(holders)
        outside = None
        for h in holders:
            if any(h is x for x in own):
                continue
            outside = outside or h
            if isinstance(h, types.CellType):
                return "a variable of an outer function"
            if isinstance(h, dict):
                owner = names.get(id(h)) or _owner(h)
                if owner:
                    return f"the attribute {_key(h, held)!r} of {owner}"
            elif _key(getattr(h, "__dict__", {}), held):
                return f"the attribute {_key(vars(h), held)!r} of {type(h).__name__}"
        if outside is None:
            break
        own.append(held)
        held = outside
    return "an object that outlives it"


def _key(attributes: Any, value: Any) -> str:
    for name, x in attributes.items():
        if x is value:
            return str(name)
    return ""


def _owner(attributes: dict[Any, Any]) -> str | None:
    for h in gc.get_referrers(attributes):
        if getattr(h, "__dict__", None) is attributes:
            return getattr(h, "__name__", None) or type(h).__name__
    return None
