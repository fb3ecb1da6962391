"""Pairs given as an explicit table of losses and masses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import ROUNDING, Pair
from noisette.errors import InvalidParameter


class LossTable(NamedTuple):
    """Finite atoms (loss, P-mass, Q-mass) and the infinite parts."""

    losses: Floats
    p: Floats
    q: Floats
    infinite_p: float = 0.0
    infinite_q: float = 0.0


class TablePair(Pair):
    """A pair whose loss takes finitely many values, listed by ``table``."""

    @property
    @abstractmethod
    def table(self) -> LossTable:
        """The atoms; subclasses cache it."""

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Sum the atoms of each right-closed cell; all terms are non-negative."""
        t = self.table
        e = np.asarray(edges, dtype=np.float64)
        where = np.searchsorted(e, t.losses, side="left")
        P = np.asarray(np.bincount(where, weights=t.p, minlength=len(e) + 1), dtype=np.float64)
        Q = np.asarray(np.bincount(where, weights=t.q, minlength=len(e) + 1), dtype=np.float64)
        P[-1] += t.infinite_p
        Q[0] += t.infinite_q
        return P, Q

    @property
    def infinite_p(self) -> float:
        """P-mass of infinite loss."""
        return self.table.infinite_p

    @property
    def infinite_q(self) -> float:
        """Q-mass of loss minus infinity."""
        return self.table.infinite_q

    @property
    def max_loss(self) -> float:
        """Largest loss with mass under P."""
        t = self.table
        return float(t.losses[t.p > 0].max(initial=-np.inf))

    @property
    def min_loss(self) -> float:
        """Smallest loss with mass under Q."""
        t = self.table
        return float(t.losses[t.q > 0].min(initial=np.inf))

    @property
    def tail_error(self) -> float:
        """Cells are plain sums of the table: no cancellation between tails."""
        return 0.0

    @property
    def cell_error(self) -> float:
        """Masses of the table, and one rounding for each atom of a sum."""
        return ROUNDING + 2.0**-52 * len(self.table.losses)


@dataclass(frozen=True)
class Discrete(TablePair):
    """Atoms with loss ``losses[i] = log(p[i] / q[i])`` plus infinite parts.  # proof: TABLE

    Parameters
    ----------
    losses, p, q : iterables of equal length
        Finite losses (any order, repeats allowed) and their masses under P and Q. They must obey
        p = e^loss q to 1e-9 relative.
    infinite_mass_p, infinite_mass_q : float
        P-mass at L = +inf and Q-mass at L = -inf. Each side sums to one (to 1e-9).

    """

    losses: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    infinite_mass_p: float = 0.0
    infinite_mass_q: float = 0.0

    def __post_init__(self) -> None:
        for name in ("losses", "p", "q"):
            values: Iterable[float] = getattr(self, name)
            object.__setattr__(self, name, tuple(float(v) for v in values))
        if not (len(self.losses) == len(self.p) == len(self.q)):
            raise InvalidParameter("losses, p and q must have the same length.")
        losses, p, q, ip, iq = self.table
        masses = np.concatenate((p, q, [ip, iq]))
        if not np.isfinite(losses).all() or not (masses >= 0).all():
            raise InvalidParameter("losses must be finite and masses non-negative.")
        totals = (p.sum() + ip, q.sum() + iq)
        if max(abs(totals[0] - 1), abs(totals[1] - 1)) > 1e-9:
            raise InvalidParameter(
                f"P and Q must each sum to 1; got {totals[0]!r} and {totals[1]!r}."
            )
        visible = (p > 1e-290) & (q > 1e-290)
        gap = np.abs(np.log(p[visible]) - np.log(q[visible]) - losses[visible])
        if (gap > 1e-9).any() or (p[~visible] > 1e-280).any() or (q[~visible] > 1e-280).any():
            raise InvalidParameter("Every atom must satisfy loss = log(p / q).")

    @cached_property
    def table(self) -> LossTable:
        """The fields as arrays."""
        return LossTable(
            np.array(self.losses, dtype=np.float64),
            np.array(self.p, dtype=np.float64),
            np.array(self.q, dtype=np.float64),
            float(self.infinite_mass_p),
            float(self.infinite_mass_q),
        )

    def swapped(self) -> Pair:
        """The table with the roles of p and q exchanged."""
        return Discrete(
            tuple(-x for x in self.losses),
            self.q,
            self.p,
            self.infinite_mass_q,
            self.infinite_mass_p,
        )
