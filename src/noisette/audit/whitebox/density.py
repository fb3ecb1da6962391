"""Exact density ratios between neighbours, by change of variables.

Output perturbation releases optimum + noise: two laws that differ by a shift, whose curve is known
in closed form. Objective perturbation releases theta with density p_b(-G(theta)) det H(theta), G
and H the gradient and the Hessian of the objective without noise; the log-ratio is taken on a grid
of theta in one or two dimensions (several one-vs-rest models multiply). Optima, gradients and
Hessians are the auditor's own; the noise scale is that of the recorded draws, whose law `noise_law`
tests. The tiny noise that hides the solver's error is left out: it can only blur the ratio, by a
relative 1e-3 at most, which the tolerance of 0.5 % covers. With delta > 0 the integral of
(p - e^eps p')_+ over the grid is compared, to 2 %.
"""

import math
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.audit.canaries import CANARIES, plain_table
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.problem import Problem
from noisette.audit.whitebox.records import Solve
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import gaussian_epsilon, spherical_epsilon
from noisette.audit.whitebox.trace import Trace
from noisette.core.mechanisms import Gaussian, ObjectiveNoise, SphericalLaplace

POINTS = 61
PURE_SLACK, CURVE_SLACK = 5e-3, 2e-2


def density(subject: AuditedEstimator, *, points: int = POINTS) -> Tally:
    """Take every canary in the smallest dimension that the estimator allows."""
    out = Tally("exact densities", subject.claim)
    out.missing = "only single solved problems in few dimensions have densities in closed form"
    epsilon = subject.claim[0]
    data = plain_table(subject.room())
    _, trace = subject.fit(data.bare(), seed=3)
    out.runs += 1
    if not trace.solves or any(s.bounded.proof == "SECOND-MOMENT" for s in trace.releases):
        return out
    # What was charged, which may be less than what was allowed; but a claim about another point of
    # the curve is tested there.
    delta, charged = trace.charges[0].delta, trace.charges[0].epsilon
    if delta > subject.claim[1] or charged > epsilon * (1.0 + 1e-9):
        delta = subject.claim[1]
    out.claim = (epsilon, delta)  # a bound found there is none for a larger delta
    objective = isinstance(trace.releases[0].mechanism, ObjectiveNoise)
    width = 3
    if objective:
        alone = not subject.parameters.get("fit_intercept", True)
        width = 2 if alone and trace.solves[0].loss.kind != "multiclass" else 1
    measure = _objective if objective else _output
    slack = PURE_SLACK if delta == 0.0 else CURVE_SLACK
    for name, make in CANARIES.items():
        pair = make(subject.room(width))
        traces = [subject.fit(side, seed=3)[1] for side in (pair.first, pair.second)]
        out.runs += 2
        found = measure(traces, delta, points)
        if found is None:
            return out
        out.applies = True
        out.at_least(found)
        if found > epsilon * (1.0 + slack):
            out.fault(f"{name}: the densities differ by epsilon = {found:.4g}")
    out.note = f"the largest epsilon between canaries is {out.epsilon_lower:.4f}"
    return out


def _output(traces: list[Trace], delta: float, points: int) -> float | None:
    """Return the epsilon at delta of two laws that differ by a shift."""
    seen = traces[0].releases[0]
    law = seen.mechanism
    if not seen.draws:
        return None
    moved, error = 0.0, 0.0
    for a, b in zip(traces[0].solves, traces[1].solves, strict=True):
        (u, e), (v, f) = (s.problem().solve(None, start=s.weights) for s in (a, b))
        moved += float(np.sum((u - v) ** 2))
        error += e + f
    shift = max(0.0, math.sqrt(moved) - error)
    if isinstance(law, SphericalLaplace):
        eps0 = shift / (law.noise_multiplier * seen.draws[0].unit)
        return spherical_epsilon(eps0, delta, law.dimension)
    if not isinstance(law, Gaussian):
        return None
    return gaussian_epsilon(shift / (law.noise_multiplier * seen.draws[0].unit), delta)


