"""Dominating pairs of single steps: the masses of their privacy loss in any cells.

A *pair* (P, Q) dominates one step in ONE neighbour order when H_γ(P||Q) = ∫(P - γQ)_+ is at least
the hockey-stick divergence of the two output laws for every γ > 0. L = log dP/dQ is the privacy
loss; δ(ε) = H_{e^ε}.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.mechanisms.base import Checks

ROUNDING = 2.0**-50  # allowance for the relative error of one special-function value
LARGEST_LOSS = 690.0  # e^690 is still a finite double; larger losses are charged as infinite


class Support(NamedTuple):
    """The least and the largest finite loss, Q(L = -inf) and P(L = +inf)."""

    min_loss: float = -math.inf
    max_loss: float = math.inf
    infinite_q: float = 0.0
    infinite_p: float = 0.0


class Pair(ABC):
    """A dominating pair (P, Q) of one step, in one neighbour order.

    Subclasses are frozen dataclasses, so two pairs with the same parameters are equal and share
    cached work. All of them keep this contract:

    * ``cells(edges)`` with k increasing edges returns two arrays of length k + 1: the masses under
      P and under Q of the events L ∈ (-inf, e0], (e0, e1], ..., (e_{k-1}, inf). Cells are
      right-closed. P-mass at L = +inf is in the last cell of P, Q-mass at L = -inf in the first
      cell of Q, so both arrays sum to one. Both tails have relative, not only absolute, accuracy.
    * ``pinned``: a lattice should go through 0, because there is an atom.
    * ``is_lattice``: *all* of the finite loss lies on multiples of ``atom_spacing``.
    """

    pinned: ClassVar[bool] = False
    is_lattice: ClassVar[bool] = False
    checks: ClassVar[Checks] = {}
    """What returns the value of a field, or refuses it."""

    def __post_init__(self) -> None:
        _validate.fields(self, **self.checks)

    @abstractmethod
    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Masses under P and under Q of the loss cells cut by ``edges``."""

    @property
    def support(self) -> Support:
        """Where the loss lies."""
        return Support()

    @property
    def atom_spacing(self) -> float | None:
        """A step a such that the atoms of L lie on multiples of a, or None."""
        return None

    @property
    def errors(self) -> tuple[float, float]:
        """Bounds on |error of a cell mass|, of which the sum counts.

        The first is relative to the `conditioned` smaller tail mass next to the cell, the second to
        the mass of the cell.
        """
        return ROUNDING, ROUNDING

    def reading(self, epsilon: float) -> tuple[float, float]:
        """δ of this one step, P(L > ε) - e^ε Q(L > ε) for 0 <= ε, and a bound on its rounding."""
        # monotone in ε, so the value at the cap is still an upper bound
        epsilon = min(epsilon, LARGEST_LOSS)
        P, Q = self.cells(np.array([epsilon]))
        tail, cell = self.errors
        error_p, error_q = (tail * conditioned(m[-1:]) + cell * m[-1:] for m in (P, Q))
        error = float(error_p[0] + math.exp(epsilon) * error_q[0])
        return float(P[-1] - math.exp(epsilon) * Q[-1]), error

    def swapped(self) -> Pair:
        """The pair (Q, P): the other neighbour order."""
        return Swapped(self)

    def refined(self) -> Pair | None:
        """A tighter version of the same pair where the pair itself is approximate, else None."""
        return None


def conditioned(tail: Floats) -> Floats:
    """Tail masses times 1 + 2 |log tail|: how much an error of the edge weighs far out.

    A relative error u of the argument x of a Gaussian tail is one of about u x² of the tail, and
    x² <= 2 |log tail|.
    """
    return np.asarray(tail * (1.0 - 2.0 * np.log(np.clip(tail, 1e-300, 1.0))), dtype=np.float64)


class Mirrored(Pair):
    """A pair that is its own mirror image: both neighbour orders cost the same."""

    def swapped(self) -> Self:
        """The pair itself."""
        return self


class OnBase(Pair):
    """A pair whose cells are made of cells of a `base` pair, with their accuracy."""

    base: Pair

    @property
    def errors(self) -> tuple[float, float]:
        """As for the base."""
        return self.base.errors


