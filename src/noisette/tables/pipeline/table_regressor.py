"""`TableRegressor`: a raw table in, a private model of a number out, one guarantee about all."""

from typing import Any

import numpy as np

from noisette import _validate
from noisette._scikit import RegressorMixin, check_is_fitted
from noisette._typing import Floats
from noisette.core.cells import given
from noisette.core.ledger import Ledger
from noisette.core.parts import all_of, each
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.losses import Huber
from noisette.fitting.partitions.lazily import lazily
from noisette.models.outputs import BOUGHT_TARGET, target_fact
from noisette.models.private import Forecast, Scored
from noisette.models.regressor import checked_target_bounds
from noisette.tables import Schema
from noisette.tables.pipeline.table_estimator import TableEstimator
from noisette.tables.pipeline.table_run import FittedTable
from noisette.tables.pipeline.target import Goal, NumberTarget, Target

LEARN = "learn"


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
    %(adjacency, population, test_share, random_state, ledger)

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
    %(released)

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
    >>> [step.name for step in model.plan(5000).steps]
    ['knots', 'levels', 'shares', 'weights']
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
        self._keep(locals())

    # --- fitting -----------------------------------------------------------------------------

    def plan(self, n: int) -> Forecast:
        """Return what ``fit`` on n rows would release and cost, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it; of persons, where the schema tells them apart.

        %(forecast)

        """
        return self._forecast(n)

    def _foreseen(self, schema: Schema) -> Goal:
        low, high = schema.target_bounds or (None, None)
        if not isinstance(self.target_bounds, str) and self.target_bounds is not None:
            low, high = checked_target_bounds(self.target_bounds)
        elif schema.target_bounds is None:
            raise InvalidParameter(
                "the schema lists classes; a number to predict needs "
                '[target] with name, kind = "numeric", low and high.'
            )
        elif self.target_bounds is None and None in schema.target_bounds:
            raise InvalidParameter(
                "target_bounds has no default: pass target_bounds=(low, high), limits of the "
                "target that are known without the data, or 'learn' to buy them."
            )
        # those that are bought are not yet known
        known = (-1.0, 1.0) if low is None or high is None else (low, high)
        target = NumberTarget(Huber(float(self.threshold)), (low, high))
        return Goal(target, {"target_bounds_": known})

    def _read(self, schema: Schema, y: Any, rows: int, size: int | None) -> Goal:
        numbers = each(_numbers, y)
        if rows < 1 or numbers.shape != (rows,) or not all_of(_finite, numbers):
            raise InvalidData("the table needs rows, and y one finite number for each of them.")
        return self._foreseen(schema)._replace(y=numbers)

    def _told(self, target: Target) -> tuple[str, tuple[str, ...]]:
        low, high = self.target_bounds_
        return BOUGHT_TARGET if target.buys else target_fact(low, high), (
            f"Targets beyond {low:g} and {high:g} counted as these limits, and no prediction lies "
            "beyond them: where many targets do, predictions are too near to the middle.",
        )

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
        return super()._check_public()

    # --- using the model -----------------------------------------------------------------------

    @lazily
    def predict(self, X: Any) -> Floats:
        """Return the predicted number of every row, cut to the limits of the target.

        %(table)

        Returns
        -------
        ndarray of shape (n,)
            Predictions.

        """
        check_is_fitted(self, "schema_")
        return np.asarray(np.clip(self._scores(X), *self.target_bounds_))


class AdditiveRegressor(TableRegressor):
    """A private additive regression: the prediction is a sum of one broken line for each column.

    The parameters and attributes are those of `TableRegressor`; the curves are finer.

    Parameters
    ----------
    %(additive)
    target_bounds, threshold : pair, "learn" or float
        As in `TableRegressor`.
    %(adjacency, population, test_share, random_state, ledger)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import AdditiveRegressor
    >>> age = np.arange(4000) % 80
    >>> model = AdditiveRegressor(
    ...     2.0, 1e-6, schema={"age": "numeric"}, target_bounds=(0, 40), random_state=0
    ... )
    >>> bool(model.fit({"age": age}, abs(age - 40)).score({"age": age}, abs(age - 40)) > 0.8)
    True
    >>> model.predict({"age": [20, 60]}).shape, model.plan(4000).steps[-1].name
    ((2,), 'weights')

    """

    _whole = "an additive regression with the facts of its columns"
    _curves = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        pairs: Any = None,
        target_bounds: Any = None,
        threshold: float = 0.3,
        adjacency: str = "replace-one",
        population: int | None = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())


def _finite(target: Floats) -> bool:
    return bool(np.isfinite(target).all())


def _numbers(y: Any) -> Floats:
    return given(y, "y must be a vector of numbers, one for each row.").numbers()