def _objective(traces: list[Trace], delta: float, points: int) -> float | None:
    """Return the epsilon at delta of the two laws of theta, on a grid."""
    seen = traces[0].releases[0]
    law = seen.mechanism
    if not seen.draws or not isinstance(law, ObjectiveNoise):
        return None
    scale = law.noise_multiplier * seen.draws[0].unit
    solves = list(zip(traces[0].solves, traces[1].solves, strict=True))
    size = solves[0][0].weights.size
    if size > 2 or (delta > 0.0 and len(solves) > 1):
        return None
    total = 0.0
    for a, b in solves:
        one, two = _compressed(a), _compressed(b)
        thetas, cell = _grid(one, scale, size, points, law.law)
        log_p, log_q = (_log_density(p, thetas, scale, law.law) for p in (one, two))
        if delta == 0.0:
            total += float(np.max(np.abs(log_p - log_q)))
        else:
            total += max(_curve(log_p, log_q, cell, delta), _curve(log_q, log_p, cell, delta))
    return total


def _compressed(solve: Solve) -> Problem:
    """Return the same problem with equal records counted instead of repeated."""
    weight = np.ones(len(solve.rows)) if solve.weight is None else np.asarray(solve.weight)
    table = np.column_stack([solve.rows, solve.target])
    unique, where = np.unique(table, axis=0, return_inverse=True)
    counts = np.bincount(where.ravel(), weights=weight, minlength=len(unique))
    return Problem(solve.loss, unique[:, :-1], unique[:, -1], solve.regularization, counts)


def _grid(problem: Problem, scale: float, size: int, points: int, law: str) -> tuple[Floats, float]:
    """Return (thetas of shape (N, size), the volume of a cell) around the optimum."""
    centre, _ = problem.solve(None)
    reach = (9.0 if law == "gaussian" else 16.0) * scale / problem.ridge
    if problem.basis is not None:  # one point at a time, see `_gradients`
        points = max(25, points // 3)
    axis = np.linspace(-reach, reach, points if size == 2 else 40 * points)
    mesh = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
    return mesh + centre.ravel(), float((axis[1] - axis[0]) ** size)


def _log_density(problem: Problem, thetas: Floats, scale: float, law: str) -> Floats:
    """Return log p_b(-G) + log det H at every theta."""
    g, log_det = _gradients(problem, thetas)
    size = thetas.shape[1]
    if law == "gaussian":
        constant = 0.5 * size * math.log(2.0 * math.pi) + size * math.log(scale)
        return np.asarray(-0.5 * np.sum(g * g, axis=1) / scale**2 - constant + log_det)
    constant = math.log(2.0 if size == 1 else 2.0 * math.pi) + size * math.log(scale)
    return np.asarray(-np.linalg.norm(g, axis=1) / scale - constant + log_det)


def _gradients(problem: Problem, thetas: Floats) -> tuple[Floats, Floats]:
    if problem.basis is not None:
        points = [theta.reshape(problem.shape) for theta in thetas]
        g = np.array([problem.gradient(point).ravel() for point in points])
        return g, np.array([np.linalg.slogdet(problem.hessian(point))[1] for point in points])
    slope, bend = problem.at_scores(thetas @ problem.rows.T)
    g = (problem.weight * slope) @ problem.rows + problem.ridge * thetas
    heavy: Any = problem.weight * bend
    H = np.einsum("nu,ui,uj->nij", heavy, problem.rows, problem.rows)
    H += problem.ridge * np.eye(thetas.shape[1])
    return g, np.asarray(np.linalg.slogdet(H)[1])


def _curve(log_p: Floats, log_q: Floats, cell: float, delta: float) -> float:
    """Return the epsilon at which the integral of (p - e^eps q)_+ over the grid is delta."""
    mass = np.exp(log_p) * cell

    def reached(epsilon: float) -> float:
        gap = np.minimum(0.0, epsilon + log_q - log_p)
        return float(np.sum(mass * -np.expm1(gap)))

    low, high = 0.0, 50.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reached(middle) > delta else (low, middle)
    return low
