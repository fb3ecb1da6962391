"""The pairs of plain noises: Gaussian, Laplace, spherical Laplace, and of bounded range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs import ROUNDING, Mirrored, Support, cell_sums
from noisette.core.mechanisms.base import Checks
from noisette.core.mechanisms.spherical_laplace_curve import bessel_k_ratio

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def gaussian_cells(z: Floats) -> Floats:
    """Standard normal masses of (-inf, z0], (z0, z1], ..., (zk, inf), both tails accurate.

    Differences are taken in the tail that is smaller, so a cell far out on either side keeps its
    relative accuracy. Infinite entries of ``z`` are allowed.
    """
    low, high = ndtr(z), ndtr(-z)
    out = np.empty(len(z) + 1)
    out[0] = low[0]
    out[-1] = high[-1]
    out[1:-1] = np.where(z[1:] > 0, high[:-1] - high[1:], low[1:] - low[:-1])
    return out


@dataclass(frozen=True)
class GaussianPair(Mirrored):
    """P = N(μ, 1), Q = N(0, 1); L ~ N(μ²/2, μ²) under P.  # proof: GAUSS-EXACT

    ``mu`` = sensitivity / noise standard deviation. δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ).
    """

    mu: float

    checks: ClassVar[Checks] = {"mu": _validate.positive}

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """L <= ℓ iff x <= ℓ/μ + μ/2 for x ~ Q; under P the same with x - μ."""
        x = np.asarray(edges, dtype=np.float64) / self.mu
        half = self.mu / 2
        return gaussian_cells(x - half), gaussian_cells(x + half)

    def reading(self, epsilon: float) -> tuple[float, float]:
        """Exact profile in the log domain for every ε; what its two terms lose by cancelling."""
        a, half = epsilon / self.mu, self.mu / 2
        high = float(ndtr(half - a))
        low = min(high, math.exp(min(epsilon + float(log_ndtr(-half - a)), 0.0)))
        return max(high - low, 0.0), 2 * ROUNDING * (1 + a * a + abs(epsilon)) * (high + low)


@dataclass(frozen=True)
class _PurePair(Mirrored):
    """A pair with losses in [-ε, ε], whose cells are sums and products of positive numbers."""

    epsilon: float

    checks: ClassVar[Checks] = {"epsilon": _validate.positive}

    @property
    def support(self) -> Support:
        """From -ε to ε."""
        return Support(-self.epsilon, self.epsilon)

    def _knots(self, e: Floats) -> tuple[Floats, Floats]:
        """Return the left and the right end of each cell, cut to [-ε, ε]."""
        top = self.epsilon
        knots = np.clip(np.concatenate(([-top], e, [top])), -top, top)
        return knots[:-1], knots[1:]


class LaplacePair(_PurePair):
    """Lap(1) against Lap(1) shifted by ε0 = sensitivity / scale.  # proof: LAPLACE-1D

    P(L <= ℓ) = e^{(ℓ-ε0)/2}/2 for -ε0 <= ℓ < ε0, atoms P(L=ε0) = 1/2, P(L=-ε0) = e^{-ε0}/2; the
    pair is symmetric. Interior masses are products, so no tail loses accuracy.
    """

    errors = 0.0, ROUNDING  # no tails cancel

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Interior density e^{(ℓ-ε0)/2}/4 under P plus the two atoms."""
        e = np.asarray(edges, dtype=np.float64)
        top, (a, b) = self.epsilon, self._knots(e)
        share = -0.5 * np.expm1((a - b) / 2)
        P = np.exp((b - top) / 2) * share
        Q = np.exp(-(a + top) / 2) * share
        small = 0.5 * math.exp(-top)
        low, high = (int(i) for i in np.searchsorted(e, [-top, top], side="left"))
        P[low] += small
        Q[low] += 0.5
        P[high] += 0.5
        Q[high] += small
        return P, Q

    @property
    def atom_spacing(self) -> float:
        """Both atoms are multiples of ε0."""
        return self.epsilon


