"""Poisson's loss for counts, which goes on as a line where the mean would exceed its limit.

It is not in ``LOSSES``: no solver is proven to end for it (its second derivative jumps at 0, and it
is not piecewise quadratic), so nothing that solves may take it. Gradient descent makes a public
number of steps and needs no solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.errors import InvalidParameter
from noisette.fitting.losses.base import Kind, Loss


@dataclass(frozen=True)
class PoissonCounts(Loss):
    """Poisson's loss l(s, y) = e^s - y s up to s = 0, and 1 + s - y s beyond; y in [0, 1].

    y is a count divided by its limit, e^s the mean in the same unit, which stays at most 1. The
    slope e^min(s, 0) - y lies in [-1, 1], the second derivative is e^s up to 0 and 0 beyond:
    convex, L = c = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.losses import PoissonCounts
    >>> losses, slopes = PoissonCounts().at_scores(np.array([0.0, 5.0]), np.array([0.0, 1.0]))
    >>> losses.tolist(), slopes.tolist()
    ([1.0, 1.0], [1.0, 0.0])

    """

    name: ClassVar[str] = "poisson"
    kind: ClassVar[Kind] = "regression"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-POISSON",)
    lipschitz: ClassVar[float] = 1.0  # proof: LOSS-POISSON
    smoothness: ClassVar[float] = 1.0  # proof: LOSS-POISSON
    value_at_zero: ClassVar[float] = 1.0

    @classmethod
    def examples(cls) -> tuple[PoissonCounts, ...]:
        """Return the only one."""
        return (cls(),)

    def rounding(self, score: float) -> float:
        """One exponential of a number up to 0, one difference."""
        return 4.0

    def targets(self, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Counts divided by their limit, as float64."""
        target = np.asarray(y, dtype=np.float64)
        if target.ndim != 1 or not bool(np.all((target >= 0.0) & (target <= 1.0))):
            raise InvalidParameter("y must be a vector of numbers in [0, 1]: cut the counts first.")
        return target

    def at_scores(self, scores: AnyFloats, y: npt.NDArray[Any]) -> tuple[AnyFloats, AnyFloats]:
        """Return (e^s - y s, e^s - y), the line beyond 0."""
        mean = np.exp(np.minimum(scores, 0.0))
        return mean + np.maximum(scores, 0.0) - y * scores, mean - y

    def curvature(self, scores: AnyFloats, y: npt.NDArray[Any], direction: AnyFloats) -> AnyFloats:
        """Return e^s direction up to 0, 0 beyond."""
        return np.where(scores <= 0.0, np.exp(np.minimum(scores, 0.0)), 0.0) * direction
