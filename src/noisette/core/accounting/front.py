"""The front door of accounting: the best proven numbers for a plan."""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from noisette import _validate
from noisette.core import by_name
from noisette.core.accounting.base import Accountant, counted, participation
from noisette.core.accounting.moments import MomentsAccountant, RenyiAccountant
from noisette.core.accounting.pld import NumericalAccountant, attained
from noisette.core.accounting.sums import (
    AdvancedAccountant,
    GaussianAccountant,
    LinearAccountant,
    pure_epsilon,
)
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Mechanism
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_epsilon, stated_delta
from noisette.core.plans import Declared, Plan, Run, Sampled
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.core.roots import private_root

ACCOUNTANTS: dict[str, type[Accountant[Any]]] = by_name(
    LinearAccountant, AdvancedAccountant, MomentsAccountant, RenyiAccountant, GaussianAccountant,
    NumericalAccountant,
)  # fmt: skip
"""Every accountant by its name."""

_SMALLEST_DELTA = 1e-300


def _exact(
    plan: PlanLike, adjacency: Adjacency
) -> tuple[list[tuple[Leaf, int]], float, float, tuple[Mechanism, ...]]:
    """Return what is exact of a plan and takes microseconds; inf for what it does not have.

    That is its leaves, the sum of pure epsilons, mu of all Gaussians if every record takes part
    once in each use, and the mechanisms of a plan of such plain uses, each used once.
    """
    leaves, plain = counted(plan, adjacency), True
    pure, squares, uses = [], [], []
    for leaf, count in leaves:
        pure.append(pure_epsilon(leaf, adjacency) * count)
        if not isinstance(leaf, Run | Sampled) or participation(leaf, adjacency).kind != "once":
            plain = False
        elif plain:
            mu_of_one = leaf.mechanism.mu(adjacency)
            squares.append(math.inf if mu_of_one is None else mu_of_one * mu_of_one * count)
            uses += [leaf.mechanism] if count == 1 else []
    mu = math.sqrt(math.fsum(squares)) if plain else math.inf  # proof: GDP-COMPOSITION
    once = tuple(uses) if plain and len(uses) == len(leaves) else ()
    return leaves, math.fsum(pure), mu, once


def _two_uses(uses: tuple[Mechanism, ...], epsilon: float, adjacency: Adjacency) -> Iterator[float]:
    """Yield delta_1(e - e_2) + delta_2(e_2) of two plain single uses for some splits.

    Near the largest loss of a pure mechanism the lattice is loose and this is not: it is how
    objective perturbation with its tiny second release is calibrated, whose own split comes first.
    """
    # proof: FILTER-SUMS
    if len(uses) == 2:
        first, second = uses
        for share in (5e-4, 1e-4, 8e-4, 2e-3, 1e-2, 5e-2, 0.2, 0.5):
            spent = epsilon * share
            yield first.delta(epsilon - spent, adjacency) + second.delta(spent, adjacency)


def run_delta(plan: Plan, epsilon: float, relation: Adjacency) -> float:
    """Return a proven delta of one run of a search, whose curve takes many readings.

    As `delta`, without the bounds that cost time and are not the least there.
    """
    _, pure, mu, uses = _exact(plan, relation)
    if pure <= epsilon:
        return 0.0
    if math.isfinite(mu) and not math.isfinite(pure):
        return float(stated_delta(mu, epsilon))
    value = NumericalAccountant().delta(plan, epsilon=epsilon, adjacency=relation)
    if epsilon > 0.6 * pure and value < 1e-4:  # where the lattice is loose
        value = min(value, *_two_uses(uses, epsilon, relation), 1.0)
    if len(uses) == 1:
        value = min(value, uses[0].delta(epsilon, relation))
    return value


def _inverse(
    mechanism: Mechanism, delta: float, adjacency: Adjacency, high: float, rtol: float = 1e-13
) -> float:
    """Return the least epsilon <= high with mechanism.delta(epsilon) <= delta, rounded up."""

    def excess(epsilon: float) -> float:
        return math.log(max(mechanism.delta(epsilon, adjacency), 1e-300) / delta)

    if not math.isfinite(high) or excess(high) > 0.0:
        return math.inf
    if excess(0.0) <= 0.0:
        return 0.0
    return private_root(
        excess, 0.0, high, lambda x, turn: min(high, x * (1.0 + 1e-14 * 2.0**turn)),
        xtol=1e-14, rtol=rtol,
    )  # fmt: skip


