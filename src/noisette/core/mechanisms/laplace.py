"""The Laplace mechanism: for a single number, and on every entry of a vector of known l1 bound."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.mechanisms import spherical_laplace_curve as curve
from noisette.core.mechanisms.base import (
    AdditiveNoise,
    Checks,
    Mechanism,
    on_grid,
    require_scale,
    smallest_multiplier,
)
from noisette.errors import Unproven


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """Add noise of density exp(-|z| / b) / (2 b), b = noise_multiplier * C, to one number.

    With eps0 = sensitivity / b: pure eps0; delta(eps) = 1 - exp((eps - eps0) / 2) for
    0 <= eps < eps0; log E exp(s * loss) = log[(s + 1)/(2 s + 1) e^{s eps0}
    + s/(2 s + 1) e^{-(s + 1) eps0}]. Vectors belong to `SphericalLaplace`.

    Parameters
    ----------
    noise_multiplier : float
        The scale b in units of C.

    Examples
    --------
    >>> from noisette import mechanisms
    >>> mechanisms.Laplace.calibrated(epsilon=0.5)
    Laplace(noise_multiplier=4.0)
    >>> mechanisms.Laplace.calibrated(epsilon=0.5, adjacency="zero-out")
    Laplace(noise_multiplier=2.0)

    """

    name: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "l2"  # for one number all norms agree
    proof: ClassVar[str] = "LAPLACE-1D"
    spread = math.sqrt(2.0)  # the variance is 2 b^2

    @classmethod
    def calibrated(
        cls, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> "Laplace":
        """Return the least noise for pure epsilon in one use.

        Parameters
        ----------
        epsilon : float
            The epsilon of one use.
        adjacency : Adjacency or str, default "replace-one"
            The neighbouring relation.

        Returns
        -------
        Laplace
            The mechanism with the least noise.

        """
        epsilon = _validate.epsilon(epsilon)
        return cls(smallest_multiplier(Adjacency.of(adjacency).contributions, epsilon))

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return sensitivity / b."""
        return self.shift(adjacency)

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the exact delta(epsilon), any real epsilon, rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        return curve.delta(epsilon, self.shift(adjacency), 1)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the closed form of the class docstring, rounded up."""
        return curve.laplace_log_moment(s, self.shift(adjacency))

    def check_value(self, bounded: Bounded) -> None:
        """Refuse vectors: the proof is for one number."""
        super().check_value(bounded)
        if bounded.dimension != 1:
            raise Unproven(
                f"Laplace noise is for a single number, not for {bounded.dimension}; "
                "use SphericalLaplace for a vector."
            )

    def noise(
        self, count: int, dimension: int, unit: float, generator: np.random.Generator
    ) -> Floats:
        """Return independent Laplace draws, shape (count, 1)."""
        assert dimension == 1
        return generator.laplace(scale=self.noise_multiplier * unit, size=(count, 1))


@dataclass(frozen=True)
class LaplaceVector(Mechanism):
    """Add noise of density exp(-|z| / b) / (2 b) to each entry, b = noise_multiplier * C.

    C = (l1 sensitivity) / contributions, so one use is pure contributions / noise_multiplier, in
    any dimension. Only that is used: the curve is the one of randomised response.

    Parameters
    ----------
    noise_multiplier : float
        The scale b of every entry, in units of C.

    Examples
    --------
    >>> from noisette.adjacency import Adjacency
    >>> from noisette.mechanisms import LaplaceVector
    >>> LaplaceVector(4.0).pure_epsilon(Adjacency.REPLACE_ONE)
    0.5

    """

    noise_multiplier: float

    name: ClassVar[str] = "laplace-vector"
    norm: ClassVar[str] = "l1"
    proof: ClassVar[str] = "LAPLACE-L1"
    checks: ClassVar[Checks] = AdditiveNoise.checks

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return (l1 sensitivity) / b."""
        # proof: LAPLACE-L1
        return adjacency.contributions / self.noise_multiplier

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the curve of randomised response, any real epsilon, rounded up."""
        # proof: PURE-RR
        epsilon = _validate.real("epsilon", epsilon)
        return curve.response_delta(epsilon, self.pure_epsilon(adjacency))

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the moments of randomised response."""
        return curve.response_log_moment(s, self.pure_epsilon(adjacency))

    def check_value(self, bounded: Bounded) -> None:
        """Refuse a noise scale that float64 cannot serve."""
        super().check_value(bounded)
        require_scale(self._scale(bounded))

    def _scale(self, bounded: Bounded) -> float:
        assert bounded.l1 is not None
        return self.noise_multiplier * bounded.l1 / bounded.adjacency.contributions

    def apply(self, bounded: Bounded, unit: float, generator: np.random.Generator) -> Floats:
        """Return value + noise, on a public grid."""
        scale = self._scale(bounded)
        drawn = generator.laplace(scale=scale, size=bounded.value.shape)
        # proof: FLOAT-GRID
        grid = float(2.0 ** (math.floor(math.log2(scale)) - 24))
        return on_grid(bounded.value + drawn, grid)
