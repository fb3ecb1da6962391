"""Smooth losses: minimise until the certificate holds; there is no other way out.

Four phases, each starting where the last one stopped; every loop has a fixed cap:

1. L-BFGS on top of a preconditioner (speed): a sample's, then that of all rows. It hands over
   when it stops making progress, or when only the rounding bound keeps the certificate away.
   Rows that are read again in each pass begin with Newton's steps, value and Hessian in one pass.
2. Newton. A full step is taken when it halves the best gradient norm so far; otherwise a line
   search finds t > 0 with phi'(0)/2 <= phi'(t) <= 0, where phi(t) = J(w + tp); phi' increases
   because J is convex.
3. When Newton makes no progress: first the error-free products (``Objective.exact``), then a few
   bursts of gradient steps of length 1/beta, each burst twice as long, each followed by Newton.
4. The last resort, which is proven to end with the certificate: Newton along a falling
   regularisation for self-concordant losses (``continuation``), an interior-point method for
   piecewise quadratic ones (``interior``). proof: SOLVER-ENDS.

Phases 1 to 3 are there for speed and prove nothing; ordinary problems end in the first or second.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.fitting.losses import Loss
from noisette.fitting.losses.rows import Rows
from noisette.fitting.solvers.continuation import continuation
from noisette.fitting.solvers.interior import interior_points
from noisette.fitting.solvers.limits import interior_plan
from noisette.fitting.solvers.objective import Objective, Point, Preconditioner
from noisette.fitting.solvers.rounding import PublicFacts

_MEMORY = 10
_PATIENCE = 5
# caps of phases 1 to 3, far above what ordinary problems take
_MOST_STEPS, _MOST_NEWTON, _BURSTS = 1000, 200, 6
_SAMPLE, _SAMPLE_PER_FEATURE = 2000, 40
# A sample's model takes a gradient down by 5 in a step, that of all rows by 100: worth its price of
# d/10 steps where many steps are left; measured best after 3 to 5 steps (Adult, Bank, Credit).
_NARROW, _ROUGH_STEPS, _FAR = 128, 4, 1e3
# in parts, where passes are dear: so many entries, but not more than one row in so many
_SAMPLE_ENTRIES, _WHOLE_STEPS = 1 << 20, 8
_SETTLED, _POLISH, _SHORTER = 1e-9, 3, 30


def minimise_smooth(objective: Objective, tolerance: float) -> Point:
    """A point whose exact gradient norm is certified to be at most ``tolerance``."""
    w, sampled = _warm_start(objective, np.zeros(objective.shape))
    narrow = len(objective.shape) == 1 and objective.rows.d <= _NARROW
    if objective.rows.whole_steps and narrow:
        point = _whole_steps(objective, w, tolerance)
        model = point.model
    else:
        point = objective.at(w)
        model = Preconditioner.of(objective) if sampled is None else sampled
        if sampled is not None and narrow:
            point = _quasi_newton(objective, point, model, tolerance, _ROUGH_STEPS)
            if point.norm > _FAR * tolerance:
                model = Preconditioner.of(objective, at=point.w)
    point = _quasi_newton(objective, point, model, tolerance)
    for effort in range(-1, _BURSTS):
        if point.norm_bound > tolerance:
            point = newton(objective, point, model, tolerance)
        if point.norm_bound <= tolerance:
            return point
        if effort < 0:
            objective.exact = True
            point = objective.at(point.w)
        else:
            # steps of length 1/beta: ||G|| contracts by 1 - Lambda/beta
            beta, moving = objective.largest_curvature(), point
            for _ in range(8 << effort):
                moving = objective.at(moving.w - moving.gradient / beta)
                point = moving if moving.norm_bound < point.norm_bound else point
                if point.norm_bound <= tolerance:
                    break
    return point if point.norm_bound <= tolerance else last_resort(objective, model, tolerance)


def last_resort(objective: Objective, model: Preconditioner, tolerance: float) -> Point:
    """What is proven to end: the path of its loss's kind. proof: SOLVER-ENDS."""
    objective.exact = True
    if objective.loss.self_concordance is not None:
        return continuation(objective, tolerance)
    last, most_digits, _ = interior_plan(objective.loss, objective.facts, tolerance)
    rows = objective.rows
    whole = objective.but(y=rows.fetched(objective.y), omega=rows.fetched(objective.omega))
    best = objective.at(np.zeros(objective.shape))
    for digits in (None, most_digits):
        for w, _ in interior_points(whole, last, digits):
            for point in (near := objective.at(w), newton(objective, near, model, tolerance)):
                best = point if point.norm_bound < best.norm_bound else best
            if best.norm_bound <= tolerance:
                return best
    return best


