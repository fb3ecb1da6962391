"""The law of the loss of objective perturbation, as pairs that compose.

The single-release theorem is *not* a pair: composing it as if it were one under-counts (the review
measured factors up to 570). What composes is the pointwise bound of `ObjectiveNoise`, a function
M(psi) of the additive loss psi: its law under P, with the missing Q-mass on a P-null atom.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from noisette._typing import Floats
from noisette.accounting import numerical as engine
from noisette.accounting.numerical.pairs.discrete import LossTable, TablePair
from noisette.errors import Unproven
from noisette.mechanisms.gaussian_curve import stated_delta
from noisette.mechanisms.objective_noise import ObjectiveNoise

__all__ = ["ObjectiveReplaced", "ObjectiveTable"]


_POINTS = 16_384
_CHAIN_POINTS = 1_200
_LARGEST = 700.0  # its exponential is still a number
_TAIL = 9.5  # standard deviations; the mass beyond is charged as infinite loss


@dataclass(frozen=True)
class ObjectiveTable(TablePair):
    """One order of objective perturbation under zero-out or add-remove, losses rounded up.

    ``with_record`` says whether P is the data set that holds the record (then the determinant
    counts). Atom i holds the P-mass of M in (l_{i-1}, l_i] at l_i, and e^{-l_i} times it under Q;
    the rest of Q sits at loss minus infinity.
    """

    # proof: OBJECTIVE-PERTURBATION
    mechanism: ObjectiveNoise
    with_record: bool

    @cached_property
    def table(self) -> LossTable:
        """The atoms."""
        losses, p, lost = _law(self.mechanism, self.with_record)
        q = p * np.exp(-losses)
        return LossTable(losses, p, q, lost, max(0.0, 1.0 - float(q.sum())))

    def swapped(self) -> engine.Pair:
        """Not offered: each order has its own bound, and only its own direction is proven."""
        raise Unproven("an order of objective perturbation cannot be swapped.")


def _additive_tail(mechanism: ObjectiveNoise, psi: Floats) -> Floats:
    """Return P(max_j psi_j > psi), relatively accurate (one psi unless softmax)."""
    shift = 1.0 / mechanism.noise_multiplier
    others = mechanism.classes - 1.0 if mechanism.shape == "softmax" else 1.0
    if mechanism.law == "spherical-laplace":
        pair = engine.SphericalLaplacePair(shift, mechanism.dimension)
        cells = pair.cells(np.clip(psi, -shift, shift))[0]
        above = np.cumsum(cells[::-1])[::-1][1:]
        above = np.where(psi >= shift, 0.0, above) * (1.0 + 1e-9)
        return np.minimum(1.0, others * above)  # union bound over the vertices
    standard = (psi - shift * shift / 2.0) / shift
    if others == 1.0:
        return np.asarray(ndtr(-standard))
    union = others * ndtr(-standard)
    if others > 49.0:  # 120 nodes follow the law of the maximum for up to 50 classes
        return np.asarray(np.minimum(union, 1.0))
    # equicorrelated with correlation 1/2: Z_j = (U + V_j)/sqrt 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    hit = -np.expm1(others * log_ndtr(math.sqrt(2.0) * standard[:, None] - nodes))
    exact = hit @ weights / math.sqrt(2.0 * math.pi) * (1.0 + 1e-9)
    # The quadrature cannot follow the far tail; the union bound can.
    return np.asarray(np.where(union < 1e-6, union, np.minimum(exact, union)))


def _preimage(loss: Floats, k: float) -> Floats:
    """Return the largest psi with M~(psi) <= loss, loss >= 0 (self-bounded, P with record)."""
    middle = 2.0 * np.sqrt(k * np.minimum(loss, k)) - k
    return np.asarray(np.where(loss >= k, loss, middle))


@lru_cache(maxsize=128)
def _law(mechanism: ObjectiveNoise, with_record: bool) -> tuple[Floats, Floats, float]:
    """Return (losses >= 0, P-masses, P-mass beyond the last loss)."""
    shift = 1.0 / mechanism.noise_multiplier
    k = mechanism.offset if with_record else 0.0
    if mechanism.law == "gaussian":
        top = shift * shift / 2.0 + _TAIL * shift
        if mechanism.shape == "softmax":
            top += shift * math.sqrt(2.0 * math.log(mechanism.classes))
    else:
        top = shift
    if mechanism.shape == "self-bounded":
        losses = np.linspace(0.0, max(top, k), _POINTS)
        psi = _preimage(losses, k) if k > 0.0 else losses
    else:
        losses = k + np.linspace(0.0, top, _POINTS)
        psi = losses - k
    tail = np.minimum.accumulate(np.minimum(_additive_tail(mechanism, psi), 1.0))
    return losses, -np.diff(tail, prepend=1.0), float(tail[-1])


@dataclass(frozen=True)
class ObjectiveReplaced(TablePair):
    """Objective perturbation under replace-one: with x -> without -> with x', best split.

    delta(e) <= min over e1 of H_1(e1) + e^{e1} H_2(e - e1), H_1 and H_2 the curves of the two
    orders; the lower convex envelope in e^e of that bound is the curve of a pair, which is
    symmetric and dominates both orders.
    """

    # proof: TWO-CHANGES
    mechanism: ObjectiveNoise

    @cached_property
    def table(self) -> LossTable:
        """The atoms of the envelope."""
        first = ObjectiveTable(self.mechanism, True).table
        second = ObjectiveTable(self.mechanism, False).table
        reach = float(first.losses[-1] + second.losses[-1])
        if reach > _LARGEST:
            raise Unproven(f"the curve of objective noise is computed up to epsilon {_LARGEST:g}.")
        grid = np.linspace(-reach, reach, 2 * _CHAIN_POINTS + 1)
        curve = np.minimum(_chained(first, second, grid), _exact_replace(self.mechanism, grid))
        # Both orders of replace-one neighbours are replace-one neighbours: use the better bound.
        mirrored = -np.expm1(np.minimum(grid, 0.0)) * (grid < 0) + np.exp(grid) * curve[::-1]
        curve = np.where(grid < 0, np.minimum(curve, mirrored), curve)
        return table_from_curve(grid, np.minimum(curve, 1.0))

    def swapped(self) -> engine.Pair:
        """Return itself."""
        return self


def _exact_replace(mechanism: ObjectiveNoise, grid: Floats) -> Floats:
    """Return HS_{2 mu} where it is proven (Gaussian noise), 1 elsewhere."""
    # proof: OBJECTIVE-REPLACE
    out = np.ones_like(grid)
    if mechanism.law != "gaussian" or mechanism.shape == "softmax":
        return out
    mu = 1.0 / mechanism.noise_multiplier
    shift = mechanism.offset if mechanism.shape == "one-signed" else 0.0
    least = mu * mu + shift
    if mechanism.shape == "self-bounded":
        least = max(least, 2.0 * mechanism.curvature)
    proven = grid >= least
    out[proven] = stated_delta(2.0 * mu, grid[proven] - shift)
    return out


def _hockey_stick(table: LossTable, epsilons: Floats) -> Floats:
    """Return sum_i p_i (1 - e^{e - l_i})_+ + p_inf for sorted losses, every real e."""
    p_above = np.append(np.cumsum(table.p[::-1])[::-1], 0.0)
    q_above = np.append(np.cumsum(table.q[::-1])[::-1], 0.0)
    first = np.searchsorted(table.losses, epsilons, side="right")
    p, q = p_above[first], np.exp(epsilons) * q_above[first]
    # Near the largest loss p and q agree in most digits: their roundings count against us.
    value = p - q + 2.0**-51 * (len(table.p) + 64.0 + np.abs(epsilons)) * (p + q)
    # below every loss the missing Q-mass does not count: delta <= 1 - e^e Q(finite)
    return np.asarray(np.clip(value, 0.0, 1.0) + table.infinite_p)


def _chained(first: LossTable, second: LossTable, grid: Floats) -> Floats:
    """Return min over e1 on the grid of H_1(e1) + e^{e1} H_2(e - e1)."""
    size = len(grid)
    h1, h2 = _hockey_stick(first, grid), _hockey_stick(second, grid)
    middle = size // 2  # grid[middle] == 0
    best = np.ones(size)
    scaled = np.exp(grid)
    for j in range(size):
        if h1[j] >= 1.0:
            continue
        # e - e1 = grid[i] - grid[j] = grid[i - j + middle]
        i = np.arange(max(0, j - middle), min(size, size + j - middle))
        best[i] = np.minimum(best[i], h1[j] + scaled[j] * h2[i - j + middle])
    return best


def table_from_curve(epsilons: Floats, deltas: Floats) -> LossTable:
    """Return the pair whose curve is the lower convex envelope of the points (e^e, delta).

    A true curve is convex in gamma = e^e and below every point, hence below the envelope of the
    points, and below its chords. The part beyond the last point is charged as infinite loss.
    """
    gamma = np.append(0.0, np.exp(epsilons))
    height = np.append(1.0, deltas)
    hull: list[int] = []
    for i in range(len(gamma)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            left = (height[b] - height[a]) * (gamma[i] - gamma[b])
            if left < (height[i] - height[b]) * (gamma[b] - gamma[a]):
                break
            hull.pop()
        hull.append(i)
    g, h = gamma[hull], np.minimum.accumulate(height[hull])
    slopes = np.append(np.diff(h) / np.diff(g), 0.0)
    q = np.maximum(np.diff(slopes), 0.0)
    inner = g[1:]
    losses = np.log(inner)
    p = inner * q
    infinite_p = max(float(h[-1]), 1.0 - float(p.sum()), 0.0)
    return LossTable(losses, p, q, infinite_p, max(0.0, 1.0 - float(q.sum())))
