"""Private gradient descent for linear regression."""

from typing import Any

from numpy.typing import NDArray

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public, Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.recommend_sgd import recommend_sgd
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.losses import Huber, Loss, Squared
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import Ready
from noisette.models.regressor import LinearRegressor
from noisette.models.sgd_stream import StreamReader

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
    target_bounds : pair of float or "learn"
        The limits (low, high) of the target, public; values beyond are cut. "learn" buys them
        from the same budget (two private quantiles). There is no default.
    norm_bound : float
        The bound R, public; rows longer than R are scaled down to R. There is no default.
    loss : {"huber", "squared"}, default "huber"
        Squared errors need ``clip_norm``, because their gradient has no bound of its own.
    threshold : float, default 0.2
        Where Huber's loss becomes linear, in units of half the range of ``target_bounds``.
    noise, sampling, batch_size, epochs, learning_rate, eta0, regularization : str, int, float
        As in `SGDClassifier`.
    clip_norm : float, optional
        Bound on one record's gradient below the loss's own bound, for targets in [-1, 1].
    fit_intercept, radius, averaging, released, adjacency, population, missing : bool, float, str
        As in `SGDClassifier`.
    random_state, ledger, verbose : int, Randomness, Ledger
        As in `SGDClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The coefficients.
    intercept_ : float
        The intercept.
    target_bounds_ : tuple of float
        The limits that were bought, with ``target_bounds="learn"``.
    privacy_ : Guarantee
        What is promised about ``coef_`` and ``intercept_``.

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

    _released = "the coefficients and the intercept of a linear regression trained by SGD"
    grouping = "scale"

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
        learning_rate: str = "auto",
        eta0: float | str = "auto",
        regularization: float = 1e-4,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        radius: float | str = "auto",
        averaging: bool | str = "auto",
        released: str = "all",
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
        verbose: int = 0,
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
        self, X: Any, y: Any = None, sample_weight: Any = None, persons: Any = None
    ) -> "SGDRegressor":
        """Train privately, on rows or on a stream, and return the estimator.

        A stream is an iterator of pairs (X, y), of Arrow record batches, or of paths of Parquet
        files (a path or a list of paths), read once in constant memory; y is then the name of the
        target's column (None: the last). Chunks after the first are checked as they come; weights
        and persons are not for streams.
        """
        with self._all_or_nothing(X):
            if not self._streamed(X, y, persons, sample_weight=sample_weight):
                self._fit(X, y, sample_weight, persons)
        return self

    def partial_fit(self, X: Any, y: Any, persons: Any = None) -> "SGDRegressor":
        """Train on one more chunk of *new people*.

        The first call charges the ledger once for the whole stream: everybody is in one chunk and
        one batch, so more chunks cost nothing (parallel composition). Nothing is kept of a chunk;
        the last batch of each may be smaller. Handing in the same object twice is refused.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows of people who were in no chunk before.
        y : array_like of shape (n,)
            Their targets.
        persons : None
            Refused: the rows of one person may lie in several chunks.

        Returns
        -------
        self
            The estimator, fitted on all chunks so far.

        Raises
        ------
        InvalidParameter
            If a parameter is out of range, or ``target_bounds`` are to be learnt.
        InvalidData
            If the chunk has the wrong shape or entries, or was handed in before.
        BudgetExceeded
            If the ledger has too little left; nothing is charged.

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

    def _stream_loss(self) -> Loss:
        return self._loss()

    def _first_chunk(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        return inputs.rows_and_numbers(self, X, y, 1)

    def _stream_targets(self, y: Any) -> NDArray[Any]:
        return self._scaled(inputs.finite_numbers(y))

    def _publish_chunks(
        self, trained: Trained, chosen: Recommendation, sizes: list[str], notes: tuple[str, ...]
    ) -> None:
        update: Update = chosen.algorithm.update  # what ran: parameters may have changed since
        self._set_model(trained.released[0], update.bias)
        public = self._facts(sizes, update.norm_bound, update.bias, self._target_fact)
        proofs = ("ROW-LOCAL", *chosen.public.loss.proofs, *trained.proofs)
        self.privacy_ = self._stated(trained.permit, public=public, notes=notes, proofs=proofs)

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        return self._stepping(unit, d, adjacency, self.population or unit.count)

    def _stepping(
        self, unit: Unit, d: int, adjacency: Adjacency, guess: int | None
    ) -> Recommendation:
        size = self._public_size(unit, adjacency, guess)
        return self._planned(self._describe(size, d, self._loss(), adjacency, unit))

    def _recommended(self, public: Public) -> Recommendation:
        return recommend_sgd(self, public)

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any = None, persons: Any = None
    ) -> Ready:
        X, y, weights, unit = self._read(X, y, sample_weight, persons, adjacency)
        chosen = self._stepping(unit, X.shape[1], adjacency, self.population)
        return self._ready_for_steps(
            chosen, X, self._scaled(y), weights, unit, weighed=sample_weight is not None,
            proofs=(*chosen.public.loss.proofs, *unit.order),
        )  # fmt: skip

    def _take(self, trained: Trained, chosen: Recommendation) -> tuple[str, ...]:
        update: Update = chosen.algorithm.own.update
        self._set_model(trained.released[0], update.bias)
        return ()
