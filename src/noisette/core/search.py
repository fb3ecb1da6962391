"""`best_run`: the only way to use a permit for a search. What the theorem needs happens here.

The number of runs, the candidate of each run and the coin between equal scores are drawn here; all
runs but the best are forgotten here. A run gets its noise from a `LentLedger`, which hands out
permits for what was charged for that run, and for nothing else.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn

from noisette import _validate
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.plans import Parallel, Plan, Selected
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, PermitError

Run = Callable[[int, "LentLedger"], tuple[float, Any]]


class LentLedger(Ledger):
    """What one run of a search charges: each part of its plan once, booked already.

    Code that charges a ledger by itself, such as an estimator's ``fit``, can so be one run of a
    search. The numbers of this ledger are those of the whole search.
    """

    def __init__(self, permit: Permit, plan: Plan, *, seeded: bool) -> None:
        super().__init__(permit.epsilon, permit.delta, adjacency=permit.adjacency)
        parts = plan.plans if isinstance(plan, Parallel) else (plan,)
        self._parts = [part.under(permit.adjacency) for part in parts]
        self._lent: list[Permit] = []
        self._seeded, self._unit = seeded, permit.unit

    def charge(
        self, plan: PlanLike, *, label: str, delta: float | None = None,
        epsilon: float | None = None, resumable: bool = False, seeded: bool = False,
        unit: str = "record", model: str = "",
    ) -> Permit:  # fmt: skip
        """Return the permit of one part of this run."""
        if unit != self._unit:
            raise PermitError("a run of a search must protect whom the search was charged for.")
        plan = as_plan(plan).under(self.adjacency)
        if resumable:
            raise InvalidParameter("a run of a search cannot be resumed; leave out checkpoint.")
        if seeded:
            self._refuse_seed()
        if plan not in self._parts:
            raise PermitError(
                "a run of a search may draw what was charged for its candidate, once, and nothing "
                "else; the plan of this fit is another one."
            )
        own = _validate.delta(0.0 if delta is None else delta)
        permit = Permit(
            plan, self._epsilon_of(plan, own, epsilon), own, label,
            seeded=seeded, mark_seeded=self._refuse_seed, unit=unit,
        )  # fmt: skip
        self._parts.remove(plan)
        self._lent.append(permit)
        return permit

    def _refuse_seed(self) -> None:
        """Refuse noise from a seed in a search without one."""
        if not self._seeded:
            raise InvalidParameter(
                "noise from a seed (random_state) in a run needs a search with that seed."
            )

    def resume(self, number: int, check: Any = None) -> NoReturn:
        """Refuse: a search that was killed has released nothing, and its charge is gone."""
        raise PermitError("a run of a search cannot be resumed.")

    def close(self) -> None:
        """Void everything that was lent: the run is over."""
        self._parts = []
        for permit in self._lent:
            permit.revoke()


def best_run(permit: Permit, randomness: Randomness, run: Run, *, part: int = 0) -> tuple[int, Any]:
    """Return (candidate, result) of the best of a random number of runs.

    `run(candidate, ledger)` trains and scores one candidate with noise from `ledger` and returns
    (score, result); it must be a function of its two arguments, the data and fresh randomness, and
    leave no trace. An error ends the search: it counts as the best outcome of all.
    """
    # proof: SELECT-PROFILE
    generator = randomness.generator  # before booking: a dead source must not eat the search
    search = permit.take(part, 1, seeded=randomness.seeded, bound="SELECT-PROFILE", kind=Selected)
    assert isinstance(search, Selected)
    best: tuple[tuple[float, float], int, Any] | None = None
    for _ in range(search.law.draw(generator)):
        candidate = int(generator.integers(len(search.candidates)))
        lent = LentLedger(permit, search.candidates[candidate], seeded=randomness.seeded)
        try:
            score, result = run(candidate, lent)
        finally:
            lent.close()
        score = float(score)
        if math.isnan(score):
            raise PermitError("a run of a search returned no score.")
        rank = score, generator.random()
        if best is None or rank > best[0]:
            best = rank, candidate, result
        del score, result, rank  # the losers, their scores and their number stay here
    assert best is not None
    return best[1], best[2]
