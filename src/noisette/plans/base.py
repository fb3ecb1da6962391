"""`Plan`, the base of all plans: what they share, and their way to JSON and back."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from noisette import _validate
from noisette.adjacency import Adjacency, require_same
from noisette.errors import InvalidParameter, NoisetteError
from noisette.mechanisms import Mechanism
from noisette.sampling import Sampler

__all__ = ["PLANS", "Leaf", "Plan"]

FORMAT = 1

PLANS: dict[str, type["Plan"]] = {}
"""Every kind by its name in JSON; filled in `noisette.plans`, where all kinds are known."""


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
        return self._bound_to(wanted)

    def _bound_to(self, adjacency: Adjacency) -> Self:
        return replace(self, adjacency=adjacency)

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
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
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
