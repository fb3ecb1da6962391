"""J(w) = sum_i omega_i l(w; x_i, y_i) + (Lambda/2)||w||^2 + b.w with certified gradients."""

from __future__ import annotations

import copy
import math
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from noisette._typing import Floats
from noisette.core.parts import total_of
from noisette.fitting.losses import Loss
from noisette.fitting.losses.blocks import back, squared, weigh, weighted
from noisette.fitting.losses.rows import Rows
from noisette.fitting.solvers.rounding import EXACT_ROWS, UNIT, PublicFacts, gradient_error

# up to this many parameters the Hessian is factorised
DENSE_HESSIAN = 640
# widest data for which a (d, d) model is factorised: beyond, its cost exceeds its gain
DENSE_MODEL, SPARSE_MODEL = 1024, 256
_MOST_ROOM = 1 << 20  # entries
_DENSE_SHARE = 16  # where more than one entry in so many is not zero


@dataclass(frozen=True)
class Point:
    """One evaluation: J, its gradient, and a bound on the exact gradient's norm."""

    w: Floats
    value: float
    gradient: Floats
    norm: float
    norm_bound: float
    model: Any = None
    """The `Preconditioner` there, where it was asked for."""


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


# --- terms of one block, wherever it lies ------------------------------------------------------


def _gradient_terms(
    loss: Loss, w: Floats, model: bool, block: Any, y: Any, omega: Any
) -> tuple[Any, ...]:
    losses, slopes = loss.at_scores(block @ w.T, y)
    value = float(np.sum(weigh(np.asarray(losses), omega)))
    r = weigh(np.asarray(slopes), omega)
    more = _model_terms(loss, w, True, block, y, omega) if model else ()
    return value, back(block, r), float(np.sum(np.abs(r))), *more


def _exact_terms(
    loss: Loss, w: Floats, w_lead: Floats, R: float, block: Any, y: Any, omega: Any
) -> tuple[Any, ...]:
    """The same through error-free products."""
    w_rest = w - w_lead
    lead, rest = _split(block, R, 25)
    scores = lead @ w_lead.T + (rest @ w.T + lead @ w_rest.T)
    losses, slopes = loss.at_scores(scores, y)
    value = float(np.sum(weigh(np.asarray(losses), omega)))
    r = weigh(np.asarray(slopes), omega)
    lead, rest = _split(block, R, 20)
    r_lead = _grid(r, float(np.max(np.abs(r), initial=0.0)), 20)
    return value, (back(lead, r_lead), back(rest, r) + back(lead, r - r_lead))


def _bent_terms(
    loss: Loss, w: Floats, vector: Floats, block: Any, y: Any, omega: Any
) -> tuple[Any, ...]:
    bent = loss.curvature(block @ w.T, y, block @ vector.T)
    return (back(block, weigh(np.asarray(bent), omega)),)


def _hessian_terms(loss: Loss, w: Floats, k: int, block: Any, y: Any, omega: Any) -> tuple[Any]:
    d = block.shape[1]
    term = np.zeros((k, d, k, d))
    scores = block @ w.T
    for j in range(k):
        unit = np.zeros((block.shape[0], k))
        unit[:, j] = 1.0
        bend = loss.curvature(scores, y, unit.reshape(scores.shape))
        bend = weigh(np.asarray(bend, dtype=np.float64).reshape(-1, k), omega)
        for i in range(j + 1):
            term[i, :, j, :] = gram(block, bend[:, i])
    return (term,)


def _model_terms(
    loss: Loss, at: Floats | None, dense: bool, block: Any, y: Any, omega: Any
) -> tuple[Floats]:
    bend = np.full(block.shape[0], loss.initial_curvature)
    if at is not None:
        bend = np.asarray(loss.curvature(block @ at, y, bend / bend))
    bend = weigh(bend, omega)
    return (gram(block, bend) if dense else back(squared(block), bend),)


