"""Fixed-size sampling without replacement, replace-one adjacency."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import OnBase, Pair
from noisette.core.accounting.numerical.pairs.poisson import PoissonSampled
from noisette.errors import InvalidParameter


@dataclass(frozen=True)
class SymmetrisedSample(OnBase):
    """The curve h(γ) = q H_{1+(γ-1)/q}(base), γ >= 1, and its mirror below 1.  # proof: WOR-R

    ``base`` must be symmetric under swapping (the full-batch replace-one pair: Gaussian(2/z) for
    the Gaussian mechanism). Losses above 0 follow ((1-q)Q+qP, Q), losses below 0 its mirror
    image, and the rest 1 - P(L>0) - Q(L>0) is an atom at 0. An upper bound only: the realised
    pair for the lower bound is ``PoissonSampled(base, rate)``.
    """

    base: Pair
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _validate.rate("rate", self.rate))
        if self.base.swapped() != self.base:
            raise InvalidParameter(f"base must be symmetric under swapping; got {self.base!r}.")

    @cached_property
    def _half(self) -> PoissonSampled:
        return PoissonSampled(self.base, self.rate)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Positive cells, mirrored negative cells, and the atom in the cell that holds 0."""
        e = np.asarray(edges, dtype=np.float64)
        split = int(np.searchsorted(e, 0.0, side="left"))  # e[split] is the first edge >= 0
        up = np.concatenate(([0.0], e[split:]))
        # -L in [a, b) must become L in (-b, -a]: one ulp moves the closed end
        down = np.concatenate(([0.0], np.nextafter(-e[:split][::-1], -np.inf)))
        up_p, up_q = self._half.cells(up)
        down_p, down_q = self._half.cells(down)
        atom = max(1.0 - float(up_p[1:].sum() + up_q[1:].sum()), 0.0)
        P = np.concatenate((down_q[:0:-1], up_p[1:]))
        Q = np.concatenate((down_p[:0:-1], up_q[1:]))
        # both halves contribute to the cell around 0: merge the two middle entries
        middle = len(down)
        P = _merge(P, middle, atom)
        Q = _merge(Q, middle, atom)
        return P, Q

    @property
    def infinite_p(self) -> float:
        """As for the sampled base."""
        return self._half.infinite_p

    @property
    def infinite_q(self) -> float:
        """Mirror image."""
        return self._half.infinite_p

    @property
    def max_loss(self) -> float:
        """Of the sampled base."""
        return self._half.max_loss

    @property
    def min_loss(self) -> float:
        """Mirror image."""
        return -self._half.max_loss

    @property
    def pinned(self) -> bool:
        """The atom at 0 must sit on the lattice."""
        return True

    def swapped(self) -> Pair:
        """The curve is symmetric by construction."""
        return self


def _merge(masses: Floats, middle: int, atom: float) -> Floats:
    """Join entries middle-1 and middle (the two sides of 0) and add the atom."""
    out = np.delete(masses, middle)
    out[middle - 1] = masses[middle - 1] + masses[middle] + atom
    return out
