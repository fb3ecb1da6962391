"""Plans: an immutable description of what will run, readable by people, accountants and JSON.

>>> from noisette import mechanisms, plans, sampling
>>> step = plans.Sampled(mechanisms.Gaussian(noise_multiplier=1.0), sampling.Poisson(rate=0.01))
>>> plans.Repeat(step, 1000)
Repeat(Sampled(Gaussian(noise_multiplier=1.0), Poisson(rate=0.01)), times=1000)

A plan says nothing about the data. It may be bound to one adjacency (`Plan.under`); until then it
can be counted under any relation that its parts have a proof for.
"""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeAlias

from noisette import _validate
from noisette.adjacency import Adjacency, require_same
from noisette.errors import InvalidParameter, NoisetteError, Unproven
from noisette.mechanisms import MECHANISMS, Gaussian, Mechanism
from noisette.sampling import SAMPLERS, Cyclic, FullBatch, Sampler, Shuffle

__all__ = [
    "PLANS",
    "Declared",
    "LastIterate",
    "Leaf",
    "Noisy",
    "Parallel",
    "Plan",
    "Repeat",
    "Run",
    "Sampled",
    "Together",
    "as_plan",
]

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Base of all plans; `adjacency` is None until the plan is bound to a relation."""

    adjacency: Adjacency | None = field(default=None)

    name: ClassVar[str]

    def __post_init__(self) -> None:
        if self.adjacency is not None:
            object.__setattr__(self, "adjacency", Adjacency.of(self.adjacency))
        for child in self.children():
            if child.adjacency is None:
                continue
            if self.adjacency is None:
                object.__setattr__(self, "adjacency", child.adjacency)
            require_same(self.adjacency, "the plan", child.adjacency, f"its part {child!r}")  # type: ignore[arg-type]

    def under(self, adjacency: Adjacency | str) -> Self:
        """Return this plan bound to `adjacency`; a plan of another relation is refused by name."""
        wanted = Adjacency.of(adjacency)
        if self.adjacency is not None:
            require_same(self.adjacency, "the plan", wanted, "the request")
        return replace(self, adjacency=wanted)

    def children(self) -> tuple["Plan", ...]:
        """Return the parts of a composite plan, in the order in which they run."""
        return ()

    @abstractmethod
    def leaves(self) -> Iterator[tuple["Leaf", int]]:
        """Yield every leaf with the number of times it runs; counts live here and nowhere else."""

    def alternatives(self) -> Iterator["Plan"]:
        """Yield what one person may have taken part in: plans without `Parallel` parts.

        The cost of a plan is the worst of its alternatives.
        """
        yield self

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Return the JSON body of this node."""

    @classmethod
    @abstractmethod
    def _from_body(cls, body: dict[str, Any]) -> "Plan":
        """Return the node that `_body` describes."""

    @property
    def draws(self) -> int:
        """How many noise vectors a run of this plan draws."""
        return sum(count * leaf.draws_per_use for leaf, count in self.leaves())

    def to_dict(self) -> dict[str, Any]:
        """Return this plan as JSON-ready dictionaries."""
        node: dict[str, Any] = {"plan": self.name, **self._body()}
        if self.adjacency is not None:
            node["adjacency"] = self.adjacency.value
        return node

    def to_json(self) -> str:
        """Return this plan as a JSON text that `from_json` reads back to an equal plan."""
        return json.dumps({"noisette_plan": FORMAT, **self.to_dict()}, sort_keys=True)

    @staticmethod
    def from_dict(node: Any) -> "Plan":
        """Return the plan that `to_dict` describes; unknown names and fields are refused."""
        if not isinstance(node, dict):
            raise InvalidParameter("a plan in JSON must be an object with the key 'plan'.")
        body = {key: value for key, value in node.items() if key not in ("plan", "adjacency")}
        kind = PLANS[_validate.choice("plan", node.get("plan"), PLANS)]
        try:
            plan = kind._from_body(body)
        except NoisetteError:
            raise
        except RecursionError:
            raise InvalidParameter("the JSON of this plan is nested too deeply.") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidParameter(
                f"the JSON of a {kind.name!r} plan is incomplete or has unknown keys ({error})."
            ) from None
        relation = node.get("adjacency")
        return plan if relation is None else plan.under(relation)

    @staticmethod
    def from_json(text: str) -> "Plan":
        """Return the plan that `to_json` wrote."""
        try:
            node = json.loads(text)
        except (RecursionError, TypeError, ValueError):
            raise InvalidParameter("this is not the JSON text of a plan.") from None
        if not isinstance(node, dict) or node.pop("noisette_plan", None) != FORMAT:
            raise InvalidParameter(
                f"this is not the JSON text of a plan of format {FORMAT}; "
                "read it with the version of noisette that wrote it."
            )
        return Plan.from_dict(node)

    def __repr__(self) -> str:
        shown: list[str] = []
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "adjacency" or not item.init or value is None:
                continue
            if isinstance(value, tuple) and isinstance(value[0], Plan):
                shown.extend(repr(part) for part in value)
            else:
                plain = isinstance(value, Plan | Mechanism | Sampler)
                shown.append(repr(value) if plain else f"{item.name}={value!r}")
        # Where a part is bound the whole is bound too, so the parts have said it already.
        if self.adjacency is not None and not any(part.adjacency for part in self.children()):
            shown.append(f"adjacency={self.adjacency.value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Leaf(Plan):
    """A plan without parts: what an accountant looks up a theorem for."""

    @property
    def draws_per_use(self) -> int:
        """How many noise vectors one use draws."""
        return 1

    def leaves(self) -> Iterator[tuple["Leaf", int]]:
        """Yield itself, once."""
        yield self, 1


@dataclass(frozen=True, repr=False)
class Noisy(Leaf):
    """A leaf that draws noise: it has a mechanism, and a sampler that says who takes part."""

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

    def _mechanism_body(self) -> dict[str, Any]:
        return {"name": self.mechanism.name, **self.mechanism.parameters()}

    def _sampler_body(self) -> dict[str, Any]:
        return {"name": self.sampler.name, **self.sampler.parameters()}


def _mechanism_from(node: dict[str, Any]) -> Mechanism:
    fields_of = dict(node)
    kind = MECHANISMS[_validate.choice("mechanism", fields_of.pop("name"), MECHANISMS)]
    return kind(**fields_of)


def _sampler_from(node: dict[str, Any]) -> Sampler:
    fields_of = dict(node)
    kind = SAMPLERS[_validate.choice("sampler", fields_of.pop("name"), SAMPLERS)]
    return kind(**fields_of)


@dataclass(frozen=True, repr=False)
class Sampled(Noisy):
    """One use of a sampler, with one mechanism for each of its steps.

    For samplers that sweep the data (disjoint, shuffle, cyclic, random allocation) one use is one
    pass of `sampler.steps` noisy steps; for the others it is one step.
    """

    name: ClassVar[str] = "sampled"

    @property
    def draws_per_use(self) -> int:
        """One noise vector for each batch."""
        return self.sampler.steps

    def _body(self) -> dict[str, Any]:
        return {"mechanism": self._mechanism_body(), "sampler": self._sampler_body()}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> "Sampled":
        mechanism = _mechanism_from(body.pop("mechanism"))
        return cls(mechanism, _sampler_from(body.pop("sampler")), **body)


@dataclass(frozen=True, repr=False)
class Run(Noisy):
    """One use of a mechanism on all the data."""

    # A plain run is a run on the full batch.
    sampler: Sampler = field(default_factory=FullBatch, init=False)

    name: ClassVar[str] = "run"

    def _body(self) -> dict[str, Any]:
        return {"mechanism": self._mechanism_body()}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> "Run":
        return cls(_mechanism_from(body.pop("mechanism")), **body)


@dataclass(frozen=True, repr=False)
class LastIterate(Noisy):
    """A whole run of plain projected SGD of which *only the last iterate* is released.

    w <- w - learning_rate (regularization w + (gradient sum + noise) / batch size), every record
    once in each of `epochs` passes. The loss is one of the listed smooth convex ones on rows of
    norm at most `norm_bound` (bias column included), enforced by clipping rows. No momentum, no
    averaging, no stopping or checkpoint that looks at the data. `size` is the public number of
    records; None says that all batches have the same size.
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
        object.__setattr__(self, "epochs", _validate.integer("epochs", self.epochs))
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
        regularization = _validate.non_negative("regularization", self.regularization)
        object.__setattr__(self, "regularization", regularization)
        object.__setattr__(self, "norm_bound", _validate.positive("norm_bound", self.norm_bound))

    @property
    def draws_per_use(self) -> int:
        """One noise vector for each batch of each epoch."""
        return self.epochs * self.sampler.steps

    def _body(self) -> dict[str, Any]:
        rates = self.learning_rate
        return {
            "mechanism": self._mechanism_body(),
            "sampler": self._sampler_body(),
            "epochs": self.epochs,
            "loss": self.loss,
            "learning_rate": list(rates) if isinstance(rates, tuple) else rates,
            "regularization": self.regularization,
            "norm_bound": self.norm_bound,
            "loss_parameter": self.loss_parameter,
            "size": self.size,
        }

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> "LastIterate":
        mechanism = _mechanism_from(body.pop("mechanism"))
        return cls(mechanism, _sampler_from(body.pop("sampler")), **body)


@dataclass(frozen=True, repr=False)
class Declared(Leaf):
    """Somebody else's (epsilon, delta) guarantee, taken on trust; it draws no noise here."""

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
    def _from_body(cls, body: dict[str, Any]) -> "Declared":
        return cls(**body)


@dataclass(frozen=True, repr=False)
class Repeat(Plan):
    """`plan`, `times` times one after the other on the same people."""

    plan: Plan
    times: int

    name: ClassVar[str] = "repeat"

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", as_plan(self.plan))
        object.__setattr__(self, "times", _validate.integer("times", self.times))
        super().__post_init__()

    def children(self) -> tuple[Plan, ...]:
        """Return the repeated plan."""
        return (self.plan,)

    def leaves(self) -> Iterator[tuple[Leaf, int]]:
        """Yield the leaves of the repeated plan with their counts multiplied."""
        for leaf, count in self.plan.leaves():
            yield leaf, count * self.times

    def alternatives(self) -> Iterator[Plan]:
        """Yield repetitions of each alternative: everybody stays in the same part."""
        for plan in self.plan.alternatives():
            yield Repeat(plan, self.times, adjacency=self.adjacency)

    def _body(self) -> dict[str, Any]:
        return {"of": self.plan.to_dict(), "times": self.times}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> "Repeat":
        return cls(plan=Plan.from_dict(body.pop("of")), **body)


@dataclass(frozen=True, repr=False, init=False)
class _Several(Plan):
    """Several plans, given one by one."""

    plans: tuple[Plan, ...]

    def __init__(self, *plans: "PlanLike", adjacency: Adjacency | str | None = None) -> None:
        if not plans:
            raise InvalidParameter(f"{type(self).__name__} needs at least one plan.")
        object.__setattr__(self, "plans", tuple(as_plan(plan) for plan in plans))
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def under(self, adjacency: Adjacency | str) -> Self:
        """Return this plan bound to `adjacency`."""
        wanted = Adjacency.of(adjacency)
        if self.adjacency is not None:
            require_same(self.adjacency, "the plan", wanted, "the request")
        return type(self)(*self.plans, adjacency=wanted)

    def children(self) -> tuple[Plan, ...]:
        """Return the plans."""
        return self.plans

    def leaves(self) -> Iterator[tuple[Leaf, int]]:
        """Yield the leaves of all plans in order."""
        for plan in self.plans:
            yield from plan.leaves()

    def _body(self) -> dict[str, Any]:
        return {"of": [plan.to_dict() for plan in self.plans]}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        return cls(*(Plan.from_dict(node) for node in body.pop("of")), **body)


class Together(_Several):
    """Several plans one after the other on the same people."""

    name: ClassVar[str] = "together"

    def alternatives(self) -> Iterator[Plan]:
        """Yield every combination of alternatives of the parts."""
        for parts in itertools.product(*(plan.alternatives() for plan in self.plans)):
            yield Together(*parts, adjacency=self.adjacency)


class Parallel(_Several):
    """Several plans on disjoint groups of people; each person takes part in one of them.

    The groups must not depend on anybody's record: a changed record stays in its group.
    """

    # proof: PARALLEL-GROUPS
    name: ClassVar[str] = "parallel"

    def alternatives(self) -> Iterator[Plan]:
        """Yield the alternatives of each group."""
        for plan in self.plans:
            for alternative in plan.alternatives():
                bound = self.adjacency
                yield alternative if bound is None else alternative.under(bound)


PlanLike: TypeAlias = Plan | Mechanism

PLANS: dict[str, type[Plan]] = {
    kind.name: kind for kind in (Declared, LastIterate, Parallel, Repeat, Run, Sampled, Together)
}


def as_plan(value: PlanLike) -> Plan:
    """Return `value` as a plan; a mechanism becomes one run of it."""
    if isinstance(value, Plan):
        return value
    if isinstance(value, Mechanism):
        return Run(mechanism=value)
    raise InvalidParameter(f"expected a plan or a mechanism; got {type(value).__name__}.")
