"""Nothing but one record, and nothing of another batch: what is watched while a batch is run.

The user's code runs under `torch.vmap`: it sees one record, whose values no Python code can read.
What is left is watched here, function by function: every tensor that is used was made in this very
pass, nothing of a record is written to a tensor that records share, nothing runs that would see
whole tensors, and nothing is kept. proof: NN-INDEPENDENCE
"""

import gc
import operator
import types
import weakref
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import RULES, Pass
from noisette.nn.gradients.where import WRITTEN, collections, holder, refusal

_ORDINARY, _FREE, _RAW, _WRITES, _APPLY, _FOREIGN, _REPEATS, _ASSERTS, _DATA = range(9)

_SIMPLE = frozenset(
    {int, float, bool, str, type(None), slice, type(...), torch.Size, torch.dtype, torch.device,
     torch.layout, torch.memory_format, complex, type}
)  # fmt: skip
_NO_DATA = (type, types.ModuleType)
_CONNECTED = frozenset({"T", "mT", "H", "mH", "real", "imag"})
_SIZED = (
    "the code makes a tensor whose size depends on a record's values; use torch.where, or "
    "multiply by a mask"
)
_REPLACED = "the code replaces the data of a tensor; make a new tensor"
# What is to be done about functions of these names: a kind, or a refusal in words.
_BY_KIND: dict[int | str, tuple[str, ...]] = {
    _FREE: (
        "size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "__len__",
        "is_floating_point", "is_complex", "element_size", "get_device", "__hash__", "is_tensor",
        "storage_offset", "has_names", "is_same_size", "is_signed", "is_inference", "dim_order",
        "result_type", "can_cast", "broadcast_shapes",
    ),
    _RAW: (
        "detach", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like",
        "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor",
    ),
    _APPLY: ("custom_function_call",),
    _REPEATS: ("repeat_interleave",),
    _ASSERTS: ("_is_all_true",),
    _WRITES: ("__setitem__", "__set__"),
    _ORDINARY: ("__invert__", "__index__"),
    _SIZED: ("bincount", "argwhere", "lstsq", "linalg_lstsq"),
    "the code draws as many random numbers as a record's values ask for, for which there is no "
    "rule; use torch.rand or torch.randn":
        ("poisson", "binomial", "_standard_gamma", "_sample_dirichlet"),
    "the code prints a record, and what is printed no noise protects": ("__repr__", "__format__"),
    "the code hooks into gradients, which would see those of all records; change the loss":
        ("register_hook", "register_post_accumulate_grad_hook"),
    "packed sequences have lengths, which are a record's values; pass padded sequences and a mask":
        ("_pack_padded_sequence",),
}  # fmt: skip
_NAMED = {name: kind for kind, names in _BY_KIND.items() for name in names}


@cache
def _kind(func: Any) -> int | str:
    """Say what is to be done about a function of torch; looked up once for each."""
    name = getattr(func, "__name__", "")
    if isinstance(func, OpOverload | OpOverloadPacket):
        space, name, *_ = str(func).split(".")
        if space not in ("aten", "prim"):
            return _FOREIGN
    elif name in ("__get__", "__set__") and func.__self__.__name__ == "data":
        return _DATA if name == "__get__" else _REPLACED
    elif name == "__get__":
        return _ORDINARY if func.__self__.__name__ in _CONNECTED else _FREE
    writes = name.startswith("__i") if name.endswith("__") else name.endswith("_")
    return _NAMED.get(name, _WRITES if writes else _ORDINARY)


_DRAW: set[Any] = set()  # functions that were seen to draw


class Nested(Exception):
    """The code has transforms of its own (torch.vmap), whose tensors come from nowhere."""


