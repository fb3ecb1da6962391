"""A small table, its labels as classes and as signs, and a classifier for it."""

import numpy as np

from noisette.core.randomness import Randomness
from noisette.models.sgd import SGDClassifier

N, D = 200, 3
X = np.random.default_rng(5).standard_normal((N, D))
Y = (X[:, 0] > 0).astype(int)
SIGNS = np.where(Y == 1, 1.0, -1.0)
SEEDED = Randomness.from_seed(1)


def model(epsilon=1.0, delta=0.0, **options):
    return SGDClassifier(
        epsilon, delta, **{"norm_bound": 1.0, "classes": [0, 1], "random_state": 0, **options}
    )
