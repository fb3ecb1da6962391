"""Certified numerical privacy accounting: brackets that hold the true ε or δ.

Describe each step by a dominating pair, list the compositions of all neighbour orders, and ask for
a bracket::

    step = PoissonSampled(GaussianPair(1 / 1.0), 0.01)
    orders = [[(step, step, 1000)], [(step.swapped(), step.swapped(), 1000)]]
    lower, upper = epsilon_bracket(orders, delta=1e-5)
"""

from noisette.core.accounting.numerical.bracket import (
    Bracket,
    Step,
    delta_bracket,
    epsilon_bracket,
    two_orders,
)
from noisette.core.accounting.numerical.lattice import CertificateError
from noisette.core.accounting.numerical.pairs import (
    ApproximateDP,
    Discrete,
    GaussianPair,
    Labelled,
    LaplacePair,
    Pair,
    PoissonReplace,
    PoissonSampled,
    RandomAllocationPair,
    RandomizedResponsePair,
    SphericalLaplacePair,
    Swapped,
    SymmetrisedSample,
    WithReplacement,
)

__all__ = [
    "ApproximateDP",
    "Bracket",
    "CertificateError",
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
    "Step",
    "Swapped",
    "SymmetrisedSample",
    "WithReplacement",
    "delta_bracket",
    "epsilon_bracket",
    "two_orders",
]
