"""What the one-shot algorithms share: public facts, prepared rows, the result."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound, clip_factors, clip_rows
from noisette.errors import InvalidData, InvalidParameter
from noisette.losses import Augmented, Loss, Rows
from noisette.mechanisms import Mechanism
from noisette.privacy import Ledger, Permit
from noisette.solvers import PublicFacts, check_ends

__all__ = ["Facts", "Trained", "check_scale", "with_intercept"]

Floats = NDArray[np.float64]

# The solvers accept rows that exceed R by rounding (1e-10 relative); the sensitivities pay for ten
# times that.
_PAID = 1.0 + 1e-9

_SMALLEST_SCALE, _LARGEST_SCALE = 1e-150, 1e150
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-30, 1e30


@dataclass(frozen=True)
class Facts:
    """Public facts of one fit. Nothing here may be read off the data.

    Parameters
    ----------
    epsilon, delta : the budget of this fit.
    ledger : where it is charged; its adjacency is the fit's.
    norm_bound : R, the norm bound of the rows *after* the intercept column was added.
    regularization : Lambda > 0, weight of ||w||^2 / 2 beside the **sum** of losses.
    size : n where it is public (replace-one, zero-out); under add-remove a declared bound on it,
        which the solvers' certificates need.
    weight_bound : public cap on sample weights.

    """

    epsilon: float
    delta: float
    ledger: Ledger
    norm_bound: float
    regularization: float
    size: int
    weight_bound: float = 1.0

    def __post_init__(self) -> None:
        _validate.epsilon(self.epsilon)
        _validate.delta(self.delta)
        checked_bound("norm_bound", self.norm_bound)
        _validate.positive("regularization", self.regularization)
        cap = _validate.positive("weight_bound", self.weight_bound)
        if not _LEAST_WEIGHT <= cap <= _MOST_WEIGHT:
            raise InvalidParameter(
                f"weight_bound must lie between {_LEAST_WEIGHT:g} and {_MOST_WEIGHT:g}, so that "
                f"weighted sums neither vanish nor overflow; got {cap!r}. Rescale the weights."
            )

    @property
    def adjacency(self) -> Adjacency:
        """The relation of the ledger."""
        return self.ledger.adjacency

    def gradient_bound(self, loss: Loss) -> float:
        """Return C = (weight cap) L R, the norm bound of one record's gradient."""
        return self.weight_bound * loss.lipschitz * self.norm_bound * _PAID

    @property
    def squared_bound(self) -> float:
        """(weight cap) R^2, which bounds the Hessian of one record."""
        return self.weight_bound * (self.norm_bound * _PAID) ** 2

    def for_solver(self, features: int, linear_norm: float = 0.0) -> PublicFacts:
        """Return what a solver may know; `linear_norm` bounds the random linear term."""
        return PublicFacts(
            rows=self.size,
            features=features,
            norm_bound=self.norm_bound,
            weight_bound=self.weight_bound,
            regularization=self.regularization,
            linear_norm=linear_norm,
        )

    def check_ends(
        self, loss: Loss, features: int, tolerance: float, linear_norm: float = 0.0
    ) -> None:
        """Refuse before the charge what is not proven to be solved, whatever the rows."""
        # proof: SOLVER-ENDS
        check_ends(loss, self.for_solver(features, linear_norm), tolerance)

    def check(
        self,
        rows: Any,
        targets: list[NDArray[Any]],
        loss: Loss,
        sample_weight: Floats | None,
    ) -> None:
        """Refuse what the solvers would refuse, before anything is charged or drawn."""
        if not math.isfinite(loss.lipschitz):
            raise InvalidParameter(
                f"the {loss.name} loss has no bounded gradient, so one record could move the "
                "solution without limit; use a loss with a bound."
            )
        blocks = Rows(rows)
        if blocks.n > self.size:
            raise InvalidParameter(
                f"the data have more rows than the declared bound size={self.size}."
            )
        most = (self.norm_bound * (1.0 + 1e-10)) ** 2
        if not bool(np.all(blocks.squared_norms() <= most)):
            raise InvalidData(
                f"every row must be finite with norm at most norm_bound={self.norm_bound:g}; "
                "clip the rows first."
            )
        for target in targets:
            if len(loss.targets(target)) != blocks.n:
                raise InvalidData("every target vector must have one entry for each row.")
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=float)
            inside = (weight >= 0.0) & (weight <= self.weight_bound)
            if weight.shape != (blocks.n,) or not bool(np.all(inside)):
                raise InvalidData(
                    "sample_weight must have one entry for each row, between 0 and "
                    f"weight_bound={self.weight_bound:g}."
                )


def check_scale(mechanism: Mechanism, unit: float) -> None:
    """Refuse before the charge what the door would refuse after it: noise beyond float64."""
    scale = getattr(mechanism, "noise_multiplier", 1.0) * unit
    if not _SMALLEST_SCALE < scale < _LARGEST_SCALE:
        raise InvalidParameter(
            f"these parameters ask for noise of scale {scale:g}, which float64 cannot serve; "
            "epsilon, sample_epsilon, norm_bound or regularization is out of reach."
        )


@dataclass(frozen=True)
class Trained:
    """Private weights, one array per model, and the permit that paid for them.

    `proofs` are theorems that the algorithm rests on beside those of its bounds and its plan.
    """

    weights: list[Floats]
    permit: Permit
    notes: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()


def with_intercept(rows: Any, norm_bound: float, intercept: float | None) -> tuple[Any, float]:
    """Return clipped rows with a constant last column, and their norm bound.

    ||(x, s)|| <= sqrt(R^2 + s^2); `intercept` s is public, None adds no column. The column is part
    of the row, so it is regularised and inside every proof. Dense rows are not copied: clipping
    and the column are applied block by block (`losses.Augmented`).
    """
    # proof: CLIP
    extra, bound = 0.0, norm_bound
    if intercept is not None:
        extra = float(intercept)
        bound = math.hypot(norm_bound, extra) * (1.0 + 2.0**-50)  # rounded up
    if not sparse.issparse(rows):
        matrix = np.asarray(rows)
        factor = clip_factors(matrix, norm_bound)
        column = None if intercept is None else np.full(len(matrix), extra)
        return Augmented(matrix, factor, column), bound
    clipped = clip_rows(rows, norm_bound)
    if intercept is None:
        return clipped, bound
    last = np.full((clipped.shape[0], 1), extra, dtype=clipped.dtype)
    # The value that the column really has: a float32 may be above the number asked for.
    bound = math.hypot(norm_bound, float(clipped.dtype.type(extra))) * (1.0 + 2.0**-50)
    return sparse.hstack([clipped, sparse.csr_matrix(last)], format="csr"), bound
