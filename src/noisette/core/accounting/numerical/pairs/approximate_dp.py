"""A step of which only (ε, δ)-privacy is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisette import _validate
from noisette.core.accounting.numerical.pairs.base import Pair
from noisette.core.accounting.numerical.pairs.discrete import LossTable, TablePair


@dataclass(frozen=True)
class ApproximateDP(TablePair):
    """The four-point pair of Kairouz, Oh and Viswanath.  # proof: KOV-APPROX

    P = (δ, (1-δ)e^ε/(1+e^ε), (1-δ)/(1+e^ε), 0) on losses (+inf, ε, -ε, -inf) and Q its mirror
    image. It dominates every (ε, δ)-private step in both orders. ε = 0 is allowed.
    """

    epsilon: float
    delta_mass: float

    def __post_init__(self) -> None:
        if self.epsilon != 0:
            object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon))
        _validate.delta(self.delta_mass, "delta_mass")

    @cached_property
    def table(self) -> LossTable:
        """Two finite atoms and two infinite ones."""
        small = math.exp(-self.epsilon)
        rest = 1 - self.delta_mass
        high, low = rest / (1 + small), rest * small / (1 + small)
        losses = np.array([-self.epsilon, self.epsilon])
        mass = float(self.delta_mass)
        return LossTable(losses, np.array([low, high]), np.array([high, low]), mass, mass)

    @property
    def atom_spacing(self) -> float:
        """ε, or any step when ε = 0."""
        return self.epsilon or 1.0

    @property
    def is_lattice(self) -> bool:
        """Composition on the lattice εZ is exact."""
        return True

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