class Objective:
    """The objective on one data set; ``exact`` switches to the error-free products.

    Parameters have the shape ``loss.parameter_shape(d)`` everywhere.
    """

    def __init__(
        self, loss: Loss, rows: Rows, y: npt.NDArray[Any], sample_weight: Floats | None,
        linear: Floats | None, facts: PublicFacts,
    ) -> None:  # fmt: skip
        self.loss, self.rows, self.y, self.omega = loss, rows, y, sample_weight
        self.facts, self.lam = facts, facts.regularization
        self.shape = loss.parameter_shape(rows.d)
        self.linear = np.zeros(self.shape) if linear is None else linear
        self.mass = float(rows.n if sample_weight is None else total_of(sample_weight))
        self.exact = False

    def at(self, w: Floats, *, model: bool = False) -> Point:
        """Evaluate; ``norm_bound`` includes the rounding error (ROUND-GRADIENT).

        With `model` the same pass models the Hessian there; for scalar scores.
        """
        pull, start, modelled = None, (0.0, np.zeros(self.shape), 0.0), None
        if self.exact:  # through error-free products and a compensated sum over blocks
            lead = _grid(w, float(np.linalg.norm(w)), 25)
            work = partial(_exact_terms, self.loss, w, lead, self.facts.norm_bound)
            value, total = self.rows.sums(
                work, self.y, self.omega, start=start[:2], compensated=True, block_rows=EXACT_ROWS,
            )  # fmt: skip
        else:  # with the sum of the derivatives' absolute values
            more = (self.lam * np.eye(self.rows.d),) if model else ()
            value, total, pull, *found = self.rows.sums(
                partial(_gradient_terms, self.loss, w, model), self.y, self.omega,
                start=(*start, *more), formed=False,
            )  # fmt: skip
            modelled = Preconditioner(found[0]) if model else None
        gradient = (total + self.linear) + self.lam * w
        norm = float(np.linalg.norm(gradient))
        size = float(np.linalg.norm(w))
        value += 0.5 * self.lam * size * size + float(np.vdot(self.linear, w))
        error = gradient_error(
            self.loss, self.facts, size, self.mass, self.exact, self.rows.depth, pull
        )
        # the computed norm of k numbers errs by at most (k+4)u relatively
        certified = norm * (1.0 + (gradient.size + 4.0) * 2.0 * UNIT) + error
        # NaN certifies nothing
        certified = certified if certified >= 0.0 else np.inf
        return Point(w, value, gradient, norm, certified, modelled)

    def hessian_product(self, w: Floats, vector: Floats) -> Floats:
        """(Hessian of J at w) vector."""
        (total,) = self.rows.sums(
            partial(_bent_terms, self.loss, w, vector), self.y, self.omega,
            start=(self.lam * vector,), compensated=self.exact, formed=self.exact,
        )  # fmt: skip
        return np.asarray(total)

    def hessian(self, w: Floats) -> Floats:
        """The Hessian of J at w as a (k d, k d) matrix; k = 1 for scalar scores."""
        d, k = self.rows.d, int(np.prod(self.shape[:-1], dtype=int))
        (whole,) = self.rows.sums(
            partial(_hessian_terms, self.loss, w, k), self.y, self.omega,
            start=(np.zeros((k, d, k, d)),), compensated=self.exact, formed=self.exact,
        )  # fmt: skip
        for j in range(k):
            for i in range(j):
                whole[j, :, i, :] = whole[i, :, j, :]
        return np.asarray(whole.reshape(k * d, k * d) + self.lam * np.eye(k * d))

    def newton_step(self, point: Point) -> Floats | None:
        """-H^-1 g by Cholesky; None for long parameters, or where rounding forbids it."""
        factor = cholesky(self.hessian(point.w)) if point.w.size <= DENSE_HESSIAN else None
        if factor is None:
            return None
        step = linalg.cho_solve(factor, point.gradient.ravel(), check_finite=False)
        return -np.asarray(step).reshape(self.shape)

    def but(self, **changes: Any) -> Objective:
        """The same problem, evaluated as finely, with other attributes."""
        found = copy.copy(self)
        found.__dict__.update(changes)
        return found

    def largest_curvature(self) -> float:
        """beta: a bound on the Hessian's eigenvalues, Lambda + c sum omega ||x||^2."""
        return self.lam + self.loss.smoothness * self.rows.curved(self.omega) * (1.0 + 1e-6)


_ROOMS, _NO_ROOM = threading.local(), np.empty(0)


def gram(block: Any, weights: Floats) -> Floats:
    """X' diag(weights) X, dense (d, d); rows of weight 0 cost nothing when they are many."""
    keep = np.flatnonzero(weights)
    if 2 * len(keep) < len(weights):
        block, weights = block[keep], weights[keep]
    if sparse.issparse(block) and _DENSE_SHARE * block.nnz > block.shape[0] * block.shape[1]:
        block = block.toarray()  # BLAS is faster than skipping the zeros
    if sparse.issparse(block):
        return np.asarray((block.T @ weighted(block, weights)).todense())
    if np.all(weights >= 0.0):
        # memory of this thread, the same each time (`Rows.blocks` says why)
        size, room = math.prod(block.shape), None
        if size <= _MOST_ROOM:
            if getattr(_ROOMS, "memory", _NO_ROOM).size < size:
                _ROOMS.memory = np.empty(size)
            room = _ROOMS.memory[:size].reshape(block.shape)
        # one factor: BLAS then computes half of the symmetric product
        scaled = weighted(block, np.sqrt(weights), room)
        return np.asarray(scaled.T @ scaled)
    return back(block, weighted(block, weights)).T


class Preconditioner:
    """A cheap model of the inverse Hessian: Cholesky of a (d, d) matrix, or a diagonal.

    Curvatures are the loss's initial one, or (scalar scores) the true ones at the point ``at``.
    It changes the path, never the certificate.
    """

    def __init__(self, model: Floats) -> None:
        dense = model.ndim == 2
        self._diagonal = np.diag(model).copy() if dense else model
        self._factor: Any = cholesky(model) if dense else None

    @classmethod
    def of(cls, objective: Objective, at: Floats | None = None) -> Self:
        """Return that of an objective, from a pass over its rows."""
        rows, lam = objective.rows, objective.lam
        dense = rows.d <= (SPARSE_MODEL if rows.is_sparse else DENSE_MODEL)
        point = at if len(objective.shape) == 1 else None
        (model,) = rows.sums(
            partial(_model_terms, objective.loss, point, dense), objective.y,
            objective.omega, start=(lam * np.eye(rows.d) if dense else np.full(rows.d, lam),),
            formed=False,
        )  # fmt: skip
        return cls(model)

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