class Watch(TorchFunctionMode):
    """Sees every function of torch that the user's code calls, and follows parameters."""

    def __init__(self, record: Pass, adopt: bool) -> None:
        super().__init__()
        self._record, self._adopt = record, adopt
        self._known: dict[int, weakref.ref[Tensor]] = {}
        self._failed: InvalidParameter | None = None
        self._collected = collections()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one function of torch, watched."""
        kwargs = kwargs or {}
        kind = _kind(func)
        if kind == _DATA and _functorch.maybe_get_level(args[0]) == -1:
            return args[0].detach()  # a write to `data` would not be in the tensor's version
        if kind in (_FREE, _DATA):
            return func(*args, **kwargs)
        if torch._C._len_torch_dispatch_stack() > self._record.draws:
            raise refusal(
                "the code runs under a dispatch mode of its own, which would see all records; "
                "take it away"
            )
        if isinstance(kind, str) and (kind is _REPLACED or any(map(self._carries, args))):
            raise refusal(kind)
        if kind == _ASSERTS and self._carries(args):
            # For all records at once, to fail by one: distributions check their parameters so.
            return torch.ones((), dtype=torch.bool)
        trained = self._look((*args, *kwargs.values()))
        if kind != _ORDINARY or kwargs.get("out") is not None:
            self._special(kind, func, args, kwargs)
            trained = trained and kind != _RAW
        try:
            found = self._drawn(func, args, kwargs, trained)
        except Nested:
            raise
        except Exception:
            # Whether a kernel fails may hang on one record, and Python must not learn it.
            self._failed = self._failed or refusal(
                "a function of torch failed and the code caught it, so that one record would "
                "decide for all; use one that cannot fail (cholesky_ex, clamp, torch.where)"
            )
            raise
        return self.remember(found)

    def _drawn(self, func: Any, args: Any, kwargs: Any, trained: bool) -> Any:
        """Follow a function; one that draws runs where torch may. proof: NN-CHANCE"""
        record = self._record
        if func not in _DRAW or record.draws:
            try:
                return self._follow(func, args, kwargs, trained)
            except RuntimeError as error:
                if "randomness error mode" not in str(error):
                    raise
            _DRAW.add(func)
        if not record.on_top():
            raise Nested
        with record.drawing():
            return self._follow(func, args, kwargs, trained)

    def _follow(self, func: Any, args: Any, kwargs: Any, trained: bool) -> Any:
        """Run a function by its rule, or with parameters that are each record's own."""
        rule, record = RULES.get(func), self._record
        if (rule is None and not trained) or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        if rule is not None and record.on_top():
            found = rule(record, *args, **kwargs)
            if found is not NotImplemented:
                for x in tree_leaves((args, kwargs)) if trained else ():
                    if id(x) in record.trained:
                        record.handled.setdefault(id(x), set()).add(func.__name__)
                return found
        return func(*record.replaced(args), **record.replaced(kwargs))

    # --- what goes in ----------------------------------------------------------------------------

    def _look(self, given: Iterable[Any], inside: frozenset[int] = frozenset()) -> bool:
        """Refuse what may not go into a function; say whether a trainable parameter does."""
        trained = False
        for x in given:
            kind = type(x)
            if kind in _SIMPLE:
                continue
            if kind is Tensor:
                known = self._known.get(id(x))
                level = _functorch.maybe_get_level(x)
                if level == -1 or self._adopt or (known is not None and known() is x):
                    continue
                if level > self._record.level:
                    raise Nested
                raise refusal(  # of a record, and no function of this pass has made it
                    "the code uses a tensor that it kept from another batch, or that a TorchScript "
                    "function made, which cannot be followed; keep nothing, and use plain Python "
                    "functions"
                )
            if kind is nn.Parameter:
                trained = trained or id(x) in self._record.trained
                if _functorch.maybe_get_level(x) != -1:
                    raise refusal("the code makes a parameter of a record; use plain tensors")
            elif isinstance(x, list | tuple):
                trained = self._look(x) or trained
            elif isinstance(x, dict):
                trained = self._look(x.values()) or trained
            elif isinstance(x, Tensor):
                raise refusal(
                    f"the code uses a subclass of Tensor ({kind.__name__}), which may do anything "
                    "with all records; use plain tensors"
                )
            elif callable(x) and not isinstance(x, type):
                raise refusal(
                    "the code hands a function of its own to one of torch, where it cannot be "
                    "followed; call it yourself"
                )
            elif kind is torch.Generator:
                raise refusal(
                    "the code draws with a generator of its own, in which one record would decide "
                    "what the others draw; leave generator= out"
                )
            elif gc.is_tracked(x) and not isinstance(x, _NO_DATA) and id(x) not in inside:
                trained = self._look(gc.get_referents(x), inside | {id(x)}) or trained
        return trained

    def _special(self, kind: int | str, func: Any, args: Any, kwargs: Any) -> None:
        """Refuse a function that would print, keep, or see more than one record."""
        if kind == _FOREIGN:
            raise refusal(
                f"the code calls {getattr(func, '__name__', func)}, an operator that is not "
                "torch's own and may do anything with all records; use operations of torch"
            )
        if kind == _APPLY and not args[0].__module__.startswith(("torch.", "noisette.")):
            raise refusal(
                f"the code uses {args[0].__name__}, a torch.autograd.Function of its own, whose "
                "backward pass is not known to keep records apart; write it with operations of "
                "torch, which know their derivatives"
            )
        repeats = kwargs.get("repeats", args[:2][-1] if args else None)
        if kind == _REPEATS and "output_size" not in kwargs and self._carries(repeats):
            raise refusal(_SIZED)
        out, written = kwargs.get("out"), int(kind == _WRITES)  # to so many arguments, or to `out`
        targets = [*args[:written], *([] if out is None else [out])]
        sources = [*args[written:], *(x for name, x in kwargs.items() if name != "out")]
        for x in targets:
            each = x if isinstance(x, list | tuple) else [x]
            if any(isinstance(t, nn.Parameter) for t in each) and kind == _WRITES:
                raise refusal("the code changes a parameter, which only the optimizer may")
            if any(self._carries(s) for s in sources) and not all(self._carries(t) for t in each):
                raise refusal(WRITTEN)

    def _carries(self, x: Any) -> bool:
        """Say whether something holds a tensor with a record axis, at any depth of transforms."""
        if isinstance(x, list | tuple):
            return any(self._carries(part) for part in x)
        while isinstance(x, Tensor):
            level = _functorch.maybe_get_level(x)
            if level == self._record.level:
                return True
            if level == -1:
                return False
            x = _functorch.get_unwrapped(x)
        return False

    # --- what comes out --------------------------------------------------------------------------

    def remember(self, found: Any) -> Any:
        """Know tensors as those of this pass; return them with their record axis in front."""
        if type(found) is Tensor:  # in front vmap's rules have the least to get wrong
            if _functorch.maybe_get_bdim(found) > 0 and self._record.on_top():
                found = self._record.mapped(self._record.whole(found))
            self._known[id(found)] = weakref.ref(found)
        elif isinstance(found, tuple | list):
            known = [self.remember(x) for x in found]
            if any(map(operator.is_not, known, found)):
                found = type(found)(known)
        return found

    def ended(self, value: Tensor) -> None:
        """Refuse losses that are not of this pass, or came about past an error."""
        if self._failed is not None:
            raise self._failed
        self._look((value,))

    def nothing_kept(self, module: nn.Module) -> None:
        """Refuse if a tensor of a record is still held somewhere after the pass."""
        self._known.clear()
        # Whatever the pass has made is in the youngest generation, unless somebody collected.
        found = gc.get_objects(0 if collections() == self._collected else None)
        refs = [
            weakref.ref(x)
            for x in found
            if issubclass(type(x), Tensor) and _functorch.maybe_get_level(x) != -1
        ]
        found.clear()
        for generation in (0, 2):
            if not any(ref() is not None for ref in refs):
                return
            gc.collect(generation)
        kept = [x for ref in refs if (x := ref()) is not None]
        if kept:
            raise refusal(
                f"the code keeps a record's values after its pass, in {holder(kept, module)}, "
                "where no noise protects them; return them, or do not keep them",
                frames=(),
            )
