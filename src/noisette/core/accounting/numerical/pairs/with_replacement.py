"""Gaussian noise on a batch drawn with replacement, replace-one adjacency."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import Pair
from noisette.core.accounting.numerical.pairs.gaussian import GaussianPair
from noisette.core.accounting.numerical.pairs.labelled import Labelled
from noisette.core.accounting.numerical.pairs.symmetrised import SymmetrisedSample


@dataclass(frozen=True)
class WithReplacement(Pair):
    """m draws with replacement from n records, noise multiplier z = σ/C.  # proof: WR-R

    δ(ε') = Σ_{k>=1} Bin(m, 1/n)(k) δ_GDP(ε; 2k/z) with ε' = log(1+γ(e^ε-1)),
    γ = 1-(1-1/n)^m: the record sits in k slots, and k may be revealed. This is the symmetrised
    sample at rate γ of the public lottery over k >= 1. Upper bound only.
    """

    draws: int
    population: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        z = _validate.positive("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", z)
        for name in ("draws", "population"):
            _validate.integer(name, getattr(self, name))

    @cached_property
    def _pair(self) -> SymmetrisedSample:
        m, n, z = self.draws, self.population, self.noise_multiplier
        if n == 1:
            return SymmetrisedSample(GaussianPair(2 * m / z), 1.0)
        rate = -math.expm1(m * math.log1p(-1 / n))
        k = np.arange(1, min(m, int(20 * m / n) + 200) + 1)
        log_mass = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
        log_mass = log_mass - k * math.log(n) + (m - k) * math.log1p(-1 / n)
        weights = np.exp(log_mass) / rate
        # gammaln loses digits for huge m; the certified reading is "what is missing is infinite"
        weights = weights / max(float(weights.sum()), 1.0)
        seen = np.nonzero(weights > 1e-40)[0]
        last = int(seen[-1]) + 1 if len(seen) else 1
        gaussians = tuple(GaussianPair(2 * int(j) / z) for j in k[:last])
        return SymmetrisedSample(Labelled(tuple(weights[:last]), gaussians), rate)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Of the equivalent symmetrised sample."""
        return self._pair.cells(edges)

    @property
    def infinite_p(self) -> float:
        """Weight of the labels that were cut."""
        return self._pair.infinite_p

    @property
    def infinite_q(self) -> float:
        """Weight of the labels that were cut."""
        return self._pair.infinite_q

    @property
    def pinned(self) -> bool:
        """The atom at 0 must sit on the lattice."""
        return True

    @property
    def tail_error(self) -> float:
        """Of the equivalent symmetrised sample."""
        return self._pair.tail_error

    @property
    def cell_error(self) -> float:
        """Binomial weights by ``gammaln`` have about 1e-12 relative accuracy."""
        return self._pair.cell_error + 1e-15 * math.sqrt(self.draws + 10) + 1e-13

    def swapped(self) -> Pair:
        """The curve is symmetric by construction."""
        return self
