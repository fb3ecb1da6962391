"""One-dimensional Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import Pair


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Lap(1) against Lap(1) shifted by ε0 = sensitivity / scale.  # proof: LAPLACE-1D

    P(L <= ℓ) = e^{(ℓ-ε0)/2}/2 for -ε0 <= ℓ < ε0, atoms P(L=ε0) = 1/2, P(L=-ε0) = e^{-ε0}/2; the
    pair is symmetric. Interior masses are products, so no tail loses accuracy.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon))

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Interior density e^{(ℓ-ε0)/2}/4 under P plus the two atoms."""
        e = np.asarray(edges, dtype=np.float64)
        top = self.epsilon
        knots = np.clip(np.concatenate(([-top], e, [top])), -top, top)
        a, b = knots[:-1], knots[1:]
        share = -0.5 * np.expm1((a - b) / 2)
        P = np.exp((b - top) / 2) * share
        Q = np.exp(-(a + top) / 2) * share
        small = 0.5 * math.exp(-top)
        low, high = (int(i) for i in np.searchsorted(e, [-top, top], side="left"))
        P[low] += small
        Q[low] += 0.5
        P[high] += 0.5
        Q[high] += small
        return P, Q

    @property
    def max_loss(self) -> float:
        """ε0."""
        return self.epsilon

    @property
    def min_loss(self) -> float:
        """-ε0."""
        return -self.epsilon

    @property
    def atom_spacing(self) -> float:
        """Both atoms are multiples of ε0."""
        return self.epsilon

    @property
    def tail_error(self) -> float:
        """Cells are products and sums of positive numbers."""
        return 0.0

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
