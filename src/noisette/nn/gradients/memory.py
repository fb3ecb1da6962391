"""Is something kept of the examples? No noise protects what a module or the losses remember."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from noisette.errors import InvalidParameter

__all__ = ["equal", "notes", "nothing_kept", "nothing_remembered", "refuse_growth", "versions"]

Place = tuple[str, int]


def equal(a: Any, b: Any) -> bool:
    """Say whether two tensors, arrays or numbers are the same; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor | np.ndarray):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and bool(((a == b) | ((a != a) & (b != b))).all())
    return bool(a == b or (a != a and b != b))


# --- modules -----------------------------------------------------------------------------------


@contextmanager
def nothing_remembered(module: nn.Module) -> Iterator[None]:
    """Raise if a buffer or parameter was changed inside the block: no noise protects what it keeps.

    Values are compared, since a change through ``.data`` leaves no other trace.
    """
    before = {name: (held, held.detach().clone()) for name, held in _state(module)}
    yield
    for name, now in _state(module):
        held, value = before.get(name, (None, now))
        if now is not held or not equal(now.detach(), value.detach()):
            raise _changed(now, name)


def _changed(held: Tensor, name: str) -> InvalidParameter:
    kind = "parameter" if isinstance(held, nn.Parameter) else "buffer"
    return InvalidParameter(
        f"the forward pass changes the {kind} {name!r}, which would keep facts about the "
        "data that no noise protects; make it a constant."
    )


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


@contextmanager
def versions(module: nn.Module) -> Iterator[None]:
    """Raise if a buffer or parameter is written to inside the block: cheap enough for each step."""
    before = [(held, held._version) for _, held in _state(module)]
    yield
    for (name, now), (held, version) in zip(_state(module), before, strict=False):
        if now is not held or now._version != version:
            raise _changed(now, name)


def notes(module: nn.Module) -> dict[Place, Any]:
    """Return copies of the tensors, arrays and numbers that are plain attributes of the layers."""
    found: dict[Place, Any] = {}
    for name, layer in module.named_modules():
        for attribute, value in vars(layer).items():
            if attribute not in ("_parameters", "_buffers", "_modules"):
                for place, x in enumerate(tree_flatten(value)[0]):
                    if isinstance(x, Tensor) and not isinstance(x, nn.Parameter):
                        x = x.detach().clone()
                    elif isinstance(x, np.ndarray):
                        x = x.copy()
                    elif not isinstance(x, int | float | np.number):
                        continue
                    found[f"{name}.{attribute}".strip("."), place] = x
    return found


def refuse_growth(before: dict[Place, Any], after: dict[Place, Any]) -> None:
    """Raise if a list of such things has become longer by a second look at the same example."""
    counts: dict[str, int] = {}
    for name, _ in before:
        counts[name] = counts.get(name, 0) - 1
    for name, _ in after:
        counts[name] = counts.get(name, 0) + 1
    for name, more in counts.items():
        if more > 0:
            raise kept_by_module(name)


def kept_by_module(name: str) -> InvalidParameter:
    """Return the refusal of a module that keeps what it saw."""
    return InvalidParameter(
        f"the module keeps {name!r} from its forward pass, which would leave with the "
        "module though no noise protects it; return it, or do not keep it."
    )


# --- losses ------------------------------------------------------------------------------------


@contextmanager
def nothing_kept(losses: Callable[..., Any], module: nn.Module) -> Iterator[None]:
    """Raise if the losses change a real number or tensor of their own inside the block.

    Such as a running mean of the losses: the next gradients would depend on earlier batches past
    all noise. Counters may count, and lists may grow.
    """
    before = _held(losses, module)
    yield
    for (name, place), (now, mark) in _held(losses, module).items():
        held, was = before.get((name, place), (now, mark))
        replaced = isinstance(now, Tensor) and now is not held
        if replaced or not equal(mark, was):
            raise InvalidParameter(
                f"the losses change {name!r} when they are called, so that one batch would speak "
                "in the gradients of the next, which no noise protects; let them keep nothing."
            )


def _held(losses: Any, module: nn.Module) -> dict[Place, tuple[Any, Any]]:
    """Return the real numbers and tensors that the losses can reach, with what tells a change."""
    own = set(module.modules())
    found: dict[Place, tuple[Any, Any]] = {}

    def enter(name: str, value: Any, deep: bool) -> None:
        for place, x in enumerate(tree_flatten(value)[0]):
            if isinstance(x, Tensor) and x.is_floating_point():
                found[name, place] = (x, x._version)
            elif isinstance(x, float | np.floating):
                found[name, place] = (x, x)
            elif deep and isinstance(x, nn.Module) and x not in own:
                for part, layer in x.named_modules():
                    for attribute, inner in vars(layer).items():
                        if attribute != "_modules":
                            enter(f"{name}.{part}.{attribute}".replace("..", "."), inner, False)

    for name, value in _reachable(losses):
        enter(name, value, True)
    return found


def _reachable(losses: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function can change: its closure, its globals, its object's attributes."""
    if isinstance(losses, partial):
        yield from ((f"argument {place}", value) for place, value in enumerate(losses.args))
        yield from losses.keywords.items()
        losses = losses.func
    owner = getattr(losses, "__self__", None)
    function = getattr(losses, "__func__", losses)
    code = getattr(function, "__code__", None)
    if owner is not None:
        yield from getattr(owner, "__dict__", {}).items()
    if code is None:
        yield "losses", losses  # a module
        yield from getattr(losses, "__dict__", {}).items()
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from ((name, function.__globals__[name]) for name in code.co_names
                if name in function.__globals__)  # fmt: skip
    yield from (function.__kwdefaults__ or {}).items()
    yield from ((f"default {place}", x) for place, x in enumerate(function.__defaults__ or ()))


def code_of(losses: Any, depth: int = 3) -> Any:
    """Return what tells one function of the losses from another, however often it is made.

    Functions in its closure belong to it: a decorator has one code for all that it wraps.
    """
    while isinstance(losses, partial):
        losses = losses.func
    function = getattr(losses, "__func__", losses)
    code = getattr(function, "__code__", None)
    if code is None:
        return type(losses)
    inner = [value for name, value in _reachable(function) if name in code.co_freevars]
    return code, *(code_of(value, depth - 1) for value in inner if depth and callable(value))
