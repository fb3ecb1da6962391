"""What the auditor trusts, written down again: closed forms, its own losses and its own solver.

J(w) = sum_i omega_i l(w; x_i, y_i) + (Lambda/2) ||w||^2 + b . w. Smooth losses are solved by damped
Newton steps until rounding stops them, the hinge in its dual with the gap as certificate. Nothing
here uses the library's solvers.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betainc, expit, gammainc, gammaln, log_ndtr, ndtr

from noisette._typing import Floats
from noisette.audit.bounds import largest
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, Mechanism, ObjectiveNoise, SphericalLaplace
from noisette.core.plans import Plan, Run, Sampled
from noisette.core.plans.leaves import Noisy
from noisette.fitting.losses import Huber, HuberHinge, Loss, SoftplusHinge
from noisette.fitting.losses.base import MarginLoss

CONTRIBUTIONS = {"replace-one": 2.0, "zero-out": 1.0, "add-remove": 1.0}
"""How many contribution bounds a sum moves by between neighbours."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)

ONCE = ("full", "disjoint", "cyclic", "shuffle")
"""Samplers of which one use shows every record once and amplifies nothing."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact curve of N(0, 1) against N(mu, 1)."""
    second = math.exp(epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu)))
    return max(0.0, float(ndtr(mu / 2.0 - epsilon / mu)) - second)


