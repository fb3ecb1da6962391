"""Private regression with Huber's loss."""

from typing import Any

from noisette import _validate
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public, Trained
from noisette.fitting.algorithms.recommend import Recommendation, mechanisms, recommend
from noisette.fitting.losses import Huber, Loss
from noisette.models.linear_model import Ready
from noisette.models.noise_bars import bars_of_fit
from noisette.models.regressor import LinearRegressor


class HuberRegressor(LinearRegressor):
    """Regression with Huber's loss and a differential-privacy guarantee; delta = 0 by default.

    Minimises sum_i l(w . x_i - y_i) + (Lambda / 2) ||w||^2 with a certified solver, l(r) = r^2 / 2
    up to ``threshold`` and linear beyond, and adds noise to the objective or to the solution. The
    slope has either sign, which objective perturbation pays for in one order only (TWO-SIGNED).

    Parameters
    ----------
    %(pure, target_bounds, norm_bound)
    threshold : float, default 0.2
        Where the loss becomes linear, in units of half the range of ``target_bounds``. Noise is
        proportional to it.
    mechanism, regularization, whiten : str, float or bool
        As in `LogisticRegression`.
    %(fit_intercept, adjacency, population, missing, random_state, ledger)

    Attributes
    ----------
    %(numbers, features, privacy_)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import HuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (20_000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(0.0, 0.5, 20_000)
    >>> model = HuberRegressor(1.0, target_bounds=(-5, 5), norm_bound=1.8, random_state=0)
    >>> model.plan(n=20_000, d=3).algorithm
    'objective'
    >>> bool(model.fit(X, y).score(X, y) > 0.85)
    True
    >>> model.predict(X).shape, model.privacy_.delta
    ((20000,), 0.0)

    """

    _released = "the coefficients and the intercept of a regression with Huber's loss"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        target_bounds: Any = None,
        norm_bound: float | None = None,
        threshold: float = 0.2,
        mechanism: str = "auto",
        regularization: float | str = "auto",
        whiten: bool | str | float = False,
        fit_intercept: bool = True,
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _check_own(self) -> None:
        threshold = _validate.positive("threshold", self.threshold)
        if not 1e-6 <= threshold <= 1e6:
            raise InvalidParameter(
                f"threshold must lie between 1e-6 and 1e6, in half ranges of the target; got "
                f"{threshold!r}."
            )
        _validate.choice("mechanism", self.mechanism, mechanisms())
        super()._check_own()

    def _loss(self) -> Loss:
        return Huber(float(self.threshold))

    def _recommended(self, public: Public) -> Recommendation:
        return recommend(
            public, mechanism=self.mechanism, regularization=self.regularization,
            whiten="auto" if self.whiten is True else self.whiten, levels=False,
        )  # fmt: skip

    def _took(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        self._bars = bars_of_fit(self, trained, ready.chosen, bias, self._scale[1])
        return ()
