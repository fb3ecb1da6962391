"""Lattice pairs above and below a given pair, each with its certificate."""

from __future__ import annotations

import numpy as np

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs import Pair, bends, conditioned, lower_hull

CONSISTENCY = 1e-9  # relative; cell masses must obey e^a q <= p <= e^b q this closely
CONSISTENCY_FLOOR = 1e-15  # absolute
LOWER_SHRINK = 1e-12  # the dominated masses are scaled by 1 - this, to absorb rounding
EQUAL = 1e-14  # an atom exactly on the lattice may miss its loss by rounding
LOWER_TOLERANCE = 1e-13  # rounding allowed in the a-posteriori certificate, relative to P(L > e)


class CertificateError(RuntimeError):
    """Internal error: the masses of a pair contradict each other, so no bound can be trusted."""


def dominating(pair: Pair, x: Floats) -> tuple[Floats, float]:
    """Connect the dots: a pair on the losses ``x`` that dominates ``pair``.  # proof: CTD-UPPER

    Cell (x_i, x_{i+1}] with masses p, q becomes two atoms with the same P- and Q-mass: weight
    r = (p - q e^{x_i}) / (1 - e^{x_i - x_{i+1}}) at x_{i+1} and p - r at x_i. Mass left of x_0
    moves up to x_0; of the mass right of x_max the part q e^{x_max} sits at x_max and the rest
    has infinite loss. Rounding of the cell masses is covered by moving (and adding) the stated
    error of each cell upwards, which can only increase the divergence.

    ``x`` increases, has at least two entries and stays below ``LARGEST_LOSS``. Returns the P-mass
    at each x (Q-mass is e^{-x} times that) and that of infinite loss; `CertificateError` if the
    cells break e^{x_i} q <= p <= e^{x_{i+1}} q: nothing is clipped silently.
    """
    P, Q = pair.cells(x)
    p, q = P[1:-1], Q[1:-1]
    g = np.exp(x)
    floor = q * g[:-1]
    allowed = CONSISTENCY * p + CONSISTENCY_FLOOR
    if (floor > p + allowed).any() or (p > q * g[1:] + allowed).any() or not (P >= 0).all():
        raise CertificateError(f"Inconsistent loss cells from {pair!r}: p/q leaves its cell.")
    width = -np.expm1(x[:-1] - x[1:])
    tail, cell = pair.errors
    error = _cell_errors(P, tail, cell)[1:-1] + g[:-1] * _cell_errors(Q, tail, cell)[1:-1]
    r = np.clip((p - floor + error) / width, 0.0, p + error)
    masses = np.zeros(len(x))
    masses[1:] = r
    masses[:-1] += np.maximum(p + error - r, 0.0)
    masses[0] += P[0] * (1 + cell)
    kept = min(float(P[-1]), float(Q[-1] * g[-1]))
    masses[-1] += kept
    # an infinite atom hidden in the last cell is known exactly; rounding must not shrink it
    rest = float(P[-1]) * (1 + tail + cell) - kept
    return masses, max(rest, pair.support.infinite_p)


def _cell_errors(masses: Floats, tail: float, cell: float) -> Floats:
    """Bound on the rounding error of each cell mass (see ``Pair.errors``)."""
    error = cell * masses
    if tail:
        # the tail on the smaller side of each cell, the cell included
        left = np.cumsum(masses)
        right = np.cumsum(masses[::-1])[::-1]
        error = error + tail * conditioned(np.minimum(left, right))
    return error


