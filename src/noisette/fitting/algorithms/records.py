"""`Records`: the sensitive half of a training. It is checked before the charge and never shown."""

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.core.parts import Parted, all_of, each
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, PublicBudget
from noisette.fitting.clipping import clip_factors, clipped_and_measured, row_norms
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.losses.rows import Augmented, Measured, Rows
from noisette.fitting.solvers.minimise import inside as inside
from noisette.fitting.units import Unit


class Records:
    """Rows, one target vector for each model, and what everyone's gradient is multiplied by.

    `unit` says whose rows they are, each row a record of its own unless given.
    """

    def __init__(
        self, rows: Any, targets: list[NDArray[Any]], weights: Floats | None = None,
        unit: Unit | None = None,
    ) -> None:  # fmt: skip
        self.unit = unit or Unit(int(rows.shape[0]))
        if isinstance(rows, Parted):
            rows, weights, *targets = rows.kept([rows, weights, *targets])
        self.rows, self.targets, self.weights = rows, targets, weights
        self.proofs: tuple[str, ...] = getattr(rows, "proofs", ())  # about where the rows lie

    def __repr__(self) -> str:
        return "<Records>"

    @property
    def size(self) -> int:
        """How many units there are: rows, or persons."""
        return self.unit.count

    def check(self, public: Public) -> None:
        """Refuse what the solvers would refuse, before anything is charged or drawn."""
        blocks = rows_of(self.rows, public.loss)
        check_unit(self, public, public.weight_bound)
        check_rows_each(blocks.n, public)
        if blocks.d != public.features or len(self.targets) != public.models:
            raise InvalidData("rows and targets must have the shape that was prepared for.")
        bound = public.norm_bound * (1.0 + 1e-10)
        asked = partial(_as_declared, public.loss, bound, public.weight_bound)
        # all questions in one pass, which may be one over files
        short, fitting, weighed = all_of(asked, self.rows, self.weights, *self.targets)
        if not short:
            raise InvalidData(
                f"every row must be finite with norm at most norm_bound={public.norm_bound:g}; "
                "clip the rows first."
            )
        if isinstance(self.rows, Parted):
            self.rows.within = bound  # nobody has to look again: a look may be a pass over files
        if not fitting:
            raise InvalidData("every target vector must have one entry for each row.")
        if not weighed or (self.weights is not None and np.shape(self.weights) != (blocks.n,)):
            raise InvalidData(
                "sample_weight must have one entry for each row, between 0 and "
                f"weight_bound={public.weight_bound:g}."
            )


def _as_declared(
    loss: Any, norm_bound: float, weight_bound: float, rows: Any, weights: Any, *targets: Any
) -> tuple[bool, bool, bool]:
    """Return whether rows are short enough, targets fit them, and weights lie in their range."""
    if not Rows(rows).within(norm_bound):
        return False, True, True
    # the loss itself refuses targets that it cannot take
    fitting = set(map(len, map(loss.targets, targets))) == {rows.shape[0]}
    return True, fitting, weights is None or inside(weight_bound, weights)


def check_unit(sample: Any, public: PublicBudget, weight_bound: float = 1.0) -> None:
    """Refuse rows without persons where persons are promised something, and the reverse.

    `sample` has `unit` and `weights`. The rows of one person must share one weight, whoever
    computed the weights.
    """
    if public.unit != sample.unit.word:
        raise InvalidData(f"this training was prepared for {public.unit}s as the unit.")
    sample.unit.check(sample.weights, weight_bound, public.max_rows)


def check_rows_each(rows: int, public: PublicBudget) -> None:
    """Refuse more rows than the solvers have certificates for."""
    if public.most_rows is not None and rows > public.most_rows:
        if public.grouped:
            raise InvalidData(
                f"persons have more than {public.rows_each} rows each on average, for which the "
                "solvers have no certificate; declare a cap, as in Persons.of(ids, max_rows=100)."
            )
        raise InvalidParameter(
            f"the data have more rows than the declared bound size={public.most}."
        )


def solutions(
    records: Records, public: Public, passage: Passage, tolerance: float,
    stream: Any = None, pulled: Any = 0.0,
) -> Floats:  # fmt: skip
    """Return the certified minimiser for each target vector, stacked.

    A `stream` draws the linear term of each, beside the public or released one, `pulled`.
    """
    found = []
    for target in records.targets:
        linear = None if stream is None else stream.take(1)[0].reshape(public.shape) + pulled
        found.append(passage.minimise(
            public.loss, records.rows, target, regularization=public.ridge,
            norm_bound=public.norm_bound, tolerance=tolerance, linear=linear,
            sample_weight=records.weights, weight_bound=public.weight_bound,
            max_rows=public.most_rows, total_weight=public.for_solver().total,
        ).weights)  # fmt: skip
    return np.stack(found)


def with_intercept(rows: Any, norm_bound: float, intercept: float | None) -> tuple[Any, float]:
    """Return clipped rows with a constant last column, and their norm bound.

    ||(x, s)|| <= sqrt(R^2 + s^2); `intercept` s is public, None adds no column. The column is part
    of the row, so it is regularised and inside every proof. Dense rows are not copied: clipping
    and the column are applied block by block (`losses.Augmented`).
    """
    # proof: CLIP
    thin = rows.is_sparse if isinstance(rows, Parted) else sparse.issparse(rows)
    bound = norm_bound
    if intercept is not None:
        # the value that a single-precision column really has may be above the number asked for
        single = thin and rows.dtype == np.float32
        extra = float(np.float32(intercept)) if single else float(intercept)
        bound = math.hypot(norm_bound, extra) * (1.0 + 2.0**-50)  # rounded up
    shape = (rows.shape[0], rows.shape[1] + (intercept is not None))
    kind = partial(_measured if thin else _augmented, norm_bound, intercept)
    return each(kind, rows, shape=shape), bound


def _measured(norm_bound: float, intercept: float | None, rows: Any) -> Measured:
    clipped, norms = clipped_and_measured(rows, norm_bound)
    square = norms**2
    if intercept is not None:
        last = np.full((clipped.shape[0], 1), float(intercept), dtype=clipped.dtype)
        clipped = sparse.hstack([clipped, sparse.csr_matrix(last)], format="csr")
        square += float(last.dtype.type(intercept)) ** 2
    return Measured(clipped, squares=square)


def _augmented(norm_bound: float, intercept: float | None, rows: Any) -> Augmented:
    matrix = np.asarray(rows)
    norms = row_norms(matrix)
    factor = clip_factors(matrix, norm_bound, norms=norms)
    column = None if intercept is None else np.full(len(matrix), float(intercept))
    return Augmented(matrix, factor, column, norms)
