"""Plans: an immutable description of what will run, readable by people, accountants and JSON.

>>> from noisette import mechanisms, plans, sampling
>>> step = plans.Sampled(mechanisms.Gaussian(noise_multiplier=1.0), sampling.Poisson(rate=0.01))
>>> plans.Repeat(step, 1000)
Repeat(Sampled(Gaussian(noise_multiplier=1.0), Poisson(rate=0.01)), times=1000)

A plan says nothing about the data. It may be bound to one adjacency (`Plan.under`); until then it
can be counted under any relation that its parts have a proof for.
"""

from noisette.core import by_name
from noisette.core.plans.base import PLANS, Plan
from noisette.core.plans.base import Leaf as Leaf
from noisette.core.plans.composed import Parallel, Repeat, Selected, Together
from noisette.core.plans.laws import LAWS, Geometric, Logarithmic, NegativeBinomial, PoissonRuns
from noisette.core.plans.laws import RunLaw as RunLaw
from noisette.core.plans.leaves import Declared, LastIterate, Run, Sampled
from noisette.core.plans.leaves import Noisy as Noisy
from noisette.core.plans.leaves import PlanLike as PlanLike
from noisette.core.plans.leaves import as_plan as as_plan

__all__ = [
    "LAWS", "Declared", "Geometric", "LastIterate", "Logarithmic", "NegativeBinomial", "Parallel",
    "Plan", "PoissonRuns", "Repeat", "Run", "Sampled", "Selected", "Together",
]  # fmt: skip

PLANS.update(by_name(Declared, LastIterate, Parallel, Repeat, Run, Sampled, Selected, Together))
