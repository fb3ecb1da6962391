"""`PrivateTransformer`: a step as a scikit-learn transformer with its own guarantee.

Nothing that depends on the data becomes an attribute except what was released.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._scikit import TransformerMixin, check_is_fitted
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.cells import Given
from noisette.core.grid import Grid
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Plan, Run
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms import train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.clipping import checked_bound
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.outputs import size_facts
from noisette.models.private import Forecast, PrivateEstimator
from noisette.tables.kinds import Column, encode_rows
from noisette.tables.pipeline.step import PreparedStep, Sample, Step


class BudgetedEstimator(PrivateEstimator):
    """An estimator with epsilon, delta, adjacency, population and random_state among its fields."""

    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        if self.population is not None:
            _validate.integer("population", self.population)
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), randomness

    def _public(self, unit: Unit, adjacency: Adjacency) -> PublicBudget:
        """Return what is public before the charge."""
        known = unit.known(adjacency, self.population)
        _validate.delta_for(self.delta, known["size"])
        return PublicBudget(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, **known
        )


class PrivateTransformer(TransformerMixin, BudgetedEstimator):  # type: ignore[misc]
    """Learns released facts from X by one step, and maps rows with them, row by row.

    A subclass has ``_step(public, features)``, which checks all parameters and returns the step;
    ``_sample(X, y, sample_weight)``, which checks X (this sets ``n_features_in_``) and returns what
    the step looks at; ``_cells(X, reset)``, X as ``transform`` takes it; ``_map(X)``, which maps
    the rows of that one by one with the released facts; and ``_names_out(names)`` of the columns.
    """

    released_: Any
    privacy_: Guarantee | None
    _welcome: tuple[str, ...] = ()
    """Input tags of scikit-learn that hold; NaN does where ``missing`` says so, too."""
    _needs_labels = False

    def __sklearn_tags__(self) -> Any:
        """Declare what X may hold, and whether y is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        tags.input_tags.allow_nan = getattr(self, "missing", None) == "zero"
        for name in self._welcome:
            setattr(tags.input_tags, name, True)
        return tags

    def _known(self, step: Step) -> tuple[str, ...]:
        """Return the public facts of the step beside those of all steps."""
        return ()

    # --- fitting ---------------------------------------------------------------------------

    def plan(self, n: int, d: int) -> Forecast:
        """Return what ``fit`` on n rows of d columns would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it.
        d : int
            The number of columns.

        %(forecast)

        """
        ledger, _ = self._check_public()
        n, d = _validate.integer("n", n), _validate.integer("d", d)
        public = self._public(Unit(n), ledger.adjacency)
        step = self._step(public, d)
        prepared = step.prepare(public)
        return Forecast(
            step.name, prepared.plan,
            accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency),
            public.delta, str(public.adjacency), notes=step.notes,
            expected=step.expected(prepared),
        )  # fmt: skip

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, persons: Any = None
    ) -> "PrivateTransformer":
        """Learn from X privately and return the transformer.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The columns.
        y : array-like of shape (n,), optional
            The labels; ignored, except by steps that say otherwise.
        sample_weight : array-like of shape (n,), optional
            Weights in [0, 1], as sensitive as the rows. A record of weight 0 takes part in nothing.
        persons : array-like of shape (n,) or Persons, optional
            Whose row each row is, by any identifier. The guarantee is then about persons with
            all their rows, whose weights add up to one; ``population`` counts persons.

        %(fitted)

        """
        with self._all_or_nothing(X):
            self._fit(X, y, sample_weight, persons)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, persons: Any) -> None:
        ledger, randomness = self._check_public()
        sample = self._sample(X, y, sample_weight)
        unit = inputs.unit_of(persons, sample.count, ledger.adjacency)
        sample.group(unit)
        public = self._public(unit, ledger.adjacency)
        step = self._step(public, self.n_features_in_)
        trained = train(
            step, public, sample, ledger=ledger, randomness=randomness,
            label="fit", model=type(self).__name__,
        )  # fmt: skip
        self.released_ = trained.released
        self.privacy_ = self._stated(
            trained.permit,
            public=(
                *size_facts(public, public.size),
                f"the {self.n_features_in_} columns and their names",
                *self._known(step), "all parameters of the estimator and the program",
            ),
            notes=step.notes, proofs=trained.proofs, unit=unit, weighed=sample_weight is not None,
        )  # fmt: skip

    def _weights(self, given: Any, n: int) -> Any:
        return None if given is None else inputs.vector("sample_weight", given, n, 0.0, 1.0)

    # --- using it --------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return X mapped row by row with the released facts: this costs nothing more.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The columns that ``fit`` saw.

        Returns
        -------
        ndarray or CSR matrix of shape (n, k)
            The new columns.

        """
        # proof: ROW-LOCAL
        check_is_fitted(self, "released_")
        with np.errstate(all="ignore"):
            return self._map(self._cells(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that ``transform`` makes.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns of X; those that ``fit`` saw, or x0, x1, ... unless given.

        Returns
        -------
        ndarray of str
            One name for each new column.

        """
        check_is_fitted(self, "released_")
        return np.array(self._names_out(inputs.column_names(self, input_features)), dtype=object)


