"""Terms: how one call of a layer enters the per-example gradients of one parameter.

A term knows upper bounds of the squared norms and the weighted sum; it never needs the model
again. `Dense` holds per-example gradients, `Outer` the factors a and g of sum_t g_t a_t'.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from noisette.nn.gradients.rounding import BLOCK, gamma, squares, squares_of_all, tiny, working

_CHUNK_ENTRIES = 1 << 22


class Term(ABC):
    """The part of d loss_i / d parameter that one call made, for all examples i."""

    parameter: Tensor
    size: int

    def squares(self) -> Tensor:
        """Return upper bounds of the squared norms, float64, shape (size,)."""
        return joint_squares([self])

    @abstractmethod
    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add sum_i factors_i * gradient_i to `out`, which has the shape of the parameter."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Tensor:
        """Return the gradients of examples start .. stop - 1, shape (n, *parameter.shape)."""

    def error(self) -> Tensor:
        """Return bounds of the norm of what rounding changed in `rows`, 0 where they are exact."""
        return torch.zeros(self.size, dtype=torch.float64, device=self.parameter.device)

    def vectors(self) -> Sequence["Vectors"]:
        """Return the vectors whose norms `squares` will ask for."""
        return ()

    @abstractmethod
    def without(self, bad: Tensor) -> "Term":
        """Return the term with the examples in the mask `bad` removed exactly."""


def chunks(size: int, entries: int, most: int = _CHUNK_ENTRIES) -> Sequence[tuple[int, int]]:
    """Cut `size` examples of `entries` numbers each into runs that fit in a little memory."""
    step = max(1, most // max(1, entries))
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def _matrix(rows: Tensor) -> Tensor:
    """View per-example gradients as (n, p, rest): short rows keep the rounding bound small."""
    return rows.flatten(2) if rows.dim() > 2 else rows.reshape(len(rows), 1, -1)


def joint_squares(terms: Sequence[Term]) -> Tensor:
    """Return upper bounds of the squared norms of a sum of terms, formed for a few at a time."""
    size, entries = terms[0].size, terms[0].parameter.numel()
    parts, absolute = [], []
    for start, stop in chunks(size, entries):
        rows = [term.rows(start, stop) for term in terms]
        parts.append(squares(_matrix(sum(rows[1:], rows[0]))).sum(1))
        norms = [squares(_matrix(part)).sum(1).sqrt() for part in rows]
        absolute.append(torch.stack(norms).sum(0))
    # k terms are added with an error of at most gamma_k times the sum of their norms.
    lost = gamma(len(terms), rows[0].dtype) * torch.cat(absolute)
    error = torch.stack([term.error() for term in terms]).sum(0) + lost
    return (torch.cat(parts).sqrt() + error).square()


class Dense(Term):
    """Gradients held as they are: (size, *shape). What is summed is what was measured."""

    def __init__(self, parameter: Tensor, gradients: Tensor) -> None:
        self.parameter, self.gradients = parameter, working(gradients)
        self.size = gradients.shape[0]

    def squares(self) -> Tensor:
        """Return the squared norms of the very rows that are summed."""
        return squares(_matrix(self.gradients)).sum(1)

    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add sum_i f_i G_i."""
        flat = self.gradients.reshape(self.size, -1)
        out += (factors.to(flat.dtype) @ flat).view(self.parameter.shape)

    def rows(self, start: int, stop: int) -> Tensor:
        """Return a slice."""
        return self.gradients[start:stop]

    def without(self, bad: Tensor) -> "Dense":
        """Return the term with zero rows for `bad`."""
        return Dense(self.parameter, zeroed(self.gradients, bad))


class Vectors:
    """The inputs or cotangents (size, T, p) of one call; what two terms need is made once."""

    def __init__(self, x: Tensor) -> None:
        self.x = working(x)
        self._weighted: tuple[Tensor, Tensor] | None = None

    @cached_property
    def squares(self) -> Tensor:
        """Upper bounds of the squared norms of x_t, float64, shape (size, T)."""
        return squares(self.x)

    def weighted(self, factors: Tensor) -> Tensor:
        """Return factors_i x_it; a copy, since a cotangent may be that of another layer too."""
        if self._weighted is None or self._weighted[0] is not factors:
            self._weighted = factors, self.x * factors.to(self.x.dtype).view(-1, 1, 1)
        return self._weighted[1]


def measure(terms: Iterable[Term]) -> None:
    """Take the norms that these terms will ask for, those of one type together."""
    alike: dict[tuple[torch.dtype, int], dict[int, Vectors]] = {}
    for term in terms:
        for vectors in term.vectors():
            x = vectors.x
            if x.shape[2] <= BLOCK:
                alike.setdefault((x.dtype, x.shape[1]), {})[id(vectors)] = vectors
    for group in alike.values():
        found = squares_of_all([vectors.x for vectors in group.values()])
        for vectors, squared in zip(group.values(), found.unbind(), strict=True):
            vectors.squares = squared


