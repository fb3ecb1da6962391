"""A public lottery between several pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import Pair
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
