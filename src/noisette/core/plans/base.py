"""`Plan`, the base of all plans: what they share, and their way to JSON and back."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from noisette import _files, _validate
from noisette.core.adjacency import Adjacency, require_same
from noisette.core.mechanisms import Mechanism
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter

FORMAT = 1

# What a plan in JSON may ask for: beyond it, counting would take hours or all memory, and no run of
# ours would end.
_NOISE, _MOST_COUNTED, _MOST_DRAWS = (1e-18, 1e20), 1 << 40, 1 << 53
_MOST_PARTS, _MOST_GROUPS = 10_000, 10_000

PLANS: dict[str, type["Plan"]] = {}
"""Every kind by its name in JSON; filled in `noisette.plans`, where all kinds are known."""


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Base of all plans; `adjacency` is None until the plan is bound to a relation.

    Parameters
    ----------
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Attributes
    ----------
    name : str
        Its name in JSON and in `PLANS`.

    Examples
    --------
    >>> from noisette import mechanisms, plans
    >>> plan = plans.Repeat(plans.Run(mechanisms.Laplace(noise_multiplier=2.0)), 3)
    >>> isinstance(plan, plans.Plan), plan.draws, plan.adjacency
    (True, 3, None)

    """

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
            if child.adjacency is not self.adjacency:  # a repr takes time for each level
                require_same(self.adjacency, "the plan", child.adjacency, f"its part {child!r}")  # type: ignore[arg-type]

    def under(self, adjacency: Adjacency | str) -> Self:
        """Return this plan bound to `adjacency`; a plan of another relation is refused by name.

        Parameters
        ----------
        adjacency : Adjacency or str
            The relation.

        Returns
        -------
        Plan
            A bound copy.

        Raises
        ------
        AdjacencyMismatch
            If the plan is bound to another relation.

        Examples
        --------
        >>> from noisette import mechanisms, plans
        >>> plans.Run(mechanisms.Laplace(noise_multiplier=2.0)).under("zero-out")
        Run(Laplace(noise_multiplier=2.0), adjacency='zero-out')

        """
        wanted = Adjacency.of(adjacency)
        if self.adjacency is not None:
            require_same(self.adjacency, "the plan", wanted, "the request")
        return self._bound_to(wanted)

    def _bound_to(self, adjacency: Adjacency) -> Self:
        return replace(self, adjacency=adjacency)

    def children(self) -> tuple["Plan", ...]:
        """Return the parts of a composite plan, in the order in which they run.

        Returns
        -------
        tuple of Plan
            Empty for a plan without parts.

        Examples
        --------
        >>> from noisette import mechanisms, plans
        >>> plans.Repeat(plans.Run(mechanisms.Laplace(noise_multiplier=2.0)), 3).children()
        (Run(Laplace(noise_multiplier=2.0)),)

        """
        return ()

    @abstractmethod
    def leaves(self) -> Iterator[tuple["Leaf", int]]:
        """Yield every leaf with the number of times it runs; counts live here and nowhere else.

        Yields
        ------
        tuple of (Leaf, int)
            A leaf and its count.

        Examples
        --------
        >>> from noisette import mechanisms, plans
        >>> plan = plans.Repeat(plans.Run(mechanisms.Laplace(noise_multiplier=2.0)), 3)
        >>> [count for leaf, count in plan.leaves()]
        [3]

        """

    def alternatives(self) -> Iterator["Plan"]:
        """Yield what one person may have taken part in: plans without `Parallel` parts.

        The cost of a plan is the worst of its alternatives.

        Yields
        ------
        Plan
            A plan without `Parallel` parts.

        Examples
        --------
        >>> from noisette import mechanisms, plans
        >>> women, men = (plans.Run(mechanisms.Laplace(noise_multiplier=z)) for z in (2.0, 4.0))
        >>> len(list(plans.Parallel(women, men).alternatives()))
        2

        """
        yield self

    @property
    def _groups(self) -> int:
        """How many `alternatives` there are, without making them."""
        return 1

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
        """Return this plan as JSON-ready dictionaries.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> from noisette import plans
        >>> node = plans.Declared(epsilon=0.5).to_dict()
        >>> plans.Plan.from_dict(node).epsilon
        0.5

        """
        node: dict[str, Any] = {"plan": self.name, **self._body()}
        if self.adjacency is not None:
            node["adjacency"] = self.adjacency.value
        return node

    def to_json(self) -> str:
        """Return this plan as a JSON text that `from_json` reads back to an equal plan.

        Returns
        -------
        str
            JSON with sorted keys.

        Examples
        --------
        >>> from noisette import plans
        >>> plan = plans.Declared(epsilon=0.5, by="the census office")
        >>> plans.Plan.from_json(plan.to_json()) == plan
        True

        """
        return json.dumps({"noisette_plan": FORMAT, **self.to_dict()}, sort_keys=True)

    @staticmethod
    def from_dict(node: Any) -> "Plan":
        """Return the plan that `to_dict` describes; unknown names and fields are refused.

        Parameters
        ----------
        node : dict
            What `to_dict` returned.

        Returns
        -------
        Plan
            An equal plan.

        Raises
        ------
        InvalidParameter
            If a name, key or value is unknown or missing.

        """
        with _files.understood("the JSON of this plan is nested too deeply.", InvalidParameter):
            _check_numbers(node)
            plan = Plan._read(node)
            if plan._groups > _MOST_GROUPS or plan.draws > _MOST_DRAWS:
                raise InvalidParameter("this plan has more groups or draws than can be counted.")
        return plan

    @staticmethod
    def _read(node: Any) -> "Plan":
        """Return the plan of one node, whose numbers are known to be sane."""
        if not isinstance(node, dict):
            raise InvalidParameter("a plan in JSON must be an object with the key 'plan'.")
        body = {key: value for key, value in node.items() if key not in ("plan", "adjacency")}
        kind = PLANS[_validate.choice("plan", node.get("plan"), PLANS)]
        wrong = f"the JSON of a {kind.name!r} plan is incomplete or has unknown keys."
        with _files.understood(wrong, InvalidParameter):
            plan = kind._from_body(body)
        relation = node.get("adjacency")
        return plan if relation is None else plan.under(relation)

    @staticmethod
    def from_json(text: str) -> "Plan":
        """Return the plan that `to_json` wrote.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        Plan
            An equal plan.

        Raises
        ------
        InvalidParameter
            If it is no such text, or a name, key or value is unknown or missing.

        """
        with _files.understood("this is not the JSON text of a plan.", InvalidParameter):
            node = _files.from_json(text)
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


def _check_numbers(node: Any) -> None:
    """Refuse numbers, and numbers of parts, with which counting would never end."""
    inside, parts = [("", node)], 0
    for name, value in inside:  # grows meanwhile
        if isinstance(value, dict):
            parts += "plan" in value
            inside += value.items()
        elif isinstance(value, list | tuple):
            inside += ((name, each) for each in value)
        elif isinstance(value, int) and value > _MOST_COUNTED:
            raise InvalidParameter(f"{name} of a plan must be at most {_MOST_COUNTED}.")
        elif (
            name == "noise_multiplier"
            and isinstance(value, float | int)
            and not _NOISE[0] <= value <= _NOISE[1]
        ):
            raise InvalidParameter(f"{name} of a plan must lie in {list(_NOISE)}.")
    if parts > _MOST_PARTS:
        raise InvalidParameter(f"a plan must have at most {_MOST_PARTS} parts.")
