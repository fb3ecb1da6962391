"""Private tuning: the best of a random number of runs, with one guarantee for the whole search."""

from noisette.tuning.scores import SCORES
from noisette.tuning.search import PrivateSearch, SearchOutlook

__all__ = ["SCORES", "PrivateSearch", "SearchOutlook"]
