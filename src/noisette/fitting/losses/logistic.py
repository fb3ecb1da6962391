"""Logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.fitting.losses.base import MarginLoss, as_float


def softplus_parts(t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats, AnyFloats]:
    """(log(1+e^t), sigma(t), sigma(t) sigma(-t)) from the one exponential e = exp(-|t|) <= 1.

    log(1+e^t) = max(t,0) + log1p(e); sigma(t) = 1/(1+e) or e/(1+e); the product is e/(1+e)^2.
    No step can overflow, and each has a relative error of a few units in the last place.
    """
    t = as_float(t)
    with np.errstate(under="ignore"):
        e = np.exp(-np.abs(t))
        denominator = 1 + e
        sigmoid = np.where(t >= 0, 1, e) / denominator
        return np.maximum(t, 0) + np.log1p(e), sigmoid, (e / denominator) / denominator


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """The logistic loss l(m) = log(1 + e^-m), with l' = -g, g = sigma(-m), l'' = g (1 - g).

    L = 1 (approached as m -> -inf), c = 1/4 (attained at m = 0), self_bounded = 1 (equality),
    |l'''| = g(1-g)|1-2g| <= l''. l(0) = log 2.

    Examples
    --------
    >>> from noisette.losses import Logistic
    >>> Logistic().derivative([0.0]).tolist(), Logistic().smoothness
    ([-0.5], 0.25)

    """

    name: ClassVar[str] = "logistic"
    gives_probabilities: ClassVar[bool] = True
    kernel: ClassVar[int | None] = 0
    last_iterate: ClassVar[str | None] = "logistic"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-LOGISTIC",)
    decreasing: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0  # proof: LOSS-LOGISTIC
    smoothness: ClassVar[float] = 0.25  # proof: LOSS-LOGISTIC
    initial_curvature: ClassVar[float] = 0.25
    self_bounded: ClassVar[float] = 1.0  # proof: LOSS-LOGISTIC
    self_concordance: ClassVar[float] = 1.0  # proof: LOSS-LOGISTIC
    value_at_zero: ClassVar[float] = float(np.log(2.0))

    @classmethod
    def examples(cls) -> tuple[Logistic, ...]:
        """The only instance."""
        return (cls(),)

    def rounding(self, score: float) -> float:
        """Exponential, sum, quotient: at most 4 roundings of a number below 1."""
        return 8.0

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """sigma(m) sigma(-m)."""
        return softplus_parts(t)[2]

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """log(1 + e^-m) and -sigma(-m) from one exponential: the solvers' hot loop."""
        t = np.asarray(t)
        with np.errstate(under="ignore"):
            e = np.exp(-np.abs(t))
        value = np.log1p(e)
        value -= np.minimum(t, 0)
        # g = e/(1+e) for m >= 0, else 1/(1+e)
        return value, np.where(t < 0, -1, -e) / (1 + e)
