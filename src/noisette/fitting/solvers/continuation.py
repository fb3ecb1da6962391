"""The last resort for self-concordant losses: Newton along a falling regularisation.

Write J_mu for J with mu in place of Lambda, H and G for its Hessian and gradient,
s_mu(w) = (a R/sqrt(mu)) sqrt(G' H^-1 G), where |l'''| <= a l'' along scores (``self_concordance``).

**SOLVER-CONTINUATION.** (i) The Hessian changes by at most the factor e^{aR||p||} along p (Bach
2010, proposition 1), so a full Newton step from s <= 1/4 ends at s <= .155/4. (ii) With ||w|| <= D
a fall of mu by the factor 1 + r changes s to at most (1 + r) s + r a R D. (iii) 0 is in the basin
at mu = 8 a R ||G(0)||. So r = 1/(6 (2 + a R D)) always keeps s <= 1/4, D the public bound of
SOLVER-NORM, which holds for every mu >= Lambda. Larger factors are tried first and given up for
good when ``TRIES`` steps do not reach s <= 1/4, at most ``RETREATS`` times: at most
TRIES (RETREATS + ceil(log(mu_0/Lambda)/log(1 + r))) steps on the way, a public number.

**In float64.** Let f bound the gradient's error and what rounding w costs (beta u ||w||), and eta
the relative error of the Hessian and of the linear solve (Higham 2002, theorem 10.4:
4u (m^2 + terms) beta/Lambda for m parameters). Then s is known to eta s + a R f/mu and a step adds
as much, and (i) to (iii) have room for a R f/Lambda <= 1/128 and eta <= 1/64: computed s <= .25
means s <= .262, the step ends at .0433 + .0042 + .0078 < .056, the fall at 1.083 (.056) + 1/6 <
.228, which is computed as at most .24. At mu = Lambda a step leaves ||G|| <= f (1 + 1/64) +
sqrt(beta/Lambda) a R f^2/Lambda once s has reached its floor, which takes at most 60 steps (s falls
by 5 each time). That is below tau/2 for tau >= 8f and sqrt(beta/Lambda) a R f^2/Lambda <= tau/4,
and the certificate adds f once more. The three conditions are public; ``limits.check_ends``
refuses what violates them before any data are seen.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from noisette._typing import Floats
from noisette.fitting.solvers.objective import Objective, Point

FIRST_RATIO, TRIES, RETREATS, LAST_STEPS = 10.0, 8, 40, 60
_BASIN = 0.25


def shortest_ratio(concordance: float, norm: float) -> float:
    """The factor by which mu may always fall, ``concordance`` = a R. proof: SOLVER-CONTINUATION."""
    return 1.0 + 1.0 / (6.0 * (2.0 + concordance * norm))


def continuation(objective: Objective, tolerance: float) -> Point:
    """A point certified to ``tolerance``, under the conditions of SOLVER-CONTINUATION."""
    loss, facts = objective.loss, objective.facts
    assert loss.self_concordance is not None
    pace = loss.self_concordance * facts.norm_bound
    shortest = shortest_ratio(pace, facts.optimum_norm(loss))
    ratio, retreats, w = FIRST_RATIO, 0, np.zeros(objective.shape)
    mu = max(objective.lam, 8.0 * pace * objective.at(w).norm_bound)
    while mu > objective.lam and retreats < RETREATS:
        lower = max(objective.lam, mu / ratio)
        facts = replace(objective.facts, regularization=lower)
        found = _follow(objective.but(facts=facts, lam=lower), w, pace)
        if found is None:
            ratio, retreats = max(math.sqrt(ratio), shortest), retreats + 1
        else:
            w, mu = found, lower
    best = point = objective.at(w)
    for _ in range(LAST_STEPS):
        if best.norm_bound <= tolerance:
            break
        point = objective.at(point.w + newton_step(objective, point, pace))
        best = point if point.norm_bound < best.norm_bound else best
    return best


def _follow(objective: Objective, w: Floats, pace: float) -> Floats | None:
    """The parameter after a full step from the basin, or None if ``TRIES`` steps miss it."""
    point = objective.at(w)
    for _ in range(TRIES):
        p = newton_step(objective, point, pace)
        square = -float(np.vdot(point.gradient, p))
        point = objective.at(point.w + p)
        if pace * math.sqrt(max(square, 0.0) / objective.lam) <= _BASIN:
            return point.w
        if not math.isfinite(point.norm_bound):
            return None
    return None


def newton_step(objective: Objective, point: Point, pace: float) -> Floats:
    """-H^-1 g: by Cholesky, or by conjugate gradients with ||H p + g|| <= goal computed afresh.

    Gradient steps on the model follow if need be. One of length 1/beta multiplies the residual by
    at most 1 - Lambda/beta, whatever the rounding errors of conjugate gradients were:
    (beta/Lambda) log(||g||/goal) steps suffice.
    """
    found = objective.newton_step(point)
    if found is not None:
        return found
    goal = point.norm / 64.0
    if pace > 0.0:
        goal = min(goal, objective.lam / (128.0 * pace))
    goal = max(goal, 0.01 * (point.norm_bound - point.norm))
    p = np.zeros_like(point.w)
    residual = -point.gradient
    beta = objective.largest_curvature()
    for _ in range(8):
        p, residual = _gradients(objective, point, p, residual, goal)
        if float(np.linalg.norm(residual)) <= goal:
            return p
    for _ in range(math.ceil(beta / objective.lam * math.log(max(point.norm / goal, 2.0)))):
        p = p + residual / beta
        residual = -point.gradient - objective.hessian_product(point.w, p)
        if float(np.linalg.norm(residual)) <= goal:
            break
    return np.asarray(p)


def _gradients(
    objective: Objective, point: Point, p: Floats, residual: Floats, goal: float
) -> tuple[Floats, Floats]:
    """Conjugate gradients from p until the recurrence says goal/2; (p, recomputed residual)."""
    r = direction = residual
    rho = float(np.vdot(r, r))
    for _ in range(2 * p.size + 20):
        if not rho > 0.25 * goal * goal:
            break
        bent = objective.hessian_product(point.w, direction)
        step = rho / float(np.vdot(direction, bent))
        p, r = p + step * direction, r - step * bent
        rho, previous = float(np.vdot(r, r)), rho
        direction = r + (rho / previous) * direction
    return p, -point.gradient - objective.hessian_product(point.w, p)
