"""`PrivateTransformer`: a step as a scikit-learn transformer with its own guarantee.

Nothing that depends on the data becomes an attribute except what was released.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._scikit import TransformerMixin, check_is_fitted
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness, as_randomness
from noisette.fitting.algorithms import train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.outputs import size_facts
from noisette.models.private import PrivateEstimator
from noisette.tables.pipeline.step import Step, StepOutlook


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

    def plan(self, n: int, d: int) -> StepOutlook:
        """Return what ``fit`` on n rows of d columns would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it.
        d : int
            The number of columns.

        Returns
        -------
        StepOutlook
            The plan, its epsilon and the noise in plain units.

        """
        ledger, _ = self._check_public()
        n, d = _validate.integer("n", n), _validate.integer("d", d)
        public = self._public(Unit(n), ledger.adjacency)
        step = self._step(public, d)
        prepared = step.prepare(public)
        cost = accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency)
        return StepOutlook(
            step.name, prepared.plan, cost, public.delta, str(public.adjacency),
            step.expected(prepared), step.notes,
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

        Returns
        -------
        self
            The fitted transformer.

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
        facts = (
            *size_facts(public, public.size), f"the {self.n_features_in_} columns and their names",
            *self._known(step), "all parameters of the estimator and the program",
        )  # fmt: skip
        self.privacy_ = self._stated(
            trained.permit, public=facts, notes=step.notes, proofs=trained.proofs, unit=unit,
            weighed=sample_weight is not None,
        )  # fmt: skip

    def _weights(self, sample_weight: Any, n: int) -> Any:
        if sample_weight is None:
            return None
        return inputs.vector("sample_weight", sample_weight, n, 0.0, 1.0)

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
        names = inputs.column_names(self, input_features)
        return np.asarray(self._names_out(names), dtype=object)
