"""Exact privacy curve of noise with density proportional to exp(-kappa ||z||) in d dimensions.

Let eps0 = kappa * sensitivity. The loss of neighbours at full distance is L = eps0 cos(phi), where
phi in [0, pi] has under P the density

    g(phi) / Z,   g(phi) = sin^{d-2}(phi) (sin^2(phi) + c) e^{-eps0 sin^2(phi/2)},   d >= 2,

(theorem SPHERICAL-ANGLE, phi = pi/2 - theta). With cos(top) = eps / eps0,

    delta(eps) = (1/Z) int_0^top g(phi) (1 - e^{-2 eps0 sin((top+phi)/2) sin((top-phi)/2)}) dphi,

and, folding phi with pi - phi, Z = int_0^{pi/2} g (1 + e^{-L}) and

    E e^{sL} - 1 = (1/Z) int_0^{pi/2} g 4 e^{-L/2} sinh((s+1)L/2) sinh(sL/2).

Every integrand is positive and none is a difference of near-equal numbers, so the sums keep their
digits however small delta is. The result is rounded up by more than the error of the sums.

The moments log E exp(s L) of two pure laws are here too. Their mean lies near 1 for a small
epsilon, so its logarithm must not be taken of a sum of terms near 1: what is left after the
cancellation can be 0, or below, where a ledger would book nothing. So E e^{sL} - 1 is a product
(or a sum) of positive numbers.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import kve

from noisette._typing import Floats
from noisette.core.roots import private_root

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_ROUND_UP = 1.0 + 1e-10  # proof: SPHERICAL-POSITIVE, the error of the sums is below 1e-11
_MOMENTS_UP = 1.0 + 1e-13
_A_FEW_ROUNDINGS = 1.0 + 1e-14  # for the closed forms
_SMALLEST = 1e-300  # a positive delta is never stated as 0
_STEEPEST = 500.0  # largest s * eps0 at which the moments are integrated


@lru_cache(maxsize=64)  # the same start for most angles
def _falling(start: float, d: int) -> Floats:
    """Return the angles below `start` between which sin^{d-2} falls by about e^-2."""
    shrink = math.log((d - 1.0) / (d + 1.0))
    count = math.ceil(-50.0 / ((d - 1) * shrink))
    return np.asarray(np.arcsin(math.sin(start) * np.exp(shrink * np.arange(1, count + 1))))


def _panels(top: float, d: int, rate: float) -> tuple[Floats, Floats]:
    """Return Gauss nodes, as distances from `top`, and their weights on [0, top].

    Panels are at most 0.3/sqrt(rate) wide, and 2 tan(phi)/(d+1) where sin^{d-2} falls so fast that
    this is less, down to where it has lost a factor e^-50.
    """
    width = 0.3 / math.sqrt(rate)
    start = min(top, math.atan(width * (d - 1) / 2.0))
    even = np.linspace(0.0, top - start, math.ceil((top - start) / width) + 1)
    knots = np.concatenate((even, top - _falling(start, d), [top]))
    half = np.diff(knots)[:, None] / 2.0
    below = (knots[:-1, None] + half * (1.0 + _NODES)).ravel()
    return below, (half * _WEIGHTS).ravel()


def _log_density(phi: Floats, eps0: float, d: int, ratio: float) -> Floats:
    """Return log g(phi) - log(1 + c)."""
    cosine = np.cos(phi)
    square = cosine * cosine
    # log1p keeps log sin accurate near pi/2, where its multiple d - 2 may be large.
    steep = np.log(np.maximum(np.sin(phi), 1e-300))
    log_sine = np.where(square < 0.5, 0.5 * np.log1p(-np.minimum(square, 0.5)), steep)
    fall = eps0 * np.sin(phi / 2.0) ** 2
    return np.asarray((d - 2) * log_sine + np.log1p(-square / (1.0 + ratio)) - fall)


def _log_sum(log_terms: Floats, factors: Floats) -> float:
    """Return log sum exp(log_terms) factors for factors >= 0, -inf if there is nothing."""
    top = float(log_terms.max())
    total = float(np.sum(np.exp(log_terms - top) * factors))
    return top + math.log(total) if total > 0.0 else -math.inf


@lru_cache(maxsize=256)
def _law(eps0: float, d: int) -> tuple[float, float]:
    """Return what the density of the angle needs besides d and eps0: c and log Z."""
    ratio = 2.0 * (d - 1) / eps0 * bessel_k_ratio(d, eps0 / 2.0)
    below, weight = _panels(math.pi / 2.0, d, d + eps0)
    phi = math.pi / 2.0 - below
    folded = 1.0 + np.exp(-eps0 * np.cos(phi))
    return ratio, _log_sum(_log_density(phi, eps0, d, ratio), weight * folded)


def bessel_k_ratio(dimension: int, z: float) -> float:
    """K_{d/2}(z) / K_{d/2-1}(z) by the forward recurrence r_{v+1} = 1/r_v + 2(v+1)/z, stable.

    Starts from K_{1/2}/K_{-1/2} = 1 (odd d) or K_1/K_0 (even d). An error of r shrinks by r^-2 in
    each step, so high orders v > z, where r > 2.4, start 60 steps before the end.
    """
    if dimension % 2:
        ratio, order, steps = 1.0, -0.5, (dimension - 1) // 2
    else:
        ratio, order, steps = float(kve(1, z) / kve(0, z)), 0.0, (dimension - 2) // 2
    if steps > 1000 and order + steps - 60 > z:
        order, steps = order + steps - 60, 60
        ratio = (order + 0.5 + math.hypot(order + 0.5, z)) / z
    for _ in range(steps):
        order += 1.0
        ratio = 1 / ratio + 2 * order / z
    return ratio


def delta(epsilon: float, eps0: float, d: int) -> float:
    """Return delta(epsilon) rounded up, for any real epsilon; 0 at and above eps0."""
    # proof: SPHERICAL-POSITIVE
    if epsilon >= eps0:
        return 0.0
    if epsilon < 0.0:  # reflection: both orders have the same curve
        mirrored = -np.expm1(epsilon) + np.exp(epsilon) * delta(-epsilon, eps0, d)
        return min(1.0, float(mirrored) * _A_FEW_ROUNDINGS)
    if d == 1:
        return min(1.0, float(-np.expm1((epsilon - eps0) / 2.0)) * _A_FEW_ROUNDINGS)
    top = 2.0 * math.asin(math.sqrt((eps0 - epsilon) / (2.0 * eps0)))
    below, weight = _panels(top, d, d + eps0)
    (ratio, log_total), phi = _law(eps0, d), top - below
    gap = 2.0 * eps0 * np.sin(top - below / 2.0) * np.sin(below / 2.0)  # L - epsilon
    log_value = _log_sum(_log_density(phi, eps0, d, ratio), weight * -np.expm1(-gap))
    value = math.exp(min(0.0, log_value - log_total))
    return min(1.0, max(value * _ROUND_UP, _SMALLEST))


def deltas(epsilons: Floats, eps0: float, d: int) -> Floats:
    """Return `delta` at every epsilon >= 0 of an array."""
    epsilons = np.asarray(epsilons, dtype=float)
    values = [delta(epsilon, eps0, d) for epsilon in epsilons.ravel().tolist()]
    return np.asarray(values, dtype=float).reshape(epsilons.shape)


@lru_cache(maxsize=64)
def _moment_table(eps0: float, d: int) -> tuple[Floats, Floats]:
    """Return losses > 0 and their weights g e^{-L/2} / Z, fine enough for s eps0 <= _STEEPEST."""
    ratio, log_total = _law(eps0, d)
    below, weight = _panels(math.pi / 2.0, d, d + eps0 + 2.0 * _STEEPEST)
    phi = math.pi / 2.0 - below
    loss = eps0 * np.sin(below)
    log_weight = _log_density(phi, eps0, d, ratio) - log_total - loss / 2.0
    return loss, weight * np.exp(log_weight)


def log_moment(s: Floats, eps0: float, d: int) -> Floats:
    """Return log E_P exp(s L), rounded up, for s > 0."""
    s = np.asarray(s, dtype=float)
    # Any eps0-private mechanism is dominated by randomised response. proof: PURE-RR
    pure = response_log_moment(s, eps0)
    if d == 1:
        return laplace_log_moment(s, eps0)
    loss, weight = _moment_table(eps0, d)
    steep = s * eps0 > _STEEPEST
    mild = np.where(steep, 0.0, s)[..., None]
    # Divided by e^{(s + 1/2) L}, which is put back last: sinh alone would overflow.
    shrunk = np.expm1(-(mild + 1.0) * loss) * np.expm1(-mild * loss)
    with np.errstate(divide="ignore"):
        log_terms = np.log(weight * shrunk) + (mild + 0.5) * loss
    log_excess = np.logaddexp.reduce(log_terms, axis=-1)
    # proof: SPHERICAL-POSITIVE
    exact = np.logaddexp(0.0, log_excess) * _ROUND_UP
    return np.asarray(np.where(steep, pure, np.minimum(exact, pure)))


def largest_shift(epsilon: float, delta_target: float, d: int) -> float:
    """Return the largest eps0 with delta(epsilon; eps0) <= delta_target, re-checked."""

    def excess(eps0: float) -> float:
        return delta(epsilon, eps0, d) - delta_target

    high = epsilon + 1.0
    while excess(high) <= 0.0:
        high *= 2.0
    return private_root(
        excess, epsilon, high, lambda x, turn: max(epsilon, x * (1.0 - 2.0 ** (turn - 52))),
        xtol=1e-300, rtol=1e-15,
    )  # fmt: skip


def response_delta(epsilon: float, pure: float) -> float:
    """Return delta(epsilon) of any `pure`-private mechanism, any real epsilon, rounded up."""
    # proof: PURE-RR
    if epsilon >= pure:
        return 0.0
    if epsilon <= -pure:
        return min(1.0, -math.expm1(epsilon) * _MOMENTS_UP)
    return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * _MOMENTS_UP)


def response_log_moment(s: Floats, epsilon: float, log_p: float | None = None) -> Floats:
    """Return log E exp(s L), s > 0, rounded up, of a law with losses epsilon, -epsilon and 0.

    Their probabilities are p, p e^{-eps} and the rest; without `log_p` there is no rest, so
    p = e^eps/(1 + e^eps). E e^{sL} - 1 = p (e^{s eps} - 1)(1 - e^{-(s+1) eps}).
    """
    # proof: MOMENTS-POSITIVE
    s = np.asarray(s, dtype=float)
    if epsilon == 0.0:
        return np.zeros_like(s)
    log_p = -float(np.logaddexp(0.0, -epsilon)) if log_p is None else log_p
    with np.errstate(divide="ignore"):
        rise = s * epsilon + np.log(-np.expm1(-s * epsilon))
        log_excess = log_p + rise + np.log(-np.expm1(-(s + 1.0) * epsilon))
    return np.asarray(np.logaddexp(0.0, log_excess) * _MOMENTS_UP)


def laplace_log_moment(s: Floats, epsilon: float) -> Floats:
    """Return log E exp(s L) of one-dimensional Laplace noise at eps0 = `epsilon`, rounded up.

    With h(x) = e^x - 1 - x >= 0:
    E e^{sL} - 1 = [(s + 1) h(s eps0) + s h(-(s + 1) eps0)] / (2 s + 1).
    """
    # proof: MOMENTS-POSITIVE
    s = np.asarray(s, dtype=float)
    up, down = s * epsilon, (s + 1.0) * epsilon
    log_up = np.log((s + 1.0) / (2.0 * s + 1.0)) + _log_convex(up)
    log_down = np.log(s / (2.0 * s + 1.0)) + _log_convex(-down)
    return np.asarray(np.logaddexp(0.0, np.logaddexp(log_up, log_down)) * _MOMENTS_UP)


def _log_convex(x: Floats) -> Floats:
    """Return log(e^x - 1 - x), x != 0; the series where the difference would cancel."""
    series = np.zeros_like(x)
    near = np.clip(x, -0.5, 0.5)
    for j in range(16, 1, -1):
        series = series * near + 1.0 / math.factorial(j)
    far = np.maximum(x, 0.5)
    large = far + np.log1p(-(1.0 + far) * np.exp(-far))
    low = np.log(np.expm1(np.minimum(x, -0.5)) - np.minimum(x, -0.5))
    with np.errstate(divide="ignore"):
        middle = 2.0 * np.log(np.abs(near)) + np.log(series)
    return np.where(np.abs(x) < 0.5, middle, np.where(x > 0.0, large, low))
