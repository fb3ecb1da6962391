"""Pairs that no sampler of the package needs: a public lottery, and draws with replacement.

They keep the contract of ``Pair`` and check the engine where a base is no single noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import Mirrored, OnBase, Pair, Support
from noisette.core.accounting.numerical.sampled_pairs import SymmetrisedSample
from noisette.errors import InvalidParameter


@dataclass(frozen=True)
class Labelled(Pair):
    """Draw k with probability weights[k], reveal k, run pairs[k].  # proof: LABEL

    H_γ = Σ_k weights[k] H_γ(pairs[k]). Weight that is missing to 1 has infinite loss on both
    sides (it is the certified way to cut a long tail of labels).
    """

    weights: tuple[float, ...]
    pairs: tuple[Pair, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if len(self.weights) != len(self.pairs) or not self.pairs:
            raise InvalidParameter("weights and pairs must have the same length, at least 1.")
        if min(self.weights) < 0 or sum(self.weights) > 1 + 1e-9:
            raise InvalidParameter("weights must be non-negative and sum to at most 1.")

    @property
    def _missing(self) -> float:
        missing = 1.0 - sum(self.weights)
        return missing if missing > 1e-15 else 0.0

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Weighted sums of the cells; missing weight at the two infinite ends."""
        e = np.asarray(edges, dtype=np.float64)
        P, Q = np.zeros(len(e) + 1), np.zeros(len(e) + 1)
        for weight, pair in zip(self.weights, self.pairs, strict=True):
            p, q = pair.cells(e)
            P += weight * p
            Q += weight * q
        P[-1] += self._missing
        Q[0] += self._missing
        return P, Q

    @property
    def support(self) -> Support:
        """All labels together; infinite masses are weighted, with the missing weight."""
        found = [pair.support for pair in self.pairs]
        infinite_q, infinite_p = (
            self._missing + sum(w * each[k] for w, each in zip(self.weights, found, strict=True))
            for k in (2, 3)
        )
        low, high = min(each.min_loss for each in found), max(each.max_loss for each in found)
        return Support(low, high, infinite_q, infinite_p)

    @property
    def errors(self) -> tuple[float, float]:
        """Worst over the labels."""
        tails, cells = zip(*(pair.errors for pair in self.pairs), strict=True)
        return max(tails), max(cells)

    def swapped(self) -> Pair:
        """Swap every label."""
        return Labelled(self.weights, tuple(pair.swapped() for pair in self.pairs))


@dataclass(frozen=True)
class WithReplacement(Mirrored, OnBase):
    """m draws with replacement from n records, noise multiplier z = σ/C.  # proof: WR-R

    δ(ε') = Σ_{k>=1} Bin(m, 1/n)(k) δ_GDP(ε; 2k/z) with ε' = log(1+γ(e^ε-1)),
    γ = 1-(1-1/n)^m: the record sits in k slots, and k may be revealed. This is the symmetrised
    sample at rate γ of the public lottery over k >= 1. Upper bound only.
    """

    draws: int
    population: int
    noise_multiplier: float

    pinned = True

    def __post_init__(self) -> None:
        whole = _validate.integer
        _validate.fields(self, noise_multiplier=_validate.positive, draws=whole, population=whole)

    @cached_property
    def base(self) -> SymmetrisedSample:  # type: ignore[override]
        """The equivalent symmetrised sample."""
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
        return self.base.cells(edges)

    @property
    def support(self) -> Support:
        """Infinite is the weight of the labels that were cut."""
        found = self.base.support
        return Support(infinite_q=found.infinite_q, infinite_p=found.infinite_p)

    @property
    def errors(self) -> tuple[float, float]:
        """Binomial weights by ``gammaln`` have about 1e-12 relative accuracy."""
        tail, cell = self.base.errors
        return tail, cell + 1e-15 * math.sqrt(self.draws + 10) + 1e-13
