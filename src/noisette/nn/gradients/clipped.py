"""`ClippedGradients`: the sum of clipped per-example gradients from one backward pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from noisette import _validate
from noisette.errors import InvalidData, InvalidParameter
from noisette.nn.gradients.base import KINDS, Kind, NotPerExample, Pass
from noisette.nn.gradients.checks import Unchanged, refuse
from noisette.nn.gradients.fallback import General
from noisette.nn.gradients.independence import compare_alone, compare_losses, outside_stays_zero
from noisette.nn.gradients.memory import code_of, nothing_kept, nothing_remembered, versions
from noisette.nn.gradients.rounding import full_precision, working
from noisette.nn.gradients.terms import Outer, Term, joint_squares

__all__ = ["ClippedGradients", "check_module"]

Losses = Callable[[Any, Any], Tensor]


class ClippedGradients:
    """Sum of clipped per-example gradients of one module, formed per example only where cheap.

    One forward pass stores each layer's input a, one backward pass brings the cotangent g of its
    output; norms and weighted sums come from (a, g) layer by layer (book-keeping, Bu et al. 2023).
    Layers without such a rule run one example at a time (`torch.func`). The first batch of more
    than one example is also run in a way that shows whether examples are kept apart; so is the
    first one with other losses, or with the module in another mode.

    Only what the taps recorded is ever summed, with the factor that its norm got: a use of a
    parameter that no tap can see is refused and never enters unclipped.
    """

    def __init__(self, module: nn.Module) -> None:
        refuse(module)
        self.module = module
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        """The trainable parameters, each once, in the module's order."""
        if not self.parameters:
            raise InvalidParameter("the module has no trainable parameter.")
        self.dimension = sum(p.numel() for p in self.parameters)
        """The number of entries of all trainable parameters."""
        self.single = all(working(p).dtype == torch.float32 for p in self.parameters)
        """Whether every gradient is computed in single precision, or less."""
        self._names = {p: name for name, p in module.named_parameters()}
        self._units: list[tuple[str, nn.Module, Kind]] = []
        self._assign("", module, set())
        self._loops: set[nn.Module] = set()
        self._unchanged = Unchanged(module)
        self._verified: dict[Any, bool] = {}  # by losses and mode: False if by one example alone

    @property
    def layers(self) -> dict[str, str]:
        """How each layer with parameters is handled: the name of its kind, "General" is slowest."""
        return {name: type(kind).__name__ for name, _, kind in self._units}

    def add(
        self,
        losses: Losses,
        batch: Any,
        size: int,
        factors: Callable[[Tensor], Tensor],
        out: Tensor,
        *,
        copies: int = 1,
    ) -> Tensor:
        """Add sum_i factors(norms)_i g_i to the flat vector `out`; return the norms (float64).

        ``losses(module, batch)`` returns one loss per row, shape (size * copies,): example i owns
        rows i * copies .. (i + 1) * copies - 1, and g_i is the mean of their gradients. Norms are
        upper bounds. An example whose loss or gradient is not finite has norm infinity and adds
        exactly nothing. `factors` is called once.
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
        known = self._verified.get((code_of(losses), self.module.training))
        if known is None or (size > 1 and not known):
            self.verify(losses, batch, size, copies=copies)
        with versions(self.module):
            record, value = self._attempted(losses, batch, size, copies)
        with torch.no_grad(), torch.autocast(out.device.type, enabled=False):
            return self._sum(record, value, factors, out)

    def _sum(
        self, record: Pass, value: Tensor, factors: Callable[[Tensor], Tensor], out: Tensor
    ) -> Tensor:
        """Turn the record into norms, factors and the sum. proof: NN-CLIP"""
        grouped: dict[Tensor, list[Term]] = {}
        for term in record.terms:
            grouped.setdefault(term.parameter, []).append(term)
        record.terms.clear()
        total = torch.zeros(record.size, dtype=torch.float64, device=value.device)
        for parameter, terms in grouped.items():
            grouped[parameter] = terms = _joined(terms)
            total += terms[0].squares() if len(terms) == 1 else joint_squares(terms)
        # The squares were rounded up; so are their sum over parameters and the root.
        norms = total.mul_(1.0 + 2.0**-32).sqrt_()
        finite = value.detach().view(record.size, -1).isfinite().all(1) & norms.isfinite()
        norms = torch.where(finite, norms, torch.inf)
        weights = factors(norms)
        if weights.shape != norms.shape:
            raise InvalidParameter("factors must return one factor per example.")
        if not bool(finite.all()):
            # 0 * inf is NaN: what is left out must be taken out of the terms themselves.
            weights = torch.where(finite, weights, torch.zeros_like(weights))
            grouped = {p: [t.without(~finite) for t in terms] for p, terms in grouped.items()}
        start = 0
        for parameter in self.parameters:
            piece = out[start : start + parameter.numel()]
            for term in grouped.pop(parameter, []):
                term.add_weighted(weights, piece.view(parameter.shape))
            start += parameter.numel()
        return norms

    def verify(self, losses: Losses, batch: Any, size: int, *, copies: int = 1) -> None:
        """Check on a batch that examples are kept apart, forward and backward.

        `add` does it by itself with the first batch of more than one example; a single one shows
        only whether something is kept of it.
        """
        with nothing_kept(losses, self.module):
            with compare_alone(self.module, size * copies), nothing_remembered(self.module):
                self._attempted(losses, batch, size, copies, half=True)
            if size > 1:
                compare_losses(losses, self.module, batch, size, copies)
        self._verified[code_of(losses), self.module.training] = size > 1

    def _attempted(
        self, losses: Losses, batch: Any, size: int, copies: int, half: bool = False
    ) -> tuple[Pass, Tensor]:
        """Run a pass; when a layer cannot be followed alone, run the whole module by example."""
        while True:
            try:
                return self._passed(losses, batch, size, copies, half)
            except NotPerExample:
                if self._whole:
                    raise InvalidParameter(
                        "the losses of different examples depend on each other, or the first axis "
                        "of the module's input is not the batch; every operation must treat "
                        "examples apart, with the batch first."
                    ) from None
                self._units = [("", self.module, General())]

    def _passed(
        self, losses: Losses, batch: Any, size: int, copies: int, half: bool = False
    ) -> tuple[Pass, Tensor]:
        """Run one forward and backward pass; with `half`, only look where cotangents arrive."""
        record = Pass(size, copies, self.parameters[0].device, self._loops)
        with self._tapped(record), torch.enable_grad():
            value = losses(self.module, batch)
            if not isinstance(value, Tensor) or value.shape != (record.rows,):
                # not how many: the size of a random batch is nobody's business
                raise InvalidData("losses must return a vector with one loss for each row.")
            weights = torch.full_like(value, 1.0 / copies)
            if half:
                weights[size // 2 * copies :] = 0.0
                record.observe = outside_stays_zero(record, NotPerExample)
            stray = record.backward(value, weights, self.parameters)
        if stray and self._whole:
            name = self._names[self.parameters[stray[0]]]
            raise InvalidParameter(
                f"the parameter {name!r} is used outside the module's forward pass, by the "
                "losses, where its per-example gradient is lost; use it inside the module."
            )
        if stray:
            raise NotPerExample
        return record, value

    @property
    def _whole(self) -> bool:
        return self._units[0][1] is self.module and isinstance(self._units[0][2], General)

    def _assign(self, name: str, module: nn.Module, seen: set[nn.Module]) -> None:
        """Give each smallest module with parameters of its own the kind that handles it."""
        if module in seen or not any(p.requires_grad for p in module.parameters()):
            return
        seen.add(module)
        kind = KINDS.get(type(module))
        if kind is not None:
            kind.check(module, name)
            self._units.append((name, module, kind))
        elif any(p.requires_grad for p in module.parameters(recurse=False)) or _parametrised(
            module
        ):
            for child_name, child in module.named_modules():
                for ancestor in type(child).__mro__:  # an option of torch's layer is inherited
                    if ancestor in KINDS:
                        KINDS[ancestor].check(child, f"{name}.{child_name}".strip("."))
            self._units.append((name, module, General()))
        else:
            for child_name, child in module.named_children():
                self._assign(f"{name}.{child_name}".strip("."), child, seen)

    @contextmanager
    def _tapped(self, record: Pass) -> Iterator[None]:
        """Let the units run through their kinds; whatever happens, they are themselves again."""
        patched: list[tuple[nn.Module, Any]] = []
        try:
            for _, module, kind in self._units:
                own = module.__dict__.get("forward")
                module.__dict__["forward"] = _redirected(record, module, kind, module.forward)
                patched.append((module, own))
            yield
        finally:
            for module, own in patched:
                if own is None:
                    del module.__dict__["forward"]
                else:
                    module.__dict__["forward"] = own


def check_module(
    module: nn.Module, losses: Losses, batch: Any, size: int, *, copies: int = 1
) -> dict[str, str]:
    """Raise if the module cannot be trained privately; return how each layer is handled.

    `batch` holds `size` >= 2 made-up or public examples. Static refusals come first; then it is
    tried whether one example's output or loss depends on another's, which no one can read off a
    custom module. "General" layers run one example at a time, which is right but slow.
    """
    size, copies = _validate.integer("size", size, 2), _validate.integer("copies", copies)
    engine = ClippedGradients(module)
    engine.verify(losses, batch, size, copies=copies)
    return engine.layers


def _redirected(record: Pass, module: nn.Module, kind: Kind, forward: Any) -> Callable[..., Any]:
    def redirected(*args: Any, **kwargs: Any) -> Any:
        if record.nested:
            return forward(*args, **kwargs)
        return kind.forward(record, module, *args, **kwargs)

    return redirected


def _joined(terms: list[Term]) -> list[Term]:
    """Put the calls of one weight side by side where that is exact."""
    first, *rest = terms
    if not all(isinstance(term, Outer) for term in terms):
        return terms
    for other in rest:
        first = first.joined(other)  # type: ignore[attr-defined]
    return [first]


def _parametrised(module: nn.Module) -> bool:
    return hasattr(module, "parametrizations")
