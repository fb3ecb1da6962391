"""One-dimensional Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Complexes, Floats
from noisette.accounting.numerical.pairs.base import Pair


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Lap(1) against Lap(1) shifted by ε0 = sensitivity / scale.  # proof: LAPLACE-1D

    P(L <= ℓ) = e^{(ℓ-ε0)/2}/2 for -ε0 <= ℓ < ε0, atoms P(L=ε0) = 1/2, P(L=-ε0) = e^{-ε0}/2; the
    pair is symmetric. Interior masses are products, so no tail loses accuracy.
    """

    epsilon: float
    has_log_moment = True

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

    def log_moment(self, s: Any) -> Complexes:
        """log[ (s+1)/(2s+1) e^{sε0} + s/(2s+1) e^{-(s+1)ε0} ], by continuity at s = -1/2."""
        z = np.asarray(s, dtype=np.complex128)
        z = np.where(np.abs(2 * z + 1) < 1e-9, -0.5 + 1e-9, z)
        top = np.maximum((z * self.epsilon).real, (-(z + 1) * self.epsilon).real)
        first = (z + 1) * np.exp(z * self.epsilon - top)
        second = z * np.exp(-(z + 1) * self.epsilon - top)
        return np.asarray(top + np.log((first + second) / (2 * z + 1)), dtype=np.complex128)

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
