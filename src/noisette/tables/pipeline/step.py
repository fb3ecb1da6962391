"""`Step`: one thing learnt privately from a table, as an algorithm of the same two halves.

A step's plan is a function of public facts and of one number, its `scale`: all noise of the step is
proportional to it, and a step of scale c costs about what `Gaussian(c)` costs. So several steps and
a model can be put into one plan with shares of one budget (mu squared is divided), charged before
the first look; and a step alone takes the least scale within its own (epsilon, delta).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from noisette import _validate
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Plan
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared
from noisette.fitting.algorithms.public import PublicBudget


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


@dataclass(frozen=True)
class StepOutlook:
    """What a step will release and cost, from public facts, before any data exist.

    Attributes
    ----------
    step : str
        The step that would run.
    plan : Plan
        What would be charged.
    epsilon, delta : float
        The guarantee of that plan.
    adjacency : str
        Whose neighbour it is about.
    expected : str
        What the noise does to the answer.
    notes : tuple of str
        What was chosen, and why.

    """

    step: str
    plan: Plan
    epsilon: float
    delta: float
    adjacency: str
    expected: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        pair = f"epsilon = {self.epsilon:.4g}, delta = {self.delta:g} ({self.adjacency})"
        return "\n".join([f"{self.step}: {pair}.", self.expected, *self.notes])
