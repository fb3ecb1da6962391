"""The worst pair of all bounded-range mechanisms, for composing exponential mechanisms."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical import Pair
from noisette.core.accounting.numerical.pairs.base import ROUNDING


@dataclass(frozen=True)
class BoundedRange(Pair):
    """The pair with curve (e^{eta/2} - e^{eps/2})^2 / (e^eta - 1) for all |eps| <= eta.

    That curve is the pointwise maximum over all mechanisms of range eta; a maximum of convex
    curves is convex, hence the curve of a pair, which dominates every one of them and composes
    (convolving one fixed two-point law would not). With a = e^{eta/2} the loss has the density
    e^{l/2}/(2 (a - 1/a)) under P and e^{-l/2}/(2 (a - 1/a)) under Q on [-eta, eta]: symmetric.
    """

    # proof: EXPONENTIAL-BR
    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _validate.positive("eta", self.eta))

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Masses e^{b/2} (1 - e^{(a-b)/2}) / (2 sinh(eta/2)) under P, mirrored under Q."""
        e = np.asarray(edges, dtype=np.float64)
        knots = np.clip(np.concatenate(([-self.eta], e, [self.eta])), -self.eta, self.eta)
        a, b = knots[:-1], knots[1:]
        share = np.expm1((a - b) / 2.0) / np.expm1(-self.eta)
        return np.exp((b - self.eta) / 2.0) * share, np.exp(-(a + self.eta) / 2.0) * share

    @property
    def max_loss(self) -> float:
        """Return eta."""
        return self.eta

    @property
    def min_loss(self) -> float:
        """Return -eta."""
        return -self.eta

    @property
    def tail_error(self) -> float:
        """Cells are products of positive numbers."""
        return 0.0

    @property
    def cell_error(self) -> float:
        """Each exponent of a mass, up to eta in size, is rounded."""
        return ROUNDING * (2.0 + self.eta)

    def swapped(self) -> Pair:
        """Return itself: the pair is symmetric."""
        return self
