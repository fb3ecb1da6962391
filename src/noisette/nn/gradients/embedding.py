"""Embeddings: a linear layer on one-hot rows, without the one-hot rows."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noisette.errors import InvalidParameter
from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.rounding import gamma, squares, working
from noisette.nn.gradients.terms import Dense, Term


class Lookup(Term):
    """Gradients that add g_t to row index_t: index (size, T), g (size, T, d)."""

    def __init__(self, parameter: Tensor, index: Tensor, g: Tensor) -> None:
        self.parameter, self.index, self.g = parameter, index, working(g)
        self.size = g.shape[0]

    def squares(self) -> Tensor:
        """Return the squared norms: cotangents of equal indices are added first.

        Adding T of them rounds by at most gamma_T sum_t ||g_t||, which is added to the norm.
        """
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

    def weighted(self, factors: Tensor) -> Tensor:
        """Return sum_i f_i sum_t e_{index_t} g_t'."""
        g = self.g * factors.to(self.g.dtype)[:, None, None]
        into = self.g.new_zeros(self.parameter.shape)
        return into.index_add_(0, self.index.flatten(), g.flatten(0, 1))

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
        return Lookup(self.parameter, self.index, self.g.masked_fill(bad[:, None, None], 0.0))


REASONS = {
    "max_norm": "rescales weights by which records are in the batch",
    "scale_grad_by_freq": "divides by how often other records use a token",
    "sparse": "asks for sparse gradients, which noise would fill in",
}
"""Why an option of an embedding is refused."""


@rule(functional.embedding)
def embedding(
    record: Pass, input: Tensor, weight: Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """Follow out_t = W[index_t]."""
    given = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    for option, value in given.items():
        if value:
            raise InvalidParameter(
                f"an embedding has {option}, which {REASONS[option]}; leave it off."
            )
    if not record.trains(weight):
        if not record.constant(weight):
            return NotImplemented
        return record.below(lambda index: functional.embedding(index, weight), input)
    padding = None if padding_idx is None else padding_idx % weight.shape[0]

    def terms(index: Tensor, g: Tensor) -> Iterator[Term]:
        index, g = record.spread(index).reshape(record.size, -1), record.examples(g, 1)
        if padding is not None:
            g = g.masked_fill((index == padding).unsqueeze(2), 0.0)
        lookup = Lookup(weight, index, g)
        small = weight.shape[0] <= g.shape[1]
        yield Dense(weight, lookup.rows(0, record.size)) if small else lookup

    return record.tap(lambda index: functional.embedding(index, weight.detach()), input, terms)
