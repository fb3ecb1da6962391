"""What a fitted linear regressor offers: numbers, intervals, and what scikit-learn asks."""

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from noisette import _validate
from noisette._scikit import RegressorMixin, check_is_fitted
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.parts import each
from noisette.errors import InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms import Public, Records, Trained, with_intercept
from noisette.fitting.algorithms.learnt_target import LEARN, WithLimits, scaled, with_limits
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.clipping import clip_rows
from noisette.fitting.partitions.lazily import lazily
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearModel, Ready
from noisette.models.outputs import BOUGHT_TARGET, target_fact
from noisette.models.private import Forecast, Scored


def checked_target_bounds(given: Any) -> tuple[float, float]:
    """Return (low, high), two public numbers; nobody may read them off the data."""
    if given is None:
        raise InvalidParameter(
            "target_bounds has no default: pass target_bounds=(low, high), limits of the target "
            "that are known without the data, or 'learn' to buy them; values beyond are cut."
        )
    try:
        low, high = given
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"target_bounds must be a pair of numbers (low, high); got {given!r}."
        ) from None
    low, high = _validate.real("target_bounds[0]", low), _validate.real("target_bounds[1]", high)
    if not (math.isfinite(high - low) and high - low > 1e-100 * max(abs(low), abs(high))):
        raise InvalidParameter(f"target_bounds must be finite with low < high; got {given!r}.")
    if not 1e-30 < high - low < 1e30:
        raise InvalidParameter(
            f"target_bounds must be between 1e-30 and 1e30 apart; got {given!r}."
        )
    return low, high


class LinearRegressor(Scored, RegressorMixin, LinearModel):  # type: ignore[misc]
    """A linear model of a number, whose target is cut to public bounds and scaled to [-1, 1].

    A regressor has `_loss` (of a target in [-1, 1]), `_recommended` (algorithm, completed facts and
    notes, from public facts) and, where more than weights was released, `_took`.
    """

    _from_tables = "TableRegressor"
    _refuses = ("entries", "target")

    def plan(
        self, n: int, d: int, *, persons: bool = False, max_rows: int | None = None
    ) -> Forecast:
        """Return what ``fit`` on n rows of d features would charge, from public facts alone.

        Parameters
        ----------
        %(size, planned persons)

        %(forecast)

        """
        return self._plan(n, d, persons, max_rows)

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        return self._planned(self._solved(unit, *self._augmented(d), adjacency, self._loss()))

    def _planned(self, public: Public) -> Recommendation:
        """Return the training, behind one that buys the limits of the target if that is asked."""
        return with_limits(public, self._recommended) if self._learns else self._recommended(public)

    @property
    def _learns(self) -> bool:
        return isinstance(self.target_bounds, str)

    def _check_own(self) -> None:
        self._row_bound()
        if self._learns:
            _validate.choice("target_bounds", self.target_bounds, (LEARN,))
        else:
            checked_target_bounds(self.target_bounds)

    @property
    def _scale(self) -> tuple[float, float]:
        """The middle and the half range of the target."""
        low, high = self._limits
        return low / 2.0 + high / 2.0, (high - low) / 2.0

    @property
    def _limits(self) -> Any:
        """The limits of the target: those of the user, or those that ``fit`` bought."""
        return self.target_bounds_ if self._learns else checked_target_bounds(self.target_bounds)

    def _scaled(self, y: Any) -> Any:
        """Return targets in [-1, 1]; as they are where their limits are still to be bought."""
        if self._learns:
            return y
        low, high = self._limits
        return each(partial(scaled, low=low, high=high), y)

    @property
    def _target_fact(self) -> str:
        return BOUGHT_TARGET if self._learns else target_fact(*self._limits)

    def _set_model(self, theta: Floats, bias: float | None) -> None:
        """Turn released weights of the scaled target into those of the target itself."""
        middle, half = self._scale
        weights = np.asarray(theta, dtype=float).reshape(-1)
        if bias is None:
            self.coef_, self.intercept_ = half * weights, middle
        else:
            self.coef_ = half * weights[:-1]
            self.intercept_ = middle + half * bias * float(weights[-1])

    def fit(self, X: Any, y: Any, sample_weight: Any = None, persons: Any = None) -> Self:
        """Train privately and return the estimator.

        Parameters
        ----------
        %(rows)
        y : array_like of shape (n,)
            The targets; those beyond ``target_bounds`` are cut.
        sample_weight : array_like of shape (n,), optional
            Weights in [0, 1], as sensitive as the rows and used as they are.
        %(persons)

        %(fitted, refusals)

        """
        with self._all_or_nothing(X):
            self._later: list[str] = []  # what to warn of when all is done, from released numbers
            self._fit(X, y, sample_weight, persons)
        # only now, so that a program that turns warnings into errors keeps what it paid for
        for sentence in self.__dict__.pop("_later"):
            warnings.warn(sentence, WeakModelWarning, stacklevel=2)
        return self

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any = None, persons: Any = None
    ) -> Ready:
        X, y, weights, unit = self._read(X, y, sample_weight, persons, adjacency)
        rows, bound = with_intercept(X, self._row_bound(), self._intercept())
        public = self._solved(unit, rows.shape[1], bound, adjacency, self._loss())
        chosen, target, near = self._planned(public), self._scaled(y), unit
        if unit.max_rows is not None:  # rows beyond a cap are left out, so that it bounds rows
            rows, target, weights, near = unit.present(rows, target, weights)
        return Ready(
            chosen, Records(rows, [target], weights, near), unit, chosen.algorithm.name,
            (self._target_fact,), sample_weight is not None, chosen.notes, ("ROW-LOCAL",),
        )  # fmt: skip

    def _read(
        self, X: Any, y: Any, sample_weight: Any, persons: Any, adjacency: Adjacency
    ) -> tuple[Any, Floats, Any, Unit]:
        """Return checked rows, targets, weights and whose rows they are."""
        X, y = inputs.rows_and_targets(self, X, y, 1, numbers=True)
        unit, weights = inputs.unit_of(persons, X.shape[0], adjacency, X, least=2), None
        if sample_weight is not None:
            weights = inputs.weights("sample_weight", sample_weight, X, 0.0, 1.0)
        return X, y, unit.share(weights), unit

    def _take(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        if self._learns:
            found: WithLimits = trained.released
            self.target_bounds_ = (found.low, found.high)
            trained = replace(trained, released=found.inner)
        self._set_model(trained.released[0], bias)
        return self._took(ready, trained, bias)

    def _took(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        return ()

    def __sklearn_tags__(self) -> Any:
        """Declare that scores on the few rows of scikit-learn's checks may be poor: noise."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    @lazily
    def predict(self, X: Any) -> Floats:
        """Return the predicted number of every row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows; those longer than ``norm_bound`` are scaled down to it, as in ``fit``.

        Returns
        -------
        ndarray of shape (n,)
            Predictions.

        """
        check_is_fitted(self)
        X = self._cut(inputs.matrix(self, X))
        return np.asarray(X @ self.coef_, dtype=np.float64).reshape(-1) + self.intercept_

    def _cut(self, X: Any) -> Any:
        return X if self.norm_bound is None else clip_rows(inputs.tamed(X), self._row_bound())
