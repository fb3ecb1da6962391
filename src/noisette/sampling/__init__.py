"""Samplers: batches and their amplification in one object. A new one is a file and a line here."""

from noisette.sampling.base import Participation, PassSampler, Sampler
from noisette.sampling.full_batch import FullBatch
from noisette.sampling.passes import Cyclic, Disjoint, Shuffle
from noisette.sampling.poisson import Poisson
from noisette.sampling.random_allocation import RandomAllocation
from noisette.sampling.without_replacement import PartialShuffle, WithoutReplacement

__all__ = [
    "SAMPLERS",
    "Cyclic",
    "Disjoint",
    "FullBatch",
    "PartialShuffle",
    "Participation",
    "PassSampler",
    "Poisson",
    "RandomAllocation",
    "Sampler",
    "Shuffle",
    "WithoutReplacement",
]

SAMPLERS: dict[str, type[Sampler]] = {
    kind.name: kind
    for kind in (
        Cyclic,
        Disjoint,
        FullBatch,
        PartialShuffle,
        Poisson,
        RandomAllocation,
        Shuffle,
        WithoutReplacement,
    )
}
"""Every sampler by its name."""
