"""Private linear regression from noisy sums."""

from typing import Any

from noisette import _validate
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public, SufficientStatistics, Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.losses import Loss, Squared
from noisette.models.intervals import MODEL_BASED, IntervalRegressor

ROUNDS = 6
"""Rounds of residual sums unless asked otherwise (see docs/regression.md for the measurement)."""


class LinearRegression(IntervalRegressor):
    """Least squares with a differential-privacy guarantee.

    Releases the second moments of rows and target once, with noise, and then sums of whitened rows
    times residuals, round by round; the weights follow from what was released. Without rounds it is
    AdaSSP (Wang 2018), with rounds a boosted form of it (Tang et al. 2023).

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 1e-6
        The budget of one ``fit``; delta = 0 is pure privacy, with more noise.
    target_bounds : pair of float or "learn"
        The limits (low, high) of the target, public; values beyond are cut. "learn" buys them
        from the same budget (two private quantiles). There is no default.
    norm_bound : float
        The bound R, public; rows longer than R are scaled down to R. There is no default.
    rounds : int or "auto", default "auto"
        Rounds of residual sums; 0 is AdaSSP alone, "auto" is 6.
    fit_intercept, adjacency, population : bool, str or int
        As in `LogisticRegression`.
    missing, random_state, ledger : str, Randomness or Ledger
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The coefficients.
    intercept_ : float
        The intercept.
    residual_scale_ : float
        The standard deviation of the residuals, released.
    clipped_share_ : float
        The share of targets at or beyond ``target_bounds``, released, so it may be below 0.
    target_bounds_ : tuple of float
        The limits that were bought, with ``target_bounds="learn"``.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As in scikit-learn.
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
        chosen = SufficientStatistics(rounds)
        why = "as asked" if self.rounds != "auto" else "a fixed number"
        note = f"Second moments and {rounds} rounds of residual sums ({why})."
        return Recommendation(chosen, public, (note, MODEL_BASED))

    def _take(self, trained: Trained, chosen: Recommendation) -> tuple[str, ...]:
        solved = trained.released
        self._set_model(solved[0], self._intercept())
        # rows of one person are not independent
        known = not chosen.public.grouped
        self._set_spread(solved if known else None)
        self.residual_scale_ = float(solved.variance**0.5) * self._scale[1]
        self.clipped_share_ = float(solved.clipped)
        self._warn_clipped(solved.clipped, solved.clipped_noise)
        return (self._told_unequal(solved.unequal),) if known else ()
