"""Solvers: the minimiser of a regularised linear model with a certified distance to it.

>>> import numpy as np
>>> from noisette.losses import Logistic
>>> from noisette.fitting.solvers import minimise
>>> X = np.array([[0.6, 0.8], [-0.8, 0.6]])
>>> solution = minimise(Logistic(), X, [1, -1], regularization=1.0)
>>> solution.distance_bound < 1.1e-6
True
"""

from noisette.fitting.solvers.limits import check_ends, most_steps, smallest_regularization
from noisette.fitting.solvers.minimise import Solution, SolverDefect, minimise
from noisette.fitting.solvers.rounding import PublicFacts, attainable_tolerance, default_tolerance

__all__ = [
    "PublicFacts", "Solution", "SolverDefect", "attainable_tolerance", "check_ends",
    "default_tolerance", "minimise", "most_steps", "smallest_regularization",
]  # fmt: skip
