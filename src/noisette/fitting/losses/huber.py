"""Huber's regression loss: squared error whose slope is clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.fitting.losses.base import RegressionLoss, as_float


@dataclass(frozen=True)
class Huber(RegressionLoss):
    """Huber's loss l(r) = r^2/2 (|r| <= t), t|r| - t^2/2 beyond; r = s - y, l' = clip(r, -t, t).

    L = t (attained), c = 1 (attained). Two-signed: ``decreasing`` is False.

    Parameters
    ----------
    threshold : float, default 1.0
        The threshold t > 0.
    target_bound : float, default 1.0
        No target is larger in size.

    Examples
    --------
    >>> from noisette.losses import Huber
    >>> Huber(threshold=1.0).derivative([-3.0, 0.5]).tolist()
    [-1.0, 0.5]

    """

    threshold: float = 1.0
    target_bound: float = 1.0

    name: ClassVar[str] = "huber"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-HUBER",)
    smoothness: ClassVar[float] = 1.0  # proof: LOSS-HUBER

    def __post_init__(self) -> None:
        _validate.positive("threshold", self.threshold)
        _validate.positive("target_bound", self.target_bound)

    @classmethod
    def examples(cls) -> tuple[Huber, ...]:
        """Default and a narrow threshold."""
        return (cls(), cls(threshold=0.1, target_bound=3.0))

    @property
    def lipschitz(self) -> float:
        """The clip."""
        return self.threshold  # proof: LOSS-HUBER

    @property
    def value_at_zero(self) -> float:
        """Loss of the largest target."""
        return float(self.value(self.target_bound))

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where l'' jumps."""
        return -self.threshold, self.threshold

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...]:
        """l(r) = max over |a| <= t of a (y - s) - a^2/2, by the symmetry a -> -a."""
        return 1.0, -self.threshold, self.threshold, 1.0, 0.0, y

    def rounding(self, score: float) -> float:
        """One subtraction; it matters only while |r| <= t, where |s| <= t + target_bound."""
        return 2.0 * min(score + self.target_bound, self.threshold + 2.0 * self.target_bound)

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """q^2/2 + t(|r| - q) with q = min(|r|, t), and clip(r, -t, t)."""
        r = as_float(t)
        size, threshold = np.abs(r), r.dtype.type(self.threshold)
        q = np.minimum(size, threshold)
        return np.asarray(q * q / 2 + threshold * (size - q)), np.clip(r, -threshold, threshold)

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """1 where |r| <= t, else 0."""
        r = as_float(t)
        return (np.abs(r) <= r.dtype.type(self.threshold)).astype(r.dtype)
