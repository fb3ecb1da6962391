"""The one entry point: checks on public facts first, then a solve that cannot fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette.core.parts import all_of, each, total_of
from noisette.errors import InvalidParameter
from noisette.fitting.losses import Loss
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.solvers.hinge import minimise_hinge
from noisette.fitting.solvers.limits import check_ends, check_range
from noisette.fitting.solvers.objective import Objective
from noisette.fitting.solvers.rounding import PublicFacts, attainable_tolerance, default_tolerance
from noisette.fitting.solvers.smooth import minimise_smooth

# rows that a clip in float64 (or float32) left at the bound may exceed it by rounding
_CLIP_SLACK = 1e-10


class SolverDefect(RuntimeError):
    """A proof was broken: a defect of this library. Raised instead of releasing a wrong point."""


@dataclass(frozen=True)
class Solution:
    """An approximate minimiser and what is certified about it.

    ``weights``: shape (d,), for softmax the coordinates (K-1, d) (``loss.expand`` gives W).
    ``gradient_norm_bound``: public; the exact gradient of J at ``weights`` has at most this norm
    (hinge: Lambda times the distance bound). It is the tolerance, not the value reached.
    ``distance_bound``: public; ||weights - w*|| <= this = tolerance/Lambda (SOLVER-DISTANCE).
    ``reached``: the certificate's own value, <= gradient_norm_bound. Sensitive: never release it.
    """

    weights: npt.NDArray[np.float64]
    gradient_norm_bound: float
    distance_bound: float
    reached: float = field(repr=False)


def minimise(
    loss: Loss,
    X: Any,
    y: npt.ArrayLike,
    *,
    regularization: float,
    norm_bound: float = 1.0,
    tolerance: float | None = None,
    linear: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    weight_bound: float = 1.0,
    max_rows: int | None = None,
    total_weight: float | None = None,
) -> Solution:
    """Minimise J(w) = sum_i omega_i l(w; x_i, y_i) + (Lambda/2)||w||^2 + b.w, certified.

    * loss: the hinge is certified by its duality gap, the others by the gradient.
    * X: (n, d), dense or CSR (not densified). Rows have norm <= ``norm_bound``: clip first.
    * y: (n,), labels -1/+1, class numbers, or targets, as ``loss.targets`` says.
    * regularization: Lambda > 0 of the *sum* form; every coordinate is regularised.
    * norm_bound: R, public.
    * tolerance: public bound on the gradient norm (sum form). Default
      max(1e-6 omega L R, attainable), for the hinge 1e-4; see ``default_tolerance``.
    * linear: b with the parameter's shape (objective perturbation); default 0.
    * sample_weight: omega in [0, ``weight_bound``]; default 1.
    * max_rows: public bound on n. Default n itself, which is public under replace-one only:
      under add/remove pass a number chosen without the data.
    * total_weight: public bound on the sum of all weights, if less than rows x weight_bound.

    Failure is impossible by design (SOLVER-ENDS): no warning and no exception depends on valid
    data, and the solve ends within a number of steps that public facts give. ValueError concerns
    public facts (shapes, parameters, a tolerance below what float64 certifies for them, a Lambda
    too small for the proof), or rows, labels and weights outside their declared bounds, which the
    caller's clipping has made impossible. The running time within the bound depends on the data.
    """
    rows = rows_of(X, loss)
    shape = loss.parameter_shape(rows.d)
    b = None if linear is None else np.array(linear, dtype=np.float64)
    if b is not None and (b.shape != shape or not np.all(np.isfinite(b))):
        raise InvalidParameter(f"linear must be finite with shape {shape}; got shape {b.shape}.")
    _validate.positive("regularization", regularization)
    _validate.positive("norm_bound", norm_bound)
    _validate.positive("weight_bound", weight_bound)
    if rows.n > (most := rows.n if max_rows is None else int(max_rows)):
        raise InvalidParameter(f"max_rows={most} is a public bound and the data have more rows.")
    facts = PublicFacts(
        most, rows.d, float(norm_bound), float(weight_bound), float(regularization),
        linear_norm=0.0 if b is None else float(np.linalg.norm(b)),
        total=None if total_weight is None else _validate.positive("total_weight", total_weight),
    )  # fmt: skip
    check_range(loss, facts)
    goal = _tolerance(loss, facts, tolerance)
    check_ends(loss, facts, tolerance)
    omega = _weights(sample_weight, rows.n, facts)
    target = each(loss.targets, y)
    if len(target) != rows.n:
        raise InvalidParameter(f"y must have {rows.n} entries; got {len(target)}.")
    if not rows.within(norm_bound * (1.0 + _CLIP_SLACK)):
        raise InvalidParameter(
            f"every row of X must be finite with norm at most norm_bound={norm_bound}: clip first."
        )
    objective = Objective(loss, rows, target, omega, b, facts)
    with np.errstate(all="ignore"):  # a warning would depend on the data
        if np.isfinite(loss.smoothness):
            point = minimise_smooth(objective, goal)
            weights, reached = point.w, point.norm_bound
        else:
            dual = minimise_hinge(objective, goal)
            weights, reached = dual.w, dual.distance * objective.lam
    if not reached <= goal:  # NaN is not a certificate
        raise SolverDefect("the solver broke its proof (SOLVER-ENDS); nothing is returned.")
    # proof: SOLVER-DISTANCE; rounded up
    distance = float(np.nextafter(goal / objective.lam, np.inf))
    return Solution(weights, goal, distance, float(reached))


def _tolerance(loss: Loss, facts: PublicFacts, tolerance: float | None) -> float:
    """The tolerance to certify, or a refusal that depends on public facts only."""
    if tolerance is None:
        goal = default_tolerance(loss, facts)
        if np.isfinite(goal):
            return goal
        raise InvalidParameter(
            "regularization, norm_bound, weights or linear exceed float64's range."
        )
    goal, smallest = _validate.positive("tolerance", tolerance), attainable_tolerance(loss, facts)
    if goal >= smallest:
        return goal
    raise InvalidParameter(
        f"tolerance={goal:.3g} cannot be certified in float64 for rows <= {facts.rows}, "
        f"norm_bound={facts.norm_bound:.3g}, regularization={facts.regularization:.3g}: "
        f"the smallest is {smallest:.3g}; raise the tolerance or the regularization."
    )


def _weights(sample_weight: npt.ArrayLike | None, n: int, facts: PublicFacts) -> Any:
    bound = facts.weight_bound
    if sample_weight is None:
        if bound < 1.0:
            raise InvalidParameter(f"weight_bound={bound} is below the default weight 1.")
        if n > facts.mass:
            raise InvalidParameter("the weights add up to more than total_weight, a public bound.")
        return None
    omega: Any = each(partial(np.asarray, dtype=np.float64), sample_weight)
    if omega.shape != (n,) or not all_of(partial(inside, bound), omega):
        raise InvalidParameter(
            f"sample_weight must be {n} numbers in [0, {bound}] (weight_bound): clip first."
        )
    if total_of(omega) > facts.mass * (1.0 + 1e-9):
        raise InvalidParameter("the weights add up to more than total_weight, a public bound.")
    return omega


def inside(bound: float, weights: Any) -> bool:
    """Return whether all weights are in [0, bound]."""
    return bool(np.all((np.asarray(weights) >= 0.0) & (np.asarray(weights) <= bound)))
