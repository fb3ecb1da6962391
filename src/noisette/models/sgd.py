"""Private stochastic gradient descent for linear classifiers."""

from typing import Any

from numpy.typing import NDArray

from noisette import _validate
from noisette._scikit import available_if
from noisette._typing import Labels
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public, Trained
from noisette.fitting.algorithms.class_weight import (
    BALANCED,
    balancing,
    check_class_weight,
    for_model,
    weight_proofs,
)
from noisette.fitting.algorithms.levels import level_notes
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.recommend_sgd import BY_LEVEL, recommend_sgd
from noisette.fitting.losses import Loss, classifier_loss, classifier_losses
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearClassifier, Ready
from noisette.models.logistic_regression import LogisticRegression
from noisette.models.outputs import labels_fact
from noisette.models.private import retired
from noisette.models.sgd_stream import RETIRED, StreamReader


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss in classifier_losses(probabilities=True):
        return True
    raise AttributeError(f"loss={estimator.loss!r} gives scores, not probabilities.")


class SGDClassifier(LinearClassifier, StreamReader):
    """Linear classifier trained by noisy gradient descent, with a differential-privacy guarantee.

    delta = 0 (default): the algorithm of Song, Chaudhuri and Sarwate (2013), one pass over disjoint
    batches with spherical Laplace noise, purely private. delta > 0: private gradient descent on all
    rows with a schedule from public facts that needs no tuning. Any other ``sampling``: the direct
    method with many passes, the noise calibrated by the sampler's own theorem.

    Parameters
    ----------
    epsilon, delta : float, default 1.0 and 0.0
        The budget of one ``fit``, or of one whole stream of ``partial_fit`` calls.
    loss : str, default "logistic"
        The loss (softmax for more than two classes), or another classifier's loss in
        `noisette.losses.LOSSES`.
    noise : str, default "auto"
        A name in `noisette.mechanisms.step_noises()`, or "auto"; Gaussian noise needs delta >
        0.
    sampling : str or Sampler, default "auto"
        How batches are made: "auto" (see above), a name in `noisette.sampling.SAMPLERS`, or a
        `Sampler`. "disjoint" goes through the rows in one random order, streams in the order
        they come; ``Disjoint.of_size(n, b)`` keeps the given order. "levels" is one pass whose
        batches hold people of equal ``sample_epsilon``, each with its own noise; elsewhere
        their gradients are scaled under one noise.
    batch_size : int or "auto", default "auto"
        Records per batch.
    epochs : int, default 1
        Passes over the data ("full": steps).
    learning_rate : float, str or pair (str, float), default "auto"
        The first step size c, how step t follows from it, or both: "inverse-sqrt" is c / sqrt(t),
        "inverse" is 1 / (regularization t), "constant" is c; what is not given follows from
        public facts.
    regularization : float or pair of float, default 1e-4
        The lambda beside the mean loss, or (lambda, radius) with the radius of the ball onto
        which iterates are projected, inf for none; alone, it is a bound on the norm of the
        regularised minimiser.
    norm_bound : float, optional
        The bound R, public; longer rows are scaled down to R. None leaves rows as they are and
        needs ``clip_norm``; one of the two must be given.
    clip_norm : float, optional
        Bound on one record's gradient below the loss's own bound.
    %(fit_intercept)
    released : {"all", "last"} or pair of str, default "all"
        Whether all iterates are counted and a weighted mean of them is returned, or only the last
        one (cyclic, shuffle or full sampling, smooth loss, constant learning rate). A pair says
        what is counted and what is returned: ("all", "last") counts all and returns the last,
        ("all", "mean") asks for the mean.
    %(adjacency, population, missing, classes, class_weight, random_state, ledger)

    Attributes
    ----------
    %(coef_, features, privacy_)

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import SGDClassifier
    >>> X, y = make_classification(20_000, 5, random_state=0)
    >>> model = SGDClassifier(epsilon=1.0, norm_bound=3.0, classes=[0, 1])
    >>> model.plan(n=20_000, d=5).algorithm
    'single-pass'
    >>> model.fit(X, y).privacy_.epsilon, model.privacy_.delta
    (1.0, 0.0)
    >>> model.predict(X).shape, model.decision_function(X).shape
    ((20000,), (20000,))
    >>> model.predict_proba(X).shape, model.predict_log_proba(X).shape
    ((20000, 2), (20000, 2))

    """

    _released = "the coefficients and the intercept of a linear classifier trained by SGD"
    _refuses = ("entries", "labels")

    @retired(RETIRED)
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        loss: str = "logistic",
        noise: str = "auto",
        sampling: str | Sampler = "auto",
        batch_size: int | str = "auto",
        epochs: int = 1,
        learning_rate: Any = "auto",
        regularization: Any = 1e-4,
        norm_bound: float | None = None,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        released: Any = "all",
        adjacency: str = "replace-one",
        population: int | None = None,
        missing: str = "refuse",
        classes: Labels | None = None,
        class_weight: Any = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def fit(
        self, X: Any, y: Any = None, sample_epsilon: Any = None, sample_weight: Any = None,
        persons: Any = None, verbose: int = 0,
    ) -> "SGDClassifier":  # fmt: skip
        """Train privately and return the estimator.

        Parameters
        ----------
        %(rows or stream)
        y : array_like of shape (n,) or str, optional
            The labels; for Arrow and Parquet streams the name of the label column (None: the
            last).
        sample_epsilon : array_like of shape (n,), optional
            Values in (0, ``epsilon``], everyone's own epsilon, public by declaration.
        sample_weight : array_like of shape (n,), optional
            Weights in [0, 1] of the gradients, as sensitive as the rows; a record of weight 0
            adds nothing (the blank record of zero-out). Never rescaled.
        persons : array_like of shape (n,) or Persons, optional
            Whose row each row is, by any identifier. The guarantee is then about persons with
            all their rows: each row's gradient is cut and weighted so that a person's weights
            add up to one, batches are drawn among persons, ``batch_size`` and ``population``
            count them, and the number of rows is private. Not for streams.
        %(verbose)

        %(fitted, refusals)

        """
        with self._all_or_nothing(X):
            if not self._streamed(
                X, y, persons, verbose, sample_epsilon=sample_epsilon, sample_weight=sample_weight,
                class_weight=self.class_weight,
            ):  # fmt: skip
                self._fit(X, y, sample_epsilon, sample_weight, persons, verbose=verbose)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, persons: Any = None
    ) -> "SGDClassifier":
        """Train on one more chunk of **new** people and return the estimator.

        %(one charge)

        Parameters
        ----------
        %(chunk)
        y : array_like of shape (n,)
            Their labels.
        classes : sequence, optional
            All labels; needed at the first call unless the constructor has them.
        %(no persons)

        %(after a chunk)

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from noisette import SGDClassifier
        >>> X, y = make_classification(4000, 5, random_state=0)
        >>> model = SGDClassifier(epsilon=1.0, norm_bound=3.0, batch_size=500)
        >>> for week in range(2):
        ...     now = slice(2000 * week, 2000 * (week + 1))
        ...     model = model.partial_fit(X[now], y[now], classes=[0, 1])
        >>> model.privacy_.epsilon
        1.0

        """
        if self.class_weight is not None:
            raise InvalidParameter("class_weight is not offered for streams; fit the rows.")
        self._feed(X, y, persons, classes)
        return self

    def _check_stream(self, given: Any) -> None:
        given = self.classes if self.classes is not None else given
        if given is None:
            raise InvalidParameter(
                "a stream needs its labels, as classes=[...] of the constructor or of the first "
                "call to partial_fit: those of chunks to come cannot be read off the first one."
            )
        self.classes_ = inputs.sorted_classes(given)

    def _loss(self) -> Loss:
        return classifier_loss(self.loss, len(self.classes_))

    def _stream_targets(self, y: Any) -> NDArray[Any]:
        return inputs.class_targets(self._loss(), inputs.label_numbers(self.classes_, y))[0]

    @property
    def _target_fact(self) -> str:
        return labels_fact(self.classes_, given=True)

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        # as in `fit`: where n is private, a public guess stands for it (n itself, if none is given)
        guess, loss = self.population or unit.count, classifier_loss(self.loss, classes[0])
        return self._recommended(self._described(d, loss, adjacency, unit, guess), classes[0])

    def _recommended(self, public: Public, classes: int, levels: Any = None) -> Recommendation:
        if self.class_weight != BALANCED:
            return recommend_sgd(self, public, levels=levels)
        chosen = recommend_sgd(self, for_model(public), levels=levels)
        return balancing(chosen, classes, float(self.epsilon))

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_epsilon: Any = None,
        sample_weight: Any = None, persons: Any = None,
    ) -> Ready:  # fmt: skip
        X, unit, classes, numbers, weights = self._labelled(  # the kernels blank huge rows
            adjacency, X, y, sample_weight, sample_epsilon, persons, tame=False
        )
        loss, levels = classifier_loss(self.loss, len(classes)), None
        if sample_epsilon is not None:
            levels = inputs.levels(
                sample_epsilon, X, float(self.epsilon), self.sampling == BY_LEVEL, unit
            )
        public = self._described(X.shape[1], loss, adjacency, unit, self.population)
        chosen = self._recommended(public, len(classes), levels)
        told = () if levels is None else level_notes(levels, adjacency)
        return self._ready_for_steps(
            chosen, X, inputs.class_targets(loss, numbers), unit.share(weights), unit,
            labels_fact(classes, given=self.classes is not None), classes=classes,
            weighed=sample_weight is not None, notes=(*chosen.notes, *told),
            proofs=(*loss.proofs, *weight_proofs(self.class_weight), *unit.order),
        )  # fmt: skip

    def _check_own(self) -> None:
        _validate.choice("loss", self.loss, classifier_losses())
        if self.norm_bound is not None or self.clip_norm is None:
            self._row_bound()
        check_class_weight(self.class_weight)
        self._check_steps(BY_LEVEL)

    def _take(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        self._set_model(trained.released, ready.chosen.public.loss, bias, ready.classes)
        return ()

    predict_proba = available_if(_has_probabilities)(LogisticRegression.predict_proba)
    predict_log_proba = available_if(_has_probabilities)(LogisticRegression.predict_log_proba)
