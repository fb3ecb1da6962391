"""Private regression of counts by noisy gradient descent."""

import math
from functools import partial
from typing import Any

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.ledger import Ledger
from noisette.core.parts import each
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.losses import Loss, PoissonCounts
from noisette.fitting.partitions.lazily import lazily
from noisette.models.private import retired
from noisette.models.sgd_regressor import SGDRegressor
from noisette.models.sgd_stream import RETIRED


class PoissonRegressor(SGDRegressor):
    """Regression of counts: the logarithm of the mean is linear; a differential-privacy guarantee.

    Poisson's loss goes on as a line where the mean would exceed ``most_count``, so every slope is
    bounded (LOSS-POISSON). delta > 0 (default): private gradient descent on all rows, without
    tuning. delta = 0 and streams: one pass over disjoint batches.

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 1e-6
        The budget of one ``fit``, or of one whole stream of ``partial_fit`` calls.
    most_count : float
        The largest count, public; larger ones are cut to it. There is no default.
    %(norm_bound)
    clip : float, default 0.25
        Where one record's gradient is cut, as a share of the largest there can be, in (0, 1].
        Noise is proportional to it; counts farther than this share of ``most_count`` from their
        mean count less.
    batch_size, regularization : int, float or pair
        As in `SGDClassifier`.
    %(adjacency, population, missing, random_state, ledger)

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The coefficients of the logarithm of the mean.
    intercept_ : float
        The logarithm of the mean at 0.
    %(features, privacy_)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import PoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (20_000, 2))
    >>> visits = rng.poisson(np.exp(0.7 + X[:, 0]))
    >>> model = PoissonRegressor(1.0, most_count=20, norm_bound=1.5, random_state=0)
    >>> model.plan(n=20_000, d=2).algorithm
    'gradient-descent'
    >>> model = model.fit(X, visits)
    >>> bool(abs(model.coef_[0] - 1.0) < 0.2), bool(model.predict(X).min() > 0.0)
    (True, True)

    """

    _released = "the coefficients and the intercept of a regression of counts trained by SGD"

    # what `SGDRegressor` leaves to its users, and this one does not
    fit_intercept = True
    noise = sampling = learning_rate = "auto"
    released, epochs, threshold = "all", 1, 1.0
    loss = "huber"  # a name that is checked; the loss is Poisson's

    @retired(RETIRED)
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        most_count: float | None = None,
        norm_bound: float | None = None,
        clip: float = 0.25,
        batch_size: int | str = "auto",
        regularization: Any = 1e-4,
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    @property
    def target_bounds(self) -> tuple[float, float]:
        """The limits of the counts: 0 and ``most_count``."""
        if self.most_count is None:
            raise InvalidParameter(
                "most_count has no default: pass the largest count that is known without the data; "
                "larger ones are cut."
            )
        return 0.0, _validate.positive("most_count", self.most_count)

    @property
    def clip_norm(self) -> float:
        """The bound on one record's gradient."""
        if not 0.0 < _validate.positive("clip", self.clip) <= 1.0:
            raise InvalidParameter(f"clip must lie in (0, 1]; got {self.clip!r}.")
        return float(self.clip) * math.hypot(self._row_bound(), self._intercept() or 0.0)

    def _loss(self) -> Loss:
        return PoissonCounts()

    def _scaled(self, y: Any) -> Any:
        """Return counts cut to their limits, in [0, 1]: row-local, free."""
        return each(partial(_in_units_of, self._limits[1]), y)

    def _set_model(self, theta: Floats, bias: float | None) -> None:
        """Turn weights of the mean in units of its limit into those of the mean."""
        weights = np.asarray(theta, dtype=float).reshape(-1)
        self.coef_ = weights[:-1].copy()
        self.intercept_ = math.log(self._limits[1]) + (bias or 0.0) * float(weights[-1])

    @lazily
    def predict(self, X: Any) -> Floats:
        """Return the mean count of every row, at most ``most_count``."""
        return np.exp(np.minimum(super().predict(X), math.log(self._limits[1])))


def _in_units_of(most: float, y: Floats) -> Floats:
    # proof: ROW-LOCAL
    return np.clip(np.clip(y, 0.0, most) / most, 0.0, 1.0)
