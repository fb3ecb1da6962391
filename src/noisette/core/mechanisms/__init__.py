"""Mechanisms: one theorem, one class. A new one is a file and a line in `MECHANISMS`."""

from noisette.core import by_name
from noisette.core.mechanisms.base import AdditiveNoise, Mechanism
from noisette.core.mechanisms.choices import Exponential, RandomizedResponse
from noisette.core.mechanisms.gaussian import Gaussian
from noisette.core.mechanisms.gaussian_threshold import GaussianThreshold
from noisette.core.mechanisms.laplace import Laplace, LaplaceVector
from noisette.core.mechanisms.objective_noise import ObjectiveNoise
from noisette.core.mechanisms.spherical_laplace import SphericalLaplace

__all__ = [
    "Exponential", "Gaussian", "GaussianThreshold", "Laplace", "LaplaceVector", "Mechanism",
    "ObjectiveNoise", "RandomizedResponse", "SphericalLaplace", "step_noises",
]  # fmt: skip

MECHANISMS: dict[str, type[Mechanism]] = by_name(
    Exponential, Gaussian, GaussianThreshold, Laplace, LaplaceVector, ObjectiveNoise,
    RandomizedResponse, SphericalLaplace,
)  # fmt: skip
"""Every mechanism by its name."""


def step_noises() -> dict[str, type[AdditiveNoise]]:
    """Return the noises that SGD may add to sums of gradients, by name.

    Returns
    -------
    dict of str to type
        For ``SGDClassifier(noise=...)``.

    Examples
    --------
    >>> from noisette.mechanisms import step_noises
    >>> sorted(step_noises())
    ['gaussian', 'spherical-laplace']

    """
    return {
        name: kind
        for name, kind in MECHANISMS.items()
        if issubclass(kind, AdditiveNoise) and kind.in_steps
    }
