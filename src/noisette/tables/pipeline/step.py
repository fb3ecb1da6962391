"""`Step`: one thing learnt privately from a table, as an algorithm of the same two halves.

A step's plan is a function of public facts and of one number, its `scale`: all noise of the step is
proportional to it, and a step of scale c costs about what `Gaussian(c)` costs. So several steps and
a model can be put into one plan with shares of one budget (mu squared is divided), charged before
the first look; and a step alone takes the least scale within its own (epsilon, delta).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.parts import all_of, each
from noisette.core.plans import Plan
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.records import check_unit, inside
from noisette.fitting.units import Unit


@dataclass(frozen=True)
class PreparedStep(Prepared):
    """The plan of one step, and the scale of its noise."""

    scale: float = 1.0


class Step(Algorithm[PreparedStep]):
    """One theorem, one file. Subclasses are frozen dataclasses of public facts.

    ``run`` takes a `Sample` and returns the released facts as plain numbers and texts.
    """

    pure: ClassVar[bool] = False
    """Whether it can run with delta = 0."""
    proofs: ClassVar[tuple[str, ...]] = ()
    """Theorems beside those of its bounds and its plan."""
    notes: ClassVar[Any] = ()
    """What was chosen, and why."""
    pure_cost: ClassVar[Any] = 1.0
    """The pure epsilon of the step at scale 1, for each contribution."""

    @abstractmethod
    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return what runs, with noise proportional to `scale`."""

    @abstractmethod
    def expected(self, prepared: PreparedStep) -> str:
        """Return one sentence about the noise, from public facts."""

    def prepared(self, public: PublicBudget, scale: float) -> PreparedStep:
        """Return this step at a given scale, as a part of a larger plan."""
        # proof: PLAN-BEFORE-LOOK
        scale = _validate.positive("scale", scale)
        proofs = (*self.proofs, "ADJACENCY", "PLAN-BEFORE-LOOK")
        return PreparedStep(public, self.plan(scale, public.adjacency), proofs, scale)

    def prepare(self, public: PublicBudget) -> PreparedStep:
        """Return this step alone, with the least noise within the budget."""
        if public.delta == 0.0 and not self.pure:
            fit = _validate.proposed_delta(public.size)
            raise InvalidParameter(f"{self.name} needs delta > 0, such as {fit}.")
        scale = _calibrated(self, public.epsilon, public.delta, public.adjacency)
        return self.prepared(public, scale)


@lru_cache(maxsize=128)
def _calibrated(step: Step, epsilon: float, delta: float, adjacency: Adjacency) -> float:
    return accounting.calibrate(
        lambda c: step.plan(c, adjacency), epsilon=epsilon, delta=delta, adjacency=adjacency
    )


def exponential_epsilon(scale: float, uses: int, adjacency: Adjacency) -> float:
    """Return the epsilon of each of `uses` noisy choices that together cost about Gaussian(scale).

    One choice of epsilon e costs e^2 / 8 where Gaussian noise costs (contributions / scale)^2 / 2
    in zero-concentrated privacy. Only a rule for sharing: the plan is counted as what it is.
    """
    return 2.0 * adjacency.contributions / (scale * math.sqrt(uses))


# --- what a step looks at: checked before the charge, and never shown -----------------------------

_MOST = 2**30  # ranks and counts of so many rows are exact, weights of 2^-20 included


class Sample:
    """What a step looks at, and how much every row counts.

    Parameters
    ----------
    data : what the step says it takes: a list of columns, or a matrix of rows.
    weights : one number in [0, 1] for each row; None is 1 for each. They are a function of their
        own person's rows, and those of one person add up to at most 1. A record of weight 0 takes
        part in nothing: it is the blanked record of zero-out.
    labels : class numbers 0, 1, ... of the rows, for steps that need them.
    count : the number of rows.
    unit : whose rows they are.

    """

    def __init__(
        self, data: Any, weights: Any = None, labels: Any = None, *, count: int | None = None
    ) -> None:
        self.data = data
        self.weights: Floats | None = None
        if weights is not None:
            self.weights = each(partial(np.asarray, dtype=float), weights)
        self.labels = None if labels is None else each(np.asarray, labels)
        self.count = int(data.shape[0]) if count is None else int(count)
        self.unit = Unit(self.count)

    def group(self, unit: Unit) -> "Sample":
        """Return itself with the rows grouped by unit, whose weights are shared from now on."""
        self.weights, self.unit = unit.share(self.weights), unit
        return self

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        most = _MOST
        if public.most is not None and not public.grouped:
            most = min(public.most, _MOST)
        if self.count > most:
            raise InvalidParameter(f"the data have more rows than the declared bound {most}.")
        check_unit(self, public)
        weights = self.weights
        if weights is not None and not (
            weights.shape == (self.count,) and all_of(partial(inside, 1.0), weights)
        ):
            raise InvalidData("weights must be one number between 0 and 1 for each row.")
        if self.labels is not None and self.labels.shape != (self.count,):
            raise InvalidData("labels must have one entry for each row.")
