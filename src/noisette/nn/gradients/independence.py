"""Are the examples kept apart? Tests on a batch, forward and backward.

Backward: with the losses of the second half of the examples left out, no layer may receive a
cotangent in a row of the second half. Forward: an example run alone must give the same output, and
in a smaller batch the same loss, as inside its batch (with dropout switched off; where chance
remains there is nothing to compare). The answers depend on the code of the module and of the losses
and not on what the examples contain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Pass
from noisette.nn.gradients.memory import equal, kept_by_module, notes, refuse_growth

__all__ = ["compare_alone", "compare_losses", "outside_stays_zero"]

_TOGETHER = 8
"""How many examples are run together for the comparisons."""


def outside_stays_zero(record: Pass, error: type[Exception]) -> Callable[[Tensor], None]:
    """Return what looks at a cotangent: rows of examples without a loss must be zero."""
    first = record.size // 2 * record.copies

    def look(g: Tensor) -> None:
        if _speaks(g[first:]):
            raise error

    return look


def _speaks(cotangent: Tensor) -> bool:
    return bool(((cotangent != 0) & cotangent.isfinite()).any())


# --- alone and together ----------------------------------------------------------------------


@contextmanager
def compare_alone(module: nn.Module, rows: int) -> Iterator[None]:
    """Catch the first call of `module` inside the block; afterwards compare rows run alone."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def catch(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not calls:
            calls.append((args, kwargs))

    handle = module.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
    for args, kwargs in calls:

        def run(start: int, stop: int, given: Any = (args, kwargs)) -> list[Tensor]:
            own, named = tree_map(_rows(start, stop, rows), given)
            return _tensors(module(*own, **named))

        for mode in (_quiet, _evaluating):
            with mode(module):
                _compare(module, run, min(rows, _TOGETHER))


def _compare(module: nn.Module, run: Callable[[int, int], list[Tensor]], few: int) -> None:
    together, first = run(0, few), run(0, 1)
    once = notes(module)
    again = run(0, 1)
    twice = notes(module)
    refuse_growth(once, twice)
    last = run(few - 1, few)
    for name, x in notes(module).items():
        if name in once and equal(twice.get(name), once[name]) and not equal(x, once[name]):
            raise kept_by_module(name[0])
    if not all(equal(a, b) for a, b in zip(first, again, strict=True)):
        return  # chance: the evaluation mode may have none
    for i, alone in ((0, first), (few - 1, last)):
        for whole, single in zip(together, alone, strict=True):
            if whole.dim() == 0 or whole.shape[0] != few or single.shape[0] != 1:
                continue  # no batch in front: states of recurrent layers, shared tables
            if not _close(whole[i], single[0]):
                raise InvalidParameter(
                    "the module gives an example another output alone than in a batch: it mixes "
                    "examples, and then no clipping protects one of them; let every operation "
                    "treat examples apart."
                )


def compare_losses(
    losses: Callable[[Any, Any], Tensor], module: nn.Module, batch: Any, size: int, copies: int
) -> None:
    """Raise if an example's loss depends on who else is in the batch.

    The module may be right and the losses wrong: inputs that are standardised or mixed over the
    batch, weights from the labels of the batch, a division by its size.
    """
    few, half = min(size, _TOGETHER), min(size, _TOGETHER) // 2
    flat = tree_flatten(batch)[0]
    # The losses may make the copies of an example themselves.
    unit = copies if any(_length(x) == size * copies for x in flat) else 1
    if not all(_known(x) for x in flat) or not any(_length(x) == size * unit for x in flat):
        return  # what the batch is made of is known to the losses alone

    def part(start: int, stop: int) -> Any:
        return tree_map(_rows(start * unit, stop * unit, size * unit), batch)

    def run(given: Any) -> Tensor:
        return losses(module, given)

    for mode in (_quiet, _evaluating):
        with mode(module):
            together = run(part(0, few)).detach()
            apart = not _reads_on(run, part(0, few), half * copies, half * unit, few * unit)
            if not equal(together, run(part(0, few)).detach()):  # chance: augmentation mostly
                apart = apart and _same_beside_others(run, part(0, few), half, few, unit)
            elif apart:
                for start, stop in ((0, half), (half, few), (0, 1), (few - 1, few)):
                    own = together[start * copies : stop * copies]
                    apart &= _close(own, run(part(start, stop)).detach())
            if not apart:
                raise InvalidParameter(
                    "the losses give an example another loss in another batch: they mix examples, "
                    "and then no clipping protects one of them; use no mean, weight, partner or "
                    "size from the batch."
                )


