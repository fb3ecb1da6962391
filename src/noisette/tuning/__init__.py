"""Private tuning: the best of a random number of runs, with one guarantee for the whole search."""

from noisette.models.private import Forecast as SearchOutlook  # noqa: F401
from noisette.tuning.choosing import EpsilonCurve, compare_epsilons
from noisette.tuning.scores import SCORES as SCORES
from noisette.tuning.search import PrivateSearch

__all__ = ["EpsilonCurve", "PrivateSearch", "compare_epsilons"]
