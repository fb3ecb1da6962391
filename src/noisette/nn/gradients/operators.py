"""The operators of torch that keep records apart under vmap, and what runs for the others.

vmap has a rule of its own for each ATen operator, and some of those rules mix records. Here every
operator that no certificate names is taken over at the very place where vmap would apply its rule,
below all composite functions and transforms, and runs record by record. proof: NN-INDEPENDENCE
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.vmap import lazy_load_decompositions  # type: ignore[attr-defined]
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from noisette.errors import InvalidParameter

RELEASE = torch.__version__.partition("+")[0]  # its builds for several devices are alike
COMMAND = "python -m noisette.nn.gradients.certify"
_KEY = "FuncTorchBatched"
_BELOW: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)
_SIZED = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
_SHAPES = ("aten::_has_same_storage_numel",)  # forward derivatives ask it; shapes are public

_passes = 0
_said: set[str] = set()


def reached() -> list[str]:
    """Return the ATen operators that vmap does not take apart: it has a rule for them, or loops."""
    lazy_load_decompositions()  # some rules are made at the first use of torch.vmap
    registered: Any = torch._C._dispatch_get_registrations_for_dispatch_key
    ruled, apart = set(registered(_KEY)), set(registered("FuncTorchBatchedDecomposition"))
    apart |= set(registered("CompositeImplicitAutograd"))
    names: list[str] = torch._C._dispatch_get_all_op_names()
    return sorted(n for n in names if n.startswith("aten::") and (n in ruled or n not in apart))


def operator(name: str) -> Any:
    """Return the operator of a name such as aten::add.Tensor."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def certificate_file(*, made: bool = False) -> Path:
    """Return the file of this release of torch: ours, or the one that the user has made."""
    name = f"torch-{RELEASE}.json"
    ours = Path(__file__).parent / "certificates" / name
    if ours.exists() and not made:
        return ours
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noisette" / name


@cache
def take_over() -> None:
    """Take over, once in a process and for our passes alone, every operator not certified."""
    file = certificate_file()
    if not file.exists():
        raise InvalidParameter(
            f"which operators of torch {RELEASE} keep records apart is not known; install a "
            f"release that is, or find out with: {COMMAND}"
        )
    found = json.loads(file.read_text())
    certified, in_front = {*found["certified"], *_SHAPES}, set(found["in_front"])
    for name in reached():
        if name not in certified:
            replace(name, partial(_moved if name in in_front else _alone, operator(name)))


_library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]


def replace(name: str, run: Callable[..., Any], library: Any = None) -> None:
    """Let an operator run by `run(original, args, kwargs)` where vmap would apply its rule."""
    kernel = torch.library.get_kernel(name, _KEY)

    def called(keys: Any, *args: Any, **kwargs: Any) -> Any:
        original = partial(kernel.call_boxed, keys)
        return run(original, args, kwargs) if _passes or library else original(*args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells that there was one before
        (library or _library).impl(name.removeprefix("aten::"), called, _KEY, with_keyset=True)


@contextmanager
def kept_apart() -> Iterator[None]:
    """Run operators that are not certified record by record inside the block."""
    global _passes
    _passes += 1
    try:
        yield
    finally:
        _passes -= 1


def _written(op: Any) -> bool:
    """Say whether the operator writes to its first argument; refuse one that writes to others."""
    aliases = (argument.alias_info for argument in op._schema.arguments)
    written = [i for i, alias in enumerate(aliases) if alias is not None and alias.is_write]
    if written not in ([], [0]):
        raise InvalidParameter(
            f"the code writes by {op}, which is not known to keep records apart; use the function "
            "that returns a new tensor"
        )
    return bool(written)


def _moved(op: Any, original: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that keeps records apart as long as their axis is the first one."""
    level = _functorch.peek_interpreter_stack().level()

    def front(x: Any) -> Any:
        if isinstance(x, Tensor) and _functorch.maybe_get_level(x) == level:
            axis = _functorch.maybe_get_bdim(x)
            return _functorch._add_batch_dim(_functorch.get_unwrapped(x).movedim(axis, 0), 0, level)
        return x

    written = _written(op)
    found = original(*tree_map(front, args), **tree_map(front, kwargs))
    return args[0] if written else found


def _alone(op: Any, original: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator for each record, on memory that holds nothing else, and stack the results."""
    numbers = any("Tensor" not in str(returned.type) for returned in op._schema.returns)
    if numbers or not _SIZED.isdisjoint(op.tags) or op._name == "aten::where":
        # Python would learn a number, or a size, that depends on a record's values.
        original(*args, **kwargs)  # torch has a sentence of its own for most of them
        raise InvalidParameter(
            f"the code calls {op}, whose result has a size, or is a number, that depends on a "
            "record's values; use torch.where, or multiply by a mask"
        )
    if op._name not in _said:
        _said.add(op._name)
        warnings.warn(
            f"{op} is not known to keep records apart in torch {RELEASE}, so it runs record by "
            "record: right, and slow.", stacklevel=2,
        )  # fmt: skip
    level = _functorch.peek_interpreter_stack().level()
    flat, spec = tree_flatten((args, kwargs))
    mapped = [isinstance(x, Tensor) and _functorch.maybe_get_level(x) == level for x in flat]
    if not any(mapped):  # they are of a transform further out, whose turn is next
        with torch._C._ExcludeDispatchKeyGuard(_BELOW):
            return op(*args, **kwargs)
    if _written(op) and not mapped[0]:
        raise InvalidParameter(
            "the code writes a record's values into a tensor that is the same for all records"
        )
    whole = [
        _functorch.get_unwrapped(x).movedim(_functorch.maybe_get_bdim(x), 0) if own else x
        for x, own in zip(flat, mapped, strict=True)
    ]
    size = next(len(x) for x, own in zip(whole, mapped, strict=True) if own)
    rows = []
    for i in range(size):
        given = [x[i].clone() if own else x for x, own in zip(whole, mapped, strict=True)]
        one, named = tree_unflatten(given, spec)
        with torch._C._ExcludeDispatchKeyGuard(_BELOW):
            rows.append(op(*one, **named))

    def stacked(first: Any, *more: Any) -> Any:
        if not isinstance(first, Tensor):
            return first
        # Times 1, a cotangent arrives in memory that holds nothing else, too.
        copied = first.is_floating_point() or first.is_complex()
        each = torch.stack([x * 1 if copied else x for x in (first, *more)])
        return _functorch._add_batch_dim(each, 0, level)

    found = tree_map(stacked, *rows)
    return args[0].copy_(found) if _written(op) else found
