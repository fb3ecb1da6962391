"""What the steps on rows of bounded norm share: clipping, exact sums, checks."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData
from noisette.fitting.algorithms.second_moment import on_public_grid
from noisette.fitting.clipping import checked_bound, clip_rows
from noisette.fitting.losses.rows import Rows
from noisette.models import inputs
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.step import Step
from noisette.tables.pipeline.transformer import PrivateTransformer

COUNT = 0.35
"""What every row adds to the count, in units of the norm bound."""

_BITS = 22  # sums of 2^30 rows are exact


def check_rows(sample: Sample, features: int) -> None:
    """Refuse rows that are not finite, or of another length than was planned."""
    rows = sample.data
    if rows.ndim != 2 or rows.shape[1] != features:
        raise InvalidData("the rows must have the length that was planned.")
    if not np.isfinite(rows.data if sparse.issparse(rows) else rows).all():
        raise InvalidData("rows must be finite: no NaN, no infinity.")


def bounded_rows(rows: Any, bound: float) -> Any:
    """Return the rows cut to the norm bound, whatever they were."""
    # proof: CLIP
    return clip_rows(rows, bound)


def class_sums(
    rows: Any, bound: float, adjacency: Adjacency, weights: Floats, *,
    labels: Any, classes: int,
) -> Bounded:  # fmt: skip
    """Return sum w x of the rows of each class, with a column of `COUNT` R.

    Every record adds to one class only. Rows are cut to norm R = `bound`, whatever they were.
    """
    # proof: CLASS-SUMS
    extra, features = COUNT * bound, rows.shape[1]
    total = np.zeros((classes, features + 1))
    for where, block in Rows(bounded_rows(rows, bound)).blocks():
        w = weights[where]
        share = block.multiply(w[:, None]).tocsr() if sparse.issparse(block) else block * w[:, None]
        share = on_public_grid(share, bound, _BITS)  # proof: EXACT-SUM
        added = on_public_grid(extra * w, bound, _BITS)
        for number in range(classes):
            mine = np.flatnonzero(labels[where] == number)
            total[number, :features] += np.asarray(share[mine].sum(axis=0)).ravel()
            total[number, -1] += added[mine].sum()
    move = 2.0 * bound
    if adjacency is not Adjacency.REPLACE_ONE:
        move = math.hypot(bound, extra) * (1.0 + 2.0**-50)
    return Bounded(total.ravel(), adjacency, "CLASS-SUMS", l2=move)


def noisy_count(released: Floats, bound: float) -> Floats:
    """Return the counts that a column of `COUNT` R stands for, at least 1."""
    return np.maximum(np.asarray(released) / (COUNT * bound), 1.0)


class RowsTransformer(PrivateTransformer):
    """Rows of numbers, cut to a public norm bound, dense or CSR."""

    norm_bound: float
    missing: str

    def _check_public(self) -> tuple[Ledger, Randomness]:
        _validate.choice("missing", self.missing, inputs.MISSING)
        return super()._check_public()

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        rows = inputs.rows(self, X, 1)
        return Sample(rows, self._weights(sample_weight, rows.shape[0]))

    def _checked(self, X: Any) -> Any:
        return inputs.tamed(inputs.matrix(self, X))

    def _bound(self) -> float:
        return checked_bound("norm_bound", self.norm_bound)

    def _known(self, step: Step) -> tuple[str, ...]:
        bound = f"the norm bound {float(self.norm_bound):g} of the rows"
        return (f"{bound}; longer rows were scaled down to it",)

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse input works, NaN if ``missing`` says so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags
