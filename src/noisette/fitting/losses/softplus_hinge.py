"""Softplus hinge: the logistic loss moved to margin 1 and sharpened; a smooth linear SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.fitting.losses.base import MarginLoss, as_float
from noisette.fitting.losses.logistic import softplus_parts


@dataclass(frozen=True)
class SoftplusHinge(MarginLoss):
    """The softplus hinge l(m) = (1/s) log(1 + e^{s(1-m)}): the logistic loss, moved and sharpened.

    l' = -g with g = sigma(s(1-m)), l'' = s g (1 - g); s -> inf is the hinge. L = 1, c = s/4
    (attained at m = 1), self_bounded = s (equality), |l'''| = s^2 g(1-g)|1-2g| <= s l''.

    Parameters
    ----------
    temperature : float, default 4.0
        The sharpness s > 0.

    Examples
    --------
    >>> from noisette.losses import SoftplusHinge
    >>> SoftplusHinge(temperature=4.0).derivative([1.0]).tolist()
    [-0.5]

    """

    temperature: float = 4.0

    name: ClassVar[str] = "softplus_hinge"
    short: ClassVar[str] = "softplus"
    kernel: ClassVar[int | None] = 3
    last_iterate: ClassVar[str | None] = "softplus"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-SOFTPLUS",)
    decreasing: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0  # proof: LOSS-SOFTPLUS

    def __post_init__(self) -> None:
        _validate.positive("temperature", self.temperature)

    @classmethod
    def examples(cls) -> tuple[SoftplusHinge, ...]:
        """Default, flat and sharp."""
        return (cls(), cls(temperature=0.5), cls(temperature=30.0))

    @property
    def smoothness(self) -> float:
        """Maximum of s g (1 - g)."""
        return self.temperature / 4.0  # proof: LOSS-SOFTPLUS

    @property
    def smoothing(self) -> float:
        """The temperature."""
        return self.temperature

    # l'' = s g (1 - g), and s |1 - 2g| <= s
    self_bounded = self_concordance = smoothing  # proof: LOSS-SOFTPLUS

    @property
    def value_at_zero(self) -> float:
        """(1/s) log(1 + e^s)."""
        return float(np.logaddexp(0.0, self.temperature) / self.temperature)

    def rounding(self, score: float) -> float:
        """The argument t = s(1-m) has relative error 3u and |t| g(1-g) < 1/4; then as logistic."""
        return 10.0

    def _argument(self, m: npt.ArrayLike) -> AnyFloats:
        m = as_float(m)
        return m.dtype.type(self.temperature) * (1 - m)

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """The product s g (1 - g)."""
        argument = self._argument(t)
        return argument.dtype.type(self.temperature) * softplus_parts(argument)[2]

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """(1/s) log(1 + e^{s(1-m)}) and -sigma(s(1-m)) from one exponential."""
        argument = self._argument(t)
        value, sigmoid, _ = softplus_parts(argument)
        return value / argument.dtype.type(self.temperature), -sigmoid
