"""Huber hinge (Chaudhuri, Monteleoni, Sarwate 2011, section 3.4.2): the hinge, rounded at 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.fitting.losses.base import MarginLoss, as_float


@dataclass(frozen=True)
class HuberHinge(MarginLoss):
    """The Huber hinge l = 0 (m > 1+h), (1+h-m)^2 / (4h) (|1-m| <= h), 1-m (m < 1-h).

    l' = -clip((1+h-m)/(2h), 0, 1), l'' = 1/(2h) on |1-m| <= h, else 0. L = 1 (attained for m <=
    1-h), c = 1/(2h) (attained). l' is Lipschitz, so the objective perturbation bijection holds; l''
    jumps, and it is not self-bounded (g -> 0 at m = 1+h).

    Parameters
    ----------
    width : float, default 0.5
        The half-width h > 0 of the rounded kink.

    Examples
    --------
    >>> from noisette.losses import HuberHinge
    >>> HuberHinge(width=0.5).smoothness
    1.0

    """

    width: float = 0.5

    name: ClassVar[str] = "huber_hinge"
    short: ClassVar[str] = "huber"
    kernel: ClassVar[int | None] = 2
    last_iterate: ClassVar[str | None] = "huber_hinge"
    proofs: ClassVar[tuple[str, ...]] = ("CMS11-Huber",)
    decreasing: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0  # proof: CMS11-Huber

    def __post_init__(self) -> None:
        _validate.positive("width", self.width)

    @property
    def smoothing(self) -> float:
        """The half-width of the rounded kink."""
        return self.width

    @classmethod
    def examples(cls) -> tuple[HuberHinge, ...]:
        """Default, narrow, and so wide that 0 lies in the quadratic part."""
        return (cls(), cls(width=0.01), cls(width=2.0))

    @property
    def smoothness(self) -> float:
        """Largest second derivative."""
        return 1.0 / (2.0 * self.width)  # proof: CMS11-Huber

    @property
    def value_at_zero(self) -> float:
        """l(0): 1, or (1+h)^2/(4h) when h >= 1."""
        return float(self.value(0.0))

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where l'' jumps."""
        return 1.0 - self.width, 1.0 + self.width

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...]:
        """l(m) = max over a in [0, 1] of a (1 - m) - h (a - 1/2)^2, plus h/4."""
        return y, 0.0, 1.0, 2.0 * self.width, 0.5, 1.0

    def rounding(self, score: float) -> float:
        """Inside the band |m| <= 1+h, so (1+h-m) errs by 3u(1+h), then two more roundings."""
        return 4.0 + 3.0 * (1.0 + self.width) / self.width

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """H g^2 + max(0, 1-h-m), the three cases in one, and -g = -clip((1+h-m)/(2h), 0, 1)."""
        m = as_float(t)
        h = m.dtype.type(self.width)
        g = np.clip((1 + h - m) / (2 * h), 0, 1)
        return h * g**2 + np.maximum(1 - h - m, 0), -g

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """1/(2h) on the band, else 0."""
        m = as_float(t)
        h = m.dtype.type(self.width)
        return (np.abs(1 - m) <= h) / (2 * h)
