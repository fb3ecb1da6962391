"""Losses: one loss, one file, one line in ``LOSSES``; every constant carries its proof id.

>>> from noisette.losses import Logistic
>>> loss = Logistic()
>>> loss.lipschitz, loss.smoothness
(1.0, 0.25)
"""

from noisette import _validate
from noisette.errors import InvalidParameter
from noisette.fitting.losses.base import Loss
from noisette.fitting.losses.base import MarginLoss as MarginLoss
from noisette.fitting.losses.base import RegressionLoss as RegressionLoss
from noisette.fitting.losses.base import ScalarLoss as ScalarLoss
from noisette.fitting.losses.hinge import Hinge
from noisette.fitting.losses.huber import Huber
from noisette.fitting.losses.huber_hinge import HuberHinge
from noisette.fitting.losses.logistic import Logistic
from noisette.fitting.losses.poisson_counts import PoissonCounts
from noisette.fitting.losses.rows import Augmented as Augmented
from noisette.fitting.losses.rows import Measured as Measured
from noisette.fitting.losses.rows import Rows as Rows
from noisette.fitting.losses.softmax import Softmax
from noisette.fitting.losses.softplus_hinge import SoftplusHinge
from noisette.fitting.losses.squared import Squared

LOSSES: dict[str, type[Loss]] = {
    Logistic.name: Logistic,
    Hinge.name: Hinge,
    HuberHinge.name: HuberHinge,
    SoftplusHinge.name: SoftplusHinge,
    Softmax.name: Softmax,
    Squared.name: Squared,
    Huber.name: Huber,
}
"""Every loss by its name."""


def classifier_losses(*, probabilities: bool | None = None) -> dict[str, type[Loss]]:
    """Return the losses of classifiers by the names that users give them.

    Only those whose scores become `probabilities`, or only the others, if that is given.
    """
    return {
        kind.short or name: kind
        for name, kind in LOSSES.items()
        if kind.kind != "regression" and probabilities in (None, kind.gives_probabilities)
    }


def classifier_loss(name: str, classes: int) -> Loss:
    """Return the loss of that name; softmax where "logistic" meets more than two classes."""
    kind = classifier_losses()[_validate.choice("loss", name, classifier_losses())]
    if kind is Softmax or (kind is Logistic and classes > 2):
        return Softmax(classes)
    if classes > 2:
        raise InvalidParameter(
            f"loss={name!r} is for two classes; use 'logistic' or 'softmax' for {classes}."
        )
    return kind()


__all__ = [
    "LOSSES", "Hinge", "Huber", "HuberHinge", "Logistic", "Loss", "PoissonCounts", "Softmax",
    "SoftplusHinge", "Squared",
]  # fmt: skip