@dataclass(frozen=True)
class Swapped(OnBase):
    """(Q, P) for a base pair (P, Q): the loss changes its sign."""

    base: Pair

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Cells of the base at the negated edges, in reverse order.

        L' = -L lies in (a, b] iff L lies in [-b, -a); one step of ``nextafter`` turns that into
        the right-closed cell the base understands, so atoms on edges stay on the promised side.
        """
        P, Q = self.base.cells(np.nextafter(-np.asarray(edges, dtype=np.float64)[::-1], -np.inf))
        return Q[::-1], P[::-1]

    @property
    def support(self) -> Support:
        """The mirror image."""
        low, high, infinite_q, infinite_p = self.base.support
        return Support(-high, -low, infinite_p, infinite_q)

    def swapped(self) -> Pair:
        """The base pair."""
        return self.base

    def refined(self) -> Pair | None:
        """Swap of the refined base."""
        finer = self.base.refined()
        return None if finer is None else finer.swapped()


class LossTable(NamedTuple):
    """Finite atoms (loss, P-mass, Q-mass) and the infinite parts."""

    losses: Floats
    p: Floats
    q: Floats
    infinite_p: float = 0.0
    infinite_q: float = 0.0


class TablePair(Pair):
    """A pair whose loss takes finitely many values, listed by ``table``.  # proof: TABLE"""

    @property
    @abstractmethod
    def table(self) -> LossTable:
        """The atoms; subclasses cache it."""

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Sum the atoms of each right-closed cell; all terms are non-negative."""
        t = self.table
        e = np.asarray(edges, dtype=np.float64)
        where = np.searchsorted(e, t.losses, side="left")
        P, Q = cell_sums(where, t.p, len(e)), cell_sums(where, t.q, len(e))
        P[-1] += t.infinite_p
        Q[0] += t.infinite_q
        return P, Q

    @property
    def support(self) -> Support:
        """The largest loss with mass under P, and the least one with mass under Q."""
        t = self.table
        low = float(t.losses[t.q > 0].min(initial=np.inf))
        high = float(t.losses[t.p > 0].max(initial=-np.inf))
        return Support(low, high, t.infinite_q, t.infinite_p)

    @property
    def errors(self) -> tuple[float, float]:
        """Masses of the table, one rounding for each atom of a sum; no tails that cancel."""
        return 0.0, ROUNDING + 2.0**-52 * len(self.table.losses)


def cell_sums(where: npt.NDArray[np.intp], weights: Floats, edges: int) -> Floats:
    """Sum the weights of each cell between so many edges."""
    return np.asarray(np.bincount(where, weights=weights, minlength=edges + 1), dtype=np.float64)


@dataclass(frozen=True)
class ApproximateDP(Mirrored, TablePair):
    """The four-point pair of Kairouz, Oh and Viswanath.  # proof: KOV-APPROX

    P = (δ, (1-δ)e^ε/(1+e^ε), (1-δ)/(1+e^ε), 0) on losses (+inf, ε, -ε, -inf) and Q its mirror
    image. It dominates every (ε, δ)-private step in both orders, and with δ = 0, randomised
    response, every ε-private one (PURE-RR). ε = 0 is allowed.
    """

    epsilon: float
    delta_mass: float = 0.0

    is_lattice: ClassVar[bool] = True  # composition on the lattice εZ is exact

    def __post_init__(self) -> None:
        if self.epsilon != 0:
            _validate.fields(self, epsilon=_validate.positive)
        _validate.delta(self.delta_mass, "delta_mass")

    @cached_property
    def table(self) -> LossTable:
        """Two finite atoms and two infinite ones."""
        small = math.exp(-self.epsilon)
        rest = 1 - self.delta_mass
        high, low = rest / (1 + small), rest * small / (1 + small)
        losses = np.array([-self.epsilon, self.epsilon])
        mass = float(self.delta_mass)
        return LossTable(losses, np.array([low, high]), np.array([high, low]), mass, mass)

    @property
    def atom_spacing(self) -> float:
        """ε, or any step when ε = 0."""
        return self.epsilon or 1.0


def bends(x: Floats, y: Floats) -> Floats:
    """Return by how much the slope of a convex line grows at each corner but the first."""
    return np.maximum(np.diff(np.append(np.diff(y) / np.diff(x), 0.0)), 0.0)


def lower_hull(x: Floats, y: Floats) -> npt.NDArray[np.intp]:
    """Return which points are corners of the greatest convex line below them; x increases."""
    xs, ys = x.tolist(), y.tolist()  # numbers of Python are faster one by one
    hull: list[int] = []
    for i in range(len(xs)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (ys[b] - ys[a]) * (xs[i] - xs[b]) < (ys[i] - ys[b]) * (xs[b] - xs[a]):
                break
            hull.pop()
        hull.append(i)
    return np.array(hull)
