"""Dominating pairs of single steps, one kind per file."""

from noisette.core.accounting.numerical.pairs.approximate_dp import ApproximateDP
from noisette.core.accounting.numerical.pairs.base import Pair, Swapped
from noisette.core.accounting.numerical.pairs.discrete import Discrete
from noisette.core.accounting.numerical.pairs.gaussian import GaussianPair
from noisette.core.accounting.numerical.pairs.labelled import Labelled
from noisette.core.accounting.numerical.pairs.laplace import LaplacePair
from noisette.core.accounting.numerical.pairs.poisson import PoissonSampled
from noisette.core.accounting.numerical.pairs.poisson_replace import PoissonReplace
from noisette.core.accounting.numerical.pairs.random_allocation import RandomAllocationPair
from noisette.core.accounting.numerical.pairs.randomized_response import RandomizedResponsePair
from noisette.core.accounting.numerical.pairs.spherical_laplace import SphericalLaplacePair
from noisette.core.accounting.numerical.pairs.symmetrised import SymmetrisedSample
from noisette.core.accounting.numerical.pairs.with_replacement import WithReplacement

__all__ = [
    "ApproximateDP",
    "Discrete",
    "GaussianPair",
    "Labelled",
    "LaplacePair",
    "Pair",
    "PoissonReplace",
    "PoissonSampled",
    "RandomAllocationPair",
    "RandomizedResponsePair",
    "SphericalLaplacePair",
    "Swapped",
    "SymmetrisedSample",
    "WithReplacement",
]
