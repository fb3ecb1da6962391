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
from noisette.core.accounting.numerical.noise_pairs import SphericalLaplacePair
from noisette.core.accounting.numerical.pairs import (
    LossTable,
    Mirrored,
    Pair,
    TablePair,
    bends,
    lower_hull,
)
from noisette.core.mechanisms.gaussian_curve import stated_delta
from noisette.core.mechanisms.objective_noise import ObjectiveNoise
from noisette.errors import Unproven

_POINTS = 16_384
_CHAIN_POINTS = 1_200
_PERSON_POINTS = 2_400
_TANGENTS = 48
_STRIDE = 8  # between the splits that are tried everywhere
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
        """The atoms; of persons, those of the envelope of PERSON-MEAN."""
        losses, p, lost = _law(self.mechanism, self.with_record)
        if self.mechanism.persons:
            grid = _grid(float(losses[-1]), _PERSON_POINTS)
            return table_from_curve(grid, _person_curve(losses, p, lost, grid))
        q = p * np.exp(-losses)
        return LossTable(losses, p, q, lost, max(0.0, 1.0 - float(q.sum())))

    def swapped(self) -> Pair:
        """Not offered: each order has its own bound, and only its own direction is proven."""
        raise Unproven("an order of objective perturbation cannot be swapped.")


