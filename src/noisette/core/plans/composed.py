"""The plans made of other plans: one after the other, or side by side on disjoint groups."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.plans.base import Leaf, Plan
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.errors import InvalidParameter


@dataclass(frozen=True, repr=False)
class Repeat(Plan):
    """`plan`, `times` times one after the other on the same people.

    Parameters
    ----------
    plan : Plan or Mechanism
        What is repeated.
    times : int
        How often, at least once.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> ten = plans.Repeat(mechanisms.Laplace(noise_multiplier=20.0), 10)
    >>> accounting.epsilon(ten, delta=0.0)
    1.0

    """

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

    @property
    def _groups(self) -> int:
        return self.plan._groups

    def _body(self) -> dict[str, Any]:
        return {"of": self.plan.to_dict(), "times": self.times}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        return cls(plan=Plan._read(body.pop("of")), **body)


@dataclass(frozen=True, repr=False, init=False)
class _Several(Plan):
    """Several plans, given one by one."""

    plans: tuple[Plan, ...]

    def __init__(self, *plans: PlanLike, adjacency: Adjacency | str | None = None) -> None:
        if not plans:
            raise InvalidParameter(f"{type(self).__name__} needs at least one plan.")
        object.__setattr__(self, "plans", tuple(as_plan(plan) for plan in plans))
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def _bound_to(self, adjacency: Adjacency) -> Self:
        return type(self)(*self.plans, adjacency=adjacency)

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
        return cls(*(Plan._read(node) for node in body.pop("of")), **body)


class Together(_Several):
    """Several plans one after the other on the same people.

    Parameters
    ----------
    *plans : Plan or Mechanism
        The plans, in the order in which they run.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    InvalidParameter
        If there is no plan.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> first, second = (mechanisms.Laplace(noise_multiplier=z) for z in (4.0, 8.0))
    >>> accounting.epsilon(plans.Together(first, second), delta=0.0)
    0.75

    """

    name: ClassVar[str] = "together"

    def alternatives(self) -> Iterator[Plan]:
        """Yield every combination of alternatives of the parts."""
        for parts in itertools.product(*(plan.alternatives() for plan in self.plans)):
            yield Together(*parts, adjacency=self.adjacency)

    @property
    def _groups(self) -> int:
        return math.prod(plan._groups for plan in self.plans)


class Parallel(_Several):
    """Several plans on disjoint groups of people; each person takes part in one of them.

    The groups must not depend on anybody's record: a changed record stays in its group.

    Parameters
    ----------
    *plans : Plan or Mechanism
        One plan for each group.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    InvalidParameter
        If there is no plan.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> first, second = (mechanisms.Laplace(noise_multiplier=z) for z in (4.0, 8.0))
    >>> accounting.epsilon(plans.Parallel(first, second), delta=0.0)
    0.5

    """

    # proof: PARALLEL-GROUPS
    name: ClassVar[str] = "parallel"

    def alternatives(self) -> Iterator[Plan]:
        """Yield the alternatives of each group."""
        for plan in self.plans:
            for alternative in plan.alternatives():
                bound = self.adjacency
                yield alternative if bound is None else alternative.under(bound)

    @property
    def _groups(self) -> int:
        return sum(plan._groups for plan in self.plans)
