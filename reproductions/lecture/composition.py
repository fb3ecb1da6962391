"""Epsilon over the number of steps, by each accountant that the lecture goes through."""

from typing import Any

from noisette import accounting
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Repeat, Run, Sampled
from noisette.core.sampling import Poisson

__all__ = ["ACCOUNTANTS", "DELTA", "RATE", "STEPS", "costs"]

DELTA, RATE = 1e-5, 0.01
STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
ACCOUNTANTS = {
    "linear": "linear composition",
    "linear-sampled": "linear composition, subsampling",
    "moments": "moments accountant (lecture)",
    "renyi": "the same moments, sharp conversion",
    "upper": "certified upper bound",
    "lower": "certified lower bound",
}


def costs(steps: int, multiplier: float = 1.0) -> list[dict[str, Any]]:
    """Return epsilon at DELTA of `steps` Gaussian steps on Poisson batches, add-remove."""
    full = Repeat(Run(Gaussian(multiplier)), steps)
    sampled = Repeat(Sampled(Gaussian(multiplier), Poisson(RATE)), steps)
    ask: dict[str, Any] = {"delta": DELTA, "adjacency": "add-remove"}
    kinds = accounting.ACCOUNTANTS
    lower, upper = accounting.bracket(sampled, **ask)
    found = {
        "linear": kinds["linear"]().epsilon(full, **ask),
        "linear-sampled": kinds["linear"]().epsilon(sampled, **ask),
        "moments": kinds["moments"]().epsilon(sampled, **ask),
        "renyi": kinds["renyi"]().epsilon(sampled, **ask),
        "upper": upper,
        "lower": lower,
    }
    return [{"accountant": name, "epsilon": value} for name, value in found.items()]
