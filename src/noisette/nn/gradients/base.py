"""The registry of layers that are book-kept, and the record of one forward and backward pass."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from noisette.errors import InvalidParameter
from noisette.nn.gradients.terms import Term

__all__ = ["KINDS", "Kind", "NotPerExample", "Pass", "register"]

Terms = Callable[[Tensor], Iterable[Term]]


class NotPerExample(Exception):
    """A layer was called with something whose first axis is not the batch (internal)."""


class Kind:
    """How one kind of layer runs while its per-example gradients are recorded."""

    def check(self, module: Any, name: str) -> None:
        """Raise InvalidParameter when an option of the layer mixes examples."""

    def supports(self, module: Any) -> bool:
        """Say whether this very layer is book-kept; if not, the general way is taken."""
        return True

    def forward(self, record: "Pass", module: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the layer's output with detached parameters, and tap it."""
        raise NotImplementedError


KINDS: dict[type[nn.Module], Kind] = {}


def register(*types: type[nn.Module]) -> Callable[[type[Kind]], type[Kind]]:
    """Register a kind for layer types; a layer is looked up by its exact type."""

    def enter(kind: type[Kind]) -> type[Kind]:
        for layer in types:
            KINDS[layer] = kind()
        return kind

    return enter


class _Source(torch.autograd.Function):
    """Give a tensor that needs no gradient a place in the graph, so that it gets a cotangent."""

    @staticmethod
    def forward(ctx: Any, seed: Tensor, held: list[Tensor]) -> Tensor:
        out = held.pop()
        # A view made in here could not be changed in place by the next layer: same memory, no view.
        if not out._is_view():
            return out
        whole = out.untyped_storage(), out.storage_offset(), out.shape, out.stride()
        return out.new_empty(0).set_(*whole)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[None, None]:
        return None, None


class Pass:
    """One forward and one backward: collects the terms while the cotangents arrive.

    `size` examples of `copies` rows each; the gradient of an example is the mean over its rows.
    """

    def __init__(self, size: int, copies: int, device: torch.device, loops: set[nn.Module]) -> None:
        self.size, self.copies, self.rows = size, copies, size * copies
        self.loops = loops
        self.terms: list[Term] = []
        self.leaves: list[tuple[Tensor, Terms]] = []
        self.observe: Callable[[Tensor], None] | None = None
        self.nested, self.live = 0, False
        self._seed = torch.zeros((), device=device, requires_grad=True)

    def examples(self, x: Tensor, trailing: int) -> Tensor:
        """View `x` as (size, T, last `trailing` axes): all that belongs to one example in a row."""
        kept = x.shape[x.dim() - trailing :]
        if x.dim() <= trailing or x.shape[0] != self.rows:
            raise NotPerExample
        return x.reshape(self.size, -1, *kept)

    def tap(
        self, compute: Callable[[], Tensor], held: Any, terms: Callable[..., Iterable[Term]]
    ) -> Tensor:
        """Return compute() and, when its cotangent g arrives, keep terms(held, g).

        `held` is let go as soon as the terms are made; they keep what they need.
        """
        out = compute()
        if not torch.is_grad_enabled():
            return out
        if out.dim() == 0 or out.shape[0] != self.rows:
            raise NotPerExample
        if not out.requires_grad:
            out = _Source.apply(self._seed, [out])  # type: ignore[no-untyped-call]
        box = [(held, held._version if isinstance(held, Tensor) else 0)]

        def arrived(g: Tensor) -> None:
            if not self.live or not box:
                raise InvalidParameter(
                    "the losses must not take gradients themselves: what depends on the gradient "
                    "of a layer cannot be followed."
                )
            value, version = box.pop()
            if isinstance(value, Tensor) and value._version != version:
                raise InvalidParameter(
                    "the input of a layer was changed in place after the layer had read it; "
                    "use the operation that makes a new tensor."
                )
            if self.observe is not None:
                self.observe(g)
            else:
                self.terms.extend(terms(value, g))

        out.register_hook(arrived)  # type: ignore[no-untyped-call]
        return out

    def backward(self, losses: Tensor, weights: Tensor, watched: list[nn.Parameter]) -> list[int]:
        """Run the backward pass; return the positions in `watched` that were used untapped."""
        if not losses.requires_grad:
            return []
        self.live = True
        leaves = [leaf for leaf, _ in self.leaves]
        found: Sequence[Tensor | None] = torch.autograd.grad(
            losses, [self._seed, *leaves, *watched], grad_outputs=weights, allow_unused=True
        )
        for (_, terms), g in zip(self.leaves, found[1:], strict=False):
            if g is None:
                continue
            if self.observe is not None:
                self.observe(g)
            else:
                self.terms.extend(terms(g))
        self.leaves.clear()
        return [i for i, g in enumerate(found[1 + len(leaves) :]) if g is not None]
