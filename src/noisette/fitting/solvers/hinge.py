"""The hinge: a smoothed path, certified by the duality gap.

Primal P(w) = sum_i omega_i (1 - m_i)_+ + (Lambda/2)||w||^2 + b.w with m_i = y_i x_i.w; dual
D(alpha) = sum alpha_i - (Lambda/2)||w(alpha)||^2 for 0 <= alpha_i <= omega_i, with
w(alpha) = (sum alpha_i y_i x_i - b)/Lambda.

**HINGE-GAP.** For every w and feasible alpha
  P(w) - D(alpha) = sum_i [(omega_i - alpha_i)(1 - m_i)_+ + alpha_i (m_i - 1)_+]
                    + (Lambda/2)||w - w(alpha)||^2,
a sum of terms >= 0, so nothing cancels. Both P(w) - P* and D* - D(alpha) are at least Lambda/2
times the squared distance of w, resp. w(alpha), from w*. With e >= ||w - w(alpha)|| this gives
||w - w*|| <= sqrt(gap/Lambda) + e/2 (a^2 + (a-e)^2 <= 2 gap/Lambda for the distance a >= e).
Margins err by (d+3)u R||w||, and a row counts with that error only if its sign is in doubt or
0 < alpha_i < omega_i. e includes the rounding error of w(alpha), and enters the gap squared.

**HINGE-PATH.** At the optimum of the Huber hinge of width h, alpha_i = omega_i |l_h'(m_i)| is
feasible and w = w(alpha); a row adds at most omega_i h, and only inside the band |1 - m_i| <= h,
so gap <= W h and h -> 0 certifies any tolerance. Newton's Hessian has the band's rows only.
Should float64 stop the path first, a few sweeps of dual coordinate ascent go on from its alpha:
each step is the exact maximum along one coordinate. Should they fail too, the interior-point
method, which is proven to end with the certificate, has the last word (SOLVER-INTERIOR).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from noisette._typing import Floats
from noisette.fitting.losses import HuberHinge
from noisette.fitting.losses.blocks import back, weigh
from noisette.fitting.solvers.interior import interior_points
from noisette.fitting.solvers.limits import interior_plan
from noisette.fitting.solvers.objective import Objective, Preconditioner
from noisette.fitting.solvers.rounding import UNIT, dual_error, gradient_error
from noisette.fitting.solvers.smooth import newton

_FIRST_WIDTH, _SHRINK, _LAST_WIDTH = 0.5, 0.2, 1e-14
# rounds of polishing per stage, and the largest dense piece it may make
_POLISH, _POLISH_ENTRIES = 3, 2_000_000
# sweeps of coordinate ascent before the last resort
_SWEEPS = 20
# repeated rows have exact rank; smaller singular values are rounding
_RANK = 1e-10


@dataclass(frozen=True)
class DualPoint:
    """A primal and a feasible dual point, and the certified distance of the first to w*."""

    w: Floats
    alpha: Floats
    distance: float
    doubtful: Floats


def minimise_hinge(objective: Objective, tolerance: float) -> DualPoint:
    """A point certified to lie within tolerance/Lambda of the minimiser."""
    facts, target = objective.facts, tolerance / objective.lam
    w, width = np.zeros(objective.shape), _FIRST_WIDTH
    best = certify(objective, _dual(objective, w, width), w)
    while not best.distance <= target and width > _LAST_WIDTH:
        smoothed = objective.but(loss=HuberHinge(width))
        # margins to a twentieth of the band's width
        error = gradient_error(
            smoothed.loss, facts, float(np.linalg.norm(w)), objective.mass, objective.exact,
            objective.rows.depth,
        )  # fmt: skip
        goal = max(0.05 * width * objective.lam / facts.norm_bound, 3.0 * error)
        w = newton(smoothed, smoothed.at(w), Preconditioner.of(smoothed), goal).w
        found = certify(objective, _dual(objective, w, width), w)
        best = min(best, found, key=lambda point: point.distance)
        for _ in range(_POLISH):
            if not best.distance <= target:
                found = certify(objective, *_polish(objective, found))
                best = min(best, found, key=lambda point: point.distance)
        width *= _SHRINK
    alpha = best.alpha
    for _ in range(_SWEEPS):
        if best.distance <= target:
            return best
        # from w(alpha) itself: only there does ascent see every row that is still wrong
        alpha, near = _ascend(objective, certify(objective, alpha))
        point = certify(objective, alpha, near)
        polished = certify(objective, *_polish(objective, point))
        best = min(best, point, polished, key=lambda candidate: candidate.distance)
    return best if best.distance <= target else last_resort(objective, tolerance)


def last_resort(objective: Objective, tolerance: float) -> DualPoint:
    """The interior-point method, first in float64, then with enough digits. proof: SOLVER-ENDS."""
    last, most_digits, _ = interior_plan(objective.loss, objective.facts, tolerance)
    target = tolerance / objective.lam
    best = certify(objective, np.zeros(objective.rows.n))
    for digits in (None, most_digits):
        for w, alpha in interior_points(objective, last, digits):
            point = certify(objective, alpha, w)
            polished = certify(objective, *_polish(objective, point))
            best = min(best, point, polished, key=lambda candidate: candidate.distance)
            if best.distance <= target:
                return best
    return best


def _polish(objective: Objective, point: DualPoint) -> tuple[Floats, Floats]:
    """Put the free rows on the margin: the least change of alpha with m_i = 1 there, clipped.

    Rows with 0 < alpha_i < omega_i have m_i = 1 at the optimum; with A their signed rows this is
    A A' change = Lambda (1 - m). Exact once the free rows are the optimum's.
    """
    limit = weigh(np.ones(objective.rows.n), objective.omega)
    free = np.flatnonzero((point.alpha > 0.0) & (point.alpha < limit))
    if not 0 < len(free) * objective.rows.d <= _POLISH_ENTRIES:
        return point.alpha, point.w
    rows = objective.rows.matrix[free]
    rows = np.asarray(rows.toarray() if objective.rows.is_sparse else rows, dtype=np.float64)
    rows = rows * objective.y[free][:, None]
    try:
        move = linalg.lstsq(rows, 1.0 - rows @ point.w, cond=_RANK, check_finite=False)[0]
        change = objective.lam * linalg.lstsq(rows.T, move, cond=_RANK, check_finite=False)[0]
    except linalg.LinAlgError:
        return point.alpha, point.w
    alpha = point.alpha.copy()
    alpha[free] = np.clip(alpha[free] + change, 0.0, limit[free])
    return alpha, point.w + move


def _dual(objective: Objective, w: Floats, width: float) -> Floats:
    """Alpha = omega |l_h'(m)| at w; exactly 0 and exactly omega off the band."""
    slopes = HuberHinge(width).derivative(objective.y * objective.rows.scores(w))
    return weigh(np.asarray(-slopes), objective.omega)


