"""Shared set-up: puts ``tests/`` on the path, so that `helpers` can be imported everywhere."""

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("noisette", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("noisette")


@pytest.fixture
def rng() -> np.random.Generator:
    """A plain generator with a fixed seed, for test data and oracles only."""
    return np.random.default_rng(20240607)
