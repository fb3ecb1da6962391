"""`Public`: everything about one training that is known to everybody, in one frozen record.

Nothing in it is read off the data, and it holds no ledger; whatever an algorithm prepares from it
can be shown before any data exist.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound
from noisette.errors import InvalidParameter
from noisette.losses import Loss
from noisette.mechanisms import Mechanism
from noisette.solvers import PublicFacts, check_ends

__all__ = ["Public", "check_scale"]

# The solvers accept rows that exceed R by rounding (1e-10 relative); the sensitivities pay for ten
# times that.
_PAID = 1.0 + 1e-9

_SMALLEST_SCALE, _LARGEST_SCALE = 1e-150, 1e150
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-30, 1e30


@dataclass(frozen=True)
class Public:
    """Public facts of one training.

    Parameters
    ----------
    epsilon, delta : float
        The budget of this training.
    adjacency : Adjacency
        Who is a neighbour.
    loss : Loss
        The loss of one record.
    features : int
        Entries of a row, the constant column included.
    norm_bound : float
        R, the norm bound of the rows, the constant column included; infinity where rows are not
        clipped and only gradients are.
    size : int or None
        The number of units where it is public (replace-one, zero-out), else a public guess of it,
        else None.
    most : int or None
        A public bound on the number of rows, which the solvers' certificates need.
    regularization : float or None
        Lambda > 0, weight of ||w||^2 / 2 beside the **sum** of losses.
    weight_bound : float
        Public cap on sample weights.
    models : int
        How many models are trained side by side (several for one-vs-rest).
    unit : str
        Whose data are protected together.

    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    loss: Loss
    features: int
    norm_bound: float
    size: int | None
    most: int | None = None
    regularization: float | None = None
    weight_bound: float = 1.0
    models: int = 1
    unit: str = "record"

    def __post_init__(self) -> None:
        _validate.epsilon(self.epsilon)
        _validate.delta(self.delta)
        _validate.integer("features", self.features)
        _validate.integer("models", self.models)
        if self.norm_bound != np.inf:
            checked_bound("norm_bound", self.norm_bound)
        if self.regularization is not None:
            _validate.positive("regularization", self.regularization)
        cap = _validate.positive("weight_bound", self.weight_bound)
        if not _LEAST_WEIGHT <= cap <= _MOST_WEIGHT:
            raise InvalidParameter(
                f"weight_bound must lie between {_LEAST_WEIGHT:g} and {_MOST_WEIGHT:g}, so that "
                f"weighted sums neither vanish nor overflow; got {cap!r}, rescale the weights."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter of one model."""
        return self.loss.parameter_shape(self.features)

    @property
    def dimension(self) -> int:
        """Number of weights of one model."""
        return int(np.prod(self.shape))

    @property
    def gradient_bound(self) -> float:
        """C = (weight cap) L R, the norm bound of one record's gradient."""
        if not np.isfinite(self.loss.lipschitz):
            raise InvalidParameter(
                f"the {self.loss.name} loss has no bounded gradient, so one record could move the "
                "solution without limit; use a loss with a bound."
            )
        return self.weight_bound * self.loss.lipschitz * self.norm_bound * _PAID

    @property
    def squared_bound(self) -> float:
        """(weight cap) R^2, which bounds the Hessian of one record."""
        return self.weight_bound * (self.norm_bound * _PAID) ** 2

    @property
    def ridge(self) -> float:
        """Lambda, where the algorithm needs one."""
        if self.regularization is None:
            raise InvalidParameter("this algorithm needs regularization, a number above 0.")
        return self.regularization

    def for_solver(self, linear_norm: float = 0.0) -> PublicFacts:
        """Return what a solver may know; `linear_norm` bounds the random linear term."""
        if self.most is None:
            raise InvalidParameter("the solvers need most=..., a public bound on the rows.")
        return PublicFacts(
            rows=self.most,
            features=self.features,
            norm_bound=self.norm_bound,
            weight_bound=self.weight_bound,
            regularization=self.ridge,
            linear_norm=linear_norm,
        )

    def check_ends(self, tolerance: float, linear_norm: float = 0.0) -> None:
        """Refuse before the charge what is not proven to be solved, whatever the rows."""
        # proof: SOLVER-ENDS
        check_ends(self.loss, self.for_solver(linear_norm), tolerance)

    def known_size(self, why: str) -> int:
        """Return the public size, or refuse in one sentence."""
        if self.size is None:
            raise InvalidParameter(
                f"{why} needs the number of records, which is private under add-remove; "
                "pass population=..., a public guess of it."
            )
        return self.size


def check_scale(mechanism: Mechanism, unit: float) -> None:
    """Refuse before the charge what the door would refuse after it: noise beyond float64."""
    scale: Any = getattr(mechanism, "noise_multiplier", 1.0) * unit
    if not _SMALLEST_SCALE < scale < _LARGEST_SCALE:
        raise InvalidParameter(
            f"these parameters ask for noise of scale {scale:g}, which float64 cannot serve; "
            "epsilon, sample_epsilon, norm_bound or regularization is out of reach."
        )
