"""Private linear support vector machine."""

from typing import Any

from noisette import _validate
from noisette._typing import Labels
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.fitting.losses import Loss, classifier_losses
from noisette.models.one_shot import OneShotClassifier


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
    epsilon, delta : float, default 1.0 and 0.0
        The budget of one ``fit``; delta = 0 is pure privacy.
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
        super().__init__(
            epsilon, delta, mechanism=mechanism, regularization=regularization,
            norm_bound=norm_bound, adjacency=adjacency, fit_intercept=fit_intercept,
            classes=classes, multi_class=multi_class, whiten=whiten, weight_bound=weight_bound,
            class_weight=class_weight, population=population, missing=missing,
            random_state=random_state, ledger=ledger,
        )  # fmt: skip
        self.loss = loss

    def _loss(self, classes: int) -> Loss:
        offered = classifier_losses(probabilities=False)
        return offered[_validate.choice("loss", self.loss, offered)]()