def spherical_delta(eps0: float, epsilon: float, dimension: int) -> float:
    """Return the exact curve of spherical Laplace noise at the shift eps0, by quadrature."""
    if epsilon >= eps0:
        return 0.0
    if dimension == 1:
        return -math.expm1((epsilon - eps0) / 2.0)
    d, base = float(dimension), max(0.0, dimension - 14.0 * math.sqrt(dimension))
    half = (eps0**2 - epsilon**2) / 2.0

    def integral(sign: float, low: float) -> float:
        top = math.sqrt(max(d + 14.0 * math.sqrt(d) + 60.0 - low, 1.0))
        t = 0.5 * top * (_NODES + 1.0)
        rho = low + t * t
        density = np.exp((d - 1.0) * np.log(np.maximum(rho, 1e-300)) - rho - gammaln(d))
        x = np.clip((epsilon - sign * half / rho) / eps0, -1.0, 1.0)
        tail = betainc((d - 1.0) / 2.0, (d - 1.0) / 2.0, (1.0 - x) / 2.0)
        return float(np.sum(_WEIGHTS * 0.5 * top * 2.0 * t * density * tail))

    first, second = (eps0 - epsilon) / 2.0, (eps0 + epsilon) / 2.0
    return max(
        0.0,
        float(gammainc(d, max(first, base)))
        + integral(1.0, max(first, base))
        - math.exp(epsilon) * integral(-1.0, max(second, base)),
    )


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return epsilon at delta of a mu-GDP release."""
    if mu == 0.0:
        return 0.0
    high = mu * mu / 2.0 + 40.0 * mu
    return largest(lambda e: gaussian_delta(mu, e) > delta, 0.0, high, 1e-12 * high)


def spherical_epsilon(eps0: float, delta: float, dimension: int) -> float:
    """Return epsilon at delta of spherical Laplace noise at the shift eps0."""
    if delta == 0.0:
        return eps0
    return largest(lambda e: spherical_delta(eps0, e, dimension) > delta, 0.0, eps0, 1e-12 * eps0)


def pure_epsilon(mechanism: Mechanism, relation: Adjacency) -> float:
    """Return the pure epsilon of one use, from the theorems; inf where there is none."""
    a = CONTRIBUTIONS[relation.value]
    if isinstance(mechanism, SphericalLaplace):
        return a / mechanism.noise_multiplier
    if isinstance(mechanism, ObjectiveNoise) and mechanism.law == "spherical-laplace":
        rate, k = 1.0 / mechanism.noise_multiplier, mechanism.curvature
        # The rows of a person span more than one direction: a trace for the log-determinant.
        grown: Callable[[Any], Any] = (lambda t: t) if mechanism.persons else np.log1p
        if mechanism.shape in ("one-signed", "two-signed"):
            return a * rate + float(grown(k))
        if mechanism.shape == "softmax":
            return a * rate + k
        g = np.linspace(0.0, 1.0, 4001)
        return float(np.max(grown(g * (1.0 - g) * k) + g * rate)) + (a - 1.0) * rate
    if isinstance(mechanism, Gaussian | ObjectiveNoise):
        return math.inf
    return mechanism.pure_epsilon(relation)


def least_epsilon(plan: Plan, delta: float, relation: Adjacency) -> float:
    """Return an epsilon that the theorems do not let the plan go below, at this delta.

    The closed forms where one applies, else the lower end of the certified bracket.
    """
    return max(_least(each, delta, relation) for each in plan.alternatives())


def _least(plan: Plan, delta: float, relation: Adjacency) -> float:
    leaves = list(plan.leaves())
    if all(isinstance(leaf, Run | Sampled) and leaf.sampler.name in ONCE for leaf, _ in leaves):
        laws: list[tuple[Any, int]] = [
            (leaf.mechanism, count) for leaf, count in leaves if isinstance(leaf, Noisy)
        ]
        if delta == 0.0:
            return math.fsum(pure_epsilon(law, relation) * count for law, count in laws)
        a, kinds = CONTRIBUTIONS[relation.value], {type(law) for law, _ in laws}
        if kinds == {Gaussian}:
            squares = (count * (a / law.noise_multiplier) ** 2 for law, count in laws)
            return gaussian_epsilon(math.sqrt(math.fsum(squares)), delta)
        if kinds == {SphericalLaplace} and [count for _, count in laws] == [1]:
            law = laws[0][0]
            return spherical_epsilon(a / law.noise_multiplier, delta, law.dimension)
    if delta == 0.0:
        return accounting.epsilon(plan, delta=0.0, adjacency=relation)
    return accounting.bracket(plan, delta=delta, adjacency=relation)[0]


CONSTANTS = {
    "logistic": (1.0, 0.25),
    "hinge": (1.0, math.inf),
    "softmax": (math.sqrt(2.0), 0.5),
}
"""Largest norm of the derivative, largest curvature, for rows of norm 1."""


_GRID = np.concatenate([np.linspace(-10.0, 10.0, 200_001), [-1e4, -100.0, 100.0, 1e4]])


def constants(loss: Loss) -> tuple[float, float]:
    """Return (L, c) of `loss` by its name, not by what it says of itself.

    Of a margin loss that is new since this was written they are measured: the largest slope and the
    largest growth of the slope on a grid, which are lower bounds of the true ones.
    """
    if isinstance(loss, Huber):
        return loss.threshold, 1.0
    if isinstance(loss, HuberHinge):
        return 1.0, 1.0 / (2.0 * loss.width)
    if isinstance(loss, SoftplusHinge):
        return 1.0, loss.temperature / 4.0
    if loss.name not in CONSTANTS and isinstance(loss, MarginLoss):
        slopes = loss.derivative(_GRID)
        growth = np.diff(slopes[:-4]) / np.diff(_GRID[:-4])
        return float(np.max(np.abs(slopes))), float(np.max(np.abs(growth)))
    return CONSTANTS[loss.name]


class Problem:
    """One regularised training problem with the parameter as a flat vector or (K-1, p) array."""

    def __init__(
        self, loss: Loss, rows: Floats, target: NDArray[Any], ridge: float, weight: Any = None
    ) -> None:
        self.loss, self.rows, self.ridge = loss, np.asarray(rows, dtype=float), float(ridge)
        self.target = np.asarray(target)
        self.weight = np.ones(len(self.rows)) if weight is None else np.asarray(weight, float)
        several = loss.kind == "multiclass"
        self.basis: Floats | None = np.asarray(loss.basis) if several else None  # type: ignore[attr-defined]
        p = self.rows.shape[1]
        self.shape = (p,) if self.basis is None else (self.basis.shape[1], p)

    def at_scores(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the first and the second derivative of every record's loss in its score."""
        loss, m = self.loss, self.target * scores
        if isinstance(loss, Huber):
            r, t = scores - self.target, loss.threshold
            return np.clip(r, -t, t), (np.abs(r) <= t).astype(float)
        if isinstance(loss, HuberHinge):
            h = loss.width
            slope = -np.clip((1.0 + h - m) / (2.0 * h), 0.0, 1.0)
            bend = (np.abs(1.0 - m) <= h) / (2.0 * h)
        elif loss.name not in CONSTANTS and not isinstance(loss, SoftplusHinge):
            assert isinstance(loss, MarginLoss)
            slope = np.asarray(loss.derivative(m), dtype=float)
            bend = np.asarray(loss.second_derivative(m), dtype=float)
        else:
            soft = isinstance(loss, SoftplusHinge)
            s, centre = (loss.temperature, 1.0) if soft else (1.0, 0.0)  # type: ignore[attr-defined]
            g = expit(s * (centre - m))
            slope, bend = -g, s * g * (1.0 - g)
        return self.target * slope, bend

    def _derivatives(self, w: Floats) -> tuple[Floats, Floats]:
        """Return every record's gradient (n, k) and Hessian (n, k, k) in its k scores."""
        if self.basis is None:
            slope, bend = self.at_scores(self.rows @ w)
            return slope[:, None], bend[:, None, None]
        q, scores = self.basis, self.rows @ w.T @ self.basis.T
        each = np.exp(scores - scores.max(axis=1, keepdims=True))
        p = each / each.sum(axis=1, keepdims=True)
        mean = p @ q
        # of every record, the covariance of the basis under its own probabilities
        bend = np.einsum("nc,ca,cb->nab", p, q, q) - mean[:, :, None] * mean[:, None, :]
        return mean - q[self.target.astype(int)], bend

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient of J without the linear term."""
        slope, _ = self._derivatives(w)
        total = (self.weight[:, None] * slope).T @ self.rows
        return np.asarray(total.reshape(self.shape) + self.ridge * w)

    def hessian(self, w: Floats) -> Floats:
        """Return the Hessian of J over the flattened parameter."""
        weighted = self.weight[:, None, None] * self._derivatives(w)[1]
        out = np.einsum("nab,ni,nj->aibj", weighted, self.rows, self.rows, optimize=True)
        return np.asarray(out.reshape(w.size, w.size) + self.ridge * np.eye(w.size))

    def solve(
        self, linear: Floats | None = None, start: Floats | None = None
    ) -> tuple[Floats, float]:
        """Return (minimiser, certified bound on its distance to the exact one)."""
        b = np.zeros(self.shape) if linear is None else np.asarray(linear, dtype=float)
        if self.loss.name == "hinge":
            return self._solve_hinge(b)
        w = np.zeros(self.shape) if start is None else np.array(start, dtype=float)
        g = self.gradient(w) + b
        size = float(np.linalg.norm(g))
        for _ in range(200):
            step = np.linalg.solve(self.hessian(w), g.ravel()).reshape(self.shape)
            length = 1.0
            while length > 1e-10:
                new = w - length * step
                moved = self.gradient(new) + b
                if np.linalg.norm(moved) < (1.0 - 0.25 * length) * size:
                    break
                length *= 0.5
            else:
                break
            w, g, size = new, moved, float(np.linalg.norm(moved))
        return w, size / self.ridge  # strong convexity

    def _solve_hinge(self, b: Floats) -> tuple[Floats, float]:
        """Maximise the dual over 0 <= alpha <= omega; the gap bounds the distance."""
        signed = self.target[:, None] * self.rows

        def weights(alpha: Floats) -> Floats:
            return np.asarray((alpha @ signed - b) / self.ridge)

        def dual(alpha: Floats) -> tuple[float, Floats]:
            w = weights(alpha)
            return float(0.5 * self.ridge * w @ w - alpha.sum()), signed @ w - 1.0

        best = minimize(
            dual, 0.5 * self.weight, jac=True, method="L-BFGS-B",
            bounds=[(0.0, cap) for cap in self.weight],
            options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-12},
        )  # fmt: skip
        w = weights(best.x)
        primal = float(self.weight @ np.maximum(0.0, 1.0 - signed @ w))
        primal += 0.5 * self.ridge * float(w @ w) + float(b @ w)
        return w, math.sqrt(2.0 * max(0.0, primal + dual(best.x)[0]) / self.ridge)
