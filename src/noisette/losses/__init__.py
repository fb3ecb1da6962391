"""Losses: one loss, one file, one line in ``LOSSES``; every constant carries its proof id.

>>> from noisette.losses import Logistic
>>> loss = Logistic()
>>> loss.lipschitz, loss.smoothness
(1.0, 0.25)
"""

from noisette.losses.base import Loss, MarginLoss, RegressionLoss, ScalarLoss
from noisette.losses.hinge import Hinge
from noisette.losses.huber import Huber
from noisette.losses.huber_hinge import HuberHinge
from noisette.losses.linear import gradient, hessian_vector_product, loss_sum
from noisette.losses.log_cosh import LogCosh
from noisette.losses.logistic import Logistic
from noisette.losses.rows import Augmented, Rows
from noisette.losses.softmax import Softmax
from noisette.losses.softplus_hinge import SoftplusHinge
from noisette.losses.squared import Squared

LOSSES: dict[str, type[Loss]] = {
    Logistic.name: Logistic,
    Hinge.name: Hinge,
    HuberHinge.name: HuberHinge,
    SoftplusHinge.name: SoftplusHinge,
    Softmax.name: Softmax,
    Squared.name: Squared,
    Huber.name: Huber,
    LogCosh.name: LogCosh,
}

__all__ = [
    "LOSSES",
    "Augmented",
    "Hinge",
    "Huber",
    "HuberHinge",
    "LogCosh",
    "Logistic",
    "Loss",
    "MarginLoss",
    "RegressionLoss",
    "Rows",
    "ScalarLoss",
    "Softmax",
    "SoftplusHinge",
    "Squared",
    "gradient",
    "hessian_vector_product",
    "loss_sum",
]
