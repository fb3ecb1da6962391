"""scikit-learn estimators: private logistic regression, linear SVM and SGD.

>>> from noisette import LinearSVC, LogisticRegression
>>> LogisticRegression(epsilon=0.5).get_params()["mechanism"]
'auto'
"""

from noisette.linear.linear_svc import LinearSVC
from noisette.linear.logistic_regression import LogisticRegression
from noisette.linear.sgd import SGDClassifier

__all__ = ["LinearSVC", "LogisticRegression", "SGDClassifier"]
