"""Moment functions log E exp(s L) of two pure laws, from positive terms.

The mean of e^{sL} lies near 1 for a small epsilon, so its logarithm must not be taken of a sum of
terms near 1: what is left after the cancellation can be 0, or below, where a ledger would book
nothing. Here E e^{sL} - 1 is a product (or a sum) of positive numbers.
"""

import math

import numpy as np

from noisette._typing import Floats

_ROUND_UP = 1.0 + 1e-13


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
    return np.asarray(np.logaddexp(0.0, log_excess) * _ROUND_UP)


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
    return np.asarray(np.logaddexp(0.0, np.logaddexp(log_up, log_down)) * _ROUND_UP)


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
