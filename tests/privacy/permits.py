"""Permits, values and a seeded source for the tests of the door."""

import numpy as np

from noisette.core.adjacency import REPLACE_ONE
from noisette.core.bounded import Bounded
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.randomness import Randomness


def permit_for(plan, relation=REPLACE_ONE, delta=0.0) -> Permit:
    total = 0.5 if delta else 0.0
    return Ledger(1e6, total, adjacency=relation).charge(plan, label="test", delta=delta)


def source(seed=1) -> Randomness:
    return Randomness.from_seed(seed)


def vector(d=3, relation=REPLACE_ONE, **bound) -> Bounded:
    return Bounded(np.arange(float(d)), relation, "CLIP", **(bound or {"contribution": 1.0}))
