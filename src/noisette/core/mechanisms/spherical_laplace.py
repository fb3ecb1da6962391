"""Spherical Laplace noise, the vector noise of the founding papers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import spherical_laplace_curve as curve
from noisette.core.mechanisms.base import BULK, AdditiveNoise, Checks, smallest_multiplier


@dataclass(frozen=True)
class SphericalLaplace(AdditiveNoise):
    """Add a vector of density proportional to exp(-||z|| / (noise_multiplier * C)).

    Radius ~ Gamma(dimension, scale noise_multiplier * C), direction uniform. One use is purely
    private with eps0 = ``adjacency.contributions / noise_multiplier`` and also has the smaller
    (epsilon, delta) curve of `spherical_laplace_curve`. Song, Chaudhuri and Sarwate's noise of
    density exp(-(alpha/2) ||z||) with C = 1 is ``noise_multiplier = 2 / alpha``: pure alpha under
    replace-one, alpha / 2 under zero-out and add-remove.

    Parameters
    ----------
    noise_multiplier : float
        The scale in units of C.
    dimension : int
        How many entries a vector has.

    Examples
    --------
    >>> from noisette import mechanisms
    >>> mechanisms.SphericalLaplace.calibrated(epsilon=0.5, dimension=10)
    SphericalLaplace(noise_multiplier=4.0, dimension=10)

    """

    dimension: int

    name: ClassVar[str] = "spherical-laplace"
    norm: ClassVar[str] = "l2"
    proof: ClassVar[str] = "SPHERICAL-LAPLACE"
    in_steps: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    checks: ClassVar[Checks] = {**AdditiveNoise.checks, "dimension": _validate.integer}

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float = 0.0, *, dimension: int,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    ) -> "SphericalLaplace":  # fmt: skip
        """Return the least noise for (epsilon, delta) in one use; delta = 0 is pure epsilon.

        Parameters
        ----------
        epsilon : float
            The epsilon of one use.
        delta : float, default 0.0
            The delta of one use.
        dimension : int
            How many entries a vector has.
        adjacency : Adjacency or str, default "replace-one"
            The neighbouring relation.

        Returns
        -------
        SphericalLaplace
            The mechanism with the least noise.

        """
        epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
        dimension = _validate.integer("dimension", dimension)
        contributions = Adjacency.of(adjacency).contributions
        eps0 = epsilon if delta == 0.0 else curve.largest_shift(epsilon, delta, dimension)
        z = smallest_multiplier(contributions, eps0)
        while delta > 0.0 and curve.delta(epsilon, contributions / z, dimension) > delta:
            z = math.nextafter(z, math.inf) * (1.0 + 1e-15)
        return cls(z, dimension)

    @classmethod
    def of(cls, noise_multiplier: float, dimension: int) -> "SphericalLaplace":
        """Return this noise for vectors of `dimension` entries."""
        return cls(noise_multiplier, dimension)

    @classmethod
    def least(
        cls, epsilon: float, delta: float, dimension: int, adjacency: Adjacency
    ) -> "SphericalLaplace":
        """Return `calibrated`."""
        return cls.calibrated(epsilon, delta, dimension=dimension, adjacency=adjacency)

    @property
    def spread(self) -> float:
        """Return sqrt(d + 1): the radius is Gamma(d), so E r^2 / d = d + 1."""
        return math.sqrt(self.dimension + 1.0)

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return eps0 = kappa * sensitivity."""
        return self.shift(adjacency)

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the exact delta(epsilon), rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        return curve.delta(epsilon, self.shift(adjacency), self.dimension)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return log E exp(s * loss), rounded up."""
        return curve.log_moment(s, self.shift(adjacency), self.dimension)

    def noise(
        self, count: int, dimension: int, unit: float, generator: np.random.Generator
    ) -> Floats:
        """Return independent vectors, shape (count, dimension): Gamma(d) radius, free direction."""
        assert dimension == self.dimension
        drawn = generator.standard_normal((count, dimension))
        radius = generator.standard_gamma(dimension, size=count)
        radius *= self.noise_multiplier * unit
        if drawn.size >= BULK:
            from noisette.core.ziggurat import lengthen  # loads numba, as the normal numbers did

            lengthen(drawn, radius)
            return drawn
        radius /= np.sqrt(np.einsum("ij,ij->i", drawn, drawn))
        drawn *= radius[:, None]
        return drawn