class Shift(Term):
    """Gradients g_i of a bias that is added once, T = 1; g is shared with the weight's term."""

    def __init__(self, parameter: Tensor, cotangent: Vectors) -> None:
        self.parameter, self.cotangent, self.size = parameter, cotangent, len(cotangent.x)

    def vectors(self) -> Sequence[Vectors]:
        """Return g."""
        return (self.cotangent,)

    def squares(self) -> Tensor:
        """Return the squared norms of g."""
        return self.cotangent.squares[:, 0]

    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add sum_i f_i g_i."""
        out += self.cotangent.weighted(factors).sum((0, 1))

    def rows(self, start: int, stop: int) -> Tensor:
        """Return a slice."""
        return self.cotangent.x[start:stop, 0]

    def without(self, bad: Tensor) -> "Shift":
        """Return the term with zero rows for `bad`."""
        return Shift(self.parameter, Vectors(zeroed(self.cotangent.x, bad)))


class Outer(Term):
    """Gradients sum_t g_t a_t', kept as a (size, T, d) and g (size, T, p); parameter is p x d."""

    def __init__(self, parameter: Tensor, a: Tensor, g: Tensor | Vectors) -> None:
        self.input, self.cotangent = Vectors(a), g if isinstance(g, Vectors) else Vectors(g)
        self.parameter, self.a, self.g = parameter, self.input.x, self.cotangent.x
        self.size = a.shape[0]

    def vectors(self) -> Sequence[Vectors]:
        """Return a and g where there is one position; the Gram form has norms of its own."""
        return (self.input, self.cotangent) if self.a.shape[1] == 1 else ()

    def squares(self) -> Tensor:
        """Return ||a||^2 ||g||^2 for T = 1, else sum_st (a_s . a_t)(g_s . g_t) and its allowance.

        The Gram form cancels: its rounding error is at most gamma (sum_t ||a_t|| ||g_t||)^2 with
        gamma = gamma_{d + p + T + 8}, which is added. proof: NN-CLIP
        """
        T, d, p = self.a.shape[1], self.a.shape[2], self.g.shape[2]
        if T == 1:
            return (self.input.squares * self.cotangent.squares)[:, 0]
        a, g = self.a, self.g
        if gamma(d + p + T + 8, a.dtype) > 1e-2:
            a, g = a.double(), g.double()
        runs = chunks(self.size, max(T * T, 1))
        return torch.cat([_gram(a[start:stop], g[start:stop]) for start, stop in runs])

    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add sum_i f_i sum_t g_t a_t' as one product, without a copy where precisions agree."""
        g, a = self.cotangent.weighted(factors).flatten(0, 1).t(), self.a.flatten(0, 1)
        if out.dtype == g.dtype == a.dtype:
            out.addmm_(g, a)
        else:
            out += g @ a

    def rows(self, start: int, stop: int) -> Tensor:
        """Return g'a for a slice."""
        return torch.bmm(self.g[start:stop].transpose(1, 2), self.a[start:stop])

    def error(self) -> Tensor:
        """Return 2 gamma_{T + 2} sum_t ||a_t|| ||g_t||."""
        norms = (self.input.squares * self.cotangent.squares).sqrt().sum(1)
        return 2.0 * gamma(self.a.shape[1] + 2, self.a.dtype) * norms

    def without(self, bad: Tensor) -> "Outer":
        """Return the term with zero rows for `bad`."""
        return Outer(self.parameter, zeroed(self.a, bad), zeroed(self.g, bad))


def zeroed(x: Tensor, bad: Tensor) -> Tensor:
    """Return `x` with zeros in the rows of the mask `bad`."""
    return x.masked_fill(bad.view(-1, *[1] * (x.dim() - 1)), 0.0)


def _gram(a: Tensor, g: Tensor) -> Tensor:
    T, d, p = a.shape[1], a.shape[2], g.shape[2]
    A, G = torch.bmm(a, a.transpose(1, 2)), torch.bmm(g, g.transpose(1, 2))
    lost = 1.0 + 2.0 * gamma(d + p + 8, a.dtype)
    a_squares = A.diagonal(dim1=1, dim2=2).double() * lost + 2.0 * tiny(d, a.dtype)
    g_squares = G.diagonal(dim1=1, dim2=2).double() * lost + 2.0 * tiny(p, a.dtype)
    absolute = (a_squares * g_squares).sqrt().sum(1).square()
    cross = A.mul_(G).sum(2).double().sum(1)
    allowance = 2.0 * gamma(d + p + T + 8, a.dtype) * absolute
    # Underflow takes up to tiny(d) from every entry of A, which G multiplies, and so on.
    allowance += 2.0 * tiny(d, a.dtype) * g_squares.sqrt().sum(1).square()
    allowance += 2.0 * tiny(p, a.dtype) * a_squares.sqrt().sum(1).square()
    allowance += 2.0 * tiny(T * T, a.dtype)
    # A sum of rows that fell to minus infinity says nothing; below 0 it is rounding.
    cross = torch.where(cross.isfinite(), cross.clamp(min=0.0), torch.inf)
    return cross.add_(allowance)
