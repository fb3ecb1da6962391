"""One new entry for each registry, as a contributor would write it: a class and a line.

`python new_entries.py train plan ...` prints the help texts of a library that has them.
"""

import contextlib
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisette._typing import AnyFloats
from noisette.core.mechanisms import MECHANISMS, Gaussian
from noisette.core.sampling import SAMPLERS, Poisson
from noisette.fitting.algorithms import ALGORITHMS, OutputPerturbation
from noisette.fitting.losses import LOSSES
from noisette.fitting.losses.base import MarginLoss, as_float


@dataclass(frozen=True)
class SmoothHinge(MarginLoss):
    """l(m) = 1/2 - m (m < 0), (1 - m)^2 / 2 (0 <= m <= 1), 0 (m > 1): Rennie and Srebro (2005).

    l' = -clip(1 - m, 0, 1), so L = 1 (attained for m <= 0) and c = 1 (attained on [0, 1]).
    """

    name: ClassVar[str] = "smooth-hinge"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-SMOOTH-HINGE",)
    decreasing: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0
    smoothness: ClassVar[float] = 1.0
    value_at_zero: ClassVar[float] = 0.5
    kinks: ClassVar[tuple[float, ...]] = (0.0, 1.0)

    @classmethod
    def examples(cls) -> "tuple[SmoothHinge, ...]":
        return (cls(),)

    def box_dual(self, y: npt.NDArray[Any]) -> tuple[npt.ArrayLike, ...]:
        """l(m) = max over a in [0, 1] of a (1 - m) - a^2 / 2."""
        return y, 0.0, 1.0, 1.0, 0.0, 1.0

    def rounding(self, score: float) -> float:
        """One subtraction whose result matters in [0, 1] only."""
        return 1.0

    def value_and_derivative(self, t: npt.ArrayLike) -> tuple[AnyFloats, AnyFloats]:
        m = as_float(t)
        ramp = np.clip(1 - m, 0, 1)
        return ramp**2 / 2 + np.maximum(-m, 0), -ramp

    def second_derivative(self, t: npt.ArrayLike) -> AnyFloats:
        m = as_float(t)
        return ((m >= 0) & (m <= 1)).astype(m.dtype)


@dataclass(frozen=True)
class Bell(Gaussian):
    """Gaussian noise under another name."""

    name: ClassVar[str] = "bell"


@dataclass(frozen=True)
class Coins(Poisson):
    """Poisson batches under another name."""

    name: ClassVar[str] = "coins"


@dataclass(frozen=True)
class SolveAndHide(OutputPerturbation):
    """Output perturbation under another name."""

    name: ClassVar[str] = "solve-and-hide"
    summary: ClassVar[str] = "solve, then hide the solution"


LINES: tuple[tuple[dict[str, Any], Any], ...] = (
    (LOSSES, SmoothHinge),
    (MECHANISMS, Bell),
    (SAMPLERS, Coins),
    (ALGORITHMS, SolveAndHide),
)

if __name__ == "__main__":
    for registry, kind in LINES:
        registry[kind.name] = kind
    from noisette.app.commands import main

    for command in sys.argv[1:]:
        sys.argv = ["noisette", command, "--help"]
        with contextlib.suppress(SystemExit):
            main()
