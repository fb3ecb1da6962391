"""The plans without parts: one use of a mechanism, a run of SGD, or somebody else's guarantee."""

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from noisette import _validate
from noisette.core.mechanisms import Gaussian, Mechanism
from noisette.core.plans.base import Leaf, Plan
from noisette.core.sampling import Cyclic, FullBatch, Sampler, Shuffle
from noisette.errors import InvalidParameter, Unproven


@dataclass(frozen=True, repr=False)
class Noisy(Leaf):
    """A leaf that draws noise: it has a mechanism, and a sampler that says who takes part."""

    mechanism: Mechanism
    sampler: Sampler

    def __post_init__(self) -> None:
        for name, kind in (("mechanism", Mechanism), ("sampler", Sampler)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise InvalidParameter(
                    f"{name} must be a noisette {name}; got {type(value).__name__}."
                )
        super().__post_init__()


@dataclass(frozen=True, repr=False)
class Sampled(Noisy):
    """One use of a sampler, with one mechanism for each of its steps.

    For samplers that sweep the data (disjoint, shuffle, cyclic, random allocation) one use is one
    pass of `sampler.steps` noisy steps; for the others it is one step.

    Parameters
    ----------
    mechanism : Mechanism
        The noise of each step.
    sampler : Sampler
        Who takes part in which step.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Examples
    --------
    >>> from noisette import mechanisms, plans, sampling
    >>> noise = mechanisms.Gaussian(noise_multiplier=1.0)
    >>> plans.Sampled(noise, sampling.Poisson(rate=0.1)).draws
    1
    >>> plans.Sampled(noise, sampling.Shuffle(batches=10)).draws
    10

    """

    name: ClassVar[str] = "sampled"

    @property
    def draws_per_use(self) -> int:
        """One noise vector for each batch."""
        return self.sampler.steps


@dataclass(frozen=True, repr=False)
class Run(Noisy):
    """One use of a mechanism on all the data.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Examples
    --------
    >>> from noisette import mechanisms, plans
    >>> plans.Run(mechanisms.Laplace(noise_multiplier=2.0)).draws
    1

    """

    # A plain run is a run on the full batch.
    sampler: Sampler = field(default_factory=FullBatch, init=False)

    name: ClassVar[str] = "run"


@dataclass(frozen=True, repr=False)
class Declared(Leaf):
    """Somebody else's (epsilon, delta) guarantee, taken on trust; it draws no noise here.

    Parameters
    ----------
    epsilon : float
        The declared epsilon.
    delta : float, default 0.0
        The declared delta.
    by : str, optional
        Who says so.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Examples
    --------
    >>> from noisette import accounting, plans
    >>> census = plans.Declared(epsilon=0.5, by="the census office")
    >>> accounting.epsilon(plans.Together(census, census), delta=0.0)
    1.0

    """

    epsilon: float
    delta: float = 0.0
    by: str = "declared by the user"

    name: ClassVar[str] = "declared"

    def __post_init__(self) -> None:
        _validate.fields(self, epsilon=_validate.non_negative)
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        super().__post_init__()

    @property
    def draws_per_use(self) -> int:
        """None: the noise is the other party's."""
        return 0


@dataclass(frozen=True, repr=False)
class LastIterate(Noisy):
    """A whole run of plain projected SGD of which *only the last iterate* is released.

    w <- w - learning_rate (regularization w + (gradient sum + noise) / batch size), every record
    once in each of `epochs` passes. The loss is one of the listed smooth convex ones on rows of
    norm at most `norm_bound` (bias column included), enforced by clipping rows. No momentum, no
    averaging, no stopping or checkpoint that looks at the data.

    Parameters
    ----------
    mechanism : Gaussian
        The noise of each step.
    sampler : Cyclic, Shuffle or FullBatch
        The order of the records.
    epochs : int
        The number of passes.
    loss : str
        The loss, by the name in its attribute ``last_iterate``.
    learning_rate : float or tuple of float
        The step size, or one for each epoch.
    regularization : float, default 0.0
        The lambda in the step above.
    norm_bound : float, default 1.0
        The bound on the rows.
    loss_parameter : float, optional
        The parameter of the loss, if it has one.
    size : int, optional
        The public number of records; None leaves it open, and the worst number counts. Under
        add-remove, where the number is not public, it is the public divisor of the gradient
        sum, and no data set may be larger.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    Unproven
        If the noise is not Gaussian, or the sampler has no proof here.
    InvalidParameter
        If a number is out of range, or there is not one learning rate per epoch.

    Examples
    --------
    >>> from noisette import mechanisms, plans, sampling
    >>> noise, order = mechanisms.Gaussian(noise_multiplier=5.0), sampling.Cyclic(batches=10)
    >>> run = plans.LastIterate(noise, order, epochs=20, loss="logistic", learning_rate=0.5)
    >>> run.draws
    200

    """

    epochs: int
    loss: str
    learning_rate: float | tuple[float, ...]
    regularization: float = 0.0
    norm_bound: float = 1.0
    loss_parameter: float | None = None
    size: int | None = None

    name: ClassVar[str] = "last-iterate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, Gaussian):
            raise Unproven(
                "last-iterate privacy is proven for Gaussian noise only; "
                "use a Gaussian, or release all iterates."
            )
        if not isinstance(self.sampler, Cyclic | Shuffle | FullBatch):
            raise Unproven(
                f"last-iterate privacy has no proof here for {self.sampler.name} batches; "
                "use cyclic, shuffle or full, or release all iterates."
            )
        _validate.fields(self, epochs=_validate.integer)
        most = 10**6 if isinstance(self.sampler, Shuffle) else 10**7
        if self.draws_per_use > most:
            raise InvalidParameter(
                f"last-iterate privacy with {self.sampler.name} batches is counted step by step, "
                f"for at most {most} steps; use larger batches, or release all iterates."
            )
        if self.size is not None:
            self.sampler.check(_validate.integer("size", self.size))
        rates = self.learning_rate
        if isinstance(rates, list | tuple):
            rates = tuple(_validate.positive("learning_rate", rate) for rate in rates)
            if len(rates) != self.epochs:
                raise InvalidParameter(
                    f"learning_rate must be one number or one per epoch; got {len(rates)} for "
                    f"{self.epochs} epochs."
                )
        else:
            rates = _validate.positive("learning_rate", rates)
        object.__setattr__(self, "learning_rate", rates)
        _validate.fields(self, regularization=_validate.non_negative, norm_bound=_validate.positive)

    @property
    def draws_per_use(self) -> int:
        """One noise vector for each batch of each epoch."""
        return self.epochs * self.sampler.steps


PlanLike: TypeAlias = Plan | Mechanism
"""What may be charged and counted: a plan, or a mechanism that is run once."""


def as_plan(value: PlanLike) -> Plan:
    """Return `value` as a plan; a mechanism becomes one run of it."""
    if isinstance(value, Plan):
        return value
    if isinstance(value, Mechanism):
        return Run(mechanism=value)
    raise InvalidParameter(f"expected a plan or a mechanism; got {type(value).__name__}.")
