"""Chance: whatever a pass draws comes from our source, never from a generator that others seed.

Under `torch.vmap` every draw of torch is one for all records, in the order of the batch; from a
generator with a known state, one record would decide what all behind it draw. proof: NN-CHANCE
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.where import refusal

_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


class Chance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The random numbers of a training's passes; as a mode of torch, it makes those of torch.

    Every word is used once. Python's and NumPy's global generators, whose numbers all records of a
    pass share, begin each pass of a step in the same state: which records share a pass must not
    matter.
    """

    def __init__(self, source: Randomness | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source = source or Randomness.secure()
        self.new_step()

    def new_step(self) -> None:
        """Draw what the code of one step shares."""
        self._shared = self.source.generator.bytes(64)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Run a pass, whose records share what Python draws; torch's own generator stays."""
        before = torch.get_rng_state()
        try:
            with _lent(self._shared):
                yield
        finally:
            same = torch.equal(before, torch.get_rng_state())
            torch.set_rng_state(before)
        if not same:
            raise InvalidParameter(
                "the code seeds torch's generator, or draws from it where it cannot be followed; "
                "let torch draw without a seed: the numbers are made by a source of ours."
            )

    def generator(self) -> torch.Generator:
        """Return a generator of torch, for the seeds of workers that load rows."""
        seed = int.from_bytes(self.source.generator.bytes(64)[:8], "little")
        return torch.Generator().manual_seed(seed)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Run code that makes the rows of records, one after the other."""
        with _lent(self.source.generator.bytes(64)), self:
            yield

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Make the numbers of a kernel that draws; run any other."""
        kwargs = kwargs or {}
        arguments = _arguments(func)
        if arguments is None:
            return func(*args, **kwargs)
        given = arguments | dict(zip(arguments, args, strict=False)) | kwargs
        if given.get("generator") is not None or given.get("dropout_p") == 0.0:
            return func(*args, **kwargs)  # `Watch` lets no generator into a pass
        name = func._schema.name.partition("::")[2]
        law = _LAWS.get(name.removesuffix("_").removesuffix("_like"))
        if law is None or "out" in given or isinstance(given.get("high"), Tensor):
            raise refusal(
                f"the code draws chance by torch's {name}, for which there is no rule; use "
                "torch.rand, torch.randn or torch.bernoulli on new tensors"
            )
        here, dtype = given.get("self"), given.get("dtype")
        if name.endswith("_"):
            return here.copy_(law(self, given, here.shape, here.dtype))
        if isinstance(dtype, int) or name == "multinomial":
            dtype = torch.int64  # the schema names torch's default by its number
        elif dtype is None:
            dtype = torch.get_default_dtype() if here is None else here.dtype
        shape = given.get("size")
        if shape is None:
            like = (given.get(name) for name in ("self", "mean", "std"))
            shape = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
                *(x.shape for x in like if isinstance(x, Tensor))
            )
        return law(self, given, tuple(shape), dtype).to(given.get("device"), dtype)

    # --- numbers -----------------------------------------------------------------------------

    def words(self, count: int) -> Any:
        """Return `count` random words of 64 bits."""
        return self.source.generator.bit_generator.random_raw(count)

    def uniform(self, shape: Any, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return numbers in [0, 1), all multiples of one power of 2 that `dtype` has."""
        bits = _BITS.get(dtype, 53)
        found = (self.words(math.prod(shape)) >> np.uint64(64 - bits)) * 2.0**-bits
        return torch.from_numpy(found).view(shape)

    def normal(self, shape: Any) -> Tensor:
        """Return standard normal numbers."""
        return torch.from_numpy(self.source.generator.standard_normal(tuple(shape)))

    def exponential(self, shape: Any) -> Tensor:
        """Return exponential numbers, none of them 0."""
        return -torch.log(self.uniform(shape) + 2.0**-54)

    def kept(self, shape: tuple[int, ...], p: float) -> Tensor:
        """Return for each entry whether dropout keeps it."""
        count = math.prod(shape)
        if p == 1.0:
            return torch.zeros(shape, dtype=torch.bool)
        words = self.words((count + 1) // 2).view(np.uint32)[:count]
        return torch.from_numpy(words >= min(round(p * 2**32), 2**32 - 1)).view(shape)


@contextmanager
def _lent(key: bytes) -> Iterator[None]:
    """Seed the global generators of Python and NumPy, and give them back as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(int.from_bytes(key, "little"))
    np.random.seed(np.frombuffer(key, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@cache
def _arguments(func: Any) -> dict[str, Any] | None:
    """Return a kernel's arguments and defaults if it may draw; some that do lack torch's tag."""
    found = {
        each.name: each.default_value if each.has_default_value() else None
        for each in func._schema.arguments
    }
    draws = torch.Tag.nondeterministic_seeded in func.tags or "generator" in found
    return found if draws else None


# What a kernel draws: from its arguments, the shape and the type of its result.
Law = Callable[[Chance, dict[str, Any], Any, torch.dtype], Tensor]


def _whole(chance: Chance, given: dict[str, Any], shape: Any, dtype: torch.dtype) -> Tensor:
    low, high = (given.get(a, given.get(b)) for a, b in (("low", "from"), ("high", "to")))
    if high is None:
        high = 2 ** _BITS[dtype] if dtype.is_floating_point else torch.iinfo(dtype).max
    return torch.from_numpy(chance.source.generator.integers(low or 0, high, tuple(shape)))


def _chosen(chance: Chance, given: dict[str, Any], shape: Any, dtype: torch.dtype) -> Tensor:
    """Return the least of exponential times, of which category k has the rate p_k."""
    count: int = given["num_samples"]
    p: Tensor = given["self"].double().unsqueeze(-2)
    times = chance.exponential((*shape[:-1], count if given["replacement"] else 1, shape[-1])) / p
    if given["replacement"]:
        return times.argmin(-1)
    return times.squeeze(-2).topk(count, largest=False).indices


def _uniform(chance: Chance, given: dict[str, Any], shape: Any, dtype: torch.dtype) -> Tensor:
    low, high = given.get("from", 0.0), given.get("to", 1.0)
    return chance.uniform(shape, dtype).mul_(high - low).add_(low)


def _normal(chance: Chance, given: dict[str, Any], shape: Any, dtype: torch.dtype) -> Tensor:
    return chance.normal(shape).mul_(given.get("std", 1.0)).add_(given.get("mean", 0.0))


_LAWS: dict[str, Law] = {
    **dict.fromkeys(("rand", "uniform"), _uniform),
    **dict.fromkeys(("randn", "normal"), _normal),
    **dict.fromkeys(("random", "randint"), _whole),
    "log_normal": lambda c, g, shape, _: _normal(c, g, shape, _).exp(),
    "bernoulli": lambda c, g, shape, _: c.uniform(shape) < (g["p"] if "p" in g else g["self"]),
    "exponential": lambda c, g, shape, _: c.exponential(shape) / g["lambd"],
    "cauchy": lambda c, g, shape, _: (
        g["median"] + g["sigma"] * torch.tan(math.pi * (c.uniform(shape) - 0.5))
    ),
    "geometric": lambda c, g, shape, _: (
        (c.exponential(shape) / -math.log1p(-g["p"])).ceil() if g["p"] < 1.0 else torch.ones(shape)
    ),
    "randperm": lambda c, g, _, __: c.uniform((g["n"],)).argsort(),
    "multinomial": _chosen,
}


@rule(functional.dropout)
def dropout(
    record: Pass, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """Draw once for all records; vmap takes several operations for it."""
    if inplace or not training or not 0.0 < p <= 1.0:
        return NotImplemented

    def compute(x: Tensor) -> Tensor:
        kept: Tensor = record.chance.kept((record.size, *x.shape[1:]), p)
        return x.mul(kept.to(x.device, x.dtype).div_(1.0 - p if p < 1.0 else 1.0))

    return record.below(compute, record.replaced(input))


@rule(torch.empty)
def empty(record: Pass, *args: Any, **kwargs: Any) -> Any:
    """Return a tensor of each record's own, which it may fill with chance of its own in place."""
    if kwargs.get("out") is not None or kwargs.get("requires_grad"):
        return NotImplemented
    like = torch.empty(*args, **kwargs)
    # Zeros: memory as it is found may hold another record's values.
    return record.below(lambda: like.new_zeros((record.size, *like.shape)))
