"""`Public`: everything about one training that is known to everybody, in one frozen record.

Nothing in it is read off the data, and it holds no ledger; whatever an algorithm prepares from it
can be shown before any data exist.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noisette import _validate
from noisette.core.adjacency import UNITS, Adjacency
from noisette.core.mechanisms import Mechanism
from noisette.core.plans import Plan
from noisette.core.plans.leaves import Noisy
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.clipping import checked_bound
from noisette.fitting.losses import Loss
from noisette.fitting.solvers import PublicFacts

# The solvers accept rows that exceed R by rounding (1e-10 relative); the sensitivities pay for ten
# times that.
_PAID = 1.0 + 1e-9

ROWS_EACH = 64
"""Most rows of a person, on average over all persons, where no ``max_rows`` is declared."""

_SMALLEST_SCALE, _LARGEST_SCALE = 1e-150, 1e150
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-30, 1e30


@dataclass(frozen=True, kw_only=True)
class PublicBudget:
    """Who is protected, and what may be spent on it; enough for a step that trains no model.

    epsilon, delta : the budget of this training.
    adjacency : who is a neighbour.
    size : the number of units where it is public (replace-one, zero-out), else a public guess of
        it, else None.
    most : a public bound on the number of units, which the solvers' certificates need.
    unit : whose data are protected together: ``"record"`` or ``"person"``.
    max_rows : the public cap on the rows of one person that is enforced, if any.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    size: int | None
    most: int | None = None
    unit: str = "record"
    max_rows: int | None = None
    grouped: bool = field(init=False, repr=False, compare=False)
    """Whether several rows may be of one unit, and share one weight."""
    rows_each: int = field(init=False, repr=False, compare=False)
    """A public bound on the rows of a unit, on average over all units."""
    most_rows: int | None = field(init=False, repr=False, compare=False)
    """A public bound on the number of rows, None where there is none."""
    exact: int | None = field(init=False, repr=False, compare=False)
    """The number of units where it is public, None where `size` is a guess."""

    def __post_init__(self) -> None:
        epsilon = _validate.epsilon(self.epsilon)
        if not 1e-300 <= epsilon <= 1e15:
            raise InvalidParameter(
                f"epsilon={epsilon:g} is outside of what training serves, 1e-300 to 1e15: below it "
                "all is noise, above it nothing is hidden."
            )
        _validate.delta(self.delta)
        _validate.choice("unit", self.unit, tuple(UNITS))
        if self.max_rows is not None:
            _validate.integer("max_rows", self.max_rows)
        grouped = UNITS[self.unit].grouped
        each = (self.max_rows or ROWS_EACH) if grouped else 1
        vars(self).update(
            grouped=grouped, rows_each=each,
            most_rows=None if self.most is None else self.most * each,
            exact=self.size if self.adjacency.size_is_public else None,
        )  # fmt: skip

    def check_count(self, count: int) -> None:
        """Refuse another number of units than was prepared for, where it is public."""
        if self.adjacency.size_is_public and count != self.size:
            raise InvalidData(
                f"the training was prepared for {self.size} {self.unit}s, not for {count}."
            )

    def known_size(self, why: str) -> int:
        """Return the public size, or refuse in one sentence."""
        if self.size is None:
            raise InvalidParameter(
                f"{why} needs the number of {self.unit}s, which is private under add-remove; "
                "pass population=... (--population), a public guess of it."
            )
        return self.size


@dataclass(frozen=True, kw_only=True)
class Public(PublicBudget):
    """Public facts of one training of a linear model, beside those of `PublicBudget`.

    loss : the loss of one record.
    features : entries of a row, the constant column included.
    norm_bound : R, the norm bound of the rows, the constant column included; infinity where rows
        are not clipped and only gradients are.
    regularization : Lambda > 0, weight of ||w||^2 / 2 beside the **sum** of losses.
    weight_bound : public cap on sample weights.
    models : how many models are trained side by side (several for one-vs-rest).
    """

    loss: Loss
    features: int
    norm_bound: float
    regularization: float | None = None
    weight_bound: float = 1.0
    models: int = 1
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Shape of the parameter of one model."""
    dimension: int = field(init=False, repr=False, compare=False)
    """Number of weights of one model."""
    squared_bound: float = field(init=False, repr=False, compare=False)
    """(weight cap) R^2, which bounds the Hessian of one record."""

    def __post_init__(self) -> None:
        super().__post_init__()
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
        shape = self.loss.parameter_shape(self.features)
        squared = self.weight_bound * (self.norm_bound * _PAID) ** 2
        vars(self).update(shape=shape, dimension=math.prod(shape), squared_bound=squared)

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
            rows=self.most * self.rows_each,
            features=self.features,
            norm_bound=self.norm_bound,
            weight_bound=self.weight_bound,
            regularization=self.ridge,
            linear_norm=linear_norm,
            # proof: PERSON-WEIGHTS
            total=self.most * self.weight_bound if self.grouped else None,
        )


def check_scales(plan: Plan, unit: float) -> None:
    """Refuse noise beyond float64 in any leaf of a plan; see `check_scale`."""
    for leaf, _ in plan.leaves():
        assert isinstance(leaf, Noisy)
        check_scale(leaf.mechanism, unit)


def check_scale(mechanism: Mechanism, unit: float) -> None:
    """Refuse before the charge what the door would refuse after it: noise beyond float64."""
    scale: Any = getattr(mechanism, "noise_multiplier", 1.0) * unit
    if not _SMALLEST_SCALE < scale < _LARGEST_SCALE:
        raise InvalidParameter(
            f"these parameters ask for noise of scale {scale:g}, which float64 cannot serve; "
            "epsilon, sample_epsilon, norm_bound or regularization is out of reach."
        )
