"""Golden epsilons of Poisson steps, when a bracket holds one, and pairs given as tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import LossTable, Pair, TablePair
from noisette.core.accounting.numerical.sampled_pairs import PoissonSampled
from noisette.errors import InvalidParameter

POISSON = [
    (0.01, 1.0, 1000, 1e-5, 1.8282367),
    (0.05, 2.0, 2000, 1e-6, 6.1065516),
    (0.001, 0.8, 100_000, 1e-6, 2.9144783),
    (0.3, 5.0, 100_000, 1e-8, 288.461244),
    (0.004, 0.8, 15_000, 1e-5, 4.3794744),
]


def two_orders(*steps):
    """Both neighbour orders of tight steps ``(pair, count)``: the usual argument of a bracket."""
    return [
        [(pair, pair, count) for pair, count in steps],
        [(pair.swapped(), pair.swapped(), count) for pair, count in steps],
    ]


def poisson(rate, z, count):
    return two_orders((PoissonSampled(GaussianPair(1 / z), rate), count))


def holds(bracket, golden, digits=1e-7):
    return bracket.lower <= golden * (1 + digits) and golden * (1 - digits) <= bracket.upper


def reached(bracket, rtol=1e-3):
    """Whether the asked width was met."""
    return bracket.upper - bracket.lower <= max(rtol * bracket.upper, 1e-9)


@dataclass(frozen=True)
class Discrete(TablePair):
    """Atoms with loss ``losses[i] = log(p[i] / q[i])`` plus infinite parts.

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
