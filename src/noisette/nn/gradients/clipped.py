"""`ClippedGradients`: the sum of clipped per-example gradients from one backward pass."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import _functorch

from noisette import _validate
from noisette.errors import InvalidData, InvalidParameter
from noisette.nn.gradients.base import Pass
from noisette.nn.gradients.chance import Chance
from noisette.nn.gradients.checks import Unchanged, refuse
from noisette.nn.gradients.linear import weight_term
from noisette.nn.gradients.operators import kept_apart, take_over
from noisette.nn.gradients.rounding import full_precision, working
from noisette.nn.gradients.terms import Outer, Term, Vectors, joint_squares, measure
from noisette.nn.gradients.watch import Nested, Watch
from noisette.nn.gradients.where import nothing_alive, raise_known, young

Losses = Callable[[Any, Any], Tensor]

_LEAST = 16  # fewer rows would meet other kernels, which round otherwise


class BatchRecords:
    """A batch, with the rows of each record side by side in every tensor."""

    def __init__(self, batch: Any, size: int, copies: int) -> None:
        self.given, self.copies = size, copies
        self.size = max(size, _LEAST)
        """With copies of the last record behind the given ones, which nobody counts."""
        self.rows: list[Tensor] = []
        """The tensors of the batch: (size, rows of a record, ...)."""
        self._batch = mapped_parts(self._take, batch)
        if not self.rows:
            raise InvalidData("the batch holds no tensor with a row for each record.")

    def _take(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            x = torch.as_tensor(x)
        if not isinstance(x, Tensor):
            raise InvalidData(
                f"a batch is made of tensors with a row for each record; got {type(x).__name__}, "
                "which all records would share: what they share belongs in a closure or in the "
                "module."
            )
        if x.dim() == 0 or x.shape[0] not in (self.given, self.given * self.copies):
            raise InvalidData(
                "every tensor of a batch must have one row for each record; tensors that records "
                "share belong in a closure or in the module."
            )
        # A copy: what the code writes in place must reach no other row, nor the caller's tensor,
        # which may come back with the next batch.
        x = x.detach().contiguous().view(self.given, -1, *x.shape[1:])
        self.rows.append(x[torch.arange(self.size, device=x.device).clamp_(max=self.given - 1)])
        return len(self.rows) - 1

    def one(self, rows: tuple[Tensor, ...]) -> Any:
        """Return the batch of one record, from what vmap hands out of `rows`."""
        return mapped_parts(rows.__getitem__, self._batch)

    def checked(self, value: Any) -> Tensor:
        """Return what the losses returned for one record, if it is a loss (or `copies`)."""
        if not isinstance(value, Tensor):
            told = "a dict; return its loss" if isinstance(value, Mapping) else type(value).__name__
            raise InvalidData(
                "losses must return a tensor: one loss for the record that it is given, or one "
                f"for each copy; the model or the losses returned {told}."
            )
        _validate.refuse(
            (value.shape != (self.copies,) and (value.dim() or self.copies > 1),
             "losses must return one loss for the record that they are given (or one for each of "
             f"its copies); for a batch of one they returned shape {tuple(value.shape)}."),
            (not value.is_floating_point(), "a loss must be a real number."),
            kind=InvalidData,
        )  # fmt: skip
        return value.reshape(self.copies)


def mapped_parts(take: Callable[[Any], Any], batch: Any) -> Any:
    """Return the batch with `take` of each of its tensors; None stays None."""
    if isinstance(batch, Mapping):
        return {name: mapped_parts(take, part) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped_parts(take, part) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(mapped_parts(take, part) for part in batch)
    return None if batch is None else take(batch)


class ClippedGradients:
    """Sum of clipped per-example gradients of one module, formed per example only where cheap.

    The losses run under `torch.vmap`: the user's code sees one record at a time, and none of its
    values in Python (`watch`). One forward pass stores the input a of each function that takes a
    parameter, one backward pass brings the cotangent g of its output; norms and weighted sums come
    from (a, g) (book-keeping, Bu et al. 2023). Where a function has no such rule, every record has
    a copy of the parameter of its own.

    Only what was recorded is ever summed, with the factor that its norm got: a use of a parameter
    that nobody saw is refused and never enters unclipped.
    """

    def __init__(self, module: nn.Module) -> None:
        refuse(module)
        self.module = module
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        """The trainable parameters, each once, in the module's order."""
        if not self.parameters:
            raise InvalidParameter("the module has no trainable parameter.")
        self._sizes = [p.numel() for p in self.parameters]
        self.dimension = sum(self._sizes)
        """The number of entries of all trainable parameters."""
        self.single = all(working(p).dtype == torch.float32 for p in self.parameters)
        """Whether every gradient is computed in single precision, or less."""
        self.layers: dict[str, str] = {}
        """By which function each parameter was followed in the last pass; "per record" is slow."""
        self.chance = Chance()
        """Where the random numbers of the passes come from."""
        self._names = {id(p): name for name, p in module.named_parameters()}
        self._unchanged = Unchanged(module)
        self._nested = False
        take_over()

    def add(
        self, losses: Losses, batch: Any, size: int, factors: Callable[[Tensor], Tensor],
        out: Tensor, *, copies: int = 1,
    ) -> Tensor:  # fmt: skip
        """Add sum_i factors(norms)_i g_i to the flat vector `out`; return the norms (float64).

        ``losses(module, batch)`` is called for a batch of one record and returns its loss, or
        `copies` losses; g_i is the gradient of their mean. Every tensor of the batch has `size`
        rows, or `copies` for each record, side by side. Norms are upper bounds; a record whose loss
        or gradient is not finite has norm infinity and adds exactly nothing.
        """
        size, copies = _validate.integer("size", size, 0), _validate.integer("copies", copies)
        if out.shape != (self.dimension,) or out.dtype not in (torch.float32, torch.float64):
            raise InvalidData(f"out must be a real vector of {self.dimension} entries.")
        if not full_precision():
            raise InvalidParameter(
                "torch.set_float32_matmul_precision must be 'highest' and every fp32_precision of "
                "torch.backends 'ieee': the norms' rounding bounds hold for float32 products only."
            )
        self._unchanged.check()
        if size == 0:
            return torch.zeros(0, dtype=torch.float64, device=out.device)
        record, value = self._passed(losses, BatchRecords(batch, size, copies))
        with torch.no_grad(), _no_autocast(out.device.type):
            return self._sum(record, value, size, factors, out)

    def pieces(self, flat: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Yield each parameter with its piece of a flat vector, in the parameter's shape."""
        pieces = flat.split_with_sizes(self._sizes)
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            yield parameter, piece.view(parameter.shape)

    def _sum(
        self, record: Pass, value: Tensor, size: int, factors: Callable[[Tensor], Tensor],
        out: Tensor,
    ) -> Tensor:  # fmt: skip
        """Turn the record into norms, factors and the sum of the first `size`. proof: NN-CLIP"""
        grouped: dict[int, list[Term]] = {}
        for term in record.terms:
            grouped.setdefault(id(term.parameter), []).append(term)
        record.terms.clear()
        grouped = {key: _joined(terms) for key, terms in grouped.items()}
        measure(terms[0] for terms in grouped.values() if len(terms) == 1)
        total = torch.zeros(record.size, dtype=torch.float64, device=value.device)
        for terms in grouped.values():
            total += terms[0].squares() if len(terms) == 1 else joint_squares(terms)
        # The squares were rounded up; so are their sum over parameters and the root.
        norms = total.mul_(1.0 + 2.0**-32).sqrt_()
        finite = value.view(record.size, -1).isfinite().all(1) & norms.isfinite()
        norms = torch.where(finite, norms, torch.inf)
        weights = factors(norms[:size])
        if weights.shape != (size,):
            raise InvalidParameter("factors must return one factor per example.")
        weights = torch.cat([weights, weights.new_zeros(record.size - size)])
        if not bool(finite.all()):
            # 0 * inf is NaN: what is left out must be taken out of the terms themselves.
            weights = torch.where(finite, weights, torch.zeros_like(weights))
            grouped = {key: [t.without(~finite) for t in terms] for key, terms in grouped.items()}
        for parameter, piece in self.pieces(out):
            for term in grouped.pop(id(parameter), ()):
                term.add_weighted(weights, piece)
        return norms[:size]

    def _passed(self, losses: Losses, records: BatchRecords) -> tuple[Pass, Tensor]:
        """Run one forward and backward pass; return its record and the losses."""
        if _functorch.peek_interpreter_stack() is not None or torch._C._len_torch_dispatch_stack():
            raise InvalidParameter(
                "a private step cannot be made inside another transform or mode of torch."
            )
        with self._unchanged.unwritten(), young():
            record, watch, value = self._forward(losses, records)
            if not value.requires_grad:
                raise InvalidParameter(
                    "the losses do not depend on any trainable parameter (torch.no_grad, detach, "
                    "argmax), so that nothing but noise would train the module."
                )
            with torch.enable_grad(), _no_autocast(value.device.type):
                stray = record.backward(value, 1.0 / records.copies)
            watch.nothing_kept(self.module)
        if stray:
            raise InvalidParameter(
                f"the parameter {self._names[id(stray[0])]!r} is used in a way that cannot be "
                "followed (a tensor made from it before the pass, a TorchScript function), so its "
                "per-record gradient is lost; use it inside the module's forward pass."
            )
        found = {self._names[key]: kinds for key, kinds in record.handled.items()}
        self.layers = {name: ", ".join(sorted(found[name])) for name in sorted(found)}
        return record, value.detach()

    def _forward(self, losses: Losses, records: BatchRecords) -> tuple[Pass, Watch, Tensor]:
        """Run the losses for all records at once, each by itself. proof: NN-INDEPENDENCE"""
        if self._nested:
            nothing_alive()
        record = Pass(records.size, self.parameters, self.chance)
        watch = Watch(record, adopt=self._nested)
        drawing = Pass.drawing if self._nested else nullcontext
        try:
            with (
                torch.enable_grad(), self.chance.passing(), _all_records(), record.mapping(),
                drawing(record),
            ):  # fmt: skip
                return record, watch, self._mapped(losses, records, record, watch)
        except Nested:
            self._nested = True  # and again, once it is certain that nothing old is alive
        except (RuntimeError, NotImplementedError) as error:
            raise_known(error)
            raise
        del record, watch  # they hold parameters as records' own
        return self._forward(losses, records)

    def _mapped(self, losses: Losses, records: BatchRecords, record: Pass, watch: Watch) -> Any:
        """Run the losses on what Python sees of the records: one of them.

        By itself, so that nothing of a record is held when the pass has to be run again.
        """
        rows = tuple(map(record.mapped, records.rows))
        watch.remember(rows)
        with kept_apart(), watch:
            value = records.checked(losses(self.module, records.one(rows)))
            watch.ended(value)
        return _functorch._remove_batch_dim(value, record.level, record.size, 0)


def check_module(
    module: nn.Module, losses: Losses, batch: Any, size: int, *, copies: int = 1
) -> dict[str, str]:
    """Raise if the module cannot be trained privately; return how each parameter is followed.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    losses : callable
        As in `PrivateTraining.step`: one loss for each record.
    batch : torch.Tensor, tuple, list or dict
        Made-up or public records.
    size : int
        How many records `batch` holds.
    copies : int, default 1
        How many losses each record has.

    Returns
    -------
    dict of str to str
        For each parameter the way; "per record" is right and slow.

    Raises
    ------
    InvalidParameter
        If a layer mixes or remembers records, or nothing is to be trained.
    InvalidData
        If the batch has not a row for each record, or the losses are not one per record.

    Examples
    --------
    >>> import torch
    >>> from noisette.nn import check_module
    >>> network = torch.nn.Linear(3, 1)
    >>> check_module(network, lambda module, batch: module(batch)[:, 0], torch.ones(4, 3), 4)
    {'bias': 'linear', 'weight': 'linear'}

    """
    size, copies = _validate.integer("size", size), _validate.integer("copies", copies)
    engine = ClippedGradients(module)
    engine._passed(losses, BatchRecords(batch, size, copies))
    return engine.layers


@contextmanager
def _all_records() -> Iterator[None]:
    """Let nobody hook into what autograd saves: those tensors hold all records.

    Nor need vmap tell that it runs an operation record by record. Libraries that look at values to
    save work first ask whether torch compiles, where there are none.
    """
    before = torch.compiler.is_compiling()
    torch.compiler._is_compiling_flag = True
    torch._C._autograd._saved_tensors_hooks_disable("saved tensor hooks are refused")
    warn: Any = torch._C._functorch._set_vmap_fallback_warning_enabled  # type: ignore[attr-defined]
    warn(False)
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before
        warn(True)
        torch._C._autograd._saved_tensors_hooks_enable()


def _no_autocast(device: str) -> AbstractContextManager[Any]:
    """Switch autocast off, where it is on: the switch takes as long as a small operation."""
    on = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def _joined(terms: list[Term]) -> list[Term]:
    """Put the calls of one weight side by side where that is exact."""
    outer = [term for term in terms if isinstance(term, Outer)]
    if len(terms) == 1 or len(outer) < len(terms):
        return terms
    a, g = torch.cat([t.a for t in outer], 1), torch.cat([t.g for t in outer], 1)
    return [weight_term(outer[0].parameter, a, Vectors(g))]
