"""Private tuning: the best of a random number of runs, with one guarantee for the whole search."""

from noisette.tuning.choosing import EpsilonCurve, compare_epsilons
from noisette.tuning.scores import SCORES
from noisette.tuning.search import PrivateSearch, SearchOutlook

__all__ = ["SCORES", "EpsilonCurve", "PrivateSearch", "SearchOutlook", "compare_epsilons"]
