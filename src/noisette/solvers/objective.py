"""J(w) = sum_i omega_i l(w; x_i, y_i) + (Lambda/2)||w||^2 + b.w with certified gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from noisette._typing import Floats
from noisette.losses import Loss, Rows
from noisette.losses.rows import back, squared
from noisette.solvers.rounding import EXACT_ROWS, UNIT, PublicFacts, gradient_error

# widest data for which a (d, d) model is factorised: beyond, its cost exceeds its gain
DENSE_MODEL, SPARSE_MODEL = 1024, 256
_DENSE_SHARE = 16  # where more than one entry in so many is not zero


@dataclass(frozen=True)
class Point:
    """One evaluation: J, its gradient, and a bound on the exact gradient's norm."""

    w: Floats
    value: float
    gradient: Floats
    norm: float
    norm_bound: float


def _grid(values: Any, size: float, bits: int) -> Any:
    """Values rounded to a multiple of 2^(ceil(log2 size) - bits): adding and taking away sigma."""
    if size == 0.0:
        return values
    sigma = 1.5 * 2.0 ** (52 + np.ceil(np.log2(size)) - bits)
    return (values + sigma) - sigma


def _split(block: Any, size: float, bits: int) -> tuple[Any, Any]:
    """(leading part on a grid, exact remainder) of a dense or CSR block."""
    if not sparse.issparse(block):
        lead = _grid(block, size, bits)
        return lead, block - lead
    lead, rest = block.copy(), block.copy()
    lead.data = _grid(block.data, size, bits)
    rest.data = block.data - lead.data
    return lead, rest


class _Sum:
    """A sum of arrays, compensated where asked: then it errs by 2u, however many there are."""

    def __init__(self, shape: tuple[int, ...], compensated: bool) -> None:
        self.total = np.zeros(shape)
        self.lost = np.zeros(shape) if compensated else None

    def add(self, term: Floats) -> None:
        """Add; Knuth's two-sum: total + term = new + error, exactly."""
        if self.lost is None:
            self.total += term
            return
        new = self.total + term
        seen = new - self.total
        self.lost += (self.total - (new - seen)) + (term - seen)
        self.total = new

    def value(self) -> Floats:
        """The sum."""
        return self.total if self.lost is None else self.total + self.lost


class Objective:
    """The objective on one data set; ``exact`` switches to the error-free products.

    Parameters have the shape ``loss.parameter_shape(d)`` everywhere.
    """

    def __init__(
        self,
        loss: Loss,
        rows: Rows,
        y: npt.NDArray[Any],
        sample_weight: Floats | None,
        linear: Floats | None,
        facts: PublicFacts,
    ) -> None:
        self.loss, self.rows, self.y, self.omega = loss, rows, y, sample_weight
        self.facts = facts
        self.lam = facts.regularization
        self.shape = loss.parameter_shape(rows.d)
        self.linear = np.zeros(self.shape) if linear is None else linear
        self.mass = float(rows.n if sample_weight is None else np.sum(sample_weight))
        self.exact = False

    def weigh(self, values: Floats, part: slice) -> Floats:
        """Values times omega, row by row."""
        if self.omega is None:
            return values
        factor = self.omega[part]
        return np.asarray(values * (factor if values.ndim == 1 else factor[:, None]))

    def at(self, w: Floats) -> Point:
        """Evaluate; ``norm_bound`` includes the rounding error (ROUND-GRADIENT)."""
        value, total = self._sum_exact(w) if self.exact else self._sum(w)
        gradient = (total + self.linear) + self.lam * w
        norm = float(np.linalg.norm(gradient))
        size = float(np.linalg.norm(w))
        value += 0.5 * self.lam * size * size + float(np.vdot(self.linear, w))
        terms = self.rows.block_rows + self.rows.block_count
        error = gradient_error(self.loss, self.facts, size, self.mass, self.exact, terms)
        # the computed norm of k numbers errs by at most (k+4)u relatively
        certified = norm * (1.0 + (gradient.size + 4.0) * 2.0 * UNIT) + error
        # NaN certifies nothing
        return Point(w, value, gradient, norm, certified if certified >= 0.0 else np.inf)

    def _sum(self, w: Floats) -> tuple[float, Floats]:
        value, total = 0.0, np.zeros(self.shape)
        for part, block in self.rows.blocks():
            losses, slopes = self.loss.at_scores(block @ w.T, self.y[part])
            value += float(np.sum(self.weigh(np.asarray(losses), part)))
            total += back(block, self.weigh(np.asarray(slopes), part))
        return value, total

    def _sum_exact(self, w: Floats) -> tuple[float, Floats]:
        """The same sums through error-free products and a compensated sum over blocks."""
        size, R = float(np.linalg.norm(w)), self.facts.norm_bound
        w_lead = _grid(w, size, 25)
        w_rest = w - w_lead
        value, total = 0.0, _Sum(self.shape, compensated=True)
        for part, block in Rows(self.rows.matrix, EXACT_ROWS).blocks():
            lead, rest = _split(block, R, 25)
            scores = lead @ w_lead.T + (rest @ w.T + lead @ w_rest.T)
            losses, slopes = self.loss.at_scores(scores, self.y[part])
            value += float(np.sum(self.weigh(np.asarray(losses), part)))
            r = self.weigh(np.asarray(slopes), part)
            lead, rest = _split(block, R, 20)
            r_lead = _grid(r, float(np.max(np.abs(r), initial=0.0)), 20)
            total.add(back(lead, r_lead))
            total.add(back(rest, r) + back(lead, r - r_lead))
        return value, total.value()

    def hessian_product(self, w: Floats, vector: Floats) -> Floats:
        """(Hessian of J at w) vector."""
        total = _Sum(self.shape, self.exact)
        total.add(self.lam * vector)
        for part, block in self.rows.blocks():
            bent = self.loss.curvature(block @ w.T, self.y[part], block @ vector.T)
            total.add(back(block, self.weigh(np.asarray(bent), part)))
        return total.value()

    def hessian(self, w: Floats) -> Floats:
        """The Hessian of J at w as a (k d, k d) matrix; k = 1 for scalar scores."""
        d, k = self.rows.d, int(np.prod(self.shape[:-1], dtype=int))
        total, term = _Sum((k, d, k, d), self.exact), np.zeros((k, d, k, d))
        for part, block in self.rows.blocks():
            scores = block @ w.T
            for j in range(k):
                unit = np.zeros((block.shape[0], k))
                unit[:, j] = 1.0
                bend = self.loss.curvature(scores, self.y[part], unit.reshape(scores.shape))
                bend = self.weigh(np.asarray(bend, dtype=np.float64).reshape(-1, k), part)
                for i in range(j + 1):
                    term[i, :, j, :] = gram(block, bend[:, i])
            total.add(term)
        whole = total.value()
        for j in range(k):
            for i in range(j):
                whole[j, :, i, :] = whole[i, :, j, :]
        return np.asarray(whole.reshape(k * d, k * d) + self.lam * np.eye(k * d))

    def sample(self, count: int) -> tuple[Objective, float]:
        """(objective of about ``count`` evenly spaced rows, factor that restores the mass)."""
        picked, block = self.rows.sample(count)
        omega = None if self.omega is None else self.omega[picked]
        part = Objective(self.loss, Rows(block), self.y[picked], omega, self.linear, self.facts)
        return part, self.mass / part.mass if part.mass > 0.0 else 1.0

    def largest_curvature(self) -> float:
        """beta: a bound on the Hessian's eigenvalues, Lambda + c sum omega ||x||^2."""
        squares = self.rows.squared_norms()
        mass = float(np.sum(squares if self.omega is None else squares * self.omega))
        return self.lam + self.loss.smoothness * mass * (1.0 + 1e-6)


