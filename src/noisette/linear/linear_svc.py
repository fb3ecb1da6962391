"""Private linear support vector machine."""

from typing import Any

from noisette import _validate
from noisette._typing import Labels
from noisette.linear.one_shot import OneShotClassifier
from noisette.losses import Loss, classifier_losses
from noisette.privacy import Ledger
from noisette.randomness import Randomness

__all__ = ["LinearSVC"]


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
        `noisette.training.one_shot()`.
    regularization : float or "auto", default "auto"
        The lambda beside the *mean* loss, as in `LogisticRegression`.
    norm_bound : float
        The bound R, public; rows longer than R are scaled down to R; no default.
    adjacency : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
        The neighbouring relation.
    fit_intercept : bool, default True
        Whether to add the constant column 0.35 R to every row.
    classes : sequence, optional
        The label set. None reads it off y; the guarantee then says that it is public.
    multi_class : {"auto", "ovr"}, default "auto"
        One against the rest for more than two classes.
    whiten : bool, "auto" or float, default False
        As in `LogisticRegression`; two classes only.
    weight_bound : float, default 1.0
        Public cap on ``sample_weight``.
    class_weight : dict or "balanced", optional
        How much rows of each class count: public weights by label, of which only the ratio matters
        (the largest becomes 1), or "balanced" by noisy counts bought with 5 % of epsilon.
    population : int, optional
        A public guess of n under add-remove.
    missing : {"refuse", "zero"}, default "refuse"
        What a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    random_state : int or Randomness, optional
        None draws secure noise; a number is for experiments and voids the guarantee.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta) for each ``fit``.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d) or (K, d)
        One row for two classes, else one for each class.
    intercept_ : ndarray of shape (1,) or (K,)
        The intercepts.
    classes_ : ndarray of shape (K,)
        The sorted labels.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As in scikit-learn.
    weight_noise_ : float or None
        The standard deviation that privacy added to each coefficient, where its law is public:
        output perturbation. None for objective perturbation, where it depends on the curvature
        at the solution, which is not released.
    privacy_ : Guarantee
        What is promised about ``coef_`` and ``intercept_``.
    regularization_ : float or None
        The lambda that was used, as in `LogisticRegression`.

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
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.mechanism = mechanism
        self.regularization = regularization
        self.norm_bound = norm_bound
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.multi_class = multi_class
        self.whiten = whiten
        self.weight_bound = weight_bound
        self.class_weight = class_weight
        self.population = population
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    def _loss(self, classes: int) -> Loss:
        offered = classifier_losses(probabilities=False)
        return offered[_validate.choice("loss", self.loss, offered)]()
