"""Private gradient descent for linear regression."""

import math
from dataclasses import replace
from typing import Any

from noisette import _validate
from noisette.errors import InvalidParameter
from noisette.estimators.regressor import LinearRegressor
from noisette.losses import Huber, Loss, Squared
from noisette.parts import is_parted
from noisette.persons import Persons
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.sampling import SAMPLERS, Sampler
from noisette.training import Public, Records, Trained, train
from noisette.training.recommend import Recommendation
from noisette.training.recommend_sgd import RELEASES, noises, recommend_sgd
from noisette.training.steps import Update, canonical_rows

__all__ = ["SGDRegressor"]

LOSSES = ("huber", "squared")


class SGDRegressor(LinearRegressor):
    """Linear regression by noisy gradient descent, with a differential-privacy guarantee.

    delta > 0 (default): private gradient descent on all rows with a schedule from public facts
    that needs no tuning. delta = 0: one pass over disjoint batches with spherical Laplace noise.
    Any other ``sampling``: the direct method, the noise calibrated by the sampler's own theorem.

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 1e-6
        The budget of one ``fit``.
    target_bounds : pair of float
        The limits (low, high) of the target, public; values beyond are cut. There is no default.
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
        _validate.choice("noise", self.noise, noises())
        _validate.choice("released", self.released, RELEASES)
        if not isinstance(self.sampling, Sampler):
            _validate.choice("sampling", self.sampling, ("auto", *SAMPLERS))
        _validate.integer("epochs", self.epochs)
        _validate.non_negative("regularization", self.regularization)
        if self.loss == "squared" and self.clip_norm is None:
            raise InvalidParameter(
                "loss='squared' needs clip_norm=..., because its gradient has no bound; "
                "loss='huber' has one."
            )
        if self.clip_norm is not None:
            _validate.positive("clip_norm", self.clip_norm)
        if self.radius != "auto":
            _validate.positive_or_infinite("radius (unless 'auto')", self.radius)
        if self.batch_size != "auto":
            _validate.integer("batch_size (unless 'auto')", self.batch_size)
        if self.averaging != "auto":
            _validate.boolean("averaging", self.averaging)
        return super()._check_public()

    def _loss(self) -> Loss:
        return Squared() if self.loss == "squared" else Huber(float(self.threshold))

    def _steps(
        self, n: int, d: int, ledger: Ledger, persons: Persons | None = None
    ) -> Recommendation:
        adjacency, bias = ledger.adjacency, self._intercept()
        size = n if adjacency.size_is_public else self.population
        if size is None:
            raise InvalidParameter(
                "under add-remove n is private and schedules need a public number instead; give "
                "population=..., a guess of n made without the data."
            )
        _validate.delta_for(self.delta, size)
        public = Public(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency,
            loss=self._loss(), features=d + (bias is not None),
            norm_bound=math.hypot(self._row_bound(), bias or 0.0), size=size,
        )  # fmt: skip
        if persons is not None:
            public = replace(public, unit="person", max_rows=persons.max_rows)
        return self._recommended(public)

    def _outlined(self, n: int, d: int, ledger: Ledger) -> Recommendation:
        size = n if ledger.adjacency.size_is_public else self.population or n
        return self._steps(size, d, ledger)

    def _recommended(self, public: Public) -> Recommendation:
        return recommend_sgd(self, public)

    def _fit(self, X: Any, y: Any, sample_weight: Any, persons: Any) -> None:
        ledger, randomness = self._check_public()
        X, y, weights, crowd = self._read(X, y, sample_weight, persons, ledger.adjacency)
        n = X.shape[0] if crowd is None else crowd.count
        if is_parted(X):
            raise InvalidParameter(
                "SGDRegressor is not offered for rows in partitions; use LinearRegression or "
                "HuberRegressor."
            )
        chosen = self._steps(n, X.shape[1], ledger, crowd)
        self._warn(chosen)
        method = {"noisy-sgd": "direct"}.get(chosen.algorithm.name, chosen.algorithm.name)
        trained = train(
            chosen.algorithm, chosen.public,
            Records(canonical_rows(X), [self._scaled(y)], weights, crowd), ledger=ledger,
            randomness=randomness, observer=self._observer, label=f"SGDRegressor.fit ({method})",
            verbose=self.verbose,
        )  # fmt: skip
        order = () if crowd is None else ("PERSON-ORDER",)
        self._finish(trained, chosen, crowd, (*chosen.public.loss.proofs, *order))

    def _take(self, trained: Trained, chosen: Recommendation) -> tuple[str, ...]:
        update: Update = chosen.algorithm.update
        self._set_model(trained.weights[0], update.bias)
        return ()
