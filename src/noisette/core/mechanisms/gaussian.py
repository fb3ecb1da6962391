"""The Gaussian mechanism, with its exact curve (never the classical formula)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.mechanisms.gaussian_curve import gdp_mu, stated_delta


@dataclass(frozen=True)
class Gaussian(AdditiveNoise):
    """Add N(0, (noise_multiplier * C)^2) to each coordinate.

    With mu = sensitivity / std = ``adjacency.contributions / noise_multiplier``, one use is
    exactly mu-GDP in any dimension: delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)
    (Balle and Wang 2018, Theorem 8), and log E exp(s * loss) = mu^2 s (s + 1) / 2.

    Parameters
    ----------
    noise_multiplier : float
        The standard deviation in units of C.

    Examples
    --------
    >>> from noisette import accounting, mechanisms
    >>> noise = mechanisms.Gaussian.calibrated(epsilon=1.0, delta=1e-6)
    >>> 0.999 < accounting.epsilon(noise, delta=1e-6) <= 1.0
    True

    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"
    proof: ClassVar[str] = "GAUSS-EXACT"
    piece: ClassVar[int] = 1 << 18
    in_steps: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    spread = 1.0  # by definition

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
    ) -> "Gaussian":
        """Return the least noise for (epsilon, delta > 0) in one use: analytic, re-checked.

        Parameters
        ----------
        epsilon : float
            The epsilon of one use.
        delta : float
            The delta of one use, above 0.
        adjacency : Adjacency or str, default "replace-one"
            The neighbouring relation.

        Returns
        -------
        Gaussian
            The mechanism with the least noise.

        """
        epsilon = _validate.epsilon(epsilon)
        delta = _validate.positive("delta (for Gaussian noise)", _validate.delta(delta))
        contributions = Adjacency.of(adjacency).contributions
        z = contributions / gdp_mu(epsilon, delta)
        # Rounding contributions / z may lift mu by one ulp above what gdp_mu certified.
        while float(stated_delta(contributions / z, epsilon)) > delta:
            z = math.nextafter(z, math.inf)
        return cls(z)

    @classmethod
    def least(
        cls, epsilon: float, delta: float, dimension: int, adjacency: Adjacency
    ) -> "Gaussian":
        """Return `calibrated`, which is the same in every dimension."""
        return cls.calibrated(epsilon, delta, adjacency)

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Gaussian noise is never purely private."""
        return math.inf

    def mu(self, adjacency: Adjacency) -> float:
        """Return mu = sensitivity / std."""
        return self.shift(adjacency)

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the exact delta(epsilon), rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        return float(stated_delta(self.shift(adjacency), epsilon))

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return mu^2 s (s + 1) / 2."""
        s = np.asarray(s, dtype=float)
        return np.asarray(self.shift(adjacency) ** 2 * s * (s + 1.0) / 2.0)

    def noise(
        self, count: int, dimension: int, unit: float, generator: np.random.Generator
    ) -> Floats:
        """Return independent normal vectors, shape (count, dimension)."""
        drawn = generator.standard_normal((count, dimension))
        drawn *= self.noise_multiplier * unit
        return drawn
