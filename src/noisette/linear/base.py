"""The estimator behind both classes: check, choose from public facts, train, state the guarantee.

Nothing that depends on the data becomes an attribute except what was released: no iteration count,
no training loss, no norm. ``fit`` either succeeds or leaves the estimator as it was.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound
from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import inputs
from noisette.linear.choices import (
    MECHANISMS,
    Setting,
    bound_on_rows,
    choose_mechanism,
    choose_regularization,
    choose_whitening,
    pure_is_as_good,
)
from noisette.linear.estimator import PrivateEstimator
from noisette.linear.levels import checked_levels, level_notes, present, weights_of_levels
from noisette.linear.outputs import AT_LEAST_ONE, labels_fact, rows_fact
from noisette.losses import Loss, Softmax
from noisette.privacy import Ledger
from noisette.randomness import Randomness, as_randomness
from noisette.training import (
    Facts,
    Trained,
    objective_perturbation,
    output_perturbation,
    whitened_objective_perturbation,
    with_intercept,
)

__all__ = ["PrivateLinearClassifier"]

Floats = NDArray[np.float64]

INTERCEPT = 0.35
"""The constant column, in units of ``norm_bound`` (see docs/linear.md for the measurement)."""


@dataclass
class _Fit:
    """What one call of ``fit`` collects; `numbers` are positions in the class list."""

    setting: Setting
    mechanism: str
    share: float | None
    rows: Any
    numbers: NDArray[np.intp]
    weights: Floats | None
    notes: list[str]
    proofs: tuple[str, ...] = ()


class PrivateLinearClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Common part of `LogisticRegression` and `LinearSVC`; see there for the parameters."""

    epsilon: float
    delta: float
    mechanism: str
    regularization: float | str
    norm_bound: float
    adjacency: str
    fit_intercept: bool
    classes: Sequence[Any] | None
    multi_class: str
    whiten: bool | str | float
    weight_bound: float
    population: int | None
    missing: str
    random_state: int | Randomness | None

    _schemes: tuple[str, ...] = ("auto", "ovr")

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss for that many classes (2 for each one-vs-rest model)."""

    # --- fitting ---------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_epsilon: Any = None
    ) -> "PrivateLinearClassifier":
        """Train privately and return the estimator.

        Parameters
        ----------
        X : matrix of n rows and d features; array, DataFrame or sparse. Rows longer than
            ``norm_bound`` are scaled down to it.
        y : n labels.
        sample_weight : n weights in [0, ``weight_bound``], used as they are (never rescaled).
        sample_epsilon : n values in (0, ``epsilon``], every person's own epsilon; for output
            perturbation only. The levels are public by declaration.

        """
        with self._all_or_nothing():
            self._fit(X, y, sample_weight, sample_epsilon)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, sample_epsilon: Any) -> None:
        ledger, randomness = self._check_public()
        least = 2 if ledger.adjacency.size_is_public else 1
        X, y = inputs.rows_and_labels(self, X, y, least)
        _validate.delta_for(self.delta, X.shape[0] if least == 2 else self.population)
        classes = inputs.sorted_classes(self.classes, y)
        fit = self._prepare(X, inputs.class_numbers(classes, y), len(classes), ledger)
        self._weigh(fit, sample_weight, sample_epsilon)
        self._choose(fit, levels=sample_epsilon is not None)
        if sample_epsilon is not None:
            self._apply_levels(fit, sample_epsilon)
        trained = self._train(fit, len(classes), randomness)
        self._publish(fit, trained, classes)

    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every constructor parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        checked_bound("norm_bound", self.norm_bound)
        _validate.positive("weight_bound", self.weight_bound)
        _validate.choice("mechanism", self.mechanism, MECHANISMS)
        _validate.choice("multi_class", self.multi_class, self._schemes)
        _validate.boolean("fit_intercept", self.fit_intercept)
        if self.population is not None:
            _validate.integer("population", self.population)
        _validate.choice("missing", self.missing, inputs.MISSING)
        whiten = self._whiten
        known = whiten == "auto" if isinstance(whiten, str) else isinstance(whiten, float | int)
        if not known:
            raise InvalidParameter(
                f"whiten must be True or 'auto', False, or a share in (0, 1); got {whiten!r}."
            )
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), randomness

    @property
    def _whiten(self) -> bool | str | float:
        return "auto" if self.whiten is True else self.whiten

    def _prepare(self, X: Any, numbers: NDArray[np.intp], classes: int, ledger: Ledger) -> _Fit:
        """Clip the rows, add the intercept column, collect the public facts."""
        softmax = "softmax" in self._schemes and self.multi_class in ("auto", "softmax")
        joint = classes == 2 or softmax
        loss = self._loss(classes if joint else 2)
        rows, bound = with_intercept(X, float(self.norm_bound), self._intercept())
        adjacency, n = ledger.adjacency, rows.shape[0]
        facts = Facts(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            ledger=ledger,
            norm_bound=bound,
            regularization=1.0,  # replaced by the choice below
            size=bound_on_rows(adjacency, n, self.population),
        )
        setting = Setting(
            facts=facts,
            loss=loss,
            features=rows.shape[1],
            models=1 if joint else classes,
            size=n if adjacency.size_is_public else self.population,
        )
        return _Fit(setting, "", None, rows, numbers, None, [])

    def _intercept(self) -> float | None:
        if not self.fit_intercept:
            return None
        # a float32, so that the column has the same public value in rows of either type
        return float(np.float32(INTERCEPT * float(self.norm_bound)))

    def _weigh(self, fit: _Fit, sample_weight: Any, sample_epsilon: Any) -> None:
        if sample_weight is None:
            return
        if sample_epsilon is not None:
            raise InvalidData("pass sample_weight or sample_epsilon, not both.")
        cap = float(self.weight_bound)
        n = fit.rows.shape[0]
        fit.weights = inputs.vector("sample_weight", sample_weight, n, 0.0, cap, "weight_bound")
        fit.setting = fit.setting.with_facts(weight_bound=cap)

    def _choose(self, fit: _Fit, *, levels: bool) -> None:
        """Fix mechanism, regularisation and whitening from public facts."""
        loss = fit.setting.loss
        fit.mechanism, why = choose_mechanism(
            self.mechanism, loss, levels=levels, whiten=self._whiten
        )
        fit.notes.append(why)
        fit.share, why = choose_whitening(self._whiten, fit.mechanism, fit.setting)
        if why:
            fit.notes.append(why)
        if fit.share is not None:
            fit.notes.append(
                "Regularization: follows from the released second moment, not from the parameter."
            )
            return
        if fit.mechanism == "objective" and pure_is_as_good(fit.setting):
            fit.setting = fit.setting.with_facts(delta=0.0)
            fit.notes.append(
                "Delta is not used: for so few weights it would hardly lower the noise."
            )
        chosen, why = choose_regularization(self.regularization, fit.mechanism, fit.setting)
        fit.notes.append(why)
        fit.setting = fit.setting.with_facts(regularization=chosen)

    def _apply_levels(self, fit: _Fit, sample_epsilon: Any) -> None:
        levels = checked_levels(sample_epsilon, fit.rows.shape[0], float(self.epsilon))
        weights = weights_of_levels(levels, fit.setting)
        fit.rows, fit.numbers, fit.weights = present(fit.rows, fit.numbers, weights)
        fit.notes.extend(level_notes(levels, fit.setting.adjacency))
        fit.proofs = ("PER-PERSON-SCALE",)

    def _train(self, fit: _Fit, classes: int, randomness: Randomness) -> Trained:
        loss, facts = fit.setting.loss, fit.setting.facts
        targets: list[NDArray[Any]]
        if isinstance(loss, Softmax):
            targets = [fit.numbers]
        elif fit.setting.models == 1:
            targets = [np.where(fit.numbers == 1, 1.0, -1.0)]
        else:
            targets = [np.where(fit.numbers == k, 1.0, -1.0) for k in range(classes)]
        name = f"{type(self).__name__}.fit ({fit.mechanism} perturbation)"
        if fit.share is not None:
            return whitened_objective_perturbation(
                fit.rows, targets, loss, facts, randomness,
                share=fit.share, guess=fit.setting.size, sample_weight=fit.weights, label=name,
            )  # fmt: skip
        train = output_perturbation if fit.mechanism == "output" else objective_perturbation
        return train(
            fit.rows, targets, loss, facts, randomness, sample_weight=fit.weights, label=name
        )

    def _publish(self, fit: _Fit, trained: Trained, classes: NDArray[Any]) -> None:
        """Set the fitted attributes: released numbers and public facts."""
        loss = fit.setting.loss
        released = trained.weights
        parts = loss.expand(released[0]) if isinstance(loss, Softmax) else np.stack(released)
        self._set_model(parts, self._intercept(), classes)
        facts, size = fit.setting.facts, fit.setting.size
        known = size is not None and fit.share is None
        self.regularization_ = facts.regularization / size if known and size else None
        self.privacy_ = self._stated(
            trained.permit,
            public=self._public(fit, classes),
            notes=(*fit.notes, *trained.notes),
            proofs=(*fit.proofs, *trained.proofs),
        )

    def _set_model(self, parts: Floats, bias: float | None, classes: NDArray[Any]) -> None:
        """Split the released weights, one row per model, into coefficients and intercepts."""
        if bias is None:
            self.coef_, self.intercept_ = np.array(parts), np.zeros(len(parts))
        else:
            self.coef_, self.intercept_ = parts[:, :-1].copy(), bias * parts[:, -1]
        self.classes_ = classes

    def _public(self, fit: _Fit, classes: NDArray[Any]) -> tuple[str, ...]:
        """Return what the guarantee treats as known to everybody."""
        setting = fit.setting
        listed = [f"the {self.n_features_in_} features and their names"]
        if setting.adjacency.size_is_public:
            listed.insert(0, f"the number of records, {setting.size}")
        elif self.population is not None:
            listed.insert(0, f"the guess {self.population} of the number of records (population)")
        if not setting.adjacency.size_is_public:
            listed.insert(0, f"{AT_LEAST_ONE}, and at most {setting.facts.size}")
        listed.append(rows_fact(self.norm_bound, self._intercept()))
        listed.append(labels_fact(classes, given=self.classes is not None))
        if fit.weights is not None and setting.facts.weight_bound != 1.0:
            listed.append(f"the cap {setting.facts.weight_bound:g} on sample weights")
        listed.append("all parameters of the estimator and the program")
        return tuple(listed)

    # --- using the model -------------------------------------------------------------------

    def decision_function(self, X: Any) -> Floats:
        """Return scores: shape (n,) for two classes, else (n, K)."""
        check_is_fitted(self)
        X = inputs.matrix(self, X)
        scores = np.asarray(X @ self.coef_.T, dtype=np.float64) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of every row."""
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    # --- scikit-learn ----------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Declare what scikit-learn should know: sparse input works, NaN if ``missing`` says so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags
