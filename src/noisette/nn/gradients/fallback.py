"""The general way: run any module one example at a time, each with its own copy of the parameters.

`torch.vmap` runs the module on all examples at once with parameters expanded to (rows, *shape);
the ordinary backward pass then returns one gradient per example. The same forward pass is the
one that is differentiated, so dropout needs no care. No example can see another, by construction.
A module that vmap cannot trace is run in a loop over examples.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from noisette.nn.gradients.base import Kind, NotPerExample, Pass
from noisette.nn.gradients.terms import Dense, Term

__all__ = ["General", "per_example"]


class General(Kind):
    """Any module: the batch is the first axis of every tensor that has as many rows."""

    def forward(self, record: Pass, module: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the module example by example, recorded."""
        return per_example(record, module, args, kwargs)


def per_example(
    record: Pass,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    call: Callable[..., Any] | None = None,
    axes: Callable[[int], int] = lambda place: 0,
) -> Any:
    """Return module(*args, **kwargs) with one gradient per row for each trainable parameter.

    `axes` tells the batch axis of the i-th tensor of the arguments and of the answer; tensors
    without `rows` entries there are the same for all examples. `call` stands in for the module.
    """
    flat, shape = tree_flatten((args, kwargs))
    mapped = [_axis(x, axes(place), record.rows) for place, x in enumerate(flat)]
    if all(axis is None for axis in mapped):
        raise NotPerExample
    trainable = {n: p for n, p in module.named_parameters() if p.requires_grad}
    expanded = {
        n: p.detach().unsqueeze(0).expand(record.rows, *p.shape).requires_grad_()
        for n, p in trainable.items()
    }
    # Not the module itself: its hooks have run, or will, on the whole batch.
    wrapper = _Call(module, call or module.forward)
    structure: list[tuple[Any, list[bool]]] = []

    def one(parameters: dict[str, Tensor], *tensors: Any) -> tuple[Tensor, ...]:
        pairs = zip(tensors, mapped, strict=True)
        args, kwargs = tree_unflatten([x if k is None else x.unsqueeze(k) for x, k in pairs], shape)
        named = {f"module.{name}": value for name, value in parameters.items()}
        leaves, found = tree_flatten(torch.func.functional_call(wrapper, named, args, kwargs))
        structure[:] = [(found, [x is None for x in leaves])]
        places = [(place, x) for place, x in enumerate(leaves) if x is not None]
        if not all(_axis(x, axes(place), 1) is not None for place, x in places):
            raise NotPerExample
        return tuple(x.squeeze(axes(place)) for place, x in places)

    record.nested += 1
    try:
        outputs = _run(record, module, one, expanded, flat, mapped)
    finally:
        record.nested -= 1
    if torch.is_grad_enabled():
        for name, leaf in expanded.items():
            record.leaves.append((leaf, _keeper(record, trainable[name])))
    found, missing = structure[0]
    queue = iter(outputs)
    placed = [None if gone else next(queue).movedim(0, axes(i)) for i, gone in enumerate(missing)]
    return tree_unflatten(placed, found)


class _Call(nn.Module):
    """A module and what to call instead of it, as one module."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        self._call = (call,)  # in a tuple, so that it is not a second child

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call[0](*args, **kwargs)


def _axis(x: Any, axis: int, length: int) -> int | None:
    there = isinstance(x, Tensor) and x.dim() > axis and x.shape[axis] == length
    return axis if there else None


def _run(
    record: Pass,
    module: nn.Module,
    one: Callable[..., tuple[Tensor, ...]],
    expanded: dict[str, Tensor],
    flat: list[Any],
    mapped: list[int | None],
) -> tuple[Tensor, ...]:
    if module not in record.loops:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # vmap tells of operations that it runs slowly
                run = torch.vmap(one, in_dims=(0, *mapped), randomness="different")
                return run(expanded, *flat)
        except (RuntimeError, NotImplementedError):
            record.loops.add(module)  # vmap cannot trace it; an error of the module itself returns
    unbound = {name: leaf.unbind(0) for name, leaf in expanded.items()}
    rows = []
    for i in range(record.rows):
        tensors = [x if k is None else x.select(k, i) for x, k in zip(flat, mapped, strict=True)]
        rows.append(one({name: parts[i] for name, parts in unbound.items()}, *tensors))
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))


def _keeper(record: Pass, parameter: nn.Parameter) -> Callable[[Tensor], list[Term]]:
    def keep(g: Tensor) -> list[Term]:
        if record.copies > 1:
            g = g.view(record.size, record.copies, *parameter.shape).sum(1)
        return [Dense(parameter, g)]

    return keep
