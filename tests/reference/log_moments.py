"""The moment function log E_P exp(sL) of a pair, at real and complex orders s of any shape.

The lattice engine does without; here it is for `complex_orders`, the independent check of it. The
principal branch is followed from 0.
"""

import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.core.accounting.numerical.noise_pairs import (
    BoundedRange,
    GaussianPair,
    LaplacePair,
    SphericalLaplacePair,
    _gauss,
)
from noisette.core.accounting.numerical.pairs import Pair, Swapped, TablePair
from noisette.core.accounting.numerical.sampled_pairs import PoissonReplace, PoissonSampled

Complexes = NDArray[np.complex128]


def has_log_moment(pair: Pair) -> bool:
    """Whether `log_moment` knows the pair."""
    if isinstance(pair, Swapped):
        return has_log_moment(pair.base)
    if isinstance(pair, PoissonSampled):
        return isinstance(pair.base, GaussianPair)
    return log_moment.dispatch(type(pair)) is not log_moment.dispatch(object)


@singledispatch
def log_moment(pair: Any, s: Any) -> Complexes:
    """Return log E_P exp(sL)."""
    raise NotImplementedError(f"{type(pair).__name__} offers no closed moment function")


@log_moment.register
def _(pair: GaussianPair, s: Any) -> Complexes:
    """μ² s(s+1)/2."""
    z = np.asarray(s)
    return np.asarray(pair.mu**2 * z * (z + 1) / 2, dtype=np.complex128)


@log_moment.register
def _(pair: LaplacePair, s: Any) -> Complexes:
    """log[ (s+1)/(2s+1) e^{sε0} + s/(2s+1) e^{-(s+1)ε0} ], by continuity at s = -1/2."""
    z = np.asarray(s, dtype=np.complex128)
    z = np.where(np.abs(2 * z + 1) < 1e-9, -0.5 + 1e-9, z)
    top = np.maximum((z * pair.epsilon).real, (-(z + 1) * pair.epsilon).real)
    first = (z + 1) * np.exp(z * pair.epsilon - top)
    second = z * np.exp(-(z + 1) * pair.epsilon - top)
    return np.asarray(top + np.log((first + second) / (2 * z + 1)), dtype=np.complex128)


@log_moment.register
def _(pair: SphericalLaplacePair, s: Any) -> Complexes:
    """Logarithm of ∫ e^{sL} dP by the same panels (d = 1: closed form)."""
    if pair.dimension == 1:
        return log_moment(LaplacePair(pair.epsilon), s)
    z = np.asarray(s, dtype=np.complex128)
    knots, ratio, log_total = pair._shape
    theta, weight = (a.ravel() for a in _gauss(knots))
    base = pair._log_density(theta, ratio) - log_total + np.log(weight)
    a = z[..., None] * (pair.epsilon * np.sin(theta)) + base
    top = a.real.max(axis=-1)
    return np.asarray(top + np.log(np.exp(a - top[..., None]).sum(axis=-1)), np.complex128)


@log_moment.register
def _(pair: TablePair, s: Any) -> Complexes:
    """Logarithm of Σ p e^{s loss} over the finite atoms."""
    t = pair.table
    z = np.asarray(s, dtype=np.complex128)
    a = z[..., None] * t.losses
    top = a.real.max(axis=-1)
    total = np.exp(a - top[..., None]) @ t.p.astype(np.complex128)
    return np.asarray(top + np.log(total), dtype=np.complex128)


@log_moment.register
def _(pair: PoissonSampled, s: Any) -> Complexes:
    """Log E_Q (1-q+q e^L)^{s+1} by the trapezoid rule in x ~ N(0, 1), Gaussian base."""
    if not isinstance(pair.base, GaussianPair):
        return log_moment.dispatch(object)(pair, s)
    z = np.asarray(s, dtype=np.complex128)
    flat = z.reshape(-1)
    mu, q = pair.base.mu, pair.rate
    reach = max(float(flat.real.max(initial=0.0)) + 1, 0.0) * mu
    # also cover Re s < -1, where the tilt can only pull towards smaller x by a bounded factor
    step = 0.04
    x = np.arange(-12.0, 12.0 + reach + step, step)
    with np.errstate(divide="ignore"):
        loss = np.logaddexp(np.log1p(-q), math.log(q) + mu * x - mu * mu / 2)
    weight = -x * x / 2 + math.log(step / math.sqrt(2 * math.pi))
    a = (flat[:, None] + 1) * loss + weight
    top = a.real.max(axis=1)
    total = np.exp(a - top[:, None]).sum(axis=1)
    total = np.where(total == 0, 1e-300, total)  # complete cancellation, not a log(0)
    return np.asarray(top + np.log(total), dtype=np.complex128).reshape(z.shape)


@log_moment.register
def _(pair: PoissonReplace, s: Any) -> Complexes:
    """Logarithm of E_P e^{sL} by the trapezoid rule in x."""
    w = np.asarray(s, dtype=np.complex128)
    flat = w.reshape(-1)
    q, shift = pair.rate, 1 / pair.noise_multiplier
    reach = 12.0 + shift * (2 + 2 * float(np.abs(flat.real).max(initial=0.0)))
    x = np.arange(-reach, reach, 0.02)
    with np.errstate(divide="ignore"):
        rest = np.log1p(-q)
    log_p = np.logaddexp(rest, math.log(q) + shift * x - shift**2 / 2)
    log_q = np.logaddexp(rest, math.log(q) - shift * x - shift**2 / 2)
    base = log_p - x * x / 2 + math.log(0.02 / math.sqrt(2 * math.pi))
    a = flat[:, None] * (log_p - log_q) + base
    top = a.real.max(axis=1)
    total = np.exp(a - top[:, None]).sum(axis=1)
    total = np.where(total == 0, 1e-300, total)  # complete cancellation, not a log(0)
    return np.asarray(top + np.log(total), dtype=np.complex128).reshape(w.shape)


@log_moment.register
def _(pair: BoundedRange, s: Any) -> Complexes:
    """Return log[sinh((s + 1/2) eta) / ((2 s + 1) sinh(eta/2))]."""
    z = np.asarray(s, dtype=np.complex128) + 0.5
    z = np.where(np.abs(z) < 1e-9, 1e-9, z)
    z = np.where(z.real < 0.0, -z, z)  # even in z
    ratio = -np.expm1(-2.0 * z * pair.epsilon) / (2.0 * z * -np.expm1(-pair.epsilon))
    return np.asarray((z - 0.5) * pair.epsilon + np.log(ratio), dtype=np.complex128)


@log_moment.register
def _(pair: Swapped, s: Any) -> Complexes:
    """E_Q e^{-sL} = E_P e^{-(s+1)L}."""
    return log_moment(pair.base, -1.0 - np.asarray(s))
