"""scikit-learn estimators: private classifiers and regressors.

>>> from noisette import LinearSVC, LogisticRegression
>>> LogisticRegression(epsilon=0.5).get_params()["mechanism"]
'auto'
"""

from noisette.linear.huber_regressor import HuberRegressor
from noisette.linear.linear_regression import LinearRegression
from noisette.linear.linear_svc import LinearSVC
from noisette.linear.logistic_regression import LogisticRegression
from noisette.linear.poisson_regressor import PoissonRegressor
from noisette.linear.sgd import SGDClassifier
from noisette.linear.sgd_regressor import SGDRegressor

__all__ = [
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "SGDClassifier",
    "SGDRegressor",
]
