"""Privacy filters: rules that stay valid when each charge is chosen after seeing earlier outputs.

Ordinary composition theorems fix all parameters in advance. A ledger cannot: its user looks at
one model before asking for the next. Each rule here is proven for that case, and stays valid when
open permits are used in turns (proof: FILTER-CONCURRENT). Costs are additive;
a charge is accepted iff every component of the sum stays within a limit fixed at the opening.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from noisette import _validate
from noisette.core import by_name
from noisette.core.accounting.base import counted
from noisette.core.accounting.moments import log_moment
from noisette.core.accounting.sums import GaussianAccountant
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_mu
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.errors import InvalidParameter, Unproven

Cost = tuple[float, float]


class Filter(ABC):
    """One rule: the cost of a plan, and the limit on the sum of costs."""

    name: ClassVar[str]
    proof: ClassVar[str]
    slack: ClassVar[float] = 0.0
    needs_delta: ClassVar[bool] = True

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = _validate.epsilon(epsilon), _validate.delta(delta)
        self.limit: Cost = self.epsilon, self.delta
        if self.needs_delta and self.delta == 0.0:
            raise InvalidParameter(
                f"the {self.name!r} rule needs delta > 0; use rule='sums' for delta 0."
            )

    @abstractmethod
    def cost(self, plan: PlanLike, own: Cost, adjacency: Adjacency) -> Cost:
        """Return what `plan` costs under this rule, or raise.

        `own` is the (epsilon, delta) of the plan by itself, which the ledger has computed.
        """

    @property
    def most(self) -> Cost:
        """The largest exact sums whose rounded ones `accepts` may accept."""
        ends = [end and math.nextafter(end * (1.0 + self.slack), math.inf) for end in self.limit]
        return ends[0], ends[1]

    def accepts(self, spent: list[Cost], cost: Cost) -> bool:
        """Return whether `cost` still fits beside everything spent.

        Each sum is rounded once, and compared with the limit up to `slack`.
        """
        first, second = map(math.fsum, zip(*spent, cost, strict=True))
        room = 1.0 + self.slack
        return first <= self.limit[0] * room and second <= self.limit[1] * room


class SumFilter(Filter):
    """Sum of epsilons <= epsilon and sum of deltas <= delta (basic composition is a filter)."""

    name: ClassVar[str] = "sums"
    proof: ClassVar[str] = "FILTER-SUMS"
    # So that three charges of 0.1 fit a total of 0.3: users mean decimals, not the binary numbers
    # next to them. It is 1e-15 relative.
    slack: ClassVar[float] = 2.0**-50
    needs_delta: ClassVar[bool] = False

    def cost(self, plan: PlanLike, own: Cost, adjacency: Adjacency) -> Cost:
        """Return (epsilon of the plan at its own delta, that delta)."""
        # proof: FILTER-SUMS
        return own


class RenyiFilter(Filter):
    """Renyi privacy at one order, fixed by the total alone (Feldman and Zrnic 2021)."""

    name: ClassVar[str] = "renyi"
    proof: ClassVar[str] = "FILTER-RENYI"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        # The order that allows the largest Gaussian composition within (epsilon, delta).
        best = minimize_scalar(
            lambda t: -self._limit(1.0 + math.exp(t)) / (1.0 + math.exp(t)),
            bounds=(-12.0, 12.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        self.order = 1.0 + math.exp(float(best.x))
        self.limit = (self._limit(self.order), 0.0)
        if self.limit[0] <= 0.0:
            raise InvalidParameter(
                f"(epsilon, delta) = ({epsilon:g}, {delta:g}) leaves nothing to spend under the "
                "'renyi' rule; use a larger delta or rule='sums'."
            )

    def _limit(self, order: float) -> float:
        # proof: FILTER-RENYI
        return (
            self.epsilon
            - math.log1p(-1.0 / order)
            + (math.log(self.delta) + math.log(order)) / (order - 1.0)
        )

    def cost(self, plan: PlanLike, own: Cost, adjacency: Adjacency) -> Cost:
        """Return the Renyi divergence bound of the plan at the ledger's order."""
        s = np.array([self.order - 1.0])
        renyi = max(
            math.fsum(
                float(log_moment(leaf, s, adjacency)[0]) * count
                for leaf, count in counted(alternative, adjacency)
            )
            for alternative in as_plan(plan).alternatives()
        ) / (self.order - 1.0)
        if not math.isfinite(renyi):
            raise Unproven(
                "this plan has no Renyi bound; charge it to a ledger with rule='sums' instead."
            )
        return renyi, 0.0


class GaussianFilter(Filter):
    """Sum of mu squared, for ledgers whose charges are all mu-GDP, as Gaussian noise is."""

    name: ClassVar[str] = "gdp"
    proof: ClassVar[str] = "FILTER-GDP"

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__(epsilon, delta)
        self.limit = (gdp_mu(self.epsilon, self.delta) ** 2, 0.0)

    def cost(self, plan: PlanLike, own: Cost, adjacency: Adjacency) -> Cost:
        """Return mu squared of the plan."""
        # proof: FILTER-GDP
        alternatives = as_plan(plan).alternatives()
        total = max(GaussianAccountant().total(each, adjacency) for each in alternatives)
        if not math.isfinite(total):
            raise Unproven(
                "the 'gdp' rule only takes Gaussian noise; charge this plan to a ledger with "
                "rule='renyi' or rule='sums'."
            )
        return total, 0.0


FILTERS: dict[str, type[Filter]] = by_name(SumFilter, RenyiFilter, GaussianFilter)
