"""`TableRegressor`: a raw table in, a private model of a number out, one guarantee about all."""

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from noisette import _validate
from noisette._scikit import RegressorMixin, check_is_fitted
from noisette._typing import Floats
from noisette.core.cells import given
from noisette.core.ledger import Ledger
from noisette.core.parts import all_of, each
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.learnt_target import BUYING
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.losses import Huber
from noisette.fitting.partitions.lazily import lazily
from noisette.models.outputs import BOUGHT_TARGET, target_fact
from noisette.models.private import Scored
from noisette.models.regressor import checked_target_bounds
from noisette.tables import Schema
from noisette.tables.person_facts import planned_unit
from noisette.tables.pipeline.bounds import least_tail
from noisette.tables.pipeline.categories import keys_of
from noisette.tables.pipeline.pairs import checked_pairs
from noisette.tables.pipeline.parted_tables import frame_of, labels_of
from noisette.tables.pipeline.recipe import TableRecipe, recipe_for_numbers, with_room_for
from noisette.tables.pipeline.table_estimator import TableEstimator
from noisette.tables.pipeline.table_outlook import TableOutlook, table_outlook
from noisette.tables.pipeline.table_training import FittedTable, TableSample, TableTraining
from noisette.tables.pipeline.table_words import target_cut

LEARN = "learn"
# Limits get more of the budget where they would cut off more than _TAIL, and are not bought where
# ranks are so noisy that no share of it helps.
_TAIL, _HOPELESS, _LARGER = 0.1, 0.25, (0.15, 0.3)


