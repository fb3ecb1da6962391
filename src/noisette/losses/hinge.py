"""Hinge loss: the linear SVM. Allowed for output perturbation only (section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.losses.base import MarginLoss, as_float


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """l(m) = max(0, 1 - m), l' = -1 for m < 1 and 0 for m >= 1 (a subgradient at the kink).

    L = 1 (attained), c = inf: the derivative jumps, so no theorem that needs a Hessian applies;
    ``second_derivative`` is 0 off the kink and carries no information there.
    """

    name: ClassVar[str] = "hinge"
    kernel: ClassVar[int | None] = 1
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-HINGE",)
    decreasing: ClassVar[bool] = True

    @classmethod
    def examples(cls) -> tuple[Hinge, ...]:
        """The only instance."""
        return (cls(),)

    @property
    def lipschitz(self) -> float:
        """Largest slope."""
        return 1.0  # proof: LOSS-HINGE

    @property
    def smoothness(self) -> float:
        """Not smooth."""
        return float("inf")  # proof: LOSS-HINGE

    @property
    def initial_curvature(self) -> float:
        """Scale of the smoothed hinge a solver starts from."""
        return 1.0

    @property
    def value_at_zero(self) -> float:
        """l(0) = 1."""
        return 1.0

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where l' jumps."""
        return (1.0,)

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...]:
        """l(m) = max over a in [0, 1] of a (1 - m)."""
        return y, 0.0, 1.0, 0.0, 0.0, 1.0

    def rounding(self, score: float) -> float:
        """The derivative of a float margin is exact."""
        return 0.0

    def value(self, t: npt.ArrayLike) -> AnyFloats:
        """max(0, 1 - m)."""
        return np.maximum(1 - as_float(t), 0)

    def derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """-1 where m < 1, else 0."""
        m = as_float(t)
        return -(m < 1).astype(m.dtype)

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """0 (off the kink)."""
        return np.zeros_like(as_float(t))