def _same_beside_others(
    run: Callable[[Any], Tensor], batch: Any, half: int, few: int, unit: int
) -> bool:
    """Say whether the first half has the same losses beside other examples, by the same chance.

    Only torch's own chance can be repeated; where other chance remains there is nothing to compare.
    """
    start = torch.get_rng_state()

    def repeated(given: Any) -> tuple[Tensor, Tensor]:
        torch.set_rng_state(start)
        return run(given).detach(), torch.get_rng_state()

    first, end = repeated(batch)
    if not equal(first, repeated(batch)[0]):
        return True
    count, own = len(first) * half // few, list(range(half * unit))
    beside = (few - half) * unit
    for others in ((own[::-1] * beside)[:beside], own[:1] * beside, own[-1:] * beside):
        found, used = repeated(tree_map(_picked([*own, *others]), batch))
        # Rejection sampling may use more chance for one example than for another.
        if equal(end, used) and not _close(first[:count], found[:count]):
            return False
    return True


def _picked(chosen: list[int]) -> Callable[[Any], Any]:
    def pick(x: Any) -> Any:
        return x[chosen] if _length(x) == len(chosen) else x

    return pick


def _reads_on(run: Callable[[Any], Tensor], batch: Any, count: int, first: int, rows: int) -> bool:
    """Say whether the first `count` losses depend on a real number in row `first` or later."""
    flat, shape = tree_flatten(batch)
    leaves: dict[int, Tensor] = {
        place: x.detach().clone().requires_grad_()
        for place, x in enumerate(flat)
        if isinstance(x, Tensor) and x.is_floating_point() and _length(x) == rows
    }
    given = [leaves[place].clone() if place in leaves else x for place, x in enumerate(flat)]
    with torch.enable_grad():
        try:
            value = run(tree_unflatten(given, shape))[:count].sum()
        except RuntimeError:  # inputs that leave torch, for instance, cannot have a gradient
            return False
    if not leaves or not value.requires_grad:
        return False
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return any(g is not None and _speaks(g[first:]) for g in found)


@contextmanager
def _modes(module: nn.Module) -> Iterator[None]:
    modes = [(layer, layer.training) for layer in module.modules()]
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


@contextmanager
def _quiet(module: nn.Module) -> Iterator[None]:
    """Switch off torch's own dropout and leave all else as it is trained."""
    with _modes(module):
        for layer in module.modules():
            if isinstance(layer, _DropoutNd | nn.MultiheadAttention | nn.RNNBase):
                layer.training = False
        yield


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    with _modes(module):
        module.eval()  # with gradients enabled, so that torch takes no shortcut
        yield


def _tensors(found: Any) -> list[Tensor]:
    return [
        x.detach()
        for x in tree_flatten(found)[0]
        if isinstance(x, Tensor) and x.is_floating_point()
    ]


def _known(x: Any) -> bool:
    return x is None or isinstance(x, Tensor | np.ndarray | bool | int | float)


def _length(x: Any) -> int:
    return int(x.shape[0]) if isinstance(x, Tensor | np.ndarray) and x.ndim > 0 else 0


def _rows(start: int, stop: int, rows: int) -> Callable[[Any], Any]:
    def pick(x: Any) -> Any:
        return x[start:stop] if _length(x) == rows else x

    return pick


def _close(ours: Tensor, alone: Tensor) -> bool:
    ours, alone = ours.double(), alone.double()
    finite = ours.isfinite() & alone.isfinite()
    scale = torch.where(finite, torch.maximum(ours.abs(), alone.abs()), 0.0)
    largest = float(scale.max()) if scale.numel() else 0.0
    close = (ours - alone).abs() <= 1e-3 * largest + 1e-6
    # Not finite in one of the two only: that is another output as well.
    return bool((close & finite | ~ours.isfinite() & ~alone.isfinite()).all())
