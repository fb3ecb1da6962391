"""The plans made of other plans: one after the other, side by side, or the best of many runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.plans.base import Leaf, Plan
from noisette.core.plans.laws import LAWS, RunLaw
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.errors import InvalidParameter, Unproven


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
    _of: ClassVar[str] = "plan"

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", as_plan(self.plan))
        _validate.fields(self, times=_validate.integer)
        super().__post_init__()

    def leaves(self) -> Iterator[tuple[Leaf, int]]:
        """Yield the leaves of the repeated plan with their counts multiplied."""
        for leaf, count in self.plan.leaves():
            yield leaf, count * self.times


@dataclass(frozen=True, repr=False, init=False)
class _Several(Plan):
    """Several plans, given one by one."""

    plans: tuple[Plan, ...]

    _of: ClassVar[str] = "plans"

    def __init__(self, *plans: PlanLike, adjacency: Adjacency | str | None = None) -> None:
        if not plans:
            raise InvalidParameter(f"{type(self).__name__} needs at least one plan.")
        vars(self).update(plans=tuple(map(as_plan, plans)), adjacency=adjacency)
        self.__post_init__()

    def leaves(self) -> Iterator[tuple[Leaf, int]]:
        """Yield the leaves of all plans in order."""
        for plan in self.plans:
            yield from plan.leaves()


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
        return sum(map(attrgetter("_groups"), self.plans))


@dataclass(frozen=True, repr=False, init=False)
class Selected(Leaf):
    """The best of K runs; each run draws one of the candidates and runs its plan.

    K follows `law`, a candidate is drawn anew for each run, all with equal chances, and only the
    best run is released. What decides which run is best is part of the run's plan.

    Parameters
    ----------
    *candidates : Plan or Mechanism
        What one run of each candidate is, its score included. `Parallel` candidates speak of the
        same groups in the same order.
    law : RunLaw
        The law of the number of runs.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    InvalidParameter
        If there is no candidate, or `law` is no law.
    Unproven
        If the candidates have different numbers of groups.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> run = mechanisms.Gaussian(noise_multiplier=10.0)
    >>> search = plans.Selected(run, law=plans.Logarithmic(mean=10.0))
    >>> once, best = (accounting.epsilon(plan, delta=1e-6) for plan in (run, search))
    >>> 1.3 < best / once < 1.5  # ten runs on average, for less than half a run more
    True

    """

    candidates: tuple[Plan, ...]
    law: RunLaw

    name: ClassVar[str] = "selected"
    _of: ClassVar[str] = "candidates"

    def __init__(
        self, *candidates: PlanLike, law: RunLaw, adjacency: Adjacency | str | None = None
    ) -> None:
        if not candidates:
            raise InvalidParameter("Selected needs at least one candidate.")
        if type(law) not in LAWS.values():  # a subclass may draw by another law than it is counted
            raise InvalidParameter(
                f"law must be a law such as plans.Logarithmic(mean=10.0); got {type(law).__name__}."
            )
        made = tuple(map(as_plan, candidates))
        if len({plan._groups for plan in made}) > 1:
            raise Unproven("the candidates of one search must divide people into the same groups.")
        vars(self).update(candidates=made, law=law, adjacency=adjacency)
        self.__post_init__()

    def alternatives(self) -> Iterator[Plan]:
        """Yield the search as each group sees it: everybody stays in one group in all runs."""
        # proof: SELECT-PROFILE
        for group in zip(*(plan.alternatives() for plan in self.candidates), strict=True):
            yield self._with(group)

    @property
    def _groups(self) -> int:
        return self.candidates[0]._groups