class TableRegressor(Scored, RegressorMixin, TableEstimator):  # type: ignore[misc]
    """A private linear model of a number from a raw table of which only the kinds are known.

    Bounds, knots, levels, centres, scales and weights are all bought from the one budget, by one
    plan that is charged before the first look. The loss is Huber's.

    Parameters
    ----------
    epsilon : float
        The budget of everything that is released.
    delta : float
        0 is pure; categories that nobody listed are then told apart by a public hash only.
    schema : dict, Schema or path
        As in `TableClassifier`.
    target_bounds : pair of float, "learn" or None
        The limits (low, high) of the target, public; "learn" buys them (two quantiles); None takes
        what the schema says of its target. Values beyond are cut.
    threshold : float
        Where the loss becomes linear, in units of half the range of the target.
    adjacency, population, test_share : str, int or float
        As in `TableClassifier`.
    share, random_state, ledger : float, Randomness or Ledger
        As in `TableClassifier`.

    Attributes
    ----------
    schema_ : Schema
        The schema with everything that was learnt; it is released and public.
    target_bounds_ : tuple of float
        The limits of the target, public or released.
    coef_ : ndarray
        The weights of the encoded features.
    intercept_ : float
        The intercept.
    test_ : RegressionScores
        With `test_share`: R^2, MAE and RMSE on other people, with error bars.
    privacy_ : Guarantee
        About everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import TableRegressor
    >>> rng = np.random.default_rng(0)
    >>> table = {"age": rng.integers(18, 90, 5000).astype(float)}
    >>> table["ward"] = np.array(["a", "b", "c"])[rng.integers(0, 3, 5000)]
    >>> days = 0.2 * table["age"] + 5.0 * (table["ward"] == "b") + rng.normal(0.0, 1.0, 5000)
    >>> kinds = {"age": "numeric", "ward": "categorical"}
    >>> model = TableRegressor(2.0, 1e-6, schema=kinds, target_bounds=(0, 30), random_state=0)
    >>> bool(model.fit(table, days).score(table, days) > 0.8)
    True
    >>> model.predict(table).shape
    (5000,)
    >>> model.set_params(test_share=0.2).fit(table, days).test_.r2.low > 0.0
    True

    """

    _whole = "a regression with the facts of its columns"
    _refuses = ("columns", "lines", "target")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        target_bounds: Any = None,
        threshold: float = 0.3,
        adjacency: str = "replace-one",
        population: int | None = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.target_bounds = target_bounds
        self.threshold = threshold
        self.adjacency = adjacency
        self.population = population
        self.test_share = test_share
        self.share = share
        self.random_state = random_state
        self.ledger = ledger

    # --- fitting -----------------------------------------------------------------------------

    def plan(self, n: int) -> TableOutlook:
        """Return what ``fit`` on n rows would release and cost, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it; of persons, where the schema tells them apart.

        Returns
        -------
        TableOutlook
            The plan, the steps with their shares, the noise in plain units, memory and time.

        Raises
        ------
        InvalidParameter
            If a parameter of the estimator or a fact of the schema is out of range.

        Examples
        --------
        >>> from noisette import TableRegressor
        >>> kinds = {"age": "numeric", "ward": "categorical"}
        >>> model = TableRegressor(1.0, 1e-6, schema=kinds, target_bounds=(0, 30))
        >>> [step.name for step in model.plan(5000).steps]
        ['knots', 'levels', 'shares', 'weights']

        """
        ledger, _ = self._check_public()
        n = _validate.integer("n", n)
        schema = self._read_schema(target=False)
        public = self._public(planned_unit(schema.persons, n), ledger.adjacency)
        if public.size is None:
            public = replace(public, size=n)
        most = self._for_training(public)
        training = self._training(schema, most)
        assert most.size is not None
        shown = table_outlook(training, training.prepare(most), most.size)
        if self.test_share is None:
            return shown
        tested = self._tested(training, self._bare(training), ledger)
        return replace(shown, plan=tested.prepare(public).plan)

    def fit(self, X: Any, y: Any = None, persons: Any = None) -> Self:
        """Learn the facts and train, privately.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.
        y : array-like, optional
            The numbers to predict; None takes the column that the schema names as target.
        persons : array-like or Persons, optional
            Whose row each row is; None where the schema names the column, or every row is a record.

        Returns
        -------
        self
            The fitted regressor.

        """
        with self._all_or_nothing(X):
            self._fit(X, y, persons)
        self._warn_unread()
        return self

    def _fit(self, X: Any, y: Any, persons: Any) -> None:
        budget = self._check_public()
        schema = self._read_schema(target=y is None)
        frame = frame_of(X, schema, target=y is None)
        self._check_parts(frame, persons)
        target = each(_numbers, labels_of(frame, y))
        if frame.rows < 1 or target.shape != (frame.rows,) or not all_of(_finite, target):
            raise InvalidData("the table needs rows, and y one finite number for each of them.")
        unit = self._unit(persons, frame, schema, budget[0].adjacency)
        public = self._public(unit, budget[0].adjacency)
        training = self._training(schema, self._for_training(public))
        sample = TableSample(frame, target, unit)
        sample.pairs = len(training.used_pairs)
        trained, notes = self._trained(training, public, sample, self._bare(training), budget)
        bounds = self.target_bounds_
        fact = BOUGHT_TARGET if training.buys_bounds else target_fact(*bounds)
        self._promised(trained, (*notes, target_cut(*bounds)), public, fact, unit)

    def _bare(self, training: TableTraining) -> "TableRegressor":
        """Return the model as far as it is public; limits that are bought are not yet known."""
        bare = copy.copy(self)
        low, high = training.bounds
        bare.target_bounds_ = (-1.0, 1.0) if low is None or high is None else (low, high)
        return bare

    def _publish(self, fitted: FittedTable) -> None:
        low, high = self.target_bounds_ = fitted.bounds
        middle, half = low / 2.0 + high / 2.0, (high - low) / 2.0
        self.schema_, bars = fitted.schema, fitted.bars
        self.bars_ = None if bars is None else {k: bar.times(half) for k, bar in bars.items()}
        self.pairs_ = tuple(pair.times(half) for pair in fitted.pairs)
        self.coef_ = half * np.asarray(fitted.coef)[0]
        self.intercept_ = middle + half * float(np.asarray(fitted.intercept)[0])

    def _unnamed(self, name: str) -> dict[str, Any]:
        return {"target": {"name": name, "kind": "numeric"}}

    def _check_public(self) -> tuple[Ledger, Randomness]:
        if not 0.01 <= _validate.positive("threshold", self.threshold) <= 2.0:
            raise InvalidParameter(
                f"threshold must lie between 0.01 and 2, in half ranges of the target; got "
                f"{self.threshold!r}."
            )
        if isinstance(self.target_bounds, str):
            _validate.choice("target_bounds", self.target_bounds, (LEARN,))
        elif self.target_bounds is not None:
            checked_target_bounds(self.target_bounds)
        return self._check_table()

    def _limits(self, schema: Schema) -> tuple[float | None, float | None]:
        """Return the limits of the target as the user or the schema states them."""
        if not isinstance(self.target_bounds, str) and self.target_bounds is not None:
            return checked_target_bounds(self.target_bounds)
        if schema.target_bounds is None:
            raise InvalidParameter(
                "the schema lists classes; a number to predict needs "
                '[target] with name, kind = "numeric", low and high.'
            )
        stated = schema.target_bounds
        if self.target_bounds is None and None in stated:
            raise InvalidParameter(
                "target_bounds has no default: pass target_bounds=(low, high), limits of the "
                "target that are known without the data, or 'learn' to buy them."
            )
        return stated

    def _training(self, schema: Schema, public: PublicBudget) -> TableTraining:
        bounds, loss = self._limits(schema), Huber(float(self.threshold))
        least = recipe_for_numbers(public, bought=1, counted=1, unknown=0)
        bare = TableTraining(schema, loss, least, persons=public.grouped, bounds=bounds)
        bare = replace(bare, pairs=checked_pairs(self.pairs, schema))
        if bare.unknown:
            bare = replace(bare, keys=keys_of(public))
        if bare.buys_bounds:
            public.known_size(BUYING)
        bought = len(bare.numbers) + bare.buys_bounds
        recipe = self._recipe(
            public,
            bought=bought,
            counted=len(bare.counted) + 1,
            unknown=len(bare.unknown),
            share=self.share if self.share is not None else schema.share,
        )
        recipe = with_room_for(recipe, public, len(bare.pairs), numbers=True)
        training = replace(bare, recipe=recipe)
        if not bought:
            return training
        for knots in (recipe.knots, *_LARGER) if self.share is None else (recipe.knots,):
            recipe = replace(recipe, knots=max(knots, recipe.knots))
            training = replace(bare, recipe=recipe)
            scale = training.prepare(public).steps[0][1].scale
            tail = least_tail(public.size, scale, bought, public.adjacency)
            if tail <= _TAIL:
                break
        if bare.buys_bounds and tail >= _HOPELESS:
            raise InvalidParameter(
                "from public facts alone, the limits of the target cannot be bought with so few "
                "rows, so little epsilon and so many columns; state low and high of the target "
                "([target] of the schema, or target_bounds=(low, high) in Python) "
                "or bounds of columns, or use a larger epsilon."
            )
        return replace(training, recipe=replace(recipe, tail=tail))

    def _recipe(self, public: PublicBudget, **columns: Any) -> TableRecipe:
        return recipe_for_numbers(public, **columns)

    # --- using the model -----------------------------------------------------------------------

    @lazily
    def predict(self, X: Any) -> Floats:
        """Return the predicted number of every row, cut to the limits of the target.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.

        Returns
        -------
        ndarray of shape (n,)
            Predictions.

        """
        check_is_fitted(self, "schema_")
        return np.asarray(np.clip(self._scores(X), *self.target_bounds_))


def _finite(target: Floats) -> bool:
    return bool(np.isfinite(target).all())


def _numbers(y: Any) -> Floats:
    return given(y, "y must be a vector of numbers, one for each row.").numbers()