def _just_below(curve: Callable[[float], float], delta: float, upper: float) -> float:
    """Return an epsilon close to `upper` at which an exact curve is certainly above `delta`."""
    value, step = upper, 1e-12
    while value > 0.0 and curve(value) * (1.0 - 1e-9) <= delta:
        value, step = max(0.0, upper * (1.0 - step)), 4.0 * step
    return value


def bracket(
    plan: PlanLike,
    *,
    delta: float,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    rtol: float = 1e-3,
) -> tuple[float, float]:
    """Return certified (lower, upper) bounds on the true epsilon of `plan` at `delta`.

    The upper bound is the promise; the lower bound says how much of it could be slack (0 where
    no lower bound is known). `rtol` is the wanted relative width where the plan's own theorem is
    exact. A delta below 1e-300 is read as 0, which can only cost more.

    Parameters
    ----------
    plan : Plan or Mechanism
        What would run; a mechanism is one run of it.
    delta : float
        Where to read the curve.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.
    rtol : float, default 1e-3
        The wanted relative width.

    Returns
    -------
    tuple of float
        The lower and the upper bound.

    Raises
    ------
    Unproven
        If a sampler or mechanism has no theorem under this relation.
    AdjacencyMismatch
        If the plan is bound to another relation.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans, sampling
    >>> step = plans.Sampled(mechanisms.Gaussian(noise_multiplier=1.0), sampling.Poisson(rate=0.01))
    >>> low, high = accounting.bracket(plans.Repeat(step, 100), delta=1e-5, adjacency="add-remove")
    >>> 0.0 < low <= high < 1.01 * low
    True

    """
    delta = _validate.delta(delta)
    delta = delta if delta >= _SMALLEST_DELTA else 0.0
    return _bracket(as_plan(plan), delta, Adjacency.of(adjacency), rtol)


# A fit asks for the same plan when it charges, when it states its guarantee and when it is
# repeated; the answer depends on public facts only.
@lru_cache(maxsize=1024)
def _bracket(plan: Plan, delta: float, relation: Adjacency, rtol: float) -> tuple[float, float]:
    if plan._groups > 1:  # proof: PARALLEL-GROUPS
        ends = [_bracket(each, delta, relation, rtol) for each in plan.alternatives()]
        lows, highs = zip(*ends, strict=True)
        return max(lows), max(highs)
    leaves, pure, mu, uses = _exact(plan, relation)
    gaussian, single = math.isfinite(mu), len(uses) == 1
    known = attained(leaves, relation)  # then the plan's own curve is exact
    if delta == 0.0:  # only a pure accountant can answer
        low = pure * (1.0 - 2.0**-50) if math.isfinite(pure) else pure
        return low if known else 0.0, pure
    if known and gaussian:
        upper = gdp_epsilon(mu, delta)
        return _just_below(lambda e: float(gdp_delta(mu, e)), delta, upper), upper
    if known and single:
        upper = _inverse(uses[0], delta, relation, pure)
        return _just_below(lambda e: uses[0].delta(e, relation), delta, upper), upper
    low, high = NumericalAccountant(rtol).bracket(plan, delta=delta, adjacency=relation)
    upper = min(pure, high, gdp_epsilon(mu, delta) if gaussian else math.inf)
    if single and not gaussian:
        # Beside another bound: a few digits are enough, and where that is less one reading.
        upper = min(upper, _inverse(uses[0], delta, relation, upper, rtol=1e-9))
    if any(isinstance(leaf, Declared) for leaf, _ in leaves):
        # At exactly the declared delta plain sums are tight and the lattice is not.
        upper = min(upper, LinearAccountant().epsilon(plan, delta=delta, adjacency=relation))
    if not math.isfinite(upper):
        upper = RenyiAccountant().epsilon(plan, delta=delta, adjacency=relation)
    return min(low, upper), upper


