"""Closed forms that the auditor trusts: written down again, not taken from the code under audit."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, gammainc, gammaln, log_ndtr, ndtr

from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, Mechanism, ObjectiveNoise, SphericalLaplace
from noisette.core.plans import Plan, Run, Sampled
from noisette.core.plans.leaves import Noisy

CONTRIBUTIONS = {"replace-one": 2.0, "zero-out": 1.0, "add-remove": 1.0}
"""How many contribution bounds a sum moves by between neighbours."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)

ONCE = ("full", "disjoint", "cyclic", "shuffle")
"""Samplers of which one use shows every record once and amplifies nothing."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact curve of N(0, 1) against N(mu, 1)."""
    second = math.exp(epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu)))
    return max(0.0, float(ndtr(mu / 2.0 - epsilon / mu)) - second)


def spherical_delta(eps0: float, epsilon: float, dimension: int) -> float:
    """Return the exact curve of spherical Laplace noise at the shift eps0, by quadrature."""
    if epsilon >= eps0:
        return 0.0
    if dimension == 1:
        return -math.expm1((epsilon - eps0) / 2.0)
    d, base = float(dimension), max(0.0, dimension - 14.0 * math.sqrt(dimension))
    half = (eps0**2 - epsilon**2) / 2.0

    def integral(sign: float, low: float) -> float:
        top = math.sqrt(max(d + 14.0 * math.sqrt(d) + 60.0 - low, 1.0))
        t = 0.5 * top * (_NODES + 1.0)
        rho = low + t * t
        density = np.exp((d - 1.0) * np.log(np.maximum(rho, 1e-300)) - rho - gammaln(d))
        x = np.clip((epsilon - sign * half / rho) / eps0, -1.0, 1.0)
        tail = betainc((d - 1.0) / 2.0, (d - 1.0) / 2.0, (1.0 - x) / 2.0)
        return float(np.sum(_WEIGHTS * 0.5 * top * 2.0 * t * density * tail))

    first, second = (eps0 - epsilon) / 2.0, (eps0 + epsilon) / 2.0
    return max(
        0.0,
        float(gammainc(d, max(first, base)))
        + integral(1.0, max(first, base))
        - math.exp(epsilon) * integral(-1.0, max(second, base)),
    )


def _inverse(curve: Callable[[float], float], delta: float, high: float) -> float:
    """Return the epsilon at which a falling curve reaches delta."""
    low = 0.0
    if curve(low) <= delta:
        return 0.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return epsilon at delta of a mu-GDP release."""
    if mu == 0.0:
        return 0.0
    return _inverse(lambda e: gaussian_delta(mu, e), delta, mu * mu / 2.0 + 40.0 * mu)


def spherical_epsilon(eps0: float, delta: float, dimension: int) -> float:
    """Return epsilon at delta of spherical Laplace noise at the shift eps0."""
    if delta == 0.0:
        return eps0
    return _inverse(lambda e: spherical_delta(eps0, e, dimension), delta, eps0)


def pure_epsilon(mechanism: Mechanism, relation: Adjacency) -> float:
    """Return the pure epsilon of one use, from the theorems; inf where there is none."""
    a = CONTRIBUTIONS[relation.value]
    if isinstance(mechanism, SphericalLaplace):
        return a / mechanism.noise_multiplier
    if isinstance(mechanism, ObjectiveNoise) and mechanism.law == "spherical-laplace":
        rate, k = 1.0 / mechanism.noise_multiplier, mechanism.curvature
        # The rows of a person span more than one direction: a trace for the log-determinant.
        grown: Callable[[Any], Any] = (lambda t: t) if mechanism.persons else np.log1p
        if mechanism.shape in ("one-signed", "two-signed"):
            return a * rate + float(grown(k))
        if mechanism.shape == "softmax":
            return a * rate + k
        g = np.linspace(0.0, 1.0, 4001)
        return float(np.max(grown(g * (1.0 - g) * k) + g * rate)) + (a - 1.0) * rate
    if isinstance(mechanism, Gaussian | ObjectiveNoise):
        return math.inf
    return mechanism.pure_epsilon(relation)


def least_epsilon(plan: Plan, delta: float, relation: Adjacency) -> float:
    """Return an epsilon that the theorems do not let the plan go below, at this delta.

    The closed forms where one applies, else the lower end of the certified bracket.
    """
    return max(_least(each, delta, relation) for each in plan.alternatives())


def _least(plan: Plan, delta: float, relation: Adjacency) -> float:
    leaves = list(plan.leaves())
    plain = all(isinstance(leaf, Run | Sampled) and leaf.sampler.name in ONCE for leaf, _ in leaves)
    if plain:
        noisy = [(leaf, count) for leaf, count in leaves if isinstance(leaf, Noisy)]
        if delta == 0.0:
            return math.fsum(pure_epsilon(leaf.mechanism, relation) * n for leaf, n in noisy)
        shifts = [(_shift(leaf.mechanism, relation), n) for leaf, n in noisy]
        laws = {type(leaf.mechanism) for leaf, _ in noisy}
        if laws == {Gaussian}:
            mu = math.sqrt(math.fsum(n * shift * shift for shift, n in shifts))
            return gaussian_epsilon(mu, delta)
        if laws == {SphericalLaplace} and len(noisy) == 1 and noisy[0][1] == 1:
            law = noisy[0][0].mechanism
            assert isinstance(law, SphericalLaplace)
            return spherical_epsilon(shifts[0][0], delta, law.dimension)
    if delta == 0.0:
        return accounting.epsilon(plan, delta=0.0, adjacency=relation)
    return accounting.bracket(plan, delta=delta, adjacency=relation)[0]


def _shift(mechanism: Mechanism, relation: Adjacency) -> float:
    scale = float(getattr(mechanism, "noise_multiplier", math.inf))
    return CONTRIBUTIONS[relation.value] / scale
