"""Private logistic regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.estimators.outputs import probabilities
from noisette.linear.one_shot import OneShotClassifier
from noisette.losses import Logistic, Loss, Softmax
from noisette.losses.logistic import softplus_parts
from noisette.privacy import Ledger
from noisette.randomness import Randomness

__all__ = ["LogisticRegression"]


class LogisticRegression(OneShotClassifier):
    r"""Logistic regression with a differential-privacy guarantee.

    Minimises sum_i l(w; x_i, y_i) + (Lambda / 2) ||w||^2 with a certified solver, and adds noise to
    the objective (a random linear term) or to the solution. Rows are clipped to ``norm_bound``; the
    intercept is the weight of a constant column inside the row, so it is part of the proof.

    Parameters
    ----------
    epsilon, delta : the budget of one ``fit``; delta = 0 is pure privacy.
    mechanism : "objective" (least noise), "output" (noise on the solution), another one of
        `noisette.training.one_shot()`, or "auto": objective unless ``fit`` gets ``sample_epsilon``.
    regularization : lambda beside the *mean* loss, so Lambda = n lambda (``population`` stands for
        n under add-remove), or "auto": chosen from n, d, epsilon and delta. Objective perturbation
        raises a smaller Lambda to what its theorem needs; the guarantee's notes say so.
    norm_bound : R, public; rows longer than R are scaled down to R. Choose it without the data.
    adjacency : "replace-one" (default), "zero-out" or "add-remove".
    fit_intercept : whether to add the constant column 0.35 R to every row.
    classes : the label set. None reads it off y; the guarantee then says that it is public.
    multi_class : for more than two classes "softmax" (one joint model; "auto") or "ovr".
    whiten : False; True or "auto" (where it helps); or the share of the budget that buys a private
        second moment by which the rows are whitened (needs delta > 0, objective perturbation).
    weight_bound : public cap on ``sample_weight``.
    population : a public guess of n; needed under add-remove where n would set a parameter.
    missing : what a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    random_state : None draws secure noise. A number makes the run reproducible and the guarantee
        void, for experiments.
    ledger : the budget to charge; None opens one of (epsilon, delta) for each ``fit``.

    Attributes
    ----------
    coef_ : (1, d) for two classes, else (K, d). ``intercept_`` : (1,) or (K,).
    classes_ : sorted labels. ``n_features_in_``, ``feature_names_in_`` : as in scikit-learn.
    privacy_ : the `Guarantee` about coef_ and intercept_.
    regularization_ : lambda that was used, a public number (None if n is private and no
        ``population`` is given, or with whitening).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression
    >>> X, y = make_classification(5000, 5, random_state=0)
    >>> model = LogisticRegression(epsilon=1.0, norm_bound=3.0, classes=[0, 1]).fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.delta
    (1.0, 0.0)

    """

    _schemes = ("auto", "softmax", "ovr")
    _released = "the coefficients and the intercept of a logistic regression"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "auto",
        regularization: float | str = "auto",
        norm_bound: float = 1.0,
        adjacency: str = "replace-one",
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        multi_class: str = "auto",
        whiten: bool | str | float = False,
        weight_bound: float = 1.0,
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.regularization = regularization
        self.norm_bound = norm_bound
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.multi_class = multi_class
        self.whiten = whiten
        self.weight_bound = weight_bound
        self.population = population
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax(classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities, shape (n, K); one-vs-rest scores are normalised."""
        scores = self.decision_function(X)
        if scores.ndim == 1 or self.multi_class != "ovr":
            return probabilities(scores)
        each = np.maximum(softplus_parts(scores)[1], np.finfo(float).tiny)
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