def gram(block: Any, weights: Floats) -> Floats:
    """X' diag(weights) X, dense (d, d); rows of weight 0 cost nothing when they are many."""
    keep = np.flatnonzero(weights)
    if 2 * len(keep) < len(weights):
        block, weights = block[keep], weights[keep]
    if sparse.issparse(block) and _DENSE_SHARE * block.nnz > block.shape[0] * block.shape[1]:
        block = block.toarray()  # BLAS is faster than skipping the zeros
    if sparse.issparse(block):
        scaled = block.multiply(weights[:, None]).tocsr()
        return np.asarray((block.T @ scaled).todense())
    if np.all(weights >= 0.0):
        # one factor: BLAS then computes half of the symmetric product
        scaled = block * np.sqrt(weights)[:, None]
        return np.asarray(scaled.T @ scaled)
    return np.asarray(block.T @ (block * weights[:, None]))


class Preconditioner:
    """A cheap model of the inverse Hessian: Cholesky of a (d, d) matrix, or a diagonal.

    Curvatures are the loss's initial one, or (scalar scores) the true ones at the point ``at``.
    It changes the path, never the certificate.
    """

    def __init__(self, objective: Objective, scale: float = 1.0, at: Floats | None = None) -> None:
        rows, lam, loss = objective.rows, objective.lam, objective.loss
        self._factor: Any = None
        self._diagonal = np.full(rows.d, lam)
        dense = rows.d <= (SPARSE_MODEL if rows.is_sparse else DENSE_MODEL)
        matrix = lam * np.eye(rows.d) if dense else np.empty((0, 0))
        for part, block in rows.blocks():
            bend = np.full(block.shape[0], loss.initial_curvature)
            if at is not None and len(objective.shape) == 1:
                bend = np.asarray(loss.curvature(block @ at, objective.y[part], bend / bend))
            bend = scale * objective.weigh(bend, part)
            if dense:
                matrix += gram(block, bend)
            else:
                self._diagonal += back(squared(block), bend)
        if dense:
            self._diagonal = np.diag(matrix).copy()
            self._factor = cholesky(matrix)

    def solve(self, vector: Floats) -> Floats:
        """The model's inverse Hessian applied to a parameter-shaped vector."""
        if self._factor is None:
            return np.asarray(vector / self._diagonal)
        return np.asarray(linalg.cho_solve(self._factor, vector.T, check_finite=False).T)


def cholesky(matrix: Floats) -> Any:
    """A Cholesky factor, or None when rounding has made the matrix indefinite."""
    try:
        return linalg.cho_factor(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