def dominated(pair: Pair, x: Floats) -> Floats | None:
    """A pair on the losses ``x`` that ``pair`` dominates, or None.  # proof: LOWER-LATTICE

    Supporting lines T_e(γ) = P(L > e) - γ Q(L > e) <= H(γ) are taken at one e between each two
    neighbours of x, at e = -inf and at e = +inf (the zero line). A polygon with kinks at
    g_i = e^{x_i} whose heights w_i = min(T_{i-1/2}(g_i), T_{i+1/2}(g_i)) lie under one common
    line on every segment is below H; its lower convex hull is the profile of finite measures on the
    lattice, and dominance of finite measures composes. With c_i = p_i - g_i q_i over the cell
    around x_i the masses are
    Q̃_i = q_i - (c⁺_{i+1} + c⁻_i)/(g_{i+1}-g_i) + (c⁺_i + c⁻_{i-1})/(g_i-g_{i-1}), P̃ = g Q̃,
    which avoids second differences of H. The result is checked against the heights afterwards;
    None means that no non-trivial bound could be certified. The infinite part of the pair is left
    out here: the caller adds ``pair.support.infinite_p``.
    """
    p, q, g = *_balanced_cells(pair, x), np.exp(x)
    # Left of the first kink the line 1 - γ must be kept exactly: a height below it would tilt the
    # hull all the way to γ = 0. So cells are merged until their mean loss is below the kink.
    low_p, low_q = np.cumsum(p), np.cumsum(q)
    below = np.nonzero((low_q > 0) & (low_p <= g * low_q * (1 + EQUAL)))[0]
    if len(below) == 0:
        return None
    first = int(below[0])
    p[:first], q[:first] = 0.0, 0.0
    p[first], q[first] = low_p[first], low_q[first]
    # tails P(L > e_{i-1/2}); the line through the left end of cell i, evaluated at g_i
    tail_p, tail_q = np.cumsum(p[::-1])[::-1], np.cumsum(q[::-1])[::-1]
    left_line = tail_p - g * tail_q
    negative = np.nonzero(left_line < -EQUAL * tail_p)[0]
    top = int(negative[0]) if len(negative) else len(x)
    if top < 2:
        return None
    # Above the last usable kink all cells are merged: the zero line takes over from there.
    p, q, g = p[:top], q[:top], g[:top]
    p[-1], q[-1] = tail_p[top - 1], tail_q[top - 1]
    c = p - g * q
    heights = np.maximum(left_line[:top] - np.maximum(c, 0.0), 0.0)
    heights[-1] = 0.0
    gaps = np.diff(g, prepend=0.0)
    bend = np.maximum(c, 0.0)
    bend[1:] += np.minimum(c[:-1], 0.0)
    bend /= gaps
    weights = q + bend
    weights[:-1] -= bend[1:]
    if (weights < 0).any():
        weights = _convexified(weights, heights, g, float(tail_p[0]))
    # slopes lose digits when the step is tiny; scaling down restores total <= P(L > -inf)
    weights = weights * min(1.0, float(tail_p[0]) / max(float(g @ weights), 1e-300))
    masses = g * weights
    # Does the lattice profile stay below the polygon ``heights`` at every kink? It is linear
    # between kinks, the polygon lies below H, so this is enough for all γ; left of g_0 the profile
    # is the chord to its total mass, which must not exceed P(L > -inf).
    above_p, above_q = np.cumsum(masses[::-1])[::-1], np.cumsum(weights[::-1])[::-1]
    profile = np.zeros(top)
    profile[:-1] = above_p[1:] - g[:-1] * above_q[1:]
    fits = (profile <= heights + (LOWER_TOLERANCE * tail_p[:top] + 1e-300)).all()
    fits = fits and above_p[0] <= tail_p[0] * (1 + LOWER_TOLERANCE)
    if not (fits and (weights >= 0).all() and np.isfinite(masses).all()):
        return None
    return np.concatenate((masses * (1 - LOWER_SHRINK), np.zeros(len(x) - top)))


def _balanced_cells(pair: Pair, x: Floats) -> tuple[Floats, Floats]:
    """Finite P- and Q-masses of one cell around each x, with log(p/q) close to x.

    Starting from midpoints, each edge is moved by the mean offset log(p/q) - x of its two cells.
    Any edges give a valid bound; balanced cells lose one order of the step less.
    """
    half = (x[1:] - x[:-1]) / 2
    middle = x[:-1] + half
    p, q = _finite_cells(pair, middle)
    if pair.is_lattice:
        return p, q
    good = (p > 1e-290) & (q > 1e-290)
    drift = np.zeros(len(x))
    drift[good] = np.log(p[good] / q[good]) - x[good]
    drift[0] = drift[-1] = 0.0
    pull = (p[1:] * drift[1:] + p[:-1] * drift[:-1]) / np.maximum(p[1:] + p[:-1], 1e-300)
    # cells already placed by the lattice offset (ends of the support, fullest cell) stay
    full = np.nonzero(p > 1e-6)[0]
    for cell in (*full[[0, -1]], int(np.argmax(p))) if len(full) else ():
        edge = min(cell, len(half) - 1)
        if abs(drift[cell]) < 0.1 * half[edge]:
            pull[max(cell - 1, 0) : cell + 1] = 0.0
    edges = middle - np.clip(pull, -0.9 * half, 0.9 * half)
    p, q = _finite_cells(pair, edges)
    # A line that passes above 1 - γ or below 0 at its lattice point would cost the whole tail; it
    # depends on one edge only, and cutting exactly at the lattice point repairs it.
    g = np.exp(x)
    low = np.cumsum(p)[:-1] > g[:-1] * np.cumsum(q)[:-1] * (1 + EQUAL)
    tail_p, tail_q = np.cumsum(p[::-1])[-2::-1], np.cumsum(q[::-1])[-2::-1]
    high = tail_p < g[1:] * tail_q * (1 - EQUAL)
    if not (low.any() or high.any()):
        return p, q
    edges = np.where(low, x[:-1] + 2e-15 * np.abs(x[:-1]), edges)
    edges = np.where(high & ~low, x[1:] - 2e-15 * np.abs(x[1:]), edges)
    return _finite_cells(pair, edges)


def _finite_cells(pair: Pair, edges: Floats) -> tuple[Floats, Floats]:
    """Cells without the infinite atoms."""
    p, q = map(np.copy, pair.cells(edges))
    p[-1] = max(p[-1] - pair.support.infinite_p, 0.0)
    q[0] = max(q[0] - pair.support.infinite_q, 0.0)
    return p, q


def _convexified(weights: Floats, heights: Floats, g: Floats, total: float) -> Floats:
    """Q-masses of the lower convex hull of (0, total), (g_i, heights_i).

    Masses are recomputed from slopes only where a neighbour was dropped; elsewhere the given
    ``weights`` are more accurate.
    """
    px, py = np.concatenate(([0.0], g)), np.concatenate(([total], heights))
    keep = lower_hull(px, py)
    fresh = bends(px[keep], py[keep])  # kinks keep[1:]
    whole = np.diff(keep) == 1  # segment into keep[1:] has no dropped point
    intact = whole & np.append(whole[1:], True)
    inner = keep[1:] - 1
    out = np.zeros(len(g))
    out[inner] = np.where(intact & (weights[inner] >= 0), weights[inner], fresh)
    return out
