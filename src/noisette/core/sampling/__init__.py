"""Samplers: batches and their amplification in one object. A new one is a file and a line here."""

from noisette.core import by_name
from noisette.core.sampling.base import Participation as Participation
from noisette.core.sampling.base import PassSampler as PassSampler
from noisette.core.sampling.base import Sampler
from noisette.core.sampling.independent import FullBatch, Poisson, RandomAllocation
from noisette.core.sampling.passes import Cyclic, Disjoint, Shuffle
from noisette.core.sampling.without_replacement import PartialShuffle, WithoutReplacement

__all__ = [
    "SAMPLERS", "Cyclic", "Disjoint", "FullBatch", "PartialShuffle", "Poisson",
    "RandomAllocation", "Sampler", "Shuffle", "WithoutReplacement",
]  # fmt: skip

SAMPLERS: dict[str, type[Sampler]] = by_name(
    Cyclic, Disjoint, FullBatch, PartialShuffle, Poisson, RandomAllocation, Shuffle,
    WithoutReplacement,
)  # fmt: skip
"""Every sampler by its name."""
