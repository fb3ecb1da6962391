"""Randomised response, and with it every purely ε-private step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisette import _validate
from noisette.core.accounting.numerical.pairs.base import Pair
from noisette.core.accounting.numerical.pairs.discrete import LossTable, TablePair


@dataclass(frozen=True)
class RandomizedResponsePair(TablePair):
    """Losses ±ε with P-masses e^ε/(1+e^ε) and 1/(1+e^ε).  # proof: PURE-RR

    It dominates every ε-private mechanism, under the adjacency of that mechanism, in both orders.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon))

    @cached_property
    def table(self) -> LossTable:
        """Two atoms."""
        small = math.exp(-self.epsilon)
        high, low = 1 / (1 + small), small / (1 + small)
        losses = np.array([-self.epsilon, self.epsilon])
        return LossTable(losses, np.array([low, high]), np.array([high, low]))

    @property
    def atom_spacing(self) -> float:
        """Both atoms are multiples of ε."""
        return self.epsilon

    @property
    def is_lattice(self) -> bool:
        """Composition on the lattice εZ is exact."""
        return True

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self
