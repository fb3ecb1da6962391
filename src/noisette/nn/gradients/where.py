"""For refusals: where in the code it was, what errors of torch.vmap mean, what keeps a tensor."""

import gc
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch

from noisette import errors
from noisette.errors import InvalidParameter

_OURS = tuple(
    os.path.join(path, "")
    for path in (
        *(os.path.dirname(package.__file__ or "") for package in (torch, errors)),
        *(p for name, p in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib")),
    )
)
_PACKAGES = os.path.join("", "site-packages", "")


def refusal(reason: str, frames: Iterable[tuple[Any, int]] | None = None) -> InvalidParameter:
    """Return the refusal with the innermost line that is neither torch's nor ours."""
    for frame, line in traceback.walk_stack(sys._getframe(1)) if frames is None else frames:
        name = frame.f_code.co_filename
        ours = name.startswith(_OURS) and not (_PACKAGES in name and not name.startswith(_OURS[:2]))
        if not ours and not name.startswith("<"):
            return InvalidParameter(f"{reason} (in {name}, line {line})")
    return InvalidParameter(reason)


WRITTEN = (
    "the code writes a record's values into a tensor that is the same for all records, which "
    "would keep them; make a new tensor (torch.stack, torch.where, x.new_zeros)"
)
_MEANINGS = (
    (("calling .item()", "data-dependent control flow", "aten::equal", "torch.allclose"),
     "the code reads a record's value into Python, or decides by it, and what Python knows no "
     "clipping bounds; keep it in tensors (torch.where instead of if)"),
    (("Cannot access data pointer", "Cannot access storage", "accessing `data` under vmap",
      "doesn't have storage"),
     "the code reads a record's values out of torch (numpy, tolist, .data, a copy, a file), "
     "where nothing bounds them; use operations of torch"),
    (("dynamic shape", "torch.masked_select", "num_classes argument"),
     "the code makes a tensor whose size depends on a record's values (a boolean index, "
     "nonzero, unique); use torch.where, or multiply by the mask"),
    (("saved tensor hooks are refused",),
     "the code sets hooks on saved tensors, as torch.utils.checkpoint does, and these would "
     "see all records; switch gradient checkpointing off"),
    (("must override the setup_context", "autograd.Function"),
     "the code uses a torch.autograd.Function (torch.utils.checkpoint has one as well), whose "
     "backward pass is not known to keep records apart; write it with operations of torch"),
    (("in extra_args that has more elements than", "doesn't match the broadcast shape",
      "which will be updated in place", "mutating directly with `.data`", "vmap: inplace"),
     WRITTEN),
    (("backward() called inside", "cannot register a hook", "requires_grad_() (or perhaps",
      "does not require grad and does not have a grad_fn"),
     "the code takes gradients itself, or hooks into them, as gradient checkpointing does; "
     "switch that off, and use torch.func.grad where a gradient is part of the loss"),
    (("may have escaped from inside a function being vmapped",),
     "the code uses a tensor that it kept from another batch; keep nothing"),
    (("randomness",),
     "the code draws chance in a way that cannot be repeated for every record by itself; use "
     "torch.rand and its kin without a generator of your own, on new tensors"),
)  # fmt: skip


def raise_known(error: BaseException) -> None:
    """Raise the refusal that an error of torch inside the pass amounts to, if it is one."""
    for signs, reason in _MEANINGS:
        if any(sign in str(error) for sign in signs):
            raise refusal(reason, list(traceback.walk_tb(error.__traceback__))[::-1]) from error


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
    names = {
        id(table): type(layer).__name__
        for layer in module.modules()
        for table in (vars(layer), layer._buffers, layer._parameters)
    }
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
                for owner in gc.get_referrers(h):
                    if getattr(owner, "__dict__", None) is h:
                        names.setdefault(id(h), getattr(owner, "__name__", type(owner).__name__))
                if id(h) in names:
                    return f"the attribute {_key(h, held)!r} of {names[id(h)]}"
            elif _key(getattr(h, "__dict__", {}), held):
                return f"the attribute {_key(vars(h), held)!r} of {type(h).__name__}"
        if outside is None:
            break
        own.append(held)
        held = outside
    return "an object that outlives it"


def _key(attributes: Any, value: Any) -> str:
    return next((str(name) for name, x in attributes.items() if x is value), "")
