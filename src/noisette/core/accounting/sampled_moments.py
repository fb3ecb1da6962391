"""Moment functions of subsampled mechanisms: log E_P exp(s L) for real s > 0, rounded up.

With order a = s + 1, ratio r = dP/dQ and E_Q r = 1,

    E_P e^{sL} - 1 = E_Q [r^a - 1 - a (r - 1)],

an integral of a non-negative function, which keeps its digits when the sampling rate is tiny.
Gaussian mixtures are integrated by the trapezoidal rule, whose error falls like
exp(-2 pi^2 z^2 / h): the mixture is analytic in a strip of half-width pi z^2.
"""

import math

import numpy as np

from noisette._typing import Floats
from noisette.core.mechanisms.pure_moments import response_log_moment

_MOST_NODES = 60_000
_REACH = 10.0  # standard deviations beyond the outermost mode
_ROUND_UP = 1e-9


def pure(s: Floats, epsilon: float) -> Floats:
    """Return the moment function of randomised response, which dominates any pure epsilon."""
    # proof: PURE-RR
    return response_log_moment(s, epsilon)


def _log_ratio(x: Floats, rate: float, z: float) -> Floats:
    """Return log(1 - q + q exp((x - 1/2)/z^2)), the log ratio of the mixture to N(0, z^2)."""
    tilt = (x - 0.5) / z**2
    small = np.log1p(rate * np.expm1(np.minimum(tilt, 1.0)))
    large = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(tilt, 1.0))
    return np.where(tilt < 1.0, small, large)


def _convex_gap(log_r: Floats, a: float) -> Floats:
    """Return r^a - 1 - a (r - 1), a > 1 or a < 0 (may be inf; the caller scales large exponents).

    With t = log r it is sum over j >= 2 of (a^j - a) t^j / j!, which is summed where the direct
    form would cancel (tiny rates). Both t and a t must be small there: for a near 0 a small a t
    does not make the cut terms a t^j / j! small.
    """
    series = np.zeros_like(log_r)
    for j in range(9, 1, -1):
        series = (series + (a**j - a) / math.factorial(j)) * log_r
    series *= log_r
    with np.errstate(over="ignore", invalid="ignore"):
        direct = np.expm1(a * log_r) - a * np.expm1(log_r)
    return np.where(max(1.0, abs(a)) * np.abs(log_r) < 1e-2, series, direct)


def _finish(log_weight: Floats, log_r: Floats, a: float) -> float:
    """Return log(1 + sum exp(log_weight) [r^a - 1 - a (r - 1)]), rounded up."""
    if a * float(log_r.max()) < 300.0:
        excess = float(np.sum(np.exp(log_weight) * _convex_gap(log_r, a)))
        return math.log1p(max(0.0, excess)) * (1.0 + _ROUND_UP)
    # E_Q r^a itself, scaled so that no exponential overflows.
    exponent = log_weight + a * log_r
    top = float(exponent.max())
    return (top + math.log(float(np.sum(np.exp(exponent - top))))) * (1.0 + _ROUND_UP)


def _grid(low: float, high: float, z: float) -> tuple[Floats, float] | None:
    h = min(z / 3.0, z * z / 2.0)
    count = math.ceil((high - low) / h)
    if count > _MOST_NODES:
        return None
    return np.asarray(low + h * np.arange(count + 1), dtype=np.float64), h


def _log_normal(x: Floats, z: float) -> Floats:
    return np.asarray(-0.5 * (x / z) ** 2 - math.log(z * math.sqrt(2.0 * math.pi)))


def poisson_add_remove(s: Floats, rate: float, z: float) -> Floats:
    """Return the moment function of (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2).

    This order is the worse one for every s (Mironov, Talwar and Zhang 2019). Where the integral
    would need too many nodes the unamplified s (s + 1)/(2 z^2) is returned, which is larger.
    """
    # proof: POISSON-A
    plain = s * (s + 1.0) / (2.0 * z * z)
    out = np.array(plain, dtype=float)
    for index, order in np.ndenumerate(np.asarray(s) + 1.0):
        grid = _grid(-_REACH * z, max(1.0, float(order)) + _REACH * z, z)
        if grid is not None:
            x, h = grid
            value = _finish(_log_normal(x, z) + math.log(h), _log_ratio(x, rate, z), float(order))
            out[index] = min(float(out[index]), value)
    return out


def poisson_replace(s: Floats, rate: float, z: float) -> Floats:
    """Return the moment function of (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1), std z."""
    # proof: POISSON-R
    plain = 4.0 * s * (s + 1.0) / (2.0 * z * z)
    out = np.array(plain, dtype=float)
    for index, order in np.ndenumerate(np.asarray(s) + 1.0):
        grid = _grid(-_REACH * z - 1.0, 2.0 * max(1.0, float(order)) + _REACH * z, z)
        if grid is not None:
            x, h = grid
            log_right, log_left = _log_ratio(x, rate, z), _log_ratio(-x, rate, z)
            weight = _log_normal(x, z) + log_left + math.log(h)
            value = _finish(weight, log_right - log_left, float(order))
            out[index] = min(float(out[index]), value)
    return out


def without_replacement(s: Floats, rate: float, z: float) -> Floats:
    """Return the moment function of the symmetrised pair for fixed-size batches, replace-one.

    In units where the shift is 1 and the std is z/2, with r the ratio of the mixture to N(0) and
    A = {x > 1/2}:  E e^{sL} - 1 = integral over A of N(0) [r^{s+1} - r + r^{-s} - 1].
    """
    # proof: WOR-R
    plain = 4.0 * s * (s + 1.0) / (2.0 * z * z)
    out = np.array(plain, dtype=float)
    std = z / 2.0
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for index, order in np.ndenumerate(np.asarray(s) + 1.0):
        high = max(1.0, float(order)) + _REACH * std
        panels = math.ceil((high - 0.5) / min(std, std * std, 1.0))
        if panels * 24 > _MOST_NODES:
            continue
        edges = np.linspace(0.5, high, panels + 1)
        half = (edges[1:] - edges[:-1])[:, None] / 2.0
        x = (edges[:-1, None] + half + half * nodes).ravel()
        log_weight = _log_normal(x, std) + np.log((half * weights).ravel())
        log_r = _log_ratio(x, rate, std)
        a = float(order)
        small = a * log_r < 300.0
        # r^a - r + r^{1-a} - 1 = [r^a - 1 - a (r - 1)] + [r^{1-a} - 1 - (1 - a)(r - 1)]
        gap = _convex_gap(log_r[small], a) + _convex_gap(log_r[small], 1.0 - a)
        value = math.log1p(float(np.sum(np.exp(log_weight[small]) * gap)))
        if not small.all():
            # there r^a rules; -r + r^{1-a} - 1 <= 0 is dropped
            exponent = (log_weight + a * log_r)[~small]
            top = float(exponent.max())
            value = float(np.logaddexp(value, top + math.log(float(np.exp(exponent - top).sum()))))
        value *= 1.0 + _ROUND_UP
        out[index] = min(float(out[index]), value)
    return out
