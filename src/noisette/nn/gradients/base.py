"""One pass over a batch: the rules by which functions of torch are followed, and their record.

The pass runs under `torch.vmap`, so Python sees one record (`watch.py`). Below that, in here, a
tensor is *whole*: it has all records in its first axis, or length 1 there if it is the same for all
of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._pytree import tree_map

from noisette.errors import InvalidParameter
from noisette.nn.gradients.terms import Dense, Term

Terms = Callable[[Tensor, Tensor], Iterable[Term]]
Rule = Callable[..., Any]

RULES: dict[Any, Rule] = {}
"""How a function of torch is followed; a rule that returns NotImplemented leaves it to vmap."""


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Enter a rule for functions of torch: it takes the pass and then what the function takes."""

    def enter(follow: Rule) -> Rule:
        RULES.update(dict.fromkeys(functions, follow))
        return follow

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
    """One forward and one backward: collects the terms while the cotangents arrive."""

    def __init__(self, size: int, parameters: Sequence[nn.Parameter], chance: Any) -> None:
        self.size, self.level, self.chance = size, -1, chance
        self.draws = False
        """Whether code that may draw is run now."""
        self.terms: list[Term] = []
        self.handled: dict[int, set[str]] = {}
        self.trained = {id(p): p for p in parameters}
        self._own: dict[int, tuple[Tensor, Tensor]] = {}  # each record's own copy, whole and mapped
        self._seed = torch.zeros((), device=parameters[0].device, requires_grad=True)

    def trains(self, x: Any) -> bool:
        """Say whether `x` is a trainable parameter of the module."""
        return id(x) in self.trained

    def constant(self, *given: Tensor | None) -> bool:
        """Say whether these are missing, or the same for all records."""
        return all(x is None or _functorch.maybe_get_level(x) == -1 for x in given)

    def sorted_out(self, *given: Tensor | None) -> tuple[list[Any], list[Any]]:
        """Return what is trained of a layer's parameters, and the values to compute with.

        What is not trained stays attached: a use of a parameter that no rule sees is found there.
        """
        own = [p if id(p) in self.trained else None for p in given]
        return own, [p if o is None else o.detach() for p, o in zip(given, own, strict=True)]

    def own(self, parameter: Tensor) -> Tensor:
        """Return the parameter as every record's own: its gradient is then one per record."""
        pair = self._own.get(id(parameter))
        if pair is None:
            with temporarily_clear_interpreter_stack():
                whole = parameter.detach().unsqueeze(0).expand(self.size, *parameter.shape)
                whole.requires_grad_()
            pair = self._own[id(parameter)] = whole, self.mapped(whole)
            self.handled.setdefault(id(parameter), set()).add("per record")
        return pair[1]

    def replaced(self, given: Any) -> Any:
        """Return arguments with every trainable parameter made each record's own."""
        return tree_map(lambda x: self.own(x) if id(x) in self.trained else x, given)

    # --- between one record and all of them ------------------------------------------------------

    @contextmanager
    def mapping(self) -> Iterator[None]:
        """Run over the records as `torch.vmap` does; torch refuses to draw outside `drawing`."""
        self.level = _functorch._vmap_increment_nesting(self.size, "error")
        try:
            yield
        finally:
            _functorch._vmap_decrement_nesting()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch draw, for each record by itself, with our numbers. proof: NN-CHANCE"""
        if self.draws:
            yield
            return
        self._enter_again("different")
        self.draws = True
        try:
            with self.chance:
                yield
        finally:
            self.draws = False
            self._enter_again("error")

    def _enter_again(self, randomness: str) -> None:
        """Enter the same level once more: tensors know their level by its number alone."""
        _functorch._vmap_decrement_nesting()
        assert _functorch._vmap_increment_nesting(self.size, randomness) == self.level

    def mapped(self, whole: Tensor) -> Any:
        """Return what Python sees of a whole tensor: one record."""
        return _functorch._add_batch_dim(whole, 0, self.level)

    def whole(self, x: Tensor) -> Tensor:
        """Return all records of a tensor that Python sees one of."""
        if _functorch.maybe_get_level(x) != self.level:
            return x.unsqueeze(0)
        found: Tensor = _functorch.get_unwrapped(x)
        axis = _functorch.maybe_get_bdim(x)
        return found.movedim(axis, 0) if axis else found

    def on_top(self) -> bool:
        """Say whether no transform of the user's own is under way inside the pass."""
        top = _functorch.peek_interpreter_stack()
        return top is not None and top.level() == self.level

    def below(self, compute: Callable[..., Tensor], *inputs: Tensor | None) -> Any:
        """Return compute(*inputs) where everything is whole."""
        layer = _functorch.pop_dynamic_layer_stack()
        try:
            out = self.spread(compute(*(None if x is None else self.whole(x) for x in inputs)))
        finally:
            _functorch.push_dynamic_layer_stack(layer)
        return self.mapped(out)

    def spread(self, x: Tensor) -> Tensor:
        """Return a whole tensor with a row for each record."""
        if x.shape[0] == self.size:
            return x
        return x.expand(self.size, *x.shape[1:]).contiguous()

    def examples(self, x: Tensor, trailing: int) -> Tensor:
        """View `x` as (size, T, last `trailing` axes): all that belongs to one record in a row."""
        x = self.spread(x)
        return x.reshape(self.size, -1, *x.shape[x.dim() - trailing :])

    def tap(
        self, compute: Callable[[Tensor], Tensor], x: Tensor, terms: Terms, merged: int = 1
    ) -> Any:
        """Return compute(x); when its cotangent g arrives, keep terms(x, g). All three are whole.

        `compute` sees the first `merged` axes as one. `x` is let go once the terms are made.
        """
        layer = _functorch.pop_dynamic_layer_stack()
        try:
            held = self.whole(x)
            out = compute(held.flatten(0, merged - 1) if merged > 1 else held)
            shape = (self.size, *held.shape[1:merged], *out.shape[1:])
            if held.shape[0] != self.size:
                out = self.spread(out.view(1, *shape[1:]))
            if not out.requires_grad:
                out = _Source.apply(self._seed, [out])  # type: ignore[no-untyped-call]
            elif out._is_view():
                out = out.clone()  # a change in place of a view would go past its hook
            box = [(held.detach(), held._version)]

            def arrived(g: Tensor) -> None:
                value, version = box.pop()
                if value._version != version:
                    raise InvalidParameter(
                        "the input of a layer was changed in place after the layer had read it; "
                        "use the operation that makes a new tensor."
                    )
                self.terms.extend(terms(value, g.reshape(shape)))

            out.register_hook(arrived)  # type: ignore[no-untyped-call]
            out = out.view(shape) if out.shape != shape else out
        finally:
            _functorch.push_dynamic_layer_stack(layer)
        return self.mapped(out)

    # --- backward --------------------------------------------------------------------------------

    def backward(self, losses: Tensor, share: float) -> list[nn.Parameter]:
        """Run the backward pass; return the parameters that were used where no rule saw it."""
        own = {key: whole for key, (whole, _) in self._own.items()}
        self._own.clear()
        trained = list(self.trained.values())
        _, *found = torch.autograd.grad(
            losses, [self._seed, *own.values(), *trained],
            grad_outputs=torch.full_like(losses, share), allow_unused=True,
        )  # fmt: skip
        each = zip(own, found, strict=False)
        self.terms += [Dense(self.trained[key], g) for key, g in each if g is not None]
        return [p for p, g in zip(trained, found[len(own) :], strict=True) if g is not None]
