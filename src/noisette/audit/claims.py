"""What is being tested: an epsilon, an (epsilon, delta) pair, or the whole curve of a guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from noisette import _validate
from noisette.core.accounting.base import counted, participation
from noisette.core.accounting.sums import GaussianAccountant
from noisette.core.guarantee import Guarantee
from noisette.core.plans import Run, Sampled
from noisette.errors import InvalidParameter, Unproven

ClaimLike: TypeAlias = "float | tuple[float, float] | Guarantee"

# A guarantee promises its whole curve; these shares of its epsilon are tried by the pilot.
_SHARES = (0.05, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Claim:
    """The claimed pair, and further pairs that the same guarantee promises."""

    epsilon: float
    delta: float
    more: tuple[tuple[float, float], ...] = ()

    @property
    def pair(self) -> tuple[float, float]:
        """The claimed (epsilon, delta)."""
        return self.epsilon, self.delta

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """All pairs that may be tested, the claimed one first."""
        return (self.pair, *self.more)


def as_claim(claim: ClaimLike) -> Claim:
    """Return the claim that a number, a pair or a `Guarantee` makes."""
    if isinstance(claim, Guarantee):
        return Claim(claim.epsilon, claim.delta, _points(claim.delta_at, claim.epsilon))
    if isinstance(claim, tuple | list):
        if len(claim) != 2:
            raise InvalidParameter("claim must be epsilon, (epsilon, delta) or a Guarantee.")
        return Claim(_validate.epsilon(claim[0]), _validate.delta(claim[1]))
    return Claim(_validate.epsilon(claim), 0.0)


def _points(curve: Callable[[float], float], epsilon: float) -> tuple[tuple[float, float], ...]:
    """Pairs lower on the curve. They are promised just as much, and often easier to refute."""
    found = [(share * epsilon, curve(share * epsilon)) for share in _SHARES]
    return tuple((eps, delta) for eps, delta in found if delta < 0.5)


def gaussian_mu(guarantee: Guarantee) -> float:
    """Return mu if the guarantee's plan is a composition of unsampled Gaussians, else refuse.

    Only there is the promise itself a Gaussian curve. A correct objective perturbation, for
    instance, lies 17 % above the curve of its noise at small epsilon, so testing it against a
    Gaussian curve would raise false alarms.
    """
    # proof: AUDIT-GDP
    worst = 0.0
    for plan in guarantee.plan.alternatives():
        leaves = counted(plan, guarantee.adjacency)
        plain = all(
            isinstance(leaf, Run | Sampled)
            and participation(leaf, guarantee.adjacency).kind == "once"
            for leaf, _ in leaves
        )
        total = GaussianAccountant().total(plan, guarantee.adjacency) if plain else math.inf
        worst = max(worst, math.sqrt(total))
    if not math.isfinite(worst):
        raise Unproven(
            "this guarantee is not a Gaussian curve (its plan is not made of unsampled Gaussian "
            "noise), so the GDP audit could raise false alarms; use two_worlds."
        )
    return worst
