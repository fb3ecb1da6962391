"""The plans without parts: one use of a mechanism, or somebody else's guarantee."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from noisette import _validate
from noisette.core.mechanisms import MECHANISMS, Mechanism
from noisette.core.plans.base import Leaf, Plan
from noisette.core.sampling import SAMPLERS, FullBatch, Sampler
from noisette.errors import InvalidParameter

Part = TypeVar("Part", Mechanism, Sampler)


@dataclass(frozen=True, repr=False)
class Noisy(Leaf):
    """A leaf that draws noise: it has a mechanism, and a sampler that says who takes part.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    sampler : Sampler
        Who takes part.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    InvalidParameter
        If the parts are not of those kinds.

    Examples
    --------
    >>> from noisette import mechanisms, plans, sampling
    >>> leaf = plans.Sampled(mechanisms.Gaussian(noise_multiplier=1.0), sampling.Poisson(rate=0.1))
    >>> isinstance(leaf, plans.Noisy), leaf.sampler
    (True, Poisson(rate=0.1))

    """

    mechanism: Mechanism
    sampler: Sampler

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise InvalidParameter(
                f"mechanism must be a noisette mechanism; got {type(self.mechanism).__name__}."
            )
        if not isinstance(self.sampler, Sampler):
            raise InvalidParameter(
                f"sampler must be a noisette sampler; got {type(self.sampler).__name__}."
            )
        super().__post_init__()

    def _parts(self) -> dict[str, Any]:
        return {"mechanism": _node(self.mechanism), "sampler": _node(self.sampler)}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        mechanism = _from_node("mechanism", MECHANISMS, body.pop("mechanism"))
        return cls(mechanism, _from_node("sampler", SAMPLERS, body.pop("sampler")), **body)


def _node(part: Mechanism | Sampler) -> dict[str, Any]:
    return {"name": part.name, **part.parameters()}


def _from_node(what: str, kinds: Mapping[str, type[Part]], node: dict[str, Any]) -> Part:
    fields_of = dict(node)
    kind = kinds[_validate.choice(what, fields_of.pop("name"), kinds)]
    return kind(**fields_of)


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

    def _body(self) -> dict[str, Any]:
        return self._parts()


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

    def _body(self) -> dict[str, Any]:
        return {"mechanism": _node(self.mechanism)}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        return cls(_from_node("mechanism", MECHANISMS, body.pop("mechanism")), **body)


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
        object.__setattr__(self, "epsilon", _validate.non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        super().__post_init__()

    @property
    def draws_per_use(self) -> int:
        """None: the noise is the other party's."""
        return 0

    def _body(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "by": self.by}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        return cls(**body)


PlanLike: TypeAlias = Plan | Mechanism
"""What may be charged and counted: a plan, or a mechanism that is run once."""


def as_plan(value: PlanLike) -> Plan:
    """Return `value` as a plan; a mechanism becomes one run of it.

    Parameters
    ----------
    value : Plan or Mechanism
        What to run.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    InvalidParameter
        If it is neither.

    Examples
    --------
    >>> from noisette import mechanisms, plans
    >>> plans.as_plan(mechanisms.Laplace(noise_multiplier=2.0))
    Run(Laplace(noise_multiplier=2.0))

    """
    if isinstance(value, Plan):
        return value
    if isinstance(value, Mechanism):
        return Run(mechanism=value)
    raise InvalidParameter(f"expected a plan or a mechanism; got {type(value).__name__}.")
