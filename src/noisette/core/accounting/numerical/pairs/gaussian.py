"""The Gaussian pair N(μ, 1) against N(0, 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import ROUNDING, Pair


def gaussian_cells(z: Floats) -> Floats:
    """Standard normal masses of (-inf, z0], (z0, z1], ..., (zk, inf), both tails accurate.

    Differences are taken in the tail that is smaller, so a cell far out on either side keeps its
    relative accuracy. Infinite entries of ``z`` are allowed.
    """
    low, high = ndtr(z), ndtr(-z)
    out = np.empty(len(z) + 1)
    out[0] = low[0]
    out[-1] = high[-1]
    out[1:-1] = np.where(z[1:] > 0, high[:-1] - high[1:], low[1:] - low[:-1])
    return out


@dataclass(frozen=True)
class GaussianPair(Pair):
    """P = N(μ, 1), Q = N(0, 1); L ~ N(μ²/2, μ²) under P.  # proof: GAUSS-EXACT

    ``mu`` = sensitivity / noise standard deviation. δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ).
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _validate.positive("mu", self.mu))

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """L <= ℓ iff x <= ℓ/μ + μ/2 for x ~ Q; under P the same with x - μ."""
        x = np.asarray(edges, dtype=np.float64) / self.mu
        half = self.mu / 2
        return gaussian_cells(x - half), gaussian_cells(x + half)

    def delta(self, epsilon: float) -> float:
        """Exact profile in the log domain, valid for every ε."""
        high, low = self._terms(epsilon)
        return max(high - low, 0.0)

    def delta_error(self, epsilon: float) -> float:
        """Cancellation between the two terms, times the accuracy of ``log_ndtr``."""
        high, low = self._terms(epsilon)
        a = epsilon / self.mu
        return 2 * ROUNDING * (1 + a * a + abs(epsilon)) * (high + low)

    def _terms(self, epsilon: float) -> tuple[float, float]:
        a, half = epsilon / self.mu, self.mu / 2
        high = float(ndtr(half - a))
        return high, min(high, math.exp(min(epsilon + float(log_ndtr(-half - a)), 0.0)))

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
