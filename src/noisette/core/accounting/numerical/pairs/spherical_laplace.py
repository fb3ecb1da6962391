"""Spherical Laplace noise (density proportional to e^{-κ|z|}) in d dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs.base import Pair
from noisette.core.accounting.numerical.pairs.laplace import LaplacePair
from noisette.core.mechanisms.spherical_laplace_curve import bessel_k_ratio

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


class _Shape(NamedTuple):
    """Panels in θ and the constants of the density."""

    knots: Floats
    ratio: float
    log_total: float


@dataclass(frozen=True)
class SphericalLaplacePair(Pair):
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

    epsilon: float
    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon))
        _validate.integer("dimension", self.dimension)

    @cached_property
    def _laplace(self) -> LaplacePair:
        return LaplacePair(self.epsilon)

    @cached_property
    def _shape(self) -> _Shape:
        grid = np.linspace(-math.pi / 2, math.pi / 2, 8001)[1:-1]
        ratio = 2 * (self.dimension - 1) / self.epsilon
        ratio *= bessel_k_ratio(self.dimension, self.epsilon / 2)
        values = self._log_density(grid, ratio)
        # keep everything above e^-700 of the peak under P or (mirrored) under Q
        seen = np.abs(grid[values > values.max() - 700.0]).max()
        reach = min(seen + 1e-3, math.pi / 2)
        panels = math.ceil(2 * reach / (0.3 / math.sqrt(self.dimension + self.epsilon)))
        knots = np.linspace(-reach, reach, panels + 1)
        shape = _Shape(knots, ratio, 0.0)
        theta, weight = _gauss(knots)
        values = self._log_density(theta, ratio)
        top = float(values.max())
        return shape._replace(
            log_total=top + math.log(float((weight * np.exp(values - top)).sum()))
        )

    def _log_density(self, theta: Floats, ratio: float) -> Floats:
        """Unnormalised log density of θ under P; log1p keeps log cos accurate for big d."""
        sine = np.sin(theta)
        square = sine * sine
        log_cos = 0.5 * np.log1p(-np.minimum(square, 0.5))
        steep = square >= 0.5
        log_cos[steep] = np.log(np.maximum(np.cos(theta[steep]), 1e-300))
        bump = np.log1p(-square / (1 + ratio))
        out = (self.dimension - 2) * log_cos + bump + (self.epsilon / 2) * sine
        return np.asarray(out, dtype=np.float64)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Gauss panels cut at the requested edges; shared nodes for P and Q."""
        if self.dimension == 1:
            return self._laplace.cells(edges)
        e = np.asarray(edges, dtype=np.float64)
        shape = self._shape
        cut = np.arcsin(np.clip(e / self.epsilon, -1.0, 1.0))
        inside = np.clip(cut, shape.knots[0], shape.knots[-1])
        knots = np.unique(np.concatenate((shape.knots, inside)))
        theta, weight = _gauss(knots)
        log_p = self._log_density(theta, shape.ratio) - shape.log_total
        p = weight * np.exp(log_p)
        q = weight * np.exp(log_p - self.epsilon * np.sin(theta))
        where = np.searchsorted(cut, (knots[1:] + knots[:-1]) / 2, side="left")
        P = np.asarray(
            np.bincount(where, weights=p.sum(axis=1), minlength=len(e) + 1), dtype=np.float64
        )
        Q = np.asarray(
            np.bincount(where, weights=q.sum(axis=1), minlength=len(e) + 1), dtype=np.float64
        )
        return P, Q

    @property
    def max_loss(self) -> float:
        """ε0."""
        return self.epsilon

    @property
    def min_loss(self) -> float:
        """-ε0."""
        return -self.epsilon

    @property
    def atom_spacing(self) -> float | None:
        """Atoms exist for d = 1 only."""
        return self.epsilon if self.dimension == 1 else None

    @property
    def tail_error(self) -> float:
        """Cells are sums of positive numbers."""
        return 0.0

    @property
    def cell_error(self) -> float:
        """Quadrature, Bessel ratio and rounding of a log density of size up to 700."""
        return 2e-13

    def swapped(self) -> Pair:
        """The pair is its own mirror image."""
        return self


def _gauss(knots: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights of shape (panels, 10)."""
    half = np.diff(knots)[:, None] / 2
    middle = (knots[1:] + knots[:-1])[:, None] / 2
    return middle + half * _NODES, half * _WEIGHTS
