"""The plan of a private search: the best of a random number of runs, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from noisette.core.adjacency import Adjacency
from noisette.core.plans.base import Leaf, Plan
from noisette.core.plans.laws import LAWS, RunLaw
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.errors import InvalidParameter, Unproven


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

    def __init__(
        self, *candidates: PlanLike, law: RunLaw, adjacency: Adjacency | str | None = None
    ) -> None:
        if not candidates:
            raise InvalidParameter("Selected needs at least one candidate.")
        if type(law) not in LAWS.values():  # a subclass may draw by another law than it is counted
            raise InvalidParameter(
                f"law must be a law such as plans.Logarithmic(mean=10.0); got {type(law).__name__}."
            )
        made = tuple(as_plan(plan) for plan in candidates)
        if len({plan._groups for plan in made}) > 1:
            raise Unproven("the candidates of one search must divide people into the same groups.")
        object.__setattr__(self, "candidates", made)
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "adjacency", adjacency)
        self.__post_init__()

    def _bound_to(self, adjacency: Adjacency) -> Self:
        return type(self)(*self.candidates, law=self.law, adjacency=adjacency)

    def children(self) -> tuple[Plan, ...]:
        """Return the candidates."""
        return self.candidates

    def alternatives(self) -> Iterator[Plan]:
        """Yield the search as each group sees it: everybody stays in one group in all runs."""
        # proof: SELECT-PROFILE
        for group in zip(*(plan.alternatives() for plan in self.candidates), strict=True):
            yield Selected(*group, law=self.law, adjacency=self.adjacency)

    @property
    def _groups(self) -> int:
        return self.candidates[0]._groups

    def _body(self) -> dict[str, Any]:
        return {"of": [plan.to_dict() for plan in self.candidates], "law": self.law.to_dict()}

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> Self:
        law = RunLaw.from_dict(body.pop("law"))
        return cls(*(Plan._read(node) for node in body.pop("of")), law=law, **body)
