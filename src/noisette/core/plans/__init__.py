"""Plans: an immutable description of what will run, readable by people, accountants and JSON.

>>> from noisette import mechanisms, plans, sampling
>>> step = plans.Sampled(mechanisms.Gaussian(noise_multiplier=1.0), sampling.Poisson(rate=0.01))
>>> plans.Repeat(step, 1000)
Repeat(Sampled(Gaussian(noise_multiplier=1.0), Poisson(rate=0.01)), times=1000)

A plan says nothing about the data. It may be bound to one adjacency (`Plan.under`); until then it
can be counted under any relation that its parts have a proof for.
"""

from noisette.core.plans.base import PLANS, Leaf, Plan
from noisette.core.plans.composed import Parallel, Repeat, Together
from noisette.core.plans.last_iterate import LastIterate
from noisette.core.plans.laws import (
    LAWS,
    Geometric,
    Logarithmic,
    NegativeBinomial,
    PoissonRuns,
    RunLaw,
)
from noisette.core.plans.leaves import Declared, Noisy, PlanLike, Run, Sampled, as_plan
from noisette.core.plans.selected import Selected

__all__ = [
    "LAWS",
    "PLANS",
    "Declared",
    "Geometric",
    "LastIterate",
    "Leaf",
    "Logarithmic",
    "NegativeBinomial",
    "Noisy",
    "Parallel",
    "Plan",
    "PlanLike",
    "PoissonRuns",
    "Repeat",
    "Run",
    "RunLaw",
    "Sampled",
    "Selected",
    "Together",
    "as_plan",
]

PLANS.update(
    (kind.name, kind)
    for kind in (Declared, LastIterate, Parallel, Repeat, Run, Sampled, Selected, Together)
)
