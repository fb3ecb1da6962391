"""scikit-learn estimators: private classifiers and regressors.

>>> from noisette import LinearSVC, LogisticRegression
>>> LogisticRegression(epsilon=0.5).get_params()["mechanism"]
'auto'
"""

from typing import TYPE_CHECKING

from noisette._package import lazily

if TYPE_CHECKING:
    from noisette.models.huber_regressor import HuberRegressor
    from noisette.models.linear_regression import LinearRegression
    from noisette.models.logistic_regression import LinearSVC, LogisticRegression
    from noisette.models.poisson_regressor import PoissonRegressor
    from noisette.models.sgd import SGDClassifier
    from noisette.models.sgd_regressor import SGDRegressor

__all__ = [
    "HuberRegressor", "LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegressor",
    "SGDClassifier", "SGDRegressor",
]  # fmt: skip

_HOMES = {
    "HuberRegressor": "huber_regressor", "LinearRegression": "linear_regression",
    "LinearSVC": "logistic_regression", "LogisticRegression": "logistic_regression",
    "PoissonRegressor": "poisson_regressor", "SGDClassifier": "sgd",
    "SGDRegressor": "sgd_regressor",
}  # fmt: skip
__getattr__ = lazily(__name__, _HOMES, {})
