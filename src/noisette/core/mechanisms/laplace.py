"""The Laplace mechanism for a single number."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.mechanisms import spherical_laplace_curve as curve
from noisette.core.mechanisms.base import AdditiveNoise, smallest_multiplier
from noisette.core.mechanisms.pure_moments import laplace_log_moment
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

    def __post_init__(self) -> None:
        z = _validate.positive("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", z)

    @classmethod
    def calibrated(
        cls, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> "Laplace":
        """Return the least noise for pure epsilon in one use.

        Parameters
        ----------
        epsilon : float
            The target.
        adjacency : Adjacency or str, default "replace-one"
            The neighbouring relation.

        Returns
        -------
        Laplace
            The mechanism.

        Raises
        ------
        InvalidParameter
            If a number is out of range.

        """
        epsilon = _validate.epsilon(epsilon)
        return cls(smallest_multiplier(Adjacency.of(adjacency).contributions, epsilon))

    @property
    def spread(self) -> float:
        """Return sqrt(2), since the variance is 2 b^2."""
        return math.sqrt(2.0)

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return sensitivity / b."""
        return self.shift(adjacency)

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the exact delta(epsilon), any real epsilon, rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        return curve.delta(epsilon, self.shift(adjacency), 1)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the closed form of the class docstring, rounded up."""
        return laplace_log_moment(s, self.shift(adjacency))

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
