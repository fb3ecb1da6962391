"""Private gradient descent for linear regression."""

from typing import Any

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.recommend_sgd import recommend_sgd
from noisette.fitting.losses import Huber, Loss, Squared
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import Ready
from noisette.models.private import retired
from noisette.models.regressor import LinearRegressor
from noisette.models.sgd_stream import RETIRED, StreamReader

LOSSES = ("huber", "squared")


class SGDRegressor(LinearRegressor, StreamReader):
    """Linear regression by noisy gradient descent, with a differential-privacy guarantee.

    delta > 0 (default): private gradient descent on all rows with a schedule from public facts
    that needs no tuning. delta = 0: one pass over disjoint batches with spherical Laplace noise.
    Any other ``sampling``: the direct method, the noise calibrated by the sampler's own theorem.

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 1e-6
        The budget of one ``fit``.
    %(target_bounds, norm_bound)
    loss : {"huber", "squared"}, default "huber"
        Squared errors need ``clip_norm``, because their gradient has no bound of its own.
    threshold : float, default 0.2
        Where Huber's loss becomes linear, in units of half the range of ``target_bounds``.
    noise, sampling, batch_size, epochs, learning_rate, regularization : str, int, float
        As in `SGDClassifier`.
    clip_norm : float, optional
        Bound on one record's gradient below the loss's own bound, for targets in [-1, 1].
    %(fit_intercept)
    released : str or pair of str, default "all"
        As in `SGDClassifier`.
    %(adjacency, population, missing, random_state, ledger)

    Attributes
    ----------
    %(numbers, features, privacy_)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import SGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (20_000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(0.0, 0.5, 20_000)
    >>> model = SGDRegressor(1.0, target_bounds=(-5, 5), norm_bound=1.8, random_state=0)
    >>> model.plan(n=20_000, d=3).algorithm
    'gradient-descent'
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    >>> model.predict(X).shape
    (20000,)

    """

    _row_local = ("ROW-LOCAL",)
    _released = "the coefficients and the intercept of a linear regression trained by SGD"

    @retired(RETIRED)
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        target_bounds: Any = None,
        norm_bound: float | None = None,
        loss: str = "huber",
        threshold: float = 0.2,
        noise: str = "auto",
        sampling: str | Sampler = "auto",
        batch_size: int | str = "auto",
        epochs: int = 1,
        learning_rate: Any = "auto",
        regularization: Any = 1e-4,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        released: Any = "all",
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _check_own(self) -> None:
        _validate.choice("loss", self.loss, LOSSES)
        _validate.positive("threshold", self.threshold)
        if self.loss == "squared" and self.clip_norm is None:
            raise InvalidParameter(
                "loss='squared' needs clip_norm=..., because its gradient has no bound; "
                "loss='huber' has one."
            )
        if self.clip_norm is not None:
            _validate.positive("clip_norm", self.clip_norm)
        self._check_steps()
        super()._check_own()

    def _loss(self) -> Loss:
        return Squared() if self.loss == "squared" else Huber(float(self.threshold))

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, persons: Any = None,
        verbose: int = 0,
    ) -> "SGDRegressor":  # fmt: skip
        """Train privately, on rows or on a stream, and return the estimator.

        Parameters
        ----------
        %(rows or stream)
        y : array_like of shape (n,) or str, optional
            The targets; for Arrow and Parquet streams the name of their column (None: the last).
        sample_weight : array_like of shape (n,), optional
            Weights in [0, 1], as sensitive as the rows and used as they are. Neither they nor
            persons are for streams.
        %(persons, verbose)

        %(fitted, refusals)

        """
        with self._all_or_nothing(X):
            if not self._streamed(X, y, persons, verbose, sample_weight=sample_weight):
                self._fit(X, y, sample_weight, persons, verbose=verbose)
        return self

    def partial_fit(self, X: Any, y: Any, persons: Any = None) -> "SGDRegressor":
        """Train on one more chunk of *new people*.

        %(one charge)

        Parameters
        ----------
        %(chunk)
        y : array_like of shape (n,)
            Their targets.
        %(no persons)

        %(after a chunk)

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import SGDRegressor
        >>> rng = np.random.default_rng(0)
        >>> model = SGDRegressor(1.0, target_bounds=(-2, 2), norm_bound=1.5, batch_size=500)
        >>> for week in range(3):
        ...     X = rng.uniform(-1.0, 1.0, (2000, 2))
        ...     model = model.partial_fit(X, X[:, 0])
        >>> model.privacy_.epsilon
        1.0

        """
        self._feed(X, y, persons)
        return self

    def _check_stream(self, given: Any) -> None:
        if self._learns:
            raise InvalidParameter(
                "a stream needs target_bounds=(low, high): they cannot be learnt from the targets "
                "of chunks to come."
            )

    def _stream_targets(self, y: Any) -> Any:
        return self._scaled(inputs.finite_numbers(y))

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        guess = self.population or unit.count
        return self._planned(self._described(d, self._loss(), adjacency, unit, guess))

    def _recommended(self, public: Public) -> Recommendation:
        return recommend_sgd(self, public)

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any = None, persons: Any = None
    ) -> Ready:
        X, y, weights, unit = self._read(X, y, sample_weight, persons, adjacency)
        public = self._described(X.shape[1], self._loss(), adjacency, unit, self.population)
        chosen = self._planned(public)
        return self._ready_for_steps(
            chosen, X, [self._scaled(y)], weights, unit, self._target_fact, notes=chosen.notes,
            weighed=sample_weight is not None,
            proofs=("ROW-LOCAL", *chosen.public.loss.proofs, *unit.order),
        )  # fmt: skip
