"""Exact privacy curve of noise with density proportional to exp(-kappa ||z||) in d dimensions.

Let eps0 = kappa * sensitivity, rho ~ Gamma(d, 1) and U the first coordinate of a uniform unit
vector, S_d(x) = Pr[U > x]. With B = (eps0^2 - l^2) / 2 the loss L of neighbours at full distance
satisfies, for -eps0 <= l < eps0,

    P(L > l) = E_rho S_d((l - B/rho) / eps0),      Q(L > l) = E_rho S_d((l + B/rho) / eps0),
    delta(eps) = P(L > eps) - e^eps Q(L > eps),    delta = 0 for eps >= eps0.

The first argument is -1 for rho < (eps0 - l)/2 and the second is 1 for rho < (eps0 + l)/2, so each
integral starts at its own point; rho = start + t^2 removes the square-root kink there. For large d
the start moves up to the Gamma peak, otherwise the nodes would miss it. Results are rounded up.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, gammainc, gammaln

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)
_ROUND_UP = 1.0 + 1e-5  # covers the quadrature error of 1.1e-6 measured for d up to 30000


def _tail_of_direction(x: Floats, d: int) -> Floats:
    """Return S_d(x) = Pr[U > x] for d >= 2, clipped to [-1, 1]."""
    half = (d - 1) / 2.0
    return np.asarray(betainc(half, half, (1.0 - np.clip(x, -1.0, 1.0)) / 2.0))


def _gamma_average(start: Floats, slope: Floats, level: Floats, d: int) -> Floats:
    """Return the integral of gamma_d(rho) S_d(level + slope / rho) from `start` to infinity."""
    peak = d - 14.0 * math.sqrt(d)
    low = np.maximum(start, max(peak, 0.0))[..., None]
    high = max(d + 14.0 * math.sqrt(d) + 60.0, 0.0)
    width = np.sqrt(np.maximum(high - low, 0.0))
    t = width * (_NODES + 1.0) / 2.0
    rho = np.maximum(low + t * t, 1e-300)
    log_density = (d - 1) * np.log(rho) - rho - gammaln(d)
    inner = np.exp(log_density) * _tail_of_direction(level[..., None] + slope[..., None] / rho, d)
    return np.asarray(np.sum(_WEIGHTS * inner * t * width, axis=-1))


def survival(loss: Floats, eps0: float, d: int) -> tuple[Floats, Floats]:
    """Return P(L > loss) and Q(L > loss), d >= 2, -eps0 <= loss <= eps0, relatively accurate."""
    loss = np.asarray(loss, dtype=float)
    b = (eps0 - loss) * (eps0 + loss) / 2.0
    first, second = (eps0 - loss) / 2.0, (eps0 + loss) / 2.0
    p = gammainc(d, first) + _gamma_average(first, -b / eps0, loss / eps0, d)
    q = _gamma_average(second, b / eps0, loss / eps0, d)
    return p, q


def delta(epsilon: float, eps0: float, d: int) -> float:
    """Return delta(epsilon) rounded up, for any real epsilon; 0 at and above eps0."""
    if epsilon >= eps0:
        return 0.0
    if epsilon < 0.0:  # reflection: both orders have the same curve
        return float(-np.expm1(epsilon) + np.exp(epsilon) * delta(-epsilon, eps0, d))
    if d == 1:
        return float(-np.expm1((epsilon - eps0) / 2.0))
    p, q = survival(np.array(epsilon), eps0, d)
    with np.errstate(divide="ignore"):
        second = float(np.exp(epsilon + np.log(q)))
    return min(1.0, max(0.0, (float(p) - second) * _ROUND_UP) + 1e-18)


def deltas(epsilons: Floats, eps0: float, d: int) -> Floats:
    """Return `delta` at every epsilon >= 0 of an array, in one pass."""
    epsilons = np.asarray(epsilons, dtype=float)
    if d == 1:
        return np.asarray(-np.expm1(np.minimum(0.0, (epsilons - eps0) / 2.0)))
    inside = np.minimum(epsilons, eps0)
    p, q = survival(inside, eps0, d)
    with np.errstate(divide="ignore"):
        gap = p - np.exp(inside + np.log(q))
    values = np.minimum(1.0, np.maximum(0.0, gap * _ROUND_UP) + 1e-18)
    return np.where(epsilons >= eps0, 0.0, values)


@lru_cache(maxsize=64)
def _moment_table(eps0: float, d: int) -> tuple[Floats, Floats, Floats, Floats]:
    # l = eps0 sin(phi) clusters the nodes where the density of the loss is singular (d = 2, 3).
    nodes, weights = np.polynomial.legendre.leggauss(160)
    phi = (nodes + 1.0) * math.pi / 4.0
    loss = eps0 * np.sin(phi)
    weight = weights * math.pi / 4.0 * eps0 * np.cos(phi)
    p, q = survival(loss, eps0, d)
    return loss, weight, p, q


def log_moment(s: Floats, eps0: float, d: int) -> Floats:
    """Return log E_P exp(s L), rounded up, for s > 0.

    E e^{sL} - 1 = s * integral_0^eps0 [e^{s l} P(L > l) - e^{-s l} Q(L > l)] dl, because
    P(L < -l) = Q(L > l); the form keeps its digits when eps0 is small.
    """
    s = np.asarray(s, dtype=float)
    # Any eps0-private mechanism is dominated by randomised response. proof: PURE-RR
    log_p, log_q = -np.logaddexp(0.0, -eps0), -np.logaddexp(0.0, eps0)
    pure = np.logaddexp(log_p + s * eps0, log_q - s * eps0)
    if d == 1:
        up = np.log((s + 1.0) / (2.0 * s + 1.0)) + s * eps0
        down = np.log(s / (2.0 * s + 1.0)) - (s + 1.0) * eps0
        return np.asarray(np.logaddexp(up, down))
    loss, weight, p, q = _moment_table(eps0, d)
    grow = np.minimum(np.multiply.outer(s, loss), 600.0)  # beyond, `pure` is taken
    excess = s * np.sum(weight * (np.exp(grow) * p - np.exp(-grow) * q), axis=-1)
    exact = np.log1p(np.maximum(excess, 0.0)) * (1.0 + 1e-6)
    return np.asarray(np.where(s * eps0 > 500.0, pure, np.minimum(exact, pure)))


def largest_shift(epsilon: float, delta_target: float, d: int) -> float:
    """Return the largest eps0 with delta(epsilon; eps0) <= delta_target, re-checked."""
    high = epsilon + 1.0
    while delta(epsilon, high, d) <= delta_target:
        high *= 2.0
    eps0 = float(
        brentq(lambda e: delta(epsilon, e, d) - delta_target, epsilon, high, xtol=1e-14, rtol=1e-13)
    )
    while delta(epsilon, eps0, d) > delta_target:
        eps0 = max(epsilon, eps0 - 1e-12 * eps0)
    return eps0
