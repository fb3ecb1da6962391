"""`Records`: the sensitive half of a training. It is checked before the charge and never shown."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.clipping import clip_factors, clip_rows, row_norms
from noisette.errors import InvalidData, InvalidParameter
from noisette.losses import Augmented, Rows
from noisette.training.public import Public

__all__ = ["Records", "with_intercept"]


class Records:
    """Rows, one target vector for each model, and what everyone's gradient is multiplied by."""

    def __init__(
        self, rows: Any, targets: list[NDArray[Any]], weights: Floats | None = None
    ) -> None:
        self.rows, self.targets, self.weights = rows, targets, weights

    def __repr__(self) -> str:
        return "<Records>"

    def check(self, public: Public) -> None:
        """Refuse what the solvers would refuse, before anything is charged or drawn."""
        blocks = Rows(self.rows)
        if public.most is not None and blocks.n > public.most:
            raise InvalidParameter(
                f"the data have more rows than the declared bound size={public.most}."
            )
        if not blocks.within(public.norm_bound * (1.0 + 1e-10)):
            raise InvalidData(
                f"every row must be finite with norm at most norm_bound={public.norm_bound:g}; "
                "clip the rows first."
            )
        if blocks.d != public.features or len(self.targets) != public.models:
            raise InvalidData("rows and targets must have the shape that was prepared for.")
        for target in self.targets:
            if len(public.loss.targets(target)) != blocks.n:
                raise InvalidData("every target vector must have one entry for each row.")
        if self.weights is not None:
            weight = np.asarray(self.weights, dtype=float)
            inside = (weight >= 0.0) & (weight <= public.weight_bound)
            if weight.shape != (blocks.n,) or not bool(np.all(inside)):
                raise InvalidData(
                    "sample_weight must have one entry for each row, between 0 and "
                    f"weight_bound={public.weight_bound:g}."
                )


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
        norms = row_norms(matrix)
        factor = clip_factors(matrix, norm_bound, norms=norms)
        column = None if intercept is None else np.full(len(matrix), extra)
        return Augmented(matrix, factor, column, norms), bound
    clipped = clip_rows(rows, norm_bound)
    if intercept is None:
        return clipped, bound
    last = np.full((clipped.shape[0], 1), extra, dtype=clipped.dtype)
    # The value that the column really has: a float32 may be above the number asked for.
    bound = math.hypot(norm_bound, float(clipped.dtype.type(extra))) * (1.0 + 2.0**-50)
    return sparse.hstack([clipped, sparse.csr_matrix(last)], format="csr"), bound
