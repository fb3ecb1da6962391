"""The budget of one run, such that the whole search keeps the (epsilon, delta) that was asked."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from noisette._typing import Indices
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Parallel, Plan, Selected
from noisette.core.plans.laws import RunLaw
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.public import PublicBudget

_CLOSE = 0.985  # of epsilon: closer is not worth another round
_ROUNDS = 8


@dataclass(frozen=True)
class RunBudget:
    """What one run may spend, the plan of its score, and the plan of the whole search."""

    own: PublicBudget
    score: Plan
    plan: Selected


ScorePlan = Callable[[PublicBudget], Plan]


def searched(trainings: list[Plan], score: Plan, law: RunLaw, adjacency: Adjacency) -> Selected:
    """Return the plan of a search: some people train, others test, in all runs the same."""
    # proof: SELECT-PROFILE
    if any(len(list(training.alternatives())) > 1 for training in trainings):
        raise InvalidParameter(
            "a candidate divides people by itself (test_share), anew in every run, and no theorem "
            "here covers that; leave it out, the search tests on other people anyway."
        )
    # proof: PARALLEL-GROUPS
    score = score.under(adjacency)
    return Selected(
        *(Parallel(training.under(adjacency), score) for training in trainings), law=law
    )


def run_budget(
    plans: Callable[[PublicBudget], list[Plan]], score: ScorePlan, law: RunLaw, whole: PublicBudget
) -> RunBudget:
    """Return the largest budget of one run, within a percent or two, from public facts.

    A run has delta / mean, because what fails with probability delta_0 in a run fails in the search
    with up to the mean times that. Its epsilon is found for the score alone, which is quick, then
    mended for the candidates. The plan that is returned was counted; the search for it was not
    believed.
    """
    own = _guess(score, law, whole)
    best: RunBudget | None = None
    for _ in range(_ROUNDS):
        scored = score(own)
        plan = searched(plans(own), scored, law, whole.adjacency)
        total = accounting.epsilon(plan, delta=whole.delta, adjacency=whole.adjacency)
        if total <= whole.epsilon and (best is None or own.epsilon > best.own.epsilon):
            best = RunBudget(own, scored, plan)
        if _CLOSE * whole.epsilon <= total <= whole.epsilon:
            break
        factor = 0.998 * whole.epsilon / total if math.isfinite(total) else 0.5
        own = replace(own, epsilon=own.epsilon * factor)
        if best is not None and own.epsilon <= best.own.epsilon:
            break
    if best is None:
        raise InvalidParameter(
            "no budget of one run was found with which the search keeps "
            f"epsilon={whole.epsilon:g} and delta={whole.delta:g}; ask for a larger delta or a "
            "smaller mean."
        )
    return best


def _guess(score: ScorePlan, law: RunLaw, whole: PublicBudget) -> PublicBudget:
    """Return the budget of one run with which a search over scores alone costs all of it."""
    own = replace(whole, delta=whole.delta / law.mean)
    low, high = 0.0, whole.epsilon
    for _ in range(12):
        middle = (low + high) / 2.0 if low else 0.7 * high
        plan = Selected(score(replace(own, epsilon=middle)), law=law)
        total = accounting.epsilon(plan, delta=whole.delta, adjacency=whole.adjacency)
        low, high = (middle, high) if total <= whole.epsilon else (low, middle)
        if high - low <= 2e-3 * high:
            break
    return replace(own, epsilon=low or high / 2.0)


def sizes(n: int, share: float) -> tuple[int, int]:
    """Return how many of n people train and how many test, where n is public."""
    test = round(share * n)
    return n - test, test


def divided(
    n: int, share: float, adjacency: Adjacency, randomness: Randomness
) -> tuple[Indices, Indices]:
    """Return the places of the people who train, and of those who test.

    Where n is public the places of the test part are drawn from all. Under add-remove everybody
    has a coin: one person more then moves nobody else across the border.
    """
    # proof: PARALLEL-GROUPS
    generator = randomness.generator
    if adjacency.size_is_public:
        train, test = sizes(n, share)
        if min(train, test) < 1:
            raise InvalidParameter(
                f"test_share={share:g} of {n} rows leaves nobody on one side; give another share."
            )
        order = generator.permutation(n)
        return np.sort(order[:train]), np.sort(order[train:])
    tests = generator.random(n) < share
    return np.flatnonzero(~tests), np.flatnonzero(tests)
