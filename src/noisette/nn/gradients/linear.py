"""Products with a weight matrix, any axes between; embeddings, without forming one-hot rows."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette._validate import refuse
from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.rounding import gamma, squares, working
from noisette.nn.gradients.terms import Dense, Outer, Shift, Term, Vectors, zeroed


def weight_term(weight: Tensor, a: Tensor, cotangent: Vectors) -> Term:
    """Return the term of sum_t g_t a_t' from a (size, T, d) and g (size, T, p).

    Per-example gradients are formed at once when they are no larger than what they replace: one
    batched product then serves the norms and the sum, and a and g are let go. Otherwise
    p d > 2 T (p + d), and there the Gram form needs fewer operations than forming them.
    """
    T, d, p = a.shape[1], a.shape[2], cotangent.x.shape[2]
    if T > 1 and p * d <= 2 * T * (p + d):
        formed = torch.bmm(cotangent.x.transpose(1, 2), working(a))
        return Dense(weight, formed.view(-1, *weight.shape))
    return Outer(weight, a, cotangent)


@rule(functional.linear)
def linear(record: Pass, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Follow out = x W' + b."""
    if not record.constant(weight, bias):
        return NotImplemented
    if not (record.trains(weight) or record.trains(bias)):
        return functional.linear(record.replaced(input), weight, bias)
    return _tapped(record, record.replaced(input), weight, bias)


def _tapped(
    record: Pass, x: Tensor, weight: Tensor, bias: Tensor | None, right: bool = False
) -> Any:
    """Follow out = x W' + b, or x W + b, where the weight's gradient is transposed."""
    (w, b), (fixed, added) = record.sorted_out(weight, bias)

    def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
        a, g = record.examples(a, 1), record.examples(g, 1)
        cotangent = Vectors(g)
        if w is not None:
            yield weight_term(w, g, Vectors(a)) if right else weight_term(w, a, cotangent)
        if b is not None:
            yield Shift(b, cotangent) if g.shape[1] == 1 else Dense(b, g.sum(1))

    fixed = fixed.t() if right else fixed
    return record.tap(lambda x: _product(x, fixed, added), x, terms, merged=x.dim())


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W' + b, a row of which must not depend on where it stands, nor on how many are."""
    p, d = (-size % 4 for size in weight.shape)
    # Kernels round a row that begins at 16 bytes otherwise than others, and a product with a vector
    # by where the row stands: with widths of whole 16 bytes, and more than one, they do not.
    if not p and not d:
        return functional.linear(x, weight, bias)
    x = functional.pad(x, (0, d)) if d else x
    bias = None if bias is None else functional.pad(bias, (0, p))
    out = functional.linear(x, functional.pad(weight, (0, d, 0, p)), bias)
    return out[..., : weight.shape[0]] if p else out


@rule(torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__)
def matmul(record: Pass, input: Tensor, other: Tensor, **options: Any) -> Any:
    """Follow x W."""
    if options or not record.trains(other) or other.dim() != 2 or record.trains(input):
        return NotImplemented
    return _tapped(record, input, other, None, right=True)


@rule(torch.addmm, Tensor.addmm)
def addmm(record: Pass, input: Tensor, mat1: Tensor, mat2: Tensor, **options: Any) -> Any:
    """Follow b + x W, as the Conv1D of Hugging Face computes it."""
    row = record.trains(input) and input.shape == mat2.shape[1:]
    if options or not (row and record.trains(mat2)) or record.trains(mat1):
        return NotImplemented
    return _tapped(record, mat1, mat2, input, right=True)


class Lookup(Term):
    """Gradients that add g_t to row index_t: index (size, T), g (size, T, d)."""

    def __init__(self, parameter: Tensor, index: Tensor, g: Tensor) -> None:
        self.parameter, self.index, self.g = parameter, index, working(g)
        self.size = g.shape[0]

    def squares(self) -> Tensor:
        """Return the squared norms: cotangents of equal indices are added first, which rounds."""
        T, d = self.g.shape[1:]
        if T == 1:
            return squares(self.g[:, 0])
        example = torch.arange(self.size, device=self.g.device).unsqueeze(1)
        keys = (example * self.parameter.shape[0] + self.index).flatten()
        found, place = torch.unique(keys, return_inverse=True)
        sums = self.g.new_zeros(len(found), d).index_add_(0, place, self.g.reshape(-1, d))
        owner = torch.div(found, self.parameter.shape[0], rounding_mode="floor")
        total = torch.zeros(self.size, dtype=torch.float64, device=self.g.device)
        return (total.index_add_(0, owner, squares(sums)).sqrt() + self.error()).square()

    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add sum_i f_i sum_t e_{index_t} g_t'."""
        g = self.g * factors.to(self.g.dtype)[:, None, None]
        into = self.g.new_zeros(self.parameter.shape)
        out += into.index_add_(0, self.index.flatten(), g.flatten(0, 1))

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the gradients of a slice, mostly zeros."""
        n, V = stop - start, self.parameter.shape[0]
        place = self.index[start:stop] + V * torch.arange(n, device=self.g.device).unsqueeze(1)
        into = self.g.new_zeros(n * V, self.g.shape[2])
        into.index_add_(0, place.flatten(), self.g[start:stop].flatten(0, 1))
        return into.view(n, V, -1)

    def error(self) -> Tensor:
        """Return 2 gamma_T sum_t ||g_t||."""
        return 2.0 * gamma(self.g.shape[1], self.g.dtype) * squares(self.g).sqrt().sum(1)

    def without(self, bad: Tensor) -> "Lookup":
        """Return the term with zero rows for `bad`."""
        return Lookup(self.parameter, self.index, zeroed(self.g, bad))


REASONS = {  # why an option of an embedding is refused
    "max_norm": "rescales weights by which records are in the batch",
    "scale_grad_by_freq": "divides by how often other records use a token",
    "sparse": "asks for sparse gradients, which noise would fill in",
}


@rule(functional.embedding)
def embedding(
    record: Pass, input: Tensor, weight: Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """Follow out_t = W[index_t]."""
    given = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    refuse(*(
        (value, f"an embedding has {option}, which {REASONS[option]}; leave it off.")
        for option, value in given.items()
    ))  # fmt: skip
    if not record.trains(weight):
        if not record.constant(weight):
            return NotImplemented
        return record.below(lambda index: functional.embedding(index, weight), input)
    padding = None if padding_idx is None else padding_idx % weight.shape[0]

    def terms(index: Tensor, g: Tensor) -> Iterator[Term]:
        index, g = record.spread(index).reshape(record.size, -1), record.examples(g, 1)
        if padding is not None:
            g = g.masked_fill((index == padding).unsqueeze(2), 0.0)
        lookup, few = Lookup(weight, index, g), weight.shape[0] <= g.shape[1]
        yield Dense(weight, lookup.rows(0, record.size)) if few else lookup

    return record.tap(lambda index: functional.embedding(index, weight.detach()), input, terms)
