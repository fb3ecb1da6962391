"""What a fitted linear classifier offers: scores, labels, and what scikit-learn asks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from noisette import _validate
from noisette._typing import Floats
from noisette.estimators import inputs
from noisette.estimators.outputs import AT_LEAST_ONE, labels_fact, rows_fact
from noisette.estimators.private import PrivateEstimator
from noisette.losses import Loss, Softmax

__all__ = ["INTERCEPT", "LinearClassifier"]


INTERCEPT = 0.35
"""The constant column, in units of ``norm_bound`` (see docs/linear.md for the measurement)."""


class LinearClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Coefficients, an intercept that is the weight of a constant column, and labels."""

    norm_bound: float | None
    fit_intercept: bool
    population: int | None
    classes: Any
    missing: str

    def _intercept(self) -> float | None:
        if not self.fit_intercept:
            return None
        # a float32, so that the column has the same public value in rows of either type
        return float(np.float32(INTERCEPT * float(self.norm_bound or 1.0)))

    def _count(self, told: int | None) -> int:
        """Return the number of classes for a plan: as told, as listed, else two."""
        if told is not None:
            return _validate.integer("classes", told, 2)
        return 2 if self.classes is None else len(self.classes)

    def _set_model(
        self, weights: list[Floats], loss: Loss, bias: float | None, classes: NDArray[Any]
    ) -> None:
        """Split the released weights into coefficients and intercepts, one row per score."""
        if isinstance(loss, Softmax):
            parts = loss.expand(weights[0])
            if len(classes) == 2:
                parts = parts[1:] - parts[:1]
        else:
            parts = np.stack(weights)
        if bias is None:
            self.coef_, self.intercept_ = np.array(parts), np.zeros(len(parts))
        else:
            self.coef_, self.intercept_ = parts[:, :-1].copy(), bias * parts[:, -1]
        self.classes_ = classes

    def _facts(
        self, size: str, classes: NDArray[Any], bounds: tuple[float | None, float | None], *,
        given: bool, most: int | None = None, more: tuple[str, ...] = (),
    ) -> tuple[str, ...]:  # fmt: skip
        """Return what the guarantee treats as known to everybody.

        `size` says what is known of the number of records, empty where it is private; `bounds` are
        the norm bound and the constant column.
        """
        listed = [size] if size else []
        if not size:
            bounded = "" if most is None else f", and at most {most}"
            listed.append(f"{AT_LEAST_ONE}{bounded}")
        if self.population is not None and not size.startswith("the number of records,"):
            listed.append(f"the guess {self.population} of the number of records (population)")
        listed.append(f"the {self.n_features_in_} features and their names")
        norm_bound, bias = bounds
        if norm_bound is not None:
            listed.append(rows_fact(norm_bound, bias))
        listed.append(labels_fact(classes, given=given))
        return (*listed, *more, "all parameters of the estimator and the program")

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

    def __sklearn_tags__(self) -> Any:
        """Declare what scikit-learn should know: sparse input works, NaN if ``missing`` says so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags
