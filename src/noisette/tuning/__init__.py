"""Private tuning: the best of a random number of runs, with one guarantee for the whole search."""

from noisette.tuning.choosing import EpsilonCurve, compare_epsilons
from noisette.tuning.search import PrivateSearch

__all__ = ["EpsilonCurve", "PrivateSearch", "compare_epsilons"]
