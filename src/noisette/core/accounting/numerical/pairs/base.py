"""What the engine asks of one step: the masses of its privacy loss in any cells.

Notation: a *pair* (P, Q) dominates one step in ONE neighbour order when
H_γ(P||Q) = ∫(P - γQ)_+ is at least the hockey-stick divergence of the two output laws for every
γ > 0. L = log dP/dQ is the privacy loss; δ(ε) = H_{e^ε}.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette._typing import Floats

ROUNDING = 2.0**-50  # allowance for the relative error of one special-function value
LARGEST_LOSS = 690.0  # e^690 is still a finite double; larger losses are charged as infinite


class Pair(ABC):
    """A dominating pair (P, Q) of one step, in one neighbour order.

    Subclasses are frozen dataclasses, so two pairs with the same parameters are equal and share
    cached work. All of them keep this contract:

    * ``cells(edges)`` with k increasing edges returns two arrays of length k + 1: the masses under
      P and under Q of the events L ∈ (-inf, e0], (e0, e1], ..., (e_{k-1}, inf). Cells are
      right-closed. P-mass at L = +inf is in the last cell of P, Q-mass at L = -inf in the first
      cell of Q, so both arrays sum to one. Both tails have relative, not only absolute, accuracy.
    * ``infinite_p`` = P(L = +inf), ``infinite_q`` = Q(L = -inf).
    """

    @abstractmethod
    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Masses under P and under Q of the loss cells cut by ``edges``."""

    @property
    def infinite_p(self) -> float:
        """P-mass of infinite loss."""
        return 0.0

    @property
    def infinite_q(self) -> float:
        """Q-mass of loss minus infinity."""
        return 0.0

    @property
    def max_loss(self) -> float:
        """Supremum of the finite losses (``inf`` when unbounded)."""
        return math.inf

    @property
    def min_loss(self) -> float:
        """Infimum of the finite losses (``-inf`` when unbounded)."""
        return -math.inf

    @property
    def atom_spacing(self) -> float | None:
        """A step a such that the atoms of L lie on multiples of a, or None."""
        return None

    @property
    def pinned(self) -> bool:
        """True when a lattice should go through 0, because atoms sit at or around it."""
        return self.atom_spacing is not None

    @property
    def is_lattice(self) -> bool:
        """True when *all* of the finite loss lies on multiples of ``atom_spacing``."""
        return False

    @property
    def tail_error(self) -> float:
        """Bound on |error of a cell mass| / `conditioned` smaller tail mass next to the cell."""
        return ROUNDING

    @property
    def cell_error(self) -> float:
        """Bound on |error of a cell mass| / (cell mass)."""
        return ROUNDING

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence of this one step: P(L > ε) - e^ε Q(L > ε), for 0 <= ε."""
        if epsilon > LARGEST_LOSS:
            # monotone in ε, so the value at the cap is still an upper bound
            epsilon = LARGEST_LOSS
        P, Q = self.cells(np.array([epsilon]))
        return float(P[-1] - math.exp(epsilon) * Q[-1])

    def delta_error(self, epsilon: float) -> float:
        """Bound on the rounding error of ``delta(epsilon)``."""
        P, Q = self.cells(np.array([min(epsilon, LARGEST_LOSS)]))
        p, q = P[-1:], Q[-1:]
        error_p = self.tail_error * conditioned(p) + self.cell_error * p
        error_q = self.tail_error * conditioned(q) + self.cell_error * q
        return float(error_p[0] + math.exp(min(epsilon, LARGEST_LOSS)) * error_q[0])

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


class OnBase(Pair):
    """A pair whose cells are made of cells of a `base` pair, with their accuracy."""

    base: Pair

    @property
    def tail_error(self) -> float:
        """As for the base."""
        return self.base.tail_error

    @property
    def cell_error(self) -> float:
        """As for the base."""
        return self.base.cell_error


@dataclass(frozen=True)
class Swapped(OnBase):
    """(Q, P) for a base pair (P, Q): the loss changes its sign."""

    base: Pair

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Cells of the base at the negated edges, in reverse order.

        L' = -L lies in (a, b] iff L lies in [-b, -a); one step of ``nextafter`` turns that into
        the right-closed cell the base understands, so atoms on edges stay on the promised side.
        """
        e = np.asarray(edges, dtype=np.float64)
        P, Q = self.base.cells(np.nextafter(-e[::-1], -np.inf))
        return Q[::-1], P[::-1]

    @property
    def infinite_p(self) -> float:
        """Q-mass of the base at loss minus infinity."""
        return self.base.infinite_q

    @property
    def infinite_q(self) -> float:
        """P-mass of the base at infinite loss."""
        return self.base.infinite_p

    @property
    def max_loss(self) -> float:
        """Supremum of -L over the base."""
        return -self.base.min_loss

    @property
    def min_loss(self) -> float:
        """Infimum of the loss."""
        return -self.base.max_loss

    def swapped(self) -> Pair:
        """The base pair."""
        return self.base

    def refined(self) -> Pair | None:
        """Swap of the refined base."""
        finer = self.base.refined()
        return None if finer is None else finer.swapped()
