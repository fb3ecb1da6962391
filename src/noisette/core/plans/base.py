"""`Plan`, the base of all plans: what they share, and their way to JSON and back."""

import copy
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, Self

from noisette import _files, _validate
from noisette.core.adjacency import Adjacency, require_same
from noisette.core.mechanisms import MECHANISMS, Mechanism
from noisette.core.plans.laws import LAWS, RunLaw
from noisette.core.sampling import SAMPLERS, Sampler
from noisette.errors import InvalidParameter

FORMAT = 1

# What a plan in JSON may ask for: beyond it, counting would take hours or all memory, and no run of
# ours would end.
_NOISE, _MOST_COUNTED, _MOST_DRAWS = (1e-18, 1e20), 1 << 40, 1 << 53
_MOST_PARTS, _MOST_GROUPS = 10_000, 10_000

_REGISTRIES: dict[str, Any] = {"mechanism": MECHANISMS, "sampler": SAMPLERS, "law": LAWS}

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
    _of: ClassVar[str] = ""
    """The field that holds the parts; in JSON it is called "of"."""

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
        require_same(self.adjacency or wanted, "the plan", wanted, "the request")
        bound = copy.copy(self)  # no part is bound otherwise: then the whole would be
        object.__setattr__(bound, "adjacency", wanted)
        return bound

    def children(self) -> tuple["Plan", ...]:
        """Return the parts of a composite plan, in the order in which they run.

        Returns
        -------
        tuple of Plan
            Empty for a plan without parts.

        """
        found = getattr(self, self._of) if self._of else ()
        return found if isinstance(found, tuple) else (found,)

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
        >>> women, men = (plans.Run(mechanisms.Laplace(noise_multiplier=z)) for z in (2.0, 4.0))
        >>> plan = plans.Repeat(plans.Parallel(women, men), 3)
        >>> [count for leaf, count in plan.leaves()]
        [3, 3]
        >>> len(plan.children()), len(list(plan.alternatives()))
        (1, 2)

        """

    def alternatives(self) -> Iterator["Plan"]:
        """Yield what one person may have taken part in, one plan for each group of people.

        The cost of a plan is the worst of its alternatives; a plan for everybody is its own.

        Yields
        ------
        Plan
            A plan that does not divide people.

        """
        if self._groups == 1:
            yield self
            return
        for parts in itertools.product(*(part.alternatives() for part in self.children())):
            yield self._with(parts)

    def _with(self, parts: tuple["Plan", ...]) -> "Plan":
        """Return this plan with other parts: everybody stays in the same group in all of them."""
        made = copy.copy(self)
        whole = isinstance(getattr(self, self._of), tuple)
        object.__setattr__(made, self._of, parts if whole else parts[0])
        return made

    @property
    def _groups(self) -> int:
        """How many `alternatives` there are, without making them."""
        return math.prod(map(attrgetter("_groups"), self.children()))

    @property
    def draws(self) -> int:
        """How many noise vectors a run of this plan draws."""
        total = 0
        for leaf, count in self.leaves():
            total += count * leaf.draws_per_use
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return this plan as JSON-ready dictionaries.

        Returns
        -------
        dict
            What `from_dict` reads.

        """
        node: dict[str, Any] = {"plan": self.name}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.init and (value is not None or item.name != "adjacency"):
                node["of" if item.name == self._of else item.name] = _plain(value)
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
        >>> plans.Plan.from_json(plan.to_json()) == plans.Plan.from_dict(plan.to_dict()) == plan
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
            # Numbers, and numbers of parts, with which counting would never end.
            inside, parts = [("", node)], 0
            for name, value in inside:  # grows meanwhile
                if isinstance(value, dict):
                    parts += "plan" in value
                    inside += value.items()
                elif isinstance(value, list | tuple):
                    inside += zip(itertools.repeat(name), value)
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
            plan = _read(node)
            if plan._groups > _MOST_GROUPS or plan.draws > _MOST_DRAWS:
                raise InvalidParameter("this plan has more groups or draws than can be counted.")
        return plan

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
                shown.extend(map(repr, value))
            else:
                plain = isinstance(value, Plan | Mechanism | Sampler)
                shown.append(repr(value) if plain else f"{item.name}={value!r}")
        # Where a part is bound the whole is bound too, so the parts have said it already.
        told = any(map(attrgetter("adjacency"), self.children()))
        if self.adjacency is not None and not told:
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


def _plain(value: Any) -> Any:
    """Return the value of a plan's field as JSON has it."""
    if isinstance(value, Adjacency):
        return value.value
    if isinstance(value, Plan | RunLaw):
        return value.to_dict()
    if isinstance(value, Mechanism | Sampler):
        return {"name": value.name, **value.parameters()}
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def _read(node: Any) -> Plan:
    """Return the plan of one node, whose numbers are known to be sane."""
    if not isinstance(node, dict):
        raise InvalidParameter("a plan in JSON must be an object with the key 'plan'.")
    body = dict(node)
    kind = PLANS[_validate.choice("plan", body.pop("plan", None), PLANS)]
    relation, parts = body.pop("adjacency", None), ()
    wrong = f"the JSON of a {kind.name!r} plan is incomplete or has unknown keys."
    with _files.understood(wrong, InvalidParameter):
        if kind._of:
            parts = body.pop("of")
        for what, kinds in _REGISTRIES.items():
            if what in body:
                facts = dict(body[what])
                body[what] = kinds[_validate.choice(what, facts.pop("name"), kinds)](**facts)
        plan = kind(*map(_read, [parts] if kind._of == "plan" else parts), **body)
    return plan if relation is None else plan.under(relation)
