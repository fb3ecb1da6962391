"""One epoch of random allocation ("balls and bins"), zero-out and add-remove adjacency."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.lattice import dominating as connect_the_dots
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.pairs import LossTable, Pair, TablePair
from noisette.errors import InvalidParameter

TAIL = 1e-22  # P- or Q-mass that a grid may leave outside; it is charged, not lost
GROWTH = 0.005  # relative spacing of the grid in log W far from W = 1
PER_DEVIATION = 60.0  # grid points per standard deviation of log W


class _Mean(NamedTuple):
    """Law under Q of W = mean of ``terms`` lognormals: atoms (values, mass), 0 first if present.

    ``lost`` is the P-mass E(W - largest value)_+ moved to infinite loss.
    """

    terms: int
    values: Floats
    mass: Floats
    lost: float


@dataclass(frozen=True)
class RandomAllocationPair(TablePair):
    """P = (1/l) Σ_t N(e_t, z²I_l), Q = N(0, z²I_l): one epoch, record in P.  # proof: ALLOCATION-A

    W = dP/dQ is under Q the mean of l independent lognormals exp(N(-1/(2z²), 1/z²)). Each is put on
    a grid by mean-preserving splits (``dominating=True``: larger in convex order, so the pair
    dominates in both orders) or by merging cells (``dominating=False``: dominated). Means are
    built by doubling; every sum is put back on a fresh grid by the same kind of step, which
    preserves the order. All operations add non-negative numbers, so there is no Fourier rounding
    and both tails keep relative accuracy. Mass cut at the top is P-mass at +inf, mass split to
    W = 0 is Q-mass at -inf. One batch is no allocation: that is the Gaussian pair.

    ``swapped()`` is the other order (record absent in the first argument).
    """

    batches: int
    noise_multiplier: float
    dominating: bool = True
    resolution: float = 1.0

    def __post_init__(self) -> None:
        _validate.integer("batches", self.batches, least=2)
        _validate.fields(self, noise_multiplier=_validate.positive)
        if self.noise_multiplier < 0.05:
            raise InvalidParameter(
                f"noise_multiplier must be at least 0.05 here; got {self.noise_multiplier!r}."
            )

    @cached_property
    def table(self) -> LossTable:
        """Atoms of log W with the infinite parts."""
        law = _mean_law(
            int(self.batches), 1 / self.noise_multiplier, self.dominating, self.resolution
        )
        alive = (law.values > 0) & (law.mass > 0)
        w, q = law.values[alive], law.mass[alive]
        return LossTable(np.log(w), w * q, q, law.lost, float(law.mass[law.values == 0].sum()))

    @property
    def errors(self) -> tuple[float, float]:
        """Masses err by 8u l (a mean has the errors of its halves and four roundings; l - 1 means),
        values by 4u for each of at most 2 log2 l means; the sum over a cell comes on top.
        """
        return 0.0, 1e-13 + 1e-15 * self.batches + super().errors[1]

    def refined(self) -> Pair | None:
        """Twice the grid points, up to four times the default."""
        return None if self.resolution >= 4 else replace(self, resolution=2 * self.resolution)


@lru_cache(maxsize=64)
def _mean_law(terms: int, s: float, upper: bool, resolution: float) -> _Mean:
    """Left-to-right binary chain: double, and add one term where the binary digit is 1."""
    single = _single(s, upper, resolution)
    law = single
    for digit in bin(terms)[3:]:
        law = _average(law, law, s, upper, resolution)
        if digit == "1":
            law = _average(law, single, s, upper, resolution)
    return law


def _single(s: float, upper: bool, resolution: float) -> _Mean:
    """One lognormal exp(N(-s²/2, s²)) on a grid in log W."""
    reach = s * s / 2 + 9.6 * s
    x = _log_grid(-reach, reach, s / (PER_DEVIATION * resolution), GROWTH / resolution)
    pair = GaussianPair(s)
    P, Q = pair.cells(x)
    if upper:
        masses, lost = connect_the_dots(pair, x)
        zero = max(float(Q[0] - P[0] * math.exp(-x[0])), 0.0)
        values = np.concatenate(([0.0], np.exp(x)))
        return _Mean(1, values, np.concatenate(([zero], masses * np.exp(-x))), lost)
    alive = (Q > 1e-300) & (P > 1e-300)
    return _Mean(1, P[alive] / Q[alive], Q[alive], 0.0)


def _average(a: _Mean, b: _Mean, s: float, upper: bool, resolution: float) -> _Mean:
    """Law of the mean of a.terms + b.terms lognormals, on a fresh grid."""
    from noisette.core.accounting.numerical.kernels import spread_means  # loads numba

    terms = a.terms + b.terms
    share = a.terms / terms
    # A range that holds all but TAIL: a mean above x needs one of its two halves above x.
    low, high = math.inf, -math.inf
    for law in (a, b):
        there = np.nonzero(law.values > 0)[0]
        w, q = law.values[there], law.mass[there]
        left = int(np.searchsorted(np.cumsum(q), TAIL))
        right = int(np.searchsorted(np.cumsum((w * q)[::-1]), TAIL))
        low = min(low, float(w[min(left, len(w) - 1)]))
        high = max(high, float(w[max(len(w) - 1 - right, 0)]))
    deviation = min(s, math.sqrt(math.expm1(min(s * s, 600.0)) / terms))
    x = _log_grid(
        math.log(low), math.log(high), deviation / (PER_DEVIATION * resolution), GROWTH / resolution
    )
    grid = np.concatenate(([0.0], np.exp(x)))
    first, second = np.zeros(len(grid) + 1), np.zeros(len(grid) + 1)
    lost = share * a.lost + (1 - share) * b.lost
    lost += spread_means(
        a.values, a.mass, b.values, b.mass, share, a is b, grid, upper, first, second
    )
    if upper:
        return _Mean(terms, grid, first[:-1], lost)
    alive = first > 1e-300
    return _Mean(terms, second[alive] / first[alive], first[alive], 0.0)


def _log_grid(low: float, high: float, spacing: float, growth: float) -> Floats:
    """Points (spacing/growth) sinh(growth·u), u integer, covering [low, high]."""
    scale = spacing / growth
    first = math.floor(math.asinh(low / scale) / growth)
    last = max(math.ceil(math.asinh(high / scale) / growth), first + 2)
    return np.asarray(scale * np.sinh(growth * np.arange(first, last + 1)), dtype=np.float64)
