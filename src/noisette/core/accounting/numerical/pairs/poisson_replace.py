"""Poisson-sampled Gaussian under replace-one adjacency."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import ROUNDING, Pair
from noisette.core.accounting.numerical.pairs.gaussian import gaussian_cells


@dataclass(frozen=True)
class PoissonReplace(Pair):
    """P = (1-q)N(0)+qN(1), Q = (1-q)N(0)+qN(-1), standard deviation z.  # proof: POISSON-R

    ``noise_multiplier`` z = σ/C with every record's vector in the ball of radius C. The loss is
    odd and increasing in x: x/z² = ℓ/2 + asinh((1-q) sinh(ℓ/2) / a), a = q e^{-1/(2z²)}.
    """

    rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _validate.rate("rate", self.rate))
        z = _validate.positive("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", z)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Gaussian cells at the preimages of the edges."""
        e = np.asarray(edges, dtype=np.float64)
        q, z = self.rate, self.noise_multiplier
        x = z * self._position(e)
        centre = gaussian_cells(x)
        P = (1 - q) * centre + q * gaussian_cells(x - 1 / z)
        Q = (1 - q) * centre + q * gaussian_cells(x + 1 / z)
        return P, Q

    @property
    def tail_error(self) -> float:
        """e^{1/(2z²)} in the preimage of an edge is as accurate as its exponent."""
        return ROUNDING * (2 + min(1 / self.noise_multiplier**2, 50.0))

    def _position(self, losses: Floats) -> Floats:
        """x/z² for a loss, in the log domain where the argument of asinh is large."""
        q, z = self.rate, self.noise_multiplier
        half = np.abs(losses) / 2
        if q == 1:
            return np.asarray(losses / 2, dtype=np.float64)
        # log of v = (1-q) sinh(|ℓ|/2) / a; asinh(v) = log(2v) + O(v^-2) when v is large
        sinh = np.sinh(np.minimum(half, 21.0))
        with np.errstate(divide="ignore"):
            log_sinh = np.where(half > 20, half - math.log(2), np.log(sinh))
        log_v = math.log1p(-q) - math.log(q) + 1 / (2 * z * z) + log_sinh
        # exp(log_v) has the errors of the logarithms, many roundings for tiny ℓ: a product there.
        grown = min(math.exp(min(1 / (2 * z * z), 700.0)) * ((1 - q) / q), 1e290)
        v = np.where(half > 20, np.exp(np.minimum(log_v, 25.0)), grown * sinh)
        small = np.arcsinh(np.minimum(v, 1e12))
        value = half + np.where(log_v > 20, log_v + math.log(2), small)
        return np.asarray(np.copysign(value, losses), dtype=np.float64)

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
