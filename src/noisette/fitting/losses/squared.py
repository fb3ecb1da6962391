"""Squared error: not Lipschitz, so it carries no sensitivity by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.fitting.losses.base import RegressionLoss, as_float


@dataclass(frozen=True)
class Squared(RegressionLoss):
    """Half the squared error, l(r) = r^2 / 2, r = s - y, with l' = r, l'' = 1.

    L = inf: the slope grows with w, so output and objective perturbation have no finite sensitivity
    for it. Use ``Huber`` (the residual's derivative clipped) for those.

    Parameters
    ----------
    target_bound : float, default 1.0
        No target is larger in size.

    Examples
    --------
    >>> from noisette.losses import Squared
    >>> Squared().value([3.0]).tolist(), Squared().lipschitz
    ([4.5], inf)

    """

    target_bound: float = 1.0

    name: ClassVar[str] = "squared"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-SQUARED",)
    lipschitz: ClassVar[float] = math.inf  # proof: LOSS-SQUARED
    smoothness: ClassVar[float] = 1.0  # proof: LOSS-SQUARED
    self_concordance: ClassVar[float] = 0.0  # proof: LOSS-SQUARED

    def __post_init__(self) -> None:
        _validate.positive("target_bound", self.target_bound)

    @classmethod
    def examples(cls) -> tuple[Squared, ...]:
        """Two target bounds."""
        return (cls(), cls(target_bound=5.0))

    @property
    def value_at_zero(self) -> float:
        """y^2/2 at the largest target."""
        return self.target_bound**2 / 2.0

    def derivative_bound(self, score: float) -> float:
        """|s - y| <= |s| + target_bound."""
        return score + self.target_bound

    def rounding(self, score: float) -> float:
        """One subtraction."""
        return score + self.target_bound

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """r^2 / 2, and the residual r itself."""
        r = as_float(t)
        return r * r / 2, r.copy()

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """1."""
        return np.ones_like(as_float(t))