def _warm_start(objective: Objective, w: Floats) -> Any:
    """A start and a model from evenly spaced rows: they cost a fraction of one full pass.

    The sample's optimum is off by its statistical error only, and its Hessian there is within
    about sqrt(d/m) of the true one: the full problem then needs a handful of passes. Few rows give
    no model.
    """
    n, d = objective.rows.n, objective.rows.d
    count = max(_SAMPLE, _SAMPLE_PER_FEATURE * d)
    if share := objective.rows.share:
        count = max(count, min(n // share, _SAMPLE_ENTRIES // d))
    if n < 4 * count:
        return w, None
    start = partial(_start_on, objective.loss, objective.linear, objective.facts, objective.mass, w)
    return objective.rows.on_sample(count, start, objective.y, objective.omega)


def _start_on(
    loss: Loss, linear: Floats, facts: PublicFacts, mass: float, w: Floats,
    X: Any, y: Any, omega: Any,
) -> tuple[Floats, Preconditioner]:  # fmt: skip
    """The loose optimum of a sample, and its model there, for a problem of weight ``mass``."""
    part = Objective(loss, Rows(X), y, omega, linear, facts)
    factor = mass / part.mass if part.mass > 0.0 else 1.0
    part.omega = np.full(part.rows.n, factor) if omega is None else factor * omega
    part.mass = mass
    slope = loss.derivative_bound(0.0) * facts.norm_bound
    loose = 0.01 * slope * float(np.sqrt(max(mass, 1.0)))
    w = _quasi_newton(part, part.at(w), Preconditioner.of(part), loose).w
    return w, Preconditioner.of(part, at=w)


def _whole_steps(objective: Objective, w: Floats, tolerance: float) -> Point:
    """A first point in parts, with a model of all rows there: one pass gives both.

    Where a pass reads the rows again, which costs more than what is done with them, every further
    one gives both as well: Newton's steps, as long as each of them halves the gradient.
    """
    point = objective.at(w, model=True)
    for _ in range(_WHOLE_STEPS if objective.rows.reread else 0):
        if _settled(point, point.model, tolerance):
            break
        new = objective.at(point.w - point.model.solve(point.gradient), model=True)
        if not new.norm <= 0.5 * point.norm:
            break
        point = new
    return point


def _quasi_newton(
    objective: Objective, point: Point, model: Preconditioner, tolerance: float,
    most: int = _MOST_STEPS,
) -> Point:  # fmt: skip
    """L-BFGS until settled or until ``_PATIENCE`` steps in a row bring no better gradient."""
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    best, stale, certified = point, 0, 0
    for _ in range(most):
        certified += best.norm_bound <= tolerance
        if _settled(best, model, tolerance) or stale >= _PATIENCE or certified > _POLISH:
            break
        # the product of L-BFGS (Nocedal-Wright 7.4), the model as the initial inverse Hessian
        q, factors = point.gradient, []
        for s, change, curvature in reversed(pairs):
            factors.append(float(np.vdot(s, q)) / curvature)
            q = q - factors[-1] * change
        q = model.solve(q)
        for (s, change, curvature), factor in zip(pairs, reversed(factors), strict=True):
            q = q + (factor - float(np.vdot(change, q)) / curvature) * s
        p = -q
        slope = float(np.vdot(point.gradient, p))
        if not slope < 0.0:
            break
        t = 1.0
        for _ in range(_SHORTER):
            new = objective.at(point.w + t * p)
            end = float(np.vdot(new.gradient, p))
            # J is lower (Armijo), or by its slope, as J is convex, not higher; or it is certified:
            # so close to the optimum the values of J differ by less than they are rounded
            lower = new.value <= point.value + 1e-4 * t * slope or slope <= end <= 0.0
            if new.norm_bound <= tolerance or lower:
                break
            # secant on the slope, which increases with t; the minimum along p lies before t
            t *= min(0.5, max(0.1, slope / (slope - end))) if end > slope else 0.5
        else:
            break
        s, change = new.w - point.w, new.gradient - point.gradient
        curvature = float(np.vdot(s, change))
        if curvature > 0.0:
            pairs.append((s, change, curvature))
        stale = 0 if new.norm < 0.9 * best.norm else stale + 1
        # far from the optimum the gradient norm may rise while J falls: not yet stale
        if new.value < point.value - 1e-3 * abs(point.value):
            stale = 0
        point = new
        best = new if new.norm < best.norm else best
    return best


def newton(objective: Objective, point: Point, model: Preconditioner, tolerance: float) -> Point:
    """Damped Newton until certified or until ``_PATIENCE`` steps bring no better gradient."""
    best, halved, lowest, stale = point, point.norm, point.norm, 0
    for _ in range(_MOST_NEWTON):
        if best.norm_bound <= tolerance or stale >= _PATIENCE:
            break
        if not best.norm > 0.01 * best.norm_bound:  # all is rounding: no step can help
            break
        p = objective.newton_step(point)
        if p is None:
            p = _conjugate_gradients(objective, point, model)
        slope = float(np.vdot(point.gradient, p))
        new = objective.at(point.w + p)
        if new.norm <= 0.5 * halved:
            halved = new.norm
        else:
            new = _line_search(objective, point, p, slope, new)
        falling = new.value < point.value - 1e-12 * abs(point.value)
        stale = 0 if new.norm < 0.9 * lowest or falling else stale + 1
        lowest = min(lowest, new.norm)
        point = new
        best = new if new.norm_bound < best.norm_bound else best
    return best


def _settled(point: Point, model: Preconditioner, tolerance: float) -> bool:
    """Certified, and the next step would move no weight by more than ``_SETTLED``; or rounding.

    The certificate alone is what privacy needs. The rest makes the same model of the same rows,
    however they are cut: paths that differ end within 1e-8 of each other.
    """
    if not point.norm_bound <= tolerance:
        return not point.norm > 0.01 * point.norm_bound  # all is rounding: no step can help
    return float(np.max(np.abs(model.solve(point.gradient)))) <= _SETTLED


def _line_search(objective: Objective, point: Point, p: Floats, slope: float, full: Point) -> Point:
    """Double, then bisect, for phi'(0)/2 <= phi'(t) <= 0; phi' increases along p."""
    low, high, t = 0.0, np.inf, 1.0
    end = float(np.vdot(full.gradient, p))
    if 0.5 * slope <= end <= 0.0:
        return full
    slopes = objective.rows.slopes_along(objective.loss, point.w, p, objective.y, objective.omega)
    fixed = float(np.vdot(objective.linear, p) + objective.lam * np.vdot(point.w, p))
    square = objective.lam * float(np.vdot(p, p))
    for _ in range(120):
        low, high = (t, high) if end < 0.0 else (low, t)
        t = 2.0 * low if np.isinf(high) else 0.5 * (low + high)
        end = slopes(t) + fixed + t * square
        if 0.5 * slope <= end <= 0.0:
            break
    return objective.at(point.w + t * p)


def _conjugate_gradients(objective: Objective, point: Point, model: Preconditioner) -> Floats:
    """Preconditioned CG on H p = -g to a tenth of the gradient; p is always a descent direction."""
    residual = -point.gradient
    z = model.solve(residual)
    direction, p = z, np.zeros_like(residual)
    rho = float(np.vdot(residual, z))
    for _ in range(20 + 2 * residual.size):
        bent = objective.hessian_product(point.w, direction)
        curvature = float(np.vdot(direction, bent))
        if not curvature > 0.0:
            break
        step = rho / curvature
        p = p + step * direction
        residual = residual - step * bent
        if float(np.linalg.norm(residual)) <= 0.05 * point.norm:
            break
        z = model.solve(residual)
        rho, previous = float(np.vdot(residual, z)), rho
        direction = z + (rho / previous) * direction
    return p