def _additive_tail(mechanism: ObjectiveNoise, psi: Floats) -> Floats:
    """Return P(max_j psi_j > psi), relatively accurate (one psi unless softmax)."""
    shift = 1.0 / mechanism.noise_multiplier
    others = mechanism.classes - 1.0 if mechanism.shape == "softmax" else 1.0
    if mechanism.law == "spherical-laplace":
        assert mechanism.dimension is not None  # `pure_only` has another pair
        pair = SphericalLaplacePair(shift, mechanism.dimension)
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
    # The quadrature cannot follow the far tail; the union bound can.
    tail, bulk = np.minimum(union, 1.0), union >= 1e-6
    # equicorrelated with correlation 1/2: Z_j = (U + V_j)/sqrt 2
    nodes, weights = _normal_nodes()
    hit = -np.expm1(others * log_ndtr(math.sqrt(2.0) * standard[bulk, None] - nodes))
    tail[bulk] = np.minimum(union[bulk], hit @ weights * (1.0 + 1e-9))
    return np.asarray(tail)


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Floats, Floats]:
    """Return nodes and weights for means over N(0, 1), but those that weigh less than 1e-20."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / math.sqrt(2.0 * math.pi)
    seen = weights > 1e-20  # what is left out is far below the rounding up by 1e-9 of 1e-6
    return nodes[seen], weights[seen]


def _top(mechanism: ObjectiveNoise) -> float:
    """Return the largest psi that is tabulated."""
    shift = 1.0 / mechanism.noise_multiplier
    if mechanism.law != "gaussian":
        return shift
    top = shift * shift / 2.0 + _TAIL * shift
    if mechanism.shape == "softmax":
        top += shift * math.sqrt(2.0 * math.log(mechanism.classes))
    return top


@lru_cache(maxsize=4)  # both orders of one mechanism ask for it, one after the other
def _even_tail(mechanism: ObjectiveNoise) -> tuple[Floats, Floats]:
    """Return even steps of psi and `_additive_tail` there."""
    psi = np.linspace(0.0, _top(mechanism), _POINTS)
    return psi, _additive_tail(mechanism, psi)


@lru_cache(maxsize=128)
def _law(mechanism: ObjectiveNoise, with_record: bool) -> tuple[Floats, Floats, float]:
    """Return (losses >= 0, P-masses, P-mass beyond the last loss)."""
    k = mechanism.offset if with_record else 0.0
    if mechanism.shape == "self-bounded":
        losses = psi = np.linspace(0.0, max(_top(mechanism), k), _POINTS)
        if k > 0.0:  # the largest psi with M~(psi) <= loss
            psi = np.where(losses >= k, losses, 2.0 * np.sqrt(k * np.minimum(losses, k)) - k)
        tail = _additive_tail(mechanism, psi)
    else:
        # From psi to the loss, rounded up: the other way the atom at the largest psi gets lost.
        psi, tail = _even_tail(mechanism)
        losses = np.nextafter(k + psi, np.inf)
    if mechanism.shape == "two-signed" and (mechanism.persons or not with_record):
        tail = 2.0 * tail  # proof: TWO-SIGNED
    tail = np.minimum.accumulate(np.minimum(tail, 1.0))
    return losses, -np.diff(tail, prepend=1.0), float(tail[-1])


def _grid(reach: float, points: int) -> Floats:
    """Return the points at which a curve is bounded; beyond them it is infinite."""
    if reach > _LARGEST:
        raise Unproven(f"the curve of objective noise is computed up to epsilon {_LARGEST:g}.")
    return np.linspace(-reach, reach, 2 * points + 1)


def _person_curve(losses: Floats, p: Floats, lost: float, epsilons: Floats) -> Floats:
    """Return min over t >= 0 of e^-t E(Y - (e + t + 1 - e^t))_+ + lost, Y the law of one row.

    The loss L of a person is at most a weighted mean of copies of Y. The tangent at e + t of the
    concave branch of y -> (1 - e^{e - y})_+, cut at 0, is a convex, non-decreasing bound of it, and
    its mean at L is at most its mean at Y. Every t is valid; the grid only costs tightness.
    """
    # proof: PERSON-MEAN
    above = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    moment = np.append(np.cumsum((p * losses)[::-1])[::-1], 0.0)
    best = np.ones_like(epsilons)
    for t in np.append(0.0, np.geomspace(1e-3, 30.0, _TANGENTS)):
        start = epsilons + t - math.expm1(t)
        first = np.searchsorted(losses, start, side="right")
        excess = moment[first] - start * above[first]
        # The roundings of two sums of like size count against us.
        excess += 2.0**-51 * (len(p) + 64.0) * (moment[first] + np.abs(start) * above[first])
        best = np.minimum(best, math.exp(-t) * np.maximum(excess, 0.0) + lost)
    return best


@dataclass(frozen=True)
class ObjectiveReplaced(Mirrored, TablePair):
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
        grid = _grid(float(first.losses[-1] + second.losses[-1]), _CHAIN_POINTS)
        curve = np.minimum(_chained(first, second, grid), _exact_replace(self.mechanism, grid))
        # Both orders of replace-one neighbours are replace-one neighbours: use the better bound.
        mirrored = -np.expm1(np.minimum(grid, 0.0)) * (grid < 0) + np.exp(grid) * curve[::-1]
        curve = np.where(grid < 0, np.minimum(curve, mirrored), curve)
        return table_from_curve(grid, np.minimum(curve, 1.0))


def _exact_replace(mechanism: ObjectiveNoise, grid: Floats) -> Floats:
    """Return HS_{2 mu} where it is proven (Gaussian noise), 1 elsewhere."""
    # proof: OBJECTIVE-REPLACE
    out = np.ones_like(grid)
    proven = mechanism.shape in ("self-bounded", "one-signed") and not mechanism.persons
    if mechanism.law != "gaussian" or not proven:
        return out
    mu = 1.0 / mechanism.noise_multiplier
    shift, least = mechanism.offset, 0.0
    if mechanism.shape == "self-bounded":
        shift, least = 0.0, 2.0 * mechanism.curvature
    above = grid >= max(mu * mu + shift, least)
    out[above] = stated_delta(2.0 * mu, grid[above] - shift)
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
    """Return min over e1 on the grid of H_1(e1) + e^{e1} H_2(e - e1).

    Every e1 is valid, so that not all are tried: some for every e, then all beside its best one.
    """
    size = len(grid)
    h1, h2 = _hockey_stick(first, grid), _hockey_stick(second, grid)
    middle = size // 2  # grid[middle] == 0
    scaled = np.exp(grid)
    best, at = np.ones(size), np.full(size, middle)
    for j in range(0, size, _STRIDE):
        if h1[j] >= 1.0:
            continue
        # e - e1 = grid[i] - grid[j] = grid[i - j + middle]
        low, high = max(0, j - middle), min(size, size + j - middle)
        value = h1[j] + scaled[j] * h2[low - j + middle : high - j + middle]
        better = value < best[low:high]
        np.copyto(best[low:high], value, where=better)
        at[low:high][better] = j
    near = at[:, None] + np.arange(1 - _STRIDE, _STRIDE)
    rest = np.arange(size)[:, None] - near + middle
    inside = (near >= 0) & (near < size) & (rest >= 0) & (rest < size)
    near, rest = np.where(inside, near, middle), np.where(inside, rest, 0)
    value = np.where(inside, h1[near] + scaled[near] * h2[rest], 1.0)
    return np.asarray(np.minimum(best, value.min(axis=1)))


def table_from_curve(epsilons: Floats, deltas: Floats) -> LossTable:
    """Return the pair whose curve is the lower convex envelope of the points (e^e, delta).

    A true curve is convex in gamma = e^e and below every point, hence below the envelope of the
    points, and below its chords. The part beyond the last point is charged as infinite loss.
    """
    gammas = np.append(0.0, np.exp(epsilons))
    heights = np.append(1.0, deltas)
    hull = lower_hull(gammas, heights)
    g, h = gammas[hull], np.minimum.accumulate(heights[hull])
    q = bends(g, h)
    p = g[1:] * q
    infinite_p = max(float(h[-1]), 1.0 - float(p.sum()), 0.0)
    return LossTable(np.log(g[1:]), p, q, infinite_p, max(0.0, 1.0 - float(q.sum())))
