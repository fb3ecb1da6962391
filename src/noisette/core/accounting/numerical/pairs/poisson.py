"""Poisson subsampling of any pair (add-remove and zero-out adjacency)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import OnBase, Pair


@dataclass(frozen=True)
class PoissonSampled(OnBase):
    """((1-q)Q + qP, Q) for a base pair (P, Q) and inclusion probability q.  # proof: POISSON-A

    H_γ = q·H_{1+(γ-1)/q}(P||Q) for γ >= 1-q and 1-γ below, so a dominating (dominated) base gives
    a dominating (dominated) sampled pair in both orders; ``swapped()`` is the other order. The
    first argument is the data set that *holds* the record. The new loss is L' = log(1-q+q e^L),
    an increasing function of the old one, so cells are cells of the base at moved edges.
    """

    base: Pair
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _validate.rate("rate", self.rate))

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """L' <= e iff e^L <= y = 1 + (e^e - 1)/q; edges with y < 0 lie below every loss."""
        e = np.asarray(edges, dtype=np.float64)
        q = self.rate
        growth = np.expm1(np.minimum(e, 709.0)) / q
        below = int(np.searchsorted(growth, -1.0, side="left"))
        moved = np.full(len(e) - below, -np.inf)
        alive = growth[below:]
        np.log1p(alive, out=moved, where=alive > -1.0)
        np.copyto(moved, e[below:] - math.log(q), where=e[below:] > 709.0)
        if len(moved):
            P, Q = self.base.cells(moved)
            mixed = (1 - q) * Q + q * P
        else:
            mixed = Q = np.ones(1)
        if below:
            pad = np.zeros(below)
            return np.concatenate((pad, mixed)), np.concatenate((pad, Q))
        return mixed, np.array(Q)

    @property
    def infinite_p(self) -> float:
        """Only P-mass where Q has none stays infinite."""
        return self.rate * self.base.infinite_p

    @property
    def infinite_q(self) -> float:
        """Zero unless the record is always included."""
        return self.base.infinite_q if self.rate == 1 else 0.0

    @property
    def max_loss(self) -> float:
        """log(1 + q(e^max - 1)), the amplified pure bound."""
        top = self.base.max_loss
        if math.isinf(top):
            return math.inf
        return math.log1p(self.rate * math.expm1(top)) if top < 700 else top

    @property
    def min_loss(self) -> float:
        """log(1 - q + q e^min); a loss of minus infinity becomes log(1 - q)."""
        low = self.base.min_loss if self.base.infinite_q == 0 else -math.inf
        if self.rate == 1:
            return self.base.min_loss
        return math.log1p(self.rate * (math.expm1(low) if low > -700 else -1.0))

    def refined(self) -> Pair | None:
        """Sample the refined base."""
        finer = self.base.refined()
        return None if finer is None else PoissonSampled(finer, self.rate)
