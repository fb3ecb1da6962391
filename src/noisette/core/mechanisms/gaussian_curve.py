"""The mu-GDP curve: privacy of N(mu, 1) against N(0, 1), accurate in the far tail.

For mu >= 0 and any real epsilon, with a = mu/2 - epsilon/mu,

    delta(epsilon) = Phi(a) - e^epsilon Phi(a - mu).

The two terms agree to almost all digits when mu is small or delta is tiny, so they are never
subtracted as written. Put x = -a and y = x + mu. Since e^epsilon phi(y) = phi(x),

    delta(epsilon) = phi(x) (R(x) - R(y)),      R(t) = Phi(-t) / phi(t)  (Mills ratio),

and -R'(t) = 1 - t R(t) = D(t) > 0, so R(x) - R(y) is the integral of D over (x, y): a sum of
positive terms. Negative epsilon uses delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon).

Relative error of delta and of exp(log delta), which `_read` returns: below 1e-12 for mu <= 1e3 and
epsilon <= 1e3 down to delta = 1e-300. Outside it is the conditioning of the inputs themselves,
about 1e-16 x max(epsilon/mu, mu) with x = epsilon/mu - mu/2.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.errors import InvalidParameter

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2.0)
# Below this mu the difference R(x) - R(x + mu) is integrated, above it is subtracted.
_SMALL_MU = 0.5
# Above this t the continued fraction of R is used; below, erfcx loses less than one digit.
_LARGE_T = 2.0
# The same for D, of which erfcx loses a factor t R(t) / D(t) = 11 at t = 3.
_LARGE_SLOPE_T = 3.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
# The inverse functions ask for delta (1 + _SLACK) <= target, so that the evaluation error of the
# curve itself falls on the private side.
_SLACK = 1e-12


def _tail(t: Floats) -> Floats:
    """Return K(t) with R(t) = 1 / (t + K(t)), K = 1/(t + 2/(t + 3/(t + ...))), for t >= 2.

    All terms are positive, so K lies between two neighbouring convergents, which come closer as t
    grows: the terms that are enough for the least t (1e-16) are enough for all.
    """
    k = np.zeros_like(t)
    for j in range(_terms(float(t.min())), 0, -1):
        k = j / (t + k)
    return k


def _terms(t: float) -> int:
    """Return how many terms leave an error of K below 1e-16 (checked against mpmath)."""
    return math.ceil(min(10.0 + 500.0 / (t * t), 120.0))


def _mills_gap(x: Floats, mu: Floats) -> Floats:
    """Return R(x) - R(x + mu) > 0 for x >= 0 (or x >= -mu/2 when mu is small), to 1e-14."""
    out = np.empty_like(x)
    small = mu < _SMALL_MU
    if small.any():
        # D(t) = 1 - t R(t) = -R'(t) > 0 for t > -1, without cancellation
        t = x[small, None] + 0.5 * mu[small, None] * (1.0 + _NODES)
        middle = np.minimum(t, _LARGE_SLOPE_T)
        direct = 1.0 - middle * _SQRT_HALF_PI * erfcx(middle / math.sqrt(2.0))
        end = np.maximum(t, _LARGE_SLOPE_T)
        k = _tail(end) / end
        # 1 - t/(t + K) = K/(t + K), written so that t = 1e200 does not overflow.
        slopes = np.where(t < _LARGE_SLOPE_T, direct, k / (1.0 + k))
        out[small] = mu[small] * (0.5 * (slopes @ _WEIGHTS))
    far = ~small & (x >= _LARGE_T)
    if far.any():
        xs, ms = x[far], mu[far]
        kx, ky = _tail(xs), _tail(xs + ms)
        # 1/(x + kx) - 1/(y + ky): kx - ky is at most mu/4, so nothing cancels.
        out[far] = ((ms - (kx - ky)) / (xs + kx)) / (xs + ms + ky)
    near = ~small & ~far
    if near.any():
        xs, ms = x[near], mu[near]
        root = math.sqrt(2.0)
        out[near] = _SQRT_HALF_PI * (erfcx(xs / root) - erfcx((xs + ms) / root))
    return out


def _log_delta_positive(mu: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return (delta, log delta) on flat arrays with 0 < mu < inf and 0 <= epsilon < inf."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = epsilon / mu
        x = ratio - 0.5 * mu
        delta, log = np.zeros_like(x), np.full_like(x, -np.inf)
        # Left of the peak with large mu: R(x) would overflow, but Phi(-x) >= 1/2 is benign.
        left = (x < 0) & (mu >= _SMALL_MU)
        y = ratio[left] + 0.5 * mu[left]
        phi = np.exp(-0.5 * x[left] ** 2 - _LOG_SQRT_2PI)
        delta[left] = ndtr(-x[left]) - phi * _SQRT_HALF_PI * erfcx(y / math.sqrt(2.0))
        log[left] = np.log(delta[left])
        # x above 1e150 has x^2 = inf: delta is 0 and its log is -inf in double precision.
        right = ~left & (x < 1e150)
        gap = _mills_gap(x[right], mu[right])
        exponent = -0.5 * x[right] ** 2 - _LOG_SQRT_2PI
        log[right] = exponent + np.log(gap)
        delta[right] = np.exp(exponent) * gap
        # exp(exponent) may underflow while the gap does not rescue it: use the logarithm there.
        deep = right & (x > 37.0)
        delta[deep] = np.exp(log[deep])
    return np.minimum(delta, 1.0), np.minimum(log, 0.0)


def _read(mu: ArrayLike, epsilon: ArrayLike, which: int) -> Floats | float:
    """Return delta (0) or its logarithm (1), a float for two scalars; mu in [0, inf], any epsilon.

    mu = 0 or an infinite epsilon: delta = max(0, 1 - e^epsilon).
    """
    m, e = np.broadcast_arrays(np.asarray(mu, dtype=float), np.asarray(epsilon, dtype=float))
    if np.isnan(m).any() or (m < 0).any():
        raise InvalidParameter("mu must be a number that is at least 0, without NaN.")
    if np.isnan(e).any():
        raise InvalidParameter("epsilon must be a number, without NaN.")
    shape, m, e = m.shape, m.ravel(), e.ravel()
    delta, log = np.ones_like(m), np.zeros_like(m)  # where mu is infinite
    plain = (m > 0) & np.isfinite(m) & np.isfinite(e)
    delta[plain], log[plain] = _log_delta_positive(m[plain], np.abs(e[plain]))
    with np.errstate(divide="ignore", under="ignore"):
        flat = ~plain & ~np.isinf(m)
        delta[flat] = -np.expm1(np.minimum(e[flat], 0.0))
        negative = plain & (e < 0)
        below = e[negative]
        delta[negative] = -np.expm1(below) + np.exp(below) * delta[negative]
        log[flat | negative] = np.log(delta[flat | negative])
    values = np.minimum((delta, log)[which], 1.0 - which).reshape(shape)
    return float(values) if values.ndim == 0 else values


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats | float:
    """Return delta(epsilon) of mu-GDP, i.e. the hockey stick of N(mu, 1) over N(0, 1).

    Inputs broadcast; two scalars give a float. epsilon may be negative or infinite; delta is
    max(0, 1 - e^epsilon) for mu = 0, and 1 for mu = inf. NaN and mu < 0 are refused.
    """
    # proof: GDP-CURVE
    return _read(mu, epsilon, 0)


def stated_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats | float:
    """Return `gdp_delta`, moved up by more than its measured error: what a guarantee may state."""
    # Half of the slack of the inverse functions, so that what they accept is stated within target.
    delta = np.minimum(np.asarray(_read(mu, epsilon, 0)) * (1.0 + _SLACK / 2.0), 1.0)
    return float(delta) if delta.ndim == 0 else np.asarray(delta)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up.

    0 when delta(0) <= delta; inf when delta = 0 < mu or mu = inf and delta < 1. The result is
    re-checked: gdp_delta(mu, result) <= delta holds in floating point.
    """
    target, mu = _validate.probability("delta", delta), float(mu)
    at_zero = float(_read(mu, 0.0, 0))  # which refuses a mu below 0
    if target == 1.0 or mu == 0.0:
        return 0.0
    if target == 0.0 or mu == math.inf:
        return math.inf
    goal = math.log(target) - _SLACK

    def excess(epsilon: float) -> float:
        return float(_read(mu, epsilon, 1)) - goal

    if excess(0.0) <= 0.0 and at_zero <= target:
        return 0.0
    # Chernoff: delta(epsilon) <= exp(-(epsilon - mu^2/2)^2 / (2 mu^2)).
    high = mu * (0.5 * mu + math.sqrt(2.0 * max(-goal, _SLACK)))
    while excess(high) > 0.0:
        high *= 1.5
    root = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-15)) if excess(0.0) > 0.0 else 0.0
    found, turn = root, 0
    while not (excess(found) <= 0.0 and float(_read(mu, found, 0)) <= target):
        found, turn = root * (1.0 + 2.0 ** (turn - 52)) + 5e-324, turn + 1
    return found


@lru_cache(maxsize=1024, typed=True)  # public numbers; every fit with a delta asks for the same
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu with delta_mu(epsilon) <= delta, rounded down and re-checked.

    epsilon must be >= 0. 0 when delta = 0 and epsilon < inf; inf when delta = 1 or
    epsilon = inf. gdp_delta(result, epsilon) <= delta holds in floating point.
    """
    target, eps = _validate.probability("delta", delta), float(epsilon)
    if not eps >= 0.0:
        raise InvalidParameter(f"epsilon must be a number that is at least 0; got {epsilon!r}.")
    if target == 1.0 or eps == math.inf:
        return math.inf
    if target == 0.0:
        return 0.0
    goal = math.log(target) - _SLACK

    def excess(log_mu: float) -> float:
        return max(float(_read(math.exp(log_mu), eps, 1)), -1e300) - goal

    low, high = 0.0, 0.0
    while excess(low) > 0.0:
        low -= 1.0
    while excess(high) <= 0.0:
        high += 1.0
    root = math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))
    mu, turn = root, 0
    while not (float(_read(mu, eps, 1)) <= goal and float(_read(mu, eps, 0)) <= target):
        mu, turn = root * (1.0 - 2.0 ** (turn - 52)), turn + 1
    return mu
