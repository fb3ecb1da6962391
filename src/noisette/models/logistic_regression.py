"""Private logistic regression and linear support vector machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Labels
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.fitting.losses import Logistic, Loss, Softmax, classifier_losses
from noisette.fitting.losses.logistic import softplus_parts
from noisette.fitting.partitions.lazily import lazily
from noisette.models.one_shot import OneShotClassifier
from noisette.models.outputs import probabilities


class LogisticRegression(OneShotClassifier):
    """Logistic regression with a differential-privacy guarantee.

    Minimises sum_i l(w; x_i, y_i) + (Lambda / 2) ||w||^2 with a certified solver, and adds noise to
    the objective (a random linear term) or to the solution. Rows are clipped to ``norm_bound``; the
    intercept is the weight of a constant column inside the row, so it is part of the proof.

    Parameters
    ----------
    %(pure)
    mechanism : str, default "auto"
        The noise: "objective" (least noise), "output" (noise on the solution), another one of
        `noisette.fitting.algorithms.one_shot()`, or "auto": objective unless ``fit`` gets
        ``sample_epsilon``.
    regularization : float or "auto", default "auto"
        The lambda beside the *mean* loss, so Lambda = n lambda (``population`` stands for n
        under add-remove); "auto" chooses from n, d, epsilon and delta. Objective perturbation
        raises a smaller Lambda to what its theorem needs; the guarantee's notes say so.
    %(norm_bound, adjacency, fit_intercept, classes)
    multi_class : {"auto", "softmax", "ovr"}, default "auto"
        For more than two classes one joint model ("softmax", "auto") or one against the rest
        ("ovr").
    whiten : bool, "auto" or float, default False
        Whether rows are whitened by a private second moment: True or "auto" where it helps, or
        the share of the budget that buys it (needs delta > 0 and objective perturbation).
    weight_bound : float, default 1.0
        Public cap on ``sample_weight``.
    %(class_weight, population, missing, random_state, ledger)

    Attributes
    ----------
    %(coef_, features)
    weight_noise_ : float or None
        The standard deviation that privacy added to each coefficient, where its law is public:
        output perturbation. None for objective perturbation, where it depends on the curvature
        at the solution, which is not released.
    %(privacy_)
    regularization_ : float or None
        The lambda that was used, a public number (None if n is private and no ``population`` is
        given, or with whitening).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression
    >>> X, y = make_classification(5000, 5, random_state=0)
    >>> model = LogisticRegression(epsilon=1.0, norm_bound=3.0, classes=[0, 1])
    >>> model.plan(n=5000, d=5).epsilon <= 1.0
    True
    >>> model.fit(X, y).privacy_.epsilon, model.privacy_.delta
    (1.0, 0.0)
    >>> model.predict(X).shape, model.predict_proba(X).shape
    ((5000,), (5000, 2))
    >>> model.decision_function(X).shape, model.predict_log_proba(X).shape
    ((5000,), (5000, 2))

    """

    _schemes = ("auto", "softmax", "ovr")
    _released = "the coefficients and the intercept of a logistic regression"

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax(classes)

    @lazily
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities; rows add up to 1, one-vs-rest scores are normalised.

        %(to classify, columns)

        """
        scores = self.decision_function(X)
        if scores.ndim == 1 or getattr(self, "multi_class", "") != "ovr":
            return probabilities(scores)
        each = np.maximum(softplus_parts(scores)[1], np.finfo(float).tiny)
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    @lazily
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of ``predict_proba``.

        %(to classify, columns)

        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class LinearSVC(OneShotClassifier):
    """Linear support vector machine with a differential-privacy guarantee.

    As `LogisticRegression`, with a loss of the margin: "softplus" (default, the hinge smoothed so
    that objective perturbation pays nothing for its curvature), "huber" (the hinge of Chaudhuri,
    Monteleoni and Sarwate), "hinge" itself, or another one without probabilities in
    `noisette.losses.LOSSES`. Objective perturbation has no proof for the hinge,
    whose kink would show as an atom of the released weights; ``mechanism="auto"`` then takes output
    perturbation. More than two classes are trained one against the rest.

    Parameters
    ----------
    %(pure)
    loss : str, default "softplus"
        The loss of the margin, see above.
    mechanism : str, default "auto"
        Objective perturbation for smooth losses, else output perturbation; or one of
        `noisette.fitting.algorithms.one_shot()`.
    regularization, norm_bound, adjacency, fit_intercept, classes : float, str, bool, sequence
        As in `LogisticRegression`.
    multi_class : {"auto", "ovr"}, default "auto"
        One against the rest for more than two classes.
    whiten : bool, "auto" or float, default False
        As in `LogisticRegression`; two classes only.
    weight_bound, class_weight, population, missing, random_state, ledger : float, dict, int, str
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, weight_noise_, regularization_, privacy_ : ndarray and others
        As in `LogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LinearSVC
    >>> X, y = make_classification(5000, 5, random_state=0)
    >>> model = LinearSVC(epsilon=1.0, norm_bound=3.0, classes=[0, 1])
    >>> model.plan(n=5000, d=5).algorithm
    'objective'
    >>> model.fit(X, y).privacy_.epsilon
    1.0
    >>> model.predict(X).shape, model.decision_function(X).shape
    ((5000,), (5000,))

    """

    _released = "the coefficients and the intercept of a linear support vector machine"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        loss: str = "softplus",
        mechanism: str = "auto",
        regularization: float | str = "auto",
        norm_bound: float | None = None,
        adjacency: str = "replace-one",
        fit_intercept: bool = True,
        classes: Labels | None = None,
        multi_class: str = "auto",
        whiten: bool | str | float = False,
        weight_bound: float = 1.0,
        class_weight: Any = None,
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _loss(self, classes: int) -> Loss:
        offered = classifier_losses(probabilities=False)
        return offered[_validate.choice("loss", self.loss, offered)]()