# --- columns of numbers, and encoders of columns --------------------------------------------------


@dataclass(frozen=True)
class NumbersStep(Step):
    """A step on columns of numbers, NaN where a cell is missing, one for each grid of candidates.

    The sample's data are a list of float columns.
    """

    grids: tuple[Grid, ...]

    pure: ClassVar[bool] = True
    ups: ClassVar[tuple[bool | None, ...]]
    """The ways in which columns are snapped to their grids (`core.grid.Placed`)."""

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse another number of columns than was planned, or columns of other lengths."""
        super().check(records, prepared)
        if list(map(np.shape, records.data)) != [(records.count,)] * len(self.grids):
            raise InvalidData("there must be one column of equal length for each that was planned.")


class EncodingTransformer(PrivateTransformer):
    """Columns become features side by side, by encoders that ``_encoder(name, released)`` makes.

    ``_column(cells)`` is a column as the step takes it.
    """

    sparse_output: bool = False

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        cells = self._cells(X, reset=True)
        weights = self._weights(sample_weight, len(cells))
        return Sample(list(map(self._column, cells.T)), weights, count=len(cells))

    def _encoders(self, names: Iterable[Any]) -> list[Column]:
        return [
            self._encoder(str(name), found)
            for name, found in zip(names, self.released_, strict=True)
        ]

    def _map(self, X: Any) -> Any:
        names = list(map(str, range(X.shape[1])))  # their own may occur twice
        encoders = self._encoders(names)
        if not any(encoder.features for encoder in encoders):
            return np.zeros((len(X), 0))
        cells = dict(zip(names, map(Given, X.T), strict=True))
        rows: Any = encode_rows(encoders, cells, None)  # CSR where there are many features
        if self.sparse_output:
            return sparse.csr_matrix(rows)
        return rows.toarray() if sparse.issparse(rows) else rows

    def _names_out(self, names: NDArray[Any]) -> list[str]:
        return [name for encoder in self._encoders(names) for name in encoder.features]


class NumbersTransformer(EncodingTransformer):
    """Columns of numbers; NaN is missing, infinity counts as the end of the candidates."""

    bounds: Any
    _refuses = ("not numbers",)
    _welcome = ("allow_nan",)
    _column = staticmethod(np.ascontiguousarray)

    def _cells(self, X: Any, *, reset: bool) -> Any:
        return inputs.numbers(self, X, reset=reset)

    def _known(self, step: Step) -> tuple[str, ...]:
        stated = "the bounds of columns, as given; values outside count as the bound"
        return () if self.bounds is None else (stated,)


def grids_of(bounds: Any, columns: int) -> tuple[Grid, ...]:
    """Return the candidates of all columns; `bounds` as in the parameter of the transformers."""
    if bounds is None:
        return (Grid(),) * columns
    pairs = list(bounds) if isinstance(bounds, Sequence | np.ndarray) else []
    if len(pairs) == 2 and all(each is None or np.isscalar(each) for each in pairs):
        pairs = [tuple(pairs)] * columns
    if len(pairs) != columns or not all(each is None or np.shape(each) == (2,) for each in pairs):
        raise InvalidParameter(
            "bounds must be None, one pair (low, high) for all columns, or a list with a pair or "
            "None for each column; None stands for an unknown bound in a pair, too."
        )
    return tuple(Grid() if each is None else Grid(*each) for each in pairs)


# --- rows of bounded norm -------------------------------------------------------------------------


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
        bound = float(self.norm_bound)
        return (f"the norm bound {bound:g} of the rows; longer rows were scaled down to it",)
