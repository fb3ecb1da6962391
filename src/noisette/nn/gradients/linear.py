"""Products with a weight matrix, with any number of axes between the record and the features."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.rounding import working
from noisette.nn.gradients.terms import Dense, Outer, Shift, Term, Vectors


def matrix_terms(
    weight: Tensor | None, bias: Tensor | None, a: Tensor, g: Tensor
) -> Iterator[Term]:
    """Yield the terms of out_t = W a_t + b from a (size, T, d) and g (size, T, p).

    Per-example gradients are formed at once when they are no larger than what they replace: one
    batched product then serves the norms and the sum, and a and g are let go. Otherwise
    p d > 2 T (p + d), and there the Gram form needs fewer operations than forming them.
    """
    cotangent = Vectors(g)
    if weight is not None:
        yield weight_term(weight, a, cotangent)
    if bias is not None:
        yield Shift(bias, cotangent) if g.shape[1] == 1 else Dense(bias, g.sum(1))


def weight_term(weight: Tensor, a: Tensor, cotangent: Vectors) -> Term:
    """Return the term of sum_t g_t a_t' in the form that needs less."""
    T, d, p = a.shape[1], a.shape[2], cotangent.x.shape[2]
    if T > 1 and p * d <= 2 * T * (p + d):
        gradients = torch.bmm(cotangent.x.transpose(1, 2), working(a))
        return Dense(weight, gradients.view(-1, *weight.shape))
    return Outer(weight, a, cotangent)


@rule(functional.linear)
def linear(record: Pass, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Follow out = x W' + b."""
    if not (record.constant(weight) and record.constant(bias)):
        return NotImplemented
    w, b = (p if record.trains(p) else None for p in (weight, bias))
    if w is None and b is None:
        return functional.linear(record.replaced(input), weight, bias)
    # What is not trained stays attached: a use of a parameter that no rule sees is found there.
    fixed = weight if w is None else weight.detach(), bias if b is None else b.detach()

    def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
        return matrix_terms(w, b, record.examples(a, 1), record.examples(g, 1))

    x = record.replaced(input)
    return record.tap(lambda x: _product(x, *fixed), x, terms, merged=x.dim())


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W' + b, a row of which must not depend on how many there are."""
    if weight.shape[0] > 1:
        return functional.linear(x, weight, bias)
    # A product with a vector rounds a row by where it stands; with a matrix it does not.
    bias = None if bias is None else functional.pad(bias, (0, 1))
    return functional.linear(x, functional.pad(weight, (0, 0, 0, 1)), bias)[..., :1]


def _right(record: Pass, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Follow out = x W + b: the weight's gradient is that of `linear`, transposed."""
    w, b = weight.detach(), None if bias is None else bias.detach()

    def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
        a, g = record.examples(a, 1), record.examples(g, 1)
        yield weight_term(weight, g, Vectors(a))
        if bias is not None:
            yield from matrix_terms(None, bias, a, g)

    def compute(x: Tensor) -> Tensor:
        if w.shape[1] == 1:
            return _product(x, w.t(), b)
        return x @ w if b is None else torch.addmm(b, x, w)

    return record.tap(compute, x, terms, merged=x.dim())


@rule(torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__)
def matmul(record: Pass, input: Tensor, other: Tensor, **options: Any) -> Any:
    """Follow x W."""
    if options or not record.trains(other) or other.dim() != 2 or record.trains(input):
        return NotImplemented
    return _right(record, input, other, None)


@rule(torch.addmm, Tensor.addmm)
def addmm(record: Pass, input: Tensor, mat1: Tensor, mat2: Tensor, **options: Any) -> Any:
    """Follow b + x W, as the Conv1D of Hugging Face computes it."""
    row = record.trains(input) and input.shape == mat2.shape[1:]
    if options or not (row and record.trains(mat2)) or record.trains(mat1):
        return NotImplemented
    return _right(record, mat1, mat2, input)
