"""Private linear support vector machine."""

from collections.abc import Sequence
from typing import Any

from noisette import _validate
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
    epsilon, delta : the budget of one ``fit``; delta = 0 is pure privacy.
    loss : "softplus" (see above for others).
    mechanism : "auto" (objective perturbation for smooth losses, else output perturbation), or one
        of `noisette.training.one_shot()`.
    regularization : lambda beside the *mean* loss, or "auto", as in `LogisticRegression`.
    norm_bound : R, public; rows longer than R are scaled down to R.
    adjacency : "replace-one" (default), "zero-out" or "add-remove".
    fit_intercept : whether to add the constant column 0.35 R to every row.
    classes : the label set. None reads it off y; the guarantee then says that it is public.
    multi_class : "ovr" (= "auto") for more than two classes.
    whiten : False, True or "auto", or a share, as in `LogisticRegression`; two classes only.
    weight_bound : public cap on ``sample_weight``.
    population : a public guess of n under add-remove.
    missing : what a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    random_state : None draws secure noise; a number is for experiments and voids the guarantee.
    ledger : the budget to charge; None opens one of (epsilon, delta) for each ``fit``.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_, privacy_, regularization_ : as
        in `LogisticRegression`.

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
        self.population = population
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    def _loss(self, classes: int) -> Loss:
        offered = classifier_losses(probabilities=False)
        return offered[_validate.choice("loss", self.loss, offered)]()
