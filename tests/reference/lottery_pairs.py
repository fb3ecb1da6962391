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
from noisette.core.accounting.numerical.pairs import Mirrored, OnBase, Pair
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
    def infinite_p(self) -> float:
        """Weighted infinite masses plus the missing weight."""
        parts = zip(self.weights, self.pairs, strict=True)
        return self._missing + sum(w * pair.infinite_p for w, pair in parts)

    @property
    def infinite_q(self) -> float:
        """Weighted infinite masses plus the missing weight."""
        parts = zip(self.weights, self.pairs, strict=True)
        return self._missing + sum(w * pair.infinite_q for w, pair in parts)

    @property
    def max_loss(self) -> float:
        """Largest over the labels."""
        return max(pair.max_loss for pair in self.pairs)

    @property
    def min_loss(self) -> float:
        """Smallest over the labels."""
        return min(pair.min_loss for pair in self.pairs)

    @property
    def tail_error(self) -> float:
        """Worst over the labels."""
        return max(pair.tail_error for pair in self.pairs)

    @property
    def cell_error(self) -> float:
        """Worst over the labels."""
        return max(pair.cell_error for pair in self.pairs)

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
    def infinite_p(self) -> float:
        """Weight of the labels that were cut."""
        return self.base.infinite_p

    @property
    def infinite_q(self) -> float:
        """Weight of the labels that were cut."""
        return self.base.infinite_q

    @property
    def cell_error(self) -> float:
        """Binomial weights by ``gammaln`` have about 1e-12 relative accuracy."""
        return self.base.cell_error + 1e-15 * math.sqrt(self.draws + 10) + 1e-13
