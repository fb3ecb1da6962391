"""Private linear regression from noisy sums."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from noisette import _validate
from noisette._scikit import check_is_fitted
from noisette._typing import Floats
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, Unproven
from noisette.fitting.algorithms import Public, SufficientStatistics, Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.losses import Loss, Squared
from noisette.fitting.losses.rows import Rows
from noisette.models import inputs
from noisette.models.linear_model import Ready
from noisette.models.noise_bars import NoiseBars
from noisette.models.regressor import LinearRegressor

ROUNDS = 6
"""Rounds of residual sums unless asked otherwise (see docs/regression.md for the measurement)."""


class LinearRegression(LinearRegressor):
    """Least squares with a differential-privacy guarantee.

    Releases the second moments of rows and target once, with noise, and then sums of whitened rows
    times residuals, round by round; the weights follow from what was released. Without rounds it is
    AdaSSP (Wang 2018), with rounds a boosted form of it (Tang et al. 2023).

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 1e-6
        The budget of one ``fit``; delta = 0 is pure privacy, with more noise.
    %(target_bounds, norm_bound)
    rounds : int or "auto", default "auto"
        Rounds of residual sums; 0 is AdaSSP alone, "auto" is 6.
    %(fit_intercept, adjacency, population, missing, random_state, ledger)

    Attributes
    ----------
    %(numbers)
    residual_scale_ : float
        The standard deviation of the residuals, released.
    clipped_share_ : float
        The share of targets at or beyond ``target_bounds``, released, so it may be below 0.
    %(features)
    privacy_ : Guarantee
        What is promised about everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (20_000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(0.0, 0.5, 20_000)
    >>> model = LinearRegression(1.0, 1e-6, target_bounds=(-5, 5), norm_bound=1.8, random_state=0)
    >>> model.plan(n=20_000, d=3).algorithm
    'statistics'
    >>> bool(model.fit(X, y).score(X, y) > 0.85)
    True
    >>> model.predict(X).shape, model.predict_interval(X).shape, model.coef_intervals().shape
    ((20000,), (20000, 2), (4, 2))

    """

    _released = "the coefficients and the intercept of a linear regression, and their sums"
    _covariance: Floats | None = None
    _variance: float | None = None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        target_bounds: Any = None,
        norm_bound: float | None = None,
        rounds: int | str = "auto",
        fit_intercept: bool = True,
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _check_own(self) -> None:
        if self.rounds != "auto":
            if isinstance(self.rounds, str):
                raise InvalidParameter(f"rounds must be 'auto' or a number; got {self.rounds!r}.")
            _validate.integer("rounds", self.rounds, least=0)
        super()._check_own()

    def _loss(self) -> Loss:
        return Squared()

    def _recommended(self, public: Public) -> Recommendation:
        rounds = ROUNDS if isinstance(self.rounds, str) else int(self.rounds)
        why = "as asked" if self.rounds != "auto" else "a fixed number"
        note = f"Second moments and {rounds} rounds of residual sums ({why})."
        return Recommendation(SufficientStatistics(rounds), public, (note, MODEL_BASED))

    def _took(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        solved, half = trained.released, self._scale[1]
        self.residual_scale_ = float(solved.variance**0.5) * half
        self.clipped_share_ = float(solved.clipped)
        if solved.clipped - _SURELY * solved.clipped_noise > _MANY_CUT:
            self._later.append(
                f"about {min(solved.clipped, 1.0):.0%} of the targets lie at or beyond "
                "target_bounds (a released number): intervals are not to be trusted, widen the "
                "bounds if you can."
            )
        if ready.chosen.public.grouped:  # rows of one person are not independent
            self._covariance = self._variance = None  # nor are intervals of an earlier fit its own
            self._bars = NoiseBars("persons")
            return ()
        scale = np.full(len(solved.covariance), half)
        if bias is not None:
            scale[-1] *= bias
        self._covariance = solved.covariance * np.outer(scale, scale)
        self._variance = solved.variance * half**2
        each, d = np.sqrt(np.maximum(np.diag(self._covariance), 0.0)), len(self.coef_)
        self._bars = NoiseBars("model", each[:d], np.asarray(each[d:].sum()))
        if solved.unequal is None:
            return (NOT_LOOKED,)
        if not solved.unequal > 0.0:
            return (EQUAL,)
        self._later.append(
            f"errors are of unequal variances, up to {1.0 + solved.unequal:.1f} times their mean "
            "in some direction (a released number): intervals of coefficients allow for it, those "
            "of predictions hold on average only."
        )
        return (UNEQUAL,)

    def coef_intervals(self, level: float = 0.95) -> Floats:
        """Return an interval for each coefficient, the last for the intercept if there is one.

        They come from released numbers and the known law of the noise, at no cost, and cover both
        sampling and noise. Model-based: true for a linear model with errors of one variance
        whose targets are seldom cut at their bounds.

        Parameters
        ----------
        level : float, default 0.95
            The probability with which an interval holds the coefficient.

        Returns
        -------
        ndarray of shape (d, 2) or (d + 1, 2)
            Lower and upper ends.

        Raises
        ------
        Unproven
            If the model was fitted on persons with several rows.

        """
        check_is_fitted(self)
        covariance, _ = self._spread()
        centre = np.asarray(self.coef_)
        if len(covariance) > len(centre):
            centre = np.append(centre, self.intercept_)
        return _around(centre, np.maximum(np.diag(covariance), 0.0), level)

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Return, for every row, an interval that holds its target with probability `level`.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows.
        level : float, default 0.95
            The probability; model-based, with normal errors (see `coef_intervals`).

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.

        Raises
        ------
        Unproven
            If the model was fitted on persons with several rows.

        """
        centre = self.predict(X)
        covariance, variance = self._spread()
        X = self._cut(inputs.matrix(self, X))
        spread = np.empty(len(centre))
        for where, block in Rows(X).blocks():
            rows = np.asarray(block.toarray() if sparse.issparse(block) else block)
            if len(covariance) > X.shape[1]:
                rows = np.column_stack([rows, np.ones(len(rows))])
            spread[where] = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        return _around(centre, np.maximum(spread, 0.0) + variance, level)

    def _spread(self) -> tuple[Floats, float]:
        if self._covariance is None or self._variance is None:
            raise Unproven(
                "intervals are for records, not for persons with several rows: the rows of one "
                "person are not independent."
            )
        return self._covariance, self._variance


MODEL_BASED = (
    "Intervals are model-based: they hold for a linear model with errors of one variance whose "
    "targets are seldom cut at their bounds."
)

NOT_LOOKED = (
    "Whether errors have unequal variances was not looked at: noise would hide it, or delta is 0."
)
EQUAL = "No unequal variances of errors are seen beyond the noise of a released sum."
UNEQUAL = (
    "Errors have unequal variances, as a released sum shows: intervals of coefficients have a "
    "robust form, those of predictions hold on average only."
)

_SURELY = 3.0  # deviations of the noise, beyond which a released share is taken for the data's
_MANY_CUT = 0.02  # of the targets at a bound: from there on intervals may be far off


def _around(centre: Floats, variance: Floats, level: float) -> Floats:
    reach = float(ndtri(0.5 + _validate.fraction("level", level) / 2.0)) * np.sqrt(variance)
    return np.column_stack([centre - reach, centre + reach])