def certify(objective: Objective, alpha: Floats, near: Floats | None = None) -> DualPoint:
    """The better of w(alpha) and the point ``near`` it, certified. proof: HINGE-GAP.

    ``near`` matters when R^2 omega/Lambda is large: then w(alpha) moves far with the last bit of
    alpha, whereas the distance from ``near`` to w(alpha) enters the gap squared.
    """
    total = np.zeros(objective.shape)
    for part, block in objective.rows.blocks(formed=False):
        total += back(block, alpha[part] * objective.y[part])
    w = (total - objective.linear) / objective.lam
    drift = dual_error(objective.facts, float(np.sum(alpha)), objective.rows.depth)
    point = _certify_at(objective, alpha, w, drift)
    if near is None:
        return point
    apart = drift + float(np.linalg.norm(near - w)) * (1.0 + (w.size + 4.0) * UNIT)
    other = _certify_at(objective, alpha, near, apart)
    return other if other.distance < point.distance else point


def _certify_at(objective: Objective, alpha: Floats, w: Floats, apart: float) -> DualPoint:
    """HINGE-GAP at (w, alpha), where apart >= ||w - w(alpha)||."""
    facts, d, n = objective.facts, objective.rows.d, objective.rows.n
    blur = 1.02 * UNIT * ((d + 3.0) * facts.norm_bound * float(np.linalg.norm(w)) + 2.0)
    room = weigh(np.ones(n), objective.omega) - alpha
    short = 1.0 - objective.y * objective.rows.scores(w)
    parts = room * np.maximum(short + blur, 0.0) + alpha * np.maximum(blur - short, 0.0)
    gap = float(np.sum(parts)) * (1.0 + (n + 8.0) * UNIT)
    gap += 0.5 * objective.lam * apart * apart * (1.0 + 8.0 * UNIT)
    distance = (np.sqrt(gap / objective.lam) + 0.5 * apart) * (1.0 + 8.0 * UNIT)
    # NaN certifies nothing
    return DualPoint(w, alpha, float(distance) if distance >= 0.0 else np.inf, parts)


def _ascend(objective: Objective, point: DualPoint) -> tuple[Floats, Floats]:
    """One sweep of exact dual coordinate ascent over the rows that still contribute a gap."""
    alpha, w = point.alpha.copy(), point.w.copy()
    limit = weigh(np.ones(objective.rows.n), objective.omega)
    for part, block in objective.rows.blocks():
        for i in np.flatnonzero(point.doubtful[part]):
            k = part.start + int(i)
            x = block[[int(i)]].toarray()[0] if objective.rows.is_sparse else block[int(i)]
            square = float(x @ x)
            if square == 0.0:
                alpha[k] = limit[k]
                continue
            short = 1.0 - objective.y[k] * float(x @ w)
            value = min(max(alpha[k] + objective.lam * short / square, 0.0), limit[k])
            w += (value - alpha[k]) * objective.y[k] / objective.lam * x
            alpha[k] = value
    return alpha, w
