"""Hinge loss: the linear SVM. Allowed for output perturbation only (section 4.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.fitting.losses.base import MarginLoss, as_float


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """The hinge l(m) = max(0, 1 - m), with l' = -1 for m < 1 and 0 for m >= 1.

    At the kink l' is a subgradient. L = 1 (attained), c = inf: the derivative jumps, so no theorem
    that needs a Hessian applies; ``second_derivative`` is 0 off the kink and carries no information
    there.

    Examples
    --------
    >>> from noisette.losses import Hinge
    >>> Hinge().value([0.0, 1.0]).tolist(), Hinge().smoothness
    ([1.0, 0.0], inf)

    """

    name: ClassVar[str] = "hinge"
    kernel: ClassVar[int | None] = 1
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-HINGE",)
    decreasing: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0  # proof: LOSS-HINGE
    smoothness: ClassVar[float] = math.inf  # proof: LOSS-HINGE
    initial_curvature: ClassVar[float] = 1.0  # of the smoothed hinge a solver starts from
    value_at_zero: ClassVar[float] = 1.0
    kinks: ClassVar[tuple[float, ...]] = (1.0,)

    @classmethod
    def examples(cls) -> tuple[Hinge, ...]:
        """The only instance."""
        return (cls(),)

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...]:
        """l(m) = max over a in [0, 1] of a (1 - m)."""
        return y, 0.0, 1.0, 0.0, 0.0, 1.0

    def rounding(self, score: float) -> float:
        """The derivative of a float margin is exact."""
        return 0.0

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """max(0, 1 - m), and -1 where m < 1, else 0."""
        m = as_float(t)
        return np.maximum(1 - m, 0), -(m < 1).astype(m.dtype)

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """0 (off the kink)."""
        return np.zeros_like(as_float(t))
