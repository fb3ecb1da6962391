"""Log-cosh regression loss: Huber's loss with all derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.losses.base import RegressionLoss, as_float


@dataclass(frozen=True)
class LogCosh(RegressionLoss):
    """The loss l(r) = log cosh r, r = s - y, with l' = tanh r, l'' = 1 - tanh^2 r.

    L = 1 (approached), c = 1 (attained at 0), |l'''| = 2|tanh r| l'' <= 2 l''. Two-signed.

    Parameters
    ----------
    target_bound : float, default 1.0
        No target is larger in size.

    Examples
    --------
    >>> from noisette.losses import LogCosh
    >>> LogCosh().value([0.0]).tolist(), LogCosh().lipschitz
    ([0.0], 1.0)

    """

    target_bound: float = 1.0

    name: ClassVar[str] = "log_cosh"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-LOGCOSH",)
    lipschitz: ClassVar[float] = 1.0  # proof: LOSS-LOGCOSH
    smoothness: ClassVar[float] = 1.0  # proof: LOSS-LOGCOSH
    self_concordance: ClassVar[float] = 2.0  # proof: LOSS-LOGCOSH

    def __post_init__(self) -> None:
        _validate.positive("target_bound", self.target_bound)

    @classmethod
    def examples(cls) -> tuple[LogCosh, ...]:
        """Two target bounds."""
        return (cls(), cls(target_bound=4.0))

    @property
    def value_at_zero(self) -> float:
        """Loss of the largest target."""
        return float(self.value(self.target_bound))

    def rounding(self, score: float) -> float:
        """One subtraction, seen through a slope of at most 1, and the tanh."""
        return 6.0 + score + self.target_bound

    def value(self, t: npt.ArrayLike) -> AnyFloats:
        """log1p(2 sinh^2(r/2)) for |r| < 1, else |r| + log1p(e^{-2|r|}) - log 2.

        The first form keeps relative accuracy near 0, the second cannot overflow.
        """
        r = np.abs(as_float(t))
        with np.errstate(under="ignore"):
            near = np.log1p(2 * np.sinh(np.minimum(r, 1) / 2) ** 2)
            far = r + np.log1p(np.exp(-2 * r)) - r.dtype.type(np.log(2.0))
        return np.asarray(np.where(r < 1, near, far), dtype=r.dtype)

    def derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """The hyperbolic tangent of r."""
        return np.tanh(as_float(t))

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """4e/(1+e)^2 with e = exp(-2|r|): relative accuracy where 1 - tanh^2 cancels."""
        r = np.abs(as_float(t))
        with np.errstate(under="ignore"):
            e = np.exp(-2 * r)
            return np.asarray(4 * e / (1 + e) ** 2)
