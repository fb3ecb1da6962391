"""Are the examples kept apart? Tests on a batch, forward and backward.

Backward: with the losses of the second half of the examples left out, no layer may receive a
cotangent in a row of the second half. Forward: an example run alone must give the same output as
inside its batch (in evaluation mode, so that dropout does not matter). The answers depend on the
code of the module and not on what the examples contain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Pass

__all__ = ["compare_alone", "nothing_remembered", "outside_stays_zero"]

_TOGETHER = 8
"""How many rows are run together for the comparison."""


def outside_stays_zero(record: Pass, error: type[Exception]) -> Callable[[Tensor], None]:
    """Return what looks at a cotangent: rows of examples without a loss must be zero."""
    first = record.size // 2 * record.copies

    def look(g: Tensor) -> None:
        outside = g[first:]
        if bool(((outside != 0) & outside.isfinite()).any()):
            raise error

    return look


@contextmanager
def nothing_remembered(module: nn.Module) -> Iterator[None]:
    """Raise if a buffer was changed inside the block: no noise would protect what it keeps."""
    before = {name: (id(b), b._version) for name, b in module.named_buffers()}
    held = list(module.buffers())  # so that no address is used again
    yield
    for name, b in module.named_buffers():
        if before.get(name) != (id(b), b._version):
            raise InvalidParameter(
                f"the forward pass changes the buffer {name!r}, which would keep facts about the "
                "data that no noise protects; make it a constant."
            )
    del held


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
    if calls:
        _compare(module, *calls[0], rows)


def _compare(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> None:
    modes = [(layer, layer.training) for layer in module.modules()]
    few = min(rows, _TOGETHER)

    def run(start: int, stop: int) -> list[Tensor]:
        own = _rows(start, stop, rows)
        return _tensors(module(*tree_map(own, args), **tree_map(own, kwargs)))

    try:
        module.eval()  # with gradients enabled, so that torch takes no shortcut
        together = run(0, few)
        for i in (0, few - 1):
            for whole, single in zip(together, run(i, i + 1), strict=True):
                _same(whole, single, i, few)
    finally:
        for layer, mode in modes:
            layer.training = mode


def _tensors(found: Any) -> list[Tensor]:
    return [
        x.detach()
        for x in tree_flatten(found)[0]
        if isinstance(x, Tensor) and x.is_floating_point()
    ]


def _rows(start: int, stop: int, rows: int) -> Callable[[Any], Any]:
    def pick(x: Any) -> Any:
        own = isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == rows
        return x[start:stop] if own else x

    return pick


def _same(whole: Tensor, single: Tensor, i: int, rows: int) -> None:
    if whole.dim() == 0 or whole.shape[0] != rows or single.shape[0] != 1:
        return  # no batch in front: states of recurrent layers, shared tables
    ours, alone = whole[i].double(), single[0].double()
    scale = max(float(ours.abs().max()), float(alone.abs().max())) if ours.numel() else 0.0
    close = (ours - alone).abs() <= 1e-3 * scale + 1e-6
    if not bool((close | ~ours.isfinite() | ~alone.isfinite()).all()):
        raise InvalidParameter(
            "the module gives an example another output alone than in a batch: it mixes examples, "
            "and then no clipping protects one of them; let every operation treat examples apart."
        )
