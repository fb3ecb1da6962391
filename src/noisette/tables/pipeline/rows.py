"""What the steps on rows of bounded norm share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Plan, Run
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData
from noisette.fitting.clipping import checked_bound
from noisette.models import inputs
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.step import PreparedStep, Step
from noisette.tables.pipeline.transformer import PrivateTransformer


@dataclass(frozen=True)
class RowStep(Step):
    """A step on rows of so many features, cut to norm `bound`; data are a matrix, dense or CSR."""

    features: int
    bound: float = 1.0

    def __post_init__(self) -> None:
        checked_bound("bound", self.bound)

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one noisy vector, or symmetric matrix."""
        return Run(Gaussian(scale))

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse rows that are not finite, or of another length than was planned."""
        super().check(records, prepared)
        rows = records.data
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise InvalidData("the rows must have the length that was planned.")
        if not np.isfinite(rows.data if sparse.issparse(rows) else rows).all():
            raise InvalidData("rows must be finite: no NaN, no infinity.")


class RowsTransformer(PrivateTransformer):
    """Rows of numbers, cut to a public norm bound, dense or CSR."""

    norm_bound: float
    missing: str
    _welcome = ("sparse",)

    def _check_public(self) -> tuple[Ledger, Randomness]:
        _validate.choice("missing", self.missing, inputs.MISSING)
        return super()._check_public()

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        rows = inputs.rows(self, X, 1)
        return Sample(rows, self._weights(sample_weight, rows.shape[0]))

    def _cells(self, X: Any, *, reset: bool) -> Any:
        return inputs.tamed(inputs.matrix(self, X))

    def _bound(self) -> float:
        return checked_bound("norm_bound", self.norm_bound)

    def _known(self, step: Step) -> tuple[str, ...]:
        bound = f"the norm bound {float(self.norm_bound):g} of the rows"
        return (f"{bound}; longer rows were scaled down to it",)