def epsilon(
    plan: PlanLike, *, delta: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
) -> float:
    """Return the least proven epsilon of `plan` at `delta` (inf if no theorem bounds it).

    Parameters
    ----------
    plan : Plan or Mechanism
        What would run; a mechanism is one run of it.
    delta : float
        Where to read the curve.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.

    Returns
    -------
    float
        The upper end of `bracket`, which says what is refused.

    Examples
    --------
    >>> from noisette import accounting, mechanisms, plans
    >>> count = mechanisms.Laplace(noise_multiplier=8.0)
    >>> accounting.epsilon(count, delta=0.0)
    0.25
    >>> accounting.epsilon(plans.Repeat(plans.Run(count), 10), delta=0.0)
    2.5

    """
    return bracket(plan, delta=delta, adjacency=adjacency)[1]


def delta(
    plan: PlanLike, *, epsilon: float, adjacency: Adjacency | str = Adjacency.REPLACE_ONE
) -> float:
    """Return the least proven delta of `plan` at `epsilon` (1 if no theorem bounds it).

    Parameters
    ----------
    plan : Plan or Mechanism
        What would run; a mechanism is one run of it.
    epsilon : float
        Where to read the curve.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.

    Returns
    -------
    float
        A proven upper bound; what `bracket` refuses is refused.

    Examples
    --------
    >>> from noisette import accounting, mechanisms
    >>> accounting.delta(mechanisms.Laplace(noise_multiplier=8.0), epsilon=0.25)
    0.0
    >>> 0.0 < accounting.delta(mechanisms.Laplace(noise_multiplier=8.0), epsilon=0.2) < 0.03
    True

    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    return _delta(as_plan(plan), epsilon, Adjacency.of(adjacency))


@lru_cache(maxsize=1024)
def _delta(plan: Plan, epsilon: float, relation: Adjacency, enough: float = 0.0) -> float:
    """Return the least proven delta, or the first one that is at most `enough`."""

    def bounds(each: Plan, mu: float, uses: tuple[Mechanism, ...]) -> Iterator[float]:
        # the dearest last
        if math.isfinite(mu):
            yield float(stated_delta(mu, epsilon))
        if len(uses) == 1:
            yield uses[0].delta(epsilon, relation)
        yield from _two_uses(uses, epsilon, relation)
        yield NumericalAccountant().delta(each, epsilon=epsilon, adjacency=relation)

    worst = 0.0
    for each in plan.alternatives():  # proof: PARALLEL-GROUPS
        (_, pure, mu, uses), least = _exact(each, relation), math.inf
        if pure <= epsilon:
            continue
        for bound in bounds(each, mu, uses):
            # Not pure at this epsilon, so delta is positive even where its double is 0.
            least = min(least, max(bound, _SMALLEST_DELTA))
            if least <= enough:
                break
        worst = max(worst, least)
    return worst


def holds(
    plan: PlanLike,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> bool:
    """Return whether `plan` is proven to be (epsilon, delta)-private.

    The same bounds as those of `delta`, then `epsilon`, from the cheapest to the dearest; the first
    that is small enough ends it.

    Parameters
    ----------
    plan : Plan or Mechanism
        What would run; a mechanism is one run of it.
    epsilon, delta : float
        The promise.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation.

    Returns
    -------
    bool
        Whether some theorem says so; what `bracket` refuses is refused.

    Examples
    --------
    >>> from noisette import accounting, mechanisms
    >>> count = mechanisms.Laplace(noise_multiplier=8.0)
    >>> accounting.holds(count, epsilon=0.25, delta=0.0)
    True
    >>> accounting.holds(count, epsilon=0.2, delta=0.0)
    False

    """
    epsilon, delta = _validate.non_negative("epsilon", epsilon), _validate.delta(delta)
    # Asked twice: the two readings of one curve are rounded differently.
    return (
        delta >= _SMALLEST_DELTA
        and _delta(as_plan(plan), epsilon, Adjacency.of(adjacency), delta) <= delta
    ) or bracket(plan, delta=delta, adjacency=adjacency)[1] <= epsilon
