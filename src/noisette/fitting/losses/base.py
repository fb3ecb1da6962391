"""What every loss promises: formulas, public constants and the proof id of each constant.

Notation: a row x (norm at most R), a target y, scores s = w.x (or V x for several classes).

* margin losses      l(m),  m = y s,   y in {-1, +1}
* regression losses  l(r),  r = s - y, |y| <= target_bound
* softmax            l(s, y), s in R^(K-1), y in {0, .., K-1}

Constants (per row; multiply by R as shown):

* ``lipschitz``   L: the gradient in w of one row's loss has norm at most L R
* ``smoothness``  c: the Hessian in w of one row's loss has eigenvalues <= c R^2 (inf: not smooth)
* ``decreasing``: l' <= 0 everywhere (one-signed, as Theorem 4.4 asks)
* ``self_bounded``  s: l'' <= s g (1 - g) with g = |l'| (what Theorem 4.3 asks), or None
* ``self_concordance`` a: |l'''| <= a l'' (Newton's basin does not depend on the data), or None

A loss states each as a class variable, or as a property where it depends on a parameter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.errors import InvalidParameter

Kind = Literal["margin", "regression", "multiclass"]


def as_float(values: npt.ArrayLike) -> AnyFloats:
    """The values as a float32 or float64 array; every other type becomes float64."""
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


class Loss(ABC):
    """One row's loss as a function of its scores; subclasses are frozen dataclasses.

    Examples
    --------
    >>> from noisette.losses import LOSSES, Loss
    >>> loss = LOSSES["logistic"]()
    >>> isinstance(loss, Loss), loss.lipschitz, loss.smoothness, loss.decreasing
    (True, 1.0, 0.25, True)

    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    proofs: ClassVar[tuple[str, ...]]
    convex: ClassVar[bool] = True
    decreasing: ClassVar[bool] = False
    short: ClassVar[str] = ""
    """What users call it; its name where this is empty."""
    gives_probabilities: ClassVar[bool] = False
    """Whether scores become probabilities of the classes."""
    kernel: ClassVar[int | None] = None
    """Its number in the compiled SGD kernels; None runs in NumPy, batch by batch."""
    last_iterate: ClassVar[str | None] = None
    """What LAST-ITERATE calls it; None where that theorem does not cover it."""

    @classmethod
    @abstractmethod
    def examples(cls) -> tuple[Loss, ...]:
        """Return instances that the contract tests run through, at least one."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L, see the module's docstring."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """c, see the module's docstring."""

    @property
    def smoothing(self) -> float | None:
        """The parameter by which a kink is rounded off, None for none."""
        return None

    @property
    def self_bounded(self) -> float | None:
        """s, see the module's docstring."""
        return None

    @property
    def self_concordance(self) -> float | None:
        """a, see the module's docstring."""
        return None

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """Largest loss over y at score 0; bounds the optimum's norm (SOLVER-NORM)."""

    @property
    def initial_curvature(self) -> float:
        """Second derivative that a solver's first model of the Hessian uses: speed only."""
        return self.smoothness

    @property
    def trace(self) -> float:
        """The Hessian of one row's loss has trace at most trace * R^2."""
        return self.smoothness

    def parameter_shape(self, features: int) -> tuple[int, ...]:
        """Return the shape of the parameter for rows of d features: (d,), for softmax (K-1, d)."""
        return (features,)

    def derivative_bound(self, score: float) -> float:
        """Return a proven bound on the norm of the derivative in scores of norm at most `score`."""
        return self.lipschitz

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...] | None:
        """Return (sign, low, high, curve, centre, gain) of a piecewise quadratic loss, else None.

        The loss at score s is max over a in [low, high] of a (gain - sign s) - curve (a -
        centre)^2/2, up to a constant (used by SOLVER-INTERIOR). Each is a number, or one for each
        row; `y` holds the targets, as `targets` returns them, here and below.
        """
        return None

    @abstractmethod
    def rounding(self, score: float) -> float:
        """Bound the norm of the error of ``at_scores``'s derivative, in units of 2^-53.

        It holds for float64 scores of norm at most ``score``, taken as exact inputs. Tested against
        mpmath; the constants leave a factor of two or more.
        """

    @abstractmethod
    def targets(self, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the targets, of shape (n,), as the array ``at_scores`` works with.

        InvalidParameter refuses one that is not in the domain. Its message names the domain and no
        value: targets are sensitive.
        """

    @abstractmethod
    def at_scores(self, scores: AnyFloats, y: npt.NDArray[Any]) -> tuple[AnyFloats, AnyFloats]:
        """Return losses, of shape (n,), and their derivatives in the scores, (n,) or (n, K-1)."""

    @abstractmethod
    def curvature(self, scores: AnyFloats, y: npt.NDArray[Any], direction: AnyFloats) -> AnyFloats:
        """Return the second derivative in the scores applied to ``direction``, shaped like them."""


class ScalarLoss(Loss):
    """A loss l of one real argument t (margin or residual), elementwise on arrays.

    ``value``, ``derivative`` and ``second_derivative`` accept any shape, keep float32 and
    float64, neither overflow nor warn for |t| <= 1e4 (and beyond, up to the type's range).
    """

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where l' or l'' jumps."""
        return ()

    @abstractmethod
    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        """Return the loss l(t) and its derivative l'(t) (a subgradient where l has a kink)."""

    @abstractmethod
    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """Return the second derivative l''(t) (one of the one-sided values at a jump of l')."""

    def value(self, t: npt.ArrayLike) -> AnyFloats:
        """Return the loss l(t)."""
        return self.value_and_derivative(t)[0]

    def derivative(self, t: npt.ArrayLike) -> AnyFloats:
        """Return the derivative l'(t)."""
        return self.value_and_derivative(t)[1]


class MarginLoss(ScalarLoss):
    """A loss l(m) of the margin m = y s, with labels -1 and +1."""

    kind: ClassVar[Kind] = "margin"

    def targets(self, y: npt.ArrayLike) -> AnyFloats:
        """Labels as float64; only -1 and +1 are labels."""
        labels = np.asarray(y, dtype=np.float64)
        if labels.ndim != 1 or not bool(np.all(np.abs(labels) == 1.0)):
            raise InvalidParameter("y must be a vector of the labels -1 and +1.")
        return labels

    def at_scores(self, scores: AnyFloats, y: npt.NDArray[Any]) -> tuple[AnyFloats, AnyFloats]:
        """(l(ys), y l'(ys)); multiplying by +-1 is exact."""
        value, derivative = self.value_and_derivative(y * scores)
        return value, y * derivative

    def curvature(self, scores: AnyFloats, y: npt.NDArray[Any], direction: AnyFloats) -> AnyFloats:
        """The product l''(ys) direction, because y^2 = 1."""
        return self.second_derivative(y * scores) * direction


class RegressionLoss(ScalarLoss):
    """A loss l(r) of the residual r = s - y, with |y| <= target_bound, a public number."""

    kind: ClassVar[Kind] = "regression"
    target_bound: float

    def targets(self, y: npt.ArrayLike) -> AnyFloats:
        """Targets as float64; the caller clips them to the bound first."""
        target = np.asarray(y, dtype=np.float64)
        if target.ndim != 1 or not bool(np.all(np.abs(target) <= self.target_bound)):
            raise InvalidParameter(
                f"y must be a vector of numbers in [-{self.target_bound}, {self.target_bound}] "
                "(target_bound): clip the targets first."
            )
        return target

    def at_scores(self, scores: AnyFloats, y: npt.NDArray[Any]) -> tuple[AnyFloats, AnyFloats]:
        """(l(s - y), l'(s - y))."""
        return self.value_and_derivative(scores - y)

    def curvature(self, scores: AnyFloats, y: npt.NDArray[Any], direction: AnyFloats) -> AnyFloats:
        """The product l''(s - y) direction."""
        return self.second_derivative(scores - y) * direction