class BoundedRange(_PurePair):
    """The worst pair of all mechanisms of range eta = ``epsilon``, for exponential mechanisms.

    Its curve is (e^{eta/2} - e^{eps/2})^2 / (e^eta - 1) for all |eps| <= eta.

    That curve is the pointwise maximum over all mechanisms of range eta; a maximum of convex
    curves is convex, hence the curve of a pair, which dominates every one of them and composes
    (convolving one fixed two-point law would not). With a = e^{eta/2} the loss has the density
    e^{l/2}/(2 (a - 1/a)) under P and e^{-l/2}/(2 (a - 1/a)) under Q on [-eta, eta]: symmetric.
    """

    # proof: EXPONENTIAL-BR
    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Masses e^{b/2} (1 - e^{(a-b)/2}) / (2 sinh(eta/2)) under P, mirrored under Q."""
        eta, (a, b) = self.epsilon, self._knots(np.asarray(edges, dtype=np.float64))
        share = np.expm1((a - b) / 2.0) / np.expm1(-eta)
        return np.exp((b - eta) / 2.0) * share, np.exp(-(a + eta) / 2.0) * share

    @property
    def errors(self) -> tuple[float, float]:
        """Each exponent of a mass, up to eta in size, is rounded."""
        return 0.0, ROUNDING * (2.0 + self.epsilon)


@dataclass(frozen=True)
class SphericalLaplacePair(_PurePair):
    """Noise ∝ e^{-|z|} on R^d against its shift by ε0 = κ · sensitivity.  # proof: SPHERICAL-ANGLE

    In prolate spheroidal coordinates with foci 0 and ε0·e1, ξ = (|z|+|z-ε0e1|)/ε0 and
    L = |z-ε0e1| - |z| = ε0 sin θ, the density is e^{-ε0ξ/2 + L/2} and the volume element
    (ξ²-sin²θ)[(ξ²-1)cos²θ]^{(d-3)/2} cos θ dξ dθ. Integrating ξ over (1, inf) gives Bessel K:

        P(dθ) ∝ cos^{d-2}θ (cos²θ + c) e^{(ε0/2) sin θ} dθ,   θ in (-π/2, π/2), d >= 2,
        c = (2(d-1)/ε0) K_{d/2}(ε0/2) / K_{d/2-1}(ε0/2),

    and Q is its mirror image. The integrand is analytic, so Gauss panels of width 0.3/√(d+ε0)
    give full relative accuracy in both tails; P and Q use the same nodes, so p/q of a cell can
    never leave the cell. d = 1 is the Laplace pair.
    """

    dimension: int

    errors = 0.0, 2e-13  # quadrature, Bessel ratio and rounding of a log density of size up to 700
    checks: ClassVar[Checks] = {**_PurePair.checks, "dimension": _validate.integer}

    @cached_property
    def _shape(self) -> tuple[Floats, float, float]:
        """Panels in θ, the constant c and the logarithm of the total mass."""
        grid = np.linspace(-math.pi / 2, math.pi / 2, 8001)[1:-1]
        ratio = 2 * (self.dimension - 1) / self.epsilon
        ratio *= bessel_k_ratio(self.dimension, self.epsilon / 2)
        values = self._log_density(grid, ratio)
        # keep everything above e^-700 of the peak under P or (mirrored) under Q
        seen = np.abs(grid[values > values.max() - 700.0]).max()
        reach = min(seen + 1e-3, math.pi / 2)
        panels = math.ceil(2 * reach / (0.3 / math.sqrt(self.dimension + self.epsilon)))
        knots = np.linspace(-reach, reach, panels + 1)
        theta, weight = _gauss(knots)
        values = self._log_density(theta, ratio)
        top = float(values.max())
        return knots, ratio, top + math.log(float((weight * np.exp(values - top)).sum()))

    def _log_density(self, theta: Floats, ratio: float) -> Floats:
        """Unnormalised log density of θ under P; log1p keeps log cos accurate for big d."""
        sine = np.sin(theta)
        square = sine * sine
        log_cos = 0.5 * np.log1p(-np.minimum(square, 0.5))
        steep = square >= 0.5
        log_cos[steep] = np.log(np.maximum(np.cos(theta[steep]), 1e-300))
        bump = np.log1p(-square / (1 + ratio))
        return np.asarray((self.dimension - 2) * log_cos + bump + (self.epsilon / 2) * sine)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Gauss panels cut at the requested edges; shared nodes for P and Q."""
        if self.dimension == 1:
            return LaplacePair(self.epsilon).cells(edges)
        e = np.asarray(edges, dtype=np.float64)
        panels, ratio, log_total = self._shape
        cut = np.arcsin(np.clip(e / self.epsilon, -1.0, 1.0))
        knots = np.unique(np.concatenate((panels, np.clip(cut, panels[0], panels[-1]))))
        theta, weight = _gauss(knots)
        log_p = self._log_density(theta, ratio) - log_total
        p = weight * np.exp(log_p)
        q = weight * np.exp(log_p - self.epsilon * np.sin(theta))
        where = np.searchsorted(cut, (knots[1:] + knots[:-1]) / 2, side="left")
        return cell_sums(where, p.sum(axis=1), len(e)), cell_sums(where, q.sum(axis=1), len(e))

    @property
    def atom_spacing(self) -> float | None:
        """Atoms exist for d = 1 only."""
        return self.epsilon if self.dimension == 1 else None


def _gauss(knots: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights of shape (panels, 10)."""
    half = np.diff(knots)[:, None] / 2
    return (knots[1:] + knots[:-1])[:, None] / 2 + half * _NODES, half * _WEIGHTS
