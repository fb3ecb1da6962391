"""`Outlook`: what a training will release and cost, from public facts, before any data exist."""

import math
from dataclasses import dataclass

from noisette.core import accounting
from noisette.core.adjacency import UNITS
from noisette.core.plans import Plan
from noisette.fitting.algorithms.algorithm import PreparedModel
from noisette.fitting.algorithms.prospects import WEIGHT_NORM
from noisette.fitting.algorithms.recommend import Recommendation

_SECONDS = 2e-9  # for an entry of the matrix in one pass, on one core of 2026


@dataclass(frozen=True)
class Outlook:
    """The plan of one fit and what to expect of it.

    Attributes
    ----------
    algorithm : str
        The algorithm that would run.
    plan : Plan
        What would be charged.
    epsilon, delta : float
        The guarantee of that plan.
    adjacency : str
        Whose neighbour it is about.
    weight_noise : float or None
        About the standard deviation that privacy adds to each weight; None where it depends on the
        data.
    typical_weight : float
        About the size of a weight that matters, for rows that fill the norm bound.
    memory : int
        Bytes, about.
    seconds : float
        Time on one core, about.
    notes : tuple of str
        What was chosen, and why.
    unit : str
        Whose data would be protected together: "record" or "person".

    """

    algorithm: str
    plan: Plan
    epsilon: float
    delta: float
    adjacency: str
    weight_noise: float | None
    typical_weight: float
    memory: int
    seconds: float
    notes: tuple[str, ...]
    unit: str = "record"

    def __str__(self) -> str:
        noise = "The noise in each weight depends on the data."
        if self.weight_noise is not None:
            noise = (
                f"Each weight gets noise of about {self.weight_noise:.2g}; "
                f"a typical weight is about {self.typical_weight:.2g}."
            )
        lines = [
            f"{self.algorithm}: epsilon = {self.epsilon:.4g}, delta = {self.delta:g} "
            f"({self.adjacency}{', persons' * UNITS[self.unit].grouped}).",
            noise,
            f"About {self.memory / 1e6:,.0f} MB of memory and {self.seconds:.2g} s on one core.",
            *self.notes,
        ]
        return "\n".join(lines)


def outlook(recommended: Recommendation, rows: int) -> Outlook:
    """Return what the recommended training of `rows` rows will release and cost."""
    public, algorithm = recommended.public, recommended.algorithm
    prepared: PreparedModel = algorithm.prepare(public)
    entries = rows * public.features
    bound = public.norm_bound if math.isfinite(public.norm_bound) else 1.0
    return Outlook(
        algorithm=algorithm.name,
        plan=prepared.plan,
        epsilon=accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency),
        delta=public.delta,
        adjacency=str(public.adjacency),
        weight_noise=prepared.weight_noise,
        typical_weight=WEIGHT_NORM / bound / math.sqrt(public.features),
        memory=int(8 * entries + 8 * public.dimension * public.models + 30e6),
        seconds=_SECONDS * entries * algorithm.passes(prepared),
        notes=recommended.notes,
        unit=public.unit,
    )
