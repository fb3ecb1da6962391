"""Dominating pairs of single steps, one kind per file."""

from noisette.accounting.numerical.pairs.approximate_dp import ApproximateDP
from noisette.accounting.numerical.pairs.base import Pair, Swapped
from noisette.accounting.numerical.pairs.discrete import Discrete
from noisette.accounting.numerical.pairs.gaussian import GaussianPair
from noisette.accounting.numerical.pairs.labelled import Labelled
from noisette.accounting.numerical.pairs.laplace import LaplacePair
from noisette.accounting.numerical.pairs.poisson import PoissonSampled
from noisette.accounting.numerical.pairs.poisson_replace import PoissonReplace
from noisette.accounting.numerical.pairs.random_allocation import RandomAllocationPair
from noisette.accounting.numerical.pairs.randomized_response import RandomizedResponsePair
from noisette.accounting.numerical.pairs.spherical_laplace import SphericalLaplacePair
from noisette.accounting.numerical.pairs.symmetrised import SymmetrisedSample
from noisette.accounting.numerical.pairs.with_replacement import WithReplacement

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
