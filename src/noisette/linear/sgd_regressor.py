"""Private gradient descent for linear regression."""

from typing import Any

from numpy.typing import NDArray

from noisette import _validate
from noisette.errors import InvalidParameter
from noisette.estimators import inputs
from noisette.estimators.outlook import Crowd
from noisette.estimators.regressor import LinearRegressor
from noisette.linear.sgd_stream import StreamReader, is_stream, refuse_persons
from noisette.losses import Huber, Loss, Squared
from noisette.persons import Persons
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.sampling import Sampler
from noisette.training import Public, Records, Trained, train
from noisette.training.learnt_target import own_algorithm
from noisette.training.levels import capped_parts
from noisette.training.recommend import Recommendation
from noisette.training.recommend_sgd import bounded_parts, check_parts, recommend_sgd
from noisette.training.steps import Update, canonical_rows

__all__ = ["SGDRegressor"]

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
    noise : str, default "auto"
        A name in `noisette.mechanisms.step_noises()`, or "auto".
    sampling : str or Sampler, default "auto"
        How batches are made: "auto" (see above), a name in `noisette.sampling.SAMPLERS`, or a
        `Sampler`.
    batch_size : int or "auto", default "auto"
        Records per batch.
    epochs : int, default 1
        Passes over the data ("full": steps).
    learning_rate : {"auto", "inverse-sqrt", "inverse", "constant"}, default "auto"
        The step sizes.
    eta0 : float or "auto", default "auto"
        The first step size; "auto" follows from public facts.
    regularization : float, default 1e-4
        The lambda beside the mean loss.
    clip_norm : float, optional
        Bound on one record's gradient below the loss's own bound, for targets in [-1, 1].
    fit_intercept : bool, default True
        Whether to add the constant column 0.35 R to every row.
    radius : float or "auto", default "auto"
        The radius of the ball onto which iterates are projected.
    averaging : bool or "auto", default "auto"
        True returns a weighted mean of the iterates, False the last one.
    released : {"all", "last"}, default "all"
        Whether all iterates are counted, or only the last one.
    adjacency : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
        The neighbouring relation.
    population : int, optional
        A public guess of n; needed under add-remove.
    missing : {"refuse", "zero"}, default "refuse"
        What a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    random_state : int or Randomness, optional
        None draws secure noise; a number makes the run reproducible, the guarantee void.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta).
    verbose : int, default 0
        With 1, steps and time, which are public, are shown, and nothing else.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The coefficients.
    intercept_ : float
        The intercept.
    target_bounds_ : tuple of float
        The limits that were bought, with ``target_bounds="learn"``.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As in scikit-learn.
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
        self.epsilon = epsilon
        self.delta = delta
        self.target_bounds = target_bounds
        self.norm_bound = norm_bound
        self.loss = loss
        self.threshold = threshold
        self.noise = noise
        self.sampling = sampling
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.fit_intercept = fit_intercept
        self.radius = radius
        self.averaging = averaging
        self.released = released
        self.adjacency = adjacency
        self.population = population
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_public(self) -> tuple[Ledger, Randomness]:
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
        return super()._check_public()

    def _loss(self) -> Loss:
        return Squared() if self.loss == "squared" else Huber(float(self.threshold))

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, persons: Any = None
    ) -> "SGDRegressor":
        """Train privately and return the estimator.

        Parameters
        ----------
        X : array_like, sparse matrix or stream
            A matrix of n rows; or a stream: an iterator of pairs (X, y), of Arrow record
            batches, or of paths of Parquet files (a path or a list of paths), read once in
            constant memory.
        y : array_like of shape (n,) or str, optional
            The targets; for Arrow and Parquet streams the name of their column (None: the last).
        sample_weight : array_like of shape (n,), optional
            Weights in [0, 1] of the gradients, as sensitive as the rows. Not for streams.
        persons : array_like of shape (n,) or Persons, optional
            Whose row each row is, by any identifier. Not for streams.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        InvalidParameter
            If a parameter is out of range; nothing is charged.
        InvalidData
            If X, y or a vector has the wrong shape or entries. Rows are checked before anything
            is charged; in a stream, chunks after the first are checked as they come.
        Unproven
            If no theorem covers the parameters together; nothing is charged.

        """
        with self._all_or_nothing(X):
            self._stream = None
            if is_stream(X):
                if sample_weight is not None:
                    raise InvalidParameter("sample_weight is not offered for streams.")
                refuse_persons(persons)
                self._fit_stream(X, y)
            else:
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
        refuse_persons(persons)
        self._feed(X, y)
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
        self._set_model(trained.weights[0], update.bias)
        public = self._listed(sizes, update.norm_bound, update.bias)
        proofs = ("ROW-LOCAL", *chosen.public.loss.proofs, *trained.proofs)
        self.privacy_ = self._stated(trained.permit, public=public, notes=notes, proofs=proofs)

    def _steps(
        self, n: int, d: int, ledger: Ledger, persons: Persons | Crowd | None, X: Any = None
    ) -> Recommendation:
        size = n if ledger.adjacency.size_is_public else self.population
        if size is None:
            raise InvalidParameter(
                "under add-remove n is private and schedules need a public number instead; give "
                "population=..., a guess of n made without the data."
            )
        _validate.delta_for(self.delta, size)
        public = self._describe(size, d, self._loss(), ledger, persons)
        return self._planned(bounded_parts(public, X, n, self.population))

    def _outlined(self, n: int, d: int, ledger: Ledger, crowd: Crowd | None) -> Recommendation:
        size = n if ledger.adjacency.size_is_public else self.population or n
        return self._steps(size, d, ledger, crowd)

    def _recommended(self, public: Public) -> Recommendation:
        return recommend_sgd(self, public)

    def _fit(self, X: Any, y: Any, sample_weight: Any, persons: Any) -> None:
        ledger, randomness = self._check_public()
        X, y, weights, crowd = self._read(X, y, sample_weight, persons, ledger.adjacency)
        n = X.shape[0] if crowd is None else crowd.count
        chosen = self._steps(n, X.shape[1], ledger, crowd, X)
        check_parts(chosen, X)
        self._warn(chosen)
        method = {"noisy-sgd": "direct"}.get(chosen.algorithm.name, chosen.algorithm.name)
        X, y, weights, near = capped_parts(X, self._scaled(y), weights, crowd)
        trained = train(
            chosen.algorithm, chosen.public,
            Records(canonical_rows(X), [y], weights, near), ledger=ledger,
            randomness=randomness, observer=self._observer, label=f"fit ({method})",
            model=type(self).__name__, verbose=self.verbose,
        )  # fmt: skip
        order = () if crowd is None else ("PERSON-ORDER",)
        proofs = (*chosen.public.loss.proofs, *order)
        self._finish(trained, chosen, crowd, proofs, weighed=sample_weight is not None)

    def _take(self, trained: Trained, chosen: Recommendation) -> tuple[str, ...]:
        update: Update = own_algorithm(chosen.algorithm).update
        self._set_model(trained.weights[0], update.bias)
        return ()
